//! Several requests served at once by one warp, a lane each.
//!
//! A warp that serves one request after another pays the bus for each: a read of the payload, and a fence before the answer. A
//! batch pays both once. All lanes fetch the slots together, each lane checks one of them, threads' handlers are called side by side
//! and warps' handlers one after the other, all lanes write the responses together, and one fence publishes them. Refusals and
//! requests for a grid are left to `serve`.

use super::bits::{nth, spread};
use super::slot_state::RESPONDED;
use super::{BlockDispatcher, Call, Machine, Returned, WarpContext, serve, slot_state};
use ringcall_gpu::barrier;
use ringcall_gpu::shared::{Pair, Rows};
use ringcall_gpu::staging::StagingBuffer;
use ringcall_gpu::team::Warp;
use ringcall_protocol::RingMemory;
use ringcall_protocol::validate;
use ringcall_wire::counter::Counter;
use ringcall_wire::flag;
use ringcall_wire::header::{HEADER_BYTES, RequestHeader, ResponseHeader};
use ringcall_wire::launch::{DeviceEntry, HandlerKind};
use ringcall_wire::status::{DispatchMode, Status};

/// Requests of one window for one warp, whose slots are all in the state `BUSY`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Batch {
    /// First slot of the window.
    pub(super) first: u32,
    /// A bit a slot from `first` on.
    pub(super) slots: u64,
    /// Those of them whose flag was not their address.
    pub(super) invalid_flags: u64,
    /// The bit that comes first.
    pub(super) turn: u32,
}

impl Batch {
    /// Takes one request out: its slot, and whether its flag was its address.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<(u32, bool)> {
        if self.slots == 0 {
            return None;
        }
        let bit = self.bit_at(self.in_order().trailing_zeros());
        self.slots &= !(1 << bit);
        Some((self.first + bit, self.invalid_flags >> bit & 1 == 0))
    }

    /// The slots, rotated: bit 0 is the slot that comes first.
    #[inline(always)]
    pub(super) const fn in_order(&self) -> u64 {
        self.slots.rotate_right(self.turn)
    }

    /// The bit at position `rotated`, counted from the bit that comes first.
    #[inline(always)]
    fn bit_at(&self, rotated: u32) -> u32 {
        (rotated + self.turn) % 64
    }

    /// The `n`th of the `chosen` bits.
    #[inline(always)]
    fn nth(&self, chosen: u64, n: u32) -> Option<u32> {
        nth(chosen.rotate_right(self.turn), n).map(|rotated| self.bit_at(rotated))
    }
}

/// Division by a number of pairs, as a multiplication: exact for products of dividend and divisor below 2^32.
#[derive(Clone, Copy)]
struct Divisor {
    pairs: u32,
    inverse: u32,
}

impl Divisor {
    #[inline(always)]
    fn new(pairs: u32) -> Self {
        // For 1 the inverse does not fit: `split` does without.
        Self { pairs, inverse: (u32::MAX / pairs.max(1)).wrapping_add(1) }
    }

    /// Quotient and remainder.
    #[inline(always)]
    fn split(self, at: u32) -> (u32, u32) {
        let quotient =
            if self.pairs <= 1 { at } else { ((u64::from(at) * u64::from(self.inverse)) >> 32) as u32 };
        (quotient, at - quotient * self.pairs)
    }
}

/// Loads of a lane that are under way at once. More take as long: a multiprocessor reads one sector of host memory in some 36 ns.
const ROUND: u32 = 4;

/// One lane's request of a batch.
struct OwnRequest<'a> {
    slot: u32,
    header: RequestHeader,
    /// The function to call; `None` where this lane has none to call.
    entry: Option<&'a DeviceEntry>,
}

/// One lane's answer.
#[derive(Clone, Copy)]
struct OwnAnswer {
    status: Status,
    /// Bytes of the result.
    len: u32,
}

/// Requests that a warp serves at once, at most.
#[inline(always)]
pub(super) fn limit<M: Machine>(block: &BlockDispatcher<'_, M>, warp: Warp<'_>) -> u32 {
    let batches = M::BATCHES && !block.options.is_shared();
    if batches { block.batch.min(warp.lanes()) } else { 1 }
}

/// Fetches, checks, runs and answers the requests of `batch`, no more than [`limit`]. Returns the
/// requests that are to be served alone.
///
/// A separate function, with separate registers.
#[inline(never)]
pub(super) fn serve<M: Machine>(
    block: &BlockDispatcher<'_, M>,
    warp: Warp<'_>,
    me: u32,
    input: StagingBuffer<'_>,
    output: StagingBuffer<'_>,
    batch: Batch,
) -> Batch {
    // A copy, which stays in registers.
    let ring = block.ring.clone();
    let block = BlockDispatcher { ring: &ring, ..*block };
    match ring.rows() {
        Some(rows) => serve_rows(&block, &rows, WarpContext { warp, me, input, output }, batch),
        None => batch,
    }
}

#[inline(always)]
fn serve_rows<M: Machine>(
    block: &BlockDispatcher<'_, M>,
    rows: &[Rows; 2],
    context: WarpContext<'_>,
    mut batch: Batch,
) -> Batch {
    let warp = context.warp;
    let [requests, responses] = rows;
    let chosen = batch.slots & !batch.invalid_flags;
    let own_bit = batch.nth(chosen, warp.lane());
    let slot = own_bit.map_or(u32::MAX, |bit| batch.first + bit);
    let held = fetch_batch(block, requests, context, batch.first, slot, chosen);
    let is_held = own_bit.is_some_and(|bit| held >> bit & 1 == 1);
    let request = own_request(block, context, slot, own_bit.is_some() && !is_held);
    warp.sync();
    let answer = call_batch(block, context, &request);
    write_batch(block, responses, context, &request, answer);
    count_batch(block, context, request.entry.is_some(), answer);
    publish_batch(block, warp, &request);
    if is_held {
        // The previous response was not taken yet: the request stays where it is, and is polled again.
        slot_state::defer(block, slot);
    }
    let gone = request.entry.is_some() || is_held;
    batch.slots &= !warp.sum_u64(own_bit.filter(|_| gone).map_or(0, |bit| 1 << bit));
    batch
}

/// The words of slot `index` of a batch in a staging buffer.
#[inline(always)]
fn batch_words<M: Machine>(block: &BlockDispatcher<'_, M>, staging: StagingBuffer<'_>) -> usize {
    // Never 0, which the compiler does not know: a panic would cost code.
    staging.len().checked_div(block.batch as usize).unwrap_or_default()
}

/// Fetches the `chosen` slots of the window from slot `first` on, of which this lane has `slot`, into the staging buffer. Returns
/// those whose previous response was not taken yet.
#[inline(always)]
fn fetch_batch<M: Machine>(
    block: &BlockDispatcher<'_, M>,
    requests: &Rows,
    context: WarpContext<'_>,
    first: u32,
    slot: u32,
    chosen: u64,
) -> u64 {
    let warp = context.warp;
    let pairs = Divisor::new(requests.pairs());
    let all = chosen.count_ones() * pairs.pairs;
    // Under way together with the first payloads, and asked for after them: they are not kept waiting for it.
    let own = first + 2 * warp.lane();
    let inside = own < block.partition.first + block.partition.count;
    let flags = || if inside { block.ring.tx_pair(own) } else { [0; 2] };
    let mut answers = [0; 2];
    let mut base = 0;
    while base < all {
        let begin = || {
            if base == 0 {
                answers = flags();
            }
        };
        fetch_round(block, requests, context, slot, pairs, [base, all], begin);
        base += ROUND * warp.lanes();
    }
    let [even, odd] = answers.map(|answer| warp.ballot(answer != flag::FREE));
    // The staging buffer is whole before a lane reads its request.
    warp.sync();
    chosen & (spread(even) | spread(odd) << 1)
}

/// Fetches the pairs from `base` on, [`ROUND`] a lane, of `all`; they, and what `meanwhile` loads, are under way before the first
/// is waited for.
#[inline(always)]
fn fetch_round<M: Machine>(
    block: &BlockDispatcher<'_, M>,
    requests: &Rows,
    context: WarpContext<'_>,
    slot: u32,
    pairs: Divisor,
    [base, all]: [u32; 2],
    meanwhile: impl FnOnce(),
) {
    let WarpContext { warp, input, .. } = context;
    let staging_pairs = batch_words(block, input) / 2;
    let at: [u32; ROUND as usize] = core::array::from_fn(|i| base + i as u32 * warp.lanes() + warp.lane());
    let parts = at.map(|at| pairs.split(at));
    let [a, b, c, d] = parts.map(|(index, pair)| requests.pair(warp.shuffle(slot, index), pair));
    let [a, b] = Pair::load_two(a, b);
    let [c, d] = Pair::load_two(c, d);
    meanwhile();
    for ((at, (index, pair)), value) in at.into_iter().zip(parts).zip([a, b, c, d]) {
        if at < all {
            input.set_pair(index as usize * staging_pairs + pair as usize, value);
        }
    }
}

/// This lane's request, checked, if it `has` one.
#[inline(always)]
fn own_request<'b, M: Machine>(
    block: &'b BlockDispatcher<'_, M>,
    context: WarpContext<'_>,
    slot: u32,
    has: bool,
) -> OwnRequest<'b> {
    let WarpContext { warp, input, .. } = context;
    let at = warp.lane() as usize * batch_words(block, input);
    let words = core::array::from_fn(|i| if has { input.word(at + i) } else { 0 });
    let header = RequestHeader::from_words(words);
    let capacity = block.ring.geometry().request_capacity();
    let checked = validate::request(&block.table, &header, capacity, |mode| mode == DispatchMode::DeviceCall);
    let called = [HandlerKind::Thread as u32, HandlerKind::Warp as u32];
    let entry = checked.ok().filter(|entry| has && called.contains(&entry.kind));
    OwnRequest { slot, header, entry }
}

/// Calls the handlers of all lanes' requests: threads' side by side and then warps' in the order of the slots, or all in that
/// order where handlers are called one at a time.
#[inline(always)]
fn call_batch<M: Machine>(
    block: &BlockDispatcher<'_, M>,
    context: WarpContext<'_>,
    request: &OwnRequest<'_>,
) -> OwnAnswer {
    let WarpContext { warp, me, .. } = context;
    let is = |kind: HandlerKind| request.entry.is_some_and(|entry| entry.kind == kind as u32);
    let [threads, warps] = [HandlerKind::Thread, HandlerKind::Warp].map(|kind| warp.ballot(is(kind)));
    if (threads | warps).trailing_zeros() == warp.lane()
        && let Some(entry) = request.entry
    {
        serve::begin(block, me, entry.id, request.slot);
    }
    let address = request.entry.map_or(0, |entry| entry.address);
    let arg_len = request.header.arg_len;
    let mut returned = Returned::default();
    let mut in_turn = threads | warps;
    if !block.options.serial_handlers {
        if is(HandlerKind::Thread) {
            returned = block.machine.call_thread(&batch_call(block, context, warp.lane(), address, arg_len));
        }
        warp.sync();
        in_turn = warps;
    }
    while in_turn != 0 {
        let lane = in_turn.trailing_zeros();
        in_turn &= in_turn - 1;
        if warps >> lane & 1 == 1 {
            let (address, arg_len) = (warp.shuffle_u64(address, lane), warp.shuffle(arg_len, lane));
            let call = batch_call(block, context, lane, address, arg_len);
            let result = serve::call_handler(block, warp, HandlerKind::Warp, &call, || ());
            if warp.lane() == lane {
                returned = result;
            }
        } else if warp.lane() == lane {
            returned = block.machine.call_thread(&batch_call(block, context, lane, address, arg_len));
        }
        warp.sync();
    }
    // There are no graphs here.
    let asks = i64::from(returned.status) == flag::GRAPH_TRIGGER as i64;
    let status = if asks { Status::LAUNCH_FAILED } else { Status(returned.status) };
    let (status, len) = status.clamped(returned.len, block.ring.geometry().result_capacity());
    OwnAnswer { status, len }
}

/// The call of the handler at `address` for the request of lane `lane`.
#[inline(always)]
fn batch_call<'s, M: Machine>(
    block: &BlockDispatcher<'_, M>,
    context: WarpContext<'s>,
    lane: u32,
    address: u64,
    arg_len: u32,
) -> Call<'s> {
    let part = |staging: StagingBuffer<'s>| {
        let words = batch_words(block, staging);
        staging.part(lane as usize * words, words)
    };
    let capacity = block.ring.geometry().result_capacity();
    Call { address, input: part(context.input), output: part(context.output), arg_len, capacity }
}

/// Writes the responses, all lanes together.
#[inline(always)]
fn write_batch<M: Machine>(
    block: &BlockDispatcher<'_, M>,
    responses: &Rows,
    context: WarpContext<'_>,
    request: &OwnRequest<'_>,
    answer: OwnAnswer,
) {
    let WarpContext { warp, output, .. } = context;
    let words = batch_words(block, output);
    let mut own_pairs = 0;
    if request.entry.is_some() {
        let reply = ResponseHeader::reply(&request.header, answer.status.0, answer.len).to_words();
        for (i, word) in reply.into_iter().enumerate() {
            output.set_word(warp.lane() as usize * words + i, word);
        }
        own_pairs = (HEADER_BYTES as u32 + answer.len).div_ceil(16);
    }
    // Results and headers are in the staging buffer before another lane reads them.
    warp.sync();
    let pairs = Divisor::new(warp.max(own_pairs));
    let all = warp.lanes() * pairs.pairs;
    let mut base = 0;
    while base < all {
        let at = base + warp.lane();
        let (index, pair) = pairs.split(at);
        let [slot, has] = [request.slot, own_pairs].map(|value| warp.shuffle(value, index));
        if pair < has {
            let value = output.pair(index as usize * (words / 2) + pair as usize);
            responses.store_pair(slot, pair, value);
        }
        base += warp.lanes();
    }
}

/// Counts the answers, in this warp's own bank, before anybody can see them.
#[inline(always)]
fn count_batch<M: Machine>(
    block: &BlockDispatcher<'_, M>,
    context: WarpContext<'_>,
    called: bool,
    answer: OwnAnswer,
) {
    let WarpContext { warp, me, .. } = context;
    let called = warp.ballot(called);
    let ok = called & warp.ballot(answer.status == Status::OK);
    let add = |counter, n: u32| {
        if warp.lane() == 0
            && let Some(bank) = block.block_state.bank(me)
        {
            bank.add(counter, u64::from(n));
        }
    };
    add(Counter::Received, called.count_ones());
    add(Counter::Dispatched, called.count_ones());
    add(Counter::of_status(Status::OK), ok.count_ones());
    let mut others = called & !ok;
    while others != 0 {
        let status = warp.shuffle(answer.status.0 as u32, others.trailing_zeros());
        add(Counter::of_status(Status(status as i32)), 1);
        others &= others - 1;
    }
}

/// Publishes what was written, with one fence, or leaves that to the maintenance warp.
#[inline(always)]
fn publish_batch<M: Machine>(block: &BlockDispatcher<'_, M>, warp: Warp<'_>, request: &OwnRequest<'_>) {
    // What the other lanes wrote is before the barrier, and so before this lane's fence or release.
    warp.sync();
    let called = request.entry.is_some();
    if !block.poller_maintains {
        if called {
            slot_state::change_state(block, request.slot, RESPONDED);
        }
        return;
    }
    // Responses are visible before their flags, and response flags before request flags are seen cleared.
    barrier::publish_to_peer();
    if called {
        block.ring.publish_tx_relaxed(request.slot);
    }
    barrier::publish_to_peer();
    if called {
        block.ring.clear_rx_relaxed(request.slot);
        slot_state::change_state(block, request.slot, 0);
    }
}

//! The fast path, straight: one request alone in a ring of one window, for a handler that is called.
//!
//! What lies between a flag and its answer is executed by one warp, once, some five cycles an instruction; so
//! the way that nearly every request takes is written out here in as few as it takes. Every other case
//! (several requests at once, a stop, an invalid flag, a refusal, a graph) is left to `poller` and `serve`,
//! which handle all cases.

use super::backoff::wait_ticks_since;
use super::bits::spread;
use super::block_state::WarpCommand;
use super::poll::{TURNS_A_ROUND, WindowWords};
use super::slot_copy::BurstLoad;
use super::slot_state::{BUSY, Job, RESPONDED};
use super::{BlockDispatcher, Call, Machine, WarpContext, batch, poll, serve, slot_state};
use core::sync::atomic::Ordering;
use ringcall_gpu::shared::Rows;
use ringcall_gpu::staging::StagingBuffer;
use ringcall_gpu::team::Warp;
use ringcall_gpu::{barrier, clock, hint};
use ringcall_protocol::validate;
use ringcall_protocol::{RingMemory, SlotIndex};
use ringcall_wire::counter::Counter;
use ringcall_wire::flag;
use ringcall_wire::header::{HEADER_BYTES, RequestHeader, ResponseHeader};
use ringcall_wire::launch::HandlerKind;
use ringcall_wire::status::{DispatchMode, Status};

/// How long the next poller lets the request before it be answered, in ticks: 1.5 us on a device of 2 GHz, and about as long as the
/// rest of the way takes.
const ANSWER_WAIT_TICKS: u64 = 3_000;

/// How long the next poller waits for the answer to a request before it polls, in ticks. A client that waited
/// for the answer cannot have asked again yet: the answer has to cross the bus, and the next request to come
/// back. A poll that just misses that costs another poll. Measured: see the record of this dispatcher's
/// design.
const POST_RESPONSE_BACKOFF_TICKS: u64 = 300;
/// The same for a poller that is its own next poller, from when the response flag left: it has more to do until then.
const OWN_RESPONSE_BACKOFF_TICKS: u64 = 517;

/// A block whose fast path is this one, and its slots as rows.
pub(super) struct FastPath<'a, M> {
    block: BlockDispatcher<'a, M>,
    rows: SlotRows,
}

/// The slots of a ring as rows, each of no more than one burst.
#[derive(Debug, Clone)]
struct SlotRows {
    requests: Rows,
    responses: Rows,
}

/// How a poll on the fast path ended.
pub(super) enum FastPathExit {
    /// Polling was handed off, and a request served.
    Served,
    /// Polling was handed off; this request is to be served, and the fast path does not handle it.
    Serve(Job),
    /// The poller, which does the maintenance, is to do so.
    Maintain,
    /// The poller has seen something that the fast path does not handle, and keeps polling.
    Fallback(Option<WindowWords>),
}

impl<'a, M: Machine> FastPath<'a, M> {
    /// The fast path of `block`, if it has one: one window, slots of one burst.
    #[inline(always)]
    pub(super) fn of(block: BlockDispatcher<'a, M>, warp: Warp<'_>) -> Option<Self> {
        let [requests, responses] = block.ring.rows()?;
        let window = 2 * warp.lanes();
        let one_burst = block.partition.count <= window && requests.pairs() <= window && warp.lanes() >= 2;
        let plain = !M::GRAPHS && !block.options.is_shared();
        (one_burst && plain).then_some(Self { block, rows: SlotRows { requests, responses } })
    }

    /// Polls until a request is there, and serves it, if it is alone or this warp is; or until there is something else.
    ///
    /// A separate function, with separate registers. A [`WarpContext`] would be passed through memory.
    #[inline(never)]
    pub(super) fn poll(
        &self,
        warp: Warp<'_>,
        me: u32,
        input: StagingBuffer<'_>,
        output: StagingBuffer<'_>,
    ) -> FastPathExit {
        let context = WarpContext { warp, me, input, output };
        // Copies again, which stay in registers.
        let ring = self.block.ring.clone();
        let block = BlockDispatcher { ring: &ring, ..self.block };
        poll_window(&block, &self.rows.clone(), context)
    }
}

#[inline(always)]
fn poll_window<M: Machine>(
    block: &BlockDispatcher<'_, M>,
    rows: &SlotRows,
    context: WarpContext<'_>,
) -> FastPathExit {
    let WarpContext { warp, me, .. } = context;
    back_off(block, warp);
    let first = block.partition.first_of(warp, 0);
    // Read here, before the first vote: until every lane has read it, no lane changes it.
    let turn =
        if block.is_alone() { block.block_state.next_bit.load(Ordering::Relaxed) as u32 % 64 } else { 0 };
    loop {
        if block.poller_maintains && block.block_state.count_turn(warp).is_multiple_of(TURNS_A_ROUND) {
            return FastPathExit::Maintain;
        }
        if warp.any(block.block_state.interrupts()) {
            return FastPathExit::Fallback(None);
        }
        let mut odd = false;
        // Slot states before flags: see `poll_windows`.
        let [states, flags] = [slot_state::states(block, warp, 0), poll::flags(block, warp, 0, true)];
        if block.is_alone() {
            poll::clear_seen(block, warp, states);
        }
        let mut set = [false; 2];
        for i in 0..2 {
            set[i] = flags[i] != flag::FREE && states[i] == 0;
            let deferred = states[i] != 0 && states[i] < RESPONDED;
            odd |= deferred || set[i] && !block.ring.is_address_of(first + i as u32, flags[i]);
        }
        let [even, other] = set.map(|set| warp.ballot(set));
        let several = even.count_ones() + other.count_ones() > 1;
        // One warp that takes them one at a time stays here.
        if warp.any(odd) || several && !(block.is_alone() && batch::limit(block, warp) == 1) {
            return FastPathExit::Fallback(Some([states, flags]));
        }
        if even | other == 0 {
            continue;
        }
        // The payload is visible from here on; to all lanes, whichever saw the flag.
        barrier::observe_from_peer();
        warp.sync();
        let bit = if several {
            // Around the window from where the last one was, so that no slot waits indefinitely for the
            // slots before it.
            let seen = spread(even) | spread(other) << 1;
            (seen.rotate_right(turn).trailing_zeros() + turn) % 64
        } else {
            2 * (even | other).trailing_zeros() + u32::from(other != 0)
        };
        let slot = block.partition.first + bit;
        let Some(index) = block.ring.geometry().slot(slot) else {
            return FastPathExit::Fallback(Some([states, flags])); // no flag lies after the last slot
        };
        // Its loads are under way while the rest is seen to.
        let burst = BurstLoad::of_row(warp, block.ring, &rows.requests, slot);
        let free = poll::free_warps(block, context);
        if free == 0 && block.workers > 1 {
            return FastPathExit::Fallback(Some([states, flags]));
        }
        if warp.lane() == 0 {
            slot_state::set_state(block, slot, BUSY);
            block.block_state.answering.store(1, Ordering::Relaxed);
            block.block_state.set_own_command(me, WarpCommand::Serve { slot, valid_flag: true });
            block.block_state.next_bit.store(u64::from(bit + 1), Ordering::Relaxed);
        }
        let job = Job { slot, valid_flag: true, alone: true, burst };
        if let Some(job) = serve_fast(block, rows, context, job, index, free) {
            return FastPathExit::Serve(job);
        }
        if several && warp.lane() == 0 {
            block.block_state.last_response.store(0, Ordering::Relaxed); // the next one is there already
        }
        return FastPathExit::Served;
    }
}

/// Waits until the request that came before has its answer, for a while: reads of flags beside it make its fence, and its
/// own reads, take longer. Then until the next request can be there.
#[inline(always)]
fn back_off<M: Machine>(block: &BlockDispatcher<'_, M>, warp: Warp<'_>) {
    if block.workers == 1 {
        // The answer was this warp's.
        wait_ticks_since(
            warp,
            block.block_state.last_response.load(Ordering::Relaxed),
            OWN_RESPONSE_BACKOFF_TICKS,
        );
        return;
    }
    let begin = clock::ticks();
    let waits = || {
        let answering = block.block_state.answering.load(Ordering::Relaxed) != 0;
        answering && clock::ticks().wrapping_sub(begin) < ANSWER_WAIT_TICKS
    };
    let mut waited = false;
    while warp.any(waits()) {
        waited = true;
        hint::spin();
    }
    if waited {
        wait_ticks_since(warp, clock::ticks(), POST_RESPONSE_BACKOFF_TICKS);
    }
}

/// Hands polling off to one of the `free` warps, if there are any, and serves a request that came alone; or gives it
/// back, if it is not for a handler that is called, or is to be refused.
#[inline(always)]
fn serve_fast<M: Machine>(
    block: &BlockDispatcher<'_, M>,
    rows: &SlotRows,
    context: WarpContext<'_>,
    job: Job,
    index: SlotIndex,
    free: u32,
) -> Option<Job> {
    let WarpContext { warp, me, input, output } = context;
    let Job { slot, burst, .. } = job;
    burst.put(warp, input, rows.requests.pairs());
    let header = burst.header(warp);
    let held = burst.is_held(warp);
    // The staging buffer is whole, and the slot state set, before anything below.
    warp.sync();
    if warp.lane() == 0 && free != 0 {
        block.block_state.set_command(free.trailing_zeros(), WarpCommand::Poll);
    }
    let geometry = block.ring.geometry();
    let checked = validate::request(&block.table, &header, geometry.request_capacity(), |mode| {
        mode == DispatchMode::DeviceCall
    });
    let (entry, kind) = match checked.map(|entry| (entry, HandlerKind::from_raw(entry.kind))) {
        Ok((entry, Some(kind @ (HandlerKind::Thread | HandlerKind::Warp | HandlerKind::Grid)))) if !held => {
            (entry, kind)
        }
        _ => {
            if warp.lane() == 0 {
                block.block_state.answering.store(0, Ordering::Relaxed);
            }
            return Some(job);
        }
    };
    if warp.lane() == 0 && kind != HandlerKind::Grid {
        serve::begin(block, me, entry.id, slot);
    }
    let capacity = geometry.result_capacity();
    let call = Call { address: entry.address, input, output, arg_len: header.arg_len, capacity };
    let returned = serve::call_handler(block, warp, kind, &call, || serve::begin(block, me, entry.id, slot));
    let asks = i64::from(returned.status) == flag::GRAPH_TRIGGER as i64;
    // There are no graphs here.
    let status = if asks { Status::LAUNCH_FAILED } else { Status(returned.status) };
    let (status, len) = status.clamped(returned.len, capacity);
    // Lanes 0 and 1 have the words of the request's header that they echo.
    let [a, b] = burst.first_pair();
    let own = RequestHeader::from_words([a, b, a]);
    let [first, second, third] = ResponseHeader::reply(&own, status.0, len).to_words();
    for pair in warp.stride((HEADER_BYTES + len as usize).div_ceil(16)) {
        let [a, b] = output.pair(pair);
        let value = match pair {
            0 => [first, second],
            1 => [third, b],
            _ => [a, b],
        };
        rows.responses.store_pair(slot, pair as u32, value);
    }
    // What the other lanes wrote is before the barrier, and so before lane 0's release.
    warp.sync();
    if warp.lane() == 0 {
        block.ring.publish_tx(index, geometry.response_address(index));
        block.block_state.answering.store(0, Ordering::Relaxed);
        if block.workers == 1 {
            block.block_state.last_response.store(clock::ticks(), Ordering::Relaxed);
        }
        // No request waits for these counters; they are counted before the warp is free, which an end
        // waits for.
        if let Some(bank) = block.block_state.bank(me) {
            bank.count(Counter::Received);
            bank.count(Counter::Dispatched);
            bank.count(Counter::of_status(status));
        }
        if block.poller_maintains && !block.is_alone() {
            block.ring.clear_rx(index);
            slot_state::responded(block, slot, true);
        } else {
            slot_state::retire_later(block, slot);
        }
    }
    None
}

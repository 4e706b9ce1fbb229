//! The fast path, straight: one request alone, in a slot of one burst, for a function that is called.
//!
//! What lies between a completion and its answer is executed by one warp, once, some five cycles an
//! instruction; so the fast path is written out here in as few instructions as it takes, in a separate
//! function with separate registers. Every other case (several requests at once, a stop, a completion that is
//! no request, a refusal, a graph) is left to `poller`, which handles all cases and begins with the
//! completions already polled: until a handler is called, nothing has changed.

use super::block_state::{CounterBits, Job};
use super::completion::number_of;
use super::serve::outcome;
use super::state::{ALONE, Done, IMMEDIATE_WORD, Poll, PollerState};
use super::{Machine, QueuePairDispatcher, Sizes, completion, poll, publish, reclaim, send, serve};
use crate::queue_pair::single::Extent;
use crate::ring::WarpContext;
use ringcall_gpu::barrier;
use ringcall_gpu::shared::{Pair, Rows};
use ringcall_gpu::staging::StagingBuffer;
use ringcall_gpu::team::Warp;
use ringcall_mlx5::cq::PolledCompletion;
use ringcall_mlx5::layout::cqe::{self, Cqe};
use ringcall_mlx5::layout::wqe;
use ringcall_protocol::validate;
use ringcall_wire::counter::Counter;
use ringcall_wire::header::{HEADER_BYTES, RequestHeader, ResponseHeader};
use ringcall_wire::status::DispatchMode;
use ringcall_wire::unified::control;

/// A dispatcher whose fast path is this one, and its queues as rows.
pub(super) struct FastPath<'a, M> {
    dispatcher: QueuePairDispatcher<'a, M>,
    rows: QueueRows,
}

/// Queues and slots as rows; a request slot has fewer pairs than two for each lane.
#[derive(Debug, Clone)]
struct QueueRows {
    completions: Rows,
    requests: Rows,
    sends: Rows,
    responses: Rows,
}

/// Where the next request is expected, and its answer goes: worked out before it is polled, not in its way.
#[derive(Debug, Clone, Copy)]
struct Next<'a> {
    /// The slot.
    guess: u32,
    /// Number of the send request.
    number: u64,
    /// This lane's part of the request, fetched when its completion is there. The rest of the completion
    /// comes with the slot, to the last lane, which has no second pair of a slot.
    burst: [Pair<'a>; 2],
}

impl QueueRows {
    #[inline(always)]
    fn next(&self, warp: Warp<'_>, poller: &PollerState) -> Next<'_> {
        let (lane, lanes, guess) = (warp.lane(), warp.lanes(), poller.guess);
        let second = if lane == lanes - 1 {
            self.completions.pair((poller.entry(0) / cqe::WORDS) as u32, IMMEDIATE_WORD as u32 / 2)
        } else {
            self.requests.pair(guess, lanes + lane)
        };
        Next { guess, number: poller.posted, burst: [self.requests.pair(guess, lane), second] }
    }
}

impl<'a, M: Machine> FastPath<'a, M> {
    /// The fast path of `dispatcher`, if it has one: no graphs, and slots of one burst that leaves the last lane's second load
    /// free.
    #[inline(always)]
    pub(super) fn of(dispatcher: QueuePairDispatcher<'a, M>, warp: Warp<'_>, sizes: Sizes) -> Option<Self> {
        let (windows, config) = (dispatcher.windows, &dispatcher.config);
        let entry = |words| (words * 8) as u32;
        let rows = QueueRows {
            completions: Rows::of(&windows.rx_completions, sizes.completions, entry(cqe::WORDS))?,
            requests: Rows::of(windows.rx_data.words(), config.slots, config.rx_stride)?,
            sends: Rows::of(&windows.send, sizes.send, entry(wqe::WORDS))?,
            responses: Rows::of(windows.tx_data.words(), sizes.send, config.tx_stride)?,
        };
        // A header takes two lanes.
        let one_burst = warp.lanes() >= 2 && rows.requests.pairs() < 2 * warp.lanes();
        (one_burst && !M::GRAPHS).then_some(Self { dispatcher, rows })
    }

    /// Polls, and serves requests that it handles, until there is something else, or the queue pair is dead (`None`).
    /// A separate function: a [`WarpContext`] would be passed through memory.
    #[inline(never)]
    pub(super) fn serve_requests(
        &self,
        warp: Warp<'_>,
        poller: &mut PollerState,
        input: StagingBuffer<'_>,
        output: StagingBuffer<'_>,
    ) -> Option<Poll> {
        let context = WarpContext { warp, me: 0, input, output };
        // Copies, which stay in registers.
        let bell = self.dispatcher.bell.clone();
        let dispatcher = QueuePairDispatcher { bell: &bell, ..self.dispatcher };
        let rows = self.rows.clone();
        let mut unfinished = None;
        loop {
            let begun = poll::begin(&dispatcher, warp, poller);
            // Work that no peer waits for, while the poll is under way.
            if let Some(after) = unfinished.take() {
                finish(&dispatcher, warp, poller, after);
            }
            let (next, free) = (rows.next(warp, poller), poller.free);
            let poll = poll::finish(warp, poller, begun);
            if poller.dead.is_some() {
                return None;
            }
            if poll.ready == 0 && poll.stop == control::STOP_NO {
                publish::rest(&dispatcher, warp, poller);
                continue;
            }
            if poll.ready != 1 || poll.stop != control::STOP_NO || free == 0 {
                return Some(poll);
            }
            unfinished = serve_fast(&dispatcher, &rows, context, poller, next, poll.owner);
            if unfinished.is_none() {
                return Some(poll);
            }
        }
    }
}

/// The work left after a request was answered.
#[derive(Debug, Clone, Copy)]
struct After {
    /// The counters to add to.
    counted: CounterBits,
    /// The number of its message.
    number: Option<u32>,
}

/// Serves the request of the next completion, of whose owner word `owner` is lane 0's. `None`, and nothing is done, if it
/// is not one for the fast path.
#[inline(always)]
fn serve_fast<M: Machine>(
    dispatcher: &QueuePairDispatcher<'_, M>,
    rows: &QueueRows,
    context: WarpContext<'_>,
    poller: &mut PollerState,
    next: Next<'_>,
    owner: u64,
) -> Option<After> {
    let WarpContext { warp, input, output, .. } = context;
    // The payload, and the rest of the entry, are visible from here on.
    barrier::observe_from_peer();
    let (lane, lanes) = (warp.lane(), warp.lanes());
    let last = lanes - 1;
    let Next { guess, number, burst } = next;
    let [mut first, mut second] = Pair::load_two(burst[0], burst[1]);
    // The fields that are checked are the upper halves of the words.
    let upper = |word: u64, from| u64::from(warp.shuffle((word >> 32) as u32, from)) << 32;
    let mut entry = Cqe::default();
    (entry.0[IMMEDIATE_WORD], entry.0[IMMEDIATE_WORD + 1]) = (upper(second[0], last), upper(second[1], last));
    entry.0[cqe::OWNER_WORD] = upper(owner, 0);
    let PolledCompletion::Received { arrival, immediate, bytes, wqe_counter } = PolledCompletion::of(&entry)
    else {
        return None;
    };
    let Ok(slot) =
        completion::slot_of(&dispatcher.config, poller.sizes.receive, arrival, immediate, wqe_counter, bytes)
    else {
        return None;
    };
    let extent = match dispatcher.extent {
        Extent::Received => bytes,
        Extent::Slot => dispatcher.config.rx_stride,
    };
    let room = extent.checked_sub(HEADER_BYTES as u32)?;
    if slot != guess {
        let pair = |pair| rows.requests.pair(slot, pair);
        [first, second] = Pair::load_two(pair(lane), pair(lanes + lane));
    }
    let word = |word, from| warp.shuffle_u64(word, from);
    let header = RequestHeader::from_words([word(first[0], 0), word(first[1], 0), word(first[0], 1)]);
    let checked =
        validate::request(&dispatcher.table, &header, room, |mode| mode == DispatchMode::DeviceCall);
    let Ok(function) = checked else { return None };
    for (pair, value) in [(lane, first), (lanes + lane, second)] {
        if pair < rows.requests.pairs() {
            input.set_pair(pair as usize, value);
        }
    }
    warp.sync();
    let (status, len) = serve::call(dispatcher, context, slot, function, header.arg_len);
    let reply = ResponseHeader::reply(&header, status.0, len).to_words();
    let job = Job { slot, bytes, index: number };
    // Both staging buffers are free again, and the result visible to all lanes.
    warp.sync();
    let written = send::respond_to(
        dispatcher,
        warp,
        job,
        reply,
        len,
        output,
        poller.sizes.send,
        |entry, at, pair| rows.responses.store_pair(entry, at as u32, pair),
        |entry, at, pair| rows.sends.store_pair(entry, at as u32, pair),
    );
    let copy = dispatcher.bell.copies(lanes).then_some(written.own);
    send::commit(dispatcher, warp, poller, Done::ALONE, copy);
    // For the next poll, at once.
    poller.idle = 0;
    poller.adapt(1);
    poller.guess = dispatcher.slot_after(slot);
    let counted = ALONE.and(written.counted).and(outcome(status)).counter(Counter::Dispatched);
    Some(After { counted, number: number_of(arrival, immediate) })
}

/// The work left after a request was answered: no request waits for it.
#[inline(always)]
fn finish<M: Machine>(
    dispatcher: &QueuePairDispatcher<'_, M>,
    warp: Warp<'_>,
    poller: &mut PollerState,
    after: After,
) {
    if dispatcher.config.sequence {
        completion::follow(dispatcher, warp, poller, 1, after.number);
    }
    dispatcher.block_state.count_bits_alone(warp, after.counted);
    publish::counters_soon(dispatcher, warp, poller);
    poller.free -= 1;
    if 2 * poller.free < poller.sizes.send {
        reclaim::soon(dispatcher, warp, poller);
    }
}

//! One request, by one warp: fetched, checked, called, answered.

use super::block_state::{CounterBits, Job};
use super::state::Written;
use super::{Machine, QueuePairDispatcher, follow_up, send};
use crate::queue_pair::single::Extent;
use crate::ring::{Call, Returned, WarpContext};
use core::sync::atomic::Ordering;
use ringcall_gpu::shared::Words;
use ringcall_gpu::staging::StagingBuffer;
use ringcall_gpu::team::Warp;
use ringcall_protocol::validate;
use ringcall_wire::counter::Counter;
use ringcall_wire::flag;
use ringcall_wire::header::{HEADER_BYTES, RequestHeader, ResponseHeader};
use ringcall_wire::launch::{DeviceEntry, HandlerKind};
use ringcall_wire::status::{DispatchMode, Status};
use ringcall_wire::unified::control;

/// Serves every job of the block state whose number is this warp's, modulo the number of warps.
#[inline(always)]
pub(super) fn run_jobs<M: Machine>(
    dispatcher: &QueuePairDispatcher<'_, M>,
    context: WarpContext<'_>,
    jobs: u64,
) {
    let WarpContext { warp, me, .. } = context;
    let mut index = me;
    while u64::from(index) < jobs {
        let job = dispatcher.block_state.job(index);
        if let Some(written) = serve(dispatcher, context, job, None) {
            dispatcher.block_state.count_bits(warp, written.counted);
        }
        index += dispatcher.warps;
    }
}

/// Serves a request, and writes its response and its send request. `None`: a graph will answer it.
///
/// `burst` is this lane's first 16 bytes of the slot, where they were fetched already.
#[inline(always)]
pub(super) fn serve<M: Machine>(
    dispatcher: &QueuePairDispatcher<'_, M>,
    context: WarpContext<'_>,
    job: Job,
    burst: Option<[u64; 2]>,
) -> Option<Written> {
    let WarpContext { warp, input, output, .. } = context;
    let extent = match dispatcher.extent {
        Extent::Received => job.bytes,
        Extent::Slot => dispatcher.config.rx_stride,
    };
    // A message too short for a header has none: what lies after it is another request's.
    let whole = extent >= HEADER_BYTES as u32;
    let fetched = fetch(dispatcher, warp, job.slot, extent, burst, input);
    warp.sync();
    let header = if whole {
        RequestHeader::from_words(core::array::from_fn(|word| input.word(word)))
    } else {
        RequestHeader::from_words([0; 3])
    };
    let checked = if whole {
        validate::request(&dispatcher.table, &header, extent - HEADER_BYTES as u32, |mode| {
            mode == DispatchMode::DeviceCall || (M::GRAPHS && mode == DispatchMode::GraphLaunch)
        })
    } else {
        Err(Status::BAD_MAGIC)
    };
    let mut counted = CounterBits::NONE;
    let (status, len) = match checked {
        // Else a launch is reserved for what its handler may ask for.
        Ok(entry)
            if M::GRAPHS
                && (entry.kind == HandlerKind::Graph as u32
                    || !follow_up::reserve(dispatcher, warp, entry)) =>
        {
            fetch_rest(dispatcher, warp, job.slot, fetched, header.arg_len, input);
            if follow_up::defer(dispatcher, warp, job, header.arg_len, input) {
                return None;
            }
            (Status::BACKPRESSURE, 0)
        }
        Ok(entry) => {
            fetch_rest(dispatcher, warp, job.slot, fetched, header.arg_len, input);
            counted = counted.counter(Counter::Dispatched);
            call(dispatcher, context, job.slot, entry, header.arg_len)
        }
        Err(status) => (status, 0),
    };
    let reply = ResponseHeader::reply(&header, status.0, len).to_words();
    let job = if M::GRAPHS { in_turn(dispatcher, warp, job) } else { job };
    // Both staging buffers are free again, and the result visible to all lanes.
    warp.sync();
    let written = send::respond(dispatcher, warp, job, reply, len, output);
    Some(Written { counted: written.counted.and(counted).and(outcome(status)), ..written })
}

/// The job, answered after all jobs that were done before it: what a graph will answer leaves no gap.
fn in_turn<M: Machine>(dispatcher: &QueuePairDispatcher<'_, M>, warp: Warp<'_>, job: Job) -> Job {
    let turn = if warp.lane() == 0 { dispatcher.block_state.take_turn() } else { 0 };
    Job { index: warp.shuffle_u64(turn, 0), ..job }
}

/// The first part of a slot, in one burst; how many pairs.
#[inline(always)]
fn fetch<M: Machine>(
    dispatcher: &QueuePairDispatcher<'_, M>,
    warp: Warp<'_>,
    slot: u32,
    extent: u32,
    burst: Option<[u64; 2]>,
    input: StagingBuffer<'_>,
) -> u32 {
    let (lane, lanes) = (warp.lane(), warp.lanes());
    let pairs = extent.div_ceil(16);
    let (words, first) = (dispatcher.windows.rx_data.words(), dispatcher.slot_word(slot));
    let at = |pair: u32| (pair < pairs).then_some((words, first + 2 * pair as usize));
    match burst {
        Some(pair) => {
            input.set_pair(lane as usize, pair);
            lanes
        }
        None => {
            let [a, b] = Words::load_two(at(lane), at(lane + lanes));
            input.set_pair(lane as usize, a);
            input.set_pair((lane + lanes) as usize, b);
            2 * lanes
        }
    }
}

/// What a payload has after the first `fetched` pairs.
#[inline(always)]
fn fetch_rest<M: Machine>(
    dispatcher: &QueuePairDispatcher<'_, M>,
    warp: Warp<'_>,
    slot: u32,
    fetched: u32,
    arg_len: u32,
    input: StagingBuffer<'_>,
) {
    let (lane, lanes) = (warp.lane(), warp.lanes());
    let pairs = (HEADER_BYTES as u32 + arg_len).div_ceil(16);
    if pairs <= fetched {
        return;
    }
    let (words, first) = (dispatcher.windows.rx_data.words(), dispatcher.slot_word(slot));
    let at = |pair: u32| (pair < pairs).then_some((words, first + 2 * pair as usize));
    let mut pair = fetched;
    while pair < pairs {
        let (first, second) = (pair + lane, pair + lanes + lane);
        let [a, b] = Words::load_two(at(first), at(second));
        if first < pairs {
            input.set_pair(first as usize, a);
        }
        if second < pairs {
            input.set_pair(second as usize, b);
        }
        pair += 2 * lanes;
    }
    warp.sync();
}

/// Tells the host what a warp is about to call, for the watchdog. By one lane.
#[inline(always)]
fn publish_busy<M: Machine>(
    dispatcher: &QueuePairDispatcher<'_, M>,
    me: u32,
    entry: &DeviceEntry,
    slot: u32,
) {
    let at = control::BUSY + me as usize * control::BUSY_WORDS;
    dispatcher.control.store(at, u64::from(entry.id) << 32 | u64::from(slot + 1), Ordering::Relaxed);
}

/// Calls a function, for whose follow-up [`reserve`](follow_up::reserve) was asked; the status to answer with, and the result's
/// length.
#[inline(always)]
pub(super) fn call<M: Machine>(
    dispatcher: &QueuePairDispatcher<'_, M>,
    context: WarpContext<'_>,
    slot: u32,
    entry: &DeviceEntry,
    arg_len: u32,
) -> (Status, u32) {
    let WarpContext { warp, me, input, output } = context;
    if warp.lane() == 0 && entry.kind != HandlerKind::Grid as u32 {
        publish_busy(dispatcher, me, entry, slot);
    }
    let capacity = dispatcher.capacity();
    let call = Call { address: entry.address, input, output, arg_len, capacity };
    let returned = match HandlerKind::from_raw(entry.kind) {
        Some(HandlerKind::Thread) => {
            let mut returned = Returned::default();
            if warp.lane() == 0 {
                returned = dispatcher.machine.call_thread(&call);
            }
            // The other lanes write the response: they need its length, and lane 0's stores before them.
            warp.sync();
            returned
        }
        Some(HandlerKind::Warp) => {
            let returned = dispatcher.machine.call_warp(warp, &call);
            warp.sync();
            returned
        }
        // A grid's kernel has one, others do not. The host is told when the grid has been called, which would wait for it.
        Some(HandlerKind::Grid) => {
            let wrong = Returned { status: Status::WRONG_MODE.0, len: 0 };
            dispatcher
                .machine
                .call_grid(warp, &call, || publish_busy(dispatcher, me, entry, slot))
                .unwrap_or(wrong)
        }
        // Graphs are another kernel's.
        _ => Returned { status: Status::WRONG_MODE.0, len: 0 },
    };
    let status = Status(warp.shuffle(returned.status as u32, 0) as i32);
    let len = warp.shuffle(returned.len, 0);
    let asks = i64::from(status.0) == flag::GRAPH_TRIGGER as i64;
    if M::GRAPHS && !asks {
        follow_up::release(dispatcher, warp, entry);
    }
    if asks {
        let len = len.min(capacity);
        // Elsewhere there is no graph to trigger.
        let status = if M::GRAPHS {
            follow_up::launch_follow_up(dispatcher, warp, slot, entry, input)
        } else {
            Status::LAUNCH_FAILED
        };
        return (status, len);
    }
    status.clamped(len, capacity)
}

/// What a request that was answered with this status counts as.
#[inline(always)]
pub(super) fn outcome(status: Status) -> CounterBits {
    let counter = Counter::of_status(status);
    CounterBits::NONE.counter(Counter::Received).counter(counter)
}

//! The poller: polls, takes completions, has them served, ends.

use super::block_state::{CounterBits, EXIT, Job};
use super::completion::Completion;
use super::fast_path::FastPath;
use super::state::{ALONE, Done, IMMEDIATE_WORD, PollerState, Tending};
use super::{
    Machine, QueuePairDispatcher, QueuePairEnd, Sizes, completion, graphs, poll, publish, reclaim, send,
    serve,
};
use crate::ring::WarpContext;
use core::sync::atomic::Ordering;
use ringcall_gpu::barrier;
use ringcall_gpu::shared::Words;
use ringcall_gpu::team::Warp;
use ringcall_mlx5::QueueError;
use ringcall_mlx5::counters::Event;
use ringcall_mlx5::cq::CompletionQueue;
use ringcall_mlx5::doorbell::DoorbellRecord;
use ringcall_mlx5::layout::cqe::{self, Cqe, Syndrome};
use ringcall_mlx5::rq::ReceiveQueue;
use ringcall_mlx5::sequence::Sequence;
use ringcall_mlx5::sq::{RecordMode, SendQueue};
use ringcall_wire::unified::control;

/// Why the rounds ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// Stopped, or dead.
    End,
    /// The budget of launches is used: the next execution continues.
    Relaunch,
}

/// The life of the polling warp. `meet` is the barrier with the warps that share its rounds.
#[inline(always)]
pub(super) fn run<M: Machine>(
    dispatcher: &QueuePairDispatcher<'_, M>,
    meet: &impl Fn(),
    context: WarpContext<'_>,
) -> QueuePairEnd {
    let warp = context.warp;
    let over = match open(dispatcher, warp) {
        Ok(mut poller) => {
            let fast_path = FastPath::of(QueuePairDispatcher { ..*dispatcher }, warp, poller.sizes);
            let left = rounds(dispatcher, meet, context, &mut poller, fast_path.as_ref());
            close(dispatcher, warp, &mut poller, left);
            QueuePairEnd::Ended
        }
        Err(why) => {
            if warp.lane() == 0 {
                dispatcher.control.store(control::STATE, control::STATE_FAILED, Ordering::Release);
            }
            QueuePairEnd::Refused(why)
        }
    };
    if warp.lane() == 0 {
        dispatcher.block_state.set_jobs(EXIT, 0);
    }
    meet();
    over
}

/// Takes the queues up where the last start left them; at the first one, posts the receive requests.
#[inline(always)]
fn open<M: Machine>(
    dispatcher: &QueuePairDispatcher<'_, M>,
    warp: Warp<'_>,
) -> Result<PollerState, QueueError> {
    let sizes = Sizes::of(dispatcher)?;
    let load = |word| dispatcher.control.load(word, Ordering::Relaxed);
    let windows = dispatcher.windows;
    let completions =
        CompletionQueue::new(windows.tx_completions.clone(), windows.tx_completions_record.clone())?;
    let send =
        SendQueue::new(windows.send.clone(), completions, dispatcher.config.qpn, dispatcher.config.record)?
            .resumed(load(control::POSTED), load(control::DONE), load(control::SEND_CONSUMED));
    let record = DoorbellRecord::new(windows.record.clone())?;
    let opened = warp.any(load(control::OPENED) != 0);
    let receives = if opened { load(control::RECEIVES) } else { dispatcher.config.depth.into() };
    let written = dispatcher.config.record == RecordMode::Written;
    let posted = load(control::POSTED);
    let mut poller = PollerState {
        sizes,
        consumed: load(control::CONSUMED),
        receives,
        posted,
        guess: 0,
        width: 1,
        idle: 0,
        free: 0,
        unshown: false,
        shown: 0,
        sequence: Sequence::from_word(load(control::SEQUENCE)),
        dead: None,
        beat: load(control::HEARTBEAT),
        graphs: if M::GRAPHS { graphs::open(dispatcher, warp) } else { Tending::default() },
        send,
        record: record.resumed(receives as u16, if written { posted as u16 } else { 0 }),
    };
    dispatcher.block_state.resume(
        warp,
        |index| load(control::COUNTERS + index),
        |index| load(control::EVENTS + index),
    );
    if warp.lane() == 0 {
        if !opened {
            ReceiveQueue::fill(&windows.receive, sizes.receive, dispatcher.config.buffers);
            poller.record.publish_receive(receives as u16);
            dispatcher.control.store(control::OPENED, 1, Ordering::Relaxed);
        }
        dispatcher.control.store(control::DEAD, 0, Ordering::Relaxed);
        dispatcher.control.store(control::STATE, control::STATE_RUNNING, Ordering::Release);
    }
    warp.sync();
    Ok(poller)
}

/// Serves until the end.
#[inline(always)]
fn rounds<M: Machine>(
    dispatcher: &QueuePairDispatcher<'_, M>,
    meet: &impl Fn(),
    context: WarpContext<'_>,
    poller: &mut PollerState,
    fast_path: Option<&FastPath<'_, M>>,
) -> Left {
    let WarpContext { warp, input, output, .. } = context;
    loop {
        if M::GRAPHS {
            graphs::tend(dispatcher, context, poller);
            if poller.dead.is_some() {
                return Left::End;
            }
            if graphs::should_relaunch(dispatcher, warp, poller) {
                return Left::Relaunch;
            }
        }
        let poll = match fast_path {
            Some(fast_path) => fast_path.serve_requests(warp, poller, input, output),
            None => Some(poll::poll(dispatcher, warp, poller)),
        };
        let Some(poll) = poll else { return Left::End };
        // What a graph will answer is waited for, unless the end is to be at once.
        let done = poll.ready == 0 && (!M::GRAPHS || poller.graphs.held() == 0);
        if poll.stop == control::STOP_NOW || (poll.stop != control::STOP_NO && done) {
            return Left::End;
        }
        if poll.ready == 0 {
            publish::rest(dispatcher, warp, poller);
            continue;
        }
        let room = reclaim::room(dispatcher, warp, poller, poll.ready);
        if room == 0 {
            return Left::End;
        }
        let ready = poll.ready.min(room);
        round(dispatcher, meet, context, poller, ready, poll.owner);
        poller.adapt(ready);
        publish::counters_soon(dispatcher, warp, poller);
        if M::GRAPHS {
            // A handler may have launched its follow-up.
            publish::launches(dispatcher, warp, poller);
        }
        reclaim::soon(dispatcher, warp, poller);
        if poller.dead.is_some() {
            return Left::End;
        }
    }
}

/// One round: `ready` completions are taken, their requests served, the responses rung.
#[inline(always)]
fn round<M: Machine>(
    dispatcher: &QueuePairDispatcher<'_, M>,
    meet: &impl Fn(),
    context: WarpContext<'_>,
    poller: &mut PollerState,
    ready: u32,
    owner: u64,
) {
    let warp = context.warp;
    poller.idle = 0;
    barrier::observe_from_peer();
    let lane = warp.lane();
    // With the rest of the entries, what the expected slot holds: if it is that slot, a round trip is saved.
    let (cq, data) = (&dispatcher.windows.rx_completions, dispatcher.windows.rx_data.words());
    let expected = ready == 1 && lane < dispatcher.config.rx_stride / 16;
    let slot = expected.then_some((data, dispatcher.slot_word(poller.guess) + 2 * lane as usize));
    let rest = (lane < ready).then_some((cq, poller.entry(lane) + IMMEDIATE_WORD));
    let [burst, [immediate, count]] = Words::load_two(slot, rest);

    let mut entry = Cqe::default();
    (entry.0[IMMEDIATE_WORD], entry.0[IMMEDIATE_WORD + 1]) = (immediate, count);
    entry.0[cqe::OWNER_WORD] = owner;
    let completion = if lane < ready {
        completion::classify(dispatcher, poller, lane, entry)
    } else {
        Completion::default()
    };
    let requests = warp.ballot(completion.job != 0);
    let used = warp.ballot(completion.uses).count_ones();
    if warp.any(completion.flushed) {
        poller.dead = Some(Syndrome::FLUSHED);
    }
    if dispatcher.config.sequence {
        completion::follow(dispatcher, warp, poller, ready, completion.number);
    }
    let jobs = requests.count_ones();
    // Counted when it is answered: it used up a receive request.
    let alone = ready == 1 && jobs == 1;
    if lane == 0 && !alone {
        dispatcher.block_state.add(Event::RxCompletions, ready.into());
        dispatcher.block_state.add(Event::RxRequests, jobs.into());
        dispatcher.block_state.add(Event::RxReposted, used.into());
    }

    if M::GRAPHS && lane == 0 {
        dispatcher.block_state.begin_round(poller.posted);
    }
    let mut copy = None;
    let mut counted = CounterBits::NONE;
    if alone {
        let job = Job::of(warp.shuffle_u64(completion.job, 0), poller.posted);
        // A header takes two lanes.
        let burst = (job.slot == poller.guess && warp.lanes() > 1).then_some(burst);
        poller.guess = dispatcher.slot_after(job.slot);
        let written = serve::serve(dispatcher, context, job, burst);
        counted = ALONE.and(written.map_or(CounterBits::NONE, |written| written.counted));
        copy = written.filter(|_| dispatcher.bell.copies(warp.lanes())).map(|written| written.own);
    } else if jobs > 0 {
        let index = (requests & ((1 << lane) - 1)).count_ones();
        if completion.job != 0 {
            dispatcher.block_state.set_job(index, completion.job);
        }
        if lane == 0 {
            dispatcher.block_state.set_jobs(jobs.into(), poller.posted);
        }
        meet();
        serve::run_jobs(dispatcher, context, jobs.into());
        meet();
    }
    let mut sent = jobs.into();
    if M::GRAPHS && jobs > 0 {
        let [answered, deferred] = dispatcher.block_state.round();
        sent = answered;
        poller.graphs.waiting += deferred;
        // All lanes have read it.
        warp.sync();
    }
    let done = Done { completions: ready.into(), receives: used.into(), sent };
    send::commit(dispatcher, warp, poller, done, copy);
    if alone {
        dispatcher.block_state.count_bits_alone(warp, counted);
    }
}

/// The end: the NIC is waited for, the cursors are left for the next start, and the last words written. Before a relaunch
/// the NIC is not waited for, and the state stays.
#[inline(always)]
fn close<M: Machine>(
    dispatcher: &QueuePairDispatcher<'_, M>,
    warp: Warp<'_>,
    poller: &mut PollerState,
    left: Left,
) {
    if warp.lane() == 0 {
        if poller.dead.is_none() && left == Left::End {
            reclaim::drain(dispatcher, poller);
        }
        let store = |word, value| dispatcher.control.store(word, value, Ordering::Relaxed);
        store(control::CONSUMED, poller.consumed);
        store(control::RECEIVES, poller.receives);
        store(control::POSTED, poller.send.posted());
        store(control::DONE, poller.send.done());
        store(control::SEND_CONSUMED, poller.send.completions_read());
        store(control::SEQUENCE, poller.sequence.to_word());
        let dead = poller.dead.or(poller.send.dead());
        store(control::DEAD, dead.map_or(0, |syndrome| syndrome.0.into()));
    }
    for index in warp.stride(dispatcher.warps as usize) {
        dispatcher.control.store(control::BUSY + index * control::BUSY_WORDS, 0, Ordering::Relaxed);
    }
    warp.sync();
    publish::counters(dispatcher, warp);
    let mut state = control::STATE_ENDED;
    if M::GRAPHS {
        graphs::close(dispatcher, warp, poller);
        if left == Left::Relaunch {
            if graphs::relaunch(dispatcher, warp) {
                return;
            }
            state = control::STATE_FAILED;
        }
    }
    // Release, after the barrier: an agent that sees the state sees the last counters.
    warp.sync();
    if warp.lane() == 0 {
        dispatcher.control.store(control::STATE, state, Ordering::Release);
    }
}

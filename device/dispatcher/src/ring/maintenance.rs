//! Maintenance of a ring's dispatcher: deferred publishing, the stop word, counters and the heartbeat.
//!
//! Apart from polls and requests, only maintenance accesses the host's memory.

use super::block_state::WarpCommand;
use super::program_context::ProgramContext;
use super::slot_state::{PUBLISHED, RESPONDED};
use super::{BlockDispatcher, Machine, slot_state};
use core::sync::atomic::Ordering;
use ringcall_gpu::team::Warp;
use ringcall_gpu::{barrier, clock};
use ringcall_wire::counter::Counter;
use ringcall_wire::launch::{control, saved};

/// Passes between two publications of the counters.
const PASSES_A_ROUND: u32 = 64;

/// The life of the maintenance warp, whose number is `me`.
pub(super) fn run<M: Machine>(block: &BlockDispatcher<'_, M>, warp: Warp<'_>, me: u32) {
    // What an execution before did not publish is published at once.
    let mut passes = if M::GRAPHS { PASSES_A_ROUND - 1 } else { 0 };
    loop {
        let busy = publish(block, warp);
        passes += 1;
        if passes >= PASSES_A_ROUND {
            passes = 0;
            maintain(block, warp);
        }
        if busy {
            continue;
        }
        if block.block_state.command_together(warp, me) == WarpCommand::Exit {
            // Responses from before the command are published; then the slots that this left are retired.
            while publish(block, warp) {}
            warp.sync();
            if warp.lane() == 0 {
                block.block_state.set_command(me, WarpCommand::Free); // the poller waits for this before it publishes the last counters
            }
            return;
        }
        block.machine.sleep_until_next_round();
    }
}

/// Before anything else: what earlier executions counted, and that the dispatcher runs. By one warp.
pub(super) fn open<M: Machine>(block: &BlockDispatcher<'_, M>, warp: Warp<'_>) {
    if warp.lane() == 0 {
        let load = |word| block.saved.load(word, Ordering::Relaxed);
        // All loads before any is compared: a client may wait for this execution's first poll.
        let of_host = |word| if M::GRAPHS { block.control.load(word, Ordering::Relaxed) } else { 0 };
        let (stop, state) = (of_host(control::STOP), of_host(control::STATE));
        let (cursors, launches, drained) = (load(saved::CURSOR), load(saved::LAUNCHES), load(saved::DRAINED));
        if M::GRAPHS {
            ProgramContext(block).close();
        }
        let [cursor, next_bit, sweep] = [0, 16, 32].map(|shift| cursors >> shift & 0xFFFF);
        block.block_state.cursor.store(cursor, Ordering::Relaxed);
        block.block_state.next_bit.store(next_bit, Ordering::Relaxed);
        block.block_state.sweep.store(sweep, Ordering::Relaxed);
        block.block_state.launched_before.store(launches, Ordering::Relaxed);
        if M::GRAPHS {
            // An execution that begins with a launch may end before its first round.
            block.block_state.stop.store(stop, Ordering::Relaxed);
            block.block_state.drained.store(drained, Ordering::Relaxed);
        }
        if state != control::STATE_RUNNING {
            block.control.store(control::STATE, control::STATE_RUNNING, Ordering::Release);
        }
    }
    warp.sync();
}

/// One round: stop word, counters, what each warp does, heartbeat.
pub(super) fn maintain<M: Machine>(block: &BlockDispatcher<'_, M>, warp: Warp<'_>) {
    if warp.lane() == 0 {
        let stop = block.control.load(control::STOP, Ordering::Relaxed);
        if stop != control::STOP_NO {
            // What the host sent before it stopped the dispatcher is seen by a poller that reads the stop.
            barrier::observe_from_peer();
        }
        block.block_state.stop.store(stop, Ordering::Relaxed);
        if M::GRAPHS {
            ProgramContext(block).enforce_limit();
        }
    }
    publish_counters(block, warp);
    let now = clock::ticks();
    for index in warp.stride(block.workers as usize) {
        let (function, since) = block.block_state.begun(index as u32);
        match block.block_state.slot_of(index as u32) {
            Some(slot) => publish_busy(block, index as u32, function, slot, since),
            None => block.control.store(control::BUSY + index * control::BUSY_WORDS, 0, Ordering::Relaxed),
        }
    }
    if warp.lane() == 0 {
        let store = |word, value| block.control.store(word, value, Ordering::Relaxed);
        store(control::NOW, now);
        store(control::LAUNCHES, launches_so_far(block));
        publish_launch_error(block);
        let beat = block.saved.load(saved::HEARTBEAT, Ordering::Relaxed).wrapping_add(1);
        block.saved.store(saved::HEARTBEAT, beat, Ordering::Relaxed);
        store(control::HEARTBEAT, beat);
    }
}

/// Tells the host with which code the last launch that failed did so. By one lane.
#[inline(always)]
pub(super) fn publish_launch_error<M: Machine>(block: &BlockDispatcher<'_, M>) {
    let error = block.block_state.launches.error();
    if error != 0 {
        block.control.store(control::LAUNCH_ERROR, error, Ordering::Relaxed); // earlier executions' otherwise stays
    }
}

/// Tells the host what a warp does.
#[inline(always)]
pub(super) fn publish_busy<M: Machine>(
    block: &BlockDispatcher<'_, M>,
    warp: u32,
    function: u32,
    slot: u32,
    since: u64,
) {
    let at = control::BUSY + warp as usize * control::BUSY_WORDS;
    block.control.store(at + 1, since, Ordering::Relaxed);
    block.control.store(at, u64::from(function) << 32 | u64::from(slot + 1), Ordering::Relaxed);
}

fn publish_counters<M: Machine>(block: &BlockDispatcher<'_, M>, warp: Warp<'_>) {
    for (index, total) in totals(block, warp) {
        let children = block.saved.load(saved::CHILDREN + index, Ordering::Relaxed);
        block.control.store(control::COUNTERS + index, total.wrapping_add(children), Ordering::Relaxed);
    }
}

/// The counters as they were saved, when no next execution will publish them.
pub(super) fn publish_saved<M: Machine>(block: &BlockDispatcher<'_, M>, warp: Warp<'_>) {
    for index in warp.stride(Counter::COUNT) {
        let load = |word| block.saved.load(word + index, Ordering::Relaxed);
        let total = load(saved::COUNTERS).wrapping_add(load(saved::CHILDREN));
        block.control.store(control::COUNTERS + index, total, Ordering::Relaxed);
    }
}

/// This lane's part of the counters: index and count over all executions.
pub(super) fn totals<'w, M: Machine>(
    block: &'w BlockDispatcher<'w, M>,
    warp: Warp<'_>,
) -> impl Iterator<Item = (usize, u64)> + use<'w, M> {
    warp.stride(Counter::COUNT).filter_map(move |index| {
        let counter = *Counter::ALL.get(index)?;
        let before = block.saved.load(saved::COUNTERS + index, Ordering::Relaxed);
        Some((index, before.wrapping_add(block.block_state.total(counter))))
    })
}

pub(super) fn launches_so_far<M: Machine>(block: &BlockDispatcher<'_, M>) -> u64 {
    block.block_state.launched_before.load(Ordering::Relaxed) + block.block_state.launches.made()
}

/// Launches so far whose end no child counts.
pub(super) fn uncounted_so_far<M: Machine>(block: &BlockDispatcher<'_, M>) -> u64 {
    block.saved.load(saved::UNCOUNTED, Ordering::Relaxed) + block.block_state.launches.uncounted()
}

/// Graphs launched that are known not to have finished, and whose end is waited for here. By one lane.
pub(super) fn children_running<M: Machine>(block: &BlockDispatcher<'_, M>) -> u64 {
    // Acquire: pairs with a child's end; what it counted is before that.
    let finished = block.saved.load(saved::FINISHED, Ordering::Acquire);
    let counted = launches_so_far(block).saturating_sub(finished).saturating_sub(uncounted_so_far(block));
    counted + u64::from(ProgramContext(block).is_waited_for())
}

/// Publishes: sets the response flags of slots whose answers are written, and clears the request flags of slots whose
/// response flags were set a pass ago. One fence for all of them; whether there were any. By the maintenance warp, or the
/// only one.
pub(super) fn publish<M: Machine>(block: &BlockDispatcher<'_, M>, warp: Warp<'_>) -> bool {
    let mut some = false;
    let mut base = 0;
    while base < block.partition.count {
        let offset = base + warp.lane();
        base += warp.lanes();
        // Acquire: pairs with `change_state`, so that what was written is before the fence.
        let state = block.serving.get(offset as usize).map_or(0, |state| state.load(Ordering::Acquire));
        if !warp.any(state == RESPONDED || state == PUBLISHED) {
            continue;
        }
        some = true;
        // Responses are visible before their flags, and response flags before request flags are seen cleared.
        barrier::publish_to_peer();
        let slot = block.partition.first + offset;
        if state == RESPONDED {
            block.ring.publish_tx_relaxed(slot);
            slot_state::change_state(block, slot, PUBLISHED);
        } else if state == PUBLISHED {
            block.ring.clear_rx_relaxed(slot);
            slot_state::change_state(block, slot, 0);
        }
    }
    some
}

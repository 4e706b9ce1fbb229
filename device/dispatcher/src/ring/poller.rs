//! The poller: polls until there is something to serve, or until the end.

use super::bits::spread;
use super::block_state::WarpCommand;
use super::fast_path::{FastPath, FastPathExit};
use super::hand_out::Seen;
use super::launcher::RELAUNCH_FROM;
use super::poll::{TURNS_A_ROUND, WindowWords};
use super::program_context::ProgramContext;
use super::slot_state::{DEFERRED_TURNS, RESPONDED};
use super::{
    BlockDispatcher, Machine, WarpContext, Work, batch, hand_out, maintenance, poll, slot_state, together,
};
use core::sync::atomic::Ordering;
use ringcall_gpu::atomic::BlockU64;
use ringcall_gpu::barrier;
use ringcall_gpu::team::Warp;
use ringcall_wire::flag;
use ringcall_wire::launch::{LAUNCHES_PER_EXECUTION, control, saved};

/// What the poller does next.
pub(super) enum After {
    /// It handed polling off and serves this.
    Serve(Work),
    /// It handed polling off and has served a request.
    Served,
    /// The dispatcher has ended.
    End,
}

/// Times that a drain polls every window, and each slot that is left alone for a while.
const DRAIN_SWEEPS: u32 = 128;

/// Polls until there is something to serve, or until the end.
#[inline(always)]
pub(super) fn run<M: Machine>(
    block: &BlockDispatcher<'_, M>,
    context: WarpContext<'_>,
    fast_path: Option<&FastPath<'_, M>>,
) -> After {
    let WarpContext { warp, me, .. } = context;
    let mut held = None;
    if let Some(fast_path) = fast_path
        && is_burst_over(block, warp)
    {
        held = loop {
            match fast_path.poll(warp, me, context.input, context.output) {
                FastPathExit::Served if block.workers == 1 => keep_polling(block, context),
                FastPathExit::Served => return After::Served,
                FastPathExit::Serve(job) => return After::Serve(Work::One(job)),
                FastPathExit::Maintain => maintenance::maintain(block, warp),
                FastPathExit::Fallback(polled) => {
                    clear_answered(block, warp);
                    break polled;
                }
            }
        };
    }
    let window = 2 * warp.lanes();
    let windows = block.partition.count.div_ceil(window).max(1);
    let mut hot = (block.block_state.cursor.load(Ordering::Relaxed) as u32).min(windows - 1);
    let mut sweep = (block.block_state.sweep.load(Ordering::Relaxed) as u32).min(windows - 1);
    // Read here, before the first vote: until every lane has read it, no lane changes it.
    let mut turn = block.block_state.next_bit.load(Ordering::Relaxed) as u32 % 64;
    let batches_alone = block.is_alone() && batch::limit(block, warp) > 1;
    let mut quiet = 0;
    loop {
        let free = poll::free_warps(block, context);
        let stop = stop_now(block, warp, windows, free);
        if stop == control::STOP_NOW {
            drop_backlog(block, warp);
        } else if free != 0
            && let Some(work) = hand_out::pop_backlog(block, warp)
        {
            // Its warp found nothing waiting, and became free, just before this was put there.
            hand_out::pass_on(block, context, &work, free);
            return After::Serve(work);
        }
        let everybody_free = free.count_ones() + 1 >= block.workers;
        // No request is taken any more: the next execution polls the ring.
        if M::GRAPHS && stop == control::STOP_NO && everybody_free && is_spent(block, warp) {
            return relaunch(block, context);
        }
        if windows > 1 {
            sweep = if sweep + 1 < windows { sweep + 1 } else { 0 };
        }
        let [first, second] = poll_windows(block, warp, [hot, sweep], windows > 1, held.take());
        if block.poller_maintains && block.block_state.count_turn(warp).is_multiple_of(TURNS_A_ROUND) {
            maintenance::maintain(block, warp);
        }
        if stop == control::STOP_NOW {
            if everybody_free && may_end(block, warp) {
                return end(block, context);
            }
            continue;
        }
        // The swept window first: it comes by once in a while, the hot one every time.
        let (base, seen) = if second.ready != 0 { (sweep, second) } else { (hot, first) };
        if seen.ready == 0 {
            // Draining: a whole sweep, begun after the stop was read, in which nothing was ready and no warp or graph was
            // at work. A sweep begun before it may have passed a slot whose request was sent just before the stop.
            quiet = if stop == control::STOP_DRAIN && everybody_free { quiet + 1 } else { 0 };
            if quiet > windows * quiet_sweeps::<M>() {
                if may_end(block, warp) {
                    return end(block, context);
                }
                quiet = 0;
            }
            if M::GRAPHS && everybody_free && should_relaunch(block, warp) {
                return relaunch(block, context);
            }
            continue;
        }
        quiet = 0;
        if M::GRAPHS && launches_used(block, warp) >= LAUNCHES_PER_EXECUTION {
            // Out of launches: every request in the ring waits for the next execution.
            if everybody_free {
                return relaunch(block, context);
            }
            continue;
        }
        // One fence for everything seen: the payloads are visible from here on.
        barrier::observe_from_peer();
        warp.sync(); // to all lanes, whichever saw a flag
        hot = base;
        let several = !seen.ready.is_power_of_two();
        if several && batches_alone {
            // No other warp could take them.
            let batch = hand_out::own_batch(block, warp, base, seen, turn);
            let left = batch::serve(block, warp, me, context.input, context.output, batch);
            turn = (63 - batch.in_order().leading_zeros() + turn + 1) % 64;
            if left.slots != 0 {
                hand_out::note_turn(block, warp, base, turn);
                return After::Serve(Work::Alone(left));
            }
            continue;
        }
        let seen = if several { taken(block, warp, base, seen) } else { seen };
        if seen.ready == 0 {
            continue;
        }
        if free != 0 || block.workers == 1 {
            if windows > 1 && warp.lane() == 0 {
                block.block_state.sweep.store(u64::from(sweep), Ordering::Relaxed);
            }
            return After::Serve(hand_out::hand_out(block, context, base, seen, free, windows, turn));
        }
        // Every warp is at work: the next one that is free takes these.
        hand_out::push_backlog(block, warp, base, seen);
        block.machine.sleep();
    }
}

/// The only worker has served a request on the fast path, and polls again: no other warp reads its
/// mailbox or leaves it a backlog, and it stays on the fast path.
#[inline(always)]
fn keep_polling<M: Machine>(block: &BlockDispatcher<'_, M>, context: WarpContext<'_>) {
    let WarpContext { warp, me, .. } = context;
    if warp.lane() == 0 {
        block.block_state.set_own_command(me, WarpCommand::Poll);
    }
    warp.sync();
    if block.partition.count <= 2 {
        clear_answered(block, warp); // its producer waits for that
    }
}

/// Whether requests have come one at a time of late. By the poller, once.
#[inline(always)]
fn is_burst_over<M: Machine>(block: &BlockDispatcher<'_, M>, warp: Warp<'_>) -> bool {
    let left = together(warp, || {
        let left = block.block_state.burst_cooldown.load(Ordering::Relaxed);
        block.block_state.burst_cooldown.store(left.saturating_sub(1), Ordering::Relaxed);
        left
    });
    left == 0
}

/// The stop word. A drain polls every window several times and then ends: every request in the ring
/// when the drain began was seen by then, and a producer that keeps sending cannot prolong the drain.
///
/// A sweep counts if the ring's requests could be taken, or if anything has moved since the last sweep;
/// then as much as all the polls until a slot that was left alone is tried again. It does not while all
/// that could be said is that warps and graphs are still at work: the end waits for the warps in any
/// case, and the ring's requests are served when the warps are free. If they take too long the host ends
/// this at once.
fn stop_now<M: Machine>(block: &BlockDispatcher<'_, M>, warp: Warp<'_>, windows: u32, free: u32) -> u64 {
    let stop = together(warp, || block.block_state.stop.load(Ordering::Relaxed));
    if stop != control::STOP_DRAIN {
        return stop;
    }
    // Flags set before the stop are seen by the polls that follow. Pairs with the fence in `maintain`.
    barrier::observe_from_peer();
    let polls = together(warp, || {
        let for_launches = M::GRAPHS && waits_for_launches(block);
        // What waits for a launch is taken and left again and again.
        let moves = block.block_state.moves(!for_launches);
        let still = moves == block.block_state.moved.load(Ordering::Relaxed);
        let waits = for_launches || free == 0 && block.workers > 1;
        let counts = if still { u32::from(!waits) } else { quiet_sweeps::<M>() };
        let polls = block.block_state.drained.load(Ordering::Relaxed) + u64::from(counts);
        block.block_state.moved.store(moves, Ordering::Relaxed);
        block.block_state.drained.store(polls, Ordering::Relaxed);
        polls
    });
    let most = DRAIN_SWEEPS * (windows + 1) * quiet_sweeps::<M>();
    if polls > u64::from(most) { control::STOP_NOW } else { stop }
}

/// Whether the end waits for nothing any more: no graph is under way, or the host wants the end at once. A drain that
/// has polled often enough takes no requests, but waits for graphs: they answer.
fn may_end<M: Machine>(block: &BlockDispatcher<'_, M>, warp: Warp<'_>) -> bool {
    let at_once = || block.block_state.stop.load(Ordering::Relaxed) == control::STOP_NOW;
    !M::GRAPHS || together(warp, || u64::from(at_once() || maintenance::children_running(block) == 0)) != 0
}

/// Lets go of requests that wait for a warp: they are still in the ring.
fn drop_backlog<M: Machine>(block: &BlockDispatcher<'_, M>, warp: Warp<'_>) {
    if warp.lane() == 0 {
        while let Some((window, bits, _)) = block.block_state.pop_backlog(1) {
            slot_state::set_state(block, block.partition.slot_at(warp, window, bits.trailing_zeros()), 0);
        }
    }
    warp.sync();
}

/// Looks at two windows with loads that are under way together; at the first only if the fast path has
/// not (`held`).
#[inline(always)]
fn poll_windows<M: Machine>(
    block: &BlockDispatcher<'_, M>,
    warp: Warp<'_>,
    at: [u32; 2],
    both: bool,
    held: Option<WindowWords>,
) -> [Seen; 2] {
    // A slot's state is read before its flag. The warp that served the slot cleared the flag before it cleared the state. So a
    // set flag after a clear state is a new request. The other order would serve a request twice.
    let states = at.map(|window| slot_state::states(block, warp, window));
    let first = poll::flags(block, warp, at[0], held.is_none());
    let second = poll::flags(block, warp, at[1], both);
    let [states_of_first, first] = held.unwrap_or([states[0], first]);
    let first = classify(block, warp, at[0], states_of_first, first);
    [first, if both { classify(block, warp, at[1], states[1], second) } else { Seen::NOTHING }]
}

/// Of several requests, those whose slot's previous response was taken: one burst of loads for all of
/// them. (A single one fetches that flag with its payload.) A response that the consumer does not take
/// blocks its own slot and no other.
#[inline(always)]
fn taken<M: Machine>(block: &BlockDispatcher<'_, M>, warp: Warp<'_>, window: u32, seen: Seen) -> Seen {
    let first = block.partition.first_of(warp, window);
    let inside = first < block.partition.first + block.partition.count;
    let answers = if inside { block.ring.tx_pair(first) } else { [0; 2] };
    let free = answers.map(|answer| warp.ballot(answer == flag::FREE));
    Seen { ready: seen.ready & (spread(free[0]) | spread(free[1]) << 1), invalid_flags: seen.invalid_flags }
}

/// Votes on what was read.
#[inline(always)]
fn classify<M: Machine>(
    block: &BlockDispatcher<'_, M>,
    warp: Warp<'_>,
    window: u32,
    states: [u64; 2],
    flags: [u64; 2],
) -> Seen {
    let first = block.partition.first_of(warp, window);
    let mut ready = [false; 2];
    let mut valid_flag = [false; 2];
    for i in 0..2 {
        let slot = first + i as u32;
        let set = flags[i] != flag::FREE && slot < block.partition.first + block.partition.count;
        if states[i] != 0 && states[i] < RESPONDED {
            // Another owner's request: a turn less to leave it alone, and none if it is gone.
            slot_state::set_state(block, slot, if set { states[i] - 1 } else { 0 });
        }
        ready[i] = set && states[i] == 0;
        valid_flag[i] = block.ring.is_address_of(slot, flags[i]);
    }
    let votes = |bits: [bool; 2]| spread(warp.ballot(bits[0])) | spread(warp.ballot(bits[1])) << 1;
    if warp.ballot(ready[0] || ready[1]) == 0 {
        return Seen::NOTHING;
    }
    Seen {
        ready: votes(ready),
        invalid_flags: votes([ready[0] && !valid_flag[0], ready[1] && !valid_flag[1]]),
    }
}

/// Graph launches of this execution.
fn launches_used<M: Machine>(block: &BlockDispatcher<'_, M>, warp: Warp<'_>) -> u64 {
    together(warp, || block.block_state.launches.used())
}

/// Whether the rest of this execution's budget was given up.
fn is_spent<M: Machine>(block: &BlockDispatcher<'_, M>, warp: Warp<'_>) -> bool {
    together(warp, || u64::from(block.block_state.launches.is_spent())) != 0
}

/// Whether this is a good moment for a fresh budget of launches: half of it is used and no child runs.
fn should_relaunch<M: Machine>(block: &BlockDispatcher<'_, M>, warp: Warp<'_>) -> bool {
    launches_used(block, warp) >= RELAUNCH_FROM
        && together(warp, || maintenance::children_running(block)) == 0
}

/// Ends the other warps, all of which are free, and waits until the maintenance warp has ended.
fn dismiss<M: Machine>(block: &BlockDispatcher<'_, M>, context: WarpContext<'_>) {
    let WarpContext { warp, me, .. } = context;
    for index in warp.stride(block.workers as usize) {
        if index as u32 != me {
            block.block_state.set_command(index as u32, WarpCommand::Exit);
        }
    }
    if !block.poller_maintains {
        if warp.lane() == 0 {
            block.block_state.set_command(block.workers, WarpCommand::Exit);
            while block.block_state.read(block.workers) != WarpCommand::Free {
                block.machine.sleep();
            }
        }
        warp.sync();
    }
}

/// The end, unless a graph has not answered: then the next execution begins when that has ended, and answers for it.
#[inline(always)]
pub(super) fn end<M: Machine>(block: &BlockDispatcher<'_, M>, context: WarpContext<'_>) -> After {
    let warp = context.warp;
    let again =
        M::GRAPHS && together(warp, || u64::from(ProgramContext(block).has_answer_outstanding())) != 0;
    finish(block, context, again)
}

/// Launches the dispatcher again, or says why it ended.
#[inline(always)]
pub(super) fn relaunch<M: Machine>(block: &BlockDispatcher<'_, M>, context: WarpContext<'_>) -> After {
    finish(block, context, true)
}

/// Last figures, what outlives this execution, and then the next one, or the word that says that there is none. Inline: a
/// block whose address goes elsewhere would live in memory.
#[inline(always)]
fn finish<M: Machine>(block: &BlockDispatcher<'_, M>, context: WarpContext<'_>, mut again: bool) -> After {
    let warp = context.warp;
    dismiss(block, context);
    // A maintenance warp of the next execution does that first, beside its poller.
    if !again || block.poller_maintains {
        maintenance::maintain(block, warp);
    }
    let mut state = control::STATE_ENDED;
    if M::GRAPHS {
        save_totals(block, warp);
        if warp.lane() == 0 {
            save_launches(block, again);
        }
        // What the other lanes saved is before the launch, which is the next execution's beginning.
        warp.sync();
        if again {
            let mut failed = false;
            if warp.lane() == 0
                && let Err(code) = block.machine.relaunch()
            {
                failed = true;
                block.saved.store(saved::DRAINED, 0, Ordering::Relaxed);
                block.control.store(control::RELAUNCH_ERROR, code as u32 as u64, Ordering::Relaxed);
            }
            again = !warp.any(failed);
            state = control::STATE_FAILED;
            if !again {
                maintenance::publish_saved(block, warp);
            }
        }
    }
    if !again {
        close(block, warp, state);
    }
    After::End
}

fn close<M: Machine>(block: &BlockDispatcher<'_, M>, warp: Warp<'_>, state: u64) {
    // Release, after the barrier: an agent that sees the state sees the last counters.
    warp.sync();
    if warp.lane() == 0 {
        block.control.store(control::STATE, state, Ordering::Release);
    }
}

/// Saves counts of launches, and where the next execution continues if there is one. By one lane.
#[inline(always)]
fn save_launches<M: Machine>(block: &BlockDispatcher<'_, M>, again: bool) {
    let store = |word, value| block.saved.store(word, value, Ordering::Relaxed);
    // Before the first store: neither load waits for the other.
    let relaunches = block.saved.load(saved::RELAUNCHES, Ordering::Relaxed) + 1;
    store(saved::UNCOUNTED, maintenance::uncounted_so_far(block));
    store(saved::LAUNCHES, maintenance::launches_so_far(block));
    // No maintenance round may come before the next execution, which begins without it.
    maintenance::publish_launch_error(block);
    let mut drained = 0;
    if again {
        drained = block.block_state.drained.load(Ordering::Relaxed);
        store(saved::RELAUNCHES, relaunches);
        let load = |word: &BlockU64| word.load(Ordering::Relaxed) & 0xFFFF;
        let [cursor, next_bit, sweep] =
            [&block.block_state.cursor, &block.block_state.next_bit, &block.block_state.sweep].map(load);
        store(saved::CURSOR, cursor | next_bit << 16 | sweep << 32);
        block.control.store(control::RELAUNCHES, relaunches, Ordering::Relaxed);
    }
    store(saved::DRAINED, drained);
    if !again {
        store(saved::NEXT, 0);
    }
}

/// Saves the counters, those of children apart: they go on counting there until they end.
fn save_totals<M: Machine>(block: &BlockDispatcher<'_, M>, warp: Warp<'_>) {
    for (index, total) in maintenance::totals(block, warp) {
        block.saved.store(saved::COUNTERS + index, total, Ordering::Relaxed);
    }
}

/// Sweeps after which a drain believes that nothing is left. What waits for an executable is left alone for some turns.
const fn quiet_sweeps<M: Machine>() -> u32 {
    if M::GRAPHS { DEFERRED_TURNS as u32 + 1 } else { 1 }
}

/// The same for every answered slot, where no maintenance warp does it.
#[inline(always)]
fn clear_answered<M: Machine>(block: &BlockDispatcher<'_, M>, warp: Warp<'_>) {
    if block.is_alone() {
        maintenance::publish(block, warp);
    }
}

/// Whether a request may wait in the ring for the work now in progress: for graphs that have not ended, a
/// relaunch, or a handler that may ask for the trigger graph. By one lane.
fn waits_for_launches<M: Machine>(block: &BlockDispatcher<'_, M>) -> bool {
    let launches = &block.block_state.launches;
    launches.used() >= LAUNCHES_PER_EXECUTION
        || launches.has_trigger_taken()
        || maintenance::children_running(block) != 0
}

//! Assignment of polled requests to warps, and the backlog of requests that wait for a warp.

use super::batch::Batch;
use super::bits::{lowest, nth, without};
use super::block_state::WarpCommand;
use super::slot_copy::BurstLoad;
use super::slot_state::{BUSY, Job};
use super::{BlockDispatcher, Machine, WarpContext, Work, batch, slot_state, together};
use core::sync::atomic::Ordering;
use ringcall_gpu::team::Warp;
use ringcall_protocol::RingMemory;
use ringcall_wire::launch::control;

/// Turns as poller after a burst until the fast path is tried again.
const BURST_COOLDOWN: u64 = 4;

/// Requests seen in one window.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    /// Slots of the window whose flag is set and that no warp serves.
    pub(super) ready: u64,
    /// Those of them whose flag was not their address.
    pub(super) invalid_flags: u64,
}

impl Seen {
    pub(super) const NOTHING: Self = Self { ready: 0, invalid_flags: 0 };
}

/// How many of the requests that are ready each warp gets: as even as can be, and no more than a warp serves at once.
#[derive(Clone, Copy)]
struct EvenSplit {
    each: u32,
    /// Warps that get one more.
    more: u32,
}

impl EvenSplit {
    #[inline(always)]
    const fn new(ready: u32, servers: u32, limit: u32) -> Self {
        let each = ready / servers;
        if each < limit { Self { each, more: ready % servers } } else { Self { each: limit, more: 0 } }
    }

    /// What the server of this rank gets.
    #[inline(always)]
    const fn of(self, rank: u32) -> u32 {
        self.each + if rank < self.more { 1 } else { 0 }
    }

    /// What the servers of lower ranks get.
    #[inline(always)]
    const fn before(self, rank: u32) -> u32 {
        rank * self.each + if rank < self.more { rank } else { self.more }
    }
}

/// Assigns the requests of a window to this warp and the free warps, and hands polling off.
///
/// The first requests are this warp's own. If there are more requests than warps, a warp gets several. Requests beyond the
/// warps' limit wait in the backlog for the next free warp.
#[inline(always)]
#[allow(clippy::too_many_arguments)] // one call
pub(super) fn hand_out<M: Machine>(
    block: &BlockDispatcher<'_, M>,
    context: WarpContext<'_>,
    window: u32,
    seen: Seen,
    free: u32,
    windows: u32,
    turn: u32,
) -> Work {
    let warp = context.warp;
    // The order begins after the last request of the turn before, so that no slot waits indefinitely for the slots before
    // it. A producer that goes around the ring writes there next.
    let order = seen.ready.rotate_right(turn);
    let at = |rotated: u32| (rotated + turn) % 64;
    // The first free warp gets to poll; the others serve, as this one does.
    let servers = free.count_ones().max(1);
    let few = seen.ready.count_ones() < 2 * servers;
    let limit = if few { 1 } else { batch::limit(block, warp) };
    let split = EvenSplit::new(seen.ready.count_ones(), servers, limit);
    let (work, last) = if M::BATCHES && split.of(0) > 1 {
        let own = lowest(order, split.of(0)).rotate_left(turn);
        let taken = lowest(order, split.before(servers));
        mark_busy(block, warp, window, taken.rotate_left(turn));
        // All slot states are set before a warp serves a request: the barrier, then the release in `set_command`.
        warp.sync();
        hand_out_batches(block, context, window, seen, [order, u64::from(turn)], free, split);
        let rest = (order & !taken).rotate_left(turn);
        if free != 0 && rest != 0 {
            push_backlog(block, warp, window, Seen { ready: rest, invalid_flags: seen.invalid_flags });
        }
        let first = block.partition.slot_at(warp, window, 0);
        let batch = Batch { first, slots: own, invalid_flags: seen.invalid_flags & own, turn };
        (Work::Many(batch), at(63 - taken.leading_zeros()))
    } else {
        let own = at(order.trailing_zeros());
        let valid_flag = |bit: u32| seen.invalid_flags >> bit & 1 == 0;
        let slot = block.partition.slot_at(warp, window, own);
        let alone = block.poller_maintains || seen.ready.is_power_of_two();
        // Its loads are under way while the rest is handed out.
        let job = Job { slot, valid_flag: valid_flag(own), alone, burst: fetch_own(block, warp, slot) };
        let mut last = own;
        if !seen.ready.is_power_of_two() && free != 0 {
            let helpers = free & (free - 1);
            let mut base = 0;
            while base < block.workers {
                let index = base + warp.lane();
                let rank = (helpers & ((1 << (index & 31)) - 1)).count_ones() + 1;
                if index < block.workers
                    && helpers >> index & 1 == 1
                    && let Some(rotated) = nth(order, rank)
                {
                    let bit = at(rotated);
                    let slot = block.partition.slot_at(warp, window, bit);
                    slot_state::set_state(block, slot, BUSY);
                    block
                        .block_state
                        .set_command(index, WarpCommand::Serve { slot, valid_flag: valid_flag(bit) });
                }
                base += warp.lanes();
            }
            let taken = servers.min(order.count_ones());
            last = nth(order, taken - 1).map_or(own, at);
            let rest = without(order, taken).rotate_left(turn);
            if rest != 0 {
                push_backlog(block, warp, window, Seen { ready: rest, invalid_flags: seen.invalid_flags });
            }
        }
        (Work::One(job), last)
    };
    if warp.lane() == 0 {
        if !seen.ready.is_power_of_two() {
            block.block_state.burst_cooldown.store(BURST_COOLDOWN, Ordering::Relaxed);
        }
        block.block_state.next_bit.store(u64::from(last + 1), Ordering::Relaxed);
        let next =
            (block.partition.slot_at(warp, window, last) - block.partition.first + 1) / (2 * warp.lanes());
        block.block_state.cursor.store(u64::from(if next < windows { next } else { 0 }), Ordering::Relaxed);
    }
    pass_on(block, context, &work, free);
    work
}

/// The requests of a window that a warp which does everything serves next, at once: those from bit `turn` on.
#[inline(always)]
pub(super) fn own_batch<M: Machine>(
    block: &BlockDispatcher<'_, M>,
    warp: Warp<'_>,
    window: u32,
    seen: Seen,
    turn: u32,
) -> Batch {
    let slots = lowest(seen.ready.rotate_right(turn), batch::limit(block, warp)).rotate_left(turn);
    Batch {
        first: block.partition.slot_at(warp, window, 0),
        slots,
        invalid_flags: seen.invalid_flags & slots,
        turn,
    }
}

/// Notes where the next poller begins: at bit `turn` of the window.
#[inline(always)]
pub(super) fn note_turn<M: Machine>(block: &BlockDispatcher<'_, M>, warp: Warp<'_>, window: u32, turn: u32) {
    if warp.lane() == 0 {
        block.block_state.burst_cooldown.store(BURST_COOLDOWN, Ordering::Relaxed);
        block.block_state.next_bit.store(u64::from(turn), Ordering::Relaxed);
        block.block_state.cursor.store(u64::from(window), Ordering::Relaxed);
    }
}

/// Gives each of the `free` warps but the first, which is to poll, its part of the requests, which are in `order` from bit
/// `turn` on.
#[inline(always)]
fn hand_out_batches<M: Machine>(
    block: &BlockDispatcher<'_, M>,
    context: WarpContext<'_>,
    window: u32,
    seen: Seen,
    [order, turn]: [u64; 2],
    free: u32,
    split: EvenSplit,
) {
    let warp = context.warp;
    let helpers = free & free.wrapping_sub(1);
    let first = block.partition.slot_at(warp, window, 0);
    let mut base = 0;
    while helpers != 0 && base < block.workers {
        let index = base + warp.lane();
        let rank = (helpers & ((1 << (index & 31)) - 1)).count_ones() + 1;
        let slots = lowest(without(order, split.before(rank)), split.of(rank)).rotate_left(turn as u32);
        if index < block.workers && helpers >> index & 1 == 1 && slots != 0 {
            block.block_state.set_batch(index, slots, seen.invalid_flags & slots);
            block.block_state.set_command(index, WarpCommand::ServeBatch { first });
        }
        base += warp.lanes();
    }
}

/// Sets the states of a window's slots to [`BUSY`].
#[inline(always)]
fn mark_busy<M: Machine>(block: &BlockDispatcher<'_, M>, warp: Warp<'_>, window: u32, slots: u64) {
    for i in 0..2 {
        let bit = warp.lane() * 2 + i;
        if slots >> bit & 1 == 1 {
            slot_state::set_state(block, block.partition.slot_at(warp, window, bit), BUSY);
        }
    }
}

/// Sets the state of the poller's own requests to busy, and hands polling off to a free warp.
#[inline(always)]
pub(super) fn pass_on<M: Machine>(
    block: &BlockDispatcher<'_, M>,
    context: WarpContext<'_>,
    work: &Work,
    free: u32,
) {
    let WarpContext { warp, me, .. } = context;
    if warp.lane() == 0 {
        if let Work::One(job) = work {
            slot_state::set_state(block, job.slot, BUSY);
        }
        note_work(block, me, work);
    }
    // All slot states are set before the next poller polls: the barrier, then the release in `set_command`.
    warp.sync();
    if warp.lane() == 0 && free != 0 {
        block.block_state.set_command(free.trailing_zeros(), WarpCommand::Poll);
    }
}

/// Notes for the watchdog what this warp serves. By one lane.
#[inline(always)]
pub(super) fn note_work<M: Machine>(block: &BlockDispatcher<'_, M>, me: u32, work: &Work) {
    let command = match *work {
        Work::One(job) => WarpCommand::Serve { slot: job.slot, valid_flag: job.valid_flag },
        Work::Many(batch) | Work::Alone(batch) => {
            block.block_state.set_batch(me, batch.slots, batch.invalid_flags);
            WarpCommand::ServeBatch { first: batch.first }
        }
    };
    block.block_state.set_own_command(me, command);
}

/// Puts requests into the backlog, for the next free warp. If the backlog is not empty, the requests stay in the ring for a
/// later turn.
#[inline(always)]
pub(super) fn push_backlog<M: Machine>(
    block: &BlockDispatcher<'_, M>,
    warp: Warp<'_>,
    window: u32,
    seen: Seen,
) {
    if together(warp, || u64::from(block.block_state.has_backlog())) != 0 {
        return;
    }
    mark_busy(block, warp, window, seen.ready);
    // All slot states are set before a warp takes a request: the barrier, then the release in `push_backlog`.
    warp.sync();
    if warp.lane() == 0 {
        block.block_state.push_backlog(window, seen.ready, seen.invalid_flags);
    }
}

/// Takes requests that wait for a warp: as many as each of the warps would get.
#[inline(always)]
pub(super) fn pop_backlog<M: Machine>(block: &BlockDispatcher<'_, M>, warp: Warp<'_>) -> Option<Work> {
    let mut taken = (0, 0, 0);
    if warp.lane() == 0 && block.block_state.stop.load(Ordering::Relaxed) != control::STOP_NOW {
        let even = block.block_state.backlog_len().div_ceil(block.workers);
        let most = even.min(batch::limit(block, warp)).max(1);
        taken = block.block_state.pop_backlog(most).unwrap_or_default();
    }
    let slots = warp.shuffle_u64(taken.1, 0);
    let invalid_flags = warp.shuffle_u64(taken.2, 0);
    let first = block.partition.slot_at(warp, warp.shuffle(taken.0, 0), 0);
    warp.sync(); // and what the acquire ordered is ordered for all of them
    if slots & slots.wrapping_sub(1) != 0 {
        return Some(Work::Many(Batch { first, slots, invalid_flags, turn: 0 }));
    }
    (slots != 0).then_some(())?;
    let bit = slots.trailing_zeros();
    job_of(block, warp, first + bit, invalid_flags >> bit & 1 == 0).map(Work::One)
}

/// A request that no warp has read.
#[inline(always)]
pub(super) fn job_of<M: Machine>(
    block: &BlockDispatcher<'_, M>,
    warp: Warp<'_>,
    slot: u32,
    valid_flag: bool,
) -> Option<Job> {
    let index = block.ring.geometry().slot(slot)?;
    // With its response flag: no warp has read that flag yet.
    let burst = BurstLoad::with_flag(warp, block.ring, index);
    Some(Job { slot, valid_flag, alone: block.poller_maintains, burst })
}

/// Begins to fetch a slot and its response flag.
#[inline(always)]
fn fetch_own<M: Machine>(block: &BlockDispatcher<'_, M>, warp: Warp<'_>, slot: u32) -> BurstLoad {
    block
        .ring
        .geometry()
        .slot(slot)
        .map(|slot| BurstLoad::with_flag(warp, block.ring, slot))
        .unwrap_or_default()
}

//! Calls that all threads of a cooperative grid take part in.
//!
//! One warp polls (it polls and serves as any other dispatcher does); all other threads wait here. The poller decides
//! alone, about calls and about the end, and publishes both in one word: no two threads can disagree about what
//! happens next.
//!
//! Or a separate block serves, several of whose warps call ([`GridPort::call`]), each with a
//! [ticket](CallTickets) and private staging buffers: while the grid runs one call, the next request is
//! polled for, fetched and checked, and the last one answered.
//!
//! That word, in device memory, has all that changes from call to call, and one thread a block reads it. What it says that
//! thread passes on in the block's shared memory ([`CachedCall`]), which costs the others a tenth of a read of device memory.

use super::Returned;
#[cfg(not(loom))]
use core::mem::offset_of;
use core::sync::atomic::Ordering;
use ringcall_gpu::atomic::{BlockU64, DeviceU64};
use ringcall_gpu::team;
use ringcall_gpu::{barrier, hint};
use ringcall_wire::launch::MAX_WARPS;

/// The word that ends the grid.
const END: u64 = u64::MAX;
/// A call's word: payload bytes in the low half, then [`CHANGED`], the number of the staging buffers, and its turn from this bit on.
const TURN_SHIFT: u32 = 41;
/// Where the number of the staging buffers begins.
const STAGING_SHIFT: u32 = 33;
/// Bit of a call's word: handler or capacity are not the last call's.
const CHANGED: u64 = 1 << 32;
/// Turns, from 1, after which they begin again: an even number, and below the one with all bits set, so that no call's word is
/// [`END`].
const TURNS: u64 = (1 << (64 - TURN_SHIFT)) - 2;
/// Pairs of staging buffers, of which each warp that serves has one.
const STAGING_BUFFERS: usize = MAX_WARPS;

/// Where a grid meets: device memory. All zero is a grid channel at which nothing happened yet.
///
/// Calls take turns in two cells. The poller's next call may be published before the last one is over everywhere,
/// not the one after it: a block that has finished its part continues at once.
#[derive(Debug, Default)]
#[repr(C)]
pub struct GridChannel {
    /// The word of the last call of each cell, another one with every call. The poller's.
    turns: [Line; 2],
    /// Blocks that have finished calls of each cell since the beginning, the poller's apart.
    done: [Line; 2],
    /// What is called: its address, and room for the result. The poller's, written when they change and all calls are over.
    handler: DeviceU64,
    capacity: DeviceU64,
    /// What the last handler for each pair of staging buffers returned in the block that [reports](Participant::Reporter): length and status, the status
    /// in the low half.
    returned: [DeviceU64; STAGING_BUFFERS],
}

#[cfg(not(loom))]
const _: () = {
    // As kernels-cu/grid_channel.cuh has them.
    assert!(offset_of!(GridChannel, turns) == 0 && offset_of!(GridChannel, done) == 256);
    assert!(offset_of!(GridChannel, handler) == 512 && offset_of!(GridChannel, returned) == 528);
    assert!(size_of::<Line>() == 128);
};

/// A word on a separate cache line: many threads poll one, others add to the other.
#[derive(Debug, Default)]
#[repr(C, align(128))]
struct Line(DeviceU64);

/// The call that a block runs, in its shared memory. One thread writes it (in the poller's block the poller's lane
/// 0, or, in turns, the calling warps; in others thread 0), between a call's last barrier and the next call's
/// first; all read it after that. All zero: nothing yet, which it is at first in the poller's block.
#[derive(Debug, Default)]
#[repr(C, align(16))]
pub struct CachedCall {
    /// The call's word, as in the [`GridChannel`].
    word: BlockU64,
    handler: BlockU64,
    capacity: BlockU64,
    /// How many calls there were.
    calls: BlockU64,
}

/// What is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GridCall {
    /// Address of the handler.
    pub handler: u64,
    /// Payload bytes.
    pub arg_len: u32,
    /// Room for the result.
    pub capacity: u32,
    /// Number of the staging buffers that have the request and the result, below 256.
    pub staging: u32,
}

/// The turns in which the warps of a block call: shared memory. All zero: no warp has called yet.
#[derive(Debug, Default)]
#[repr(C, align(16))]
pub struct CallTickets {
    /// Turns taken, and those whose call was published.
    taken: BlockU64,
    published: BlockU64,
    /// Calls of each cell that are over.
    over: [BlockU64; 2],
}

impl CallTickets {
    /// Bytes of shared memory, a multiple of 16.
    pub const BYTES: u32 = size_of::<Self>() as u32;

    /// Takes a turn, and waits until its call may be published: the last call was published, and the one before that is over. By one thread.
    /// Waits for as long as calls take.
    #[inline(always)]
    fn take(&self) -> u64 {
        let turn = self.taken.fetch_add(1, Ordering::Relaxed);
        // Acquire: pairs with `published`.
        while self.published.load(Ordering::Acquire) != turn {
            hint::spin();
        }
        self.wait_for(cell_of(turn), turn / 2);
        turn
    }

    /// Waits until all calls before this turn's are over.
    fn clear(&self, turn: u64) {
        self.wait_for(cell_of(turn + 1), turn.div_ceil(2));
    }

    #[inline(always)]
    fn wait_for(&self, cell: usize, calls: u64) {
        // Acquire: pairs with `leave`.
        while self.over.get(cell).is_some_and(|over| over.load(Ordering::Acquire) != calls) {
            hint::spin();
        }
    }

    /// This turn's call was published. Release: what the grid channel's poller has written, the next one may read and write.
    #[inline(always)]
    fn published(&self, turn: u64) {
        self.published.store(turn.wrapping_add(1), Ordering::Release);
    }

    /// This turn's call is over.
    #[inline(always)]
    fn leave(&self, turn: u64) {
        if let Some(over) = self.over.get(cell_of(turn)) {
            // Release: pairs with `wait_for`.
            over.store(turn / 2 + 1, Ordering::Release);
        }
    }
}

/// The cell of the call that so many were made before.
#[inline(always)]
const fn cell_of(calls: u64) -> usize {
    (calls % 2) as usize
}

impl CachedCall {
    /// Bytes of shared memory, a multiple of 16.
    pub const BYTES: u32 = size_of::<Self>() as u32;

    /// The word of the call after `calls` others, the last of which was published, and whether its handler or capacity are new.
    #[inline(always)]
    fn next(&self, calls: u64, call: GridCall) -> (u64, bool) {
        let before = self.call(self.word.load(Ordering::Relaxed));
        let changed = (before.handler, before.capacity) != (call.handler, call.capacity);
        let turn = calls % TURNS + 1;
        let bit = if changed { CHANGED } else { 0 };
        let staging = u64::from(call.staging & 0xFF) << STAGING_SHIFT;
        (turn << TURN_SHIFT | staging | bit | u64::from(call.arg_len), changed)
    }

    #[inline(always)]
    fn call(&self, word: u64) -> GridCall {
        GridCall {
            handler: self.handler.load(Ordering::Relaxed),
            arg_len: word as u32,
            capacity: self.capacity.load(Ordering::Relaxed) as u32,
            staging: (word >> STAGING_SHIFT) as u32 & 0xFF,
        }
    }

    /// Relaxed: the block's barrier follows.
    #[inline(always)]
    fn store(&self, word: u64, target: Option<[u64; 2]>) {
        if let Some([handler, capacity]) = target {
            self.handler.store(handler, Ordering::Relaxed);
            self.capacity.store(capacity, Ordering::Relaxed);
        }
        self.word.store(word, Ordering::Relaxed);
    }

    /// The current call, for a thread past the barrier after [`store`](Self::store); `None` at the end.
    #[inline(always)]
    fn present(&self) -> Option<GridCall> {
        let word = self.word.load(Ordering::Relaxed);
        // Read with it, not after it.
        let call = self.call(word);
        (word != END).then_some(call)
    }
}

impl GridChannel {
    /// Bytes of device memory.
    pub const BYTES: usize = size_of::<Self>();

    /// The grid channel as the calling thread has it: its block, and that block's cached call.
    #[inline(always)]
    #[must_use]
    pub const fn port<'a>(&'a self, block: team::Block<'a>, cached: &'a CachedCall) -> GridPort<'a> {
        GridPort { channel: self, cached, block }
    }

    /// Calls the participants. By the poller's lane 0, after the request was copied to its staging buffer; the poller's own
    /// block, whose cached call is `cached`, is called by its barrier. Returns the number of the call, for [`gather`](Self::gather).
    ///
    /// The last call is read in `cached`: a read of the grid channel takes ten times as long.
    #[inline(always)]
    pub fn call(&self, cached: &CachedCall, call: GridCall) -> u64 {
        let calls = cached.calls.load(Ordering::Relaxed);
        let (word, changed) = cached.next(calls, call);
        self.publish(cached, [calls, word], call, changed, Ordering::Release);
        calls
    }

    /// Release, unless a release fence lies after the writes to the staging buffer and nothing has changed: pairs with `wait`.
    #[inline(always)]
    fn publish(
        &self,
        cached: &CachedCall,
        [calls, word]: [u64; 2],
        call: GridCall,
        changed: bool,
        order: Ordering,
    ) {
        let target = [call.handler, u64::from(call.capacity)];
        if changed {
            self.handler.store(target[0], Ordering::Relaxed);
            self.capacity.store(target[1], Ordering::Relaxed);
        }
        if let Some(turn) = self.turns.get(cell_of(calls)) {
            turn.0.store(word, order);
        }
        cached.store(word, changed.then_some(target));
        cached.calls.store(calls.wrapping_add(1), Ordering::Relaxed);
    }

    /// Ends everybody in other blocks than the poller's, when all calls are over. By one thread of that.
    pub fn end(&self) {
        for turn in &self.turns {
            // Release: pairs with `wait`.
            turn.0.store(END, Ordering::Release);
        }
    }

    /// Waits for the call after `calls` others, and stores it for the block; `last` is the word of the last call of the same cell. By
    /// one thread of a block that is not the poller's. Ends when the poller calls or ends, as it does in every case: at the
    /// latest when the host stops it.
    #[inline(always)]
    fn wait(&self, cached: &CachedCall, calls: u64, last: u64) -> u64 {
        let Some(turn) = self.turns.get(cell_of(calls)) else { return END };
        let word = loop {
            // Acquire: pairs with `call` and `end`.
            let word = turn.0.load(Ordering::Acquire);
            if word != last {
                break word;
            }
            hint::spin();
        };
        // The poller changes neither before this block has arrived.
        let target = || [self.handler.load(Ordering::Relaxed), self.capacity.load(Ordering::Relaxed)];
        cached.store(word, (word & CHANGED != 0).then(target));
        word
    }

    /// What the handler returned. By one thread, before it arrives.
    #[inline(always)]
    fn report(&self, staging: u32, returned: Returned) {
        if let Some(word) = self.returned.get(staging as usize) {
            word.store(u64::from(returned.len) << 32 | u64::from(returned.status as u32), Ordering::Relaxed);
        }
    }

    /// One block has finished call number `calls`. Release: its results are visible to the poller.
    #[inline(always)]
    fn arrive(&self, calls: u64) {
        if let Some(done) = self.done.get(cell_of(calls)) {
            done.0.fetch_add(1, Ordering::Release);
        }
    }

    /// Waits until the other blocks have finished call number `calls`. By the poller's lane 0. Ends when their handlers return: as
    /// with every handler that is called, one that does not is the watchdog's to report.
    #[inline(always)]
    pub fn gather(&self, calls: u64, others: u64) {
        let Some(done) = self.done.get(cell_of(calls)) else { return };
        let arrivals = (calls / 2 + 1).wrapping_mul(others);
        // Acquire: pairs with `arrive`.
        while done.0.load(Ordering::Acquire) < arrivals {
            hint::spin();
        }
    }
}

/// What a thread that does not poll is at a [`GridChannel`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Participant {
    /// Of the poller's block, whose threads wait at the block's barrier, which the poller joins.
    PollersBlock,
    /// Of the block whose first thread reports what the handler returned there, for a poller that takes no part.
    Reporter,
    /// Of any other.
    Other,
}

/// A thread's port of a [`GridChannel`].
#[derive(Debug, Clone, Copy)]
pub struct GridPort<'a> {
    channel: &'a GridChannel,
    cached: &'a CachedCall,
    block: team::Block<'a>,
}

impl GridPort<'_> {
    /// The life of every thread that does not poll.
    pub fn participate(&self, participant: Participant, mut run: impl FnMut(GridCall) -> Returned) {
        let Self { channel, cached, block } = *self;
        let waits = participant != Participant::PollersBlock && block.thread() == 0;
        if waits {
            cached.store(0, Some([0; 2]));
        }
        let (mut calls, mut last) = (0, [0; 2]);
        loop {
            if waits {
                let [before, after] = last;
                last = [after, channel.wait(cached, calls, before)];
            }
            block.sync();
            let Some(call) = cached.present() else { return };
            let returned = run(call);
            if waits && participant == Participant::Reporter {
                channel.report(call.staging, returned);
            }
            block.sync();
            if waits {
                channel.arrive(calls);
                calls += 1;
            }
        }
    }

    /// One call, by all lanes of a warp of a block that takes no part in it: the grid's `blocks` run it, and the results of all are
    /// visible when this returns. In turns with the block's other warps.
    ///
    /// Where one call is under way the next one is published, so that a block that has finished its part continues
    /// at once if both calls are for the same handler.
    #[inline(always)]
    pub fn call(&self, warp: team::Warp<'_>, tickets: &CallTickets, blocks: u64, call: GridCall) -> Returned {
        let Self { channel, cached, .. } = *self;
        if warp.lane() == 0 {
            // While others' calls run: the store that publishes this one then has nothing to wait for.
            barrier::publish_to_grid();
            let turn = tickets.take();
            let (word, changed) = cached.next(turn, call);
            if changed {
                tickets.clear(turn);
            }
            let order = if changed { Ordering::Release } else { Ordering::Relaxed };
            channel.publish(cached, [turn, word], call, changed, order);
            tickets.published(turn);
            channel.gather(turn, blocks);
            tickets.leave(turn);
        }
        warp.sync();
        // This pair of staging buffers' alone.
        let word = channel.returned.get(call.staging as usize).map_or(0, |word| word.load(Ordering::Relaxed));
        Returned { status: word as i32, len: (word >> 32) as u32 }
    }

    /// The poller's half of one call, by all lanes of its warp: everybody runs it, and the results of all are visible
    /// when this returns. Lane 0 does `meanwhile` when the other blocks have been called.
    #[inline(always)]
    pub fn call_grid<R>(
        &self,
        warp: team::Warp<'_>,
        others: u64,
        call: GridCall,
        meanwhile: impl FnOnce(),
        run: impl FnOnce(GridCall) -> R,
    ) -> R {
        let mut calls = 0;
        if warp.lane() == 0 {
            calls = self.channel.call(self.cached, call);
            meanwhile();
        }
        self.block.sync();
        let returned = run(call);
        self.block.sync();
        if warp.lane() == 0 {
            self.channel.gather(calls, others);
        }
        warp.sync();
        returned
    }

    /// The last act of a poller that takes no part, by one lane.
    pub fn end(&self) {
        self.channel.end();
    }

    /// The poller's last act, by all lanes of its warp.
    pub fn dismiss(&self, warp: team::Warp<'_>) {
        if warp.lane() == 0 {
            self.channel.end();
            self.cached.store(END, None);
        }
        self.block.sync();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CALL: GridCall = GridCall { handler: 0xC0DE, arg_len: 8, capacity: 100, staging: 0 };

    fn cached(word: u64, call: GridCall) -> CachedCall {
        let cached = CachedCall::default();
        cached.store(word, Some([call.handler, u64::from(call.capacity)]));
        cached
    }

    proptest! {
        #[test]
        fn a_calls_word_is_no_end_and_not_the_last_one(
            last in any::<u64>(), calls in 2..u64::MAX, arg_len in any::<u32>(), staging in 0_u32..256, same in any::<bool>(),
        ) {
            let call = GridCall { arg_len, staging, ..CALL };
            let before = if same { CALL } else { GridCall { capacity: 99, ..CALL } };
            let (word, changed) = cached(last, before).next(calls, call);
            prop_assert!(word != END && word != 0);
            for earlier in [1, 2] {
                prop_assert_ne!(word, cached(last, before).next(calls - earlier, call).0);
            }
            prop_assert_eq!(word as u32, arg_len);
            prop_assert_eq!((changed, word & CHANGED != 0), (!same, !same));
            prop_assert_eq!(cached(word, CALL).present(), Some(call));
        }
    }

    #[test]
    fn turns_begin_again_before_the_end() {
        let most = GridCall { arg_len: u32::MAX, staging: 255, ..CALL };
        let rest = u64::MAX >> (64 - TURN_SHIFT);
        for (calls, turn) in [(0, 1), (TURNS - 1, TURNS), (TURNS, 1), (TURNS + 1, 2)] {
            assert_eq!(CachedCall::default().next(calls, most).0, turn << TURN_SHIFT | rest);
        }
        // Cells go on taking turns.
        assert_eq!(cell_of(TURNS), cell_of(0));
    }

    #[test]
    fn a_block_caches_what_changed_and_keeps_the_rest() {
        let (channel, poller, others) =
            (GridChannel::default(), CachedCall::default(), CachedCall::default());
        let mut last = [0; 2];
        let other = GridCall { arg_len: 0, staging: 3, ..CALL };
        let calls = [CALL, CALL, other, GridCall { handler: 1, ..CALL }, CALL];
        for (number, (call, changed)) in (0..).zip(calls.into_iter().zip([true, false, false, true, true])) {
            assert_eq!(channel.call(&poller, call), number);
            if !changed {
                // Not read: what was stored before stands.
                channel.handler.store(0xBAD, Ordering::Relaxed);
            }
            last = [last[1], channel.wait(&others, number, last[0])];
            assert_eq!((poller.present(), others.present()), (Some(call), Some(call)));
        }
        channel.end();
        assert_eq!(channel.wait(&others, 5, last[0]), END);
        assert_eq!(others.present(), None);
    }
}

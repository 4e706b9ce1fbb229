//! Calls that all threads of a cooperative grid take part in.
//!
//! One warp leads (it polls and serves as any other dispatcher does); all other threads wait here. The leader decides
//! alone, about calls and about the end, and tells the others through one word: no two threads can disagree about what
//! happens next.
//!
//! That word, in device memory, has all that changes from call to call, and one thread a block reads it. What it says that
//! thread passes on in the block's shared memory ([`Told`]), which costs the others a tenth of a look of their own.

use core::sync::atomic::Ordering;
use ringcall_gpu::atomic::{BlockU64, DeviceU64};
use ringcall_gpu::hint;
use ringcall_gpu::team;

/// The word that ends the grid.
const END: u64 = u64::MAX;
/// A call's word: its turn from this bit on, payload bytes in the low half.
const TURN_SHIFT: u32 = 33;
/// Bit of a call's word: handler or capacity are not the last call's.
const CHANGED: u64 = 1 << 32;
/// Turns, after which they begin again at 0. The one with all bits set is no call's, so no call's word is [`END`].
const TURNS: u64 = (1 << (64 - TURN_SHIFT)) - 1;

/// Where a grid meets: device memory. All zero is a rally at which nothing happened yet.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Rally {
    /// The present call's word, another one with every call. The leader's.
    turn: Line,
    /// Blocks that have finished the present call, the leader's apart.
    done: Line,
    /// What is called: its address, and room for the result. The leader's, written when they change.
    handler: DeviceU64,
    capacity: DeviceU64,
}

/// A word on a line of its own: many threads poll one, others add to the other.
#[derive(Debug, Default)]
#[repr(C, align(128))]
struct Line(DeviceU64);

/// What a block was told, in its shared memory. One thread writes it (in the leader's block the leader's lane 0, in others
/// thread 0), between a call's last barrier and the next call's first; all read it behind that. All zero: nothing yet, which it
/// is at first in the leader's block.
#[derive(Debug, Default)]
#[repr(C, align(16))]
pub struct Told {
    /// The call's word, as in the [`Rally`].
    word: BlockU64,
    handler: BlockU64,
    capacity: BlockU64,
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
}

impl Told {
    /// Bytes of shared memory, a multiple of 16.
    pub const BYTES: u32 = size_of::<Self>() as u32;

    /// The word of the call after the one told last, and whether its handler or capacity are new.
    #[inline(always)]
    fn next(&self, call: GridCall) -> (u64, bool) {
        let last = self.word.load(Ordering::Relaxed);
        let changed = GridCall { arg_len: call.arg_len, ..self.call(last) } != call;
        let after = (last >> TURN_SHIFT) + 1;
        let turn = if after < TURNS { after } else { 0 };
        let bit = if changed { CHANGED } else { 0 };
        (turn << TURN_SHIFT | bit | u64::from(call.arg_len), changed)
    }

    #[inline(always)]
    fn call(&self, word: u64) -> GridCall {
        GridCall {
            handler: self.handler.load(Ordering::Relaxed),
            arg_len: word as u32,
            capacity: self.capacity.load(Ordering::Relaxed) as u32,
        }
    }

    /// Relaxed: the block's barrier follows.
    #[inline(always)]
    fn tell(&self, word: u64, target: Option<[u64; 2]>) {
        if let Some([handler, capacity]) = target {
            self.handler.store(handler, Ordering::Relaxed);
            self.capacity.store(capacity, Ordering::Relaxed);
        }
        self.word.store(word, Ordering::Relaxed);
    }

    /// What is called now, for a thread past the barrier behind [`tell`](Self::tell); `None` at the end.
    #[inline(always)]
    fn present(&self) -> Option<GridCall> {
        let word = self.word.load(Ordering::Relaxed);
        // Read with it, not behind it.
        let call = self.call(word);
        (word != END).then_some(call)
    }
}

impl Rally {
    /// Bytes of device memory.
    pub const BYTES: usize = size_of::<Self>();

    /// The rally as the calling thread has it: its block, and what that was told.
    #[inline(always)]
    #[must_use]
    pub const fn seat<'a>(&'a self, block: team::Block<'a>, told: &'a Told) -> Seat<'a> {
        Seat { rally: self, told, block }
    }

    /// Calls everybody. By the leader's lane 0, after the request was staged; the leader's own block, which `told` is of, is
    /// called by its barrier.
    ///
    /// What was called last is read in `told`: a read of the rally takes ten times as long.
    #[inline(always)]
    pub fn call(&self, told: &Told, call: GridCall) {
        let (word, changed) = told.next(call);
        let target = [call.handler, u64::from(call.capacity)];
        self.done.0.store(0, Ordering::Relaxed);
        if changed {
            self.handler.store(target[0], Ordering::Relaxed);
            self.capacity.store(target[1], Ordering::Relaxed);
        }
        // Release: pairs with `wait`.
        self.turn.0.store(word, Ordering::Release);
        told.tell(word, changed.then_some(target));
    }

    /// Ends everybody in other blocks than the leader's. By one thread of that.
    pub fn end(&self) {
        // Release: pairs with `wait`.
        self.turn.0.store(END, Ordering::Release);
    }

    /// Waits for the call after `last`, and tells the block. By one thread of a block that is not the leader's. Ends when the
    /// leader calls or ends, as it does in every case: at the latest when the host stops it.
    #[inline(always)]
    fn wait(&self, told: &Told, last: u64) -> u64 {
        let word = loop {
            // Acquire: pairs with `call` and `end`.
            let word = self.turn.0.load(Ordering::Acquire);
            if word != last {
                break word;
            }
            hint::spin();
        };
        // The leader changes neither before this block has arrived.
        let target = || [self.handler.load(Ordering::Relaxed), self.capacity.load(Ordering::Relaxed)];
        told.tell(word, (word & CHANGED != 0).then(target));
        word
    }

    /// One block has finished the present call. Release: its results are visible to the leader.
    #[inline(always)]
    fn arrive(&self) {
        self.done.0.fetch_add(1, Ordering::Release);
    }

    /// Waits until the other blocks have finished. By the leader's lane 0. Ends when their handlers return: as with every
    /// handler that is called, one that does not is the watchdog's to tell.
    #[inline(always)]
    pub fn gather(&self, others: u64) {
        // Acquire: pairs with `arrive`.
        while self.done.0.load(Ordering::Acquire) < others {
            hint::spin();
        }
    }
}

/// A thread's place at a [`Rally`].
#[derive(Debug, Clone, Copy)]
pub struct Seat<'a> {
    rally: &'a Rally,
    told: &'a Told,
    block: team::Block<'a>,
}

impl Seat<'_> {
    /// The life of every thread that does not lead. `home` is the leader's block, whose threads wait at the block's
    /// barrier, which the leader joins.
    pub fn follow(&self, home: bool, mut run: impl FnMut(GridCall)) {
        let Self { rally, told, block } = *self;
        let waits = !home && block.thread() == 0;
        let mut last = 0;
        if waits {
            told.tell(last, Some([0; 2]));
        }
        loop {
            if waits {
                last = rally.wait(told, last);
            }
            block.sync();
            let Some(call) = told.present() else { return };
            run(call);
            block.sync();
            if waits {
                rally.arrive();
            }
        }
    }

    /// The leader's half of one call, by all lanes of its warp: everybody runs it, and the results of all are visible
    /// when this returns. Lane 0 does `meanwhile` when the other blocks have been called.
    #[inline(always)]
    pub fn lead<R>(
        &self,
        warp: team::Warp<'_>,
        others: u64,
        call: GridCall,
        meanwhile: impl FnOnce(),
        run: impl FnOnce(GridCall) -> R,
    ) -> R {
        if warp.lane() == 0 {
            self.rally.call(self.told, call);
            meanwhile();
        }
        self.block.sync();
        let returned = run(call);
        self.block.sync();
        if warp.lane() == 0 {
            self.rally.gather(others);
        }
        warp.sync();
        returned
    }

    /// The leader's last act, by all lanes of its warp.
    pub fn dismiss(&self, warp: team::Warp<'_>) {
        if warp.lane() == 0 {
            self.rally.end();
            self.told.tell(END, None);
        }
        self.block.sync();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CALL: GridCall = GridCall { handler: 0xC0DE, arg_len: 8, capacity: 100 };

    fn told(word: u64, call: GridCall) -> Told {
        let told = Told::default();
        told.tell(word, Some([call.handler, u64::from(call.capacity)]));
        told
    }

    proptest! {
        #[test]
        fn a_calls_word_is_no_end_and_not_the_last_one(last in any::<u64>(), arg_len in any::<u32>(), same in any::<bool>()) {
            let call = GridCall { arg_len, ..CALL };
            let before = if same { CALL } else { GridCall { capacity: 99, ..CALL } };
            let (word, changed) = told(last, before).next(call);
            prop_assert_ne!(word, END);
            prop_assert_ne!(word >> TURN_SHIFT, last >> TURN_SHIFT);
            prop_assert_eq!(word as u32, arg_len);
            prop_assert_eq!((changed, word & CHANGED != 0), (!same, !same));
        }
    }

    #[test]
    fn turns_begin_again_before_the_end() {
        let most = GridCall { arg_len: u32::MAX, ..CALL };
        let of_turn =
            |turn: u64| told(turn << TURN_SHIFT | CHANGED | 0xFFFF_FFFF, GridCall { capacity: 0, ..CALL });
        for (turn, next) in [(0, 1), (TURNS - 2, TURNS - 1), (TURNS - 1, 0)] {
            assert_eq!(of_turn(turn).next(most).0, next << TURN_SHIFT | CHANGED | 0xFFFF_FFFF);
        }
    }

    #[test]
    fn a_block_is_told_what_changed_and_keeps_the_rest() {
        let (rally, leaders, others) = (Rally::default(), Told::default(), Told::default());
        let mut last = 0;
        let calls = [CALL, CALL, GridCall { arg_len: 0, ..CALL }, GridCall { handler: 1, ..CALL }, CALL];
        for (call, changed) in calls.into_iter().zip([true, false, false, true, true]) {
            rally.call(&leaders, call);
            if !changed {
                // Not read: what was told before stands.
                rally.handler.store(0xBAD, Ordering::Relaxed);
            }
            last = rally.wait(&others, last);
            assert_eq!((leaders.present(), others.present()), (Some(call), Some(call)));
        }
        rally.end();
        assert_eq!(rally.wait(&others, last), END);
        assert_eq!(others.present(), None);
    }
}

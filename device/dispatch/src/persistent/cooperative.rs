//! Calls that all threads of a cooperative grid take part in.
//!
//! One warp leads (it polls and serves as any other dispatcher does); all other threads wait here. The leader decides
//! alone, about calls and about the end, and tells the others through one word: no two threads can disagree about what
//! happens next.

use core::sync::atomic::Ordering;
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::hint;
use ringcall_gpu::team;

/// Value of the turn that ends the grid.
const END: u64 = u64::MAX;

/// Where a grid meets: device memory. All zero is a rally at which nothing happened yet.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Rally {
    /// Moves on with every call.
    turn: Line,
    /// Blocks that have finished the present call, the leader's apart.
    done: Line,
    /// What is called: address; payload bytes (low half) and room for the result (high half).
    handler: DeviceU64,
    lengths: DeviceU64,
}

/// A word on a line of its own: many threads poll one, others add to the other.
#[derive(Debug, Default)]
#[repr(C, align(128))]
struct Line(DeviceU64);

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

impl Rally {
    /// Bytes of device memory.
    pub const BYTES: usize = size_of::<Self>();

    /// Calls everybody. By the leader's lane 0, after the request was staged; the leader's own block is called by its
    /// barrier.
    #[inline(always)]
    pub fn call(&self, call: GridCall) {
        self.done.0.store(0, Ordering::Relaxed);
        self.handler.store(call.handler, Ordering::Relaxed);
        self.lengths.store(u64::from(call.capacity) << 32 | u64::from(call.arg_len), Ordering::Relaxed);
        let turn = self.turn.0.load(Ordering::Relaxed).wrapping_add(1);
        // Release: pairs with `wait`.
        self.turn.0.store(turn, Ordering::Release);
    }

    /// Ends everybody. By the leader's lane 0.
    pub fn end(&self) {
        self.turn.0.store(END, Ordering::Release);
    }

    /// What is called now, for a thread that is past the barrier behind `wait` or `call`; `None` at the end.
    #[inline(always)]
    pub fn present(&self) -> Option<GridCall> {
        if self.turn.0.load(Ordering::Relaxed) == END {
            return None;
        }
        let lengths = self.lengths.load(Ordering::Relaxed);
        Some(GridCall {
            handler: self.handler.load(Ordering::Relaxed),
            arg_len: lengths as u32,
            capacity: (lengths >> 32) as u32,
        })
    }

    /// Waits for the turn after `last`. By one thread a block. Ends when the leader calls or ends, as it does in every
    /// case: at the latest when the host stops it.
    #[inline(always)]
    fn wait(&self, last: u64) -> u64 {
        loop {
            // Acquire: pairs with `call` and `end`.
            let turn = self.turn.0.load(Ordering::Acquire);
            if turn != last {
                return turn;
            }
            hint::spin();
        }
    }

    /// One block has finished the present call. Release: its results are visible to the leader.
    #[inline(always)]
    fn arrive(&self) {
        self.done.0.fetch_add(1, Ordering::Release);
    }

    /// Waits until the other blocks have finished. By the leader's lane 0.
    #[inline(always)]
    pub fn gather(&self, others: u64) {
        // Acquire: pairs with `arrive`.
        while self.done.0.load(Ordering::Acquire) < others {
            hint::spin();
        }
    }

    /// The life of every thread that does not lead. `home` is the leader's block, whose threads wait at the block's
    /// barrier, which the leader joins.
    pub fn follow(&self, block: team::Block<'_>, home: bool, mut run: impl FnMut(GridCall)) {
        let mut last = 0;
        loop {
            if !home && block.thread() == 0 {
                last = self.wait(last);
            }
            block.sync();
            let Some(call) = self.present() else { return };
            run(call);
            block.sync();
            if !home && block.thread() == 0 {
                self.arrive();
            }
        }
    }

    /// The leader's half of one call, by all lanes of its warp: everybody runs it, and the results of all are visible
    /// when this returns.
    #[inline(always)]
    pub fn lead<R>(
        &self,
        warp: team::Warp<'_>,
        block: team::Block<'_>,
        others: u64,
        call: GridCall,
        run: impl FnOnce(GridCall) -> R,
    ) -> R {
        if warp.lane() == 0 {
            self.call(call);
        }
        block.sync();
        let returned = run(call);
        block.sync();
        if warp.lane() == 0 {
            self.gather(others);
        }
        warp.sync();
        returned
    }

    /// The leader's last act, by all lanes of its warp.
    pub fn dismiss(&self, warp: team::Warp<'_>, block: team::Block<'_>) {
        if warp.lane() == 0 {
            self.end();
        }
        block.sync();
    }
}

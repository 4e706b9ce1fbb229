//! Drivers of a simulated NIC: its own thread, or the service's loop between two polls.

use crate::nic::Nic;
use crate::socket_nic::port::RocePort;
use ringcall::Wait;
use ringcall::wait::TURNS_PER_CHECK;
use ringcall::wait::Waiter;
use ringcall_gpu::atomic::DeviceU64;
use ringcall_roce::RoceSocket;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Word between a service's threads and the thread that stops them.
#[derive(Debug)]
pub(crate) struct Signals {
    close: DeviceU64,
    halt: DeviceU64,
    /// One more than the receive completions that were written, once there will be no more.
    completed: DeviceU64,
}

impl Default for Signals {
    fn default() -> Self {
        let word = || DeviceU64::new(0);
        Self { close: word(), halt: word(), completed: word() }
    }
}

impl Signals {
    pub(crate) fn close(&self) {
        self.close.store(1, Ordering::Relaxed);
    }

    pub(crate) fn halt(&self) {
        self.halt.store(1, Ordering::Relaxed);
    }

    /// How many receive completions there are in all, once that is known.
    pub(crate) fn completed(&self) -> Option<u64> {
        self.completed.load(Ordering::Acquire).checked_sub(1)
    }
}

/// A NIC, and how it is turned.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) nic: Nic<RocePort>,
    signals: Arc<Signals>,
    pub(crate) waiter: Waiter,
    since: Option<Instant>,
    /// Turns since it was told to close.
    closing: u32,
}

/// How long a thread polls in vain before it blocks on the socket.
const BLOCK_AFTER: Duration = Duration::from_millis(50);
/// The longest that it blocks.
const SLEEP: Duration = Duration::from_millis(5);
/// The most turns that a port is still open when it was told to close: what lies in the socket is taken, but a peer that never
/// pauses does not keep it open.
const CLOSE_TURNS: u32 = 256;
/// The most turns that emptying a port takes: a socket that takes nothing is given up.
const FINISH_TURNS: u32 = 10_000;

impl Driver {
    pub(crate) fn new(nic: Nic<RocePort>, signals: Arc<Signals>) -> Self {
        Self { nic, signals, waiter: Wait::Yield { spins: 16 }.waiter(), since: None, closing: 0 }
    }

    /// One turn: whether there was anything to do. A thread that has found nothing for long blocks on the socket, if it is
    /// given: only where no send request can come meanwhile.
    pub(crate) fn turn(&mut self, socket: Option<&RoceSocket>) -> bool {
        let closing = self.signals.close.load(Ordering::Relaxed) != 0;
        let worked = self.nic.step();
        if closing && !self.nic.port().is_closed() {
            self.closing += 1;
            if !worked || self.closing >= CLOSE_TURNS {
                self.nic.port().close();
                return true;
            }
        }
        if worked {
            self.waiter.reset();
            self.since = None;
            return true;
        }
        if closing {
            let stats = self.nic.stats();
            let completed = stats.rx_delivered + stats.rx_errors;
            // Pairs with `Signals::completed`: every completion was written.
            self.signals.completed.store(completed + 1, Ordering::Release);
        }
        let turns = self.waiter.idle();
        if let Some(socket) = socket
            && turns.is_multiple_of(TURNS_PER_CHECK)
            && self.since.get_or_insert_with(Instant::now).elapsed() >= BLOCK_AFTER
        {
            // An error of the socket is the next receive's to count.
            let _ = socket.wait(SLEEP);
        }
        false
    }

    /// How many receive completions there are in all, once nothing more comes in.
    pub(crate) fn completed(&self) -> Option<u64> {
        self.signals.completed()
    }

    /// Until it is halted and has nothing to do.
    pub(crate) fn run(mut self) -> Self {
        loop {
            if !self.turn(None) && self.signals.halt.load(Ordering::Relaxed) != 0 {
                self.finish();
                return self;
            }
        }
    }

    /// Sends what is posted.
    pub(crate) fn finish(&mut self) {
        for _ in 0..FINISH_TURNS {
            let worked = self.nic.step_send();
            if self.nic.port().flush() && !worked {
                return;
            }
            if !worked {
                std::thread::yield_now();
            }
        }
    }
}

//! Maintenance: the only traffic across the bus that is not a request's.

use super::block_state::WarpCommand;
use super::slot_state::{PUBLISHED, RESPONDED};
use super::{Block, Machine};
use core::sync::atomic::Ordering;
use ringcall_gpu::team::Warp;
use ringcall_gpu::{barrier, clock};
use ringcall_wire::counter::Counter;
use ringcall_wire::launch::{control, saved};

/// Passes between two rounds of figures.
const PASSES_A_ROUND: u32 = 64;

impl<M: Machine> Block<'_, M> {
    /// The life of the maintenance warp, whose number is `me`.
    pub fn run_maintenance(&self, warp: Warp<'_>, me: u32) {
        let mut passes = 0;
        loop {
            let busy = self.publish(warp);
            passes += 1;
            if passes >= PASSES_A_ROUND {
                passes = 0;
                self.maintain(warp);
            }
            if busy {
                continue;
            }
            if self.block_state.command_together(warp, me) == WarpCommand::Exit {
                // What was answered before the poller said so is published; what that left is retired.
                while self.publish(warp) {}
                warp.sync();
                if warp.lane() == 0 {
                    self.block_state.set_command(me, WarpCommand::Free); // the poller waits for this before it writes the last figures
                }
                return;
            }
            self.machine.sleep_until_next_round();
        }
    }

    /// Before anything else: what earlier executions counted, and that the dispatcher runs. By one warp.
    pub fn open(&self, warp: Warp<'_>) {
        if warp.lane() == 0 {
            let load = |word| self.saved.load(word, Ordering::Relaxed);
            let [cursor, next_bit, sweep] = [0, 16, 32].map(|shift| load(saved::CURSOR) >> shift & 0xFFFF);
            self.block_state.cursor.store(cursor, Ordering::Relaxed);
            self.block_state.next_bit.store(next_bit, Ordering::Relaxed);
            self.block_state.sweep.store(sweep, Ordering::Relaxed);
            self.block_state.launched_before.store(load(saved::LAUNCHES), Ordering::Relaxed);
            if M::GRAPHS {
                // An execution that begins with a launch may end before its first round.
                self.block_state
                    .stop
                    .store(self.control.load(control::STOP, Ordering::Relaxed), Ordering::Relaxed);
                self.block_state.drained.store(load(saved::DRAINED), Ordering::Relaxed);
                self.close_context();
            }
            self.control.store(control::STATE, control::STATE_RUNNING, Ordering::Release);
        }
        warp.sync();
    }

    /// One round: stop word, counters, what each warp does, heartbeat.
    pub(super) fn maintain(&self, warp: Warp<'_>) {
        if warp.lane() == 0 {
            let stop = self.control.load(control::STOP, Ordering::Relaxed);
            if stop != control::STOP_NO {
                // What the host sent before it stopped the dispatcher is seen by a poller that reads the stop.
                barrier::observe_from_peer();
            }
            self.block_state.stop.store(stop, Ordering::Relaxed);
            if M::GRAPHS {
                self.look_after_context();
            }
        }
        self.publish_counters(warp);
        let now = clock::ticks();
        for index in warp.stride(self.workers as usize) {
            let (function, since) = self.block_state.begun(index as u32);
            match self.block_state.slot_of(index as u32) {
                Some(slot) => self.tell_busy(index as u32, function, slot, since),
                None => self.control.store(control::BUSY + index * control::BUSY_WORDS, 0, Ordering::Relaxed),
            }
        }
        if warp.lane() == 0 {
            let store = |word, value| self.control.store(word, value, Ordering::Relaxed);
            store(control::NOW, now);
            store(control::LAUNCHES, self.launches_so_far());
            let error = self.block_state.launches.error();
            if error != 0 {
                store(control::LAUNCH_ERROR, error); // earlier executions' otherwise stays
            }
            let beat = self.saved.load(saved::HEARTBEAT, Ordering::Relaxed).wrapping_add(1);
            self.saved.store(saved::HEARTBEAT, beat, Ordering::Relaxed);
            store(control::HEARTBEAT, beat);
        }
    }

    /// Tells the host what a warp does.
    #[inline(always)]
    pub(super) fn tell_busy(&self, warp: u32, function: u32, slot: u32, since: u64) {
        let at = control::BUSY + warp as usize * control::BUSY_WORDS;
        self.control.store(at + 1, since, Ordering::Relaxed);
        self.control.store(at, u64::from(function) << 32 | u64::from(slot + 1), Ordering::Relaxed);
    }

    fn publish_counters(&self, warp: Warp<'_>) {
        for (index, total) in self.totals(warp) {
            let children = self.saved.load(saved::CHILDREN + index, Ordering::Relaxed);
            self.control.store(control::COUNTERS + index, total.wrapping_add(children), Ordering::Relaxed);
        }
    }

    /// This lane's share of the counters: index and count over all executions.
    pub(super) fn totals<'w>(&'w self, warp: Warp<'_>) -> impl Iterator<Item = (usize, u64)> + use<'w, M> {
        warp.stride(Counter::COUNT).filter_map(move |index| {
            let counter = *Counter::ALL.get(index)?;
            let before = self.saved.load(saved::COUNTERS + index, Ordering::Relaxed);
            Some((index, before.wrapping_add(self.block_state.total(counter))))
        })
    }

    pub(super) fn launches_so_far(&self) -> u64 {
        self.block_state.launched_before.load(Ordering::Relaxed) + self.block_state.launches.made()
    }

    /// Launches so far whose end no child counts.
    pub(super) fn uncounted_so_far(&self) -> u64 {
        self.saved.load(saved::UNCOUNTED, Ordering::Relaxed) + self.block_state.launches.uncounted()
    }

    /// Graphs launched that are known not to have finished, and whose end is waited for here. By one lane.
    pub(super) fn children_running(&self) -> u64 {
        // Acquire: pairs with a child's end; what it counted is before that.
        let finished = self.saved.load(saved::FINISHED, Ordering::Acquire);
        let counted = self.launches_so_far().saturating_sub(finished).saturating_sub(self.uncounted_so_far());
        counted + u64::from(self.waits_for_context())
    }

    /// Publishes: sets the response flags of slots whose answers are written, and clears the request flags of slots whose
    /// response flags were set a pass ago. One fence for all of them; whether there were any. By the maintenance warp, or the
    /// only one.
    pub(super) fn publish(&self, warp: Warp<'_>) -> bool {
        let mut some = false;
        let mut base = 0;
        while base < self.partition.count {
            let offset = base + warp.lane();
            base += warp.lanes();
            // Acquire: pairs with `answered`, so that what was written is before the fence.
            let state = self.serving.get(offset as usize).map_or(0, |mark| mark.load(Ordering::Acquire));
            if !warp.any(state == RESPONDED || state == PUBLISHED) {
                continue;
            }
            some = true;
            // Responses are visible before their flags, and response flags before request flags are seen cleared.
            barrier::publish_to_peer();
            let slot = self.partition.first + offset;
            if state == RESPONDED {
                self.ring.publish_tx_relaxed(slot);
                self.change_state(slot, PUBLISHED);
            } else if state == PUBLISHED {
                self.ring.clear_rx_relaxed(slot);
                self.change_state(slot, 0);
            }
        }
        some
    }
}

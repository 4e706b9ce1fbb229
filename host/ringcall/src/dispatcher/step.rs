//! A dispatcher driven by its caller's thread.

use super::run::{HALT_TIMEOUT_NS, Loop, Pace, Step};
use super::{Ending, HostDispatcher, Stopped, Wired};
use crate::shared::Control;
use ringcall_protocol::SlotIndex;
use std::time::{Duration, Instant};

/// Driven by the caller's thread.
#[derive(Debug)]
pub struct Stepped {
    lp: Box<Loop>,
    pace: Pace,
}

impl HostDispatcher<Wired> {
    /// The dispatcher without a thread: the caller makes its turns, between other things. [`HostOptions`] apply but for
    /// the core and the way of waiting, which are the caller's.
    ///
    /// ```
    /// use ringcall::dispatcher::Step;
    /// use ringcall::{Client, FunctionId, FunctionTable, HostDispatcher, Ring, RingConfig};
    /// use std::time::Duration;
    ///
    /// let ring = Ring::allocate(RingConfig { slots: 8, slot_bytes: 64 })?;
    /// let table = FunctionTable::builder().host_call("count", |bytes: &[u8], out: &mut [u8]| {
    ///     out[0] = bytes.len() as u8;
    ///     Ok(1)
    /// });
    /// let mut dispatcher = HostDispatcher::builder(&ring, table.build(&ring)?).build()?.into_stepper();
    ///
    /// let mut client = Client::new(&ring);
    /// let slot = client.send(FunctionId::of("count"), 1, 0, &[7; 5])?;
    /// assert_eq!(dispatcher.step(), Step::Busy);
    /// assert_eq!(client.wait(slot, Duration::from_secs(5))?.result, [5]);
    /// assert_eq!(dispatcher.finish(Duration::from_secs(5)).report.dropped, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [`HostOptions`]: super::HostOptions
    pub fn into_stepper(self) -> HostDispatcher<Stepped> {
        let Self { shared, state: Wired { lp } } = self;
        shared.set_control(Control::Run);
        let pace = Pace::new(&lp.options);
        HostDispatcher { shared, state: Stepped { lp, pace } }
    }
}

impl HostDispatcher<Stepped> {
    /// One look at the ring and at the queues. Inline calls run within it; nothing else takes time.
    #[inline]
    pub fn step(&mut self) -> Step {
        let Self { shared, state: Stepped { lp, pace } } = self;
        lp.step(shared, pace)
    }

    /// Whether every slot was looked at since the last step of which this was true: the moment to rest, if nothing was found. A
    /// thread that rests after each idle step lets a request in a large ring wait for as many rests as the ring has lines of
    /// flags.
    #[must_use]
    #[inline]
    pub fn ends_round(&self) -> bool {
        self.state.lp.ends_round()
    }

    /// The next step looks at this slot, where a request is known to be. Without it a request is found, too, but on a large ring
    /// after many steps.
    #[inline]
    pub fn hint_next(&mut self, slot: SlotIndex) {
        self.state.lp.hint_next(slot);
    }

    /// From now on a step that finds everything answered says [`Step::Ended`]. Requests that come are served all the same, so
    /// one that comes later is a reason to step on.
    pub fn drain(&mut self) {
        self.shared.set_control(Control::Drain);
    }

    /// Answers `SHUTTING_DOWN` to all that can still be answered here, and calls nothing. Waits for what the [external
    /// executor](crate::external::ExternalExecutor) has under way, at most `timeout` and at most 200 ms. May be called again,
    /// to collect what the executor has ended since.
    pub fn halt(&mut self, timeout: Duration) {
        let Self { shared, state: Stepped { lp, .. } } = self;
        let timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        lp.halt(shared, timeout_ns.min(HALT_TIMEOUT_NS));
    }

    /// Takes the requests in the ring, waits on this thread until everything in flight is answered, and ends;
    /// at the deadline answers the rest `SHUTTING_DOWN`.
    #[must_use]
    pub fn finish(self, deadline: Duration) -> Stopped {
        let Self { shared, state: Stepped { mut lp, mut pace } } = self;
        let (ending, begin) = (Ending::begin(&shared), Instant::now());
        shared.set_control(Control::Drain);
        let mut unfinished = None;
        loop {
            match lp.step(&shared, &mut pace) {
                Step::Ended => break,
                Step::Busy | Step::Idle if unfinished.is_some() => (),
                Step::Busy | Step::Idle if begin.elapsed() >= deadline => {
                    unfinished = Some(shared.dump());
                    shared.set_control(Control::Halt);
                }
                Step::Busy => (),
                Step::Idle => std::thread::yield_now(),
            }
        }
        let report = ending.report(&shared, false, unfinished);
        Stopped { report, dispatcher: Some(HostDispatcher { shared, state: Wired { lp } }) }
    }
}

//! A dispatcher driven by its caller's thread.

use super::run::{DispatchStep, HALT_TIMEOUT_NS, Loop, Pace};
use super::{Ending, HostDispatcher, Stopped, Wired};
use crate::shared::Control;
use ringcall_protocol::SlotIndex;
use std::time::{Duration, Instant};

/// State of a dispatcher that its caller's thread turns.
#[derive(Debug)]
pub struct Stepped {
    lp: Box<Loop>,
    pace: Pace,
}

impl HostDispatcher<Wired> {
    /// The dispatcher without a thread: the caller makes its turns between other work. Of [`HostOptions`] the core
    /// and the wait strategy are ignored, since the caller decides them.
    ///
    /// ```
    /// use ringcall::dispatcher::DispatchStep;
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
    /// assert_eq!(dispatcher.step(), DispatchStep::Busy);
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
    /// Polls the ring and the queues once. Inline calls run within it; nothing else takes long.
    #[inline]
    pub fn step(&mut self) -> DispatchStep {
        let Self { shared, state: Stepped { lp, pace } } = self;
        lp.step(shared, pace)
    }

    /// Whether every slot was polled since this function last returned true: then a thread that found nothing may
    /// rest. If a thread rests after each idle step, a request in a large ring waits for as many rests as the ring
    /// has cache lines of flags.
    #[must_use]
    #[inline]
    pub fn ends_round(&self) -> bool {
        self.state.lp.ends_round()
    }

    /// Makes the next step poll this slot, in which the caller knows a request. Without the hint a large ring's
    /// request is found after many steps.
    #[inline]
    pub fn hint_next(&mut self, slot: SlotIndex) {
        self.state.lp.hint_next(slot);
    }

    /// From now on a step returns [`DispatchStep::Ended`] if every request is answered. Requests that come later are still
    /// served if the caller continues to step.
    pub fn drain(&mut self) {
        self.shared.set_control(Control::Drain);
    }

    /// Answers `SHUTTING_DOWN` to every request that this dispatcher can still answer, and calls no handler. Waits
    /// for the requests of the [external executor](crate::external::ExternalExecutor), at most `timeout` and at most
    /// 200 ms. A second call collects requests that the executor has ended since.
    pub fn halt(&mut self, timeout: Duration) {
        let Self { shared, state: Stepped { lp, .. } } = self;
        let timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        lp.halt(shared, timeout_ns.min(HALT_TIMEOUT_NS));
    }

    /// Takes the requests in the ring, waits on this thread until every request in flight is answered, and ends. At
    /// the deadline it answers the remaining requests `SHUTTING_DOWN`.
    #[must_use]
    pub fn finish(self, deadline: Duration) -> Stopped {
        let Self { shared, state: Stepped { mut lp, mut pace } } = self;
        let (ending, begin) = (Ending::begin(&shared), Instant::now());
        shared.set_control(Control::Drain);
        let mut unfinished = None;
        loop {
            match lp.step(&shared, &mut pace) {
                DispatchStep::Ended => break,
                DispatchStep::Busy | DispatchStep::Idle if unfinished.is_some() => (),
                DispatchStep::Busy | DispatchStep::Idle if begin.elapsed() >= deadline => {
                    unfinished = Some(shared.dump());
                    shared.set_control(Control::Halt);
                }
                DispatchStep::Busy => (),
                DispatchStep::Idle => std::thread::yield_now(),
            }
        }
        let report = ending.report(&shared, false, unfinished);
        Stopped { report, dispatcher: Some(HostDispatcher { shared, state: Wired { lp } }) }
    }
}

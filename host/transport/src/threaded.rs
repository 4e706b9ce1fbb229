//! Transports on threads: one shared with the dispatcher, or one of their own.

use crate::idle::Idler;
use crate::{
    IdleStrategy, RingFilling, TransportAddress, TransportError, TransportStopReport, TransportWatch,
    UnifiedTransport,
};
use ringcall::HostDispatcher;
use ringcall::dispatcher::{DispatchStep, Stepped, Stopped, Wired};
use ringcall::pin::PinReport;
use ringcall::thread::{GRACE_PERIOD, Supervised};
use ringcall::wait::TURNS_PER_CHECK;
use ringcall_gpu::atomic::DeviceU64;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Options of a transport's thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadOptions {
    /// How the thread idles.
    pub idle: IdleStrategy,
    /// The core to which the thread is pinned.
    pub core: Option<usize>,
}

/// The stop signal of a thread: the allowed nanoseconds plus one, or 0 while the thread runs. The owner writes it once,
/// with release; the thread reads it with acquire.
#[derive(Debug, Clone)]
struct Signal(Arc<DeviceU64>);

impl Signal {
    fn new() -> Self {
        Self(Arc::new(DeviceU64::new(0)))
    }

    fn stop(&self, deadline: Duration) {
        let ns = u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX - 1);
        self.0.store(ns.saturating_add(1), Ordering::Release);
    }

    fn deadline(&self) -> Option<Duration> {
        self.0.load(Ordering::Acquire).checked_sub(1).map(Duration::from_nanos)
    }
}

/// A thread that is told to stop when its handle is dropped. The drop does not wait for the thread's end.
#[derive(Debug)]
struct Worker<T> {
    signal: Signal,
    thread: Supervised<T>,
    endpoint: TransportAddress,
    watch: TransportWatch,
}

impl<T: Send + 'static> Worker<T> {
    fn start(
        (endpoint, watch): (TransportAddress, TransportWatch),
        core: Option<usize>,
        run: impl FnOnce(&Signal) -> T + Send + 'static,
    ) -> Result<Self, TransportError> {
        let signal = Signal::new();
        let seen = signal.clone();
        let thread = Supervised::start("transport", core, move || run(&seen))
            .map_err(|e| TransportError::Thread(e.to_string()))?;
        Ok(Self { signal, thread, endpoint, watch })
    }

    /// The state that the thread returns; `None` if it does not end before the deadline.
    fn stop(mut self, deadline: Duration) -> Option<T> {
        self.signal.stop(deadline);
        self.thread.wait(deadline.saturating_add(GRACE_PERIOD)).ok()
    }
}

impl<T> Drop for Worker<T> {
    fn drop(&mut self) {
        if self.signal.deadline().is_none() {
            self.signal.stop(Duration::ZERO);
        }
    }
}

fn stuck(watch: &TransportWatch, begin: Instant) -> TransportStopReport {
    let stats = watch.stats();
    TransportStopReport { drained: 0, dropped: 0, refused: 0, stuck: true, stats, took: begin.elapsed() }
}

/// Runs a thread's turns until it is told to stop. Returns how long the stop may take.
fn turns(
    link: &mut dyn UnifiedTransport,
    idle: &IdleStrategy,
    signal: &Signal,
    mut between: impl FnMut(u32) -> bool,
) -> Duration {
    let mut idler = Idler::new(idle);
    let mut turn = 0_u32;
    loop {
        let received = link.poll();
        let worked = between(link.under_way());
        let sent = link.publish();
        turn = turn.wrapping_add(1);
        let busy = worked || received + sent > 0;
        if (!busy || turn.is_multiple_of(TURNS_PER_CHECK))
            && let Some(deadline) = signal.deadline()
        {
            return deadline;
        }
        if busy {
            idler.reset();
        } else {
            idler.idle(link);
        }
    }
}

/// A transport on its own thread, next to the ring's dispatcher, which is a thread or a kernel on a device.
///
/// ```
/// use ringcall::{FunctionTable, HostDispatcher, Ring, RingConfig};
/// use ringcall_transport::{Link, RingFilling, ThreadOptions, Threaded, udp};
/// use std::time::Duration;
///
/// let ring = Ring::allocate(RingConfig { slots: 64, slot_bytes: 256 })?;
/// let table = FunctionTable::builder().host_call("rpc_increment", |request: &[u8], result: &mut [u8]| {
///     result.iter_mut().zip(request).for_each(|(out, byte)| *out = byte.wrapping_add(1));
///     Ok(request.len())
/// });
/// let dispatcher = HostDispatcher::builder(&ring, table.build(&ring)?).build()?.start()?;
/// let wire = udp::Udp::bind(&udp::UdpOptions::default())?;
/// let transport = Threaded::start(Link::attach(wire, &ring)?, &ThreadOptions::default())?;
/// println!("{}", transport.endpoint()); // transport=udp port=...
///
/// let mut caller = udp::Caller::connect(transport.endpoint().address, &Default::default())?;
/// let reply = caller.call("rpc_increment", &[1, 2, 3])?;
/// assert_eq!(reply.result, [2, 3, 4]);
///
/// let report = Box::new(transport).stop(Duration::from_secs(1));
/// assert_eq!((report.dropped, report.stats.balance()), (0, (0, 0)));
/// assert_eq!(dispatcher.stop(Duration::from_secs(1)).report.dropped, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Threaded {
    worker: Worker<TransportStopReport>,
}

impl Threaded {
    /// Starts the thread.
    ///
    /// # Errors
    /// The operating system refuses the thread.
    pub fn start(
        mut link: impl UnifiedTransport + 'static,
        options: &ThreadOptions,
    ) -> Result<Self, TransportError> {
        let idle = options.idle;
        let known = (link.endpoint().clone(), link.watch());
        let worker = Worker::start(known, options.core, move |signal| {
            let deadline = turns(&mut link, &idle, signal, |_| false);
            link.stop(deadline, &mut || ())
        })?;
        Ok(Self { worker })
    }

    /// The thread's core.
    #[must_use]
    pub fn pin(&self) -> &PinReport {
        self.worker.thread.pin()
    }
}

impl RingFilling for Threaded {
    fn endpoint(&self) -> &TransportAddress {
        &self.worker.endpoint
    }

    fn watch(&self) -> TransportWatch {
        self.worker.watch.clone()
    }

    fn stop(self: Box<Self>, deadline: Duration) -> TransportStopReport {
        let (watch, begin) = (self.watch(), Instant::now());
        self.worker.stop(deadline).unwrap_or_else(|| stuck(&watch, begin))
    }
}

/// Transport and host dispatcher on one thread, which takes the fewest hand-overs and the fewest cores.
///
/// ```
/// use ringcall::{FunctionTable, HostDispatcher, Ring, RingConfig};
/// use ringcall_transport::{Link, OneThread, ThreadOptions, udp};
/// use std::time::Duration;
///
/// let ring = Ring::allocate(RingConfig { slots: 64, slot_bytes: 256 })?;
/// let table = FunctionTable::builder().host_call("rpc_increment", |request: &[u8], result: &mut [u8]| {
///     result.iter_mut().zip(request).for_each(|(out, byte)| *out = byte.wrapping_add(1));
///     Ok(request.len())
/// });
/// let dispatcher = HostDispatcher::builder(&ring, table.build(&ring)?).build()?;
/// let link = Link::attach(udp::Udp::bind(&udp::UdpOptions::default())?, &ring)?;
/// let service = OneThread::start(link, dispatcher, &ThreadOptions::default())?;
///
/// let mut caller = udp::Caller::connect(service.endpoint().address, &Default::default())?;
/// assert_eq!(caller.call("rpc_increment", &[1, 2, 3])?.result, [2, 3, 4]);
///
/// let (report, dispatcher) = service.stop(Duration::from_secs(1));
/// assert_eq!((report.dropped, report.stats.answered), (0, 1));
/// assert!(dispatcher.is_some_and(|stopped| stopped.report.dropped == 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct OneThread {
    worker: Worker<(TransportStopReport, Stopped)>,
}

/// The most dispatcher turns between two polls of the wire.
const STEPS: u32 = 16;

impl OneThread {
    /// Starts the thread. It idles and is pinned by `options`, not by the dispatcher's options.
    ///
    /// # Errors
    /// The operating system refuses the thread.
    pub fn start(
        mut link: impl UnifiedTransport + 'static,
        dispatcher: HostDispatcher<Wired>,
        options: &ThreadOptions,
    ) -> Result<Self, TransportError> {
        let idle = options.idle;
        let known = (link.endpoint().clone(), link.watch());
        let worker = Worker::start(known, options.core, move |signal| {
            let mut dispatcher = dispatcher.into_stepper();
            let deadline = turns(&mut link, &idle, signal, |due| serve(&mut dispatcher, due));
            let begin = Instant::now();
            let report = link.stop(deadline, &mut || {
                serve(&mut dispatcher, 1);
            });
            (report, dispatcher.finish(deadline.saturating_sub(begin.elapsed())))
        })?;
        Ok(Self { worker })
    }

    /// The transport's address.
    #[must_use]
    pub fn endpoint(&self) -> &TransportAddress {
        &self.worker.endpoint
    }

    /// A handle that reads the transport's stats.
    #[must_use]
    pub fn watch(&self) -> TransportWatch {
        self.worker.watch.clone()
    }

    /// The thread's core.
    #[must_use]
    pub fn pin(&self) -> &PinReport {
        self.worker.thread.pin()
    }

    /// Stops the transport, then the dispatcher. At the deadline the senders of unanswered requests get
    /// `SHUTTING_DOWN`. The dispatcher's report is missing if a handler on the thread never returns.
    #[must_use]
    pub fn stop(self, deadline: Duration) -> (TransportStopReport, Option<Stopped>) {
        let (watch, begin) = (self.watch(), Instant::now());
        match self.worker.stop(deadline) {
            Some((report, stopped)) => (report, Some(stopped)),
            None => (stuck(&watch, begin), None),
        }
    }
}

/// Serves the requests in the ring while answers are due. Returns whether there was work.
#[inline]
fn serve(dispatcher: &mut HostDispatcher<Stepped>, due: u32) -> bool {
    let mut worked = false;
    for _ in 0..if due > 0 { STEPS } else { 1 } {
        match dispatcher.step() {
            DispatchStep::Busy => worked = true,
            // A turn polls two lines of flags, so a few turns find requests that one sweep has not reached.
            DispatchStep::Idle if !worked => (),
            DispatchStep::Idle | DispatchStep::Ended => break,
        }
    }
    worked
}

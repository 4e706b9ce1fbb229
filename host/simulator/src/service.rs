//! Services: what ships, turned by the simulation.

use crate::calls::{self, Runs};
use crate::network::Port;
use crate::random::Random;
use ringcall::dispatcher::Stepped;
use ringcall::worker::{Job, WorkerPort, WorkerSpec};
use ringcall::{FunctionId, HostDispatcher, HostOptions, Ring, RingConfig, Status};
use ringcall_roce::introduced::{Introducer, introductions};
use ringcall_roce::{PortOptions, RoceSocket};
use ringcall_sim::socket_nic::{self, Count, SocketNicOptions, SteppedService};
use ringcall_transport::roce::{ReliableOptions, ReliableRoce, Roce, RoceOptions};
use ringcall_transport::{Link, TransportStats, UnifiedTransport, Wire};
use ringcall_wire::HEADER_BYTES;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

/// What a service's counts say at the end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Books {
    /// Frames, requests or answers that are unaccounted for.
    pub(crate) unbalanced: bool,
    /// Answers and refusals that the service sent.
    pub(crate) answers: u64,
    /// Answers that the socket would not take, or to peers that had lost their entry.
    pub(crate) unsent: u64,
    pub(crate) evicted: u64,
    /// Frames given up.
    pub(crate) incomplete: u64,
    pub(crate) dropped: u64,
    /// Errors of the socket, those of peers that had lost their entry among them.
    pub(crate) errors: u64,
    /// Reliable connections that the service gave up.
    pub(crate) broken: u64,
}

/// A service on the simulation's thread.
pub(crate) trait Service {
    /// Does a part of its work.
    fn turn(&mut self, random: &mut Random, now: u64);

    /// Answers what it has, and ends; what it has counted, in words too.
    fn stop(self: Box<Self>) -> (Books, String);
}

/// A transport and a host dispatcher with two workers.
pub(crate) struct Ringed<W: Wire> {
    link: Link<W>,
    dispatcher: Option<HostDispatcher<Stepped>>,
    workers: Workers,
    slots: u32,
}

/// Workers: each is busy for a while.
struct Workers {
    ports: Vec<WorkerPort>,
    busy: Vec<Option<(Job, u64)>>,
    runs: Runs,
    slow_ns: u64,
    payload: Vec<u8>,
    result: Vec<u8>,
}

impl Workers {
    fn turn(&mut self, random: &mut Random, now: u64) {
        let Self { ports, busy, runs, slow_ns, payload, result } = self;
        for (port, busy) in ports.iter().zip(busy) {
            match *busy {
                None => *busy = port.take_job().map(|job| (job, now.saturating_add(random.below(*slow_ns)))),
                Some((_, due)) if now < due => (),
                Some(_) => {
                    *busy = None;
                    port.signal_ready();
                    let Some(job) = port.claim_ready() else { continue };
                    let len = port.read_payload(&job, payload);
                    // Answered meanwhile, since its time was up: its slot may hold another request.
                    if !port.is_completed(&job) {
                        runs.record(&payload[..len]);
                    }
                    let len = calls::increment(&payload[..len], result);
                    // Late, if its time was up: the dispatcher has answered, and counts it.
                    let _ = port.answer(&job, Status::OK, &result[..len]);
                    port.release();
                }
            }
        }
    }

    fn are_idle(&self) -> bool {
        self.busy.iter().all(Option::is_none)
    }
}

impl<W: Wire> Ringed<W> {
    pub(crate) fn new(
        wire: W,
        ring: RingConfig,
        runs: &Runs,
        random: &mut Random,
    ) -> Result<Self, Box<dyn Error>> {
        let slots = ring.slots;
        let room = ring.slot_bytes as usize - HEADER_BYTES;
        let ring = Ring::allocate(ring)?;
        let table = calls::table(runs, true).build(&ring)?;
        let slow = FunctionId::of(calls::BY_WORKERS);
        let slow_ns = random.between(1_000, 60_000);
        let request_timeout =
            random.chance(300).then(|| Duration::from_nanos(random.between(20_000, 200_000)));
        let dispatcher = HostDispatcher::builder(&ring, table)
            .worker(WorkerSpec::mailbox(slow))
            .worker(WorkerSpec::mailbox(slow))
            .options(HostOptions { request_timeout, ..HostOptions::default() })
            .build()?;
        let ports = dispatcher.ports();
        let workers = Workers {
            busy: vec![None; ports.len()],
            ports,
            runs: runs.clone(),
            slow_ns,
            payload: vec![0; room],
            result: vec![0; room],
        };
        Ok(Self {
            link: Link::attach(wire, &ring)?,
            dispatcher: Some(dispatcher.into_stepper()),
            workers,
            slots,
        })
    }
}

impl<W: Wire> Service for Ringed<W> {
    fn turn(&mut self, random: &mut Random, now: u64) {
        let Self { link, dispatcher, workers, .. } = self;
        // Any order, since a dispatcher and a transport may be threads of their own.
        for _ in 0..3 {
            match random.below(4) {
                0 => {
                    let _ = link.poll();
                }
                1 => {
                    let _ = link.publish();
                }
                2 => {
                    let _ = dispatcher.as_mut().map(HostDispatcher::step);
                }
                _ => workers.turn(random, now),
            }
        }
        debug_assert!(link.under_way() <= self.slots + 64);
    }

    fn stop(self: Box<Self>) -> (Books, String) {
        let Self { mut link, dispatcher, mut workers, .. } = *self;
        let mut dispatcher = dispatcher;
        let mut random = Random::new(0);
        let report = link.stop(Duration::from_secs(5), &mut || {
            for _ in 0..4 {
                let _ = dispatcher.as_mut().map(HostDispatcher::step);
                workers.turn(&mut random, u64::MAX);
            }
        });
        for _ in 0..64 {
            workers.turn(&mut random, u64::MAX);
        }
        let stopped = dispatcher.map(|dispatcher| dispatcher.finish(Duration::from_secs(5)));
        let unfinished =
            stopped.is_none_or(|stopped| stopped.report.dropped > 0 || stopped.report.unfinished.is_some());
        let TransportStats { answered, unsent, evicted, incomplete, dropped, under_way, errors, .. } =
            report.stats;
        let TransportStats { broken_silent, broken_not_ready, broken_refused, .. } = report.stats;
        let refused = report.stats.refused();
        let unbalanced =
            report.stats.balance() != (0, 0) || under_way > 0 || unfinished || !workers.are_idle();
        let (answers, broken) = (answered + refused, broken_silent + broken_not_ready + broken_refused);
        let books = Books { unbalanced, answers, unsent, evicted, incomplete, dropped, errors, broken };
        (books, report.stats.to_string())
    }
}

/// A queue pair on the network, and a ring behind it.
pub(crate) fn roce(
    port: &Arc<Port>,
    options: PortOptions,
    peers: usize,
    runs: &Runs,
    random: &mut Random,
) -> Result<Box<dyn Service>, Box<dyn Error>> {
    let socket = RoceSocket::over(Arc::clone(port) as _, port.address());
    let wire = Roce::over(socket, &RoceOptions { port: options, peers })?;
    let ring = RingConfig { slots: options.pages, slot_bytes: options.page_bytes };
    Ok(Box::new(Ringed::new(wire, ring, runs, random)?))
}

/// A queue pair of the reliable service on the network, a ring behind it, and where its peer introduces itself.
pub(crate) fn reliable(
    port: &Arc<Port>,
    options: &ReliableOptions,
    runs: &Runs,
    random: &mut Random,
) -> Result<(Box<dyn Service>, Introducer), Box<dyn Error>> {
    let socket = RoceSocket::over(Arc::clone(port) as _, port.address());
    let (introducer, heard) = introductions();
    let wire = ReliableRoce::over(socket, options)?.introduced_by(heard);
    let PortOptions { pages, page_bytes, .. } = options.port;
    let ring = RingConfig { slots: pages, slot_bytes: page_bytes };
    Ok((Box::new(Ringed::new(wire, ring, runs, random)?), introducer))
}

/// The emulated adapter and the loop over its queues.
struct Nic(SteppedService);

impl Service for Nic {
    fn turn(&mut self, _: &mut Random, _: u64) {
        self.0.step();
    }

    fn stop(self: Box<Self>) -> (Books, String) {
        let watch = self.0.watch();
        let report = self.0.stop();
        let count = |count| watch.port().get(count);
        let books = Books {
            unbalanced: !report.is_clean(),
            answers: count(Count::Sent),
            unsent: count(Count::Unsent),
            evicted: count(Count::Evicted),
            incomplete: count(Count::Incomplete),
            dropped: 0,
            errors: count(Count::Errors),
            broken: 0,
        };
        (books, format!("{report}; balance {:?}", report.balance()))
    }
}

pub(crate) fn nic(
    port: &Arc<Port>,
    options: PortOptions,
    peers: usize,
    runs: &Runs,
) -> Result<Box<dyn Service>, Box<dyn Error>> {
    let socket = RoceSocket::over(Arc::clone(port) as _, port.address());
    let capacity = socket_nic::Service::capacity(options.page_bytes);
    let table = calls::table(runs, false).build_for(capacity, capacity)?;
    // As many entries as pages at least: nothing is dropped for want of a receive request.
    let depth = (2 * options.pages).next_power_of_two();
    let options = SocketNicOptions { port: options, peers, depth, ..SocketNicOptions::default() };
    Ok(Box::new(Nic(SteppedService::over(socket, options, table)?)))
}

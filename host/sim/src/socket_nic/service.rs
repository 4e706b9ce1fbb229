//! A service: a NIC in software, and the unified loop over its queues.

use crate::nic::{Config, Nic, NicError};
use crate::socket_nic::driver::{Driver, Signals};
use crate::socket_nic::port::{Delivery, MAX_MESSAGE_BYTES, PortError, RocePort};
use crate::socket_nic::queues::{AdapterQueues, Queues, Shape};
use crate::socket_nic::report::{Report, Watch};
use ringcall::table::{Function, Functions, Handlers};
use ringcall::thread::{GRACE_PERIOD, Supervised};
use ringcall::{FunctionTable, Wait};
use ringcall_dispatcher::queue_pair::single::{Extent, Returned, Scratch, Unified};
use ringcall_gpu::shared::{SharedError, Words};
use ringcall_mlx5::endpoint::Endpoint;
use ringcall_mlx5::sq::RecordMode;
use ringcall_mlx5::{BlueFlame, Bound, QueueError, WaitEnd};
use ringcall_protocol::counters::Bank;
use ringcall_roce::introduced::Introduction;
use ringcall_roce::{PortOptions, RoceSocket};
use ringcall_wire::HEADER_BYTES;
use ringcall_wire::header::RequestHeader;
use ringcall_wire::status::DispatchMode;
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// Which threads a service has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Threads {
    /// NIC and loop take turns on one: the shortest way on a machine with few cores.
    #[default]
    One,
    /// One each, as hardware and a device's kernel are.
    Two,
}

/// Choices of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketNicOptions {
    /// The wire. Default: 64 pages of 1024 bytes.
    pub port: PortOptions,
    /// The most peers known at a time, each with its own window; one with [`Delivery::Packets`], the last one
    /// that brought the window's key. Default: 64.
    pub peers: usize,
    /// When requests' bytes are written. Default: whole frames.
    pub delivery: Delivery,
    /// Entries of each work queue, a power of two below 65536. Fewer than pages: requests are dropped when more are
    /// under way. Default: 64.
    pub depth: u32,
    /// Threads. Default: one.
    pub threads: Threads,
}

impl Default for SocketNicOptions {
    fn default() -> Self {
        Self {
            port: PortOptions::new(64, 1024),
            peers: 64,
            delivery: Delivery::Frames,
            depth: 64,
            threads: Threads::One,
        }
    }
}

impl SocketNicOptions {
    fn check(&self) -> Result<(), ServiceError> {
        let page_bytes = self.port.page_bytes;
        if !(32..=MAX_MESSAGE_BYTES).contains(&page_bytes) || !page_bytes.is_multiple_of(8) {
            return Err(ServiceError::Page(page_bytes));
        }
        if !self.depth.is_power_of_two() || self.depth >= 1 << 16 {
            return Err(ServiceError::Depth(self.depth));
        }
        Ok(())
    }
}

/// Why there is no service.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// No port.
    #[error(transparent)]
    Port(#[from] PortError),
    /// A shape that no queue has.
    #[error("the queue pair: {0}")]
    Queue(#[from] QueueError),
    /// A shape that no NIC takes.
    #[error("the NIC: {0}")]
    Nic(#[from] NicError),
    /// No memory.
    #[error("the queues' memory: {0}")]
    Memory(#[from] SharedError),
    /// A page that holds no request, or whose answer would not fit a packet.
    #[error("a page of {0} bytes: give a multiple of 8, from 32 to {MAX_MESSAGE_BYTES}")]
    Page(u32),
    /// What makes the loop's end of the queues.
    #[error("{0}")]
    Wiring(String),
    /// A number of entries that no queue has.
    #[error("{0} entries in a queue: give a power of two, below 65536")]
    Depth(u32),
    /// The operating system refuses.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What it said.
        source: std::io::Error,
    },
}

/// What a loop's thread hands back: how it ended.
type Served = (u64, WaitEnd);

/// A service that runs. Dropped, it stops as soon as it can.
#[derive(Debug)]
pub struct Service {
    address: SocketAddrV4,
    options: SocketNicOptions,
    signals: Arc<Signals>,
    watch: Watch,
    shutdown: Words,
    nic: Option<Supervised<Driver>>,
    serve: Supervised<(Served, Option<Driver>)>,
}

impl Service {
    /// Payload bytes of a request, and of an answer, in pages of so many bytes: what a function table is
    /// [built for](ringcall::table::TableBuilder::build_for).
    #[must_use]
    pub const fn capacity(page_bytes: u32) -> u32 {
        page_bytes.saturating_sub(HEADER_BYTES as u32)
    }

    /// Binds, makes queues, and serves `table` until it is stopped.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub fn start(options: SocketNicOptions, table: FunctionTable) -> Result<Self, ServiceError> {
        Self::start_introduced(options, table, None)
    }

    /// The same, where answers to peers that introduce themselves at a rendezvous go to the queue pair that they name.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub fn start_introduced(
        options: SocketNicOptions,
        table: FunctionTable,
        rendezvous: Option<Receiver<Introduction>>,
    ) -> Result<Self, ServiceError> {
        Self::start_wired(options, table, rendezvous, PLAIN)
    }

    /// The same, where `wire` makes the loop's end of the adapter's queues: by way of a context, for example.
    ///
    /// # Errors
    /// See [`ServiceError`]; what `wire` says.
    pub fn start_wired(
        options: SocketNicOptions,
        table: FunctionTable,
        rendezvous: Option<Receiver<Introduction>>,
        wire: Wiring<'_>,
    ) -> Result<Self, ServiceError> {
        let Parts { address, signals, watch, shutdown, driver, socket, lane } =
            Parts::new(options, table, rendezvous, wire)?;
        let (nic, serve) = match options.threads {
            Threads::One => {
                let (halt, watch) = (shutdown.clone(), watch.clone());
                let run = move || lane.run_with(driver, &socket, &watch, &halt);
                (None, Supervised::start("unified", None, run).map_err(failed("the service's thread"))?)
            }
            Threads::Two => {
                let nic = Supervised::start("nic", None, move || driver.run());
                let nic = nic.map_err(failed("the NIC's thread"))?;
                let run = move || (lane.run(std::thread::yield_now), None);
                let serve = Supervised::start("unified", None, run);
                (Some(nic), serve.map_err(failed("the loop's thread"))?)
            }
        };
        Ok(Self { address, options, signals, watch, shutdown, nic, serve })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddrV4 {
        self.address
    }

    /// The options, which have everything that a peer must know.
    #[must_use]
    pub const fn options(&self) -> &SocketNicOptions {
        &self.options
    }

    /// Live counts.
    #[must_use]
    pub fn watch(&self) -> Watch {
        self.watch.clone()
    }

    /// Takes the packets that are in the socket and no later ones, answers them, and ends; at the deadline it ends
    /// with unanswered requests. Bounded: a handler that never returns is left behind, and the report says so.
    #[must_use]
    pub fn stop(mut self, deadline: Duration) -> Report {
        let begin = Instant::now();
        self.signals.close();
        // The loop has read every completion when the NIC writes no more and every credit is back.
        while begin.elapsed() < deadline && !self.serve.is_over() && !self.is_drained() {
            std::thread::sleep(POLL_INTERVAL);
        }
        self.shutdown.store(0, 1, Ordering::Relaxed);
        let ended = self.serve.wait(GRACE_PERIOD).ok();
        self.signals.halt();
        let nic = self.nic.as_mut().and_then(|nic| nic.wait(GRACE_PERIOD).ok());
        let (served, driver) = match ended {
            Some((served, driver)) => (Some(served), driver.or(nic)),
            None => (None, nic),
        };
        Report::new(&self.watch, driver.as_ref(), served, begin.elapsed())
    }

    fn is_drained(&self) -> bool {
        self.signals.completed().is_some_and(|completed| self.watch.has_consumed(completed))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.signals.close();
        self.signals.halt();
        self.shutdown.store(0, 1, Ordering::Relaxed);
    }
}

/// How the loop's end is made of an adapter's queues, or why not.
pub type Wiring<'a> = &'a dyn Fn(&AdapterQueues<'_>) -> Result<Endpoint<BlueFlame>, String>;

/// Of the queues as they are.
const PLAIN: Wiring<'static> = &|queues| queues.endpoint().map_err(|error| error.to_string());

pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(1);

pub(crate) fn failed(what: &'static str) -> impl FnOnce(std::io::Error) -> ServiceError {
    move |source| ServiceError::Io { what, source }
}

/// The parts of a service, before its threads start.
struct Parts {
    address: SocketAddrV4,
    signals: Arc<Signals>,
    watch: Watch,
    shutdown: Words,
    driver: Driver,
    /// The port's, to wait on.
    socket: RoceSocket,
    lane: Lane,
}

impl Parts {
    fn new(
        options: SocketNicOptions,
        table: FunctionTable,
        rendezvous: Option<Receiver<Introduction>>,
        wire: Wiring<'_>,
    ) -> Result<Self, ServiceError> {
        options.check()?;
        let socket = RoceSocket::bind(options.port.address).map_err(PortError::from)?;
        Self::over(socket, options, table, rendezvous, wire)
    }

    fn over(
        socket: RoceSocket,
        options: SocketNicOptions,
        table: FunctionTable,
        rendezvous: Option<Receiver<Introduction>>,
        wire: Wiring<'_>,
    ) -> Result<Self, ServiceError> {
        options.check()?;
        let PortOptions { qp, key, base, pages, page_bytes, .. } = options.port;
        let mut port = RocePort::over(socket, options.port, options.delivery, options.peers)?;
        if let Some(rendezvous) = rendezvous {
            port = port.introduced_by(rendezvous, options.peers);
        }
        let (address, counts) = (port.local_addr(), port.counts());
        let shape = Shape {
            qp,
            rx_key: key,
            base,
            slots: pages,
            rx_stride: page_bytes,
            tx_stride: page_bytes,
            depth: options.depth,
            // Numbers of packets: a missing part is the port's to count.
            sequence: false,
        };
        let queues = Queues::new(&shape)?;
        let config = shape.endpoint();
        let made = AdapterQueues { config, windows: &queues.windows, uar: &queues.uar };
        let endpoint = wire(&made).map_err(ServiceError::Wiring)?;
        let config = Config { qpn: qp, record: RecordMode::Written, burst: 32 };
        let socket = port.socket().map_err(failed("another handle to the socket"))?;
        let nic = Nic::new(config, &queues.windows, queues.uar.clone(), queues.memory(&shape), port)?;
        let (bank, signals) = (Arc::new(Bank::default()), Arc::new(Signals::default()));
        let driver = Driver::new(nic, Arc::clone(&signals));
        let drops = socket.drops();
        let watch = Watch::new(counts, queues.windows.counters.clone(), Arc::clone(&bank), drops);
        let shutdown = queues.windows.shutdown.clone();
        let extent = match options.delivery {
            Delivery::Frames => Extent::Received,
            Delivery::Packets => Extent::Slot,
        };
        let (functions, handlers) = table.into_parts();
        let [request, response] = [(); 2].map(|()| vec![0; page_bytes as usize]);
        let lane = Lane { endpoint, functions, handlers, bank, extent, request, response };
        Ok(Self { address, signals, watch, shutdown, driver, socket, lane })
    }
}

/// The loop's own: an endpoint and what it serves.
#[derive(Debug)]
struct Lane {
    endpoint: Endpoint<BlueFlame>,
    functions: Functions,
    handlers: Handlers,
    bank: Arc<Bank>,
    extent: Extent,
    /// Where handlers work: a page each.
    request: Vec<u8>,
    response: Vec<u8>,
}

impl Lane {
    /// Serves, and lets the NIC work between two looks.
    fn run_with(
        self,
        mut driver: Driver,
        socket: &RoceSocket,
        watch: &Watch,
        halt: &Words,
    ) -> (Served, Option<Driver>) {
        let served = self.run(|| {
            // That the look before this one found no request does not mean that it found nothing: it may have dropped a
            // message, with requests after it.
            if !driver.turn(Some(socket))
                && driver.completed().is_some_and(|completed| watch.has_consumed(completed))
            {
                halt.store(0, 1, Ordering::Relaxed);
            }
        });
        driver.finish();
        (served, Some(driver))
    }

    /// Serves until the endpoint is stopped; `relax` runs after every look that found nothing.
    fn run(mut self, relax: impl FnMut()) -> Served {
        self.serve(Bound { between: 1, turns: u64::MAX }, relax)
    }

    /// Serves until the endpoint is stopped, or `bound` passes without a request.
    fn serve(&mut self, bound: Bound, relax: impl FnMut()) -> Served {
        let Self { endpoint, functions, handlers, bank, extent, request, response } = self;
        let mut unified = Unified {
            table: &*functions,
            bank,
            extent: *extent,
            runs: |mode| mode == DispatchMode::HostCall,
            call: |function: &Function, _: &RequestHeader, input: &[u8], output: &mut [u8]| {
                match handlers.call(function, input, output) {
                    // More than there is room for is refused by the loop.
                    Ok(len) => Returned { status: 0, len: u32::try_from(len).unwrap_or(u32::MAX) },
                    Err(status) => Returned { status: status.0, len: 0 },
                }
            },
        };
        unified.run(endpoint, &mut Scratch { request, response }, bound, relax)
    }
}

/// A service without threads: its caller makes its turns, between other things.
///
/// ```
/// use ringcall::FunctionTable;
/// use ringcall_roce::RoceSocket;
/// use ringcall_sim::socket_nic::{Service, SocketNicOptions, SteppedService};
///
/// let options = SocketNicOptions::default();
/// let capacity = Service::capacity(options.port.page_bytes);
/// let table = FunctionTable::builder().host_call("f", |_: &[u8], _: &mut [u8]| Ok(0));
/// let socket = RoceSocket::bind(options.port.address)?;
/// let mut service = SteppedService::over(socket, options, table.build_for(capacity, capacity)?)?;
/// assert!(!service.step());
/// assert!(service.stop().is_clean());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SteppedService {
    signals: Arc<Signals>,
    watch: Watch,
    driver: Driver,
    lane: Lane,
}

/// Looks for the room of an answer: the NIC works between two of them.
const ROOM_POLLS: u64 = 4;
/// The most turns of a stop.
const STOP_TURNS: u32 = 100_000;

impl SteppedService {
    /// Makes queues that `socket` fills and empties. [`SocketNicOptions::threads`] and the port's address do not apply.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub fn over(
        socket: RoceSocket,
        options: SocketNicOptions,
        table: FunctionTable,
    ) -> Result<Self, ServiceError> {
        let Parts { signals, watch, mut driver, lane, .. } =
            Parts::over(socket, options, table, None, PLAIN)?;
        // The way of waiting is the caller's.
        driver.waiter = Wait::Spin.waiter();
        Ok(Self { signals, watch, driver, lane })
    }

    /// Live counts.
    #[must_use]
    pub fn watch(&self) -> Watch {
        self.watch.clone()
    }

    /// One turn of the NIC, then all requests that it has delivered; whether there was anything to do.
    pub fn step(&mut self) -> bool {
        let Self { driver, lane, .. } = self;
        let mut worked = driver.turn(None);
        let bound = Bound { between: 1, turns: ROOM_POLLS };
        let before = driver.nic.stats().rx_messages;
        let (served, _) = lane.serve(bound, || {
            worked |= driver.turn(None);
        });
        worked || served > 0 || driver.nic.stats().rx_messages > before
    }

    /// Takes what lies in the socket and nothing more, answers what was taken, and ends. Bounded.
    #[must_use]
    pub fn stop(mut self) -> Report {
        let begin = Instant::now();
        self.signals.close();
        for _ in 0..STOP_TURNS {
            if !self.step() && self.signals.completed().is_some_and(|all| self.watch.has_consumed(all)) {
                break;
            }
        }
        self.driver.finish();
        Report::new(&self.watch, Some(&self.driver), Some((0, WaitEnd::Stopped)), begin.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringcall_roce::{Immediate, Packet, PacketOutbox, Psn, Reth};
    use ringcall_wire::counter::Counter;
    use ringcall_wire::{FunctionId, names};

    /// A service without its threads, and a peer.
    fn parts() -> (SocketNicOptions, Parts, RoceSocket) {
        let options = SocketNicOptions::default();
        let capacity = Service::capacity(options.port.page_bytes);
        let table = FunctionTable::builder()
            .host_call(names::RPC_INCREMENT, |request: &[u8], _: &mut [u8]| Ok(request.len()))
            .build_for(capacity, capacity)
            .expect("a table");
        let parts = Parts::new(options, table, None, PLAIN).expect("queues and a socket");
        let peer = RoceSocket::bind(SocketAddrV4::new(*parts.address.ip(), 0)).expect("a socket");
        (options, parts, peer)
    }

    fn push(peer: &RoceSocket, to: SocketAddrV4, packet: &Packet<'_>) {
        let mut outbox = PacketOutbox::new(1024);
        outbox.push(peer, to, packet).expect("room");
        assert_eq!(peer.send(&mut outbox).expect("sent"), 1);
    }

    /// A request into a page of its number's.
    fn request(port: &PortOptions, psn: Psn) -> ([u8; HEADER_BYTES], Reth, Immediate) {
        let header = RequestHeader::new(FunctionId::of(names::RPC_INCREMENT).0, 0, psn.get(), 0).to_bytes();
        let page = psn.get() % port.pages;
        let address = port.base + u64::from(page) * u64::from(port.page_bytes);
        let reth = Reth { address, key: port.key, length: HEADER_BYTES as u32 };
        (header, reth, Immediate::new(page, psn))
    }

    #[test]
    fn a_peer_that_never_pauses_does_not_keep_the_port_open() {
        let (options, parts, peer) = parts();
        let Parts { address, signals, mut driver, .. } = parts;
        let mut psn = Psn::new(7);
        let mut turn = |driver: &mut Driver| {
            let (header, reth, immediate) = request(&options.port, psn);
            let qp = options.port.qp;
            // The first one brings the key; messages without a page are never refused as busy.
            let packet = if psn == Psn::new(7) {
                Packet::write_immediate(qp, psn, reth, immediate, &header)
            } else {
                Packet::send(qp, psn, &header)
            };
            push(&peer, address, &packet);
            psn = psn.next();
            driver.turn(None)
        };
        // There is something to do in every turn.
        assert!((0..100).all(|_| turn(&mut driver)));
        assert_eq!(driver.nic.stats().rx_messages, 100);
        signals.close();
        let turns = (0..1000).take_while(|_| turn(&mut driver)).count();
        assert!(turns < 1000, "it was never closed");
        let stats = driver.nic.stats();
        assert_eq!(driver.completed(), Some(stats.rx_delivered + stats.rx_errors));
    }

    #[test]
    fn a_stop_on_one_thread_reads_what_lies_after_dropped_messages() {
        let (options, parts, peer) = parts();
        let Parts { address, signals, watch, shutdown, mut driver, socket, lane } = parts;
        let qp = options.port.qp;
        let mut psn = Psn::new(7);
        // Sends find receive requests of no bytes: completions with errors, which the loop drops.
        for send in [false, true, true, true, true, true, false] {
            let (header, reth, immediate) = request(&options.port, psn);
            let packet = if send {
                Packet::send(qp, psn, &header)
            } else {
                Packet::write_immediate(qp, psn, reth, immediate, &header)
            };
            push(&peer, address, &packet);
            psn = psn.next();
        }
        for _ in 0..100 {
            driver.turn(None);
        }
        assert_eq!((driver.nic.stats().rx_delivered, driver.nic.stats().rx_errors), (2, 5));
        // Everything is in memory, and the loop has seen nothing of it.
        signals.close();
        let ((served, ended), driver) = lane.run_with(driver, &socket, &watch, &shutdown);
        assert_eq!((served, ended), (2, WaitEnd::Stopped));
        assert_eq!(watch.counters().get(Counter::Completed), 2);
        let report = Report::new(&watch, driver.as_ref(), Some((served, ended)), Duration::ZERO);
        assert!(report.is_clean(), "{report}, {:?}", report.balance());
    }
}

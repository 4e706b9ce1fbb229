//! The whole loop in one process: sensor bridge, packets over sockets, NIC, unified loop, and back.

use ringcall::FunctionTable;
use ringcall_mlx5::Event;
use ringcall_roce::{Immediate, Inbox, Packet, Psn, Reth, RoceSocket};
use ringcall_sim::fpga::{
    Exchange, Faults, Increment, Player, PlayerConfig, PlayerTarget, Report as PlayReport,
};
use ringcall_sim::socket_nic::{
    Count, Delivery, PortOptions, Report, Service, ServiceError, SocketNicOptions, Threads, Watch,
};
use ringcall_wire::counter::Counter;
use ringcall_wire::header::{RequestHeader, ResponseHeader};
use ringcall_wire::{FunctionId, Status, names};
use std::net::SocketAddrV4;
use std::sync::Mutex;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// Against hanging alone.
const TIMEOUT: Duration = Duration::from_secs(20);

fn any() -> SocketAddrV4 {
    "127.0.0.1:0".parse().expect("an address")
}

fn table(page_bytes: u32) -> FunctionTable {
    let capacity = Service::capacity(page_bytes);
    FunctionTable::builder()
        .host_call(names::RPC_INCREMENT, |request: &[u8], result: &mut [u8]| {
            result.iter_mut().zip(request).for_each(|(out, byte)| *out = byte.wrapping_add(1));
            Ok(request.len())
        })
        .host_call("panics", |_: &[u8], _: &mut [u8]| -> Result<usize, Status> { panic!("on purpose") })
        .build_for(capacity, capacity)
        .expect("a table")
}

/// As [`table`], with a function `held` whose handler waits until the sender says so, or is gone.
fn table_with_held(page_bytes: u32) -> (FunctionTable, Sender<()>) {
    let capacity = Service::capacity(page_bytes);
    let (release, gate) = std::sync::mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let held = move |_: &[u8], _: &mut [u8]| {
        let _ = gate.lock().expect("no panic").recv_timeout(TIMEOUT);
        Ok(0)
    };
    let table = FunctionTable::builder().host_call("held", held).build_for(capacity, capacity);
    (table.expect("a table"), release)
}

fn start(options: SocketNicOptions) -> Service {
    Service::start(options, table(options.port.page_bytes)).expect("a service")
}

fn target(service: &Service) -> PlayerTarget {
    let port = service.options().port;
    PlayerTarget {
        peer: service.address(),
        qp: port.qp,
        key: port.key,
        base: port.base,
        page_bytes: port.page_bytes,
        pages: port.pages,
    }
}

/// Plays calls of `rpc_increment`; every request's end is known.
fn play(
    service: &Service,
    calls: u64,
    payload_bytes: u32,
    change: impl FnOnce(&mut PlayerConfig),
) -> PlayReport {
    let mut config = PlayerConfig::new(target(service));
    config.timeout = TIMEOUT;
    change(&mut config);
    let mut player = Player::new(RoceSocket::bind(any()).expect("a socket"), config).expect("a player");
    let mut windows = Increment::new(calls, payload_bytes);
    let report = player.run(&mut windows, &mut Increment::check, &|| false).expect("it runs");
    assert!(report.accounted(), "{report:?}");
    report
}

fn stop(service: Service) -> (Report, Watch) {
    let watch = service.watch();
    let report = service.stop(TIMEOUT);
    assert!(report.is_clean(), "{report}, {:?}", report.balance());
    (report, watch)
}

fn everything() -> Vec<SocketNicOptions> {
    let of = |threads, delivery, depth| SocketNicOptions {
        port: PortOptions { base: 0x4000, ..SocketNicOptions::default().port },
        peers: 64,
        delivery,
        depth,
        threads,
    };
    vec![
        of(Threads::One, Delivery::Frames, 64),
        of(Threads::Two, Delivery::Frames, 64),
        of(Threads::One, Delivery::Packets, 128),
        of(Threads::Two, Delivery::Packets, 64),
    ]
}

#[test]
fn every_request_is_answered_rightly_and_once() {
    for options in everything() {
        let service = start(options);
        // Frames with a camera's metadata are requests with padding.
        let played = play(&service, 100, 30, |config| config.metadata = true);
        assert!(played.clean(), "{options:?}: {played:?}");
        // Two players, one after the other: the second brings the key, and is the peer from then on.
        for payload_bytes in [16, 200] {
            let played = play(&service, 2000, payload_bytes, |_| ());
            assert!(played.clean(), "{options:?}: {played:?}");
            assert_eq!((played.correct, played.answers.gap_packets), (2000, 0), "{played:?}");
        }
        let (report, watch) = stop(service);
        assert_eq!(report.dispatcher.get(Counter::Completed), 4100);
        assert_eq!((report.nic.rx_delivered, report.nic.tx_sent), (4100, 4100), "{report}");
        assert_eq!(watch.port().get(Count::Sent), 4100);
        assert_eq!(watch.event(Event::RxRequests), 4100);
        // Answers of 40 bytes travel in the work request, those of 224 by address.
        assert_eq!(report.nic.tx_inline, 2000);
    }
}

#[test]
fn what_is_lost_doubled_damaged_or_disordered_hurts_no_other() {
    let faults = Faults {
        loss: 0.01,
        corruption: 0.005,
        duplication: 0.02,
        reordering: 0.02,
        reorder_depth: 4,
        answer_loss: 0.01,
        seed: 11,
    };
    for options in everything() {
        let service = start(options);
        let played = play(&service, 1200, 24, |config| {
            config.faults = faults;
            config.timeout = Duration::from_secs(1);
        });
        let count = played.faults;
        assert!(played.clean(), "{options:?}: {played:?}");
        assert!(count.lost > 3 && count.duplicated > 8 && count.reordered > 8, "{count:?}");
        assert_eq!(played.lost, count.lost + count.corrupted + count.answers_lost, "{played:?}");
        let (report, watch) = stop(service);
        // Seen from the other side.
        assert_eq!(watch.port().get(Count::Repeated), count.duplicated);
        assert_eq!(watch.port().get(Count::Refused), count.corrupted);
        assert_eq!(report.dispatcher.get(Counter::Completed), played.correct + count.answers_lost);
        assert_eq!(report.nic.rx_no_credit, 0, "{report}");
    }
}

#[test]
fn requests_of_several_packets() {
    let faults = Faults {
        loss: 0.003,
        duplication: 0.02,
        reordering: 0.02,
        reorder_depth: 4,
        seed: 5,
        ..Faults::default()
    };
    for options in everything() {
        let service = start(options);
        let played = play(&service, 1000, 700, |config| {
            config.packet_bytes = 256;
            config.timeout = Duration::from_secs(1);
            // Bytes that reach memory packet by packet must all be there before the completion: not with loss, where
            // the page's next request may find half of this one.
            config.faults = if options.delivery == Delivery::Frames { faults } else { Faults::default() };
        });
        assert!(played.clean(), "{options:?}: {played:?}");
        assert_eq!(played.packets, 3000);
        let (report, _) = stop(service);
        let writes = if options.delivery == Delivery::Frames { 0 } else { 2000 };
        assert_eq!(report.nic.rx_writes, writes, "{report}");
    }
}

/// A peer that sends one packet at a time.
struct Raw {
    socket: RoceSocket,
    to: SocketAddrV4,
    psn: Psn,
}

impl Raw {
    fn new(service: &Service) -> Self {
        Self { socket: RoceSocket::bind(any()).expect("a socket"), to: service.address(), psn: Psn::new(7) }
    }

    /// A request of no bytes for `held` into page 0.
    fn ask_held(&mut self, port: &PortOptions, request_id: u32) {
        let header = RequestHeader::new(FunctionId::of("held").0, 0, request_id, 0);
        self.send(port.qp, port.key, port.base, 0, &header.to_bytes());
    }

    /// The next answers that come: request id and status of each.
    fn answers(&mut self) -> Vec<(u32, Status)> {
        let mut inbox = Inbox::new(2048);
        self.socket.receive(&mut inbox).expect("it receives");
        let answer = |(_, datagram): (SocketAddrV4, &[u8])| {
            let packet = Packet::parse(datagram).expect("a packet");
            let header = ResponseHeader::from_bytes(packet.payload).expect("an answer");
            (header.request_id, header.status())
        };
        inbox.iter().map(answer).collect()
    }

    fn send(&mut self, qp: u32, key: u32, address: u64, page: u32, bytes: &[u8]) {
        let reth = Reth { address, key, length: bytes.len() as u32 };
        let packet = Packet::write_immediate(qp, self.psn, reth, Immediate::new(page, self.psn), bytes);
        self.push(&packet);
    }

    fn push(&mut self, packet: &Packet<'_>) {
        let mut outbox = ringcall_roce::PacketOutbox::new(2048);
        outbox.push(&self.socket, self.to, packet).expect("room");
        assert_eq!(self.socket.send(&mut outbox).expect("sent"), 1);
        self.psn = self.psn.next();
    }
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < TIMEOUT, "never: {what}");
        std::thread::yield_now();
    }
}

#[test]
fn a_packet_for_anything_else_reaches_no_memory() {
    for options in everything() {
        let PortOptions { qp, key, base, page_bytes, pages, .. } = options.port;
        let service = start(options);
        let page = u64::from(page_bytes);
        let mut raw = Raw::new(&service);
        let bytes = [1; 40];
        // Nobody's yet: neither queue pair nor key make a peer.
        raw.send(qp + 1, key, base, 0, &bytes);
        raw.send(qp, key + 1, base, 0, &bytes);
        raw.push(&Packet::send(qp, Psn::new(9), &bytes));
        // The key makes one, and still must the address be right.
        raw.send(qp, key, base + 3 * page, 4, &bytes);
        raw.send(qp, key, base - 8, 0, &bytes);
        raw.send(qp, key, base + u64::from(pages) * page, 0, &bytes);
        raw.send(qp, key, base + page - 8, 0, &bytes);
        raw.send(qp, key + 1, base, 0, &bytes);
        until("counted", || service.watch().port().get(Count::Refused) == 8);
        // A send finds a receive request that takes no bytes: an error completion, and the queue lives on.
        let psn = raw.psn;
        raw.push(&Packet::send(qp, psn, &bytes));
        let watch = service.watch();
        until("failed", || watch.event(Event::RxErrors) == 1);
        assert!(play(&service, 200, 16, |_| ()).clean());
        let (report, _) = stop(service);
        assert_eq!((report.nic.rx_errors, report.nic.rx_delivered), (1, 200), "{report}");
        assert_eq!(report.dispatcher.get(Counter::Received), 200);
    }
}

#[test]
fn a_handler_that_panics_is_answered_for() {
    let options = SocketNicOptions::default();
    let PortOptions { qp, key, base, .. } = options.port;
    let service = start(options);
    let mut raw = Raw::new(&service);
    let header = RequestHeader::new(FunctionId::of("panics").0, 0, 3, 4);
    raw.send(qp, key, base, 0, &header.to_bytes());
    let watch = service.watch();
    until("answered", || watch.counters().get(Counter::HandlerPanics) == 1);
    assert!(play(&service, 100, 16, |_| ()).clean());
    let (report, _) = stop(service);
    assert_eq!(report.dispatcher.answered(), 101);
}

#[test]
fn a_stop_answers_what_was_taken() {
    for threads in [Threads::One, Threads::Two] {
        let service = start(SocketNicOptions { threads, ..SocketNicOptions::default() });
        let PortOptions { qp, key, base, page_bytes, .. } = service.options().port;
        let mut raw = Raw::new(&service);
        for page in 0..40 {
            let header = RequestHeader::new(FunctionId::of(names::RPC_INCREMENT).0, 0, page, 0);
            let address = base + u64::from(page) * u64::from(page_bytes);
            raw.send(qp, key, address, page, &header.to_bytes());
        }
        let (report, watch) = stop(service);
        let delivered = watch.port().get(Count::Delivered);
        assert_eq!(report.dispatcher.get(Counter::Completed), delivered, "{report}");
        assert_eq!(watch.port().get(Count::Sent), delivered);
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let page = |page_bytes| SocketNicOptions { port: PortOptions::new(64, page_bytes), ..Default::default() };
    for bytes in [0, 24, 100, 8192] {
        let error = Service::start(page(bytes), table(1024)).map(|_| ());
        assert!(matches!(error, Err(ServiceError::Page(n)) if n == bytes), "{bytes}: {error:?}");
    }
    for depth in [0, 3, 1 << 16] {
        let error = Service::start(SocketNicOptions { depth, ..Default::default() }, table(1024)).map(|_| ());
        assert!(matches!(error, Err(ServiceError::Depth(n)) if n == depth), "{depth}: {error:?}");
    }
    let port = PortOptions::new(5000, 1024);
    assert!(Service::start(SocketNicOptions { port, ..Default::default() }, table(1024)).is_err());
    let port = PortOptions { qp: 1 << 24, ..PortOptions::new(64, 1024) };
    assert!(Service::start(SocketNicOptions { port, ..Default::default() }, table(1024)).is_err());
}

/// Both count their requests from 0 and write into the same pages: each gets the answers to its own requests, and a request
/// for a page whose request is in flight is refused.
#[test]
fn two_peers_at_once_get_their_own_answers() {
    for threads in [Threads::One, Threads::Two] {
        let service = start(SocketNicOptions { threads, ..SocketNicOptions::default() });
        let target = target(&service);
        let play = |payload_bytes: u32| {
            let config = PlayerConfig { timeout: TIMEOUT, ..PlayerConfig::new(target) };
            let mut player =
                Player::new(RoceSocket::bind(any()).expect("a socket"), config).expect("a player");
            let mut refused = 0;
            let mut check = |exchange: &Exchange<'_>| {
                let busy = exchange.response.status() == Status::BACKPRESSURE;
                refused += u64::from(busy);
                busy || Increment::check(exchange)
            };
            let mut windows = Increment::new(5000, payload_bytes);
            let played = player.run(&mut windows, &mut check, &|| false).expect("it plays");
            assert!(played.clean(), "{played:?}");
            refused
        };
        let refused: u64 = std::thread::scope(|scope| {
            let threads = [16, 40].map(|bytes| scope.spawn(move || play(bytes)));
            threads.into_iter().map(|thread| thread.join().expect("it plays")).sum()
        });
        let (report, watch) = stop(service);
        assert_eq!(watch.port().get(Count::Busy), refused);
        assert_eq!(report.dispatcher.get(Counter::Completed) + refused, 10_000);
    }
}

/// However few peers a port knows: a page stays the first request's until its answer, which goes to no other
/// agent.
#[test]
fn a_page_in_flight_takes_no_other_request() {
    for (peers, fixed) in [(1, false), (64, false), (64, true)] {
        let (mut options, mut first) =
            (SocketNicOptions { peers, threads: Threads::Two, ..SocketNicOptions::default() }, None);
        if fixed {
            let socket = RoceSocket::bind(any()).expect("a socket");
            options.port.peer = Some(socket.local_addr());
            first = Some(socket);
        }
        let (table, release) = table_with_held(options.port.page_bytes);
        let service = Service::start(options, table).expect("a service");
        let count = |count| service.watch().port().get(count);
        let mut owner = Raw::new(&service);
        if let Some(socket) = first {
            owner.socket = socket;
        }
        owner.ask_held(&options.port, 7);
        until("delivered", || count(Count::Delivered) == 1);

        let mut other = Raw::new(&service);
        // A fixed peer's rival is itself: no other address is heard.
        let rival = if fixed { &mut owner } else { &mut other };
        rival.ask_held(&options.port, 7);
        until("refused", || count(Count::Busy) == 1);
        let mut refused = Vec::new();
        until("told", || {
            refused.extend(rival.answers());
            !refused.is_empty()
        });
        assert_eq!(refused, [(7, Status::BACKPRESSURE)], "{peers} peers");

        release.send(()).expect("it waits");
        // A port that knows one peer has forgotten the first one's numbers: its answer is counted, and sent to nobody.
        let forgotten = peers == 1;
        until("answered", || count(Count::Unsent) + count(Count::Sent) == 2);
        assert_eq!(count(Count::Unsent), u64::from(forgotten), "{peers} peers");
        let (report, _) = stop(service);
        assert_eq!(report.dispatcher.get(Counter::Completed), 1);
        let answered = if forgotten { vec![] } else { vec![(7, Status::OK)] };
        assert_eq!((owner.answers(), other.answers()), (answered, vec![]), "{peers} peers");
    }
}

/// While a handler holds the one thread, the socket's buffer runs over.
#[test]
fn a_flood_is_counted_to_the_last_packet() {
    let options = SocketNicOptions { threads: Threads::One, ..SocketNicOptions::default() };
    let (table, release) = table_with_held(options.port.page_bytes);
    let service = Service::start(options, table).expect("a service");
    let watch = service.watch();
    let mut raw = Raw::new(&service);
    raw.ask_held(&options.port, 1);
    until("delivered", || watch.event(Event::RxRequests) == 1);
    let flood = 40_000_u64;
    for _ in 0..flood {
        raw.send(options.port.qp, options.port.key + 1, options.port.base, 0, &[1; 1000]);
    }
    assert!(watch.kernel_drops() > 0, "the buffer took all of it");
    release.send(()).expect("it waits");
    until("counted", || watch.port().get(Count::Packets) + watch.kernel_drops() == flood + 1);
    assert_eq!(watch.port().get(Count::Refused), watch.port().get(Count::Packets) - 1);
    let (report, _) = stop(service);
    assert_eq!(report.dispatcher.get(Counter::Completed), 1);
}

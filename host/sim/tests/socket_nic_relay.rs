//! Three kernels in place of one, on CPU threads: a receiver fills a ring, the host dispatcher serves it, a sender empties
//! it; the NIC, packets and the sensor bridge as ever.

use ringcall::{FunctionTable, HostDispatcher, Ring};
use ringcall_dispatcher::queue_pair::single::Extent;
use ringcall_dispatcher::relay::{Receiver, Sender, SenderConfig, SenderWindows, Step};
use ringcall_gpu::shared::{Bytes, Region, Words};
use ringcall_mlx5::endpoint::{self, Endpoint, Reply, Windows};
use ringcall_mlx5::layout::{cqe, wqe};
use ringcall_mlx5::rq::Buffers;
use ringcall_mlx5::sq::RecordMode;
use ringcall_mlx5::{BlueFlame, Bound, CompletionQueue, Ended, Event, QueueError};
use ringcall_protocol::SharedRing;
use ringcall_protocol::ring::RingWindows;
use ringcall_roce::RoceSocket;
use ringcall_sim::fpga::{Faults, Increment, Player, PlayerConfig, PlayerTarget, Report};
use ringcall_sim::nic::thread::Running;
use ringcall_sim::nic::{Config, Memory, Message, Nic, Port, Region as Registered};
use ringcall_sim::socket_nic::{Count, Delivery, PortOptions, RocePort};
use ringcall_wire::header::RequestHeader;
use ringcall_wire::{Counter, FunctionId, names};
use std::net::SocketAddrV4;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

const SLOTS: u32 = 16;
const STRIDE: u32 = 256;
const TX_KEY: u32 = 0x77;

fn any() -> SocketAddrV4 {
    "127.0.0.1:0".parse().expect("an address")
}

fn words(count: usize) -> Words {
    Region::zeroed(count * 8).expect("memory").words(0, count).expect("inside")
}

fn bytes(len: u32) -> Bytes {
    Region::zeroed(len as usize).expect("memory").bytes(0, len as usize).expect("inside")
}

fn ring() -> SharedRing {
    let flags = || words(SLOTS as usize);
    let windows = RingWindows {
        rx_flags: flags(),
        tx_flags: flags(),
        rx_data: bytes(SLOTS * STRIDE),
        tx_data: bytes(SLOTS * STRIDE),
    };
    SharedRing::new(SLOTS, STRIDE, STRIDE, windows, None).expect("a ring")
}

/// Queues of `depth`, whose request slots are the ring's.
fn windows(ring: &SharedRing, depth: u32) -> Windows {
    let depth = depth as usize;
    let windows = Windows {
        rx_completions: words(depth * cqe::WORDS),
        rx_completions_record: None,
        receive: words(depth * 2),
        tx_completions: words(depth * cqe::WORDS),
        tx_completions_record: None,
        send: words(depth * wqe::WORDS),
        record: words(1),
        rx_data: ring.windows().rx_data,
        tx_data: bytes(depth as u32 * STRIDE),
        counters: words(Event::COUNT),
        shutdown: words(1),
    };
    CompletionQueue::prepare(&windows.rx_completions);
    CompletionQueue::prepare(&windows.tx_completions);
    windows
}

fn endpoint_config(qpn: u32, depth: u32, record: RecordMode) -> endpoint::Config {
    endpoint::Config {
        qpn,
        slots: SLOTS,
        rx_stride: STRIDE,
        tx_stride: STRIDE,
        tx_lkey: TX_KEY,
        tx_base: 0,
        depth,
        buffers: Buffers::Credits,
        sequence: false,
        reply: Reply::Send,
        record,
    }
}

/// A queue pair and its NIC.
struct Qp {
    qpn: u32,
    windows: Windows,
    uar: Words,
    nic: Running<RocePort>,
}

impl Qp {
    fn new(ring: &SharedRing, port: RocePort, options: &PortOptions, record: RecordMode) -> Self {
        let (windows, uar) = (windows(ring, SLOTS), words(8));
        let memory = Memory::new(vec![
            Registered {
                key: options.key,
                base: options.base,
                window: windows.rx_data.clone(),
                remote_write: true,
            },
            Registered { key: TX_KEY, base: 0, window: windows.tx_data.clone(), remote_write: false },
        ]);
        let config = Config { qpn: options.qp, record, burst: 16 };
        let nic = Nic::new(config, &windows, uar.clone(), memory, port).expect("a NIC");
        Self { qpn: options.qp, windows, uar, nic: Running::start(nic).expect("a thread") }
    }

    fn receiver(&self, ring: &SharedRing, record: RecordMode) -> Receiver<BlueFlame> {
        let doorbell = BlueFlame::new(self.uar.clone()).expect("8 words");
        let config = endpoint_config(self.qpn, SLOTS, record);
        let endpoint = Endpoint::new(config, self.windows.clone(), doorbell).expect("an endpoint");
        Receiver::new(endpoint, ring.clone(), Extent::Received).expect("a receiver")
    }

    fn sender(&self, ring: &SharedRing, record: RecordMode) -> Sender<BlueFlame> {
        let doorbell = BlueFlame::new(self.uar.clone()).expect("8 words");
        let config = SenderConfig { qpn: self.qpn, stride: STRIDE, lkey: TX_KEY, base: 0, record };
        Sender::new(config, sender_windows(&self.windows), ring.clone(), doorbell).expect("a sender")
    }
}

/// The send side's windows; the record of a queue pair that receives is the receiver's.
fn sender_windows(windows: &Windows) -> SenderWindows {
    SenderWindows {
        completions: windows.tx_completions.clone(),
        completions_record: None,
        send: windows.send.clone(),
        record: words(1),
        data: windows.tx_data.clone(),
        counters: words(Event::COUNT),
        shutdown: windows.shutdown.clone(),
    }
}

const BOUND: Bound = Bound { between: 16, turns: u64::MAX };

/// Plays to a service of three agents; `pairs` is one queue pair or two.
fn serve(two_pairs: bool, play: impl FnOnce(PlayerTarget, RoceSocket) -> Report) -> Report {
    let ring = ring();
    let socket = RoceSocket::bind(any()).expect("a socket");
    let options = PortOptions::new(SLOTS, STRIDE);
    let port = RocePort::bind(options, Delivery::Frames, 1).expect("a port").without_requests();
    let (address, counts) = (port.local_addr(), port.counts());
    // With one, the NIC keeps the send counter itself.
    let record = if two_pairs { RecordMode::Written } else { RecordMode::NotWritten };
    let first = Qp::new(&ring, port, &options, record);
    let mut receiver = first.receiver(&ring, record);
    let second = two_pairs.then(|| {
        let options = PortOptions { qp: 0x99, peer: Some(socket.local_addr()), ..options };
        let port = RocePort::bind(options, Delivery::Frames, 1).expect("a port").without_requests();
        Qp::new(&ring, port, &options, record)
    });
    let mut sender = match &second {
        None => first.sender(&ring, record),
        Some(second) => {
            let doorbell = BlueFlame::new(second.uar.clone()).expect("8 words");
            let config = SenderConfig { qpn: second.qpn, stride: STRIDE, lkey: TX_KEY, base: 0, record };
            let windows =
                SenderWindows { record: second.windows.record.clone(), ..sender_windows(&second.windows) };
            Sender::new(config, windows, ring.clone(), doorbell).expect("a sender")
        }
    };
    let served = Ring::external(ring.clone());
    let table = FunctionTable::builder()
        .host_call(names::RPC_INCREMENT, |request: &[u8], result: &mut [u8]| {
            result.iter_mut().zip(request).for_each(|(out, byte)| *out = byte.wrapping_add(1));
            Ok(request.len())
        })
        .build(&served)
        .expect("a table");
    let dispatcher =
        HostDispatcher::builder(&served, table).build().expect("a dispatcher").start().expect("started");
    let receiving = thread::spawn(move || {
        let ended = receiver.run(BOUND, thread::yield_now);
        (ended, receiver.counters().get(Event::RxUnanswered))
    });
    let sending = thread::spawn(move || {
        let mut scratch = vec![0; STRIDE as usize];
        let ended = sender.run(&mut scratch, BOUND, thread::yield_now);
        (ended, sender.counters().get(Event::TxPosted))
    });
    let target = PlayerTarget {
        peer: address,
        qp: options.qp,
        key: options.key,
        base: options.base,
        page_bytes: STRIDE,
        pages: SLOTS,
    };
    let report = play(target, socket);
    first.windows.shutdown.store(0, 1, Relaxed);
    if let Some(second) = &second {
        second.windows.shutdown.store(0, 1, Relaxed);
    }
    let ((filled, how), unanswered) = receiving.join().expect("receiver");
    assert_eq!((how, unanswered), (Ended::Stopped, 0));
    let ((sent, how), posted) = sending.join().expect("sender");
    assert_eq!((how, sent, filled), (Ended::Stopped, posted, posted));
    let stopped = dispatcher.stop(Duration::from_secs(5));
    assert!(stopped.report.dropped == 0 && !stopped.report.stuck);
    let nic = first.nic.stop().expect("NIC");
    assert_eq!(nic.violations().broken().collect::<Vec<_>>(), []);
    assert_eq!((nic.stats().rx_delivered, nic.stats().rx_no_credit), (filled, 0));
    assert_eq!(counts.get(Count::Delivered), filled);
    if let Some(second) = second {
        let nic = second.nic.stop().expect("NIC");
        assert_eq!(nic.violations().broken().collect::<Vec<_>>(), []);
        assert_eq!(nic.stats().tx_sent, filled);
    }
    report
}

#[test]
fn every_request_is_answered_rightly_and_once() {
    for two_pairs in [false, true] {
        for payload_bytes in [16, 200] {
            let report = serve(two_pairs, |target, socket| {
                let mut config = PlayerConfig::new(target);
                config.timeout = Duration::from_secs(20);
                let mut player = Player::new(socket, config).expect("a player");
                let mut windows = Increment::new(1500, payload_bytes);
                player.run(&mut windows, &mut Increment::check, &|| false).expect("it runs")
            });
            assert!(report.clean() && report.correct == 1500, "{two_pairs} {payload_bytes}: {report:?}");
        }
    }
}

#[test]
fn faults_hurt_no_other() {
    for two_pairs in [false, true] {
        let report = serve(two_pairs, |target, socket| {
            let mut config = PlayerConfig::new(target);
            config.timeout = Duration::from_secs(1);
            config.faults = Faults {
                loss: 0.005,
                duplication: 0.02,
                reordering: 0.02,
                reorder_depth: 3,
                seed: 4,
                ..Faults::default()
            };
            let mut player = Player::new(socket, config).expect("a player");
            player.run(&mut Increment::new(600, 32), &mut Increment::check, &|| false).expect("it runs")
        });
        assert!(report.clean() && report.lost == report.faults.lost && report.lost > 0, "{report:?}");
    }
}

/// Everything on one thread, message by message: what a receiver makes of requests that are not whole, and of a peer that
/// writes into a slot that is being served.
#[test]
fn what_is_not_whole_is_told_and_a_taken_slot_is_left_alone() {
    let ring = ring();
    let (windows, uar) = (windows(&ring, SLOTS), words(8));
    let key = PortOptions::new(SLOTS, STRIDE).key;
    let memory =
        Memory::new(vec![Registered { key, base: 0, window: windows.rx_data.clone(), remote_write: true }]);
    let (port, mut peer) = ringcall_sim::nic::Wire::pair(16);
    let config = Config { qpn: 1, record: RecordMode::Written, burst: 16 };
    let mut nic = Nic::new(config, &windows, uar.clone(), memory, port).expect("a NIC");
    let endpoint = Endpoint::new(
        endpoint_config(1, SLOTS, RecordMode::Written),
        windows,
        BlueFlame::new(uar).expect("8 words"),
    );
    let mut receiver =
        Receiver::new(endpoint.expect("an endpoint"), ring.clone(), Extent::Received).expect("a receiver");
    let mut send = |receiver: &mut Receiver<BlueFlame>, slot: u32, bytes: &[u8]| {
        let message =
            Message::WriteImm { address: u64::from(slot * STRIDE), rkey: key, immediate: slot | 7 << 12 };
        assert!(peer.send(message, bytes));
        while nic.step() {}
        receiver.step()
    };
    let header =
        |arg_len, id| RequestHeader::new(FunctionId::of(names::RPC_INCREMENT).0, arg_len, id, 9).to_bytes();
    let whole = [&header(8, 1)[..], &[1; 8]].concat();
    assert_eq!(receiver.step(), Step::Idle);
    for slot in 0..4 {
        // Bytes of earlier requests, which must not become part of what follows.
        ring.windows().rx_data.write((slot * STRIDE) as usize, &[&header(64, 99)[..], &[0xAA; 64]].concat());
    }
    assert_eq!(send(&mut receiver, 0, &whole), Step::Filled);
    assert_eq!(send(&mut receiver, 1, &whole[..31]), Step::Filled);
    assert_eq!(send(&mut receiver, 2, &whole[..23]), Step::Filled);
    assert_eq!(send(&mut receiver, 3, &[]), Step::Filled);
    // Not served yet: the second one is not put on top.
    assert_eq!(send(&mut receiver, 0, &whole), Step::Dropped);
    assert_eq!(receiver.counters().get(Event::RxUnanswered), 1);
    assert_eq!(receiver.counters().get(Event::RxReposted), 5);
    let served = Ring::external(ring);
    let table = FunctionTable::builder()
        .host_call(names::RPC_INCREMENT, |request: &[u8], _: &mut [u8]| {
            assert_eq!(request, [1; 8]);
            Ok(0)
        })
        .build(&served)
        .expect("a table");
    let mut dispatcher =
        HostDispatcher::builder(&served, table).build().expect("a dispatcher").into_stepper();
    for _ in 0..1000 {
        dispatcher.step();
    }
    let counters = dispatcher.counters();
    let counts =
        [Counter::Completed, Counter::ArgTooLong, Counter::BadMagic].map(|counter| counters.get(counter));
    assert_eq!(counts, [1, 1, 2]);
    let _ = dispatcher.finish(Duration::from_secs(1));
}

#[test]
fn depths_are_tied_to_the_ring_s() {
    let ring = ring();
    let uar = words(8);
    let doorbell = || BlueFlame::new(uar.clone()).expect("8 words");
    let half = windows(&ring, SLOTS / 2);
    let endpoint = |windows: &Windows, depth| {
        Endpoint::new(endpoint_config(1, depth, RecordMode::Written), windows.clone(), doorbell())
            .expect("an endpoint")
    };
    let whole = windows(&ring, SLOTS);
    let buffers = Buffers::Slots { lkey: 1, base: 0, stride: STRIDE };
    let config = endpoint::Config { buffers, ..endpoint_config(1, SLOTS, RecordMode::Written) };
    let sends = Endpoint::new(config, whole.clone(), doorbell()).expect("an endpoint");
    let error = Receiver::new(sends, ring.clone(), Extent::Received).map(|_| ());
    assert_eq!(error, Err(QueueError::Buffers), "sends choose no slot");
    let error = Receiver::new(endpoint(&half, SLOTS / 2), ring.clone(), Extent::Received).map(|_| ());
    assert_eq!(error, Err(QueueError::Depth { depth: SLOTS / 2, entries: SLOTS }));
    let config = SenderConfig { qpn: 1, stride: STRIDE, lkey: TX_KEY, base: 0, record: RecordMode::Written };
    let error = Sender::new(config, sender_windows(&half), ring.clone(), doorbell()).map(|_| ());
    assert_eq!(error, Err(QueueError::Slots(SLOTS)));
    let short = SenderConfig { stride: STRIDE / 2, ..config };
    let error = Sender::new(short, sender_windows(&whole), ring, doorbell()).map(|_| ());
    assert_eq!(error, Err(QueueError::Stride(STRIDE / 2)));
}

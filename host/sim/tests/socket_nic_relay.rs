//! Three kernels in place of one, on CPU threads: a receiver fills a ring, the host dispatcher serves it, a sender empties
//! it; the NIC, packets and the sensor bridge as ever.

use ringcall::{FunctionTable, HostDispatcher, Ring};
use ringcall_dispatcher::queue_pair::single::Extent;
use ringcall_dispatcher::queue_pair::{Bell, Copying};
use ringcall_dispatcher::relay::{CREDITS_PER_SLOT, Receiver, Sender, Step};
use ringcall_gpu::atomic::BlockU64;
use ringcall_gpu::shared::{Bytes, Region, Words};
use ringcall_gpu::staging::StagingBuffer;
use ringcall_gpu::team::{Warp, run_warp};
use ringcall_mlx5::endpoint::{self, ResponsePath, Windows};
use ringcall_mlx5::layout::{cqe, wqe};
use ringcall_mlx5::rq::Buffers;
use ringcall_mlx5::sq::RecordMode;
use ringcall_mlx5::{CompletionQueue, Event, QueueError, WaitEnd};
use ringcall_protocol::ring::RingWindows;
use ringcall_protocol::{RingMemory, SharedRing};
use ringcall_roce::RoceSocket;
use ringcall_sim::fpga::{Faults, Increment, Player, PlayerConfig, PlayerTarget, Report};
use ringcall_sim::nic::thread::Running;
use ringcall_sim::nic::{Config, Memory, Message, Nic, Port, Region as Registered, Wire};
use ringcall_sim::socket_nic::{Count, Delivery, PortOptions, RocePort};
use ringcall_wire::header::{RequestHeader, ResponseHeader};
use ringcall_wire::unified::control;
use ringcall_wire::{Counter, FunctionId, Status, flag, names};
use std::net::SocketAddrV4;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread;
use std::time::{Duration, Instant};

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

/// Queues for so many slots, whose request slots are the ring's.
fn windows(ring: &SharedRing, slots: u32) -> Windows {
    let (receives, depth) = ((slots * CREDITS_PER_SLOT) as usize, slots as usize);
    let windows = Windows {
        rx_completions: words(receives * cqe::WORDS),
        rx_completions_record: None,
        receive: words(receives * 2),
        tx_completions: words(depth * cqe::WORDS),
        tx_completions_record: None,
        send: words(depth * wqe::WORDS),
        record: words(1),
        rx_data: ring.windows().rx_data,
        tx_data: bytes(slots * STRIDE),
        counters: words(Event::COUNT),
        shutdown: words(1),
    };
    CompletionQueue::prepare(&windows.rx_completions);
    CompletionQueue::prepare(&windows.tx_completions);
    windows
}

fn endpoint_config(qpn: u32, slots: u32, record: RecordMode) -> endpoint::Config {
    endpoint::Config {
        qpn,
        slots: SLOTS,
        rx_stride: STRIDE,
        tx_stride: STRIDE,
        tx_lkey: TX_KEY,
        tx_base: 0,
        depth: slots * CREDITS_PER_SLOT,
        buffers: Buffers::Credits,
        sequence: false,
        reply: ResponsePath::Send,
        record,
    }
}

/// A queue pair, as agents work it.
#[derive(Clone)]
struct Queues {
    qpn: u32,
    windows: Windows,
    uar: Words,
}

/// A queue pair and its NIC.
struct Qp {
    queues: Queues,
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
        let queues = Queues { qpn: options.qp, windows, uar };
        Self { queues, nic: Running::start(nic).expect("a thread") }
    }
}

impl Queues {
    fn receiver(&self, ring: &SharedRing, record: RecordMode) -> Receiver {
        let config = endpoint_config(self.qpn, SLOTS, record);
        Receiver::new(config, &self.windows, ring.clone(), Extent::Received).expect("a receiver")
    }

    fn sender(&self, ring: &SharedRing, record: RecordMode) -> Sender {
        let bell = Bell::new(self.uar.clone(), Copying::FirstWordLast).expect("8 words");
        let config = endpoint_config(self.qpn, SLOTS, record);
        // The receiver has the doorbell record and the counters of a queue pair that it works, too.
        let windows = match record {
            RecordMode::Written => self.windows.clone(),
            RecordMode::NotWritten => {
                Windows { record: words(1), counters: words(Event::COUNT), ..self.windows.clone() }
            }
        };
        Sender::new(config, &windows, ring.clone(), bell).expect("a sender")
    }
}

/// The lanes of each of the two agents.
const LANES: u32 = 2;

/// What a warp's lane 0 says.
fn lane_0<T>(of_lanes: Vec<T>) -> T {
    of_lanes.into_iter().next().expect("a lane")
}

/// A staging buffer as long as a send slot.
fn staging() -> Vec<BlockU64> {
    (0..STRIDE / 8).map(|_| BlockU64::new(0)).collect()
}

/// Plays to a service of three agents, two of which have so many lanes, on one queue pair or two.
fn serve(two_pairs: bool, lanes: u32, play: impl FnOnce(PlayerTarget, RoceSocket) -> Report) -> Report {
    let ring = ring();
    let socket = RoceSocket::bind(any()).expect("a socket");
    let options = PortOptions::new(SLOTS, STRIDE);
    let port = RocePort::bind(options, Delivery::Frames, 1).expect("a port").without_requests();
    let (address, counts) = (port.local_addr(), port.counts());
    // With one, the NIC keeps the send counter itself.
    let record = if two_pairs { RecordMode::Written } else { RecordMode::NotWritten };
    let first = Qp::new(&ring, port, &options, record);
    let second = two_pairs.then(|| {
        let options = PortOptions { qp: 0x99, peer: Some(socket.local_addr()), ..options };
        let port = RocePort::bind(options, Delivery::Frames, 1).expect("a port").without_requests();
        Qp::new(&ring, port, &options, record)
    });
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
    let of_receiver = first.queues.clone();
    let of_sender = second.as_ref().unwrap_or(&first).queues.clone();
    let state = words(control::WORDS);
    let receiving = {
        let (pair, ring, state) = (of_receiver.clone(), ring.clone(), state.clone());
        thread::spawn(move || {
            lane_0(run_warp(lanes, |warp| {
                let mut receiver = pair.receiver(&ring, record).open(warp, &state);
                let ended = receiver.run(warp, thread::yield_now);
                receiver.close(warp, &state);
                (ended, receiver.counters().get(Event::RxUnanswered))
            }))
        })
    };
    let sending = {
        let pair = of_sender.clone();
        thread::spawn(move || {
            let staging = staging();
            lane_0(run_warp(lanes, |warp| {
                let mut sender = pair.sender(&ring, record);
                let ended = sender.run(warp, StagingBuffer::new(&staging), thread::yield_now);
                (ended, sender.counters().get(Event::TxPosted))
            }))
        })
    };
    let begin = Instant::now();
    while state.load(control::STATE, Acquire) != control::STATE_RUNNING {
        assert!(begin.elapsed() < Duration::from_secs(20), "the receiver does not begin");
        thread::yield_now();
    }
    let target = PlayerTarget {
        peer: address,
        qp: options.qp,
        key: options.key,
        base: options.base,
        page_bytes: STRIDE,
        pages: SLOTS,
    };
    let report = play(target, socket);
    for pair in [of_receiver, of_sender] {
        pair.windows.shutdown.store(0, control::STOP_DRAIN, Relaxed);
    }
    let ((filled, how), unanswered) = receiving.join().expect("receiver");
    assert_eq!((how, unanswered), (WaitEnd::Stopped, 0));
    assert_eq!(state.load(control::STATE, Acquire), control::STATE_ENDED);
    let ((sent, how), posted) = sending.join().expect("sender");
    assert_eq!((how, sent, filled), (WaitEnd::Stopped, posted, posted));
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
        // Lanes that are threads take turns, so of them a few requests are enough.
        for (lanes, payload_bytes, n) in [(1, 16, 1500), (1, 200, 1500), (LANES, 16, 24), (LANES, 200, 24)] {
            let report = serve(two_pairs, lanes, |target, socket| {
                let mut config = PlayerConfig::new(target);
                config.timeout = Duration::from_secs(20);
                let mut player = Player::new(socket, config).expect("a player");
                let mut windows = Increment::new(n, payload_bytes);
                player.run(&mut windows, &mut Increment::check, &|| false).expect("it runs")
            });
            assert!(report.clean() && report.correct == n, "{two_pairs} {lanes} {payload_bytes}: {report:?}");
        }
    }
}

#[test]
fn faults_hurt_no_other() {
    for two_pairs in [false, true] {
        let report = serve(two_pairs, 1, |target, socket| {
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

/// A turn that took one request, or one completion that brought none.
const FILLED: Step = Step::Took { filled: 1, dropped: 0 };
const DROPPED: Step = Step::Took { filled: 0, dropped: 1 };

/// Everything on one thread, message by message: what a receiver makes of requests that are not whole, and of a peer that
/// writes into a slot that is being served.
#[test]
fn what_is_not_whole_is_told_and_a_taken_slot_is_left_alone() {
    let ring = ring();
    let (windows, uar) = (windows(&ring, SLOTS), words(8));
    let key = PortOptions::new(SLOTS, STRIDE).key;
    let memory =
        Memory::new(vec![Registered { key, base: 0, window: windows.rx_data.clone(), remote_write: true }]);
    let (port, mut peer) = Wire::pair(16);
    let config = Config { qpn: 1, record: RecordMode::Written, burst: 16 };
    let mut nic = Nic::new(config, &windows, uar.clone(), memory, port).expect("a NIC");
    let warp = Warp::single();
    let config = endpoint_config(1, SLOTS, RecordMode::Written);
    let mut receiver = Receiver::new(config, &windows, ring.clone(), Extent::Received).expect("a receiver");
    receiver.begin(warp);
    let mut send = |receiver: &mut Receiver, slot: u32, bytes: &[u8]| {
        let message =
            Message::WriteImm { address: u64::from(slot * STRIDE), rkey: key, immediate: slot | 7 << 12 };
        assert!(peer.send(message, bytes));
        while nic.step() {}
        receiver.step(warp)
    };
    let header =
        |arg_len, id| RequestHeader::new(FunctionId::of(names::RPC_INCREMENT).0, arg_len, id, 9).to_bytes();
    let whole = [&header(8, 1)[..], &[1; 8]].concat();
    assert_eq!(receiver.step(warp), Step::Idle);
    for slot in 0..4 {
        // Bytes of earlier requests, which must not become part of what follows.
        ring.windows().rx_data.write((slot * STRIDE) as usize, &[&header(64, 99)[..], &[0xAA; 64]].concat());
    }
    assert_eq!(send(&mut receiver, 0, &whole), FILLED);
    assert_eq!(send(&mut receiver, 1, &whole[..31]), FILLED);
    assert_eq!(send(&mut receiver, 2, &whole[..23]), FILLED);
    assert_eq!(send(&mut receiver, 3, &[]), FILLED);
    // Not served yet: the second one is not put on top.
    assert_eq!(send(&mut receiver, 0, &whole), DROPPED);
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

/// A ring, queues for its answers with their NIC, and the peer's end of the wire.
struct SendRig {
    ring: SharedRing,
    queues: Queues,
    nic: Nic<Wire>,
    peer: Wire,
}

impl SendRig {
    fn new() -> Self {
        let ring = ring();
        let queues = Queues { qpn: 1, windows: windows(&ring, SLOTS), uar: words(8) };
        let window = queues.windows.tx_data.clone();
        let memory = Memory::new(vec![Registered { key: TX_KEY, base: 0, window, remote_write: false }]);
        let (port, peer) = Wire::pair(4 * SLOTS as usize);
        let config = Config { qpn: 1, record: RecordMode::Written, burst: 16 };
        let nic = Nic::new(config, &queues.windows, queues.uar.clone(), memory, port).expect("a NIC");
        Self { ring, queues, nic, peer }
    }

    /// Puts a request into a slot, as a peer does, and what a dispatcher leaves there.
    fn leave(&self, slot: u32, request: RequestHeader, response: [u64; 3], flag: u64) {
        leave(&self.ring, slot, request, response, flag);
    }

    /// What the NIC has sent.
    fn sent(&mut self) -> Vec<ResponseHeader> {
        while self.nic.step() {}
        let mut frame = Vec::new();
        let mut sent = Vec::new();
        while self.peer.receive(&mut frame).is_some() {
            sent.push(ResponseHeader::from_bytes(&frame).expect("a header"));
        }
        sent
    }
}

fn leave(ring: &SharedRing, slot: u32, request: RequestHeader, response: [u64; 3], flag: u64) {
    let slot = ring.geometry().slot(slot).expect("a slot");
    let at = slot.as_usize() * STRIDE as usize;
    assert!(ring.windows().rx_data.write_words(at, request.to_words()));
    assert!(ring.windows().tx_data.write_words(at, response));
    ring.windows().tx_flags.store(slot.as_usize(), flag, Release);
}

/// The answer of a dispatcher, or of what was in the slot before.
fn answered(id: u32, status: Status) -> [u64; 3] {
    ResponseHeader::reply(&RequestHeader::new(7, 0, id, 1), status.0, 0).to_words()
}

#[test]
fn a_failed_request_is_answered_with_what_is_known_of_it() {
    const MARK: u64 = flag::error(700);
    for lanes in [1, LANES] {
        let mut rig = SendRig::new();
        let request = |id| RequestHeader::new(7, 0, id, 1);
        let mut expected = Vec::new();
        for (slot, (response, flag, status)) in [
            (answered(0, Status::ENGINE_FAILED), MARK, Status::ENGINE_FAILED),
            // Of a request before.
            (answered(99, Status::TIMED_OUT), MARK, Status::LAUNCH_FAILED),
            ([0; 3], MARK, Status::LAUNCH_FAILED),
            (answered(3, Status::OK), MARK, Status::LAUNCH_FAILED),
            (answered(4, Status::OK), 64, Status::OK),
        ]
        .into_iter()
        .enumerate()
        {
            rig.leave(slot as u32, request(slot as u32), response, flag);
            expected.push(ResponseHeader::reply(&request(slot as u32), status.0, 0));
        }
        // Nothing to echo, and no response.
        let none = RequestHeader { magic: 1, ..request(5) };
        rig.leave(5, none, answered(5, Status::ENGINE_FAILED), MARK);
        rig.leave(6, request(6), [0; 3], 64);
        let staging = staging();
        let unanswered = lane_0(run_warp(lanes, |warp| {
            let mut sender = rig.queues.sender(&rig.ring, RecordMode::Written);
            for _ in 0..2 * SLOTS {
                sender.step(warp, StagingBuffer::new(&staging));
            }
            sender.counters().get(Event::RxUnanswered)
        }));
        assert_eq!(rig.sent(), expected, "{lanes}");
        assert_eq!(unanswered, 2);
        let flags = (0..SLOTS as usize).map(|slot| rig.ring.windows().tx_flags.load(slot, Acquire));
        assert_eq!(flags.collect::<Vec<_>>(), [flag::FREE; SLOTS as usize], "every slot is free again");
    }
}

/// Lanes that read a failed request's header themselves part ways where a peer writes it over meanwhile.
#[test]
fn lanes_agree_on_a_request_that_is_written_over() {
    // As many requests as the send queue has entries: none waits.
    const ROUNDS: u32 = SLOTS / 2;
    let mut rig = SendRig::new();
    let whole = RequestHeader::new(7, 0, 5, 1);
    let ended = AtomicBool::new(false);
    let staging = staging();
    let (posted, unanswered) = thread::scope(|scope| {
        scope.spawn(|| {
            let data = &rig.ring.windows().rx_data;
            let mut magic = 0;
            while !ended.load(Relaxed) {
                magic ^= whole.to_words()[0];
                for slot in 0..SLOTS {
                    assert!(data.write_words((slot * STRIDE) as usize, [magic]));
                }
                thread::yield_now();
            }
        });
        let counts = lane_0(run_warp(LANES, |warp| {
            let mut sender = rig.queues.sender(&rig.ring, RecordMode::Written);
            for _ in 0..ROUNDS {
                if warp.lane() == 0 {
                    leave(&rig.ring, 0, whole, [0; 3], flag::error(700));
                    leave(&rig.ring, 9, whole, [0; 3], flag::error(700));
                }
                warp.sync();
                for _ in 0..SLOTS {
                    sender.step(warp, StagingBuffer::new(&staging));
                }
            }
            [Event::TxPosted, Event::RxUnanswered].map(|event| sender.counters().get(event))
        }));
        ended.store(true, Relaxed);
        (counts[0], counts[1])
    });
    assert_eq!(posted + unanswered, 2 * u64::from(ROUNDS));
    let sent = rig.sent();
    assert_eq!(sent.len() as u64, posted);
    assert!(sent.iter().all(|header| header.request_id == 5 && header.status() == Status::LAUNCH_FAILED));
}

#[test]
fn each_wait_for_room_is_counted_once() {
    let mut rig = SendRig::new();
    let (warp, staging) = (Warp::single(), staging());
    let mut sender = rig.queues.sender(&rig.ring, RecordMode::Written);
    let mut fill = |rig: &SendRig, slots: u32| {
        for slot in 0..slots {
            rig.leave(slot, RequestHeader::new(7, 0, slot, 1), answered(slot, Status::OK), 64);
        }
        for _ in 0..4 * SLOTS {
            sender.step(warp, StagingBuffer::new(&staging));
        }
        [Event::TxPosted, Event::TxFull].map(|event| sender.counters().get(event))
    };
    let slots = u64::from(SLOTS);
    assert_eq!(fill(&rig, SLOTS), [slots, 0]);
    for turn in 1..4 {
        // The NIC has not moved yet: all of the queue is under way.
        assert_eq!(fill(&rig, SLOTS), [turn * slots, turn], "one wait, however long");
        assert_eq!(rig.sent().len() as u64, slots);
        assert_eq!(fill(&rig, 0), [(turn + 1) * slots, turn]);
    }
}

#[test]
fn depths_are_tied_to_the_ring_s() {
    let ring = ring();
    let half = windows(&ring, SLOTS / 2);
    let whole = windows(&ring, SLOTS);
    let receiver = |config: endpoint::Config, windows: &Windows| {
        Receiver::new(config, windows, ring.clone(), Extent::Received).map(|_| ())
    };
    let config = endpoint_config(1, SLOTS, RecordMode::Written);
    assert_eq!(receiver(config, &whole), Ok(()));
    let buffers = Buffers::Slots { lkey: 1, base: 0, stride: STRIDE };
    let sends = endpoint::Config { buffers, ..config };
    assert_eq!(receiver(sends, &whole), Err(QueueError::Buffers), "sends choose no slot");
    let few = endpoint::Config { depth: SLOTS, ..config };
    assert_eq!(receiver(few, &half), Err(QueueError::Depth { depth: SLOTS, entries: 2 * SLOTS }));
    let sender = |config: endpoint::Config, windows: &Windows| {
        let bell = Bell::new(words(8), Copying::Not).expect("8 words");
        Sender::new(config, windows, ring.clone(), bell).map(|_| ())
    };
    assert_eq!(sender(config, &whole), Ok(()));
    assert_eq!(sender(config, &half), Err(QueueError::Slots(SLOTS)));
    let short = endpoint::Config { tx_stride: STRIDE / 2, ..config };
    assert_eq!(sender(short, &whole), Err(QueueError::Stride(STRIDE / 2)));
}

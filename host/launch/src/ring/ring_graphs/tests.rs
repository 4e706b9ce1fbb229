//! Workers whose graphs the test simulates: the dispatcher, the ring and the mailboxes are the real ones.

mod shared;

use super::super::mailbox_graph::Mailbox;
use super::super::worker_pool::{SWEEPS_PER_QUERY, UNKNOWN, WorkerStream};
use super::super::{DeviceError, GraphNodes};
use super::check_nodes;
use super::graph_workers::{GraphStream, GraphWorkers, INVALID};
use core::sync::atomic::Ordering;
use ringcall::dispatcher::{DispatchStep, DispatcherError, Stepped, Stopped};
use ringcall::external::{ExecutorClaim, ExternalExecutor, LaunchError, Marks};
use ringcall::worker::{WorkerPort, WorkerSpec};
use ringcall::{Client, FunctionId, FunctionTable, HostDispatcher, Ring, RingConfig, Status};
use ringcall_cuda::driver::{DeviceAddress, Graph};
use ringcall_dispatcher::ring::graph_end::{Child, ResponseWindows, mailbox_bytes};
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::shared::{Region, Words};
use ringcall_protocol::slot::Response;
use ringcall_protocol::{Geometry, RingMemory, SlotIndex};
use ringcall_wire::Counter;
use ringcall_wire::flag;
use ringcall_wire::header::RequestHeader;
use ringcall_wire::launch::io;
use ringcall_wire::schema::HandlerSchema;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const NAME: &str = "graph";
/// For a worker of the dispatcher's own pool.
const POOLED: &str = "pooled";
const SLOTS: u32 = 16;
const SLOT: u32 = 64;
const PAYLOAD: u32 = SLOT - 24;
/// Where the device is told that the responses and their flags are: nowhere that the host sees.
const TX_DATA: u64 = 0x7000_0000;
const TX_FLAGS: u64 = 0x6000_0000;

#[derive(Debug, Default)]
struct Play {
    launches: u32,
    refuses: Option<u16>,
    state: WorkerStream,
    abandoned: u32,
}

#[derive(Debug, Default)]
struct FakeStream(Mutex<Play>);

impl GraphStream for Arc<FakeStream> {
    fn launch(&self) -> Result<(), u16> {
        let mut play = self.0.lock().expect("a play");
        if let Some(code) = play.refuses {
            return Err(code);
        }
        play.launches += 1;
        Ok(())
    }

    fn state(&self) -> WorkerStream {
        self.0.lock().expect("a play").state
    }

    fn abandon(&self) {
        self.0.lock().expect("a play").abandoned += 1;
    }
}

/// Graph workers, and whether their polls are over for this turn: what happens then happens between a look and the scan.
struct Observed {
    workers: GraphWorkers,
    over: Arc<AtomicBool>,
    shared: Arc<AtomicBool>,
}

impl ExternalExecutor for Observed {
    fn is_for(&self, ring: &Geometry) -> bool {
        self.workers.is_for(ring)
    }

    fn share(&mut self) {
        self.shared.store(true, Ordering::Relaxed);
        self.workers.share();
    }

    fn service(&mut self, ended: &mut dyn FnMut(Status)) {
        if !self.over.load(Ordering::Relaxed) {
            self.workers.service(ended);
        }
    }

    fn claim(&mut self, slot: SlotIndex, header: &RequestHeader, key: u64) -> ExecutorClaim {
        self.workers.claim(slot, header, key)
    }

    fn start(&mut self, worker: u32, slot: SlotIndex) -> Result<(), LaunchError> {
        self.workers.start(worker, slot)
    }

    fn marks(&self) -> Marks {
        self.workers.marks()
    }

    fn serves(&self, slot: SlotIndex) -> bool {
        self.workers.serves(slot)
    }

    fn is_idle(&self) -> bool {
        self.workers.is_idle()
    }
}

struct Bench {
    ring: Ring,
    mailboxes: Vec<Words>,
    streams: Vec<Arc<FakeStream>>,
    idle: Arc<AtomicBool>,
    port: WorkerPort,
    dispatcher: HostDispatcher<Stepped>,
}

/// A worker for each key, over mailboxes and streams of the test's.
fn workers(ring: &Ring, keys: &[u64]) -> (GraphWorkers, Vec<Words>, Vec<Arc<FakeStream>>) {
    let mut workers = GraphWorkers::new(ring.shared().clone(), TX_DATA, TX_FLAGS);
    let (mut mailboxes, mut streams) = (Vec::new(), Vec::new());
    for &key in keys {
        let bytes = mailbox_bytes(workers.capacity()) as usize;
        let region = Region::zeroed(bytes).expect("memory");
        let payload = region.bytes(io::PAYLOAD, PAYLOAD as usize).expect("inside");
        let head = region.words(0, io::PAYLOAD / 8).expect("inside");
        let stream: Arc<FakeStream> = Arc::default();
        let mailbox = Mailbox::over(head, payload);
        workers.add(FunctionId::of(NAME).0, key, Box::new(Arc::clone(&stream)), mailbox);
        mailboxes.push(region.words(0, bytes / 8).expect("all of it"));
        streams.push(stream);
    }
    (workers, mailboxes, streams)
}

fn ring() -> Ring {
    Ring::allocate(RingConfig { slots: SLOTS, slot_bytes: SLOT }).expect("a ring")
}

impl Bench {
    fn new(keys: &[u64]) -> Self {
        let ring = ring();
        let (workers, mailboxes, streams) = workers(&ring, keys);
        let table = FunctionTable::builder()
            .external_call(NAME, HandlerSchema::new())
            .external_call("other", HandlerSchema::new())
            .worker_call(POOLED, HandlerSchema::new())
            .build(&ring)
            .expect("a table");
        let idle: Arc<AtomicBool> = Arc::default();
        let dispatcher = HostDispatcher::builder(&ring, table)
            .worker(WorkerSpec::mailbox(FunctionId::of(POOLED)))
            .executor(Box::new(Observed { workers, over: Arc::clone(&idle), shared: Arc::default() }))
            .build()
            .expect("a dispatcher");
        let port = dispatcher.ports().pop().expect("a worker");
        Self { ring, mailboxes, streams, idle, port, dispatcher: dispatcher.into_stepper() }
    }

    /// Long enough for a query of the streams.
    fn step_past_a_query(&mut self) {
        for _ in 0..=SWEEPS_PER_QUERY {
            let _ = self.dispatcher.step();
        }
    }

    fn set_state(&self, worker: usize, state: WorkerStream) {
        self.streams[worker].0.lock().expect("a play").state = state;
    }

    fn turn(&mut self) {
        for _ in 0..2 * SLOTS {
            let _ = self.dispatcher.step();
        }
    }

    fn launches(&self) -> Vec<u32> {
        self.streams.iter().map(|stream| stream.0.lock().expect("a play").launches).collect()
    }

    /// The slot that a worker was launched for, as its mailbox says, which must agree with the addresses there.
    fn slot(&self, worker: usize) -> u32 {
        let word = |index| self.mailboxes[worker].load(index, Ordering::Acquire);
        let slot = word(io::SLOT) as u32;
        assert_eq!(word(io::TX_SLOT), TX_DATA + u64::from(slot * SLOT));
        assert_eq!(word(io::TX_FLAG), TX_FLAGS + u64::from(slot) * 8);
        assert_eq!((word(io::TX_CAPACITY), word(io::STATE)), (PAYLOAD.into(), io::LAUNCHED));
        slot
    }

    /// What a graph's last kernel does: adds 1 to every byte and answers.
    fn answer(&self, worker: usize, status: Status) {
        let mailbox = &self.mailboxes[worker];
        let child = Child::new(mailbox);
        let windows = self.ring.shared().windows();
        let at = self.slot(worker) as usize;
        let slot = windows.tx_data.slice(at * SLOT as usize, SLOT as usize).expect("inside");
        // The flag alone, where the window's first word is.
        let flag = Region::zeroed(8).expect("memory").words(0, 1).expect("inside");
        let response = ResponseWindows { slot: slot.words(), flag: &flag };
        for word in 0..(child.arg_len() as usize).div_ceil(8) {
            let value = child.payload_word(word);
            child.set_result_word(
                &response,
                word,
                ringcall_kernels::samples::handlers::increment_word(value),
            );
        }
        child.answer(&response, None, status, child.arg_len());
        windows.tx_flags.store(at, flag.load(0, Ordering::Acquire), Ordering::Release);
    }

    /// And the very last thing.
    fn end(&self, worker: usize) {
        Child::new(&self.mailboxes[worker]).finish(&DeviceU64::new(0));
    }

    fn count(&self, counter: Counter) -> u64 {
        self.dispatcher.counters().get(counter)
    }

    fn tx(&self, slot: u32) -> u64 {
        self.ring.shared().tx(self.ring.geometry().slot(slot).expect("a slot"))
    }
}

/// Takes the answer of a slot that must have one: status, error mark, result.
fn taken(bench: &Bench, slot: u32) -> (Status, Option<u16>, Vec<u8>) {
    let ring = bench.ring.shared();
    let response = Response::probe(ring, ring.geometry().slot(slot).expect("a slot")).expect("an answer");
    let mut out = vec![0; PAYLOAD as usize];
    let len = response.read(ring, &mut out);
    out.truncate(len);
    let taken = (Status(response.header().status), response.error(), out);
    response.release(ring);
    taken
}

fn send(bench: &Bench, slot: u32, function: &str, id: u32, payload: &[u8]) {
    let ring = bench.ring.shared();
    let vacant = ringcall_protocol::slot::Vacant::probe(ring, ring.geometry().slot(slot).expect("a slot"));
    let id_of = FunctionId::of(function).0;
    vacant.expect("vacant").submit(ring, id_of, id, 3, payload).expect("it fits");
}

#[test]
fn requests_go_to_idle_workers_and_wait_for_busy_ones() {
    let mut bench = Bench::new(&[0, 0]);
    for slot in 0..4 {
        send(&bench, slot, NAME, slot, &[slot as u8; 9]);
    }
    bench.turn();
    assert_eq!((bench.launches(), bench.slot(0), bench.slot(1)), (vec![1, 1], 0, 1));
    assert_eq!(bench.tx(0), flag::IN_FLIGHT);
    // The second answers first; its mailbox is not free yet, so no request gets it.
    bench.answer(1, Status::OK);
    bench.turn();
    assert_eq!((bench.launches(), bench.count(Counter::Completed)), (vec![1, 1], 1));
    assert_eq!(taken(&bench, 1), (Status::OK, None, vec![2; 9]));
    bench.end(1);
    bench.turn();
    assert_eq!((bench.launches(), bench.slot(1)), (vec![1, 2], 2));
    bench.answer(0, Status(5));
    bench.end(0);
    bench.turn();
    assert_eq!((bench.launches(), bench.slot(0)), (vec![2, 2], 3));
    assert_eq!(taken(&bench, 0), (Status(5), None, vec![1; 9]));
    for worker in 0..2 {
        bench.answer(worker, Status::OK);
        bench.end(worker);
    }
    bench.turn();
    assert_eq!((taken(&bench, 2).2, taken(&bench, 3).2), (vec![3; 9], vec![4; 9]));
    let counts =
        [Counter::Received, Counter::Dispatched, Counter::Completed].map(|counter| bench.count(counter));
    assert_eq!(counts, [4, 4, 3]);
    assert_eq!(bench.dispatcher.counters().answered(), 4, "the status of its own among them");
}

#[test]
fn a_slot_filled_again_is_not_taken_for_answered() {
    let mut bench = Bench::new(&[0, 0]);
    send(&bench, 7, NAME, 1, &[1]);
    bench.turn();
    // Answered, taken and filled again, all before the dispatcher looks; the graph has not freed its mailbox.
    bench.answer(0, Status::OK);
    assert_eq!(taken(&bench, 7).2, [2]);
    send(&bench, 7, NAME, 2, &[8]);
    bench.turn();
    assert_eq!((bench.launches(), bench.slot(1)), (vec![1, 1], 7));
    bench.end(0);
    bench.turn();
    assert_eq!(bench.tx(7), flag::IN_FLIGHT, "the end was the first one's");
    bench.answer(1, Status::OK);
    bench.end(1);
    bench.turn();
    assert_eq!((taken(&bench, 7).2, bench.count(Counter::Completed)), (vec![9], 2));
}

#[test]
fn a_slot_is_not_claimed_before_its_last_answer_was_noticed() {
    let ring = ring();
    let (mut workers, mailboxes, _lanes) = workers(&ring, &[0, 0]);
    let slot = ring.geometry().slot(4).expect("a slot");
    let header = RequestHeader::new(FunctionId::of(NAME).0, 0, 1, 0);
    assert_eq!(workers.claim(slot, &header, 0), ExecutorClaim::Worker(0));
    // As the dispatcher does.
    ring.shared().publish_tx(slot, flag::IN_FLIGHT);
    workers.start(0, slot).expect("launched");
    assert!(workers.serves(slot) && !workers.is_idle());
    // Answered, and filled again, since the last look.
    ring.shared().publish_tx(slot, flag::FREE);
    assert_eq!(workers.claim(slot, &header, 0), ExecutorClaim::Later);
    let mut ended = 0;
    workers.service(&mut |_| ended += 1);
    assert_eq!((ended, workers.serves(slot), workers.is_idle()), (1, false, false));
    assert_eq!(
        workers.claim(slot, &header, 0),
        ExecutorClaim::Worker(1),
        "the first has not freed its mailbox"
    );
    Child::new(&mailboxes[0]).finish(&DeviceU64::new(0));
    workers.service(&mut |_| ended += 1);
    assert_eq!((ended, workers.is_idle()), (1, true));
}

#[test]
fn what_goes_wrong_is_answered() {
    let mut bench = Bench::new(&[0]);
    // A graph that ends without an answer.
    send(&bench, 0, NAME, 1, &[1]);
    bench.turn();
    bench.end(0);
    bench.turn();
    assert_eq!(taken(&bench, 0), (Status::LAUNCH_FAILED, Some(UNKNOWN), vec![]));
    // A launch that is refused leaves the worker idle.
    bench.streams[0].0.lock().expect("a play").refuses = Some(701);
    send(&bench, 1, NAME, 2, &[1]);
    bench.turn();
    assert_eq!(taken(&bench, 1), (Status::LAUNCH_FAILED, Some(701), vec![]));
    bench.streams[0].0.lock().expect("a play").refuses = None;
    // A function that no graph is of.
    send(&bench, 2, "other", 3, &[1]);
    bench.turn();
    assert_eq!(taken(&bench, 2), (Status::NO_WORKER, None, vec![]));
    // A stream that fails takes its worker along; requests that come later are told.
    send(&bench, 3, NAME, 4, &[1]);
    bench.turn();
    assert_eq!(bench.launches(), [2]);
    bench.set_state(0, WorkerStream::Failed(700));
    bench.step_past_a_query();
    assert_eq!(taken(&bench, 3), (Status::LAUNCH_FAILED, Some(700), vec![]));
    send(&bench, 4, NAME, 5, &[1]);
    bench.turn();
    assert_eq!(taken(&bench, 4), (Status::NO_WORKER, None, vec![]));
    assert_eq!((bench.launches(), bench.count(Counter::LaunchFailed)), (vec![2], 3));
    assert_eq!(bench.count(Counter::NoWorker), 2);
    let report = bench.dispatcher.finish(Duration::from_secs(1)).report;
    assert!(report.unfinished.is_none() && report.dropped == 0, "{report:?}");
}

#[test]
fn routing_keys_choose_the_worker() {
    let mut bench = Bench::new(&[5, 6, 0]);
    let keyed = |key: u64| key.to_le_bytes();
    send(&bench, 0, NAME, 1, &keyed(6));
    send(&bench, 1, NAME, 2, &keyed(5));
    send(&bench, 2, NAME, 3, &keyed(9));
    bench.turn();
    assert_eq!([0, 1, 2].map(|worker| bench.slot(worker)), [1, 0, 2]);
    // Without a key, or one that is served by busy workers alone, a request waits.
    send(&bench, 3, NAME, 4, &[5; 7]);
    bench.turn();
    assert_eq!(bench.launches(), [1, 1, 1]);
    bench.answer(2, Status::OK);
    bench.end(2);
    bench.turn();
    assert_eq!(bench.slot(2), 3);

    let mut bench = Bench::new(&[5]);
    send(&bench, 0, NAME, 1, &keyed(6));
    bench.turn();
    assert_eq!(taken(&bench, 0), (Status::NO_WORKER, None, vec![]), "it would wait for ever");
}

#[test]
fn a_stop_leaves_a_graph_that_runs_its_slot() {
    let mut bench = Bench::new(&[0]);
    send(&bench, 0, NAME, 1, &[1]);
    send(&bench, 1, NAME, 2, &[1]);
    bench.turn();
    let (ring, stream) = (bench.ring.clone(), Arc::clone(&bench.streams[0]));
    let Bench { dispatcher, streams, .. } = bench;
    let Stopped { report, dispatcher } = dispatcher.finish(Duration::from_millis(50));
    assert_eq!(report.dropped, 1, "who waited is told: {report:?}");
    let tx = |slot| ring.shared().tx(ring.geometry().slot(slot).expect("a slot"));
    assert_eq!(tx(0), flag::IN_FLIGHT);
    assert_ne!(tx(1), flag::IN_FLIGHT);
    drop((dispatcher, streams));
    assert_eq!(Arc::strong_count(&stream), 2, "the graph's stays for ever");
    assert_eq!(stream.0.lock().expect("a play").abandoned, 1);
}

#[test]
fn a_slot_that_changes_hands_after_the_poll_is_answered_once() {
    let mut bench = Bench::new(&[0]);
    send(&bench, 5, NAME, 1, &[1]);
    bench.turn();
    assert_eq!(bench.slot(0), 5);
    // Answered, taken and filled for a worker of the pool, between a turn's look at the graphs and its scan.
    bench.idle.store(true, Ordering::Relaxed);
    bench.answer(0, Status::OK);
    bench.end(0);
    assert_eq!(taken(&bench, 5).2, [2]);
    send(&bench, 5, POOLED, 2, &[7]);
    bench.turn();
    bench.idle.store(false, Ordering::Relaxed);
    bench.turn();
    assert_eq!(bench.tx(5), flag::IN_FLIGHT, "the end was the first one's");
    let job = bench.port.take_job().expect("a job");
    bench.port.answer(&job, Status::OK, &[9]).expect("in time");
    bench.port.release();
    assert_eq!(taken(&bench, 5), (Status::OK, None, vec![9]));
    bench.turn();
    assert_eq!([Counter::Completed, Counter::LaunchFailed].map(|counter| bench.count(counter)), [2, 0]);
    let report = bench.dispatcher.finish(Duration::from_secs(1)).report;
    assert!(report.unfinished.is_none(), "{report:?}");
}

#[test]
fn a_graph_that_never_frees_its_mailbox_is_noticed() {
    // With an answer, and without.
    for answers in [true, false] {
        let mut bench = Bench::new(&[0]);
        send(&bench, 0, NAME, 1, &[1]);
        bench.turn();
        if answers {
            bench.answer(0, Status::OK);
            bench.turn();
            assert_eq!(taken(&bench, 0).2, [2]);
        }
        send(&bench, 1, NAME, 2, &[3]);
        bench.step_past_a_query();
        assert_eq!(bench.launches(), [1], "it may still run");
        bench.set_state(0, WorkerStream::Done);
        bench.step_past_a_query();
        // Its worker takes the next one.
        assert_eq!((bench.launches(), bench.slot(0)), (vec![2], 1));
        if !answers {
            assert_eq!(taken(&bench, 0), (Status::LAUNCH_FAILED, Some(UNKNOWN), vec![]));
        }
        bench.set_state(0, WorkerStream::Busy);
        bench.answer(0, Status::OK);
        bench.end(0);
        bench.turn();
        assert_eq!(taken(&bench, 1).2, [4]);
        assert_eq!(bench.count(Counter::LaunchFailed), u64::from(!answers));
        let report = bench.dispatcher.finish(Duration::from_secs(1)).report;
        assert!(report.unfinished.is_none() && report.dropped == 0, "{report:?}");
    }
}

#[test]
fn a_stream_that_fails_after_the_answer_is_noticed() {
    let mut bench = Bench::new(&[0]);
    send(&bench, 0, NAME, 1, &[1]);
    bench.turn();
    bench.answer(0, Status::OK);
    bench.turn();
    assert_eq!(taken(&bench, 0), (Status::OK, None, vec![2]));
    send(&bench, 1, NAME, 2, &[1]);
    bench.turn();
    assert_eq!(bench.launches(), [1]);
    bench.set_state(0, WorkerStream::Failed(700));
    bench.step_past_a_query();
    bench.turn();
    assert_eq!(taken(&bench, 1), (Status::NO_WORKER, None, vec![]), "it would wait for ever");
    assert_eq!((bench.launches(), bench.count(Counter::Completed)), (vec![1], 1));
    let stream = Arc::clone(&bench.streams[0]);
    let Bench { dispatcher, streams, .. } = bench;
    let Stopped { report, dispatcher } = dispatcher.finish(Duration::from_secs(1));
    assert!(report.unfinished.is_none() && report.dropped == 0, "{report:?}");
    drop((dispatcher, streams));
    assert_eq!((Arc::strong_count(&stream), stream.0.lock().expect("a play").abandoned), (1, 0));
}

#[test]
fn slots_of_another_ring_are_refused() {
    let (small, large) =
        (ring(), Ring::allocate(RingConfig { slots: 2 * SLOTS, slot_bytes: 2 * SLOT }).expect("a ring"));
    let other = ring();
    for ring in [&large, &other] {
        let table = FunctionTable::builder().external_call(NAME, HandlerSchema::new()).build(ring);
        let (workers, ..) = workers(&small, &[0]);
        let built =
            HostDispatcher::builder(ring, table.expect("a table")).executor(Box::new(workers)).build();
        assert_eq!(built.err(), Some(DispatcherError::OtherRing));
    }
    // Asked directly, it starts nothing for a slot that its ring does not have.
    let (mut workers, _mailboxes, streams) = workers(&small, &[0]);
    let header = RequestHeader::new(FunctionId::of(NAME).0, 0, 1, 0);
    let beyond = large.geometry().slot(SLOTS).expect("a slot");
    assert_eq!(workers.claim(beyond, &header, 0), ExecutorClaim::Worker(0));
    assert_eq!(workers.start(0, beyond).err().map(|error| error.code), Some(INVALID));
    assert!(workers.is_idle());
    assert_eq!(streams[0].0.lock().expect("a play").launches, 0);
}

/// Nodes of which only this much matters.
#[derive(Debug)]
struct Known {
    answers: bool,
    gate: u64,
}

impl GraphNodes for Known {
    fn add(&self, _: &mut Graph, _: u32, _: DeviceAddress, _: u32) -> Result<(), DeviceError> {
        Ok(())
    }

    fn gate(&self, _: u32) -> Result<u64, DeviceError> {
        Ok(self.gate)
    }

    fn answers(&self) -> bool {
        self.answers
    }
}

#[test]
fn nodes_that_may_hand_their_answer_on_are_refused() {
    let why = |answers, gate| {
        check_nodes(NAME, &Known { answers, gate }, 0).map_err(|error| error.to_string()).err()
    };
    assert_eq!(why(true, 0), None);
    assert!(why(true, 8).is_some_and(|why| why.contains("has a gate")));
    assert!(why(false, 0).is_some_and(|why| why.contains("hand its answer on")));
}

#[test]
fn clients_are_served_by_threads() {
    const ROUNDS: u32 = 300;
    let Bench { ring, mailboxes, streams, dispatcher, .. } = Bench::new(&[0, 0, 0]);
    let over = DeviceU64::new(0);
    std::thread::scope(|scope| {
        let (over, ring) = (&over, &ring);
        let (mailboxes, streams) = (&mailboxes, &streams);
        scope.spawn(move || {
            // The graphs: whichever mailbox was launched is answered and freed.
            while over.load(Ordering::Acquire) == 0 {
                for mailbox in mailboxes {
                    if mailbox.load(io::STATE, Ordering::Acquire) == io::LAUNCHED {
                        let windows = ring.shared().windows();
                        let child = Child::new(mailbox);
                        let slot = mailbox.load(io::SLOT, Ordering::Relaxed) as usize;
                        let response =
                            windows.tx_data.slice(slot * SLOT as usize, SLOT as usize).expect("inside");
                        let flag = Region::zeroed(8).expect("memory").words(0, 1).expect("inside");
                        let response = ResponseWindows { slot: response.words(), flag: &flag };
                        child.set_result_word(&response, 0, child.payload_word(0) + 1);
                        child.answer(&response, None, Status::OK, 8);
                        windows.tx_flags.store(
                            slot,
                            mailbox.load(io::TX_VALUE, Ordering::Relaxed),
                            Ordering::Release,
                        );
                        child.finish(&DeviceU64::new(0));
                    }
                }
                std::thread::yield_now();
            }
        });
        scope.spawn(move || {
            let mut dispatcher = dispatcher;
            while over.load(Ordering::Acquire) == 0 {
                if dispatcher.step() == DispatchStep::Idle {
                    std::thread::yield_now();
                }
            }
            let launches: u32 = streams.iter().map(|stream| stream.0.lock().expect("a play").launches).sum();
            assert_eq!(launches, ROUNDS);
        });
        let mut client = Client::new(ring);
        for round in 0..u64::from(ROUNDS) {
            let reply = client.call(NAME, &round.to_le_bytes(), Duration::from_secs(20)).expect("an answer");
            assert_eq!(reply.result, (round + 1).to_le_bytes());
        }
        over.store(1, Ordering::Release);
    });
}

//! Workers on queues whose device is a thread: every request is answered once, whatever stages and queues do.

use ringcall::{Client, FunctionId, Ring, RingConfig, Wait};
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::shared::Region;
use ringcall_inference_service::{Job, Queue, Stage, WorkerOptions, Workers};
use ringcall_protocol::handoff::{Shape, Whose};
use ringcall_protocol::scan::Scan;
use ringcall_protocol::{RingMemory, Seen, SharedRing};
use ringcall_wire::handoff::record;
use ringcall_wire::header::RequestHeader;
use ringcall_wire::status::Status;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(20);
const OUTPUT: usize = 24;
const WAIT: Wait = Wait::Yield { spins: 4 };

fn ring(slots: u32) -> Ring {
    Ring::allocate(RingConfig { slots, slot_bytes: 64 }).expect("a ring")
}

fn queues(count: usize, depth: u32) -> Vec<Arc<Queue>> {
    let shape = Shape::new(depth, OUTPUT as u32).expect("a shape");
    (0..count).map(|_| Arc::new(Queue::allocate(shape).expect("memory"))).collect()
}

fn options() -> WorkerOptions {
    WorkerOptions { wait: WAIT, ..WorkerOptions::default() }
}

/// The answer is the first byte of the output, plus 1.
fn plus_one(job: &Job<'_>, result: &mut [u8]) -> Result<usize, Status> {
    assert_eq!(job.output.len(), OUTPUT);
    result[0] = job.output[0].wrapping_add(1);
    Ok(1)
}

fn stages(count: usize) -> Vec<Box<dyn Stage>> {
    (0..count).map(|_| Box::new(plus_one) as Box<dyn Stage>).collect()
}

/// One instance as its graph's kernels play it, and the dispatcher before it: requests wait in the ring while the queue is
/// full, or are refused if `waits` is false.
struct Device<'a> {
    ring: &'a SharedRing,
    queues: &'a [Arc<Queue>],
    scan: Scan,
    tails: Vec<u64>,
    refused: u64,
}

impl<'a> Device<'a> {
    fn new(ring: &'a SharedRing, queues: &'a [Arc<Queue>]) -> Self {
        let scan = Scan::new(ring.geometry().slots());
        Self { ring, queues, scan, tails: vec![0; queues.len()], refused: 0 }
    }

    /// One look at the ring.
    fn turn(&mut self, waits: bool) {
        // Each is claimed where it is seen: its flag may be another request's by the end of the turn.
        let mut scan = self.scan;
        scan.turn(self.ring, |one| self.serve(one, waits));
        self.scan = scan;
    }

    /// What is there goes to any instance with room.
    fn serve(&mut self, seen: Seen, waits: bool) {
        let room = self.queues.iter().position(|queue| queue.has_room());
        if room.is_none() && waits {
            return;
        }
        let Some(request) = seen.claim(self.ring) else { return };
        let mut payload = [0; OUTPUT];
        request.read_payload(self.ring, &mut payload);
        let header = *request.header();
        let owed = request.take(self.ring);
        let slot = owed.slot();
        let instance = room.unwrap_or(0);
        let end = self.queues[instance].device_end();
        let Some(grant) = end.grant(self.tails[instance], 10) else {
            let _ = owed.answer(self.ring, Status::BACKPRESSURE, &[]);
            self.refused += 1;
            return;
        };
        for (pair, bytes) in payload.chunks(16).enumerate() {
            let mut words = [0; 16];
            words[..bytes.len()].copy_from_slice(bytes);
            let [low, high] = [0, 8].map(|at| u64::from_le_bytes(words[at..at + 8].try_into().expect("8")));
            end.set_output_pair(grant, pair, [low, high]);
        }
        end.publish(grant, &Whose { header, slot: slot.get().into(), answers: true });
        self.tails[instance] += 1;
    }
}

/// Ends the device, also when the test has failed.
struct Ends<'a>(&'a DeviceU64);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(1, Release);
    }
}

/// `n` requests through all slots; how many were answered with which status, and the device's refusals.
fn drive(ring: &Ring, queues: &[Arc<Queue>], n: usize, waits: bool) -> (Vec<Status>, u64) {
    let (shared, done) = (ring.shared(), DeviceU64::new(0));
    std::thread::scope(|scope| {
        let device = scope.spawn(|| {
            let mut device = Device::new(shared, queues);
            while done.load(Acquire) == 0 {
                device.turn(waits);
                std::thread::yield_now();
            }
            device.refused
        });
        let ends = Ends(&done);
        let client = Client::new(ring);
        let mut statuses = Vec::new();
        let (mut sent, mut open) = (0, vec![None; shared.geometry().slots() as usize]);
        let begin = Instant::now();
        while statuses.len() < n {
            for slot in shared.geometry().iter() {
                let request = &mut open[slot.as_usize()];
                if let Some(i) = *request {
                    let answer = client.take(slot, |response, ring| {
                        let mut result = [0; 8];
                        let len = response.read(ring, &mut result);
                        assert_eq!(response.header().request_id, i as u32, "another request's answer");
                        (Status(response.header().status), result[..len].to_vec())
                    });
                    if let Some((status, result)) = answer {
                        assert!(
                            status != Status::OK || result == [(i as u8).wrapping_add(1)],
                            "{i}: {result:?}"
                        );
                        statuses.push(status);
                        *request = None;
                    }
                } else if sent < n
                    && let Some(vacant) = ringcall_protocol::Vacant::probe(shared, slot)
                {
                    let payload = [sent as u8; OUTPUT];
                    vacant
                        .submit(shared, FunctionId::of("decode").0, sent as u32, 9, &payload)
                        .expect("it fits");
                    *request = Some(sent);
                    sent += 1;
                }
            }
            assert!(begin.elapsed() < TIMEOUT, "{} of {n} answered", statuses.len());
            std::thread::yield_now();
        }
        drop(ends);
        (statuses, device.join().expect("device"))
    })
}

#[test]
fn every_request_is_answered_once() {
    for depth in [1, 2, 16] {
        for (instances, threads) in [(1, 1), (3, 1), (1, 3), (3, 2)] {
            let (ring, queues) = (ring(8), queues(instances, depth));
            let workers =
                Workers::start(&queues, ring.shared(), stages(threads), &options()).expect("started");
            assert_eq!(workers.pins().len(), threads);
            let (statuses, refused) = drive(&ring, &queues, 400, true);
            assert!(statuses.iter().all(|&status| status == Status::OK));
            assert_eq!(refused, 0);
            let report = workers.stop(TIMEOUT);
            assert!(report.is_clean(), "{report:?}");
            assert_eq!((report.workers.jobs, report.workers.answered), (400, 400));
            assert_eq!(report.queues.iter().map(|queue| queue.published).sum::<u64>(), 400);
            assert!(report.workers.named().skip(2).all(|(_, count)| count == 0), "{report:?}");
        }
    }
}

#[test]
fn slow_workers_make_refusals_that_are_answered_and_counted() {
    for depth in [1, 2, 16] {
        let (ring, queues) = (ring(32), queues(1, depth));
        let slow = |job: &Job<'_>, result: &mut [u8]| {
            std::thread::sleep(Duration::from_micros(300));
            plus_one(job, result)
        };
        let workers =
            Workers::start(&queues, ring.shared(), vec![Box::new(slow)], &options()).expect("started");
        let (statuses, refused) = drive(&ring, &queues, 300, false);
        let count = |wanted| statuses.iter().filter(|&&status| status == wanted).count() as u64;
        assert_eq!(count(Status::OK) + count(Status::BACKPRESSURE), 300);
        assert_eq!(count(Status::BACKPRESSURE), refused);
        let report = workers.stop(TIMEOUT);
        assert!(report.is_clean(), "{report:?}");
        assert_eq!(report.queues[0].refused, refused);
        assert_eq!(report.workers.jobs, 300 - refused);
        assert!(refused > 0, "depth {depth}: 32 requests at once and a slow worker");
    }
}

#[test]
fn stages_that_fail_panic_or_lie_are_answered() {
    let (ring, queues) = (ring(4), queues(2, 4));
    let stage = |job: &Job<'_>, result: &mut [u8]| match job.output[0] % 4 {
        0 => plus_one(job, result),
        1 => Err(Status(7)),
        2 => Ok(result.len() + 1),
        _ => panic!("on purpose"),
    };
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let workers = Workers::start(&queues, ring.shared(), vec![Box::new(stage)], &options()).expect("started");
    let (statuses, _) = drive(&ring, &queues, 40, true);
    let report = workers.stop(TIMEOUT);
    std::panic::set_hook(quiet);
    for status in [Status::OK, Status(7), Status::RESULT_TOO_LONG, Status::HANDLER_PANIC] {
        assert_eq!(statuses.iter().filter(|&&other| other == status).count(), 10, "{status}");
    }
    assert!(report.is_clean(), "{report:?}");
    assert_eq!((report.workers.panicked, report.workers.failed, report.workers.answered), (10, 30, 40));
}

fn publish(queue: &Queue, sequence: u64, slot: u64, answers: bool) {
    let end = queue.device_end();
    let grant = end.grant(sequence, 1).expect("free");
    end.publish(grant, &Whose { header: RequestHeader::new(1, 0, 5, 6), slot, answers });
}

fn wait(what: &str, until: impl Fn() -> bool) {
    let begin = Instant::now();
    while !until() {
        assert!(begin.elapsed() < TIMEOUT, "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn jobs_without_a_slot_for_their_answer_are_counted() {
    let (ring, queues) = (ring(4), queues(1, 8));
    publish(&queues[0], 0, 99, true); // no such slot
    publish(&queues[0], 1, u64::MAX, true);
    publish(&queues[0], 2, 1, false); // a follow-up
    publish(&queues[0], 3, 2, true); // a slot that is not in flight
    let workers = Workers::start(&queues, ring.shared(), stages(1), &options()).expect("started");
    wait("four jobs", || workers.stats().jobs == 4);
    let report = workers.stop(TIMEOUT);
    assert!(report.is_clean(), "{report:?}");
    let counts = report.workers;
    assert_eq!((counts.dropped, counts.unowed, counts.late, counts.answered), (2, 1, 1, 0));
    assert!(ring.geometry().iter().all(|slot| ring.shared().tx(slot) == 0), "nothing was written");
}

#[test]
fn an_overwritten_record_is_answered_as_such() {
    let ring = ring(4);
    let shape = Shape::new(2, OUTPUT as u32).expect("a shape");
    let region = Region::zeroed(shape.bytes()).expect("memory");
    let words = region.words(0, shape.bytes() / 8).expect("inside");
    let bytes = region.bytes(0, shape.bytes()).expect("inside");
    let queue = Arc::new(Queue::over(words.clone(), bytes, shape).expect("it fits"));
    publish(&queue, 0, 1, true);
    words.store(shape.record(0) + record::STATE, 0xDEAD_BEEF, Relaxed);
    let marks = WorkerOptions { marks: false, ..options() };
    let workers = Workers::start(&[queue], ring.shared(), stages(1), &marks).expect("started");
    let client = Client::new(&ring);
    let slot = ring.geometry().slot(1).expect("in the ring");
    let failed = |status: Status| assert_eq!(status, Status::ENGINE_FAILED);
    wait("an answer", || client.take(slot, |response, _| failed(Status(response.header().status))).is_some());
    // A record without a job is made free.
    words.store(shape.record(1) + record::STATE, 77, Relaxed);
    wait("the garbage", || workers.stats().garbage == 1);
    let report = workers.stop(TIMEOUT);
    assert!(report.is_clean(), "{report:?}");
    assert_eq!((report.workers.damaged, report.workers.failed, report.workers.garbage), (1, 1, 1));
}

#[test]
fn a_stage_that_hangs_is_left_and_reported() {
    let (ring, queues) = (ring(4), queues(1, 4));
    let release = Arc::new(DeviceU64::new(0));
    let held = Arc::clone(&release);
    let hangs = move |job: &Job<'_>, result: &mut [u8]| {
        while held.load(Acquire) == 0 {
            std::thread::yield_now();
        }
        plus_one(job, result)
    };
    publish(&queues[0], 0, 0, true);
    publish(&queues[0], 1, 1, true);
    let marks = WorkerOptions { marks: false, ..options() };
    let workers = Workers::start(&queues, ring.shared(), vec![Box::new(hangs)], &marks).expect("started");
    wait("the first job", || workers.stats().jobs == 1);
    let report = workers.stop(Duration::from_millis(20));
    assert_eq!((report.stuck.as_slice(), report.left), (&[0][..], 1), "{report:?}");
    assert!(!report.is_clean());
    release.store(1, Release);
}

#[test]
fn workers_need_stages_and_queues() {
    let (ring, queues) = (ring(4), queues(1, 4));
    assert!(Workers::start(&queues, ring.shared(), Vec::new(), &options()).is_err());
    assert!(Workers::start(&[], ring.shared(), stages(1), &options()).is_err());
}

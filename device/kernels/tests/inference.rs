//! The kernels of a service, simulated by CPU threads: what a request becomes, with and without a queue.

use proptest::prelude::*;
use ringcall_dispatcher::ring::graph_end::mailbox_bytes;
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::shared::{Region, Words};
use ringcall_gpu::team;
use ringcall_kernels::inference::output::Counts;
use ringcall_kernels::inference::{Instance, Memory, input, output};
use ringcall_protocol::handoff::{Claim, ConsumerState, HostEnd, PolledJob, Shape};
use ringcall_wire::handoff::{TENSOR_ALIGN, instance, queue, record, state};
use ringcall_wire::header::{HEADER_BYTES, HEADER_WORDS, RequestHeader, ResponseHeader};
use ringcall_wire::launch::io;
use ringcall_wire::status::Status;
use ringcall_wire::{Counter, Status as S};
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// The value of a response flag that says that an answer is there.
const ANSWERED: u64 = 0x5107;
const SLOT: u64 = 3;

/// Everything a graph works on, in one region whose addresses are its own.
struct Rig {
    region: Region,
    base: u64,
    inputs: Vec<(usize, usize)>,
    outputs: Vec<(usize, usize)>,
    at: [usize; 5],
    capacity: u32,
    shape: Option<Shape>,
    next: DeviceU64,
    claims: Vec<DeviceU64>,
    finished: DeviceU64,
    counters: Vec<DeviceU64>,
}

/// Addresses of one region.
struct Flat<'a>(&'a Region, u64);

impl Memory for Flat<'_> {
    fn words(&self, address: u64, words: usize) -> Option<Words> {
        self.0.words(address.checked_sub(self.1)? as usize, words).ok()
    }
}

/// Bytes of tensors that follow each other.
fn packed(sizes: &[usize]) -> usize {
    let (last, before) = sizes.split_last().expect("one at least");
    before.iter().map(|bytes| bytes.next_multiple_of(TENSOR_ALIGN)).sum::<usize>() + last
}

impl Rig {
    /// `depth` 0 for a graph that answers by itself.
    fn new(sizes_in: &[usize], sizes_out: &[usize], depth: u32, flags: u64) -> Self {
        let capacity = 512;
        let mut end = 0;
        let mut take = |bytes: usize| {
            let at = end;
            end += bytes.next_multiple_of(128) + 128;
            at
        };
        let output_bytes = packed(sizes_out) as u32;
        let shape = (depth > 0).then(|| Shape::new(depth, output_bytes).expect("a shape"));
        let at = [
            take(mailbox_bytes(capacity) as usize),
            take(instance::WORDS * 8),
            take(HEADER_BYTES + capacity as usize),
            take(8),
            take(shape.map_or(8, Shape::bytes)),
        ];
        let failed_at = take(8);
        let mut tensors = |sizes: &[usize]| -> Vec<(usize, usize)> {
            sizes.iter().map(|&bytes| (take(bytes.next_multiple_of(TENSOR_ALIGN)), bytes)).collect()
        };
        let (inputs, outputs) = (tensors(sizes_in), tensors(sizes_out));
        let region = Region::zeroed(end).expect("memory");
        let base = region.words(0, 1).expect("inside").address();
        let rig = Self {
            region,
            base,
            inputs,
            outputs,
            at,
            capacity,
            shape,
            next: DeviceU64::new(0),
            claims: (0..depth).map(|_| DeviceU64::new(0)).collect(),
            finished: DeviceU64::new(0),
            counters: (0..Counter::COUNT).map(|_| DeviceU64::new(0)).collect(),
        };
        let address = |at: usize| base + at as u64;
        let block = rig.block();
        let mut words = vec![
            (instance::QUEUE, if depth > 0 { address(at[4]) } else { 0 }),
            (instance::DEPTH, depth.into()),
            (instance::OUTPUT_BYTES, output_bytes.into()),
            (instance::POLL_LIMIT, 5),
            (instance::FAILED, address(failed_at)),
            (instance::REQUEST_BYTES, packed(sizes_in) as u64),
            (instance::FLAGS, flags),
            (instance::INPUTS, sizes_in.len() as u64),
            (instance::OUTPUTS, sizes_out.len() as u64),
        ];
        for (first, tensors) in [(instance::INPUT, &rig.inputs), (instance::OUTPUT, &rig.outputs)] {
            for (i, &(at, bytes)) in tensors.iter().enumerate() {
                words.extend([(first + 2 * i, address(at)), (first + 2 * i + 1, bytes as u64)]);
            }
        }
        for (word, value) in words {
            block.store(word, value, Relaxed);
        }
        let gate = rig.shape.map_or(0, |shape| address(at[4] + shape.record(0) * 8));
        rig.mailbox().store(io::GATE, gate, Relaxed);
        rig
    }

    fn words(&self, at: usize, bytes: usize) -> Words {
        self.region.words(at, bytes.div_ceil(8)).expect("inside")
    }

    fn mailbox(&self) -> Words {
        self.words(self.at[0], mailbox_bytes(self.capacity) as usize)
    }

    fn block(&self) -> Words {
        self.words(self.at[1], instance::WORDS * 8)
    }

    fn queue(&self) -> Words {
        self.words(self.at[4], self.shape.expect("a queue").bytes())
    }

    fn poll(&self) -> Option<Claim> {
        let queue = self.queue();
        let consumer = ConsumerState { next: &self.next, claims: &self.claims };
        match HostEnd::new(&queue, self.shape.expect("a queue"), consumer).expect("it fits").poll() {
            PolledJob::Job(claim) => Some(claim),
            PolledJob::Empty => None,
            other => panic!("{other:?}"),
        }
    }

    fn release(&self, claim: &Claim) {
        let queue = self.queue();
        let consumer = ConsumerState { next: &self.next, claims: &self.claims };
        let host = HostEnd::new(&queue, self.shape.expect("a queue"), consumer).expect("it fits");
        host.release(claim.index(), claim.sequence()).expect("claimed");
    }

    /// Output of job `claim`.
    fn output(&self, claim: &Claim) -> Vec<u8> {
        let shape = self.shape.expect("a queue");
        let bytes = self.region.bytes(self.at[4], shape.bytes()).expect("inside");
        let mut out = vec![0; claim.output_bytes() as usize];
        assert!(bytes.read(shape.output_at(claim.index()), &mut out));
        out
    }

    /// What a dispatcher does before a launch; `answers` unless it is a follow-up.
    fn post(&self, payload: &[u8], answers: bool) {
        let mailbox = self.mailbox();
        let header = RequestHeader::new(9, payload.len() as u32, 77, 88);
        for (i, word) in header.to_words().into_iter().enumerate() {
            mailbox.store(io::HEADER + i, word, Relaxed);
        }
        let address = |at: usize| if answers { self.base + at as u64 } else { 0 };
        for (word, value) in [
            (io::STATE, io::LAUNCHED),
            (io::TX_SLOT, address(self.at[2])),
            (io::TX_FLAG, address(self.at[3])),
            (io::TX_VALUE, ANSWERED),
            (io::TX_CAPACITY, self.capacity.into()),
            (io::ARG_LEN, payload.len() as u64),
            (io::SLOT, SLOT),
        ] {
            mailbox.store(word, value, Relaxed);
        }
        self.words(self.at[3], 8).store(0, 0, Relaxed);
        let bytes = self.region.bytes(self.at[0] + io::PAYLOAD, self.capacity as usize).expect("inside");
        assert!(bytes.write(0, payload));
    }

    /// The first kernel, by so many threads.
    fn input(&self, threads: u32) {
        let (mailbox, block) = (self.mailbox(), self.block());
        team::run_grid(1, threads, |grid| {
            input::run(grid.as_block(), &mailbox, &Instance::new(&block), &Flat(&self.region, self.base));
        });
    }

    /// The inference: each output is the first input, each byte plus 1 and the output's number, as far as it goes.
    fn infer(&self) {
        let first = self.tensor(self.inputs[0]);
        for (number, &(at, bytes)) in self.outputs.iter().enumerate() {
            let value = |i: usize| first.get(i).copied().unwrap_or(0).wrapping_add(number as u8 + 1);
            let out: Vec<u8> = (0..bytes).map(value).collect();
            let room = bytes.next_multiple_of(TENSOR_ALIGN);
            assert!(self.region.bytes(at, room).expect("inside").write(0, &out));
        }
    }

    fn tensor(&self, (at, bytes): (usize, usize)) -> Vec<u8> {
        let mut out = vec![0; bytes];
        assert!(self.region.bytes(at, bytes.next_multiple_of(8)).expect("inside").read(0, &mut out));
        out
    }

    /// The last kernel.
    fn output_kernel(&self, threads: u32) {
        let (mailbox, block) = (self.mailbox(), self.block());
        let before = self.finished.load(Relaxed);
        team::run_grid(1, threads, |grid| {
            let counts = Counts { finished: &self.finished, counters: Some(&self.counters) };
            let memory = Flat(&self.region, self.base);
            output::run(grid.as_block(), &mailbox, &Instance::new(&block), &memory, &counts);
        });
        assert_eq!(mailbox.load(io::STATE, Acquire), io::IDLE, "the mailbox is given back");
        assert_eq!(self.finished.load(Relaxed), before + 1);
    }

    fn graph(&self, threads: u32, payload: &[u8]) {
        self.post(payload, true);
        self.input(threads);
        self.infer();
        self.output_kernel(threads);
    }

    /// The answer in the response slot, if there is one.
    fn answer(&self) -> Option<(Status, Vec<u8>)> {
        let flag = self.words(self.at[3], 8).load(0, Acquire);
        if flag != ANSWERED {
            assert_eq!(flag, 0);
            return None;
        }
        let slot = self.region.bytes(self.at[2], HEADER_BYTES + self.capacity as usize).expect("inside");
        let header = ResponseHeader::from_words(slot.read_words::<HEADER_WORDS>(0).expect("inside"));
        assert_eq!((header.request_id, header.ptp_timestamp), (77, 88), "echo");
        let mut result = vec![0; header.result_len as usize];
        assert!(slot.read(HEADER_BYTES, &mut result));
        Some((Status(header.status), result))
    }

    fn counted(&self, counter: Counter) -> u64 {
        self.counters[counter as usize].load(Relaxed)
    }

    /// What [`infer`](Self::infer) makes of a payload, as it is handed over.
    fn expected(&self, payload: &[u8]) -> Vec<u8> {
        let mut all = Vec::new();
        for (number, &(_, bytes)) in self.outputs.iter().enumerate() {
            all.resize(all.len().next_multiple_of(TENSOR_ALIGN), 0);
            let first = &payload[..self.inputs[0].1];
            all.extend((0..bytes).map(|i| first.get(i).copied().unwrap_or(0).wrapping_add(number as u8 + 1)));
        }
        all
    }
}

const ALL: u64 = instance::COPIES_IN | instance::COPIES_OUT;

fn payload(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(31) ^ seed).collect()
}

/// Equal but for what lies between tensors.
fn same(rig: &Rig, found: &[u8], expected: &[u8]) -> bool {
    let mut at = 0;
    found.len() == expected.len()
        && rig.outputs.iter().all(|&(_, bytes)| {
            let range = at..at + bytes;
            at = (at + bytes).next_multiple_of(TENSOR_ALIGN);
            found[range.clone()] == expected[range]
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Any tensors, any number of threads: a graph without a queue answers, one with a queue hands over.
    #[test]
    fn what_comes_in_goes_out(
        sizes_in in proptest::collection::vec(1..60_usize, 1..4),
        sizes_out in proptest::collection::vec(1..60_usize, 1..4),
        depth in 0..4_u32,
        threads in 1..9_u32,
    ) {
        let rig = Rig::new(&sizes_in, &sizes_out, depth, ALL);
        for round in 0..5_u8 {
            let payload = payload(packed(&sizes_in), round);
            rig.graph(threads, &payload);
            // Each input has its part of the payload.
            let mut at = 0;
            for &(address, bytes) in &rig.inputs {
                prop_assert_eq!(rig.tensor((address, bytes)), &payload[at..at + bytes]);
                at = (at + bytes).next_multiple_of(TENSOR_ALIGN);
            }
            let expected = rig.expected(&payload);
            if depth == 0 {
                let (status, result) = rig.answer().expect("answered by the graph");
                prop_assert!(status == S::OK && same(&rig, &result, &expected));
            } else {
                prop_assert_eq!(rig.answer(), None, "the CPU answers");
                let claim = rig.poll().expect("handed over");
                prop_assert_eq!((claim.sequence(), claim.slot()), (u64::from(round), SLOT));
                prop_assert_eq!(*claim.header(), RequestHeader::new(9, payload.len() as u32, 77, 88));
                prop_assert!(same(&rig, &rig.output(&claim), &expected));
                rig.release(&claim);
            }
        }
        prop_assert_eq!(rig.counted(Counter::Completed), if depth == 0 { 5 } else { 0 });
    }
}

#[test]
fn another_length_is_refused_and_counted() {
    for depth in [0, 2] {
        let rig = Rig::new(&[24], &[8], depth, ALL);
        for len in [0, 1, 23, 25, 48, 512] {
            rig.graph(4, &payload(len, 1));
            assert_eq!(rig.answer(), Some((S::SCHEMA_MISMATCH, Vec::new())), "{len}");
        }
        assert_eq!(rig.counted(Counter::SchemaMismatch), 6);
        if depth > 0 {
            assert!(rig.poll().is_none());
            assert_eq!(rig.queue().load(queue::BAD_LENGTH, Relaxed), 6);
        }
        assert_eq!(rig.tensor(rig.inputs[0]), [0; 24], "nothing was copied");
        rig.graph(4, &payload(24, 1));
        assert!(depth > 0 || rig.answer().is_some_and(|(status, _)| status == S::OK));
    }
}

#[test]
fn a_full_queue_refuses_with_an_answer_and_keeps_its_records() {
    for depth in [1, 2, 16_u32] {
        let rig = Rig::new(&[16], &[16], depth, ALL);
        for i in 0..depth {
            rig.graph(4, &payload(16, i as u8));
            assert_eq!(rig.answer(), None);
        }
        let gate = rig.mailbox().load(io::GATE, Relaxed) - rig.base;
        let closed = rig.words(gate as usize, 8).load(0, Acquire);
        assert_eq!(closed, state::ready(0), "the gate is the record at the tail: {depth}");
        for refused in 1..4 {
            rig.graph(4, &payload(16, 99));
            assert_eq!(rig.answer(), Some((S::BACKPRESSURE, Vec::new())));
            assert_eq!(rig.queue().load(queue::REFUSED, Relaxed), refused);
            assert_eq!(rig.counted(Counter::Backpressure), refused);
        }
        let claims: Vec<_> = (0..depth).map(|_| rig.poll().expect("handed over")).collect();
        for claim in claims {
            let expected = rig.expected(&payload(16, claim.sequence() as u8));
            assert_eq!(rig.output(&claim), expected, "{depth}: not overwritten");
            rig.release(&claim);
        }
        assert_eq!(rig.words(gate as usize, 8).load(0, Acquire), state::FREE, "the gate is open");
        rig.graph(4, &payload(16, 7));
        assert_eq!(rig.poll().expect("handed over").sequence(), u64::from(depth));
    }
}

#[test]
fn a_failed_inference_is_answered_and_takes_no_record() {
    for depth in [0, 1] {
        let rig = Rig::new(&[16], &[16], depth, ALL);
        let failed = rig.block().load(instance::FAILED, Relaxed);
        let word = Flat(&rig.region, rig.base).words(failed, 1).expect("inside");
        word.store(0, 1, Relaxed);
        for _ in 0..3 {
            rig.graph(2, &payload(16, 1));
            assert_eq!(rig.answer(), Some((S::ENGINE_FAILED, Vec::new())));
        }
        assert_eq!(rig.counted(Counter::EngineFailed), 3);
        if depth > 0 {
            assert_eq!(rig.queue().load(queue::ENGINE_FAILED, Relaxed), 3);
            assert_eq!(rig.queue().load(queue::REFUSED, Relaxed), 0, "a granted record is granted again");
        }
        word.store(0, 0, Relaxed);
        rig.graph(2, &payload(16, 1));
        assert!(depth == 0 && rig.answer().is_some() || rig.poll().is_some(), "it goes on");
    }
}

#[test]
fn a_result_that_does_not_fit_is_cut_and_says_so() {
    let rig = Rig::new(&[16], &[600], 0, ALL);
    rig.graph(4, &payload(16, 3));
    let (status, result) = rig.answer().expect("answered");
    assert_eq!((status, result.len()), (S::RESULT_TOO_LONG, 512));
    assert_eq!(result, rig.expected(&payload(16, 3))[..512]);
}

#[test]
fn a_follow_up_is_not_answered() {
    for depth in [0, 2] {
        let rig = Rig::new(&[16], &[16], depth, ALL);
        rig.post(&payload(16, 1), false);
        rig.input(4);
        rig.infer();
        rig.output_kernel(4);
        assert_eq!(rig.answer(), None);
        if depth > 0 {
            assert!(!rig.poll().expect("handed over").has_answer_outstanding());
        }
    }
}

/// Copy nodes move the data: the kernels check and signal, and leave tensors and record alone.
#[test]
fn copy_nodes_take_the_copying_over() {
    let rig = Rig::new(&[16], &[16], 1, 0);
    for round in 0..3_u8 {
        rig.post(&payload(16, round), true);
        rig.input(1);
        assert_eq!(rig.tensor(rig.inputs[0]), [0; 16]);
        // Simulated by copy nodes, after the first kernel and before the last.
        let shape = rig.shape.expect("a queue");
        let queue = rig.region.bytes(rig.at[4], shape.bytes()).expect("inside");
        assert!(queue.write(shape.output_at(0), &payload(16, round ^ 0x55)));
        rig.output_kernel(1);
        let claim = rig.poll().expect("signalled");
        assert_eq!(rig.output(&claim), payload(16, round ^ 0x55));
        rig.release(&claim);
    }
}

#[test]
fn the_records_state_is_its_first_word() {
    let rig = Rig::new(&[16], &[16], 2, ALL);
    let gate = rig.mailbox().load(io::GATE, Relaxed);
    let shape = rig.shape.expect("a queue");
    assert_eq!(gate, rig.base + rig.at[4] as u64 + 8 * (shape.record(0) + record::STATE) as u64);
}

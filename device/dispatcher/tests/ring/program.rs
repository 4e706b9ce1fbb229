//! Graphs of a program's own: one context for all of them, and threads that play what was launched.

use crate::harness::{LIMIT, Memory, RingParts, Setup, entry};
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::shared::Words;
use ringcall_protocol::RingMemory;
use ringcall_wire::header::{HEADER_BYTES, HEADER_WORDS, RequestHeader, ResponseHeader};
use ringcall_wire::launch::{DeviceEntry, HandlerKind, LAUNCHES_PER_EXECUTION, context, saved};
use ringcall_wire::status::Status;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::thread;
use std::time::Instant;

/// CUDA's code for a launch that the budget, or a running executable, refuses.
const REFUSED: i32 = 1;
/// What executables' handles begin with.
const HANDLES: u64 = 0xE000;

/// What an executable's kernels find.
pub(crate) struct Found<'a> {
    program: &'a Program,
    words: [u64; context::WORDS],
    header: RequestHeader,
    payload: Vec<u64>,
}

/// What an executable does, from its launch to its end.
pub(crate) type Body = Box<dyn Fn(&Program) + Send + Sync>;

/// One executable. Atomics, as all that threads share here: the thread sanitizer does not see through std's locks.
struct Exec {
    runs: DeviceU64,
    /// The code with which its launches fail; 0: they do not.
    broken: DeviceU64,
}

/// The program.
pub(crate) struct Program {
    ring: RingParts,
    context: Memory,
    bodies: Vec<Body>,
    execs: Vec<Exec>,
    /// Launches since the last execution began, and in all.
    launched: DeviceU64,
    total: DeviceU64,
    /// Ends of executions that began to wait for children.
    awaited: DeviceU64,
}

impl Program {
    pub(crate) fn new(ring: &RingParts, bodies: Vec<Body>) -> Arc<Self> {
        Arc::new(Self {
            ring: ring.clone(),
            context: Memory::zeroed(context::WORDS * 8),
            execs: bodies
                .iter()
                .map(|_| Exec { runs: DeviceU64::new(0), broken: DeviceU64::new(0) })
                .collect(),
            bodies,
            launched: DeviceU64::new(0),
            total: DeviceU64::new(0),
            awaited: DeviceU64::new(0),
        })
    }

    /// The table's entry of executable `exec`.
    pub(crate) fn entry(id: u32, exec: u64, routing_key: u64) -> DeviceEntry {
        DeviceEntry { routing_key, ..entry(id, HandlerKind::Graph, HANDLES + exec) }
    }

    /// Tells the dispatcher where the context is, and how long a graph may take to answer, in ns.
    pub(crate) fn wire(&self, setup: &Setup, limit: u64) {
        setup.saved.store(saved::CONTEXT, self.context.base(), Relaxed);
        setup.saved.store(saved::LIMIT, limit, Relaxed);
    }

    /// Makes launches of `exec` fail.
    pub(crate) fn break_exec(&self, exec: u64, code: i32) {
        self.execs[exec as usize].broken.store(code as u64, Release);
    }

    /// Launches so far.
    pub(crate) fn launches(&self) -> u64 {
        self.total.load(Acquire)
    }

    /// Executions that have come to their end so far, where they wait for their children.
    pub(crate) fn awaited(&self) -> u64 {
        self.awaited.load(Acquire)
    }

    /// Whether nothing runs.
    pub(crate) fn is_quiet(&self) -> bool {
        self.execs.iter().all(|exec| exec.runs.load(Acquire) == 0)
    }

    pub(crate) fn window(&self, address: u64, words: usize) -> Option<Words> {
        self.context.words_at(address, words)
    }

    pub(crate) fn launch(program: &Arc<Self>, exec: u64) -> Result<(), i32> {
        let index = exec.checked_sub(HANDLES).filter(|&index| (index as usize) < program.bodies.len());
        let index = index.expect("a handle of the program's") as usize;
        let Exec { runs, broken } = &program.execs[index];
        match broken.load(Acquire) {
            0 => (),
            code => return Err(code as i32),
        }
        if runs.swap(1, AcqRel) != 0 {
            return Err(REFUSED);
        }
        if program.launched.fetch_add(1, AcqRel) >= LAUNCHES_PER_EXECUTION {
            program.launched.fetch_add(u64::MAX, AcqRel);
            runs.store(0, Release);
            return Err(REFUSED);
        }
        program.total.fetch_add(1, AcqRel);
        let program = Arc::clone(program);
        thread::spawn(move || {
            (program.bodies[index])(&program);
            program.execs[index].runs.store(0, Release);
        });
        Ok(())
    }

    /// What a tail launch waits for.
    pub(crate) fn wait_for_children(&self) {
        self.awaited.fetch_add(1, AcqRel);
        let limit = Instant::now() + LIMIT;
        while !self.is_quiet() {
            assert!(Instant::now() < limit, "a child does not end");
            thread::yield_now();
        }
        self.launched.store(0, Release);
    }

    /// Reads the context and the request that it names.
    pub(crate) fn find(&self) -> Found<'_> {
        let at = self.context.words_at(self.context.base(), context::WORDS).expect("inside");
        let words = std::array::from_fn(|word| at.load(word, Relaxed));
        let stride = self.ring.ring.geometry().rx_stride() as usize;
        let slot = self.ring.memory.words_at(words[context::RX_SLOT], stride / 8).expect("a request slot");
        let header = RequestHeader::from_words(std::array::from_fn(|word| slot.load(word, Relaxed)));
        let payload =
            (0..header.arg_len.div_ceil(8) as usize).map(|word| slot.load(HEADER_WORDS + word, Relaxed));
        Found { program: self, words, header, payload: payload.collect() }
    }
}

impl Found<'_> {
    /// Answers the payload, `add` added to each word, as the interface says: slot, then flag.
    pub(crate) fn answer(&self, add: u64) {
        let memory = &self.program.ring.memory;
        let stride = self.words[context::TX_STRIDE] as usize;
        assert!(HEADER_BYTES + self.payload.len() * 8 <= stride);
        let slot = memory.words_at(self.words[context::TX_SLOT], stride / 8).expect("a response slot");
        for (index, word) in self.payload.iter().enumerate() {
            slot.store(HEADER_WORDS + index, word.wrapping_add(add), Relaxed);
        }
        let header = ResponseHeader::reply(&self.header, Status::OK.0, self.header.arg_len).to_words();
        for (index, word) in header.into_iter().enumerate() {
            slot.store(index, word, Relaxed);
        }
        let flag = memory.words_at(self.words[context::TX_FLAG], 1).expect("a response flag");
        flag.store(0, self.words[context::TX_VALUE], Release);
    }
}

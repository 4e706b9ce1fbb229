//! Graphs of a program's own: one context for all of them, and threads that play what was launched.

use crate::harness::{LIMIT, Memory, RingParts, Setup, entry};
use ringcall_dispatch::RingMemory;
use ringcall_gpu::shared::Words;
use ringcall_wire::header::{HEADER_BYTES, HEADER_WORDS, RequestHeader, ResponseHeader};
use ringcall_wire::launch::{DeviceEntry, HandlerKind, LAUNCHES_PER_EXECUTION, context, saved};
use ringcall_wire::status::Status;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
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

#[derive(Default)]
struct State {
    /// By executable, whether it runs.
    running: Vec<bool>,
    /// Launches since the last execution began, and in all.
    launched: u64,
    total: u64,
    refused: u64,
    /// Executables whose launch fails, with their code.
    broken: Vec<(u64, i32)>,
}

/// The program.
pub(crate) struct Program {
    ring: RingParts,
    context: Memory,
    bodies: Vec<Body>,
    state: Mutex<State>,
    ended: Condvar,
}

impl Program {
    pub(crate) fn new(ring: &RingParts, bodies: Vec<Body>) -> Arc<Self> {
        let state = State { running: vec![false; bodies.len()], ..State::default() };
        Arc::new(Self {
            ring: ring.clone(),
            context: Memory::zeroed(context::WORDS * 8),
            bodies,
            state: Mutex::new(state),
            ended: Condvar::new(),
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
        self.state().broken.push((HANDLES + exec, code));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Launches so far.
    pub(crate) fn launches(&self) -> u64 {
        self.state().total
    }

    /// Launches that were refused so far.
    pub(crate) fn refused(&self) -> u64 {
        self.state().refused
    }

    /// Whether nothing runs.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.state().running.contains(&true)
    }

    pub(crate) fn window(&self, address: u64, words: usize) -> Option<Words> {
        self.context.words_at(address, words)
    }

    pub(crate) fn launch(program: &Arc<Self>, exec: u64) -> Result<(), i32> {
        let place = exec.checked_sub(HANDLES).filter(|&place| (place as usize) < program.bodies.len());
        let place = place.expect("a handle of the program's") as usize;
        let mut state = program.state();
        let broken = state.broken.iter().find(|(handle, _)| *handle == exec).map(|(_, code)| *code);
        let busy = state.running[place] || state.launched >= LAUNCHES_PER_EXECUTION;
        if let Some(code) = broken.or(busy.then_some(REFUSED)) {
            state.refused += 1;
            return Err(code);
        }
        state.running[place] = true;
        state.launched += 1;
        state.total += 1;
        drop(state);
        let program = Arc::clone(program);
        thread::spawn(move || {
            (program.bodies[place])(&program);
            program.state().running[place] = false;
            program.ended.notify_all();
        });
        Ok(())
    }

    /// What a tail launch waits for.
    pub(crate) fn wait_for_children(&self) {
        let mut state = self.state();
        let limit = Instant::now() + LIMIT;
        while state.running.contains(&true) {
            assert!(Instant::now() < limit, "a child does not end");
            state = self.ended.wait_timeout(state, LIMIT).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.launched = 0;
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
        for (place, word) in self.payload.iter().enumerate() {
            slot.store(HEADER_WORDS + place, word.wrapping_add(add), Relaxed);
        }
        let header = ResponseHeader::reply(&self.header, Status::OK.0, self.header.arg_len).to_words();
        for (place, word) in header.into_iter().enumerate() {
            slot.store(place, word, Relaxed);
        }
        let flag = memory.words_at(self.words[context::TX_FLAG], 1).expect("a response flag");
        flag.store(0, self.words[context::TX_VALUE], Release);
    }
}

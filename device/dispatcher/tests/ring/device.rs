//! A machine whose functions are closures.

use crate::park::Park;
use crate::program::Program;
use ringcall_dispatcher::ring::{Call, Machine, Returned};
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::shared::Words;
use ringcall_gpu::staging::StagingBuffer;
use ringcall_gpu::team::Warp;
use ringcall_wire::header::HEADER_WORDS;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::thread;

/// A handler. A thread's handler is called with a warp of one lane.
pub(crate) type Handler = Box<dyn Fn(Warp<'_>, &Call<'_>) -> Returned + Send + Sync>;

/// The machine: a handler's address is its number.
pub(crate) struct Device<const GRAPHS: bool> {
    handlers: Vec<Handler>,
    park: Option<Arc<Park>>,
    /// Graphs of a program's own, instead of a park's.
    pub(crate) program: Option<Arc<Program>>,
    again: DeviceU64,
    /// CUDA code with which a relaunch fails.
    pub(crate) refuses_relaunch: Option<i32>,
}

impl<const GRAPHS: bool> Device<GRAPHS> {
    pub(crate) fn new(handlers: Vec<Handler>, park: Option<Arc<Park>>) -> Self {
        Self { handlers, park, program: None, again: DeviceU64::new(0), refuses_relaunch: None }
    }

    /// Whether the dispatcher was to be launched again, since the last time somebody asked.
    pub(crate) fn launched_again(&self) -> bool {
        self.again.swap(0, AcqRel) != 0
    }

    /// Waits for what a tail launch waits for: the end of all that the last execution launched.
    pub(crate) fn wait_for_children(&self) {
        if let Some(program) = &self.program {
            program.wait_for_children();
        }
    }
}

impl<const G: bool> Machine for Device<G> {
    const GRAPHS: bool = G;

    fn call_thread(&self, call: &Call<'_>) -> Returned {
        self.handlers[call.address as usize](Warp::single(), call)
    }

    fn call_warp(&self, warp: Warp<'_>, call: &Call<'_>) -> Returned {
        self.handlers[call.address as usize](warp, call)
    }

    fn launch(&self, exec: u64) -> Result<(), i32> {
        match (&self.program, &self.park) {
            (Some(program), _) => Program::launch(program, exec),
            (None, Some(park)) => Park::launch(park, exec),
            (None, None) => Err(i32::MAX),
        }
    }

    fn mailbox(&self, address: u64, words: usize) -> Option<Words> {
        match &self.program {
            Some(program) => program.window(address, words),
            None => self.park.as_ref()?.mailbox(address, words),
        }
    }

    fn relaunch(&self) -> Result<(), i32> {
        match self.refuses_relaunch {
            Some(code) => Err(code),
            None => {
                assert_eq!(self.again.swap(1, AcqRel), 0, "launched again twice");
                Ok(())
            }
        }
    }

    fn sleep(&self) {
        thread::yield_now();
    }

    fn sleep_until_next_round(&self) {
        thread::yield_now();
    }
}

/// Adds one to every byte of the payload, in words; the lanes share the work.
pub(crate) fn increment(warp: Warp<'_>, call: &Call<'_>) -> Returned {
    for word in warp.stride(call.arg_len.div_ceil(8) as usize) {
        let bytes = payload_word(call.input, word).to_le_bytes().map(|byte| byte.wrapping_add(1));
        call.output.set_word(HEADER_WORDS + word, u64::from_le_bytes(bytes));
    }
    Returned { status: 0, len: call.arg_len }
}

pub(crate) fn payload_word(staging: StagingBuffer<'_>, word: usize) -> u64 {
    staging.word(HEADER_WORDS + word)
}

/// A door that handlers wait at.
#[derive(Debug, Default)]
pub(crate) struct Door {
    waiting: DeviceU64,
    open: DeviceU64,
}

impl Door {
    pub(crate) fn open(&self) {
        self.open.store(1, Release);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Acquire) != 0
    }

    /// How many have come to it so far.
    pub(crate) fn reached(&self) -> u64 {
        self.waiting.load(Acquire)
    }

    /// Waits until it is open.
    pub(crate) fn pass(&self) {
        self.waiting.fetch_add(1, Release);
        let limit = std::time::Instant::now() + crate::harness::LIMIT;
        while !self.is_open() {
            assert!(std::time::Instant::now() < limit, "nobody opened the door");
            thread::yield_now();
        }
    }
}

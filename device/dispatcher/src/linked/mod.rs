//! A dispatcher of one thread over a linked transport, which three device functions define.
//!
//! The thread receives a request, calls its function and answers. The transport is chosen when the kernel is linked: a
//! module defines [`attach`, `rx_poll` and `tx_publish`](Hooks). Checks, function table and statuses are the same as in every
//! other dispatcher ([`validate`]).
//!
//! # What orders what
//! A hook needs only a load or a store of a flag. [`Hooked::run`] makes an acquire fence after `rx_poll` has returned a request,
//! and a release fence before it passes a response to `tx_publish`. Counters are stored before the release fence.

pub mod queue_pair;

use crate::ring::{Call, DeviceTable, Machine, Returned};
use core::sync::atomic::Ordering;
use ringcall_gpu::barrier;
use ringcall_gpu::shared::{Bytes, Words};
use ringcall_gpu::staging::StagingBuffer;
use ringcall_protocol::validate;
use ringcall_wire::counter::Counter;
use ringcall_wire::flag;
use ringcall_wire::header::{HEADER_BYTES, HEADER_WORDS, RequestHeader, ResponseHeader};
use ringcall_wire::launch::{DeviceEntry, HandlerKind};
use ringcall_wire::status::{DispatchMode, Status};
use ringcall_wire::unified::control;

/// Requests between two polls of the stop word, for a transport that never runs dry.
const REQUESTS_PER_CHECK: u32 = 64;
/// Words fetched at once.
const GROUP: usize = 8;

/// What a transport had.
#[derive(Debug, Clone)]
pub enum Polled {
    /// A request, and where its response goes: each as long as a frame of its direction. Both are the dispatcher's until the
    /// response is published.
    Ready {
        /// The request's frame.
        request: Bytes,
        /// The response's.
        response: Bytes,
    },
    /// A request that cannot be read, or whose response cannot be written: no address, or not one of whole words.
    Unusable,
    /// It is over: stopped, or nothing will come any more.
    Shutdown,
    /// Something that no transport says.
    Unknown,
}

/// A transport, as the loop sees it.
pub trait Hooks {
    /// Waits for a request, or for the stop word.
    fn poll(&mut self) -> Polled;
    /// Sends the response in the frame that came with the last request. Its header says how long it is.
    fn publish(&mut self, response: &Bytes);
}

/// How a loop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// It was stopped, or the transport has ended.
    Ended,
    /// The transport broke the interface, or frames are too short for a header.
    Failed,
}

/// A dispatcher over hooks. One thread runs it.
#[derive(Debug, Clone, Copy)]
pub struct Hooked<'a, M> {
    /// The functions.
    pub table: DeviceTable<'a>,
    /// The control block ([`control`]), in mapped memory.
    pub control: &'a Words,
    /// The machine.
    pub machine: &'a M,
    /// Bytes of a response's frame.
    pub response_bytes: u32,
}

/// Counts that one thread keeps, each shown when it changes. The words are stored, never read, after the start.
struct Live<'a> {
    counts: [u64; Counter::COUNT],
    control: &'a Words,
}

impl<'a> Live<'a> {
    /// Continues where the last start ended.
    fn resumed(control: &'a Words) -> Self {
        let count = |index| control.load(control::COUNTERS + index, Ordering::Relaxed);
        Self { counts: core::array::from_fn(count), control }
    }

    #[inline(always)]
    fn count(&mut self, counter: Counter) {
        let Some(count) = self.counts.get_mut(counter as usize) else { return };
        *count = count.wrapping_add(1);
        self.control.store(control::COUNTERS + counter as usize, *count, Ordering::Relaxed);
    }
}

impl<M: Machine> Hooked<'_, M> {
    /// Serves until the transport ends. `input` and `output` are staging buffers, each as long as a frame.
    #[inline(always)]
    pub fn run(&self, hooks: &mut impl Hooks, input: StagingBuffer<'_>, output: StagingBuffer<'_>) -> Over {
        let state = |state| self.control.store(control::STATE, state, Ordering::Release);
        if self.response_bytes < HEADER_BYTES as u32 {
            state(control::STATE_FAILED);
            return Over::Failed;
        }
        state(control::STATE_RUNNING);
        let over = self.rounds(hooks, input, output);
        self.control.store(control::BUSY, 0, Ordering::Relaxed);
        // Release: an agent that sees the state sees the last counters.
        state(if over == Over::Ended { control::STATE_ENDED } else { control::STATE_FAILED });
        over
    }

    #[inline(always)]
    fn rounds(&self, hooks: &mut impl Hooks, input: StagingBuffer<'_>, output: StagingBuffer<'_>) -> Over {
        let mut live = Live::resumed(self.control);
        let mut turn = 0_u32;
        loop {
            turn = turn.wrapping_add(1);
            if turn.is_multiple_of(REQUESTS_PER_CHECK)
                && self.control.load(control::STOP, Ordering::Relaxed) == control::STOP_NOW
            {
                return Over::Ended;
            }
            match hooks.poll() {
                Polled::Ready { request, response } => {
                    barrier::observe_from_peer();
                    self.serve(&mut live, &request, &response, input, output);
                    barrier::publish_to_peer();
                    hooks.publish(&response);
                    self.control.store(control::HEARTBEAT, turn.into(), Ordering::Relaxed);
                }
                Polled::Unusable => {
                    live.count(Counter::Received);
                    live.count(Counter::Dropped);
                }
                Polled::Shutdown => return Over::Ended,
                Polled::Unknown => return Over::Failed,
            }
        }
    }

    /// Checks, calls, and writes the response's frame.
    #[inline(always)]
    fn serve(
        &self,
        live: &mut Live<'_>,
        request: &Bytes,
        response: &Bytes,
        input: StagingBuffer<'_>,
        output: StagingBuffer<'_>,
    ) {
        live.count(Counter::Received);
        let words = request.words();
        fetch(words, 0, GROUP, input);
        let header = RequestHeader::from_words(core::array::from_fn(|word| input.word(word)));
        let room = request.len().min(input.len() * 8).saturating_sub(HEADER_BYTES) as u32;
        let checked = if request.len() < HEADER_BYTES {
            Err(Status::BAD_MAGIC)
        } else {
            validate::request(&self.table, &header, room, |mode| mode == DispatchMode::DeviceCall)
        };
        let (status, len) = match checked {
            Ok(entry) => {
                fetch(words, GROUP, (HEADER_BYTES + header.arg_len as usize).div_ceil(8), input);
                self.call(live, entry, header.arg_len, input, output)
            }
            Err(status) => (status, 0),
        };
        let reply = ResponseHeader::reply(&header, status.0, len).to_words();
        for (at, word) in reply.into_iter().enumerate() {
            response.words().store(at, word, Ordering::Relaxed);
        }
        for at in HEADER_WORDS..HEADER_WORDS + (len as usize).div_ceil(8) {
            response.words().store(at, output.word(at), Ordering::Relaxed);
        }
        // Before anybody can see the response.
        live.count(Counter::of_status(status));
    }

    /// Calls a function; the status to answer with, and the result's length.
    #[inline(always)]
    fn call(
        &self,
        live: &mut Live<'_>,
        entry: &DeviceEntry,
        arg_len: u32,
        input: StagingBuffer<'_>,
        output: StagingBuffer<'_>,
    ) -> (Status, u32) {
        live.count(Counter::Dispatched);
        self.control.store(control::BUSY, u64::from(entry.id) << 32 | 1, Ordering::Relaxed);
        let capacity = self.response_bytes - HEADER_BYTES as u32;
        let call = Call { address: entry.address, input, output, arg_len, capacity };
        let Returned { status, len } = match HandlerKind::from_raw(entry.kind) {
            Some(HandlerKind::Thread) => self.machine.call_thread(&call),
            // One thread is no warp, no grid, and launches nothing.
            _ => Returned { status: Status::WRONG_MODE.0, len: 0 },
        };
        self.control.store(control::BUSY, 0, Ordering::Relaxed);
        if i64::from(status) == flag::GRAPH_TRIGGER as i64 {
            return (Status::LAUNCH_FAILED, len.min(capacity));
        }
        Status(status).clamped(len, capacity)
    }
}

/// Brings words `from .. to` (`from` a multiple of a group) of a frame to a staging buffer, a group in one burst of loads.
#[inline(always)]
fn fetch(frame: &Words, from: usize, to: usize, input: StagingBuffer<'_>) {
    let mut group = from / GROUP;
    while group * GROUP < to {
        let words = frame.load_group(group);
        for (at, word) in words.into_iter().enumerate() {
            input.set_word(group * GROUP + at, word);
        }
        group += 1;
    }
}

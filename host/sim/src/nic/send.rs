//! The send side: doorbells, requests, completions.

use crate::nic::completion::CompletionWriter;
use crate::nic::memory::Memory;
use crate::nic::port::{Message, Port};
use crate::nic::stats::{Stats, Violation, Violations};
use ringcall_gpu::barrier;
use ringcall_gpu::shared::Words;
use ringcall_mlx5::layout::cqe::{Cqe, Syndrome, opcode};
use ringcall_mlx5::layout::wqe::{self, Control, Data, Operation, Parsed};
use ringcall_mlx5::layout::{first, second};
use ringcall_mlx5::sq::RecordMode;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;

/// A request that the NIC has read and not yet done.
#[derive(Debug)]
struct Fetched {
    words: [u64; wqe::WORDS],
    /// What it names in memory, as it was when the request was read.
    bytes: Option<Vec<u8>>,
}

/// A send queue, by the NIC.
#[derive(Debug)]
pub(crate) struct Sender {
    window: Words,
    entries: u16,
    record: Words,
    uar: Words,
    qpn: u32,
    mode: RecordMode,
    pub(crate) completions: CompletionWriter,
    /// The register's value that was seen last.
    seen: u64,
    /// The producer's index that the doorbell gave and the record has not reached.
    owed: Option<u16>,
    /// Requests read since the start.
    fetched: u64,
    /// Requests done since the start.
    done: u64,
    queue: VecDeque<Fetched>,
    pub(crate) fail_next: Option<Syndrome>,
}

/// The parts of a NIC that both sides use.
pub(crate) struct Shared<'a> {
    pub(crate) memory: &'a Memory,
    pub(crate) stats: &'a mut Stats,
    pub(crate) violations: &'a mut Violations,
}

impl Sender {
    pub(crate) fn new(
        windows: [Words; 3],
        entries: u16,
        qpn: u32,
        mode: RecordMode,
        completions: CompletionWriter,
    ) -> Self {
        let [window, record, uar] = windows;
        Self {
            window,
            entries,
            record,
            uar,
            qpn,
            mode,
            completions,
            seen: 0,
            owed: None,
            fetched: 0,
            done: 0,
            queue: VecDeque::new(),
            fail_next: None,
        }
    }

    /// Requests read and not done.
    pub(crate) fn under_way(&self) -> usize {
        self.queue.len()
    }

    /// Looks at the doorbell register; true if it was rung.
    pub(crate) fn look(&mut self, shared: &mut Shared<'_>) -> bool {
        // Pairs with the release fence before `Doorbell::ring`, and with the release store of `BlueFlame::copy`.
        let value = self.uar.load(0, Ordering::Acquire);
        if value == self.seen {
            return self.catch_up(shared);
        }
        self.seen = value;
        let (index, names) = ((first(value) >> 8) as u16, second(value));
        if names >> 8 != self.qpn {
            shared.violations.count(Violation::DoorbellQueuePair);
            return true;
        }
        // A doorbell has no size; a copied request does.
        if names & 0xFF == 0 {
            shared.stats.doorbells += 1;
            self.rung(index, shared);
        } else if !self.take_copy(value, index, shared) {
            match self.mode {
                RecordMode::Written => self.fetch_to(self.producer(), shared),
                RecordMode::NotWritten => self.fetch_to(index.wrapping_add(1), shared),
            }
        }
        true
    }

    /// The producer's index in the record.
    fn producer(&self) -> u16 {
        // Pairs with the release fence in `SendQueue::post`: the requests are written.
        second(self.record.load(0, Ordering::Acquire)) as u16
    }

    /// Reads further if the record lagged behind the doorbell.
    fn catch_up(&mut self, shared: &mut Shared<'_>) -> bool {
        let Some(owed) = self.owed else { return false };
        let producer = self.producer();
        if is_behind(producer, owed) {
            return false;
        }
        self.owed = None;
        self.fetch_to(producer, shared);
        true
    }

    fn rung(&mut self, index: u16, shared: &mut Shared<'_>) {
        match self.mode {
            RecordMode::NotWritten => self.fetch_to(index, shared),
            RecordMode::Written => {
                let producer = self.producer();
                self.owed = None;
                if is_behind(producer, index) {
                    shared.violations.count(Violation::DoorbellBeforeRecord);
                    self.owed = Some(index);
                }
                self.fetch_to(producer, shared);
            }
        }
    }

    /// Takes a BlueFlame copy, if it is the next request and whole.
    fn take_copy(&mut self, head: u64, index: u16, shared: &mut Shared<'_>) -> bool {
        if index != self.fetched as u16 {
            return false;
        }
        let size = (second(head) as usize & 0xFF).min(wqe::WORDS / 2) * 2;
        let mut words = [0; wqe::WORDS];
        for (at, word) in words.iter_mut().enumerate().take(size).skip(1) {
            *word = self.uar.load(at, Ordering::Relaxed);
        }
        words[0] = head;
        // The copy before the second look at its first word: pairs with the release fence in `SendQueue::post`.
        barrier::observe_from_peer();
        if self.uar.load(0, Ordering::Relaxed) != head {
            return false;
        }
        if words[..size] != self.request(self.fetched)[..size] {
            shared.violations.count(Violation::BlueFlameDiffers);
            return false;
        }
        shared.stats.tx_blue_flame += 1;
        self.push(words, shared);
        true
    }

    /// The request in the queue's entry for `index`.
    fn request(&self, index: u64) -> [u64; wqe::WORDS] {
        let at = (index % u64::from(self.entries)) as usize * wqe::WORDS;
        std::array::from_fn(|word| self.window.load(at + word, Ordering::Relaxed))
    }

    /// Reads the requests up to `producer`.
    fn fetch_to(&mut self, producer: u16, shared: &mut Shared<'_>) {
        let mut new = producer.wrapping_sub(self.fetched as u16);
        if new.wrapping_neg() <= self.entries && new != 0 && new > self.entries {
            // A copy was taken before the record was written.
            return;
        }
        let room = self.entries - self.queue.len() as u16;
        if new > room {
            shared.violations.count(Violation::SendOverrun);
            new = room;
        }
        for _ in 0..new {
            self.push(self.request(self.fetched), shared);
        }
    }

    fn push(&mut self, words: [u64; wqe::WORDS], shared: &mut Shared<'_>) {
        let bytes = match Parsed::read(&words) {
            Ok(Parsed { data: Data::Memory(segment), .. }) => {
                shared.memory.read(segment.lkey, segment.address, segment.bytes as usize).ok()
            }
            _ => None,
        };
        self.queue.push_back(Fetched { words, bytes });
        self.fetched += 1;
    }

    /// Does the oldest request that was read. `Some(true)`: the queue pair goes into the error state.
    pub(crate) fn execute<P: Port>(&mut self, port: &mut P, shared: &mut Shared<'_>) -> Option<bool> {
        let request = self.queue.pop_front()?;
        let index = self.done;
        let now = self.request(index);
        self.done += 1;
        let control = Control::of(&request.words);
        if let Some(syndrome) = self.fail_next.take() {
            self.fail(index, control.opcode, syndrome, shared);
            return Some(false);
        }
        let parsed = match self.check(index, &request.words, shared.violations) {
            Ok(parsed) => parsed,
            Err(syndrome) => {
                self.fail(index, control.opcode, syndrome, shared);
                return Some(true);
            }
        };
        let size = usize::from(control.size) * 2;
        if now[..size] != request.words[..size] {
            shared.violations.count(Violation::RequestOverwritten);
        }
        let inline = wqe::bytes(&request.words);
        let mut memory = Vec::new();
        let payload: &[u8] = match parsed.data {
            Data::Nothing => &[],
            Data::Inline { at, len } => inline.get(at..at + len).unwrap_or_default(),
            Data::Memory(segment) => {
                let Ok(bytes) = shared.memory.read(segment.lkey, segment.address, segment.bytes as usize)
                else {
                    self.fail(index, control.opcode, Syndrome::LOCAL_PROTECTION, shared);
                    return Some(true);
                };
                if request.bytes.as_ref() != Some(&bytes) {
                    shared.violations.count(Violation::PayloadOverwritten);
                }
                memory = bytes;
                &memory
            }
        };
        let message = match parsed.operation {
            Operation::Nop => None,
            Operation::Send => Some(Message::Send),
            Operation::SendImm(immediate) => Some(Message::SendImm { immediate }),
            Operation::Write(remote) => Some(Message::Write { address: remote.address, rkey: remote.rkey }),
            Operation::WriteImm(remote, immediate) => {
                Some(Message::WriteImm { address: remote.address, rkey: remote.rkey, immediate })
            }
        };
        if let Some(message) = message {
            shared.stats.tx_inline += u64::from(matches!(parsed.data, Data::Inline { .. }));
            let sent = port.send(message, payload);
            *(if sent { &mut shared.stats.tx_sent } else { &mut shared.stats.tx_lost }) += 1;
        }
        drop(memory);
        if control.completion() == wqe::Completion::Always as u8 {
            shared.stats.tx_completions += 1;
            let entry = Cqe::default()
                .with_opcode_qpn(control.opcode, self.qpn)
                .with_wqe_counter(index as u16)
                .with_owner(opcode::REQUEST, 0);
            self.complete(entry, shared.violations);
        }
        Some(false)
    }

    /// Checks that a NIC makes before it executes a send request.
    fn check(
        &self,
        index: u64,
        words: &[u64; wqe::WORDS],
        violations: &mut Violations,
    ) -> Result<Parsed, Syndrome> {
        let control = Control::of(words);
        let wrong = if control.index != index as u16 {
            Violation::StaleRequest
        } else {
            match Parsed::read(words) {
                Ok(_) if control.qpn != self.qpn => Violation::RequestQueuePair,
                Ok(parsed) => return Ok(parsed),
                Err(_) => Violation::MalformedRequest,
            }
        };
        violations.count(wrong);
        Err(Syndrome::LOCAL_QP_OPERATION)
    }

    fn fail(&mut self, index: u64, request: u8, syndrome: Syndrome, shared: &mut Shared<'_>) {
        let flushed = syndrome == Syndrome::FLUSHED;
        *(if flushed { &mut shared.stats.flushed } else { &mut shared.stats.tx_errors }) += 1;
        let entry = Cqe::default()
            .with_syndrome(syndrome, 0)
            .with_opcode_qpn(request, self.qpn)
            .with_wqe_counter(index as u16)
            .with_owner(opcode::REQUEST_ERROR, 0);
        self.complete(entry, shared.violations);
    }

    fn complete(&mut self, entry: Cqe, violations: &mut Violations) {
        if !self.completions.write(entry) {
            violations.count(Violation::CompletionOverrun);
        }
    }

    /// Flushes what was read; true if there was something.
    pub(crate) fn flush(&mut self, shared: &mut Shared<'_>) -> bool {
        let Some(request) = self.queue.pop_front() else { return false };
        let index = self.done;
        self.done += 1;
        self.fail(index, Control::of(&request.words).opcode, Syndrome::FLUSHED, shared);
        true
    }
}

/// Whether `a` is before `b`, both modulo 2¹⁶.
fn is_behind(a: u16, b: u16) -> bool {
    a != b && b.wrapping_sub(a) < 1 << 15
}

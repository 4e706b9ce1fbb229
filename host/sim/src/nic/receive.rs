//! The receive side: credit, payload, completion.

use crate::nic::completion::CompletionWriter;
use crate::nic::memory::Memory;
use crate::nic::port::Message;
use crate::nic::stats::{Stats, Violation, Violations};
use ringcall_gpu::shared::Words;
use ringcall_mlx5::layout::cqe::{Cqe, Syndrome, opcode};
use ringcall_mlx5::layout::{RECEIVE_WQE_WORDS, Segment, TERMINATE_LKEY, first};
use std::sync::atomic::Ordering;

/// A receive queue, by the NIC.
#[derive(Debug)]
pub(crate) struct Receiver {
    window: Words,
    entries: u16,
    record: Words,
    pub(crate) completions: CompletionWriter,
    /// Requests used up since the start.
    consumed: u64,
    /// The last counter that was too high: reported once.
    over: Option<u16>,
}

impl Receiver {
    pub(crate) fn new(window: Words, entries: u16, record: Words, completions: CompletionWriter) -> Self {
        Self { window, entries, record, completions, consumed: 0, over: None }
    }

    /// Requests posted and not used up.
    pub(crate) fn credit(&mut self, violations: &mut Violations) -> u16 {
        // Pairs with the release fence in `DoorbellRecord::publish_receive`: software has read what it received.
        let posted = first(self.record.load(0, Ordering::Acquire)) as u16;
        let credit = posted.wrapping_sub(self.consumed as u16);
        if credit <= self.entries {
            return credit;
        }
        if self.over != Some(posted) {
            self.over = Some(posted);
            violations.count(Violation::ReceiveOverCredit);
        }
        self.entries
    }

    fn next_segment(&self) -> Segment {
        let at = (self.consumed % u64::from(self.entries)) as usize * RECEIVE_WQE_WORDS;
        Segment::from_words([0, 1].map(|word| self.window.load(at + word, Ordering::Relaxed)))
    }

    fn complete(&mut self, entry: Cqe, violations: &mut Violations) {
        let entry = entry.with_wqe_counter(self.consumed as u16);
        self.consumed += 1;
        if !self.completions.write(entry) {
            violations.count(Violation::CompletionOverrun);
        }
    }

    /// A receive request that fails. The caller has seen that there is one.
    pub(crate) fn fail(&mut self, syndrome: Syndrome, stats: &mut Stats, violations: &mut Violations) {
        let flushed = syndrome == Syndrome::FLUSHED;
        *(if flushed { &mut stats.flushed } else { &mut stats.rx_errors }) += 1;
        let entry = Cqe::default().with_syndrome(syndrome, 0).with_owner(opcode::RESPONSE_ERROR, 0);
        self.complete(entry, violations);
    }

    /// Takes a message in.
    pub(crate) fn deliver(
        &mut self,
        message: Message,
        payload: &[u8],
        memory: &Memory,
        stats: &mut Stats,
        violations: &mut Violations,
    ) {
        let target = match message {
            Message::Write { address, rkey } | Message::WriteImm { address, rkey, .. } => {
                Some((rkey, address))
            }
            Message::Send | Message::SendImm { .. } => None,
        };
        let completes = !matches!(message, Message::Write { .. });
        if completes && self.credit(violations) == 0 {
            stats.rx_no_credit += 1;
            return;
        }
        if let Some((rkey, address)) = target {
            // A write of no bytes touches no memory and needs no key.
            if !payload.is_empty() && memory.write(rkey, address, payload, true).is_err() {
                stats.rx_refused += 1;
                return;
            }
            if !completes {
                stats.rx_writes += 1;
                return;
            }
        } else if let Err(syndrome) = self.scatter(payload, memory) {
            self.fail(syndrome, stats, violations);
            return;
        }
        let (code, immediate) = match message {
            Message::Write { .. } => return,
            Message::WriteImm { immediate, .. } => (opcode::WRITE_IMM, immediate),
            Message::Send => (opcode::SEND, 0),
            Message::SendImm { immediate } => (opcode::SEND_IMM, immediate),
        };
        let bytes = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        let entry = Cqe::default().with_immediate(immediate).with_byte_count(bytes).with_owner(code, 0);
        self.complete(entry, violations);
        stats.rx_delivered += 1;
    }

    /// Puts a send's bytes where the next receive request says.
    fn scatter(&self, payload: &[u8], memory: &Memory) -> Result<(), Syndrome> {
        if payload.is_empty() {
            return Ok(());
        }
        let segment = self.next_segment();
        if segment.lkey == TERMINATE_LKEY || payload.len() > segment.bytes as usize {
            return Err(Syndrome::LOCAL_LENGTH);
        }
        memory.write(segment.lkey, segment.address, payload, false).map_err(|_| Syndrome::LOCAL_PROTECTION)
    }
}

//! Responses: the slot, the send request; then the fences, the record and the bell.

use super::board::Job;
use super::lead::Lead;
use super::{Crew, Machine};
use crate::counters::Event;
use crate::cq::RECORD_MASK;
use crate::endpoint::Reply;
use crate::layout::wqe::{self, Completion, Operation, Remote};
use crate::layout::{self, Segment, pair};
use crate::sq::{RecordMode, SendQueue};
use core::sync::atomic::Ordering;
use ringcall_gpu::barrier;
use ringcall_gpu::stage::Stage;
use ringcall_gpu::team::Warp;
use ringcall_wire::header::{HEADER_BYTES, HEADER_WORDS};

impl<M: Machine> Crew<'_, M> {
    /// Writes a response of `len` bytes behind its header, and the request that sends it; this lane's part of the request.
    ///
    /// The body lies in `output` behind the header's place. What fits goes into the request itself.
    #[inline(always)]
    pub(super) fn respond(
        &self,
        warp: Warp<'_>,
        job: Job,
        header: [u64; HEADER_WORDS],
        len: u32,
        output: Stage<'_>,
    ) -> [u64; 2] {
        let entries = (self.windows.send.len() / wqe::WORDS) as u32;
        let place = (job.index & u64::from(entries - 1)) as u32;
        let total = HEADER_BYTES as u32 + len;
        let words = (total as usize).div_ceil(8);
        let [h0, h1, h2] = header;
        let frame = |word: usize| match word {
            0 => h0,
            1 => h1,
            2 => h2,
            word if word < words => output.word(word),
            _ => 0,
        };
        let operation = match self.config.reply {
            Reply::Send => Operation::Send,
            Reply::WriteImm { base, stride } => {
                let offset = u64::from(job.slot) * u64::from(stride);
                let address = base.address.wrapping_add(offset);
                Operation::WriteImm(Remote { address, ..base }, job.slot)
            }
        };
        let behind = if operation.remote().is_some() { 4 } else { 2 };
        let is_inline = total as usize <= operation.inline_capacity();
        let offset = u64::from(place) * u64::from(self.config.tx_stride);
        let data_segments = if is_inline { (4 + total).div_ceil(wqe::SEGMENT_BYTES as u32) } else { 1 };
        let size = behind as u32 / 2 + data_segments;
        if !is_inline {
            let data = self.windows.tx_data.words();
            let first = (offset / 8) as usize;
            for at in warp.stride(words.div_ceil(2)) {
                data.store_pair(first + 2 * at, [frame(2 * at), frame(2 * at + 1)]);
            }
        }
        let completion = SendQueue::completion_of(job.index, SendQueue::interval_of(entries));
        let control = wqe::control_words(job.index as u16, self.config.qpn, completion, operation, size);
        let remote = operation.remote().map_or([0; 2], Remote::to_words);
        let segment = Segment {
            bytes: total,
            lkey: self.config.tx_lkey,
            address: self.config.tx_base.wrapping_add(offset),
        };
        let segment = segment.to_words();
        let request = |word: usize| match word {
            0 => control[0],
            1 => control[1],
            2 if behind == 4 => remote[0],
            3 if behind == 4 => remote[1],
            word if !is_inline => segment[usize::from(word != behind)],
            word if word == behind => wqe::inline_head(total, h0),
            word => frame(word - behind - 1) >> 32 | frame(word - behind) << 32,
        };
        let at = place as usize * wqe::WORDS;
        let mut own = [0; 2];
        for part in warp.stride(size as usize) {
            own = [request(2 * part), request(2 * part + 1)];
            self.windows.send.store_pair(at + 2 * part, own);
        }
        if warp.lane() == 0 {
            self.board.add(Event::TxPosted, 1);
            self.board.add(Event::TxInline, is_inline.into());
            self.board.add(Event::TxSignalled, (completion == Completion::Always).into());
        }
        own
    }

    /// Makes `sent` send requests and the receive credit visible to the NIC, and rings. `copy` is this lane's part of the
    /// request, where there is exactly one and it is to be copied.
    #[inline(always)]
    pub(super) fn commit(
        &self,
        warp: Warp<'_>,
        lead: &mut Lead,
        sent: u64,
        copy: Option<[u64; 2]>,
        told: bool,
    ) {
        let lane = warp.lane();
        if let Some(pair) = copy {
            self.bell.stage(lane, pair);
        }
        lead.posted += sent;
        let posted = lead.posted as u16;
        warp.sync();
        if lane == 0 {
            lead.send.advance(sent);
            // Requests and responses before whatever makes the NIC read them; and what was received was read before it is
            // received again.
            barrier::publish_to_peer();
        }
        if let Some(pair) = copy {
            if self.bell.is_whole() {
                warp.sync();
            }
            self.bell.copy(lane, pair);
        }
        if lane == 0 {
            let written = self.config.record == RecordMode::Written;
            let ring = layout::doorbell(self.config.qpn, posted);
            if sent > 0 && !written {
                self.ring(ring);
            }
            if told || written {
                lead.record.store_both(lead.receives as u16, if written { posted } else { 0 });
            }
            if let Some(record) = &self.windows.rx_completions_record {
                record.store(0, pair((lead.consumed & RECORD_MASK) as u32, 0), Ordering::Relaxed);
            }
            if sent > 0 && written {
                // The record before the doorbell: the NIC reads the record when it is rung.
                barrier::publish_to_peer();
                self.ring(ring);
            }
        }
    }

    #[inline(always)]
    fn ring(&self, value: u64) {
        use crate::doorbell::Doorbell;
        let mut bell = self.bell;
        bell.ring(value);
    }
}

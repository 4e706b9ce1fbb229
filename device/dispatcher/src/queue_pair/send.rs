//! Responses of a queue pair: response slots, send requests, fences, doorbell record and doorbell.

use super::block_state::{CounterBits, Job};
use super::state::{Done, PollerState, Written};
use super::{Machine, QueuePairDispatcher};
use core::sync::atomic::Ordering;
use ringcall_gpu::barrier;
use ringcall_gpu::staging::StagingBuffer;
use ringcall_gpu::team::Warp;
use ringcall_mlx5::counters::Event;
use ringcall_mlx5::cq::RECORD_MASK;
use ringcall_mlx5::endpoint::{Config, ResponsePath};
use ringcall_mlx5::layout::wqe::{self, Completion, Operation, Remote};
use ringcall_mlx5::layout::{self, Segment, pair};
use ringcall_mlx5::sq::{RecordMode, SendQueue};
use ringcall_wire::header::{HEADER_BYTES, HEADER_WORDS};

/// Writes a response of `len` bytes after its header, and the request that sends it.
///
/// The body is in `output`, after the room for the header. A body that fits is copied into the send request itself.
#[inline(always)]
pub(super) fn respond<M: Machine>(
    dispatcher: &QueuePairDispatcher<'_, M>,
    warp: Warp<'_>,
    job: Job,
    header: [u64; HEADER_WORDS],
    len: u32,
    output: StagingBuffer<'_>,
) -> Written {
    let (send, data) = (&dispatcher.windows.send, dispatcher.windows.tx_data.words());
    let pairs = dispatcher.config.tx_stride as usize / 8;
    let entries = (send.len() / wqe::WORDS) as u32;
    respond_to(
        dispatcher,
        warp,
        job,
        header,
        len,
        output,
        entries,
        |entry, at, pair| data.store_pair(entry as usize * pairs + 2 * at, pair),
        |entry, at, pair| send.store_pair(entry as usize * wqe::WORDS + 2 * at, pair),
    )
}

/// The same with the ways to store a pair of a response and of a send request: they get the queue's entry, the number of
/// the pair, and the pair.
#[inline(always)]
#[allow(clippy::too_many_arguments)] // what a response consists of
pub(super) fn respond_to<M: Machine>(
    dispatcher: &QueuePairDispatcher<'_, M>,
    warp: Warp<'_>,
    job: Job,
    header: [u64; HEADER_WORDS],
    len: u32,
    output: StagingBuffer<'_>,
    entries: u32,
    store_response: impl Fn(u32, usize, [u64; 2]),
    store_request: impl Fn(u32, usize, [u64; 2]),
) -> Written {
    let posted = write_response(
        warp,
        &dispatcher.config,
        job.index,
        job.slot,
        header,
        len,
        output,
        entries,
        store_response,
        store_request,
    );
    let counted = CounterBits::NONE
        .event(Event::TxPosted, true)
        .event(Event::TxInline, posted.is_inline)
        .event(Event::TxSignalled, posted.is_signalled);
    Written { own: posted.own, counted }
}

/// A response and its send request, as they were written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Posted {
    /// The calling lane's part of the send request, for a copy.
    pub(crate) own: [u64; 2],
    /// Whether the request carries its bytes.
    pub(crate) is_inline: bool,
    /// Whether it asks for a completion.
    pub(crate) is_signalled: bool,
}

/// Writes a response of `len` bytes after its header, and the request that sends it: number `index` of the queue pair `config`, whose
/// send queue has so many entries, for the request in slot `slot`. The response's body lies in `output` after the room for the header. The
/// ways to store a pair are as [`respond_to`]'s.
#[inline(always)]
#[allow(clippy::too_many_arguments)] // what a response consists of
pub(crate) fn write_response(
    warp: Warp<'_>,
    config: &Config,
    index: u64,
    slot: u32,
    header: [u64; HEADER_WORDS],
    len: u32,
    output: StagingBuffer<'_>,
    entries: u32,
    store_response: impl Fn(u32, usize, [u64; 2]),
    store_request: impl Fn(u32, usize, [u64; 2]),
) -> Posted {
    let entry = (index & u64::from(entries - 1)) as u32;
    let total = HEADER_BYTES as u32 + len;
    let words = (total as usize).div_ceil(8);
    let [h0, h1, h2] = header;
    // A pair of words of the response; 0 after its end.
    let frame = |pair: usize| {
        let [a, b] = output.pair(pair);
        let [a, b] = match pair {
            0 => [h0, h1],
            1 => [h2, b],
            _ => [a, b],
        };
        [if 2 * pair < words { a } else { 0 }, if 2 * pair + 1 < words { b } else { 0 }]
    };
    let operation = match config.reply {
        ResponsePath::Send => Operation::Send,
        ResponsePath::WriteImm { base, stride } => {
            let offset = u64::from(slot) * u64::from(stride);
            let address = base.address.wrapping_add(offset);
            Operation::WriteImm(Remote { address, ..base }, slot)
        }
    };
    let remote = operation.remote();
    // Segments in front of the data.
    let ahead = if remote.is_some() { 2 } else { 1 };
    let is_inline = total as usize <= operation.inline_capacity();
    let data_segments = if is_inline { (4 + total).div_ceil(wqe::SEGMENT_BYTES as u32) } else { 1 };
    let size = ahead as u32 + data_segments;
    if !is_inline {
        for at in warp.stride(words.div_ceil(2)) {
            store_response(entry, at, frame(at));
        }
    }
    let completion = SendQueue::completion_of(index, SendQueue::interval_of(entries));
    let control = wqe::control_words(index as u16, config.qpn, completion, operation, size);
    let remote = remote.map_or([0; 2], Remote::to_words);
    let offset = u64::from(entry) * u64::from(config.tx_stride);
    let segment =
        Segment { bytes: total, lkey: config.tx_lkey, address: config.tx_base.wrapping_add(offset) };
    let segment = segment.to_words();
    let request = |part: usize| match part {
        0 => control,
        part if part < ahead => remote,
        _ if !is_inline => segment,
        part => {
            // After a length of four bytes.
            let at = part - ahead;
            let [a, b] = frame(at);
            let first = if at == 0 {
                wqe::inline_head(total, h0)
            } else {
                let [_, before] = frame(at - 1);
                before >> 32 | a << 32
            };
            [first, a >> 32 | b << 32]
        }
    };
    let mut own = [0; 2];
    for part in warp.stride(size as usize) {
        own = request(part);
        store_request(entry, part, own);
    }
    Posted { own, is_inline, is_signalled: completion == Completion::Always }
}

/// Makes send requests and the receive credit visible to the NIC, and rings. `copy` is this lane's part of the request,
/// where there is exactly one and it is to be copied.
#[inline(always)]
pub(super) fn commit<M: Machine>(
    dispatcher: &QueuePairDispatcher<'_, M>,
    warp: Warp<'_>,
    poller: &mut PollerState,
    done: Done,
    copy: Option<[u64; 2]>,
) {
    let lane = warp.lane();
    if let Some(pair) = copy {
        dispatcher.bell.copy_early(lane, pair);
    }
    warp.sync();
    if lane == 0 {
        // Requests and responses before the store that makes the NIC read them; and what was received was
        // read before it is received again.
        barrier::publish_to_peer();
    }
    if let Some(pair) = copy {
        if dispatcher.bell.is_whole() {
            warp.sync();
        }
        dispatcher.bell.copy(lane, pair);
    }
    let Done { completions, receives, sent } = done;
    poller.consumed += completions;
    poller.receives += receives;
    poller.posted += sent;
    if lane == 0 {
        poller.send.advance(sent);
        let posted = poller.posted as u16;
        let written = dispatcher.config.record == RecordMode::Written;
        let ring = layout::doorbell(dispatcher.config.qpn, posted);
        if sent > 0 && !written {
            ring_doorbell(dispatcher, ring);
        }
        if receives > 0 || written {
            poller.record.store_both(poller.receives as u16, if written { posted } else { 0 });
        }
        if let Some(record) = &dispatcher.windows.rx_completions_record {
            record.store(0, pair((poller.consumed & RECORD_MASK) as u32, 0), Ordering::Relaxed);
        }
        if sent > 0 && written {
            // The record before the doorbell: the NIC reads the record when it is rung.
            barrier::publish_to_peer();
            ring_doorbell(dispatcher, ring);
        }
    }
}

#[inline(always)]
fn ring_doorbell<M: Machine>(dispatcher: &QueuePairDispatcher<'_, M>, value: u64) {
    use ringcall_mlx5::doorbell::Doorbell;
    let mut bell = dispatcher.bell;
    bell.ring(value);
}

//! The queues of a NIC, from raw parameters.

use crate::window::words;
use ringcall_dispatcher::queue_pair::single::Extent;
use ringcall_gpu::shared::Bytes;
use ringcall_mlx5::endpoint::{Config, ResponsePath, Windows};
use ringcall_mlx5::layout::wqe::Remote;
use ringcall_mlx5::layout::{RECEIVE_WQE_WORDS, cqe, wqe};
use ringcall_mlx5::rq::Buffers;
use ringcall_mlx5::sq::RecordMode;
use ringcall_wire::unified::{UnifiedParams, control, options};

/// How long requests are.
pub(crate) fn extent(params: &UnifiedParams) -> Extent {
    if params.options & options::WHOLE_SLOTS != 0 { Extent::Slot } else { Extent::Received }
}

/// The queue pair that the parameters describe.
pub(crate) fn config(params: &UnifiedParams) -> Config {
    let has = |option| params.options & option != 0;
    let buffers = if has(options::RECEIVE_SENDS) {
        Buffers::Slots { lkey: params.rx_lkey, base: params.rx_base, stride: params.rx_stride }
    } else {
        Buffers::Credits
    };
    let reply = if has(options::REPLY_WRITE) {
        let base = Remote { address: params.remote_base, rkey: params.remote_rkey };
        ResponsePath::WriteImm { base, stride: params.remote_stride }
    } else {
        ResponsePath::Send
    };
    Config {
        qpn: params.qpn,
        slots: params.slots,
        rx_stride: params.rx_stride,
        tx_stride: params.tx_stride,
        tx_lkey: params.tx_lkey,
        tx_base: params.tx_base,
        depth: params.depth,
        buffers,
        sequence: has(options::SEQUENCE),
        reply,
        record: if has(options::NO_RECORD) { RecordMode::NotWritten } else { RecordMode::Written },
    }
}

/// Its memory.
///
/// # Safety
/// `params` is what the host filled: addresses of queues, slots and a control block that outlive the kernel.
pub(crate) unsafe fn windows(params: &UnifiedParams) -> Option<Windows> {
    // SAFETY: the caller's promise.
    let queue = |address, entries: u32, each: usize| unsafe { words(address, entries as usize * each) };
    let record = |address| if address == 0 { Some(None) } else { queue(address, 1, 1).map(Some) };
    let bytes = |address: u64, count: u32, stride: u32| {
        // SAFETY: the caller's promise.
        unsafe { Bytes::from_raw(address as usize as *mut u8, count as usize * stride as usize) }.ok()
    };
    Some(Windows {
        rx_completions: queue(params.rx_completions, params.rx_completion_entries, cqe::WORDS)?,
        rx_completions_record: record(params.rx_completions_record)?,
        receive: queue(params.receive, params.receive_entries, RECEIVE_WQE_WORDS)?,
        tx_completions: queue(params.tx_completions, params.tx_completion_entries, cqe::WORDS)?,
        tx_completions_record: record(params.tx_completions_record)?,
        send: queue(params.send, params.send_entries, wqe::WORDS)?,
        record: queue(params.record, 1, 1)?,
        rx_data: bytes(params.rx_data, params.slots, params.rx_stride)?,
        tx_data: bytes(params.tx_data, params.send_entries, params.tx_stride)?,
        counters: queue(params.control + control::EVENTS as u64 * 8, control::MOST_EVENTS as u32, 1)?,
        shutdown: queue(params.control + control::STOP as u64 * 8, 1, 1)?,
    })
}

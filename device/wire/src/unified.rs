//! What a host and its unified kernel agree on: where the queues of a NIC are, and the control block.
//!
//! The conventions are those of [`launch`], whose table and control words are used here too.

use crate::launch::{self, MAX_WARPS};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Option bits of [`UnifiedParams::options`].
pub mod options {
    /// The doorbell record is not written: the NIC keeps the send counter itself.
    pub const NO_RECORD: u32 = 1;
    /// A request that is sent alone is copied to the doorbell register as well, as one 64-byte store.
    pub const BLUE_FLAME: u32 = 2;
    /// The copy lies in memory that is polled, whose reader looks at its first word: that word is stored last.
    pub const BLUE_FLAME_FIRST_WORD_LAST: u32 = 4;
    /// Sends are accepted: receive request `k` takes its bytes to slot `k`.
    pub const RECEIVE_SENDS: u32 = 8;
    /// The immediates' upper 20 bits number the messages.
    pub const SEQUENCE: u32 = 16;
    /// Responses are written into the peer's slots, with immediate; otherwise they are sent.
    pub const REPLY_WRITE: u32 = 32;
    /// A request is as long as its slot, however many bytes were received: it was written by several
    /// messages.
    pub const WHOLE_SLOTS: u32 = 64;
}

/// Parameters of the unified kernels, passed by value; also what a transport behind hooks finds in its context.
///
/// Addresses are the device's, unless they are said to be in a region's terms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct UnifiedParams {
    /// The receive side's completion queue.
    pub rx_completions: u64,
    /// Its doorbell record; 0 where the NIC does not ask what was read.
    pub rx_completions_record: u64,
    /// The receive queue.
    pub receive: u64,
    /// The send side's completion queue.
    pub tx_completions: u64,
    /// Its doorbell record; 0 where the NIC does not ask what was read.
    pub tx_completions_record: u64,
    /// The send queue.
    pub send: u64,
    /// The queue pair's doorbell record.
    pub record: u64,
    /// The doorbell register, 64 bytes of it.
    pub uar: u64,
    /// Request slots.
    pub rx_data: u64,
    /// Response slots, as many as the send queue has entries.
    pub tx_data: u64,
    /// Address of request slot 0 in its region's terms.
    pub rx_base: u64,
    /// Address of response slot 0 in its region's terms.
    pub tx_base: u64,
    /// Where responses are written: the peer's slot 0, in its region's terms.
    pub remote_base: u64,
    /// [`DeviceEntry`](launch::DeviceEntry)s.
    pub entries: u64,
    /// [`TableCell`](launch::TableCell)s.
    pub cells: u64,
    /// The [`control`] block, in mapped memory.
    pub control: u64,
    /// Device memory for staging; 0 where shared memory holds the staging buffers.
    pub scratch: u64,
    /// What a transport behind hooks is attached to.
    pub context: u64,
    /// Where the threads of a cooperative grid meet (zeroed device memory); else 0.
    pub grid: u64,
    /// The [`saved`](launch::saved) words of a kernel that launches graphs, in device memory; else 0.
    pub saved: u64,
    /// Where such a kernel keeps requests that wait for a graph and answers that a graph wrote, in device memory; else 0.
    pub pending: u64,
    /// Entries of the receive side's completion queue, a power of two.
    pub rx_completion_entries: u32,
    /// Entries of the receive queue, a power of two.
    pub receive_entries: u32,
    /// Entries of the send side's completion queue, a power of two.
    pub tx_completion_entries: u32,
    /// Entries of the send queue, a power of two.
    pub send_entries: u32,
    /// The queue pair's number.
    pub qpn: u32,
    /// Receive requests posted at any time.
    pub depth: u32,
    /// Request slots.
    pub slots: u32,
    /// Bytes from one request slot to the next.
    pub rx_stride: u32,
    /// Bytes from one response slot to the next.
    pub tx_stride: u32,
    /// Key of the request slots' region, as a number.
    pub rx_lkey: u32,
    /// Key of the response slots' region, as a number.
    pub tx_lkey: u32,
    /// Key of the peer's region, as a number.
    pub remote_rkey: u32,
    /// Bytes from one slot of the peer's to the next.
    pub remote_stride: u32,
    /// How many entries.
    pub entry_count: u32,
    /// How many cells.
    pub cell_count: u32,
    /// Multiplier of the id index.
    pub multiplier: u32,
    /// Shift of the id index.
    pub shift: u32,
    /// [`options`].
    pub options: u32,
    /// Bytes of one staging buffer.
    pub staging_bytes: u32,
    /// Executables of all graphs; the pending table has room for an answer of each ([`io::ANSWER`](launch::io::ANSWER)).
    pub execs: u32,
}

/// Parameters of the two kernels that stand around a dispatcher of a ring, passed by value: one fills the ring from a queue pair, the
/// other sends its answers. Each has its own [`control`] block; of the queues each works its side alone.
///
/// The ring's request slots are [`UnifiedParams::rx_data`], and its response slots have [`UnifiedParams::tx_stride`] bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct RelayParams {
    /// The queue pair. [`scratch`](UnifiedParams::scratch) and [`staging_bytes`](UnifiedParams::staging_bytes) are the sender's staging buffer.
    pub queues: UnifiedParams,
    /// The ring's request flags.
    pub rx_flags: u64,
    /// The ring's response flags.
    pub tx_flags: u64,
    /// The ring's response slots.
    pub responses: u64,
}

/// The control block: the words of [`launch::control`], and after them what a queue pair has more. Word offsets.
pub mod control {
    use super::{MAX_WARPS, launch};

    pub use launch::control::{
        BUSY, BUSY_WORDS, COUNTERS, HEARTBEAT, LAUNCH_ERROR, LAUNCHES, RELAUNCH_ERROR, RELAUNCHES, STATE,
        STATE_ENDED, STATE_FAILED, STATE_NEW, STATE_RUNNING, STOP, STOP_DRAIN, STOP_NO, STOP_NOW,
    };

    /// Device to host: what happened on the queues, a word an event.
    pub const EVENTS: usize = launch::control::WORDS;
    /// Room for that many.
    pub const MOST_EVENTS: usize = 32;
    /// Device to host, and back at the next start: the cursors, from here on.
    pub const CURSORS: usize = EVENTS + MOST_EVENTS;
    /// Whether the queues were ever worked: 1 from the first start on.
    pub const OPENED: usize = CURSORS;
    /// Completions read on the receive side.
    pub const CONSUMED: usize = CURSORS + 1;
    /// Receive requests posted.
    pub const RECEIVES: usize = CURSORS + 2;
    /// Send requests posted.
    pub const POSTED: usize = CURSORS + 3;
    /// Send requests that the NIC is done with.
    pub const DONE: usize = CURSORS + 4;
    /// Completions read on the send side.
    pub const SEND_CONSUMED: usize = CURSORS + 5;
    /// One more than the number of the newest message; 0 before the first.
    pub const SEQUENCE: usize = CURSORS + 6;
    /// The syndrome that ended the queue pair; 0 while it lives.
    pub const DEAD: usize = CURSORS + 7;
    /// Requests that were taken and not answered when a kernel that launches graphs ended: the next start answers them.
    pub const HELD: usize = CURSORS + 8;
    /// Words of a control block.
    pub const WORDS: usize = CURSORS + 16;

    const _: () = assert!(BUSY + BUSY_WORDS * MAX_WARPS <= EVENTS && WORDS.is_multiple_of(16));
}

/// What a transport behind hooks has to itself while a kernel runs (`CUDAQ_DEV_TRANSPORT_SESSION_BYTES`).
pub const SESSION_BYTES: usize = 256;
/// Its alignment.
pub const SESSION_ALIGN: usize = 16;
/// Bytes of device memory, zeroed once, in which the transport over the queues of a NIC keeps its state from one start to the
/// next ([`UnifiedParams::scratch`] of its context), 16-byte aligned.
pub const TRANSPORT_STATE_BYTES: usize = 4096;
/// What `cudaq_dev_rx_poll` returns: a request is there.
pub const RX_READY: i32 = 0;
/// What `cudaq_dev_rx_poll` returns: the end.
pub const RX_SHUTDOWN: i32 = 1;

const _: () = assert!(size_of::<UnifiedParams>() == 21 * 8 + 20 * 4);
const _: () = assert!(size_of::<RelayParams>() == size_of::<UnifiedParams>() + 3 * 8);

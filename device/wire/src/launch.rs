//! What a host and its device dispatcher agree on: kernel parameters, tables, the control block, graph contexts.
//!
//! Everything here is memory that one side writes and the other reads, so one module has it for both. All
//! words are little-endian `u64`s at 8-byte aligned addresses; addresses are the device's.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Warps of a block at most: the scheduler of one block hands out to 31 others.
pub const MAX_WARPS: usize = 32;
/// Slots of a ring that a device dispatcher polls, at most: what the 12-bit page number of an RDMA immediate can name.
pub const MAX_SLOTS: u32 = 4096;
/// Graph launches that one execution of a graph can make; the next one fails.
pub const LAUNCHES_PER_EXECUTION: u64 = 120;

/// How a function of a device table is run. Numbers of [`DeviceEntry::kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum HandlerKind {
    /// One thread calls it; the C-compatible kind.
    Thread = 0,
    /// All 32 lanes of a warp call it, converged.
    Warp = 1,
    /// All threads of a cooperative grid call it.
    Grid = 2,
    /// A graph is launched for it.
    Graph = 3,
    /// Another dispatcher of the same ring serves it: its requests are left alone.
    OtherDispatcher = 4,
}

impl HandlerKind {
    /// From the raw number.
    #[must_use]
    pub const fn from_raw(raw: u32) -> Option<Self> {
        match raw {
            0 => Some(Self::Thread),
            1 => Some(Self::Warp),
            2 => Some(Self::Grid),
            3 => Some(Self::Graph),
            4 => Some(Self::OtherDispatcher),
            _ => None,
        }
    }
}

/// One cell of the id index: which entry an id has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct TableCell {
    /// The id.
    pub id: u32,
    /// The entry's number; `u32::MAX` in an empty cell.
    pub entry: u32,
}

/// One function of a device table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct DeviceEntry {
    /// Address of the device function; for a graph, of its first [`io`] block; for a program's own graph
    /// ([`is_foreign`](Self::is_foreign)), its executable's handle.
    pub address: u64,
    /// Raw function id.
    pub id: u32,
    /// Raw [`HandlerKind`].
    pub kind: u32,
    /// Payload bytes that the schema demands; `u32::MAX` for any.
    pub arg_bytes: u32,
    /// Entry of the graph that this handler may trigger, or [`DeviceEntry::NONE`].
    pub follow_up: u32,
    /// For a graph: how many executables it has, one [`io`] block each; 0 for a program's own.
    pub execs: u32,
    /// For a graph: bytes from one [`io`] block to the next.
    pub io_stride: u32,
    /// Routing key: which of several graphs under one id this is; 0 when there is one.
    pub routing_key: u64,
    /// The next entry with the same id and another routing key, or [`DeviceEntry::NONE`].
    pub next_route: u32,
    /// Zero.
    pub reserved: u32,
}

impl DeviceEntry {
    /// No such entry; also "any length" in `arg_bytes`.
    pub const NONE: u32 = u32::MAX;

    /// Whether this is a graph of a program's own: one executable, which knows of no mailbox, and finds its request through
    /// the one [`context`] of all such graphs, if it is launched for one.
    #[must_use]
    #[inline(always)]
    pub const fn is_foreign(&self) -> bool {
        self.kind == HandlerKind::Graph as u32 && self.execs == 0
    }
}

/// Option bits of [`DispatchParams::options`].
pub mod options {
    /// Other dispatchers serve this ring too: leave every request for another function to them.
    pub const SHARED_RING: u32 = 1;
    /// Do not set the in-flight mark for graph launches (for peers that do not know it).
    pub const SKIP_MARKS: u32 = 2;
    /// The default one of several dispatchers of this ring: its table has the functions of the others
    /// ([`HandlerKind::OtherDispatcher`](super::HandlerKind::OtherDispatcher)), and a request that was seen may be taken by
    /// these.
    pub const DEFAULT_OF_SEVERAL: u32 = 4;
    /// Take bad requests ([`Status::is_bad_request`](crate::status::Status::is_bad_request)) out of their slots without an
    /// answer.
    pub const DROP_BAD_REQUESTS: u32 = 8;
    /// A warp calls threads' handlers one at a time, in the order of the slots, also where it serves several requests at once.
    pub const SERIAL_HANDLERS: u32 = 16;
}

/// Parameters of every dispatch kernel, passed by value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct DispatchParams {
    /// One word a slot, set by the producer.
    pub rx_flags: u64,
    /// One word a slot, set by the dispatcher.
    pub tx_flags: u64,
    /// Request slots.
    pub rx_data: u64,
    /// Response slots.
    pub tx_data: u64,
    /// Address of request slot 0 as the producer may write it into flags (the host's address of mapped memory).
    pub rx_peer: u64,
    /// [`DeviceEntry`]s.
    pub entries: u64,
    /// [`TableCell`]s.
    pub cells: u64,
    /// The [`control`] blocks, one a block of the grid.
    pub control: u64,
    /// The cursors and counts that outlive a relaunch: [`saved::WORDS`] words of device memory for each block.
    pub saved: u64,
    /// Device memory for staging, where shared memory is too small for two slots a warp; else 0.
    pub scratch: u64,
    /// Where the threads of a cooperative grid meet (zeroed device memory); else 0.
    pub grid: u64,
    /// Slots of the ring.
    pub slots: u32,
    /// Bytes from one request slot to the next.
    pub rx_stride: u32,
    /// Bytes from one response slot to the next.
    pub tx_stride: u32,
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
    /// Bytes of one staging buffer: a request slot or a response slot, rounded up to 16.
    pub staging_bytes: u32,
    /// Nanoseconds that an idle warp sleeps between looks at its mailbox.
    pub sleep_ns: u32,
    /// Blocks that run a grid's handlers, where the block after them serves; else 0.
    pub handler_blocks: u32,
    /// 0.
    pub reserved: u32,
    /// Address of a function in which the threads of these blocks follow; 0 for the dispatcher's own. See
    /// `kernels-cu/grid_channel.cuh`.
    pub participant: u64,
}

/// The control block: mapped memory, one for each block of the grid. Word offsets.
pub mod control {
    use crate::counter::Counter;

    /// Host to device: one of the `STOP_` values.
    pub const STOP: usize = 0;
    /// Go on.
    pub const STOP_NO: u64 = 0;
    /// Serve the requests in the ring, then end.
    pub const STOP_DRAIN: u64 = 1;
    /// End once the handlers that run now have returned.
    pub const STOP_NOW: u64 = 2;

    /// Device to host: one of the `STATE_` values.
    pub const STATE: usize = 16;
    /// Not yet running.
    pub const STATE_NEW: u64 = 0;
    /// Polling.
    pub const STATE_RUNNING: u64 = 1;
    /// Ended, everything handed out was answered.
    pub const STATE_ENDED: u64 = 2;
    /// Could not relaunch itself and ended; the code is in [`RELAUNCH_ERROR`].
    pub const STATE_FAILED: u64 = 3;
    /// Device to host: moves on while the dispatcher lives.
    pub const HEARTBEAT: usize = 17;
    /// Device to host: the block's clock, ticks, when the rest was written.
    pub const NOW: usize = 18;
    /// Device to host: graph launches so far.
    pub const LAUNCHES: usize = 19;
    /// Device to host: times the dispatcher relaunched itself.
    pub const RELAUNCHES: usize = 20;
    /// Device to host: CUDA code of a failed relaunch.
    pub const RELAUNCH_ERROR: usize = 21;
    /// Device to host: CUDA code of the last failed graph launch.
    pub const LAUNCH_ERROR: usize = 22;
    /// Device to host: launches of a program's trigger graph so far, failed ones too.
    pub const TRIGGERS: usize = 23;
    /// Device to host: CUDA code of the last of these; 0: it succeeded.
    pub const TRIGGER_ERROR: usize = 24;
    /// Device to host: when that was, ns of the device's global timer.
    pub const TRIGGERED_AT: usize = 25;
    /// Device to host: the launch that the three words before are being written for: as [`TRIGGERS`], but before them.
    pub const TRIGGER_BEGUN: usize = 26;

    /// Device to host: the counters.
    pub const COUNTERS: usize = 32;
    /// Device to host: what each warp does, [`BUSY_WORDS`] words a warp.
    pub const BUSY: usize = 96;
    /// Words of one warp's record: slot + 1 (low half) and function id (high half), 0 when idle; and since when (ticks).
    pub const BUSY_WORDS: usize = 2;
    /// Words of a control block.
    pub const WORDS: usize = BUSY + BUSY_WORDS * super::MAX_WARPS + 32;

    const _: () = assert!(COUNTERS + Counter::COUNT <= BUSY && WORDS.is_multiple_of(16));
}

/// What outlives a relaunch of a graph-launching dispatcher. Word offsets.
pub mod saved {
    use crate::counter::Counter;

    /// Where polling continues, 16 bits each: the window that is looked at every turn, the bit of it after that
    /// of the last request, the window that the sweep had come to.
    pub const CURSOR: usize = 0;
    /// Heartbeats so far.
    pub const HEARTBEAT: usize = 1;
    /// Graph launches so far.
    pub const LAUNCHES: usize = 2;
    /// Relaunches so far.
    pub const RELAUNCHES: usize = 3;
    /// Children that ended: counted by the children themselves.
    pub const FINISHED: usize = 4;
    /// Launches so far whose end no child counts: of a program's own graphs.
    pub const UNCOUNTED: usize = 5;
    /// Looks since a drain began, of earlier executions.
    pub const DRAINED: usize = 6;
    /// Address of the [`context`](super::context) of a program's own graphs; 0 where there is none. Written by the host, once.
    pub const CONTEXT: usize = 7;
    /// Who has the context: 0 none, [`TAKEN`] a warp, else turn (high half) and slot + 1 (low half) of the
    /// request whose graph was launched.
    pub const HOLDER: usize = 8;
    /// Value of [`HOLDER`] while a warp fills the context, or looks what became of its request.
    pub const TAKEN: u64 = u64::MAX;
    /// Turns of the context so far.
    pub const TURN: usize = 9;
    /// Header of the holder's request: three words.
    pub const HEADER: usize = 10;
    /// When the holder's graph was launched, ticks.
    pub const SINCE: usize = 13;
    /// Ticks after which a graph that has not answered is waited for by a relaunch. Written by the host, once.
    pub const LIMIT: usize = 14;
    /// Slot + 1 of the request that has the context next, since its launch failed before; 0: whichever is first.
    pub const NEXT: usize = 15;
    /// The counters.
    pub const COUNTERS: usize = 16;
    /// What launched graphs counted themselves: added to by them, atomically.
    pub const CHILDREN: usize = 48;
    /// Launches of a program's trigger graph so far, failed ones too.
    pub const TRIGGERS: usize = 79;
    /// Words.
    pub const WORDS: usize = 80;

    const _: () = assert!(
        COUNTERS + Counter::COUNT <= CHILDREN && CHILDREN + Counter::COUNT <= TRIGGERS && TRIGGERS < WORDS
    );
}

/// What a program's own graphs find their request by (`GraphIOContext` of the CUDA-Q Realtime host API): memory of the
/// program's, filled before each launch. Word offsets.
pub mod context {
    /// Address of the request slot.
    pub const RX_SLOT: usize = 0;
    /// Address of the response slot.
    pub const TX_SLOT: usize = 1;
    /// Address of the response flag.
    pub const TX_FLAG: usize = 2;
    /// Value that the response flag is set to.
    pub const TX_VALUE: usize = 3;
    /// Bytes of the response slot.
    pub const TX_STRIDE: usize = 4;
    /// Words.
    pub const WORDS: usize = 5;
}

/// One graph executable's mailbox: device memory, filled before each launch, read by the child graph. Word offsets; the
/// payload follows at byte [`io::PAYLOAD`].
pub mod io {
    /// 0 idle, 1 launched. Set by the dispatcher, cleared by the child's last kernel.
    pub const STATE: usize = 0;
    /// No agent uses it.
    pub const IDLE: u64 = 0;
    /// Launched and not yet finished.
    pub const LAUNCHED: u64 = 1;
    /// The executable graph's handle. Written by the host, once.
    pub const EXEC: usize = 1;
    /// The request's header, three words.
    pub const HEADER: usize = 2;
    /// Address of the response slot; 0 where no answer is owed (a follow-up).
    pub const TX_SLOT: usize = 5;
    /// Address of the response flag.
    pub const TX_FLAG: usize = 6;
    /// Value that the response flag is set to.
    pub const TX_VALUE: usize = 7;
    /// Result bytes that fit.
    pub const TX_CAPACITY: usize = 8;
    /// Payload bytes.
    pub const ARG_LEN: usize = 9;
    /// Address of the word that counts finished children ([`saved::FINISHED`](super::saved::FINISHED)). Written by the host, once.
    pub const FINISHED: usize = 10;
    /// Slot of the request.
    pub const SLOT: usize = 11;
    /// For the graph's own kernels, from one to the next.
    pub const SCRATCH: usize = 12;
    /// Address of the children's counters ([`saved::CHILDREN`](super::saved::CHILDREN)). Written by the host, once.
    pub const COUNTERS: usize = 13;
    /// Address of a word that is 0 when the graph may go on (its consumer has taken the last output); 0 where there is
    /// none. Written by the host, once.
    pub const CREDIT: usize = 14;
    /// Address of a word that is 0 when the graph may be *launched*; 0 where there is none. Until then its requests stay in
    /// the ring. Written by the host, once, and by the graph's own kernels before they free the mailbox.
    pub const GATE: usize = 15;
    /// Where the dispatcher has no ring: this executable's index among all executables, which is also that of its answer on
    /// the pending table. Written by the host, once.
    pub const ANSWER: usize = 16;
    /// First byte of the payload.
    pub const PAYLOAD: usize = 144;
}

const _: () = {
    assert!(size_of::<TableCell>() == 8 && size_of::<DeviceEntry>() == 48);
    assert!(size_of::<DispatchParams>() == 144);
};

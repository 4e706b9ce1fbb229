//! The persistent dispatcher: warps of one block that take turns at polling a ring.
//!
//! Written in terms of [`Warp`], so that a kernel and a CPU test run the same code: on a device 32
//! lanes in lock step, on a CPU threads that play them.
//!
//! # Who does what
//! One warp is the *poller*: it polls the request flags, two a lane, with one wide read. When it sees requests it hands polling to a
//! free warp, all but one of the requests to other free warps, and serves the last itself. So the one request of
//! an idle ring is served by the warp that saw it, with no hand-off in its way; the ring is polled again at once; and no
//! slot waits for another, as long as a warp is free. What no warp is free for waits in the block state, and the next free one takes
//! it. The last warp does the maintenance: it publishes the answers to requests that came together, with one fence for all of them,
//! clears request flags, reads the stop word, and copies counters and busy records to mapped memory.
//!
//! Where more requests are ready than warps are free, a warp takes several and serves them at once (`batch`): each lane calls the
//! handler of one.
//!
//! The fast path, one request alone, is written out apart (`fast_path`), in as few instructions as it takes: the poller that sees it
//! serves it, and the next poller lets it be answered before it polls. A warp that does everything stays with it when several come.
//!
//! # Serving
//! The request is fetched with one burst of wide loads into the warp's [`StagingBuffer`], together with the response
//! flag, checked there ([`validate`](ringcall_protocol::validate)), handed to its function, and the response
//! leaves with wide stores. The warp of a request that came alone publishes it itself; the request flag is
//! always cleared after a separate fence, after the response flag. The slot's life cycle is the types of
//! [`slot`](ringcall_protocol::slot), over a memory that is the staged slot.
//!
//! | module | what |
//! |---|---|
//! | [`block_state`] | what the warps of a block share: mailboxes, cursor, counters |
//! | [`table`] | functions as a device finds them |
//! | [`layout`] | where all this lies in shared memory |
//! | [`slot_copy`] | one slot, fetched into a staging buffer, as a memory |
//! | `poller`, `hand_out`, `serve`, `graphs`, `maintenance` | the roles |
//! | `answer` | how a request ends: answered, refused, left in the ring |
//! | `slot_state`, `poll`, `bits` | what the roles are made of: slot states, loads and votes, bits |
//! | `fast_path` | polling and serving one request alone |
//! | `batch` | serving several at once, a lane each |
//! | [`launcher`] | launching graphs: budget, executables, mailboxes |
//! | `program_graphs`, `program_context` | launching a program's own graphs, which know of no mailbox; which request has their context |
//! | `backoff` | how long after an answer is not polled: `wait_ticks_since` |
//! | [`graph_end`] | the other end of a graph launch |
//! | [`grid`] | the same for a grid whose threads all take part in a call |

mod answer;
mod backoff;
mod batch;
mod bits;
pub mod block_state;
mod fast_path;
pub mod graph_end;
mod graphs;
pub mod grid;
mod hand_out;
pub mod launcher;
pub mod layout;
mod maintenance;
mod partition;
mod poll;
mod poller;
mod program_context;
mod program_graphs;
mod serve;
pub mod slot_copy;
mod slot_state;
pub mod table;
pub mod triggers;

use batch::Batch;
pub use block_state::BlockState;
use block_state::WarpCommand;
use fast_path::FastPath;
pub use layout::Layout;
pub use partition::Partition;
pub use serve::staging_bytes;
pub use table::DeviceTable;

use ringcall_gpu::atomic::BlockU64;
use ringcall_gpu::shared::Words;
use ringcall_gpu::staging::StagingBuffer;
use ringcall_gpu::team::Warp;
use ringcall_protocol::{RingMemory, SharedRing};

/// What a handler came back with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Returned {
    /// 0, or the status to answer with.
    pub status: i32,
    /// Bytes of the result it says it wrote.
    pub len: u32,
}

/// What a warp is to serve.
#[derive(Clone, Copy)]
pub(crate) enum Work {
    /// One request.
    One(slot_state::Job),
    /// Several at once.
    Many(Batch),
    /// Several, each alone.
    Alone(Batch),
}

/// A warp that serves, and its memory.
#[derive(Clone, Copy)]
pub(crate) struct WarpContext<'a> {
    pub(crate) warp: Warp<'a>,
    /// The warp's number in its block.
    pub(crate) me: u32,
    /// The staging buffer that requests are read into.
    pub(crate) input: StagingBuffer<'a>,
    /// The staging buffer that results are written into.
    pub(crate) output: StagingBuffer<'a>,
}

/// One call of a handler.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The handler's address, as the table has it.
    pub address: u64,
    /// Where the request lies, header first.
    pub input: StagingBuffer<'a>,
    /// Where the result goes, after room for a header.
    pub output: StagingBuffer<'a>,
    /// Payload bytes: no more than the slot takes.
    pub arg_len: u32,
    /// Room for the result.
    pub capacity: u32,
}

/// What the code of this module cannot do by itself: jump to an address, launch, sleep.
pub trait Machine {
    /// Whether graphs can be launched.
    const GRAPHS: bool = false;
    /// Whether a warp may serve several requests at once. Not where graphs are launched, or where the staging buffers are in device memory.
    const BATCHES: bool = !Self::GRAPHS;

    /// Calls a thread's handler. By one lane, or by several lanes with a call of their own each.
    fn call_thread(&self, call: &Call<'_>) -> Returned;

    /// Calls a warp's handler. By all lanes, converged.
    fn call_warp(&self, warp: Warp<'_>, call: &Call<'_>) -> Returned;

    /// Calls a grid's handler with all threads of the grid. By all lanes of the polling warp, whose lane 0 does `meanwhile` when
    /// the others have been called, before its own part. `None`, and nothing is done, where there is no grid.
    fn call_grid(&self, warp: Warp<'_>, call: &Call<'_>, meanwhile: impl FnOnce()) -> Option<Returned> {
        let _ = (warp, call, meanwhile);
        None
    }

    /// Launches a graph. By one lane.
    ///
    /// # Errors
    /// The CUDA error code.
    fn launch(&self, exec: u64) -> Result<(), i32> {
        let _ = exec;
        Err(i32::MAX)
    }

    /// A graph's mailbox of `words` words at `address`, which the host put into the table.
    fn mailbox(&self, address: u64, words: usize) -> Option<Words> {
        let _ = (address, words);
        None
    }

    /// Launches the dispatcher itself again, for when it has ended. By one lane.
    ///
    /// # Errors
    /// The CUDA error code.
    fn relaunch(&self) -> Result<(), i32> {
        Err(i32::MAX)
    }

    /// A warp with nothing to do waits a moment.
    fn sleep(&self);
    /// The maintenance warp waits until its next round.
    fn sleep_until_next_round(&self);
}

/// How a dispatcher behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RingOptions {
    /// Other dispatchers serve this ring too: requests for functions that are not in the table are left to them.
    pub shared_ring: bool,
    /// The default one of several dispatchers: others serve some functions of the table
    /// ([`HandlerKind::OtherDispatcher`](ringcall_wire::launch::HandlerKind::OtherDispatcher)), and malformed and unknown
    /// requests are answered here. For every table with such entries.
    pub default_of_several: bool,
    /// No in-flight mark for graph launches.
    pub skip_marks: bool,
    /// Bad requests ([`Status::is_bad_request`](ringcall_wire::status::Status::is_bad_request)) are counted and taken out of
    /// their slots without an answer.
    pub drop_bad_requests: bool,
    /// A warp calls threads' handlers one at a time, in the order of the slots, also where it serves several requests at once.
    pub serial_handlers: bool,
}

impl RingOptions {
    /// Whether a request that was seen may be taken away by another dispatcher.
    #[inline(always)]
    const fn is_shared(self) -> bool {
        self.shared_ring || self.default_of_several
    }
}

/// One block's dispatcher, as every warp of the block has it.
#[derive(Debug, Clone, Copy)]
pub struct BlockDispatcher<'a, M> {
    /// The ring.
    pub ring: &'a SharedRing,
    /// The slots that this block serves.
    pub partition: Partition,
    /// The functions.
    pub table: DeviceTable<'a>,
    /// What the warps share.
    pub block_state: &'a BlockState,
    /// One word for each slot of the partition: 0, or what keeps it from being handed out.
    pub serving: &'a [BlockU64],
    /// The control block, in mapped memory.
    pub control: &'a Words,
    /// What outlives a relaunch, in device memory.
    pub saved: &'a Words,
    /// Warps that serve. The maintenance warp, if there is one, comes after them.
    pub workers: u32,
    /// Whether the poller does the maintenance itself, for want of a warp that does.
    pub poller_maintains: bool,
    /// Slots that a warp's staging buffers have room for: requests that it serves at once, at most.
    pub batch: u32,
    /// How it behaves.
    pub options: RingOptions,
    /// The machine.
    pub machine: &'a M,
}

/// How a warp's life ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Another warp polls.
    Dismissed,
    /// This warp polled to the end: everything handed out was answered.
    AsPoller,
}

impl<M: Machine> BlockDispatcher<'_, M> {
    /// Before anything else: what earlier executions counted, and that the dispatcher runs. By one warp.
    #[inline(always)]
    pub fn open(&self, warp: Warp<'_>) {
        maintenance::open(self, warp);
    }

    /// The life of the maintenance warp, whose number is `me`.
    #[inline(always)]
    pub fn run_maintenance(&self, warp: Warp<'_>, me: u32) {
        maintenance::run(self, warp, me);
    }

    /// The life of a serving warp. Warp 0 begins as the poller.
    ///
    /// `input` and `output` are the warp's own staging buffers, each as long as a batch of slots.
    #[inline(always)]
    pub fn run(&self, warp: Warp<'_>, me: u32, input: StagingBuffer<'_>, output: StagingBuffer<'_>) -> Ended {
        let context = WarpContext { warp, me, input, output };
        if me == 0 && warp.lane() == 0 {
            self.block_state.set_command(me, WarpCommand::Poll);
        }
        warp.sync();
        // Copies, whose addresses the fast path may have: what they are copies of stays in registers.
        let ring = self.ring.clone();
        let fast_path = FastPath::of(BlockDispatcher { ring: &ring, ..*self }, warp);
        loop {
            let mut work = match self.block_state.command_together(warp, me) {
                WarpCommand::Free => {
                    self.machine.sleep();
                    continue;
                }
                WarpCommand::Exit => return Ended::Dismissed,
                WarpCommand::Poll => match poller::run(self, context, fast_path.as_ref()) {
                    poller::After::Serve(work) => Some(work),
                    poller::After::Served => None,
                    poller::After::End => return Ended::AsPoller,
                },
                WarpCommand::Serve { slot, valid_flag } => {
                    let Some(index) = self.ring.geometry().slot(slot) else { continue };
                    let burst = slot_copy::BurstLoad::of(warp, self.ring, index);
                    Some(Work::One(slot_state::Job { slot, valid_flag, alone: self.poller_maintains, burst }))
                }
                WarpCommand::ServeBatch { first } => {
                    let [slots, invalid_flags] =
                        self.block_state.batch_of(me).map(|word| warp.shuffle_u64(word, 0));
                    Some(Work::Many(Batch { first, slots, invalid_flags, turn: 0 }))
                }
            };
            let mut left = Batch::default();
            loop {
                match work {
                    Some(Work::One(job)) => serve::serve(self, context, job),
                    Some(Work::Many(batch)) if M::BATCHES => {
                        left = batch::serve(
                            &BlockDispatcher { ring: &ring, ..*self },
                            warp,
                            me,
                            input,
                            output,
                            batch,
                        );
                    }
                    Some(Work::Alone(batch)) => left = batch,
                    Some(Work::Many(_)) | None => (),
                }
                warp.sync();
                work = match left.pop() {
                    Some((slot, valid_flag)) => hand_out::job_of(self, warp, slot, valid_flag).map(Work::One),
                    None => hand_out::pop_backlog(self, warp),
                };
                let Some(work) = &work else { break };
                if warp.lane() == 0 {
                    hand_out::note_work(self, me, work);
                }
            }
            if warp.lane() == 0 {
                // With one warp there is no other warp to poll.
                self.block_state
                    .set_command(me, if self.workers == 1 { WarpCommand::Poll } else { WarpCommand::Free });
            }
            warp.sync();
        }
    }

    /// Whether one warp does everything.
    #[inline(always)]
    pub(super) fn is_alone(&self) -> bool {
        self.poller_maintains && self.workers == 1
    }
}

/// One lane's value for all lanes: what others may change is read once, so that the lanes cannot disagree.
#[inline(always)]
fn together(warp: Warp<'_>, read: impl FnOnce() -> u64) -> u64 {
    let value = if warp.lane() == 0 { read() } else { 0 };
    let value = warp.shuffle_u64(value, 0);
    warp.sync(); // and what its acquire ordered is ordered for all of them
    value
}

//! The warps of one block that work one queue pair together.
//!
//! Written in terms of [`Warp`], so that a kernel and a CPU test run the same code.
//!
//! # Who does what
//! Warp 0 polls: it polls the receive side's completions, as many at once as came the last time, one a lane.
//! A request that came alone it serves itself, with no hand-over in its way: the rest of the completion and
//! the slot that is expected next are fetched in one round trip, and work that no peer waits for (counters,
//! the second fence) comes after the answer, while the next poll is under way. Several go into the
//! [`QueuePairBlockState`], and all warps serve their share. The others wait at the block's barrier meanwhile, which
//! costs the poller nothing.
//!
//! # One fence for many
//! The warp that serves a request writes its response and its send request, at the index that the request's
//! turn gives; nothing is visible to the NIC yet. Then the poller makes one release fence for all of them,
//! writes the doorbell record (the send counter and the receive credit stand in one word), fences, and rings.
//! A request that came alone can be copied to the BlueFlame buffer right after the first fence ([`Bell`]);
//! then the second fence delays no response.
//!
//! So responses leave in the order of their requests, and one slow function holds up what came with it and after it: the
//! send queue has an order. Requests that must not wait for each other have queue pairs of their own.
//!
//! # Graphs and grids
//! Where the [machine](Machine) launches graphs, a request for one is deferred on the [`PendingTable`],
//! launched between two polls, and its response is a separate send request, written when the answer is there:
//! it holds up nothing. In a grid's kernel one warp is the dispatcher ([`QueuePairDispatcher::run_alone`]),
//! and the grid's other threads wait for its [calls](crate::ring::grid).
//!
//! | module | what |
//! |---|---|
//! | [`doorbell_lanes`] | the doorbell register, by lanes |
//! | [`block_state`] | what the warps share |
//! | [`pending`] | requests that wait for a graph, answers that graphs have outstanding |
//! | `follow_up` | what a warp that serves leaves to graphs |
//! | `graphs` | launching, collecting, relaunching |
//! | `completion` | what completions say |
//! | `poll` | one poll of the completions |
//! | `poller` | polling, taking, the end |
//! | `reclaim` | room in the send queue |
//! | `publish` | what the host is shown |
//! | `serve` | one request, by one warp |
//! | `fast_path` | polling and serving in the fast path, straight |
//! | [`single`] | a queue pair served by one thread |
//! | `send` | response and send request; the fences, the record, the bell |

pub mod block_state;
pub(crate) mod completion;
pub mod doorbell_lanes;
mod fast_path;
mod follow_up;
mod graphs;
pub mod pending;
mod poll;
mod poller;
mod publish;
mod reclaim;
pub(crate) mod send;
mod serve;
pub mod single;
mod state;

pub use block_state::QueuePairBlockState;
pub use doorbell_lanes::{Bell, Copying};
pub use pending::{PendingTable, Plan};

use crate::queue_pair::single::Extent;
use crate::ring::{DeviceTable, Machine, WarpContext};
use ringcall_gpu::shared::Words;
use ringcall_gpu::staging::StagingBuffer;
use ringcall_gpu::team::{Block, WARP_LANES, Warp};
use ringcall_mlx5::QueueError;
use ringcall_mlx5::endpoint::{Config, ResponsePath, Windows};
use ringcall_mlx5::layout::cqe;
use ringcall_mlx5::rq::Buffers;

/// Requests taken at once, at most.
pub const MOST_JOBS: u32 = WARP_LANES;

/// One queue pair's dispatcher, as every warp of the block has it.
///
/// Strides are multiples of 16 and so are the addresses of slots and queues: a lane moves 16 bytes at a time.
#[derive(Debug, Clone, Copy)]
pub struct QueuePairDispatcher<'a, M> {
    /// The queue pair.
    pub config: Config,
    /// How long requests are.
    pub extent: Extent,
    /// Its memory. The counters and the stop word are those of `control`; the windows' own are not used.
    pub windows: &'a Windows,
    /// Its doorbell register.
    pub bell: &'a Bell,
    /// The functions.
    pub table: DeviceTable<'a>,
    /// What the warps share.
    pub block_state: &'a QueuePairBlockState,
    /// The control block ([`ringcall_wire::unified::control`]), in mapped memory.
    pub control: &'a Words,
    /// What graphs need, where the machine launches them.
    pub graphs: Option<&'a Graphs>,
    /// The machine.
    pub machine: &'a M,
    /// Warps of the dispatcher.
    pub warps: u32,
}

/// What graphs keep from one start to the next.
#[derive(Debug)]
pub struct Graphs {
    /// Requests that wait, and answers that are outstanding.
    pub pending: PendingTable,
    /// The words of [`ringcall_wire::launch::saved`] of which launches, relaunches and finished children are used.
    pub saved: Words,
}

/// How a dispatcher's work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueuePairEnd {
    /// It was stopped, or the queue pair is dead; the control block says which.
    Ended,
    /// The queues cannot be worked.
    Refused(QueueError),
}

impl<M: Machine> QueuePairDispatcher<'_, M> {
    /// Works until the end, by all threads of the block. `input` and `output` are the calling warp's own staging buffers, each as long
    /// as a slot.
    #[inline(always)]
    pub fn run(&self, block: Block<'_>, input: StagingBuffer<'_>, output: StagingBuffer<'_>) -> QueuePairEnd {
        let warp = block.warp();
        let me = block.thread() / WARP_LANES;
        let context = WarpContext { warp, me, input, output };
        if me == 0 {
            return poller::run(self, &|| block.sync(), context);
        }
        loop {
            // The block state is the poller's before this barrier, and no warp writes it until the next.
            block.sync();
            let jobs = self.block_state.jobs();
            if jobs == block_state::EXIT {
                return QueuePairEnd::Ended;
            }
            serve::run_jobs(self, context, jobs);
            block.sync();
        }
    }

    /// Works until the end, by one warp that is the whole dispatcher (`warps` is 1): of a cooperative grid, whose other threads wait
    /// for calls.
    #[inline(always)]
    pub fn run_alone(
        &self,
        warp: Warp<'_>,
        input: StagingBuffer<'_>,
        output: StagingBuffer<'_>,
    ) -> QueuePairEnd {
        let context = WarpContext { warp, me: 0, input, output };
        // No other warp takes part in a round.
        poller::run(self, &|| warp.sync(), context)
    }

    /// Room for a result.
    #[inline(always)]
    fn capacity(&self) -> u32 {
        let room = match self.config.reply {
            ResponsePath::Send => self.config.tx_stride,
            ResponsePath::WriteImm { stride, .. } => self.config.tx_stride.min(stride),
        };
        room.saturating_sub(ringcall_wire::header::HEADER_BYTES as u32)
    }

    /// The first word of a request slot.
    #[inline(always)]
    fn slot_word(&self, slot: u32) -> usize {
        slot as usize * (self.config.rx_stride / 8) as usize
    }

    /// The slot that is expected after this one.
    #[inline(always)]
    fn slot_after(&self, slot: u32) -> u32 {
        if slot + 1 < self.config.slots { slot + 1 } else { 0 }
    }
}

/// Entries of the queues.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    completions: u32,
    receive: u32,
    send: u32,
}

impl Sizes {
    /// How many entries the receive and send queues and the completions have, if these queues can be worked.
    #[inline(always)]
    fn of<M>(dispatcher: &QueuePairDispatcher<'_, M>) -> Result<Self, QueueError> {
        let config = &dispatcher.config;
        for stride in [config.rx_stride, config.tx_stride] {
            if stride == 0 || !stride.is_multiple_of(16) || stride >= 1 << 31 {
                return Err(QueueError::Stride(stride));
            }
        }
        if config.slots == 0 || config.slots > ringcall_mlx5::endpoint::MAX_SLOTS {
            return Err(QueueError::Slots(config.slots));
        }
        let sizes = Self {
            completions: ringcall_mlx5::entries(&dispatcher.windows.rx_completions, cqe::WORDS)?,
            receive: ringcall_mlx5::entries(
                &dispatcher.windows.receive,
                ringcall_mlx5::layout::RECEIVE_WQE_WORDS,
            )?,
            send: ringcall_mlx5::entries(&dispatcher.windows.send, ringcall_mlx5::layout::wqe::WORDS)?,
        };
        if config.depth == 0 || config.depth > sizes.receive {
            return Err(QueueError::Depth { depth: config.depth, entries: sizes.receive });
        }
        if matches!(config.buffers, Buffers::Slots { .. }) && sizes.receive > config.slots {
            return Err(QueueError::Slots(config.slots));
        }
        if sizes.completions < config.depth {
            let completions = sizes.completions;
            return Err(QueueError::Completions { requests: config.depth, completions });
        }
        Ok(sizes)
    }
}

/// The layout of the shared memory of a block that works a queue pair.
pub mod layout {
    use super::QueuePairBlockState;
    use crate::ring::grid::CachedCall;
    use crate::shared_layout::{Needs, SharedLayout};

    /// The offset of a grid block's cached call, whatever else the block needs.
    pub const CACHED_CALL: u32 = (size_of::<QueuePairBlockState>() as u32).next_multiple_of(16);

    /// The layout for `needs`, after the block's state and its cached call.
    #[must_use]
    pub const fn of(needs: Needs) -> SharedLayout {
        SharedLayout::after(CACHED_CALL + CachedCall::BYTES, needs)
    }
}

//! Machine operations of the dispatch core on a GPU: handler calls, graph launches, sleep.

use ringcall_dispatcher::ring::grid::{CallTickets, GridCall, GridPort};
use ringcall_dispatcher::ring::{Call, Machine, Returned};
use ringcall_gpu::ptx;
#[cfg(any(feature = "graph", feature = "unified-graph"))]
use ringcall_gpu::shared::Words;
use ringcall_gpu::team::Warp;
use ringcall_wire::header::HEADER_BYTES;

/// Nanoseconds between the maintenance warp's polls for what there is to publish; counters are written every 64th time.
const SLEEP_NS: u32 = 100;

/// Calls through an address of the table.
#[inline(always)]
fn jump(call: &Call<'_>) -> Returned {
    // SAFETY: 1: the host put the address of a handler of this module into the table. 2: the staging buffers are this warp's (or
    // grid's) own and as long as a slot, and the lengths were checked against it; payloads begin 24 bytes into a 16-byte
    // aligned staging buffer. 3: the dispatch core calls with the threads of the handler's kind.
    let returned = unsafe {
        ptx::call::call(
            call.address,
            call.input.address(HEADER_BYTES),
            call.output.address(HEADER_BYTES),
            call.arg_len,
            call.capacity,
        )
    };
    Returned { status: returned.status, len: returned.len }
}

/// A window over a graph's mailbox.
#[cfg(any(feature = "graph", feature = "unified-graph"))]
fn mailbox(address: u64, words: usize) -> Option<Words> {
    // SAFETY: the host put the address of a mailbox of that size into the table; it outlives the kernel.
    unsafe { Words::from_raw(address as usize as *mut u64, words) }.ok()
}

/// A block of independent warps.
pub(crate) struct Warps {
    pub(crate) sleep_ns: u32,
}

impl Machine for Warps {
    #[inline(always)]
    fn call_thread(&self, call: &Call<'_>) -> Returned {
        jump(call)
    }

    #[inline(always)]
    fn call_warp(&self, _: Warp<'_>, call: &Call<'_>) -> Returned {
        jump(call)
    }

    #[inline(always)]
    fn sleep(&self) {
        ptx::nanosleep(self.sleep_ns);
    }

    fn sleep_until_next_round(&self) {
        ptx::nanosleep(SLEEP_NS);
    }
}

/// The polling warp of a cooperative grid.
pub(crate) struct GridPoller<'a> {
    pub(crate) port: GridPort<'a>,
}

/// Runs a grid's call by the calling thread.
#[inline(always)]
pub(crate) fn run_grid(call: GridCall, input: u64, output: u64) -> Returned {
    // SAFETY: as for `jump`, with all threads of the grid and staging buffers in device memory.
    let returned = unsafe { ptx::call::call(call.handler, input, output, call.arg_len, call.capacity) };
    Returned { status: returned.status, len: returned.len }
}

impl Machine for GridPoller<'_> {
    const BATCHES: bool = false;

    #[inline(always)]
    fn call_thread(&self, call: &Call<'_>) -> Returned {
        jump(call)
    }

    #[inline(always)]
    fn call_warp(&self, _: Warp<'_>, call: &Call<'_>) -> Returned {
        jump(call)
    }

    #[inline(always)]
    fn call_grid(&self, warp: Warp<'_>, call: &Call<'_>, meanwhile: impl FnOnce()) -> Option<Returned> {
        let others = u64::from(ptx::grid_blocks() - 1);
        let (arg_len, capacity) = (call.arg_len, call.capacity);
        let grid = GridCall { handler: call.address, arg_len, capacity, staging: 0 };
        let (input, output) = (call.input.address(HEADER_BYTES), call.output.address(HEADER_BYTES));
        let run = |grid| run_grid(grid, input, output);
        Some(self.port.call_grid(warp, others, grid, meanwhile, run))
    }

    #[inline(always)]
    fn sleep(&self) {}

    fn sleep_until_next_round(&self) {}
}

/// A warp of a block that serves, and calls a grid of other blocks.
pub(crate) struct Caller<'a> {
    pub(crate) port: GridPort<'a>,
    pub(crate) tickets: &'a CallTickets,
    /// Blocks of the grid.
    pub(crate) blocks: u32,
    /// Number of the warp's own staging buffers.
    pub(crate) staging: u32,
    pub(crate) sleep_ns: u32,
}

impl Machine for Caller<'_> {
    const BATCHES: bool = false;

    #[inline(always)]
    fn call_thread(&self, call: &Call<'_>) -> Returned {
        jump(call)
    }

    #[inline(always)]
    fn call_warp(&self, _: Warp<'_>, call: &Call<'_>) -> Returned {
        jump(call)
    }

    #[inline(always)]
    fn call_grid(&self, warp: Warp<'_>, call: &Call<'_>, meanwhile: impl FnOnce()) -> Option<Returned> {
        // A warp that waits for its ticket counts as at work: this goes no further than the block, where
        // another warp does the maintenance.
        if warp.lane() == 0 {
            meanwhile();
        }
        let (arg_len, capacity) = (call.arg_len, call.capacity);
        let grid = GridCall { handler: call.address, arg_len, capacity, staging: self.staging };
        Some(self.port.call(warp, self.tickets, u64::from(self.blocks), grid))
    }

    #[inline(always)]
    fn sleep(&self) {
        ptx::nanosleep(self.sleep_ns);
    }

    fn sleep_until_next_round(&self) {
        ptx::nanosleep(SLEEP_NS);
    }
}

/// A block of independent warps that can launch graphs.
#[cfg(any(feature = "graph", feature = "unified-graph"))]
pub(crate) struct Launcher {
    pub(crate) sleep_ns: u32,
}

#[cfg(any(feature = "graph", feature = "unified-graph"))]
impl Machine for Launcher {
    const GRAPHS: bool = true;

    #[inline(always)]
    fn call_thread(&self, call: &Call<'_>) -> Returned {
        jump(call)
    }

    #[inline(always)]
    fn call_warp(&self, _: Warp<'_>, call: &Call<'_>) -> Returned {
        jump(call)
    }

    fn launch(&self, exec: u64) -> Result<(), i32> {
        // SAFETY: the host put the handle of an uploaded device-launch graph into the mailbox, keeps it while this kernel
        // runs, and the mailbox was claimed, so the graph does not run.
        unsafe { ptx::graph::fire_and_forget(ptx::graph::GraphExec(exec)) }
    }

    fn mailbox(&self, address: u64, words: usize) -> Option<Words> {
        mailbox(address, words)
    }

    fn relaunch(&self) -> Result<(), i32> {
        /// No graph to launch: `cudaErrorInvalidResourceHandle`.
        const NOT_A_GRAPH: i32 = 400;
        let own = ptx::graph::current().ok_or(NOT_A_GRAPH)?;
        // SAFETY: the graph that runs exists, and this is its last act and only tail launch.
        unsafe { ptx::graph::tail_launch(own) }
    }

    #[inline(always)]
    fn sleep(&self) {
        ptx::nanosleep(self.sleep_ns);
    }

    fn sleep_until_next_round(&self) {
        ptx::nanosleep(SLEEP_NS);
    }
}

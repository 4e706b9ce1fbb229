//! Graphs that are launched from the device.

use ringcall_gpu::ptx::graph::{self, GraphExec};

/// 0 or the error.
#[inline(always)]
fn code(launched: Result<(), i32>) -> i32 {
    launched.err().unwrap_or(0)
}

probe!(["graph_current"] () -> u64 { graph::current().map_or(0, |exec| exec.0) });
probe!(["graph_fire_and_forget"] (exec: u64) -> i32 {
    // SAFETY: a probe is never called.
    code(unsafe { graph::fire_and_forget(GraphExec(exec)) })
});
probe!(["graph_tail_launch"] (exec: u64) -> i32 {
    // SAFETY: a probe is never called.
    code(unsafe { graph::tail_launch(GraphExec(exec)) })
});

//! Stream capture: graphs recorded from the work that another library puts on a stream.

use super::handle::Handle;
use super::{Context, DeviceAddress, Graph, Stream};
use crate::CudaError;
use cudarc::driver::sys::{CUgraph, CUgraph_st, CUstreamCaptureMode_enum};
use std::sync::Arc;

/// Ends a capture, in every case, so that the stream can be used again.
struct Capture<'a> {
    stream: &'a Stream,
    open: bool,
}

impl Capture<'_> {
    /// The graph that was recorded; null with the driver's error.
    fn end(&mut self) -> (CUgraph, Result<(), CudaError>) {
        self.open = false;
        let mut raw = std::ptr::null_mut();
        let ended = self.stream.context().enter().and_then(|api| {
            // SAFETY: the driver writes one handle, or null.
            let code = unsafe { (api.cuStreamEndCapture)(self.stream.raw(), &raw mut raw) };
            api.check(code, "ending the capture of a stream")
        });
        (raw, ended)
    }

    /// Ends the capture and discards the recorded graph.
    fn abandon(&mut self) {
        if let ((raw, _), Ok(api)) = (self.end(), self.stream.context().enter())
            && !raw.is_null()
        {
            // SAFETY: handed out just now, and to no other agent.
            unsafe { (api.cuGraphDestroy)(raw) };
        }
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        if self.open {
            self.abandon();
        }
    }
}

impl Stream {
    /// Records the work that `record` puts on this stream, and does not run it. Streams that it joins by events are
    /// recorded, too. Work of other threads continues as usual.
    ///
    /// The graph keeps nothing alive: modules of kernels, memory of copies, and everything else that the recorded
    /// work needs must outlive the executable graphs made of it.
    ///
    /// # Errors
    /// The error of `record`; or the driver refuses work of `record`, such as a wait for the stream.
    pub fn capture<E: From<CudaError>>(&self, record: impl FnOnce() -> Result<(), E>) -> Result<Graph, E> {
        let api = self.context().enter()?;
        let mode = CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream lives; what may not be done meanwhile the driver refuses.
        let code = unsafe { (api.cuStreamBeginCapture_v2)(self.raw(), mode) };
        api.check(code, "beginning the capture of a stream")?;
        let mut capture = Capture { stream: self, open: true };
        record()?;
        let (raw, ended) = capture.end();
        ended?;
        Ok(Graph::captured(self.context(), Handle(raw))?)
    }

    /// Puts a copy of `bytes` bytes on the stream, between device memory or mapped host memory, and returns without waiting
    /// for it.
    ///
    /// # Safety
    /// Both ends have this many bytes, do not overlap, and live until the copy has ended; a captured copy needs them as
    /// long as its graph is launched. Rust code reaches them through atomics or copies alone.
    ///
    /// # Errors
    /// The driver refuses an address, or the context is dead.
    pub unsafe fn copy(&self, to: DeviceAddress, from: DeviceAddress, bytes: usize) -> Result<(), CudaError> {
        if bytes == 0 {
            return Ok(());
        }
        let api = self.context().enter()?;
        // SAFETY: the caller's promise.
        let code = unsafe { (api.cuMemcpyAsync)(to.0, from.0, bytes, self.raw()) };
        api.check(code, format_args!("putting a copy of {bytes} bytes on a stream"))
    }
}

impl Graph {
    /// Takes over a graph that was recorded.
    fn captured(context: &Arc<Context>, raw: Handle<CUgraph_st>) -> Result<Self, CudaError> {
        // From here on the graph frees itself.
        let mut graph = Self::owning(context, raw);
        let api = context.enter()?;
        let mut count = 0;
        // SAFETY: without room for nodes, the driver writes their number alone.
        let code = unsafe { (api.cuGraphGetNodes)(raw.0, std::ptr::null_mut(), &raw mut count) };
        api.check(code, "counting the nodes of a graph")?;
        let mut nodes = vec![std::ptr::null_mut(); count];
        // SAFETY: there is room for so many nodes.
        let code = unsafe { (api.cuGraphGetNodes)(raw.0, nodes.as_mut_ptr(), &raw mut count) };
        api.check(code, "asking for the nodes of a graph")?;
        nodes.truncate(count);
        graph.adopt(nodes);
        Ok(graph)
    }
}

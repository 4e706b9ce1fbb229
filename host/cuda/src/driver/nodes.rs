//! Nodes of a graph that are no kernels: copies, and other graphs.

use super::graph::{Graph, NodeId};
use super::{Context, DeviceAddress};
use crate::CudaError;
use cudarc::driver::sys::{CUDA_MEMCPY3D, CUcontext, CUmemorytype_enum};
use std::sync::Arc;

impl Graph {
    /// Adds a copy of `bytes` bytes by the device's copy engines, to run after the nodes `after`. Both ends
    /// are device memory or mapped host memory, by their device addresses, and must live as long as the graph
    /// and every executable made of it.
    ///
    /// # Errors
    /// A node of another graph, nothing to copy, or addresses that the driver does not know.
    pub fn add_copy(
        &mut self,
        to: DeviceAddress,
        from: DeviceAddress,
        bytes: usize,
        after: &[NodeId],
    ) -> Result<NodeId, CudaError> {
        let before = self.nodes_of(after)?;
        let context = Arc::clone(self.context());
        let api = context.enter()?;
        let current = current_context(&context)?;
        // The kind of each end is told by its address.
        let unified = CUmemorytype_enum::CU_MEMORYTYPE_UNIFIED;
        let params = CUDA_MEMCPY3D {
            srcXInBytes: 0,
            srcY: 0,
            srcZ: 0,
            srcLOD: 0,
            srcMemoryType: unified,
            srcHost: core::ptr::null(),
            srcDevice: from.0,
            srcArray: core::ptr::null_mut(),
            reserved0: core::ptr::null_mut(),
            srcPitch: bytes,
            srcHeight: 1,
            dstXInBytes: 0,
            dstY: 0,
            dstZ: 0,
            dstLOD: 0,
            dstMemoryType: unified,
            dstHost: core::ptr::null_mut(),
            dstDevice: to.0,
            dstArray: core::ptr::null_mut(),
            reserved1: core::ptr::null_mut(),
            dstPitch: bytes,
            dstHeight: 1,
            WidthInBytes: bytes,
            Height: 1,
            Depth: 1,
        };
        let mut node = core::ptr::null_mut();
        // SAFETY: the driver writes one handle, and reads parameters and nodes of this graph. Nothing is copied yet.
        let code = unsafe {
            (api.cuGraphAddMemcpyNode)(
                &raw mut node,
                self.raw(),
                before.as_ptr(),
                before.len(),
                &raw const params,
                current,
            )
        };
        api.check(code, format_args!("adding a copy of {bytes} bytes to a graph"))?;
        Ok(self.enter(node, &[]))
    }

    /// Adds all of `child` as one node, to run after the nodes `after`. It is copied; its kernels stay loaded.
    ///
    /// # Errors
    /// A node of another graph, or a child that the driver refuses.
    pub fn add_graph(&mut self, child: &Self, after: &[NodeId]) -> Result<NodeId, CudaError> {
        let before = self.nodes_of(after)?;
        let context = Arc::clone(self.context());
        let api = context.enter()?;
        let mut node = core::ptr::null_mut();
        // SAFETY: the driver writes one handle, and copies the child, which lives.
        let code = unsafe {
            (api.cuGraphAddChildGraphNode)(
                &raw mut node,
                self.raw(),
                before.as_ptr(),
                before.len(),
                child.raw(),
            )
        };
        api.check(code, "adding a graph to a graph")?;
        Ok(self.enter(node, child.kernels()))
    }
}

/// The context that the calling thread entered.
fn current_context(context: &Context) -> Result<CUcontext, CudaError> {
    let api = context.enter()?;
    let mut current = core::ptr::null_mut();
    // SAFETY: the driver writes one handle.
    let code = unsafe { (api.cuCtxGetCurrent)(&raw mut current) };
    api.check(code, "asking for the current context")?;
    Ok(current)
}

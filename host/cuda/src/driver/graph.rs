//! Graphs of kernels, launched by the host or by the device.

use super::frees::DeferredFree;
use super::handle::Handle;
use super::{Context, Kernel, KernelArgs, Launch, Stream};
use crate::CudaError;
use core::mem::MaybeUninit;
use cudarc::driver::sys::{
    CUDA_GRAPH_INSTANTIATE_PARAMS, CUDA_KERNEL_NODE_PARAMS, CUgraph, CUgraph_st, CUgraphExec_st,
    CUgraphInstantiate_flags_enum, CUgraphNode, CUgraphNode_st, CUkernelNodeAttrID, CUkernelNodeAttrValue,
};
use std::sync::Arc;

/// A node of the graph that returned it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeId(usize);

/// Kernels and the order among them, to be made executable.
#[derive(Debug)]
pub struct Graph {
    context: Arc<Context>,
    raw: Handle<CUgraph_st>,
    nodes: Vec<Handle<CUgraphNode_st>>,
    /// Each node's kernel, whose module must stay loaded.
    kernels: Vec<Kernel>,
}

impl Graph {
    /// An empty graph.
    ///
    /// # Errors
    /// The context is dead.
    pub fn new(context: &Arc<Context>) -> Result<Self, CudaError> {
        let api = context.enter()?;
        let mut raw = core::ptr::null_mut();
        // SAFETY: the driver writes one handle; 0 is the only flag.
        let code = unsafe { (api.cuGraphCreate)(&raw mut raw, 0) };
        api.check(code, "making a graph")?;
        Ok(Self::owning(context, Handle(raw)))
    }

    /// A graph with nodes that another library made.
    pub(super) fn owning(context: &Arc<Context>, raw: Handle<CUgraph_st>) -> Self {
        Self { context: Arc::clone(context), raw, nodes: Vec::new(), kernels: Vec::new() }
    }

    /// Counts nodes that are in the graph already.
    pub(super) fn adopt(&mut self, nodes: Vec<*mut CUgraphNode_st>) {
        self.nodes.extend(nodes.into_iter().map(Handle));
    }

    /// Adds a launch of `kernel`, to run after the nodes `after`. The arguments are copied.
    ///
    /// # Errors
    /// A node of another graph, arguments or a shape that do not fit the kernel, or a kernel of another device.
    pub fn add_kernel(
        &mut self,
        kernel: &Kernel,
        launch: &Launch,
        args: &KernelArgs,
        after: &[NodeId],
    ) -> Result<NodeId, CudaError> {
        kernel.fits(launch, args)?;
        let before = self.nodes_of(after)?;
        let api = self.context.enter()?;
        let mut pointers = args.pointers();
        let params = CUDA_KERNEL_NODE_PARAMS {
            func: kernel.raw(),
            gridDimX: launch.grid[0],
            gridDimY: launch.grid[1],
            gridDimZ: launch.grid[2],
            blockDimX: launch.block[0],
            blockDimY: launch.block[1],
            blockDimZ: launch.block[2],
            sharedMemBytes: launch.dynamic_shared,
            kernelParams: pointers.as_mut_ptr(),
            extra: core::ptr::null_mut(),
            kern: core::ptr::null_mut(),
            ctx: core::ptr::null_mut(),
        };
        let mut node = core::ptr::null_mut();
        // SAFETY: the driver writes one handle, and copies parameters that fit the kernel and nodes of this graph.
        let code = unsafe {
            (api.cuGraphAddKernelNode_v2)(
                &raw mut node,
                self.raw.0,
                before.as_ptr(),
                before.len(),
                &raw const params,
            )
        };
        api.check(code, format_args!("adding kernel `{}` to a graph", kernel.name()))?;
        // Kept from here on even if the next step fails, since the node is in the graph.
        self.nodes.push(Handle(node));
        self.kernels.push(kernel.clone());
        if launch.cooperative {
            let id = CUkernelNodeAttrID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
            let value = CUkernelNodeAttrValue { cooperative: 1 };
            // SAFETY: the driver reads the value, of the kind that this attribute has.
            let code = unsafe { (api.cuGraphKernelNodeSetAttribute)(node, id, &raw const value) };
            api.check(code, format_args!("making kernel `{}` cooperative in a graph", kernel.name()))?;
        }
        if launch.cluster > 1 {
            let id = CUkernelNodeAttrID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
            let value = super::kernel::cluster_value(launch);
            // SAFETY: as above.
            let code = unsafe { (api.cuGraphKernelNodeSetAttribute)(node, id, &raw const value) };
            api.check(code, format_args!("setting the clusters of kernel `{}` in a graph", kernel.name()))?;
        }
        Ok(NodeId(self.nodes.len() - 1))
    }

    /// The driver's handles of nodes of this graph.
    pub(super) fn nodes_of(&self, ids: &[NodeId]) -> Result<Vec<CUgraphNode>, CudaError> {
        let node = |id: &NodeId| self.nodes.get(id.0).map(|node| node.0);
        let foreign = || CudaError::Graph("a node of another graph".to_owned());
        ids.iter().map(|id| node(id).ok_or_else(foreign)).collect()
    }

    /// Enters a node that was just added, with the kernels that it needs.
    pub(super) fn enter(&mut self, node: CUgraphNode, kernels: &[Kernel]) -> NodeId {
        self.nodes.push(Handle(node));
        self.kernels.extend_from_slice(kernels);
        NodeId(self.nodes.len() - 1)
    }

    pub(super) fn raw(&self) -> CUgraph {
        self.raw.0
    }

    pub(super) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(super) fn kernels(&self) -> &[Kernel] {
        &self.kernels
    }

    /// How many nodes it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// True without nodes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Makes it executable by the host.
    ///
    /// # Errors
    /// The driver refuses the graph; the error says why.
    pub fn instantiate_for_host(&self) -> Result<GraphExec, CudaError> {
        self.instantiate(0)
    }

    /// Makes it executable by the device as well (and by the host). It must be [uploaded](GraphExec::upload) before
    /// the device launches it. Its kernels may not use dynamic parallelism, and must all be of this device.
    ///
    /// # Errors
    /// The driver refuses the graph; the error says why.
    pub fn instantiate_for_device_launch(&self) -> Result<GraphExec, CudaError> {
        self.instantiate(CUgraphInstantiate_flags_enum::CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH.0.into())
    }

    fn instantiate(&self, flags: u64) -> Result<GraphExec, CudaError> {
        let api = self.context.enter()?;
        // Zeroed, and its result read as a number: a newer driver's reason may be none of the bindings' enum.
        let mut params = MaybeUninit::<CUDA_GRAPH_INSTANTIATE_PARAMS>::zeroed();
        // SAFETY: inside the structure.
        let to_flags = unsafe { &raw mut (*params.as_mut_ptr()).flags };
        // SAFETY: a field of our own structure.
        unsafe { to_flags.write(flags) };
        // SAFETY: inside the structure.
        let reason = unsafe { &raw const (*params.as_ptr()).result_out };
        let mut raw = core::ptr::null_mut();
        // SAFETY: the driver writes one handle and the structure's results.
        let code =
            unsafe { (api.cuGraphInstantiateWithParams)(&raw mut raw, self.raw.0, params.as_mut_ptr()) };
        // SAFETY: written by the zeroing at least; a C enum is an unsigned number.
        let reason = unsafe { reason.cast::<u32>().read() };
        if let Some(why) = refusal(reason) {
            return Err(CudaError::Graph(why.to_owned()));
        }
        api.check(code, "making a graph executable")?;
        Ok(GraphExec { context: Arc::clone(&self.context), raw: Handle(raw), _kernels: self.kernels.clone() })
    }
}

/// The meaning of `CUgraphInstantiateResult`, if it says more than the call's own code.
fn refusal(result: u32) -> Option<&'static str> {
    Some(match result {
        2 => "its structure is invalid, such as a cycle",
        3 => {
            "it has a node that a device launch does not support: kernels without dynamic parallelism, copies and graphs of them only"
        }
        4 => "its nodes are of several contexts or devices: a device launch allows one",
        5 => "it has a conditional handle that no node uses",
        _ => return None,
    })
}

impl Drop for Graph {
    fn drop(&mut self) {
        if let Ok(api) = self.context.enter() {
            // SAFETY: made once, destroyed once; executable graphs do not depend on it.
            unsafe { (api.cuGraphDestroy)(self.raw.0) };
        }
    }
}

/// An executable graph.
#[derive(Debug)]
pub struct GraphExec {
    context: Arc<Context>,
    raw: Handle<CUgraphExec_st>,
    /// Keep the modules loaded.
    _kernels: Vec<Kernel>,
}

impl GraphExec {
    /// The handle that device code launches it by (`cudaGraphExec_t`); valid while this lives.
    #[must_use]
    pub fn device_handle(&self) -> u64 {
        self.raw.0.addr() as u64
    }

    /// Copies it to the device, in the order of `stream`: once, before the device launches it.
    ///
    /// # Errors
    /// The driver refuses, or the context is dead.
    pub fn upload(&self, stream: &Stream) -> Result<(), CudaError> {
        let api = self.context.enter()?;
        // SAFETY: both live; uploading runs nothing.
        let code = unsafe { (api.cuGraphUpload)(self.raw.0, stream.raw()) };
        api.check(code, "uploading a graph")
    }

    /// Starts it on `stream`, and returns without waiting for it. Launches of one executable graph run one after the
    /// other.
    ///
    /// # Safety
    /// The contract of each of its kernels, as for [`Kernel::launch`], with the arguments it was added with.
    ///
    /// # Errors
    /// The driver refuses, or the context is dead.
    pub unsafe fn launch(&self, stream: &Stream) -> Result<(), CudaError> {
        let api = self.context.enter()?;
        // SAFETY: both live; the kernels' contracts are the caller's promise.
        let code = unsafe { (api.cuGraphLaunch)(self.raw.0, stream.raw()) };
        api.check(code, "launching a graph")
    }
}

impl Drop for GraphExec {
    fn drop(&mut self) {
        self.context.discard(DeferredFree::GraphExec(self.raw));
    }
}

//! Launches of the dispatch kernels: the one unsafe step above the driver.

#![allow(unsafe_code)] // named for it: launches sign the dispatch kernels' contract

use super::{DeviceError, DispatcherOptions, Footprint, KernelKind};
use ringcall_cuda::driver::{
    Context, DeviceAddress, Graph, GraphExec, Kernel, KernelArgs, Launch, Module, Stream,
};
use ringcall_wire::launch::DispatchParams;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// A dispatch kernel that fits the device, with its parameters.
#[derive(Debug)]
pub(crate) struct Launcher {
    kernel: Kernel,
    launch: Launch,
    args: KernelArgs,
    /// The graph whose only node is the kernel, if the kernel launches graphs.
    graph: Option<GraphExec>,
    footprint: Footprint,
}

/// Launch configuration of a kernel.
struct How {
    /// Its name, for errors.
    name: &'static str,
    kind: KernelKind,
    /// Threads of a block.
    threads: u32,
    /// Bytes of shared memory of a block.
    shared: u32,
    /// Blocks, and those of a cluster.
    blocks: u32,
    cluster: u32,
}

impl Launcher {
    /// Checks that the kernel fits, and prepares the launch.
    pub(super) fn over(
        context: &Arc<Context>,
        kernel: Kernel,
        options: &DispatcherOptions,
        shared: u32,
        params: &DispatchParams,
        stream: &Stream,
    ) -> Result<Self, DeviceError> {
        let kind = options.kernel;
        let how = How {
            name: kind.entry(),
            kind,
            threads: kind.threads(),
            shared,
            blocks: options.launched_blocks(),
            cluster: options.cluster,
        };
        Self::prepare(context, kernel, &how, KernelArgs::new().bytes(params.as_bytes()), stream)
    }

    /// The same for the kernel `name` with blocks of `threads` threads and these parameters.
    pub(crate) fn unified(
        context: &Arc<Context>,
        kernel: Kernel,
        name: &'static str,
        kind: KernelKind,
        [threads, shared]: [u32; 2],
        params: &[u8],
        stream: &Stream,
    ) -> Result<Self, DeviceError> {
        let how = How { name, kind, threads, shared, blocks: kind.blocks(), cluster: 1 };
        let args = KernelArgs::new().bytes(params);
        Self::prepare(context, kernel, &how, args, stream)
    }

    fn prepare(
        context: &Arc<Context>,
        kernel: Kernel,
        how: &How,
        args: KernelArgs,
        stream: &Stream,
    ) -> Result<Self, DeviceError> {
        let &How { name, kind, threads, shared, blocks, cluster } = how;
        let registers = kernel.attributes().registers;
        let does_not_fit = || DeviceError::DoesNotFit { kernel: name, threads, registers, shared };
        if shared > context.device().max_shared_per_block()? {
            return Err(does_not_fit());
        }
        kernel.set_dynamic_shared(shared)?;
        let resident = kernel.occupancy(threads, shared)?;
        if resident == 0 {
            return Err(does_not_fit());
        }
        let mut launch = Launch::linear(blocks, threads).dynamic_shared(shared).cluster(cluster);
        if kind.is_grid() {
            let most = resident * context.device().multiprocessors()?;
            if !context.device().cooperative_launch()? || blocks > most {
                return Err(DeviceError::NotResident { blocks, most });
            }
            // A cluster must fit into one group of multiprocessors, so fewer blocks fit than without clusters.
            if cluster > 1 {
                let most = kernel.max_clusters(&launch)? * cluster;
                if blocks > most {
                    return Err(DeviceError::NotResident { blocks, most });
                }
            }
            launch = launch.cooperative();
        }
        let graph = if matches!(kind, KernelKind::Graph { .. }) {
            let mut graph = Graph::new(context)?;
            graph.add_kernel(&kernel, &launch, &args, &[])?;
            let exec = graph.instantiate_for_device_launch()?;
            exec.upload(stream)?;
            stream.synchronize()?;
            Some(exec)
        } else {
            None
        };
        let footprint = Footprint { registers, shared_bytes: shared, blocks_per_multiprocessor: resident };
        Ok(Self { kernel, launch, args, graph, footprint })
    }

    pub(crate) fn footprint(&self) -> Footprint {
        self.footprint
    }

    /// Launches.
    pub(crate) fn launch(&self, stream: &Stream) -> Result<(), DeviceError> {
        match &self.graph {
            // SAFETY: the kernel's parameters were laid out for this kernel and size, and live, as does all that they
            // point to, until the kernel has ended: the running dispatcher keeps its resources (with the owner of the
            // queues, where there are some), and leaks them if the kernel never ends.
            None => unsafe { self.kernel.launch(stream, &self.launch, &self.args) }?,
            // SAFETY: as above.
            Some(graph) => unsafe { graph.launch(stream) }?,
        }
        Ok(())
    }
}

/// Launches the baseline echo.
pub(super) fn launch_baseline(
    module: &Module,
    stream: &Stream,
    there: DeviceAddress,
    back: DeviceAddress,
) -> Result<(), DeviceError> {
    let kernel = module.kernel("ringcall_floor")?;
    let args = KernelArgs::new().address(there).address(back);
    // SAFETY: two words of mapped memory, which `BaselineEcho` keeps until the kernel has ended, and one thread.
    unsafe { kernel.launch(stream, &Launch::linear(1, 1), &args) }?;
    Ok(())
}

/// Launches a graph whose kernels take the address of a mailbox.
pub(super) fn launch_graph(exec: &GraphExec, stream: &Stream) -> Result<(), DeviceError> {
    // SAFETY: `HostGraph` made the graph for a mailbox that it keeps, and launches it again only after its answer.
    unsafe { exec.launch(stream) }?;
    Ok(())
}

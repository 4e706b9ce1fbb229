//! A run of the network as nodes of a caller's graph, from device memory to device memory.

use crate::predecoder::buffers::Buffers;
use crate::predecoder::kernels::{Kernels, LIMIT_CYCLES, NETWORK};
use crate::predecoder::layers::LayersRun;
use crate::predecoder::loaded::GpuError;
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{Context, DeviceBuffer, Graph, KernelArgs, Launch, Module, NodeId};
use ringcall_infer::{ElementType, TensorSpec};
use std::sync::Arc;
use zerocopy::IntoBytes;

/// The network between two device tensors, to be put into a graph: of a service, say.
///
/// | the model | input | output |
/// |---|---|---|
/// | [new](crate::predecoder::GpuModel::new) | `volume`, `f16[1, 4, layers, d, d]`, as the kernel reads it | `logits`, `f32[1, 4, layers, d, d]` |
/// | [wired](crate::predecoder::GpuModel::wired) | `bits`, a request's bytes | `left`, an answer's bytes |
///
/// Weights and tables are the model's, all else is this run's own. Runs that overlap, whichever graph they are in, are of a
/// model on a [share](crate::predecoder::Share) of the device, and no more than it has parts: blocks wait for all others of their run, and
/// where one finds no multiprocessor the run fails. A run never overlaps with itself.
#[derive(Debug)]
pub struct GpuRun {
    inputs: [TensorSpec; 1],
    outputs: [TensorSpec; 1],
    input: DeviceBuffer,
    output: DeviceBuffer,
    failed: DeviceBuffer,
    body: Body,
}

/// What lies between the tensors.
#[derive(Debug)]
enum Body {
    /// One kernel that has all layers.
    Fused {
        buffers: Buffers,
        launch: Launch,
        args: KernelArgs,
        module: Module,
        _tables: [Arc<DeviceBuffer>; 3],
    },
    /// A kernel for each layer.
    Layers(LayersRun),
}

impl GpuRun {
    /// With its own tensors, of a network whose model has these.
    pub(crate) fn new(
        context: &Arc<Context>,
        kernels: &Kernels,
        inputs: &[TensorSpec],
        outputs: &[TensorSpec],
    ) -> Result<Self, GpuError> {
        let ([given], [output]) = (inputs, outputs) else {
            return Err(CudaError::Graph("a network with several inputs or outputs".to_owned()).into());
        };
        let (given, output) = (given.clone(), output.clone());
        let wired = given.element == ElementType::U8;
        // As the kernel reads it, and not as an engine's callers give it.
        let input =
            if wired { given } else { TensorSpec::new("volume", ElementType::F16, given.shape.clone())? };
        let zeroed = |bytes: usize| DeviceBuffer::zeroed(context, bytes.next_multiple_of(16));
        let (from, to) = (zeroed(input.size_bytes())?, zeroed(output.size_bytes())?);
        let failed = zeroed(8)?;
        let ends = [from.address(), to.address()];
        let body = match kernels {
            Kernels::Layers(layers) => Body::Layers(layers.run(context, ends)?),
            Kernels::Fused(module, loaded) => {
                let (plan, mut params) = (&loaded.plan, loaded.params);
                let buffers = loaded.buffers(context)?;
                buffers.fill(&mut params);
                match &loaded.wired {
                    Some(_) => [params.bits, params.left] = ends.map(|end| end.0),
                    None => [params.input, params.logits] = ends.map(|end| end.0),
                }
                params.failed = failed.address().0;
                params.limit = LIMIT_CYCLES;
                module.kernel(NETWORK)?.set_dynamic_shared(plan.shared)?;
                Body::Fused {
                    buffers,
                    launch: Launch::linear(plan.blocks(), plan.shape.threads())
                        .dynamic_shared(plan.shared)
                        .cooperative(),
                    args: KernelArgs::new().bytes(params.as_bytes()),
                    module: module.clone(),
                    _tables: loaded.tables(),
                }
            }
        };
        Ok(Self { inputs: [input], outputs: [output], input: from, output: to, failed, body })
    }

    /// The input.
    #[must_use]
    pub fn inputs(&self) -> &[TensorSpec] {
        &self.inputs
    }

    /// The output.
    #[must_use]
    pub fn outputs(&self) -> &[TensorSpec] {
        &self.outputs
    }

    /// The input tensor.
    #[must_use]
    pub fn input(&self) -> &DeviceBuffer {
        &self.input
    }

    /// The output tensor.
    #[must_use]
    pub fn output(&self) -> &DeviceBuffer {
        &self.output
    }

    /// A word that is not 0 once a wait of the kernel has run out; from then on every run is wrong, until
    /// [`reset`](Self::reset).
    #[must_use]
    pub fn failed(&self) -> &DeviceBuffer {
        &self.failed
    }

    /// Makes it whole after a failed run, while it does not run.
    ///
    /// # Errors
    /// The context is dead.
    pub fn reset(&self) -> Result<(), CudaError> {
        if let Body::Fused { buffers, .. } = &self.body {
            buffers.reset()?;
        }
        self.failed.fill(0)
    }

    /// Adds the run to a graph, after the nodes `after`; the last node that was added. It must outlive
    /// the graph and every executable made of it.
    ///
    /// # Errors
    /// A node of another graph, or the driver refuses.
    pub fn add_to(&self, graph: &mut Graph, after: &[NodeId]) -> Result<NodeId, CudaError> {
        match &self.body {
            Body::Fused { launch, args, module, .. } => {
                graph.add_kernel(&module.kernel(NETWORK)?, launch, args, after)
            }
            Body::Layers(run) => run.add_to(graph, after),
        }
    }
}

//! A network's weights on a device.

use crate::predecoder::buffers::Buffers;
use crate::predecoder::layer::NetworkError;
use crate::predecoder::pack::Packed;
use crate::predecoder::plan::{Offer, Params, Plan};
use crate::predecoder::{Network, Share, Wiring};
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{Context, DeviceBuffer};
use ringcall_infer::InferError;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// Why a model cannot be put on a device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GpuError {
    /// The driver refuses.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// The network is another than the kernels are made for.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The kernels use instructions that only one architecture has.
    #[error("the network's kernels are for compute capability 9.0 (H100, H200), the device has {}.{}", .0.0, .0.1)]
    OtherDevice((u32, u32)),
    /// No shape of the kernel has room for the volume.
    #[error(
        "no shape of the kernel fits {layers} layers of {d} x {d} cells on {multiprocessors} multiprocessors"
    )]
    TooLarge {
        /// Distance.
        d: u32,
        /// Layers.
        layers: u32,
        /// What the device has.
        multiprocessors: u32,
    },
    /// The volume cannot be described.
    #[error(transparent)]
    Spec(#[from] InferError),
}

/// A network's weights on a device, and how its work is spread.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) plan: Plan,
    /// With the addresses of the weights.
    pub(crate) params: Params,
    weights: Arc<DeviceBuffer>,
    cells: Arc<DeviceBuffer>,
    flips: Arc<DeviceBuffer>,
    pub(crate) wired: Option<Wired>,
}

/// Lengths that a wiring gives.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wired {
    pub(crate) request_bytes: usize,
    pub(crate) answer_bytes: usize,
}

impl Loaded {
    /// A network that is [fused](Network::fused), for `layers` layers of `d` by `d` cells, which a wiring must be for, too; planned for a share of the device.
    pub(crate) fn planned(
        network: &Network,
        context: &Arc<Context>,
        [d, layers]: [u32; 2],
        wiring: Option<&Wiring>,
        share: Share,
        plan: impl FnOnce(Offer, [u32; 2]) -> Option<Plan>,
    ) -> Result<Self, GpuError> {
        let device = context.device();
        if device.capability() != (9, 0) {
            return Err(GpuError::OtherDevice(device.capability()));
        }
        let shared = device.max_shared_per_block()?;
        let multiprocessors = share.multiprocessors(device.multiprocessors()?);
        let plan = plan(Offer { multiprocessors, shared }, [d, layers]).ok_or(GpuError::TooLarge {
            d,
            layers,
            multiprocessors,
        })?;
        let upload = |bytes: &[u8]| {
            let buffer = DeviceBuffer::zeroed(context, bytes.len().max(8))?;
            buffer.write_from(0, bytes)?;
            Ok::<_, GpuError>(Arc::new(buffer))
        };
        let packed = Packed::new(&network.fused()?);
        let weights = upload(&packed.bytes)?;
        let cells = upload(&plan.cells_table(wiring))?;
        let flips = upload(wiring.map_or(&[][..], Wiring::flips).as_bytes())?;
        let at = |offset: usize| weights.address().0 + offset as u64;
        let params = Params {
            cells: cells.address().0,
            flips: flips.address().0,
            bit_count: wiring.map_or(0, Wiring::bits),
            threshold: wiring.map_or(0.0, |wiring| wiring.threshold),
            first: at(packed.first),
            middle: at(packed.middle),
            last: at(packed.last),
            scales: packed.scales.map(at),
            ..plan.params()
        };
        let wired = wiring.map(|wiring| Wired {
            request_bytes: wiring.request_bytes(),
            answer_bytes: wiring.answer_bytes(),
        });
        Ok(Self { plan, params, weights, cells, flips, wired })
    }

    /// What one run after another works on.
    pub(crate) fn buffers(&self, context: &Arc<Context>) -> Result<Buffers, CudaError> {
        Buffers::new(context, &self.plan)
    }

    /// What the kernel's parameters point to, to be kept as long as they are used.
    pub(crate) fn tables(&self) -> [Arc<DeviceBuffer>; 3] {
        [&self.weights, &self.cells, &self.flips].map(Arc::clone)
    }
}

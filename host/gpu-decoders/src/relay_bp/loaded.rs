//! A graph's tables on a device, in the first shape of the kernel that has room for them.

use crate::relay_bp::cancel::CancelFlag;
use crate::relay_bp::error::GpuError;
use crate::relay_bp::params::{Params, RACE_BYTES, idle_race};
use crate::relay_bp::{AnswerLayout, shapes};
use ringcall_bp::kernel::{KernelShape, Tables, check_config};
use ringcall_bp::{BpConfig, BpGraph};
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{Context, DeviceBuffer, Launch, Linker, Module};
use std::sync::Arc;
use std::time::Duration;
use zerocopy::IntoBytes;

/// Entries of the kernel's module.
pub(crate) const KERNEL: &str = "ringcall_relay";
pub(crate) const STAGE: &str = "ringcall_relay_stage";

/// Bounds of a decode other than its configuration, and the form of the answer.
///
/// ```
/// use ringcall_gpu_decoders::relay_bp::Bounds;
/// use std::time::Duration;
///
/// let bounds = Bounds { deadline: Some(Duration::from_micros(500)), ..Bounds::default() };
/// assert!(!bounds.results_only);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The time from the start of a decode to its end, by the device's clock, which is looked at every eighth iteration. A decode that has
    /// not converged by then is answered [`Late`](crate::relay_bp::Ended::Late).
    pub deadline: Option<Duration>,
    /// Answers end after the [result](AnswerLayout::result_bytes) of `decode_syndrome`: for clients that know nothing else.
    pub results_only: bool,
}

/// A graph's tables on a device.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) context: Arc<Context>,
    pub(crate) module: Module,
    pub(crate) shape: &'static KernelShape,
    pub(crate) ptx: &'static str,
    pub(crate) layout: AnswerLayout,
    pub(crate) config: BpConfig,
    pub(crate) checks: u32,
    pub(crate) cancel: CancelFlag,
    /// With the addresses of the tables and of the flag.
    params: Params,
    _tables: DeviceBuffer,
}

/// Memory of one run after another.
#[derive(Debug)]
pub(crate) struct RunMemory {
    pub(crate) loaded: Arc<Loaded>,
    _races: DeviceBuffer,
}

impl Loaded {
    /// Takes the first shape that has room for the graph and of which the device runs all lanes at once, with `extra` clusters, in blocks
    /// that have `reserved` more bytes of shared memory.
    pub(crate) fn new(
        graph: &BpGraph,
        config: &BpConfig,
        context: &Arc<Context>,
        bounds: Bounds,
        [extra, reserved]: [u32; 2],
    ) -> Result<Self, GpuError> {
        check_config(graph, config)?;
        let device = context.device();
        if device.capability() < (9, 0) {
            return Err(GpuError::OtherDevice(device.capability()));
        }
        let most = device.max_shared_per_block()?;
        let mut refusal = None;
        for (shape, ptx) in shapes::all() {
            let tables = match Tables::new(graph, shape) {
                Ok(tables) => tables,
                Err(error) => {
                    // What a device lacks says more than that the next shape is too small.
                    refusal = refusal.or(Some(error.into()));
                    continue;
                }
            };
            let needed = tables.shared_bytes() + reserved;
            if needed > most {
                refusal = Some(GpuError::SharedMemory { needed, most });
                continue;
            }
            let image = Linker::new(device.capability()).ptx("the Relay-BP kernel", ptx)?.link(context)?;
            let module = Module::load(context, &image)?;
            let kernel = module.kernel(KERNEL)?;
            kernel.set_dynamic_shared(needed)?;
            let clusters = config.lanes + extra;
            let launch = Launch::linear(clusters * shape.blocks, shape.threads)
                .dynamic_shared(needed)
                .cluster(shape.blocks);
            let most = kernel.max_clusters(&launch)?;
            if clusters > most {
                let lanes = format!("{} that race", config.lanes);
                let wanted = if extra > 0 { format!("{lanes}, and {extra} that serves") } else { lanes };
                refusal = Some(GpuError::Lanes { lanes: clusters, blocks: shape.blocks, wanted, most });
                continue;
            }
            return Self::on(context, module, &tables, (shape, ptx), config, bounds);
        }
        // There is a shape, and it was returned or refused.
        Err(refusal.unwrap_or(GpuError::OtherDevice(device.capability())))
    }

    fn on(
        context: &Arc<Context>,
        module: Module,
        tables: &Tables,
        (shape, ptx): (&'static KernelShape, &'static str),
        config: &BpConfig,
        bounds: Bounds,
    ) -> Result<Self, GpuError> {
        let words = DeviceBuffer::zeroed(context, size_of_val(tables.words()))?;
        words.write_from(0, tables.words().as_bytes())?;
        let cancel = CancelFlag::new(context)?;
        let layout = AnswerLayout::new(tables.observables());
        let answer = if bounds.results_only { layout.result_bytes() } else { layout.bytes() };
        let params = Params {
            tables: words.address().0,
            cancel: cancel.address().0,
            deadline_ns: bounds.deadline.map_or(0, |deadline| {
                // None would be no deadline.
                u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX / 2).clamp(1, u64::MAX / 2)
            }),
            shared_bytes: tables.shared_bytes(),
            request_bytes: tables.checks().div_ceil(8),
            answer_bytes: answer as u32,
            observables: tables.observables(),
            ..Params::new(config)
        };
        Ok(Self {
            context: Arc::clone(context),
            module,
            shape,
            ptx,
            layout,
            config: config.clone(),
            checks: tables.checks(),
            cancel,
            params,
            _tables: words,
        })
    }

    pub(crate) fn request_bytes(&self) -> usize {
        self.params.request_bytes as usize
    }

    pub(crate) fn answer_bytes(&self) -> usize {
        self.params.answer_bytes as usize
    }

    pub(crate) fn shared_bytes(&self) -> u32 {
        self.params.shared_bytes
    }

    /// Blocks of all lanes.
    pub(crate) fn blocks(&self) -> u32 {
        self.config.lanes * self.shape.blocks
    }
}

impl RunMemory {
    pub(crate) fn new(loaded: &Arc<Loaded>) -> Result<(Self, Params), CudaError> {
        let races = DeviceBuffer::zeroed(&loaded.context, 2 * RACE_BYTES)?;
        for race in 0..2 {
            races.write_from(race * RACE_BYTES, &idle_race())?;
        }
        let params = Params { races: races.address().0, ..loaded.params };
        Ok((Self { loaded: Arc::clone(loaded), _races: races }, params))
    }
}

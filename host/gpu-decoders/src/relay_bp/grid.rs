//! Relay-BP as a handler of the cooperative dispatcher: clusters that stay, with the graph's tables in their shared memory.

use crate::grid::{ALIGNMENT, registers, slot_bytes};
use crate::relay_bp::loaded::{Loaded, RunMemory};
use crate::relay_bp::params::Params;
use crate::relay_bp::{AnswerLayout, Bounds, CancelFlag, GpuError};
use ringcall_bp::{BpConfig, BpGraph};
use ringcall_cuda::driver::Context;
use ringcall_launch::ring::{AHEAD_SHARED, DispatcherOptions, Functions, KernelKind, Modules};
use ringcall_wire::launch::HandlerKind;
use ringcall_wire::payload::TypeDesc;
use ringcall_wire::schema::HandlerSchema;
use std::any::Any;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// Symbols of the kernel: the handler's name in function tables, the loop of its blocks, their parameters.
const SYMBOL: &str = "ringcall_relay_grid";
const PARTICIPANT: &str = "ringcall_relay_participate";
const PARAMETERS: &str = "ringcall_relay_params";
/// Relay-BP as a grid handler. [Modules](Self::modules) keep the device memory that it works on.
///
/// A request is a shot's detectors, bit-packed; its answer is laid out as [`AnswerLayout`] says.
/// [`Status::SCHEMA_MISMATCH`](ringcall_wire::Status::SCHEMA_MISMATCH) for another length,
/// [`Status::BAD_PAYLOAD`](ringcall_wire::Status::BAD_PAYLOAD) for bits set past the last detector.
///
/// ```no_run
/// use ringcall::RingConfig;
/// use ringcall_bp::{BpConfig, BpGraphBuilder};
/// use ringcall_gpu_decoders::relay_bp::{Bounds, GridHandler};
/// use ringcall_cuda::driver::Driver;
/// use ringcall_launch::ring::{DeviceDispatcher, Functions, MappedRing, Modules};
///
/// let mut builder = BpGraphBuilder::new(2, 1);
/// builder.error(0.01, &[0], &[0])?.error(0.01, &[0, 1], &[])?.error(0.01, &[1], &[])?;
/// let context = Driver::load()?.device(0)?.context()?;
/// let handler = GridHandler::new(&builder.build()?, &BpConfig::relay(), &context, Bounds::default())?;
/// let ring = MappedRing::allocate(&context, RingConfig { slots: 4, slot_bytes: handler.slot_bytes() })?;
/// let functions = handler.function(Functions::new(), "decode_syndrome");
/// let dispatcher =
///     DeviceDispatcher::wire(&ring, functions, handler.modules(Modules::new()), handler.options())?.start()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct GridHandler {
    params: Params,
    memory: Arc<RunMemory>,
}

impl GridHandler {
    /// Puts the graph's tables on the device of `context`.
    ///
    /// # Errors
    /// A graph, a configuration or a device that the kernel is not for, more lanes than the device runs at once beside a cluster that
    /// serves, or the driver refuses.
    pub fn new(
        graph: &BpGraph,
        config: &BpConfig,
        context: &Arc<Context>,
        bounds: Bounds,
    ) -> Result<Self, GpuError> {
        let loaded = Loaded::new(graph, config, context, bounds, [1, AHEAD_SHARED + ALIGNMENT])?;
        Self::of(&Arc::new(loaded))
    }

    /// The same so many times, for a dispatcher each: together they answer more requests.
    ///
    /// # Errors
    /// As for [`new`](Self::new), of all of them at once.
    pub fn several(
        graph: &BpGraph,
        config: &BpConfig,
        context: &Arc<Context>,
        bounds: Bounds,
        count: u32,
    ) -> Result<Vec<Self>, GpuError> {
        let others = count.saturating_sub(1).saturating_mul(config.lanes + 1);
        let extra = [1 + others, AHEAD_SHARED + ALIGNMENT];
        let loaded = Arc::new(Loaded::new(graph, config, context, bounds, extra)?);
        (0..count).map(|_| Self::of(&loaded)).collect()
    }

    fn of(loaded: &Arc<Loaded>) -> Result<Self, GpuError> {
        let (memory, params) = RunMemory::new(loaded)?;
        Ok(Self { params, memory: Arc::new(memory) })
    }

    fn loaded(&self) -> &Loaded {
        &self.memory.loaded
    }

    /// The kernel's shape.
    #[must_use]
    pub fn shape(&self) -> &'static ringcall_bp::kernel::KernelShape {
        self.loaded().shape
    }

    /// Bytes of a request.
    #[must_use]
    pub fn request_bytes(&self) -> usize {
        self.loaded().request_bytes()
    }

    /// Bytes of an answer.
    #[must_use]
    pub fn answer_bytes(&self) -> usize {
        self.loaded().answer_bytes()
    }

    /// Where the parts of a whole answer lie.
    #[must_use]
    pub fn layout(&self) -> AnswerLayout {
        self.loaded().layout
    }

    /// Bytes of a slot that has room for a request, and for an answer.
    #[must_use]
    pub fn slot_bytes(&self) -> u32 {
        slot_bytes(self.request_bytes(), self.answer_bytes())
    }

    /// The flag that ends its decodes, and those of the handlers made with it.
    #[must_use]
    pub fn cancel_flag(&self) -> &CancelFlag {
        &self.loaded().cancel
    }

    /// Adds the handler's code, its parameters, and its memory.
    #[must_use]
    pub fn modules(&self, modules: Modules) -> Modules {
        modules
            .ptx("the Relay-BP kernel", self.loaded().ptx)
            .variable(PARAMETERS, self.params.as_bytes())
            .keep(Arc::clone(&self.memory) as Arc<dyn Any + Send + Sync>)
            .max_registers(registers(self.shape().threads))
    }

    /// Adds the handler under a name, as a dispatcher's only grid function.
    #[must_use]
    pub fn function(&self, functions: Functions, name: &str) -> Functions {
        let schema = HandlerSchema::new().arg(TypeDesc::bit_packed(self.loaded().checks));
        functions.symbol(name, SYMBOL, HandlerKind::Grid, schema).participant(name, PARTICIPANT)
    }

    /// A dispatcher that the handler runs in: a cluster for each lane, and one more, of which a block serves.
    #[must_use]
    pub fn options(&self) -> DispatcherOptions {
        let (blocks, threads) = (self.loaded().blocks(), self.shape().threads);
        DispatcherOptions::new(KernelKind::Ahead { blocks, threads })
            .handler_shared(self.loaded().shared_bytes() + ALIGNMENT)
            .cluster(self.shape().blocks)
    }
}

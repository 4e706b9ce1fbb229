//! Unified dispatchers over a linked transport: three device functions that receive and send.
//!
//! | function | contract |
//! |---|---|
//! | `void* cudaq_dev_transport_attach(void* storage, void* ctx, volatile int* shutdown)` | makes a session in 256 bytes of storage, 16-byte aligned; null: failure |
//! | `int cudaq_dev_rx_poll(void* session, void** request, void** response)` | waits: 0 for a request, 1 for the end |
//! | `void cudaq_dev_tx_publish(void* session, void* response)` | sends; the length is in the response's header |
//!
//! The names are from the CUDA-Q Realtime host API. `kernels-cu/hooks/ring.cu` defines the functions in CUDA C++.

use super::claim::Claim;
use super::{Parts, QueuePair, UnifiedDispatcher, Wired, queue_params};
use crate::ring::{DeviceError, Functions, KernelKind, Modules, UnifiedKernel};
use core::sync::atomic::Ordering;
use ringcall_cuda::driver::{Context, DeviceBuffer, MappedRegion};
use ringcall_dispatcher::queue_pair::single::Extent;
use ringcall_gpu::shared::Words;
use ringcall_mlx5::Event;
use ringcall_mlx5::layout::cqe::Syndrome;
use ringcall_protocol::Geometry;
use ringcall_wire::unified::{TRANSPORT_STATE_BYTES, UnifiedParams, control};
use std::any::Any;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// The context that a linked transport is attached to. Cheap to clone; at any time one dispatcher uses all clones
/// together.
#[derive(Clone)]
pub struct HookTransport {
    context: Arc<Context>,
    address: u64,
    request_bytes: u32,
    response_bytes: u32,
    owner: Arc<dyn Any + Send + Sync>,
    claim: Claim,
}

impl std::fmt::Debug for HookTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HookTransport")
            .field("address", &self.address)
            .field("request_bytes", &self.request_bytes)
            .field("response_bytes", &self.response_bytes)
            .finish_non_exhaustive()
    }
}

impl HookTransport {
    /// A transport that is attached to `address`, and whose functions are in a module that will be linked. Frames of
    /// requests and responses have this many bytes, header included: multiples of 16.
    ///
    /// # Safety
    /// 1. The linked functions take a context at `address`, and wait for requests and the shutdown word alone.
    /// 2. The requests and responses that they hand out have these lengths, are 8-byte aligned, and stay valid until
    ///    the response is published.
    /// 3. The memory at `address` lives until `owner` is dropped, and only this transport and its clones attach
    ///    kernels to it meanwhile.
    #[allow(unsafe_code)] // the contract is the caller's to sign
    pub unsafe fn from_raw(
        context: &Arc<Context>,
        address: u64,
        [request_bytes, response_bytes]: [u32; 2],
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        let (context, claim) = (Arc::clone(context), Claim::default());
        Self { context, address, request_bytes, response_bytes, owner, claim }
    }
}

/// The context of the [transport over the queues of a NIC](Modules::queue_transport).
#[derive(Debug, Clone)]
pub struct QueueContext {
    transport: HookTransport,
    control: Words,
}

impl QueueContext {
    /// Allocates the state that the transport keeps between starts. BlueFlame is not used.
    ///
    /// # Errors
    /// A queue pair that has a transport or a dispatcher, or had one; no memory.
    pub fn new(pair: &QueuePair, extent: Extent) -> Result<Self, DeviceError> {
        let claimed = pair.claim()?;
        let (context, config) = (&pair.context, &pair.config);
        let region = MappedRegion::zeroed(context, control::WORDS * 8)?;
        let state = DeviceBuffer::zeroed(context, TRANSPORT_STATE_BYTES)?;
        let params = UnifiedParams {
            control: region.device_address(0)?.0,
            scratch: state.address().0,
            ..queue_params(pair, extent)
        };
        let buffer = DeviceBuffer::zeroed(context, size_of::<UnifiedParams>())?;
        buffer.write_from(0, params.as_bytes())?;
        let control = region.words(0, control::WORDS)?;
        let transport = HookTransport {
            context: Arc::clone(context),
            address: buffer.address().0,
            request_bytes: config.rx_stride,
            response_bytes: config.tx_stride,
            owner: Arc::new((pair.clone(), region, state, buffer)),
            claim: Claim::default(),
        };
        claimed.for_ever();
        Ok(Self { transport, control })
    }

    /// The transport, for a dispatcher.
    #[must_use]
    pub fn transport(&self) -> &HookTransport {
        &self.transport
    }

    /// Number of times that an event has happened on the queues so far.
    #[must_use]
    pub fn event(&self, event: Event) -> u64 {
        self.control.load(control::EVENTS + event as usize, Ordering::Acquire)
    }

    /// Responses for which no send completion was seen when the transport last ended.
    #[must_use]
    pub fn unsent(&self) -> u64 {
        let load = |word| self.control.load(word, Ordering::Acquire);
        load(control::POSTED).saturating_sub(load(control::DONE))
    }

    /// The reason for the queue pair's error state, if it was in that state when the transport last ended.
    #[must_use]
    pub fn dead(&self) -> Option<Syndrome> {
        let word = self.control.load(control::DEAD, Ordering::Acquire);
        (word != 0).then_some(Syndrome(word as u8))
    }
}

impl UnifiedDispatcher<Wired> {
    /// Links, loads and allocates everything for a dispatcher of one thread whose transport one of `modules` defines.
    ///
    /// The transport itself counts its events: [`event`](Self::event) stays 0, and reports do not include unsent
    /// responses.
    ///
    /// # Errors
    /// As for [`wire`](Self::wire). A transport that another dispatcher uses. Functions that are not thread handlers. A
    /// transport function that no module defines, by its name.
    #[allow(clippy::needless_pass_by_value)] // builders end here
    pub fn with_hooks(
        transport: &HookTransport,
        functions: Functions,
        modules: Modules,
    ) -> Result<Self, DeviceError> {
        let HookTransport { context, address, request_bytes, response_bytes, owner, claim } = transport;
        let claimed = claim.take("the transport has a dispatcher already")?;
        for bytes in [*request_bytes, *response_bytes] {
            if !bytes.is_multiple_of(16) {
                return Err(DeviceError::Shape(format!(
                    "frames of a unified dispatcher are multiples of 16 bytes, not {bytes}"
                )));
            }
        }
        let parts = Parts {
            context,
            geometry: Geometry::new(1, *request_bytes, *response_bytes, 0, 0, 0)?,
            kind: KernelKind::Regular { blocks: 1, warps: 1 },
            kernel: UnifiedKernel::Hooks,
            warps: 1,
            threads: 1,
            transport: Arc::new((claimed, Arc::clone(owner))),
            layout: |_, _, staging, in_shared| if in_shared { 2 * staging } else { 0 },
        };
        let params = UnifiedParams { context: *address, ..UnifiedParams::default() };
        parts.wire(params, &functions, &modules)
    }
}

//! Unified dispatchers whose transport is linked in: three device functions that receive and send.
//!
//! | function | what |
//! |---|---|
//! | `void* cudaq_dev_transport_attach(void* storage, void* ctx, volatile int* shutdown)` | makes a session in 256 bytes of storage, 16-byte aligned; null: it cannot |
//! | `int cudaq_dev_rx_poll(void* session, void** request, void** response)` | waits: 0 for a request, 1 for the end |
//! | `void cudaq_dev_tx_publish(void* session, void* response)` | sends; the response's header says how long it is |
//!
//! The names are those of the CUDA-Q Realtime host API. `kernels-cu/hooks/ring.cu` has them in CUDA C++.

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

/// What a transport that is linked in is attached to. Cheap to clone; of all clones one dispatcher is made at a time.
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
    /// A transport whose functions are in a module that will be linked, and which is attached to `address`. Frames of requests
    /// and responses have so many bytes each, header included, multiples of 16.
    ///
    /// # Safety
    /// 1. The functions that are linked take a context at `address`, and wait for nothing but requests and the shutdown word.
    /// 2. The requests and responses that they hand out are that long, 8-byte aligned, and theirs to hand out until the
    ///    response is published.
    /// 3. What `address` names lives until `owner` is dropped, and nothing but this transport and its clones has a kernel
    ///    attached to it meanwhile.
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
    /// Allocates what the transport keeps between starts. BlueFlame is not used.
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

    /// How often something happened on the queues, so far.
    #[must_use]
    pub fn event(&self, event: Event) -> u64 {
        self.control.load(control::EVENTS + event as usize, Ordering::Acquire)
    }

    /// Responses that the NIC was not known to have sent when the transport last ended.
    #[must_use]
    pub fn unsent(&self) -> u64 {
        let load = |word| self.control.load(word, Ordering::Acquire);
        load(control::POSTED).saturating_sub(load(control::DONE))
    }

    /// Why the queue pair was in the error state when the transport last ended, if it was.
    #[must_use]
    pub fn dead(&self) -> Option<Syndrome> {
        let word = self.control.load(control::DEAD, Ordering::Acquire);
        (word != 0).then_some(Syndrome(word as u8))
    }
}

impl UnifiedDispatcher<Wired> {
    /// Links, loads and allocates all that a dispatcher of one thread needs, whose transport is defined by one of `modules`.
    ///
    /// What happens on the transport is the transport's to count: [`event`](Self::event) stays 0, and reports know nothing of
    /// what was not sent.
    ///
    /// # Errors
    /// As for [`wire`](Self::wire). A transport that another dispatcher has. Functions that are no thread handlers; a transport's function that no module defines, by
    /// its name.
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
            layout: |_, _, stage, in_shared| if in_shared { 2 * stage } else { 0 },
        };
        let params = UnifiedParams { context: *address, ..UnifiedParams::default() };
        parts.wire(params, &functions, &modules)
    }
}

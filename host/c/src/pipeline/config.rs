//! Checked configuration of a pipeline, and its ring: the caller's ring, mapped memory, or memory of this process.

use crate::layout::cudaq_ringbuffer_t;
use crate::raw_ring::{View, check, copied, host_ring};
use crate::status::Fault;
use core::ffi::c_int;
use ringcall::{Ring, RingConfig, Wait};
use ringcall_cuda::driver::{Context, Driver, MappedRegion};
use ringcall_gpu::shared::{Region, Words};
use ringcall_pipeline::{CorePinning, StageConfig};
use ringcall_protocol::SharedRing;
use ringcall_protocol::ring::RingWindows;
use ringcall_wire::launch::MAX_SLOTS;
use std::sync::Arc;
use std::time::Duration;

/// The choices of a pipeline. Zero means the default, but for the cores.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct ringcall_pipeline_config_t {
    /// Workers.
    pub num_workers: u32,
    /// Slots of the ring.
    pub num_slots: u32,
    /// Bytes of a slot.
    pub slot_size: usize,
    /// The dispatcher's core; -1 for any.
    pub dispatcher_core: c_int,
    /// The consumer's core; -1 for any.
    pub consumer_core: c_int,
    /// The first worker's core; -1 for any.
    pub worker_base_core: c_int,
    /// CUDA device of graphs and of the ring.
    pub device_id: c_int,
    /// A ring of the caller's, or null.
    pub external_ring: *const cudaq_ringbuffer_t,
    /// How long a stop waits for requests in flight.
    pub stop_ms: u32,
    /// How long a request may be in flight.
    pub request_timeout_ms: u32,
}

const _: () = assert!(size_of::<ringcall_pipeline_config_t>() == 48);

/// How threads of the pipeline, and submissions, wait.
pub(super) const WAIT: Wait = Wait::Auto;
/// Workers at most.
const MAX_WORKERS: u32 = 64;
/// How long a stop waits for requests in flight by default: as the reference.
const STOP: Duration = Duration::from_secs(5);

/// The choices, checked.
#[derive(Debug)]
pub(super) struct PipelineConfig {
    pub(super) workers: u32,
    ring: RingConfig,
    cores: CorePinning,
    device: u32,
    pub(super) stop: Duration,
    timeout: Option<Duration>,
}

fn core(number: c_int, what: &str) -> Result<Option<usize>, Fault> {
    match number {
        -1 => Ok(None),
        0.. => Ok(Some(number as usize)),
        _ => Err(Fault::invalid(format!("{what} is {number}: a core is 0 or more, or -1 for any"))),
    }
}

impl PipelineConfig {
    /// # Safety
    /// `config` is null, or the header's struct, whose ring is null or the header's struct.
    pub(super) unsafe fn new(
        config: *const ringcall_pipeline_config_t,
    ) -> Result<(Self, Option<cudaq_ringbuffer_t>), Fault> {
        // SAFETY: the caller's promise.
        let given = unsafe { copied(config, "the configuration") }?;
        let or = |value: u32, default: u32| if value == 0 { default } else { value };
        let workers = or(given.num_workers, 8);
        if workers > MAX_WORKERS {
            return Err(Fault::invalid(format!(
                "num_workers is {workers}: a pipeline has {MAX_WORKERS} at most"
            )));
        }
        let defaults = RingConfig::default();
        let slots = or(given.num_slots, defaults.slots);
        if slots > MAX_SLOTS {
            return Err(Fault::invalid(format!("num_slots is {slots}: a ring has {MAX_SLOTS} at most")));
        }
        let slot_bytes = match given.slot_size {
            0 => defaults.slot_bytes,
            bytes => u32::try_from(bytes).map_err(|_| {
                Fault::invalid(format!("slot_size is {bytes}: a slot has less than 2^32 bytes"))
            })?,
        };
        let device = u32::try_from(given.device_id).map_err(|_| {
            Fault::invalid(format!("device_id is {}: no device has such a number", given.device_id))
        })?;
        let external = if given.external_ring.is_null() {
            None
        } else {
            // SAFETY: the caller's promise.
            Some(unsafe { copied(given.external_ring, "the ring") }?)
        };
        let ms = |ms: u32| Duration::from_millis(u64::from(ms));
        let checked = Self {
            workers,
            ring: RingConfig { slots, slot_bytes },
            cores: CorePinning {
                dispatcher: core(given.dispatcher_core, "dispatcher_core")?,
                consumer: core(given.consumer_core, "consumer_core")?,
                worker_base: core(given.worker_base_core, "worker_base_core")?,
            },
            device,
            stop: if given.stop_ms == 0 { STOP } else { ms(given.stop_ms) },
            timeout: (given.request_timeout_ms != 0).then(|| ms(given.request_timeout_ms)),
        };
        Ok((checked, external))
    }

    pub(super) fn stages(&self) -> StageConfig {
        StageConfig {
            workers: self.workers,
            ring: self.ring,
            cores: self.cores,
            wait: WAIT,
            request_timeout: self.timeout,
            ..StageConfig::default()
        }
    }

    /// The device's context.
    pub(super) fn context(&self) -> Result<Arc<Context>, Fault> {
        Ok(Driver::load()?.device(self.device)?.context()?)
    }

    /// The ring: the caller's; else in mapped memory where there is a device, and in this process's where there is none.
    ///
    /// # Safety
    /// An external ring's memory is there until the pipeline is destroyed.
    pub(super) unsafe fn ring(&self, external: Option<cudaq_ringbuffer_t>) -> Result<(Ring, Memory), Fault> {
        let RingConfig { slots, slot_bytes } = self.ring;
        if let Some(ring) = external {
            check(&ring, View::Host, slots, slot_bytes)?;
            // SAFETY: checked, and the caller's promise.
            let shared = unsafe { host_ring(&ring, slots) }?;
            return Ok((Ring::external(shared), Memory { ring, _owned: None }));
        }
        let context = self.context().ok();
        let owned = Owned::new(context.as_ref(), slots, slot_bytes)?;
        let (shared, ring) = owned.ring(slots, slot_bytes)?;
        Ok((Ring::over(shared), Memory { ring, _owned: Some(owned) }))
    }
}

/// Where a ring's memory is, and what keeps it.
pub(super) struct Memory {
    ring: cudaq_ringbuffer_t,
    _owned: Option<Owned>,
}

// SAFETY: the pointers are names of the caller's or of this library's memory, which `_owned` keeps; nothing here follows them.
unsafe impl Send for Memory {}
// SAFETY: as above; they are read alone.
unsafe impl Sync for Memory {}

impl Memory {
    pub(super) fn as_c(&self) -> cudaq_ringbuffer_t {
        self.ring
    }
}

/// Flags and slots of requests and responses.
enum Owned {
    Mapped([MappedRegion; 4]),
    Process([Region; 4]),
}

impl Owned {
    fn new(context: Option<&Arc<Context>>, slots: u32, slot_bytes: u32) -> Result<Self, Fault> {
        let (flags, data) = (slots as usize * 8, slots as usize * slot_bytes as usize);
        let sizes = [flags, flags, data, data];
        if let Some(context) = context {
            let [a, b, c, d] = sizes.map(|bytes| MappedRegion::zeroed(context, bytes));
            return Ok(Self::Mapped([a?, b?, c?, d?]));
        }
        let [a, b, c, d] = sizes.map(Region::zeroed);
        Ok(Self::Process([a?, b?, c?, d?]))
    }

    fn ring(&self, slots: u32, slot_bytes: u32) -> Result<(SharedRing, cudaq_ringbuffer_t), Fault> {
        let (count, bytes) = (slots as usize, slots as usize * slot_bytes as usize);
        let (windows, device) = match self {
            Self::Mapped([rx_flags, tx_flags, rx_data, tx_data]) => {
                let at = |region: &MappedRegion| region.device_address(0).map(|address| address.0);
                let windows = RingWindows {
                    rx_flags: rx_flags.words(0, count)?,
                    tx_flags: tx_flags.words(0, count)?,
                    rx_data: rx_data.bytes(0, bytes)?,
                    tx_data: tx_data.bytes(0, bytes)?,
                };
                (windows, [at(rx_flags)?, at(tx_flags)?, at(rx_data)?, at(tx_data)?])
            }
            Self::Process([rx_flags, tx_flags, rx_data, tx_data]) => {
                let windows = RingWindows {
                    rx_flags: rx_flags.words(0, count)?,
                    tx_flags: tx_flags.words(0, count)?,
                    rx_data: rx_data.bytes(0, bytes)?,
                    tx_data: tx_data.bytes(0, bytes)?,
                };
                let at = |words: &Words| words.address();
                let device = [
                    at(&windows.rx_flags),
                    at(&windows.tx_flags),
                    windows.rx_data.address(),
                    windows.tx_data.address(),
                ];
                (windows, device)
            }
        };
        let stride = slot_bytes as usize;
        let [rx_flags, tx_flags, rx_data, tx_data] = device;
        let c = cudaq_ringbuffer_t {
            rx_flags: rx_flags as usize as *mut u64,
            tx_flags: tx_flags as usize as *mut u64,
            rx_data: rx_data as usize as *mut u8,
            tx_data: tx_data as usize as *mut u8,
            rx_stride_sz: stride,
            tx_stride_sz: stride,
            rx_flags_host: windows.rx_flags.address() as usize as *mut u64,
            tx_flags_host: windows.tx_flags.address() as usize as *mut u64,
            rx_data_host: windows.rx_data.address() as usize as *mut u8,
            tx_data_host: windows.tx_data.address() as usize as *mut u8,
        };
        Ok((SharedRing::new(slots, slot_bytes, slot_bytes, windows, Some(rx_data))?, c))
    }
}

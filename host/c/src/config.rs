//! Checked configurations of dispatchers.

use crate::layout::cudaq_dispatcher_config_t;
use crate::raw_ring::stride;
use crate::status::Fault;
use ringcall_protocol::Geometry;
use ringcall_wire::status::{DispatchMode, DispatchPath, KernelType};

/// Threads of a block at most.
const MAX_THREADS: u32 = 1024;
/// Slots of a ring at most, where a launch function of the caller's says what its kernel serves.
const MAX_RING: u32 = 1 << 24;

/// What a caller chose.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Config {
    pub(crate) device: u32,
    pub(crate) blocks: u32,
    pub(crate) threads: u32,
    pub(crate) slots: u32,
    pub(crate) slot_bytes: u32,
    pub(crate) kernel: KernelType,
    pub(crate) mode: DispatchMode,
    pub(crate) path: DispatchPath,
    pub(crate) skip_marks: bool,
    pub(crate) shared: bool,
}

impl Config {
    pub(crate) fn new(raw: &cudaq_dispatcher_config_t) -> Result<Self, Fault> {
        let unknown = |error: ringcall_wire::WireError| Fault::invalid(error.to_string());
        let config = Self {
            device: u32::try_from(raw.device_id)
                .map_err(|_| Fault::invalid(format!("device_id {} is negative", raw.device_id)))?,
            blocks: raw.num_blocks.max(1),
            threads: if raw.threads_per_block == 0 { 32 } else { raw.threads_per_block },
            slots: raw.num_slots,
            slot_bytes: raw.slot_size,
            kernel: KernelType::from_raw(raw.kernel_type).map_err(unknown)?,
            mode: DispatchMode::from_raw(raw.dispatch_mode).map_err(unknown)?,
            path: DispatchPath::from_raw(raw.dispatch_path).map_err(unknown)?,
            skip_marks: raw.skip_tx_markers != 0,
            shared: raw.shared_ring_mode != 0,
        };
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), Fault> {
        let unified = self.kernel == KernelType::Unified;
        if self.threads > MAX_THREADS {
            let threads = self.threads;
            return Err(Fault::invalid(format!("{threads} threads a block: {MAX_THREADS} at most")));
        }
        let most = match self.path {
            DispatchPath::Host => Geometry::MAX_SLOTS,
            DispatchPath::Device => MAX_RING,
        };
        if self.slots > most || (self.slots == 0 && !unified) {
            return Err(Fault::invalid(format!("num_slots is {}: 1 to {most}", self.slots)));
        }
        if self.slot_bytes > 0 || !unified {
            stride(self.slot_bytes as usize, 0, "slot_size")?;
        }
        match (self.path, self.mode) {
            (DispatchPath::Device, DispatchMode::HostCall) => {
                Err(Fault::invalid("HOST_CALL is for the host path"))
            }
            (DispatchPath::Device, DispatchMode::GraphLaunch) if unified => {
                Err(Fault::invalid("the unified kernel launches no graphs"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_ring_has_no_more_slots_than_a_ring_can_have() {
        let config = |path: DispatchPath, num_slots| cudaq_dispatcher_config_t {
            device_id: 0,
            num_blocks: 0,
            threads_per_block: 0,
            num_slots,
            slot_size: 64,
            vp_id: 0,
            kernel_type: KernelType::Regular.raw(),
            dispatch_mode: DispatchMode::DeviceCall.raw(),
            dispatch_path: path.raw(),
            skip_tx_markers: 0,
            shared_ring_mode: 0,
        };
        let taken = |path, slots| Config::new(&config(path, slots)).is_ok();
        assert!(taken(DispatchPath::Host, Geometry::MAX_SLOTS));
        assert!(!taken(DispatchPath::Host, Geometry::MAX_SLOTS + 1));
        assert!(taken(DispatchPath::Device, Geometry::MAX_SLOTS + 1), "its launch function knows");
        assert!(!taken(DispatchPath::Device, MAX_RING + 1));
    }
}

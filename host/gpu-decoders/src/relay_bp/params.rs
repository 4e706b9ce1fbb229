//! Parameters of the kernel, as `kernels-cu/relay/relay.cu` lays them out.

use ringcall_bp::BpConfig;
use zerocopy::{Immutable, IntoBytes};

/// Settings of a decode.
#[derive(Debug, Clone, Copy, Default, IntoBytes, Immutable)]
#[repr(C)]
pub(crate) struct Settings {
    first_memory: i32,
    low: i32,
    /// How many memory strengths there are from `low` on.
    values: u32,
    first_iterations: u32,
    leg_iterations: u32,
    legs: u32,
    solutions: u32,
    max_iterations: u32,
    seed: u32,
    lane_delay: u32,
}

/// The kernel's parameters. Addresses are the device's.
#[derive(Debug, Clone, Copy, Default, IntoBytes, Immutable)]
#[repr(C)]
pub(crate) struct Params {
    pub(crate) tables: u64,
    pub(crate) races: u64,
    pub(crate) cancel: u64,
    /// Of a graph: where its request lies, and where its answer goes.
    pub(crate) request: u64,
    pub(crate) answer: u64,
    pub(crate) deadline_ns: u64,
    pub(crate) settings: Settings,
    pub(crate) lanes: u32,
    pub(crate) shared_bytes: u32,
    pub(crate) request_bytes: u32,
    pub(crate) answer_bytes: u32,
    pub(crate) observables: u32,
    pub(crate) reserved: u32,
}

const _: () = assert!(size_of::<Params>() == 112);

/// Where the lanes of a race meet: `Race` of `decode.cuh`.
pub(crate) const RACE_BYTES: usize = 32 + 64 * 32;

/// A race before its start: nothing is best.
pub(crate) fn idle_race() -> [u8; RACE_BYTES] {
    let mut bytes = [0; RACE_BYTES];
    bytes[..4].fill(0xFF);
    bytes
}

impl Params {
    pub(crate) fn new(config: &BpConfig) -> Self {
        let (low, high) = config.memory;
        Self {
            settings: Settings {
                first_memory: config.first_memory.into(),
                low: low.into(),
                values: (i32::from(high) - i32::from(low)).unsigned_abs() + 1,
                first_iterations: config.first_iterations,
                leg_iterations: config.leg_iterations,
                legs: config.legs,
                solutions: config.solutions,
                max_iterations: config.max_iterations,
                seed: config.seed,
                lane_delay: config.lane_delay,
            },
            lanes: config.lanes,
            ..Self::default()
        }
    }
}

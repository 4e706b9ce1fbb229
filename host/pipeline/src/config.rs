//! Configuration of a pipeline: workers, ring, cores, polling, timeout.

use ringcall::{RingConfig, Wait};
use std::time::Duration;

/// Which core each thread is pinned to; `None` leaves a thread where the kernel puts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CorePinning {
    /// The dispatcher thread.
    pub dispatcher: Option<usize>,
    /// The consumer thread, which runs the completion handler.
    pub consumer: Option<usize>,
    /// Worker `i` is pinned to `worker_base + i`.
    pub worker_base: Option<usize>,
}

/// How the 32-bit request ids of an external ring become the 64-bit ids of completions.
///
/// An injector's ids are 64 bits wide from the start and need no rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExternalIds {
    /// The producer counts upwards and sends the low 32 bits. Each id becomes the 64-bit number with those low bits that is
    /// nearest to the highest id so far: exact while the requests in flight span less than 2³¹.
    #[default]
    Counting,
    /// The producer's ids mean something else: they are taken as they are, with a high half of zero.
    Opaque,
}

/// The shape of a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageConfig {
    /// How many workers, each with its own inference stage and CPU stage. Any number from 1.
    pub workers: u32,
    /// The ring to allocate; an external ring has its own.
    pub ring: RingConfig,
    /// Where threads run.
    pub cores: CorePinning,
    /// How threads poll.
    pub wait: Wait,
    /// How long a request may be in flight before it is answered `TIMED_OUT`; `None`: no limit.
    pub request_timeout: Option<Duration>,
    /// Rule for the ids of an external ring.
    pub external_ids: ExternalIds,
}

impl Default for StageConfig {
    /// 8 workers, 32 slots of 16 KiB, nothing pinned, no timeout: the reference's defaults.
    fn default() -> Self {
        Self {
            workers: 8,
            ring: RingConfig::default(),
            cores: CorePinning::default(),
            wait: Wait::Auto,
            request_timeout: None,
            external_ids: ExternalIds::default(),
        }
    }
}

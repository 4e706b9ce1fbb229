//! Which threads of a pipeline get which cores.

use anyhow::{Result, bail};
use ringcall_pipeline::CorePinning;

/// A core for each thread of a pipeline of so many workers, consecutive for the workers. The first allowed core is left to
/// the driver and to the system.
///
/// # Errors
/// Too few consecutive cores.
pub(crate) fn auto(workers: u32) -> Result<CorePinning> {
    let allowed = ringcall::pin::pin_current("run", None).got;
    match allowed.get(1..3 + workers as usize) {
        Some([dispatcher, consumer, rest @ ..]) if rest.windows(2).all(|w| w[1] == w[0] + 1) => {
            Ok(CorePinning {
                dispatcher: Some(*dispatcher),
                consumer: Some(*consumer),
                worker_base: rest.first().copied(),
            })
        }
        _ => bail!(
            "--pin auto needs {} consecutive cores for {workers} workers; this process may use {}: give fewer \
             --workers, or --pin none",
            workers + 3,
            allowed.len()
        ),
    }
}

/// Workers where nobody says how many: dispatcher, consumer and driver have a core each where there are enough.
pub(crate) fn workers() -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    cores.saturating_sub(3).clamp(1, 8) as u32
}

//! CPU time of a thread.

use std::error::Error;

/// CPU time of this thread, in seconds: other load on the machine does not count.
pub(crate) fn cpu_time() -> Result<f64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(text.split_whitespace().next().ok_or("an empty file")?.parse::<f64>()? / 1e9)
}

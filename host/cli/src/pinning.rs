//! Cores for threads, and whether each thread was pinned.

use anyhow::{Result, bail};
use ringcall::pin::{PinReport, pin_current};
use ringcall_pipeline::CorePinning;
use std::collections::BTreeSet;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

/// Core numbers separated by commas, without repetitions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CoreList(pub(crate) Vec<usize>);

impl FromStr for CoreList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut cores = Vec::new();
        for part in text.split(',') {
            let core = part.trim().parse().map_err(|_| format!("`{part}` is no core number"))?;
            if cores.contains(&core) {
                return Err(format!(
                    "core {core} is given twice: threads that share one wait for each other"
                ));
            }
            cores.push(core);
        }
        Ok(Self(cores))
    }
}

/// Pins the calling thread, and reports a failure.
pub(crate) fn pin(thread: &str, core: usize) {
    tell(&pin_current(thread, Some(core)));
}

/// Reports on standard error, once for each thread and core, that a thread is not pinned.
pub(crate) fn tell(pin: &PinReport) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if let Some(line) = news(&mut SAID.lock().unwrap_or_else(PoisonError::into_inner), pin) {
        crate::usage::tell(&line);
    }
}

/// A report that was not made before.
fn news(said: &mut BTreeSet<String>, pin: &PinReport) -> Option<String> {
    let line = pin.to_string();
    (!pin.took() && said.insert(line.clone())).then_some(line)
}

/// A core for each thread of a pipeline with `workers` workers, whose cores are consecutive. The first allowed core is
/// left to the driver and the system.
///
/// # Errors
/// There are too few consecutive cores.
pub(crate) fn auto(workers: u32) -> Result<CorePinning> {
    let allowed = pin_current("run", None).got;
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

/// The default number of workers: dispatcher, consumer and driver have a core each if there are enough.
pub(crate) fn workers() -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    cores.saturating_sub(3).clamp(1, 8) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_each_core_once() {
        assert_eq!("3, 1,2".parse(), Ok(CoreList(vec![3, 1, 2])));
        for (text, why) in [("1,2,1", "core 1 is given twice"), ("", "no core number"), ("1,-2", "`-2`")] {
            assert!(text.parse::<CoreList>().is_err_and(|error| error.contains(why)), "{text}");
        }
    }

    #[test]
    fn a_thread_that_is_not_pinned_is_told_once() {
        let mut said = BTreeSet::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let refused = pin_current("client", Some(usize::MAX));
                let line = news(&mut said, &refused).expect("it did not take");
                assert!(line.contains("client: NOT pinned"), "{line}");
                assert_eq!(news(&mut said, &refused), None, "said before");
                assert!(
                    news(&mut said, &pin_current("worker", Some(usize::MAX))).is_some(),
                    "another thread"
                );
                assert_eq!(news(&mut said, &pin_current("client", None)), None, "nothing was asked");
            });
        });
    }
}

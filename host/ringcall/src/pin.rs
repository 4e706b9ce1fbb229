//! Core pinning that reports its result.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Result of pinning one thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinReport {
    /// The thread: "dispatcher", "worker 3".
    pub thread: String,
    /// The core asked for, if any.
    pub wanted: Option<usize>,
    /// The cores the thread may run on now.
    pub got: Vec<usize>,
    /// Why pinning failed, if it did.
    pub error: Option<String>,
}

impl PinReport {
    /// Whether the thread runs on the requested core; true if no core was requested.
    #[must_use]
    pub fn took(&self) -> bool {
        self.error.is_none() && self.wanted.is_none_or(|core| self.got == [core])
    }
}

impl std::fmt::Display for PinReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (thread, cores) = (&self.thread, self.got.len());
        match (&self.wanted, &self.error) {
            (None, _) => write!(f, "{thread}: not pinned, may run on {cores} cores"),
            (Some(core), None) if self.took() => write!(f, "{thread}: pinned to core {core}"),
            (Some(core), error) => {
                let why = error.as_deref().unwrap_or("the system says otherwise");
                write!(f, "{thread}: NOT pinned to core {core} ({why}); may run on {cores} cores")
            }
        }
    }
}

/// Pins the calling thread to `core` (`None`: does not pin it), and reads the kernel's affinity mask back.
#[must_use]
pub fn pin_current(thread: &str, core: Option<usize>) -> PinReport {
    let error = core.and_then(|core| {
        if core >= CpuSet::MAX_CPU {
            return Some(format!("core numbers end at {}", CpuSet::MAX_CPU - 1));
        }
        let mut set = CpuSet::new();
        set.set(core);
        sched_setaffinity(None, &set).err().map(|e| e.to_string())
    });
    let got: Vec<usize> = sched_getaffinity(None)
        .map(|set| (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
        .unwrap_or_default();
    PinReport { thread: thread.to_owned(), wanted: core, got, error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_that_the_system_took_back_is_none() {
        let pin = PinReport { thread: "worker 3".to_owned(), wanted: Some(2), got: vec![0, 1], error: None };
        assert!(!pin.took());
        assert!(pin.to_string().contains("NOT pinned to core 2"), "{pin}");
    }

    #[test]
    fn a_pin_to_an_allowed_core_takes_and_one_to_none_reports() {
        // On a thread of its own, since the affinity stays.
        std::thread::spawn(|| {
            let before = pin_current("t", None);
            assert!(before.took() && !before.got.is_empty());
            let core = before.got[0];
            let pinned = pin_current("t", Some(core));
            assert!(pinned.took(), "{pinned}");
            assert_eq!(pinned.got, [core]);
            let refused = pin_current("t", Some(CpuSet::MAX_CPU + 7));
            assert!(!refused.took());
            assert_eq!(refused.got, [core]);
            assert!(refused.to_string().contains("NOT pinned"));
        })
        .join()
        .expect("no panic");
    }
}

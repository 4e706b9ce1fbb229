//! Counts of the launches that dispatch graphs make by themselves, by device: of live handles, and sums of
//! destroyed ones.
//!
//! They are read from mapped memory, so a program can also ask for them while a kernel hangs.

use crate::handles::{Registry, lock};
use crate::status::Fault;
use core::ffi::{c_int, c_void};
use ringcall_launch::ring::Triggers;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The code of the last trigger launch where there was none: `RINGCALL_TRIGGER_NEVER_FIRED` in the header.
const NEVER_FIRED: c_int = -1000;

/// Launches that a kernel has made: relaunches of itself, and launches of its trigger graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct SelfLaunchStats {
    relaunches: u64,
    triggers: Triggers,
}

impl SelfLaunchStats {
    pub(super) const fn new(relaunches: u64, triggers: Triggers) -> Self {
        Self { relaunches, triggers }
    }

    /// The sum for two kernels of one device, with the later of their last trigger launches.
    fn and(self, other: Self) -> Self {
        let (ours, theirs) = (self.triggers, other.triggers);
        let later = theirs.launches != 0 && (ours.launches == 0 || theirs.at_ns > ours.at_ns);
        let last = if later { theirs } else { ours };
        Self {
            relaunches: self.relaunches + other.relaunches,
            triggers: Triggers { launches: ours.launches + theirs.launches, ..last },
        }
    }

    pub(super) fn relaunches(&self) -> u64 {
        self.relaunches
    }

    pub(super) fn fires(&self) -> u64 {
        self.triggers.launches
    }

    /// CUDA code of the last trigger launch.
    pub(super) fn trigger_rc(&self) -> c_int {
        if self.triggers.launches == 0 { NEVER_FIRED } else { self.triggers.error as c_int }
    }
}

/// A kernel that makes launches.
pub(super) trait Launching {
    /// Number of its device.
    fn device(&self) -> u32;

    /// Its launches so far. Does not wait for the kernel.
    fn so_far(&self) -> SelfLaunchStats;
}

/// The live handles of one kind, and the launches of destroyed handles.
pub(super) struct Ledger<T> {
    live: Registry<T>,
    /// Sums by device. The lock is held while a handle is destroyed and while live and destroyed handles are added
    /// up.
    gone: Mutex<BTreeMap<u32, SelfLaunchStats>>,
}

impl<T: Launching> Ledger<T> {
    pub(super) const fn new(what: &'static str) -> Self {
        Self { live: Registry::new(what), gone: Mutex::new(BTreeMap::new()) }
    }

    pub(super) fn insert(&self, value: Arc<T>) -> *mut c_void {
        self.live.insert(value)
    }

    pub(super) fn get(&self, handle: *const c_void) -> Result<Arc<T>, Fault> {
        self.live.get(handle)
    }

    /// Removes a kernel that does not run any more.
    pub(super) fn remove(&self, handle: *const c_void) -> Result<Arc<T>, Fault> {
        let mut gone = lock(&self.gone);
        let value = self.live.remove(handle)?;
        let sum = gone.entry(value.device()).or_default();
        *sum = sum.and(value.so_far());
        Ok(value)
    }

    /// The launches of all kernels of a device.
    pub(super) fn so_far(&self, device: u32) -> SelfLaunchStats {
        let gone = lock(&self.gone);
        let mut sum = gone.get(&device).copied().unwrap_or_default();
        self.live.for_each(|value| {
            if value.device() == device {
                sum = sum.and(value.so_far());
            }
        });
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEADER: &str = include_str!("../../include/cudaq/realtime/daemon/dispatcher/cudaq_realtime.h");

    struct FakeLaunching(u32, SelfLaunchStats);

    impl Launching for FakeLaunching {
        fn device(&self) -> u32 {
            self.0
        }

        fn so_far(&self) -> SelfLaunchStats {
            self.1
        }
    }

    fn launched(relaunches: u64, launches: u64, error: u32, at_ns: u64) -> SelfLaunchStats {
        SelfLaunchStats::new(relaunches, Triggers { launches, error, at_ns })
    }

    fn launches_of(ledger: &Ledger<FakeLaunching>, device: u32) -> (c_int, u64, u64) {
        let so_far = ledger.so_far(device);
        (so_far.trigger_rc(), so_far.fires(), so_far.relaunches())
    }

    #[test]
    fn nothing_was_ever_fired_before_the_first_launch() {
        let ledger = Ledger::new("graph");
        assert_eq!(launches_of(&ledger, 0), (NEVER_FIRED, 0, 0));
        ledger.insert(Arc::new(FakeLaunching(0, launched(3, 0, 0, 0))));
        assert_eq!(launches_of(&ledger, 0), (NEVER_FIRED, 0, 3));
        assert!(HEADER.contains(&format!("#define RINGCALL_TRIGGER_NEVER_FIRED ({NEVER_FIRED})\n")));
    }

    #[test]
    fn devices_are_kept_apart() {
        let ledger = Ledger::new("graph");
        let other = ledger.insert(Arc::new(FakeLaunching(1, launched(2, 5, 719, 10))));
        assert_eq!(launches_of(&ledger, 0), (NEVER_FIRED, 0, 0));
        assert_eq!(launches_of(&ledger, 1), (719, 5, 2));
        ledger.remove(other).expect("there");
        assert_eq!((launches_of(&ledger, 0), launches_of(&ledger, 1)), ((NEVER_FIRED, 0, 0), (719, 5, 2)));
    }

    #[test]
    fn the_last_code_is_that_of_the_last_launch() {
        let ledger = Ledger::new("graph");
        let first = ledger.insert(Arc::new(FakeLaunching(0, launched(0, 1, 719, 20))));
        assert_eq!(launches_of(&ledger, 0).0, 719);
        ledger.insert(Arc::new(FakeLaunching(0, launched(0, 0, 0, 0))));
        ledger.insert(Arc::new(FakeLaunching(0, launched(0, 4, 1, 10))));
        assert_eq!(
            launches_of(&ledger, 0),
            (719, 5, 0),
            "an earlier failure, and one that has launched nothing"
        );
        ledger.insert(Arc::new(FakeLaunching(0, launched(0, 1, 0, 30))));
        assert_eq!(launches_of(&ledger, 0), (0, 6, 0));
        ledger.remove(first).expect("there");
        assert_eq!(launches_of(&ledger, 0), (0, 6, 0));
    }

    #[test]
    fn one_is_removed_once() {
        let ledger = Ledger::new("graph");
        let handle = ledger.insert(Arc::new(FakeLaunching(0, launched(1, 1, 0, 1))));
        assert!(ledger.get(handle).is_ok() && ledger.remove(handle).is_ok());
        assert!(ledger.get(handle).is_err() && ledger.remove(handle).is_err());
        assert_eq!(launches_of(&ledger, 0), (0, 1, 1), "counted once");
    }

    #[test]
    fn sums_stay_while_graphs_go() {
        let ledger = Ledger::new("graph");
        let handles: Vec<usize> = (0..500)
            .map(|i| ledger.insert(Arc::new(FakeLaunching(0, launched(1, 2, i, i.into())))).addr())
            .collect();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for handle in handles {
                    let handle = core::ptr::without_provenance(handle);
                    ledger.remove(handle).map(drop).expect("there");
                }
            });
            loop {
                assert_eq!(launches_of(&ledger, 0), (499, 1000, 500));
                if lock(&ledger.gone).get(&0).is_some_and(|gone| gone.relaunches == 500) {
                    break;
                }
            }
        });
    }

    proptest! {
        /// However many there are, and whichever of them are gone: sums, and the latest launch.
        #[test]
        fn all_of_a_device_are_added_up(
            all in proptest::collection::vec((0..2_u32, 0..9_u64, 0..3_u64, 0..1000_u32, any::<bool>()), 0..12),
        ) {
            let ledger = Ledger::new("graph");
            let mut expected = [(NEVER_FIRED, 0, 0); 2];
            for (at, &(device, relaunches, launches, error, goes)) in all.iter().enumerate() {
                let fake = FakeLaunching(device, launched(relaunches, launches, error, at as u64));
                let handle = ledger.insert(Arc::new(fake));
                if goes {
                    ledger.remove(handle).map(drop).expect("there");
                }
                let (rc, fires, tails) = &mut expected[device as usize];
                *rc = if launches == 0 { *rc } else { error as c_int };
                *fires += launches;
                *tails += relaunches;
                prop_assert_eq!([0, 1].map(|device| launches_of(&ledger, device)), expected);
            }
        }
    }
}

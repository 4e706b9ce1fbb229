//! Counts of the launches that a kernel makes by itself.

use super::DeviceError;
use ringcall_dispatcher::ring::triggers::{self, TriggerRecord};
use ringcall_wire::launch::control;

/// Launches that a dispatcher's kernel has made so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LaunchStats {
    /// Launches of graphs.
    pub graphs: u64,
    /// Relaunches of the dispatcher itself.
    pub relaunches: u64,
    /// CUDA code of the last failed launch of a graph; 0: none failed.
    pub graph_error: u32,
    /// CUDA code of a failed relaunch, after which the dispatcher ended; 0: none failed.
    pub relaunch_error: u32,
}

impl LaunchStats {
    /// Reads the counts from the words of a control block.
    pub(crate) fn of(read: impl Fn(usize) -> u64) -> Self {
        Self {
            graphs: read(control::LAUNCHES),
            relaunches: read(control::RELAUNCHES),
            graph_error: read(control::LAUNCH_ERROR) as u32,
            relaunch_error: read(control::RELAUNCH_ERROR) as u32,
        }
    }
}

/// Counts of a program's trigger graph ([`LinkedGraphs::trigger`](super::LinkedGraphs::trigger)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Triggers {
    /// Launches so far, including failed ones.
    pub launches: u64,
    /// CUDA code of the last launch; 0: it succeeded, or there was none.
    pub error: u32,
    /// Time of the last launch, ns of the device's global timer.
    pub at_ns: u64,
}

impl Triggers {
    /// Reads the counts of one launch from the words of a control block, with acquire loads. Does not wait: see
    /// [`triggers::read`].
    pub(crate) fn of(read: impl Fn(usize) -> u64) -> Self {
        let TriggerRecord { launches, code, at_ns } = triggers::read(read);
        Self { launches, error: code as u32, at_ns }
    }
}

/// Why the kernel of a control block ended by itself, if it did.
pub(crate) fn failure(read: impl Fn(usize) -> u64) -> Option<DeviceError> {
    (read(control::STATE) == control::STATE_FAILED).then(|| match LaunchStats::of(read).relaunch_error {
        0 => DeviceError::EndedFailed,
        code => DeviceError::NotRelaunched(code),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_failed_kernel_has_a_reason() {
        let block = |state, code| {
            move |word| match word {
                control::STATE => state,
                control::RELAUNCH_ERROR => code,
                _ => 0,
            }
        };
        for state in [control::STATE_NEW, control::STATE_RUNNING, control::STATE_ENDED] {
            assert_eq!(failure(block(state, 701)), None);
        }
        assert_eq!(failure(block(control::STATE_FAILED, 701)), Some(DeviceError::NotRelaunched(701)));
        assert_eq!(failure(block(control::STATE_FAILED, 0)), Some(DeviceError::EndedFailed));
    }

    #[test]
    fn every_word_is_where_the_kernel_writes_it() {
        let words = [control::LAUNCHES, control::RELAUNCHES, control::LAUNCH_ERROR, control::RELAUNCH_ERROR];
        let all =
            LaunchStats::of(|word| words.iter().position(|&known| known == word).expect("known") as u64);
        assert_eq!(all, LaunchStats { graphs: 0, relaunches: 1, graph_error: 2, relaunch_error: 3 });
        let words = [control::TRIGGERS, control::TRIGGER_ERROR, control::TRIGGERED_AT];
        let all = Triggers::of(|word| match word {
            control::TRIGGER_BEGUN => 0,
            _ => words.iter().position(|&known| known == word).expect("known") as u64,
        });
        assert_eq!(all, Triggers { launches: 0, error: 1, at_ns: 2 });
    }
}

//! What became of the launches that a kernel makes by itself.

use super::DeviceError;
use ringcall_dispatcher::ring::triggers::{self, Figures};
use ringcall_wire::launch::control;

/// Launches that a dispatcher's kernel made so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LaunchStats {
    /// Graphs.
    pub graphs: u64,
    /// The dispatcher itself, again.
    pub relaunches: u64,
    /// CUDA code of the last launch of a graph that failed; 0: none did.
    pub graph_error: u32,
    /// CUDA code with which the dispatcher could not launch itself again, and ended; 0: it has not.
    pub relaunch_error: u32,
}

impl LaunchStats {
    /// What the words of a control block say.
    pub(crate) fn of(read: impl Fn(usize) -> u64) -> Self {
        Self {
            graphs: read(control::LAUNCHES),
            relaunches: read(control::RELAUNCHES),
            graph_error: read(control::LAUNCH_ERROR) as u32,
            relaunch_error: read(control::RELAUNCH_ERROR) as u32,
        }
    }
}

/// What became of the trigger graph of a program's own ([`LinkedGraphs::trigger`](super::LinkedGraphs::trigger)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Triggers {
    /// Launches so far, failed ones too.
    pub launches: u64,
    /// CUDA code of the last one; 0: it succeeded, or there was none.
    pub error: u32,
    /// When the last one was, ns of the device's global timer.
    pub at_ns: u64,
}

impl Triggers {
    /// What the words of a control block say of one launch, loaded with acquire. Does not wait: see [`triggers::read`].
    pub(crate) fn of(read: impl Fn(usize) -> u64) -> Self {
        let Figures { launches, code, at_ns } = triggers::read(read);
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

//! Comparison of two decoders on the same shots.

use super::{Interval, LogicalErrorRate, StatsError, standard_score, tail};

/// Logical errors of two decoders on the same shots.
///
/// ```
/// use ringcall_qec::stats::PairedErrors;
/// let counted = PairedErrors { shots: 91_136, first: 1222, second: 1022, both: 307 };
/// let interval = counted.ratio_interval(0.95)?;
/// assert!((counted.ratio() - 0.836).abs() < 1e-3);
/// assert!(interval.is_some_and(|i| (i.low - 0.779).abs() < 1e-3 && (i.high - 0.898).abs() < 1e-3));
/// # Ok::<(), ringcall_qec::stats::StatsError>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PairedErrors {
    /// The shots decoded by both.
    pub shots: u64,
    /// The shots that the first decoder got wrong.
    pub first: u64,
    /// The shots that the second decoder got wrong.
    pub second: u64,
    /// The shots that both got wrong, which `first` and `second` count too.
    pub both: u64,
}

impl PairedErrors {
    /// The first decoder's logical error rate.
    pub fn first_rate(&self) -> LogicalErrorRate {
        LogicalErrorRate { shots: self.shots, errors: self.first }
    }

    /// The second decoder's logical error rate.
    pub fn second_rate(&self) -> LogicalErrorRate {
        LogicalErrorRate { shots: self.shots, errors: self.second }
    }

    /// Errors of the second for each error of the first; NaN if neither made any.
    pub fn ratio(&self) -> f64 {
        self.second as f64 / self.first as f64
    }

    /// An interval of [`ratio`](Self::ratio), by the delta method for the logarithm of a ratio of paired proportions: its
    /// variance is `(first + second - 2 both) / (first * second)`. `None` if either decoder made no errors, where the method is
    /// undefined. The interval is rough below some ten errors of either.
    ///
    /// # Errors
    /// [`StatsError`] for a level outside `(0, 1)` and for impossible counts.
    pub fn ratio_interval(&self, confidence: f64) -> Result<Option<Interval>, StatsError> {
        let z = standard_score(tail(confidence)?);
        let Self { shots, first, second, both } = *self;
        for errors in [first, second] {
            if shots == 0 || errors > shots || both > errors {
                return Err(StatsError::Counts { shots, errors });
            }
        }
        if first == 0 || second == 0 {
            return Ok(None);
        }
        let differing = (first - both) as f64 + (second - both) as f64;
        let half = z * (differing / (first as f64 * second as f64)).sqrt();
        let ratio = self.ratio();
        Ok(Some(Interval { low: ratio * (-half).exp(), high: ratio * half.exp() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results of `training/predecoder/measure.py` for its counts (`training/models/3x128.metrics.json`): shots, errors of
    /// either, common ones, ratio and its interval.
    const KNOWN: [([u64; 4], [f64; 3]); 2] = [
        (
            [91_136, 1222, 1022, 307],
            [0.836_333_878_887_070_3, 0.779_161_897_061_625_4, 0.897_700_926_613_678_6],
        ),
        ([91_136, 1222, 1006, 317], [0.823_240_589_198_036, 0.767_141_364_678_614_8, 0.883_442_216_659_839]),
    ];

    #[test]
    fn intervals_match_the_trainings() {
        for ([shots, first, second, both], expected) in KNOWN {
            let counted = PairedErrors { shots, first, second, both };
            let interval = counted.ratio_interval(0.95).unwrap().unwrap();
            // It takes 1.96 for the 97.5th percentile.
            for (found, expected) in [counted.ratio(), interval.low, interval.high].iter().zip(expected) {
                assert!((found - expected).abs() < 1e-5, "{found}, expected {expected}");
            }
        }
    }

    #[test]
    fn the_same_decoder_twice_is_certain() {
        let same = PairedErrors { shots: 100, first: 7, second: 7, both: 7 };
        assert_eq!(same.ratio_interval(0.99).unwrap(), Some(Interval { low: 1.0, high: 1.0 }));
        let apart = PairedErrors { both: 0, ..same };
        let wide = apart.ratio_interval(0.99).unwrap().unwrap();
        assert!(wide.low < 0.3 && wide.high > 3.0, "{wide:?}");
        assert_eq!((apart.first_rate().errors, apart.second_rate().shots), (7, 100));
    }

    #[test]
    fn what_says_nothing_has_no_interval() {
        let counted = |first, second, both| PairedErrors { shots: 10, first, second, both };
        assert_eq!(counted(3, 0, 0).ratio_interval(0.95).unwrap(), None);
        assert_eq!(counted(0, 3, 0).ratio_interval(0.95).unwrap(), None);
        assert!(counted(0, 0, 0).ratio().is_nan());
        for impossible in [counted(11, 1, 0), counted(1, 11, 0), counted(2, 1, 2), PairedErrors::default()] {
            assert!(
                matches!(impossible.ratio_interval(0.95), Err(StatsError::Counts { .. })),
                "{impossible:?}"
            );
        }
        assert!(matches!(counted(1, 1, 1).ratio_interval(1.0), Err(StatsError::Confidence { .. })));
    }
}

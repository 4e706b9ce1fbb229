//! Confidence histogram: answers by their decoder's confidence, and how many of them were wrong.

use std::fmt;

/// The lower ends of the bins after the first, as natural logarithms of odds.
const ENDS: [f64; 8] = [1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0];
/// These bins, the bin below them, and the bin of answers without an alternative.
const BINS: usize = ENDS.len() + 2;

/// Answers of about one confidence.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ConfidenceBin {
    /// The number of answers.
    pub answers: u64,
    /// The number of wrong answers; 0 if the truth is unknown.
    pub wrong: u64,
    /// The number of wrong answers to expect if every confidence is right: the sum of 1 / (1 + e^confidence).
    pub expected_wrong: f64,
}

/// The distribution of confidences.
///
/// ```
/// use ringcall_decoder_service::Confidences;
/// let mut confidences = Confidences::default();
/// confidences.record(0.0, true);
/// confidences.record(f64::INFINITY, false);
/// let all = confidences.total();
/// assert_eq!((all.answers, all.wrong, all.expected_wrong), (2, 1, 0.5));
/// assert_eq!(confidences.iter().next().map(|(from, to, _)| (from, to)), Some((f64::NEG_INFINITY, 1.0)));
/// ```
#[derive(Clone, Default, PartialEq)]
pub struct Confidences {
    bins: [ConfidenceBin; BINS],
}

impl fmt::Debug for Confidences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(from, _, bin)| (from, *bin))).finish()
    }
}

impl Confidences {
    /// Counts an answer of this confidence, a natural logarithm of odds. NaN means no confidence, and is not counted.
    pub fn record(&mut self, confidence: f64, wrong: bool) {
        let place = match confidence {
            f64::INFINITY => BINS - 1,
            confidence if confidence.is_nan() => return,
            confidence => ENDS.partition_point(|end| *end <= confidence),
        };
        let Some(bin) = self.bins.get_mut(place) else { return };
        bin.answers += 1;
        bin.wrong += u64::from(wrong);
        bin.expected_wrong += 1.0 / (1.0 + confidence.exp());
    }

    /// The bins by rising confidence: lower end (included), upper end (excluded) and answers. Both ends of the last bin are infinite.
    pub fn iter(&self) -> impl Iterator<Item = (f64, f64, &ConfidenceBin)> {
        self.bins.iter().enumerate().map(|(place, bin)| {
            let lower = match place {
                0 => f64::NEG_INFINITY,
                _ => ENDS.get(place - 1).copied().unwrap_or(f64::INFINITY),
            };
            (lower, ENDS.get(place).copied().unwrap_or(f64::INFINITY), bin)
        })
    }

    /// The sum of all bins.
    #[must_use]
    pub fn total(&self) -> ConfidenceBin {
        self.bins.iter().fold(ConfidenceBin::default(), |sum, bin| ConfidenceBin {
            answers: sum.answers + bin.answers,
            wrong: sum.wrong + bin.wrong,
            expected_wrong: sum.expected_wrong + bin.expected_wrong,
        })
    }

    /// Whether no answer had a confidence.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bins.iter().all(|bin| bin.answers == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_confidence_is_in_the_bin_whose_ends_are_around_it() {
        let known = [-3.0, 0.5, 1.0, 7.9, 8.0, 100.0, f64::INFINITY];
        let mut all = Confidences::default();
        known.iter().for_each(|&confidence| all.record(confidence, confidence < 1.0));
        all.record(f64::NAN, true);
        let counts: Vec<u64> = all.iter().map(|(.., bin)| bin.answers).collect();
        assert_eq!(counts, [2, 1, 0, 0, 0, 1, 1, 0, 1, 1]);
        assert_eq!((all.total().answers, all.total().wrong), (7, 2));
        let mut before = f64::NEG_INFINITY;
        for (from, to, _) in all.iter() {
            assert!(from == before && from <= to, "{from} to {to}");
            before = to;
        }
        assert!(!all.is_empty() && Confidences::default().is_empty());
    }
}

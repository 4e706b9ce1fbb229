//! Logical error rates with confidence intervals, ratios of paired rates, thresholds, and syndrome density.
//!
//! ```
//! use ringcall_qec::stats::LogicalErrorRate;
//! let measured = LogicalErrorRate { shots: 10_000, errors: 12 };
//! let interval = measured.clopper_pearson(0.95)?;
//! assert!((measured.rate() - 1.2e-3).abs() < 1e-12);
//! assert!((interval.low - 6.2e-4).abs() < 1e-5 && (interval.high - 2.095e-3).abs() < 1e-5);
//! # Ok::<(), ringcall_qec::stats::StatsError>(())
//! ```

mod paired;
mod scaling;

use statrs::distribution::{Beta, ContinuousCDF, Normal};

use crate::shots::BitRow;

pub use paired::PairedErrors;
pub use scaling::{Measured, ScalingPoint, Threshold, suppression, threshold};

/// Why a statistic is not defined.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StatsError {
    /// The confidence level is not a probability strictly between 0 and 1.
    #[error("confidence level {confidence} is not between 0 and 1; a usual one is 0.95")]
    Confidence {
        /// The level asked for.
        confidence: f64,
    },
    /// There are no shots, or more errors than shots.
    #[error("{errors} errors in {shots} shots say nothing about a rate")]
    Counts {
        /// The shots.
        shots: u64,
        /// The errors among them.
        errors: u64,
    },
}

/// A confidence interval of a probability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The lower end, at least 0.
    pub low: f64,
    /// The upper end, at most 1.
    pub high: f64,
}

/// Logical errors counted over shots.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogicalErrorRate {
    /// The shots decoded.
    pub shots: u64,
    /// The shots in which a predicted observable differs from the true one.
    pub errors: u64,
}

impl LogicalErrorRate {
    /// Counts one shot.
    pub fn record(&mut self, error: bool) {
        self.shots += 1;
        self.errors += u64::from(error);
    }

    /// Adds the counts of another worker.
    pub fn merge(&mut self, other: Self) {
        self.shots += other.shots;
        self.errors += other.errors;
    }

    /// Errors per shot; NaN without shots.
    pub fn rate(&self) -> f64 {
        self.errors as f64 / self.shots as f64
    }

    /// Errors per round of an experiment of `rounds`, if rounds flip independently: `(1 - (1 - 2 rate)^(1 / rounds)) / 2`. NaN if
    /// no rate per round explains the count (a rate above 1/2).
    pub fn rate_per_round(&self, rounds: u32) -> f64 {
        (1.0 - (1.0 - 2.0 * self.rate()).powf(1.0 / f64::from(rounds))) / 2.0
    }

    /// The exact (Clopper-Pearson) interval: it holds the true rate with at least this confidence, at any count. Its
    /// ends are good to six digits up to 10^9 shots, and to three at 10^12.
    ///
    /// # Errors
    /// [`StatsError`] for a level outside `(0, 1)` and for impossible counts.
    pub fn clopper_pearson(&self, confidence: f64) -> Result<Interval, StatsError> {
        let tail = self.tail(confidence)?;
        let (errors, good) = (self.errors as f64, (self.shots - self.errors) as f64);
        Ok(Interval {
            low: if self.errors == 0 {
                0.0
            } else {
                quantile(errors, good + 1.0, |beta, p| beta.cdf(p) >= tail)
            },
            high: if good == 0.0 { 1.0 } else { quantile(errors + 1.0, good, |beta, p| beta.sf(p) <= tail) },
        })
    }

    /// The Wilson score interval: close to the exact one and cheaper, with no guarantee at small counts.
    ///
    /// # Errors
    /// As [`clopper_pearson`](Self::clopper_pearson).
    pub fn wilson(&self, confidence: f64) -> Result<Interval, StatsError> {
        let z = standard_score(self.tail(confidence)?);
        let (n, rate) = (self.shots as f64, self.rate());
        let scale = 1.0 + z * z / n;
        let middle = (rate + z * z / (2.0 * n)) / scale;
        let half = z * (rate * (1.0 - rate) / n + z * z / (4.0 * n * n)).sqrt() / scale;
        // The ends of the range hold exactly, which rounding would miss.
        Ok(Interval {
            low: if self.errors == 0 { 0.0 } else { middle - half },
            high: if self.errors == self.shots { 1.0 } else { middle + half },
        })
    }

    /// The probability left out on either side.
    fn tail(&self, confidence: f64) -> Result<f64, StatsError> {
        let tail = tail(confidence)?;
        if self.shots == 0 || self.errors > self.shots {
            return Err(StatsError::Counts { shots: self.shots, errors: self.errors });
        }
        Ok(tail)
    }
}

/// The probability that an interval of this confidence leaves out on either side.
fn tail(confidence: f64) -> Result<f64, StatsError> {
    if confidence > 0.0 && confidence < 1.0 {
        Ok((1.0 - confidence) / 2.0)
    } else {
        Err(StatsError::Confidence { confidence })
    }
}

/// How many standard deviations leave out this tail of a normal distribution.
fn standard_score(tail: f64) -> f64 {
    Normal::standard().inverse_cdf(1.0 - tail)
}

/// The smallest `p` in `[0, 1]` that is `above` for the beta distribution with these positive shapes.
///
/// It bisects the bit patterns of `p`, which sort like the numbers, so that tiny rates keep all their digits: the library's
/// inverse stops at a few digits of a rate of a millionth.
fn quantile(a: f64, b: f64, above: impl Fn(&Beta, f64) -> bool) -> f64 {
    let Ok(beta) = Beta::new(a, b) else { return f64::NAN };
    let (mut low, mut high) = (0, 1f64.to_bits());
    while low < high {
        let middle = low.midpoint(high);
        if above(&beta, f64::from_bits(middle)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    f64::from_bits(low)
}

/// The share of detectors that fire, over shots.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SyndromeDensity {
    /// Ones seen.
    pub fired: u64,
    /// Detectors seen, over all shots.
    pub detectors: u64,
}

impl SyndromeDensity {
    /// Counts the detectors of one shot.
    pub fn record(&mut self, detectors: &BitRow) {
        self.fired += u64::from(detectors.count_ones());
        self.detectors += u64::from(detectors.len());
    }

    /// Adds the counts of another worker.
    pub fn merge(&mut self, other: Self) {
        self.fired += other.fired;
        self.detectors += other.detectors;
    }

    /// Ones per detector; NaN if no detector was counted.
    pub fn density(&self) -> f64 {
        self.fired as f64 / self.detectors as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Known = (u64, u64, f64, [f64; 2], [f64; 2]);

    /// `scipy.stats.beta.ppf` of SciPy 1.17 for the exact interval, and its `binomtest(...).proportion_ci`
    /// (`method="wilson"`): shots, errors, confidence, then both intervals.
    const KNOWN: [Known; 13] = [
        (1, 0, 0.95, [0.0, 0.975], [0.0, 0.7934506856227626]),
        (1, 1, 0.95, [0.025000000000000022, 1.0], [0.20654931437723745, 1.0]),
        (10, 0, 0.95, [0.0, 0.3084971078187607], [0.0, 0.27753279986288926]),
        (10, 3, 0.99, [0.03700722109623209, 0.7351139852871307], [0.07956631652306578, 0.6799753207988974]),
        (
            10000,
            12,
            0.95,
            [0.0006202063772964037, 0.0020952192793709757],
            [0.0006866043187699607, 0.002096472455817011],
        ),
        (
            10000,
            12,
            0.999999,
            [0.00018144220703494496, 0.0038715962342103843],
            [0.00032215586924106386, 0.0044592159013405975],
        ),
        (
            1000000,
            1,
            0.95,
            [2.53178076637942e-08, 5.571630655166939e-06],
            [1.765245767453709e-07, 5.664911804311442e-06],
        ),
        (1000000000, 0, 0.95, [0.0, 3.6888794473100194e-09], [0.0, 3.841458805937319e-09]),
        (
            1000000000,
            123456,
            0.95,
            [0.00012276833085301321, 0.00012414656552568756],
            [0.00012276930114666216, 0.0001241465393636415],
        ),
        (
            1000000000,
            999999997,
            0.9,
            [0.9999999922463435, 0.9999999991823085],
            [0.9999999924934019, 0.999999998801055],
        ),
        (
            1000000000000,
            7,
            0.95,
            [2.81436305152435e-12, 1.442267536164885e-11],
            [3.3908638412227204e-12, 1.4450594979402869e-11],
        ),
        (2000, 1000, 0.5, [0.4922104270924583, 0.5077895729075417], [0.4924598328675776, 0.5075401671324223]),
        (1000, 999, 0.95, [0.9944410757201734, 0.9999746825125088], [0.9943574414020421, 0.9998234536293739]),
    ];

    #[test]
    fn intervals_match_scipy() {
        for (shots, errors, confidence, exact, wilson) in KNOWN {
            let rate = LogicalErrorRate { shots, errors };
            for (found, expected) in [
                (rate.clopper_pearson(confidence).unwrap(), exact),
                (rate.wilson(confidence).unwrap(), wilson),
            ] {
                for (found, expected) in [(found.low, expected[0]), (found.high, expected[1])] {
                    // Gamma functions of the number of shots leave this many digits.
                    let relative = if shots > 1_000_000_000 { 1e-3 } else { 1e-6 };
                    let close = (found - expected).abs() <= relative * expected;
                    assert!(close, "{errors} of {shots} at {confidence}: {found}, SciPy {expected}");
                }
            }
        }
    }

    #[test]
    fn impossible_questions_are_refused() {
        let rate = |shots, errors| LogicalErrorRate { shots, errors };
        for confidence in [0.0, 1.0, -0.5, f64::NAN, f64::INFINITY] {
            assert!(matches!(rate(10, 1).clopper_pearson(confidence), Err(StatsError::Confidence { .. })));
            assert!(matches!(rate(10, 1).wilson(confidence), Err(StatsError::Confidence { .. })));
        }
        for bad in [rate(0, 0), rate(3, 4)] {
            assert!(matches!(bad.clopper_pearson(0.9), Err(StatsError::Counts { .. })));
        }
        assert!(rate(0, 0).rate().is_nan());
    }

    #[test]
    fn counting() {
        let mut rate = LogicalErrorRate::default();
        for error in [true, false, false, false] {
            rate.record(error);
        }
        rate.merge(LogicalErrorRate { shots: 6, errors: 2 });
        assert_eq!((rate.shots, rate.errors, rate.rate()), (10, 3, 0.3));
        // Two rounds that flip at 0.1 each: 2 * 0.1 * 0.9 = 0.18.
        let two = LogicalErrorRate { shots: 100, errors: 18 };
        assert!((two.rate_per_round(2) - 0.1).abs() < 1e-15);
        assert!(LogicalErrorRate { shots: 4, errors: 3 }.rate_per_round(3).is_nan());

        let mut bits = BitRow::new(8);
        bits.set(3, true);
        let mut density = SyndromeDensity::default();
        density.record(&bits);
        density.merge(SyndromeDensity { fired: 3, detectors: 8 });
        assert_eq!(density.density(), 0.25);
    }
}

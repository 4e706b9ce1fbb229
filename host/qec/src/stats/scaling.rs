//! Scaling of logical error rates with the code distance: the threshold of a code, and Λ, the factor by which each step of the
//! distance suppresses errors.

use super::LogicalErrorRate;

/// One point of a study of a family of codes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScalingPoint {
    /// The code distance.
    pub distance: u32,
    /// The rounds of the experiment.
    pub rounds: u32,
    /// The physical noise.
    pub p: f64,
    /// The logical errors counted.
    pub rate: LogicalErrorRate,
}

/// A value and its standard error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// The value.
    pub value: f64,
    /// One standard deviation.
    pub error: f64,
}

/// The noise at which the error rates of all distances cross, with the fitted curve.
///
/// Near the threshold the error rate per shot depends on noise and distance through `x = (p - threshold) d^(1/ν)` alone
/// (Wang, Harrington and Preskill, 2003); the fit has `a + b x + c x²`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Threshold {
    /// The noise at the crossing.
    pub p: Measured,
    /// The exponent 1/ν.
    pub exponent: f64,
    /// `a`, `b` and `c`.
    pub coefficients: [f64; 3],
    /// The least and the largest noise of the fitted points.
    pub range: [f64; 2],
    /// χ² per degree of freedom: near 1 if the curve explains the points.
    pub reduced_chi2: f64,
}

impl Threshold {
    /// The curve's error rate per shot at this noise and distance.
    #[must_use]
    pub fn rate(&self, p: f64, distance: u32) -> f64 {
        let x = (p - self.p.value) * f64::from(distance).powf(self.exponent);
        let [a, b, c] = self.coefficients;
        a + x * (b + x * c)
    }
}

/// How far from the crossing the fitted points may be, as a ratio of noises; the first ratio that allows a fit is used. Distant
/// points bend the curve, which shows in χ² and in the error.
const NEAR: [f64; 3] = [1.35, 1.7, 2.1];
/// The fewest points for a fit of five parameters: one more.
const LEAST_POINTS: usize = 6;
const EXPONENTS: [f64; 2] = [0.3, 1.6];

/// A point in the form that the fit needs.
#[derive(Clone, Copy)]
struct Sample {
    distance: f64,
    p: f64,
    rate: f64,
    weight: f64,
}

/// Fits the threshold to the points of one code and decoder around the noise at which the curves of its distances cross.
///
/// `None` if the curves do not cross within the noises measured, if fewer than two distances or six points are near the crossing,
/// or if some of these points have no errors.
///
/// ```
/// use ringcall_qec::stats::{LogicalErrorRate, ScalingPoint, threshold};
/// let errors = [(3, [170, 223, 277]), (5, [128, 200, 281]), (7, [94, 178, 281])];
/// let point = |distance, p, errors| {
///     ScalingPoint { distance, rounds: distance, p, rate: LogicalErrorRate { shots: 1000, errors } }
/// };
/// let points = errors.map(|(d, errors)| [0.008, 0.009, 0.0101].iter().zip(errors).map(|(&p, n)| point(d, p, n)).collect::<Vec<_>>());
/// let found = threshold(&points.concat()).expect("the curves cross");
/// assert!((found.p.value - 0.0101).abs() < 0.001 && found.p.error > 0.0);
/// ```
#[must_use]
pub fn threshold(points: &[ScalingPoint]) -> Option<Threshold> {
    let crossing = crossing(points)?;
    NEAR.iter().find_map(|within| fit(points, crossing, *within))
}

/// The threshold of the points around a crossing.
fn fit(points: &[ScalingPoint], crossing: f64, within: f64) -> Option<Threshold> {
    let near = |point: &&ScalingPoint| point.p / crossing < within && crossing / point.p < within;
    let samples: Vec<Sample> = points.iter().filter(near).filter_map(sample).collect();
    let mut distances: Vec<u32> = points.iter().filter(near).map(|point| point.distance).collect();
    distances.sort_unstable();
    distances.dedup();
    if samples.len() < LEAST_POINTS || distances.len() < 2 {
        return None;
    }
    let (least, most) = samples
        .iter()
        .fold((f64::INFINITY, 0.0_f64), |(least, most), sample| (least.min(sample.p), most.max(sample.p)));
    // Only within the noises measured: a curve has no threshold elsewhere.
    let cost = |p: f64, exponent: f64| quadratic(&samples, p, exponent).map_or(f64::INFINITY, |fit| fit.1);
    let best_exponent = |p: f64| minimum(EXPONENTS, |exponent| cost(p, exponent));
    let p = minimum([least, most], |p| cost(p, best_exponent(p)));
    let exponent = best_exponent(p);
    let (coefficients, chi2) = quadratic(&samples, p, exponent)?;
    // The curvature of χ² along p, the other parameters at their best, is twice the inverse of its variance.
    let step = p * 1e-3;
    let profile = |p: f64| cost(p, best_exponent(p));
    let curvature = (profile(p + step) - 2.0 * profile(p) + profile(p - step)) / (step * step);
    let free = samples.len() - LEAST_POINTS + 1;
    let reduced_chi2 = chi2 / free as f64;
    // A curve that does not explain its points is less certain than the points are.
    let error = (2.0 / curvature).sqrt() * reduced_chi2.max(1.0).sqrt();
    let inside = p > least * 1.001 && p < most * 0.999;
    (error.is_finite() && error > 0.0 && inside).then_some(Threshold {
        p: Measured { value: p, error },
        exponent,
        coefficients,
        range: [least, most],
        reduced_chi2,
    })
}

/// Λ at one noise: the factor by which errors per round fall when the code's distance grows by 2.
///
/// `points` have one code, decoder and noise, and different distances. The fit is a straight line through the logarithms of the
/// error rates per round. `None` if fewer than two distances made errors.
#[must_use]
pub fn suppression(points: &[ScalingPoint]) -> Option<Measured> {
    let logs = points.iter().filter_map(|point| {
        let per_round = point.rate.rate_per_round(point.rounds);
        let relative = deviation(point.rate) / point.rate.rate();
        let usable = point.rate.errors > 0 && per_round > 0.0 && relative > 0.0;
        usable.then(|| (f64::from(point.distance), per_round.ln(), relative.powi(-2)))
    });
    let logs: Vec<(f64, f64, f64)> = logs.collect();
    let total: f64 = logs.iter().map(|log| log.2).sum();
    let mean = |of: fn(&(f64, f64, f64)) -> f64| logs.iter().map(|log| of(log) * log.2).sum::<f64>() / total;
    let (distance, height) = (mean(|log| log.0), mean(|log| log.1));
    let spread: f64 = logs.iter().map(|log| log.2 * (log.0 - distance).powi(2)).sum();
    if logs.len() < 2 || spread.is_nan() || spread <= 0.0 {
        return None;
    }
    let slope = logs.iter().map(|log| log.2 * (log.0 - distance) * (log.1 - height)).sum::<f64>() / spread;
    let value = (-2.0 * slope).exp();
    Some(Measured { value, error: value * 2.0 / spread.sqrt() })
}

/// The standard deviation of a measured rate.
fn deviation(rate: LogicalErrorRate) -> f64 {
    let value = rate.rate();
    (value * (1.0 - value) / rate.shots as f64).sqrt()
}

fn sample(point: &ScalingPoint) -> Option<Sample> {
    let sigma = deviation(point.rate);
    let weight = sigma.powi(-2);
    (sigma > 0.0 && weight.is_finite()).then(|| Sample {
        distance: f64::from(point.distance),
        p: point.p,
        rate: point.rate.rate(),
        weight,
    })
}

/// The crossing of the curves of the least and the largest distance, between two noises that both have.
fn crossing(points: &[ScalingPoint]) -> Option<f64> {
    let (small, large) = points
        .iter()
        .fold((u32::MAX, 0), |(small, large), point| (small.min(point.distance), large.max(point.distance)));
    let mut gaps: Vec<(f64, f64)> = Vec::new();
    for low in points.iter().filter(|point| point.distance == small && point.rate.errors > 0) {
        let same = |high: &&ScalingPoint| high.distance == large && high.p == low.p && high.rate.errors > 0;
        if let Some(high) = points.iter().find(same) {
            gaps.push((low.p, (high.rate.rate() / low.rate.rate()).ln()));
        }
    }
    gaps.sort_by(|a, b| a.0.total_cmp(&b.0));
    let pair = gaps.windows(2).rfind(|pair| pair[0].1 < 0.0 && pair[1].1 >= 0.0)?;
    let [(p, gap), (next, after)] = [pair[0], pair[1]];
    Some(p * (next / p).powf(gap / (gap - after)))
}

/// The quadratic curve of least squares for a threshold and an exponent, and its χ².
fn quadratic(samples: &[Sample], p: f64, exponent: f64) -> Option<([f64; 3], f64)> {
    // Scaled to about 1, so that the equations are well conditioned.
    let x = |sample: &Sample| (sample.p - p) * sample.distance.powf(exponent);
    let scale = samples.iter().map(|sample| x(sample).abs()).fold(0.0, f64::max);
    let mut rows = [[0.0; 4]; 3];
    for sample in samples {
        let x = x(sample) / scale;
        let powers = [1.0, x, x * x];
        for (row, left) in rows.iter_mut().zip(powers) {
            for (cell, right) in row.iter_mut().zip(powers.into_iter().chain([sample.rate])) {
                *cell += sample.weight * left * right;
            }
        }
    }
    let [a, b, c] = solve(rows)?;
    let chi2 = samples.iter().map(|sample| {
        let x = x(sample) / scale;
        (sample.rate - (a + x * (b + x * c))).powi(2) * sample.weight
    });
    Some(([a, b / scale, c / (scale * scale)], chi2.sum()))
}

/// Gaussian elimination with pivots; `None` if the equations are dependent.
fn solve(mut rows: [[f64; 4]; 3]) -> Option<[f64; 3]> {
    for column in 0..3 {
        let pivot = (column..3).max_by(|&a, &b| rows[a][column].abs().total_cmp(&rows[b][column].abs()))?;
        rows.swap(column, pivot);
        if rows[column][column].abs() < 1e-300 {
            return None;
        }
        for row in 0..3 {
            if row != column {
                let factor = rows[row][column] / rows[column][column];
                let pivot = rows[column];
                rows[row].iter_mut().zip(pivot).for_each(|(cell, above)| *cell -= factor * above);
            }
        }
    }
    Some([0, 1, 2].map(|i| rows[i][3] / rows[i][i]))
}

/// The minimum of a function: a grid, since there may be several minima, then golden sections around its best point.
fn minimum([from, to]: [f64; 2], cost: impl Fn(f64) -> f64) -> f64 {
    const GRID: u32 = 24;
    let at = |i: u32| from + (to - from) * f64::from(i) / f64::from(GRID);
    let best =
        (0..=GRID).map(|i| (i, cost(at(i)))).min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |best| best.0);
    let (mut low, mut high) = (at(best.saturating_sub(1)), at((best + 1).min(GRID)));
    let golden = (5f64.sqrt() - 1.0) / 2.0;
    for _ in 0..40 {
        let (left, right) = (high - golden * (high - low), low + golden * (high - low));
        if cost(left) < cost(right) {
            high = right;
        } else {
            low = left;
        }
    }
    low.midpoint(high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{Rng, SeedableRng};

    const SHOTS: u64 = 40_000;

    /// Errors that follow the scaling, with a normal deviation about as large as that of counting.
    fn study(seed: u64, threshold: f64) -> Vec<ScalingPoint> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut uniform = || (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let mut points = Vec::new();
        for distance in [5, 7, 9, 11] {
            for p in [0.8, 0.9, 0.96, 1.04, 1.1, 1.2].map(|ratio| ratio * threshold) {
                let x = (p - threshold) * f64::from(distance).powf(0.8);
                let rate = 0.15 + 18.0 * x + 300.0 * x * x;
                let normal: f64 = (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
                let sigma = (rate * (1.0 - rate) / SHOTS as f64).sqrt();
                let errors = ((rate + normal * sigma) * SHOTS as f64).round().max(0.0) as u64;
                let rate = LogicalErrorRate { shots: SHOTS, errors };
                points.push(ScalingPoint { distance, rounds: distance, p, rate });
            }
        }
        points
    }

    #[test]
    fn the_threshold_is_found_within_its_error() {
        let pulls: Vec<f64> = (0..12)
            .map(|seed| {
                let found = threshold(&study(seed, 0.01)).expect("a crossing");
                assert!(found.p.error < 2e-4 && found.reduced_chi2 < 3.0, "{found:?}");
                assert!((found.exponent - 0.8).abs() < 0.3, "{found:?}");
                (found.p.value - 0.01) / found.p.error
            })
            .collect();
        let square = pulls.iter().map(|pull| pull * pull).sum::<f64>() / pulls.len() as f64;
        // Of errors that are neither too large nor too small the mean square is about 1.
        assert!((0.25..3.0).contains(&square), "{square}: {pulls:?}");
    }

    #[test]
    fn points_that_are_far_apart_have_a_threshold_with_a_larger_error() {
        let close = threshold(&study(3, 0.01)).expect("a crossing");
        let outer = study(3, 0.01).into_iter().map(|point| {
            // As wide as a first survey of a code: 0.6 to 1.6 of the threshold.
            let p = 0.01 * (point.p / 0.01).powf(2.5);
            let x = (p - 0.01) * f64::from(point.distance).powf(0.8);
            let rate = 0.15 + 18.0 * x + 300.0 * x * x;
            let rate = LogicalErrorRate { shots: SHOTS, errors: (rate.max(0.0) * SHOTS as f64) as u64 };
            ScalingPoint { p, rate, ..point }
        });
        let outer: Vec<ScalingPoint> = outer.filter(|point| !(0.0093..0.0107).contains(&point.p)).collect();
        let few: Vec<ScalingPoint> = outer.into_iter().filter(|point| point.distance < 9).collect();
        let found = threshold(&few).expect("a crossing");
        assert!((found.p.value - 0.01).abs() < 5e-4, "{found:?}");
        assert!(found.range[1] / found.range[0] > close.range[1] / close.range[0], "{found:?}");
    }

    #[test]
    fn what_does_not_cross_has_no_threshold() {
        let points = study(1, 0.01);
        let below: Vec<ScalingPoint> = points.iter().copied().filter(|point| point.p < 0.0098).collect();
        assert_eq!(threshold(&below), None);
        let few: Vec<ScalingPoint> = points.iter().copied().filter(|point| point.distance == 5).collect();
        assert_eq!(threshold(&few), None);
        assert_eq!(threshold(&[]), None);
    }

    #[test]
    fn suppression_is_the_ratio_of_neighbouring_distances() {
        let point = |distance, errors| {
            let rate = LogicalErrorRate { shots: 1_000_000, errors };
            ScalingPoint { distance, rounds: 1, p: 0.001, rate }
        };
        let found = suppression(&[point(3, 8000), point(5, 2000), point(7, 500)]).expect("three distances");
        assert!((found.value - 4.0).abs() < 0.02 && (0.01..0.2).contains(&found.error), "{found:?}");
        assert_eq!(suppression(&[point(3, 8000), point(5, 0)]), None);
        assert_eq!(suppression(&[point(3, 8000), point(3, 8100)]), None);
    }
}

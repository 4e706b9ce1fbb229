//! Weights: merging log-likelihood ratios, and the integer grid that decoding runs on.
//!
//! The grid is the one that PyMatching documents and shows: if every weight is a whole number the scale is 1; otherwise the
//! largest magnitude maps to `2^24 - 1`. A weight becomes `2 * round(weight * scale)` (halves away from zero). Even numbers keep
//! every event time of the blossom algorithm whole: two regions that grow towards each other over an even gap meet at a whole
//! time.

/// The largest magnitude a weight may have.
pub const MAX_WEIGHT: f64 = ((1u32 << 24) - 1) as f64;

/// How the grid of a graph is chosen.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Grid {
    /// By the weights alone.
    #[default]
    OfWeights,
    /// Fine, and wide enough for this magnitude.
    RoomFor(f64),
    /// With this scale, that of a graph of which this one is a part.
    Given(f64),
}

impl Grid {
    /// The factor by which weights are multiplied before they are rounded.
    pub(crate) fn scale(self, weights: impl Iterator<Item = f64>) -> f64 {
        match self {
            Self::OfWeights => scale(weights),
            Self::RoomFor(least) => MAX_WEIGHT / weights.fold(least, |most, w| most.max(w.abs())),
            Self::Given(scale) => scale,
        }
    }
}

/// The factor that PyMatching would choose.
fn scale(weights: impl Iterator<Item = f64>) -> f64 {
    let mut max = 0.0f64;
    let mut whole = true;
    for w in weights {
        max = max.max(w.abs());
        whole &= w.round() == w;
    }
    if whole { 1.0 } else { MAX_WEIGHT / max }
}

/// The grid point of a weight: an even integer of magnitude below `2^25`.
pub(crate) fn discretise(weight: f64, scale: f64) -> i64 {
    // Within range by construction: |weight| * scale <= 2^24 - 1.
    (weight * scale).round() as i64 * 2
}

/// Log-likelihood ratio of "exactly one of two independent mechanisms fired", from those of the two mechanisms.
///
/// With `p = 1 / (1 + e^w)`, the result is `ln((1 - q) / q)` for `q = p1 (1 - p2) + p2 (1 - p1)`, in a form that
/// neither overflows nor cancels.
///
/// ```
/// let w = |p: f64| ((1.0 - p) / p).ln();
/// let merged = ringcall_matching::merge_independent(w(0.1), w(0.2));
/// assert!((merged - w(0.1 * 0.8 + 0.2 * 0.9)).abs() < 1e-12);
/// ```
pub fn merge_independent(a: f64, b: f64) -> f64 {
    let sign = 1f64.copysign(a) * 1f64.copysign(b);
    let smaller = sign * a.abs().min(b.abs());
    smaller + (-(a + b).abs()).exp().ln_1p() - (-(a - b).abs()).exp().ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_weights_keep_their_value() {
        assert_eq!(scale([3.0, -2.0].into_iter()), 1.0);
        assert_eq!(discretise(-3.0, 1.0), -6);
    }

    #[test]
    fn the_largest_weight_reaches_the_end_of_the_grid() {
        let s = scale([0.3, -1.25].into_iter());
        assert_eq!(discretise(-1.25, s), -2 * ((1 << 24) - 1));
        // PyMatching 2.4's value for 0.3 if the largest weight is 1.
        assert_eq!(discretise(0.3, scale([0.3, 1.0].into_iter())), 2 * 5_033_165);
    }

    #[test]
    fn room_makes_the_grid_fine_and_wide_enough() {
        assert_eq!(Grid::OfWeights.scale([1.0, -2.0].into_iter()), 1.0);
        assert_eq!(Grid::RoomFor(4.0).scale([1.0, -2.0].into_iter()), MAX_WEIGHT / 4.0);
        assert_eq!(Grid::RoomFor(4.0).scale([1.0, -8.0].into_iter()), MAX_WEIGHT / 8.0);
    }

    #[test]
    fn halves_round_away_from_zero() {
        assert_eq!(discretise(2.5, 1.0), 6);
        assert_eq!(discretise(-2.5, 1.0), -6);
        assert_eq!(discretise(1.5, 1.0), 4);
    }

    #[test]
    fn merging_matches_the_published_figures() {
        // PyMatching 2.4, merge_strategy="independent".
        for (a, b, want) in [
            (1.0, 2.0, 0.7353256640555192),
            (-1.0, 2.0, -0.7353256640555191),
            (0.5, -0.25, -0.06093158623605632),
            (1.0, 1.0, 0.4337808304830274),
        ] {
            assert!((merge_independent(a, b) - want).abs() < 1e-15, "{a} {b}");
        }
    }
}

//! Configurations: relayed legs with disordered memory, plain min-sum, damped min-sum.

use core::fmt;
use core::str::FromStr;

use crate::error::BpError;

/// The unit of memory strengths and of damping: a value of 128 is a factor of 1.
pub const UNIT: i16 = 128;

/// How a decoder iterates, and when it stops.
///
/// A decode is a sequence of *legs*. Leg 0 has one memory strength for all columns. Each further leg draws a memory strength for
/// every column, resets the messages, and keeps the marginals of the leg before it.
///
/// ```
/// use ringcall_bp::BpConfig;
///
/// // The published settings, with five solutions instead of one; the lightest solution wins.
/// let config = BpConfig { solutions: 5, ..BpConfig::relay() };
/// assert_eq!(config.first_memory, 16); // 16/128 = 0.125
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BpConfig {
    /// Memory strength of every column in leg 0, in 128ths, -128 to 128. 0 is belief propagation without memory.
    pub first_memory: i16,
    /// Range of the memory strengths of further legs, in 128ths, each end -128 to 128. All values in the range are equally
    /// likely.
    pub memory: (i16, i16),
    /// Share of a variable's last message in its next one, in 128ths, 0 to 127. 0 is undamped.
    pub damping: i16,
    /// Iterations of leg 0, at least 1.
    pub first_iterations: u32,
    /// Iterations of each further leg, at least 1 if there are further legs.
    pub leg_iterations: u32,
    /// The most further legs.
    pub legs: u32,
    /// The number of converged legs, at least 1, that end the decode. The lightest solution wins.
    pub solutions: u32,
    /// The most iterations of all legs together, at least 1.
    pub max_iterations: u32,
    /// Selects the sequence of memory strengths.
    pub seed: u32,
    /// The number of lanes that race, 1 to 64. Lane `i` decodes with seed `seed + i`. Lanes after lane 0 draw memory strengths in
    /// leg 0, too. Among the lanes that find all their solutions, the lane with the fewest iterations wins, the first of equals;
    /// if no lane does, lane 0's answer stands. A GPU runs lanes side by side. A CPU runs them one after another, each for fewer
    /// iterations than the best lane so far, with the same answer.
    pub lanes: u32,
    /// The iteration, up to 1,000,000, from which lanes after lane 0 count: lane 0 wins if it finishes before. First solutions of
    /// other lanes are less likely right, so a delay keeps most of lane 0's error rate and still cuts its longest times.
    pub lane_delay: u32,
    /// The method that follows a decode that neither converged nor was cancelled; `None` leaves the best guess.
    pub ordered_statistics: Option<OrderedStatistics>,
}

/// Ordered statistics, on a CPU: how a decode that did not converge still finds an error that explains the defects.
///
/// ```
/// use ringcall_bp::{BpConfig, OrderedStatistics};
///
/// // Belief propagation with ordered statistics of order 10, without relayed legs.
/// let order = OrderedStatistics::CombinationSweep(10);
/// let config = BpConfig { ordered_statistics: Some(order), ..BpConfig::min_sum(100) };
/// # assert_eq!(config.legs, 0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OrderedStatistics {
    /// Order 0: the error made of the likeliest independent columns.
    Zero,
    /// The combination sweep of order K, at most [`MOST_SWEPT`](Self::MOST_SWEPT). It tries the error of order 0, that error with
    /// each other column, and that error with each pair of the first K other columns, and keeps the lightest.
    CombinationSweep(u32),
}

impl OrderedStatistics {
    /// The largest order of a combination sweep: 499,500 pairs.
    pub const MOST_SWEPT: u32 = 1000;
}

/// Writes `0`, or `cs:K` for a combination sweep of order K.
impl fmt::Display for OrderedStatistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero => f.write_str("0"),
            Self::CombinationSweep(order) => write!(f, "cs:{order}"),
        }
    }
}

impl FromStr for OrderedStatistics {
    type Err = BpError;

    /// Reads the form that [`Display`](fmt::Display) writes.
    fn from_str(text: &str) -> Result<Self, BpError> {
        let order = text.strip_prefix("cs:").and_then(|order| order.parse().ok());
        match (text, order) {
            ("0", _) => Ok(Self::Zero),
            (_, Some(order)) if order <= Self::MOST_SWEPT => Ok(Self::CombinationSweep(order)),
            _ => Err(BpError::Config { what: "ordered statistics are 0 or cs:K with K up to 1000" }),
        }
    }
}

impl BpConfig {
    /// Relay-BP as published (Müller et al., arXiv:2506.01779): 80 iterations with γ = 0.125, then up to 300 legs of 60 with
    /// γ from -0.24 to 0.66, and the first solution.
    pub const fn relay() -> Self {
        Self {
            first_memory: 16,
            memory: (-31, 84),
            damping: 0,
            first_iterations: 80,
            leg_iterations: 60,
            legs: 300,
            solutions: 1,
            max_iterations: u32::MAX,
            seed: 0,
            lanes: 1,
            lane_delay: 20,
            ordered_statistics: None,
        }
    }

    /// Min-sum belief propagation without memory, for `iterations` iterations.
    pub const fn min_sum(iterations: u32) -> Self {
        Self { first_memory: 0, memory: (0, 0), first_iterations: iterations, legs: 0, ..Self::relay() }
    }

    /// Min-sum belief propagation whose variables send (1 - d) times the new message plus d times the last one, d in
    /// 128ths.
    pub const fn damped(iterations: u32, damping: i16) -> Self {
        Self { damping, ..Self::min_sum(iterations) }
    }

    /// This configuration, if every field has a supported value.
    pub(crate) fn checked(&self) -> Result<Self, BpError> {
        let strength = -UNIT..=UNIT;
        let refusal = if !strength.contains(&self.first_memory) {
            "`first_memory` is -128 to 128"
        } else if !strength.contains(&self.memory.0)
            || !strength.contains(&self.memory.1)
            || self.memory.0 > self.memory.1
        {
            "`memory` is two values of -128 to 128, the lesser one first"
        } else if !(0..UNIT).contains(&self.damping) {
            "`damping` is 0 to 127"
        } else if self.first_iterations == 0 {
            "`first_iterations` is at least 1"
        } else if self.leg_iterations == 0 && self.legs > 0 {
            "`leg_iterations` is at least 1"
        } else if self.solutions == 0 {
            "`solutions` is at least 1"
        } else if self.max_iterations == 0 {
            "`max_iterations` is at least 1"
        } else if !(1..=64).contains(&self.lanes) {
            "`lanes` is 1 to 64"
        } else if self.lane_delay > 1_000_000 {
            "`lane_delay` is up to 1,000,000"
        } else if matches!(self.ordered_statistics, Some(OrderedStatistics::CombinationSweep(order)) if order > OrderedStatistics::MOST_SWEPT)
        {
            "the order of a combination sweep is up to 1000"
        } else {
            return Ok(self.clone());
        };
        Err(BpError::Config { what: refusal })
    }

    /// The memory strength of a column in a leg of a lane, in 128ths.
    ///
    /// Leg 0 of lane 0 has `first_memory`. Any other leg hashes seed plus lane, leg and column to 32 bits, and the upper 16
    /// choose a value of `memory`. A GPU computes the same hash, so neither side stores a table.
    ///
    /// ```
    /// let config = ringcall_bp::BpConfig::relay();
    /// assert_eq!(config.memory_strength(0, 0, 7), 16);
    /// assert!((-31..=84).contains(&config.memory_strength(0, 1, 7)));
    /// ```
    pub fn memory_strength(&self, lane: u32, leg: u32, column: u32) -> i16 {
        if lane == 0 && leg == 0 {
            self.first_memory
        } else {
            self.drawn(leg_key(self.seed.wrapping_add(lane), leg), column)
        }
    }

    /// The memory strength of a column in a further leg with this [`leg_key`].
    #[inline]
    pub(crate) fn drawn(&self, key: u32, column: u32) -> i16 {
        let values = (self.memory.1 - self.memory.0) as u32 + 1;
        let upper = mix(key.wrapping_add(column.wrapping_mul(0x9E37_79B1))) >> 16;
        self.memory.0 + ((upper * values) >> 16) as i16
    }
}

impl Default for BpConfig {
    fn default() -> Self {
        Self::relay()
    }
}

/// The contribution of seed and leg to the hash of a column.
pub(crate) fn leg_key(seed: u32, leg: u32) -> u32 {
    mix(seed.wrapping_add(leg.wrapping_mul(0x85EB_CA77)))
}

/// The finaliser of MurmurHash3: each bit of the result depends on all bits of the argument.
#[inline]
fn mix(mut x: u32) -> u32 {
    x ^= x >> 16;
    x = x.wrapping_mul(0x85EB_CA6B);
    x ^= x >> 13;
    x = x.wrapping_mul(0xC2B2_AE35);
    x ^ (x >> 16)
}

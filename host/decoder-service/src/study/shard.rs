//! Shards of a study: the batches that each of several processes counts.

use super::{GivenModel, Point};
use ringcall_qec::circuit::{Code, DetectorBases, Experiment};
use ringcall_qec::code::Basis;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// One of `of` parts of a study: of each point, the batches `index - 1`, `index - 1 + of`, `index - 1 + 2 of` and so on.
///
/// ```
/// use ringcall_decoder_service::study::Shard;
///
/// let shard: Shard = "2/4".parse()?;
/// assert_eq!((0..9).filter(|&batch| shard.holds(batch)).collect::<Vec<_>>(), [1, 5]);
/// assert!("0/4".parse::<Shard>().is_err() && "5/4".parse::<Shard>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Shard {
    index: u32,
    of: u32,
}

impl Shard {
    /// The most shards of a study.
    pub const MOST: u32 = 10_000;

    /// The shard `index` of `of`, counted from 1. `None` unless `1 <= index <= of <= MOST`.
    #[must_use]
    pub const fn new(index: u32, of: u32) -> Option<Self> {
        if 1 <= index && index <= of && of <= Self::MOST { Some(Self { index, of }) } else { None }
    }

    /// The shard's index, from 1.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.index
    }

    /// The number of shards.
    #[must_use]
    pub const fn of(self) -> u32 {
        self.of
    }

    /// Whether the shard counts this batch of a point.
    #[must_use]
    pub const fn holds(self, batch: u64) -> bool {
        batch % self.of as u64 == (self.index - 1) as u64
    }

    /// The shard that counts a batch, among as many shards as this one has.
    #[must_use]
    pub const fn holder(self, batch: u64) -> Self {
        Self { index: (batch % self.of as u64) as u32 + 1, ..self }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split_once('/')
            .and_then(|(index, of)| Self::new(index.parse().ok()?, of.parse().ok()?))
            .ok_or_else(|| format!("`{text}` is no shard: i/n with 1 <= i <= n <= {}", Self::MOST))
    }
}

impl TryFrom<String> for Shard {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Shard> for String {
    fn from(shard: Shard) -> Self {
        shard.to_string()
    }
}

/// The shard of a state, and the study that all its shards share. A study in shards is fixed when its first shard begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// The shard.
    pub shard: Shard,
    /// Names of the points, in order, in the form that [`Point`] reads.
    pub points: Vec<String>,
    /// The most shots of a point: [`Stop::shots`](super::Stop::shots).
    pub shots: u64,
    /// Errors that end a point: [`Stop::errors`](super::Stop::errors).
    pub max_errors: Option<u64>,
}

impl FromStr for Point {
    type Err = String;

    /// Reads exactly the form that [`Display`](fmt::Display) writes.
    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || format!("`{text}` names no point");
        let mut parts: Vec<&str> = text.split('/').collect();
        let named = |part: &&str| Code::ALL.into_iter().find(|code| code.name() == *part);
        let code = match parts.first().and_then(named) {
            Some(code) => {
                parts.remove(0);
                code
            }
            None => Code::Surface,
        };
        let mut point = Self::from(Experiment::of(code));
        if let ["model", digest, observables, ..] = parts[..] {
            let digest = u64::from_str_radix(digest, 16).map_err(|_| refused())?;
            let observables = observables.strip_prefix('o').and_then(|digits| digits.parse().ok());
            let model = GivenModel { digest, observables: observables.ok_or_else(refused)? };
            point = Self::of_model(model, 0, 0, 0.0);
            parts.drain(..3);
        }
        for part in parts {
            let number = |digits: &str| digits.parse::<u32>().map_err(|_| refused());
            match (part, part.split_at_checked(1)) {
                ("x", _) => point.experiment.basis = Basis::X,
                ("z", _) => point.experiment.basis = Basis::Z,
                ("both", _) => point.experiment.detectors = DetectorBases::Both,
                (_, Some(("d", rest))) => point.experiment.distance = number(rest)?,
                (_, Some(("r", rest))) => point.experiment.rounds = number(rest)?,
                (_, Some(("p", rest))) => point.experiment.p = rest.parse().map_err(|_| refused())?,
                _ => return Err(refused()),
            }
        }
        // Refuses other spellings of the point, and parts in another order.
        if point.to_string() == text { Ok(point) } else { Err(refused()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_point() -> impl Strategy<Value = Point> {
        (0..Code::ALL.len(), 1_u32..40, 1_u32..40, any::<bool>(), any::<bool>(), 1e-9_f64..0.75).prop_map(
            |(code, distance, rounds, x, both, p)| {
                let mut experiment = Experiment { rounds, p, ..Experiment::of(Code::ALL[code]) };
                if experiment.code.distance().is_none() {
                    experiment.distance = distance;
                }
                if x && experiment.code.has_basis() {
                    experiment.basis = Basis::X;
                }
                if both && experiment.code.has_detector_bases() {
                    experiment.detectors = DetectorBases::Both;
                }
                Point::from(experiment)
            },
        )
    }

    fn any_given() -> impl Strategy<Value = Point> {
        (any::<u64>(), 0_u32..65, 0_u32..9, 0_u32..9, prop_oneof![Just(0.0), 1e-9_f64..0.75]).prop_map(
            |(digest, observables, distance, rounds, p)| {
                Point::of_model(GivenModel { digest, observables }, distance, rounds, p)
            },
        )
    }

    proptest! {
        #[test]
        fn a_point_is_read_from_its_name(point in prop_oneof![any_point(), any_given()]) {
            prop_assert_eq!(point.to_string().parse::<Point>(), Ok(point));
        }

        #[test]
        fn each_batch_has_one_shard(of in 1_u32..50, batch in any::<u64>()) {
            let shards = (1..=of).filter_map(|index| Shard::new(index, of));
            let holders: Vec<_> = shards.filter(|shard| shard.holds(batch)).collect();
            prop_assert_eq!(&holders, &[holders[0].holder(batch)]);
        }
    }

    #[test]
    fn what_names_no_point_is_refused() {
        for text in [
            "",
            "d3",
            "r3/d3/z/p0.1",
            "d3/r3/z/p0.10",
            "d3/r3/z/p0.1/",
            "bb72/d6/r6/z/p0.1",
            "d3/r3/é/p0.1",
            "model/1/o1",
            "model/0000000000000001",
            "model/0000000000000001/d3",
        ] {
            assert!(text.parse::<Point>().is_err(), "{text}");
        }
    }
}

//! What is counted of plain matching where it is compared with correlated matching.

use super::tally::{PredecoderTally, Tally, common};
use serde::{Deserialize, Serialize};

/// Counts of plain matching, on the shots that correlated matching decoded as well.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlainTally {
    /// Shots that plain matching alone got wrong.
    pub errors: u64,
    /// Of these, the ones that correlated matching alone got wrong as well.
    pub both: u64,
    /// Processor time of plain matching alone, all shots together, ns.
    pub matching_ns: u64,
    /// The same after the predecoder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predecoder: Option<PlainPredecoderTally>,
}

/// Counts of plain matching after a predecoder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlainPredecoderTally {
    /// Shots that the predecoder and plain matching got wrong.
    pub errors: u64,
    /// Of these, the ones that plain matching alone got wrong as well.
    pub both: u64,
    /// Shots that the predecoder and correlated matching got wrong, and plain matching alone as well.
    pub correlated_both: u64,
    /// Processor time of plain matching of what the predecoder left, ns.
    pub matching_ns: u64,
}

impl PlainTally {
    pub(super) fn new(predecoder: bool) -> Self {
        Self { predecoder: predecoder.then(PlainPredecoderTally::default), ..Self::default() }
    }

    pub(super) fn add(&mut self, other: &Self) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.errors, other.errors);
        add(&mut self.both, other.both);
        add(&mut self.matching_ns, other.matching_ns);
        if let Some(more) = &other.predecoder {
            let sum = self.predecoder.get_or_insert_default();
            add(&mut sum.errors, more.errors);
            add(&mut sum.both, more.both);
            add(&mut sum.correlated_both, more.correlated_both);
            add(&mut sum.matching_ns, more.matching_ns);
        }
    }

    pub(super) fn untimed(self) -> Self {
        let predecoder = self.predecoder.map(|arm| PlainPredecoderTally { matching_ns: 0, ..arm });
        Self { matching_ns: 0, predecoder, ..self }
    }

    /// Could these be the counts beside those of correlated matching?
    pub(super) fn check(&self, correlated: &Tally) -> Result<(), String> {
        let shots = correlated.shots;
        common(self.both, self.errors, correlated.errors, shots)?;
        match (self.predecoder, correlated.predecoder) {
            (None, None) => Ok(()),
            (Some(plain), Some(PredecoderTally { errors, .. })) => {
                common(plain.both, self.errors, plain.errors, shots)?;
                common(plain.correlated_both, self.errors, errors, shots)
            }
            _ => Err("counts of a predecoder by one kind of matching alone".to_owned()),
        }
    }
}

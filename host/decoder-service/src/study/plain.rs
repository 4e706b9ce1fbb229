//! Counts of plain matching in a comparison with correlated matching.

use serde::{Deserialize, Serialize};

/// Counts of plain matching, on the shots that correlated matching decoded as well.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlainCounts {
    /// Shots that plain matching alone got wrong.
    pub errors: u64,
    /// Shots among `errors` that correlated matching alone got wrong as well.
    pub both: u64,
    /// Shots whose decoding by plain matching alone took longer than the study's deadline, in processor time.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub late: u64,
    /// Shots that were late, wrong, or both.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub late_or_wrong: u64,
    /// Processor time of plain matching alone, all shots together, ns.
    pub matching_ns: u64,
    /// The same after the predecoder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predecoder: Option<PlainPredecoderCounts>,
}

/// Counts of plain matching after a predecoder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlainPredecoderCounts {
    /// Shots that the predecoder and plain matching got wrong.
    pub errors: u64,
    /// Shots among `errors` that plain matching alone got wrong as well.
    pub both: u64,
    /// Shots that the predecoder and correlated matching got wrong, and plain matching alone as well.
    pub correlated_both: u64,
    /// Processor time of plain matching of the residual, ns.
    pub matching_ns: u64,
}

impl PlainCounts {
    pub(super) fn new(predecoder: bool) -> Self {
        Self { predecoder: predecoder.then(PlainPredecoderCounts::default), ..Self::default() }
    }

    pub(super) fn add(&mut self, other: &Self) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.errors, other.errors);
        add(&mut self.both, other.both);
        add(&mut self.late, other.late);
        add(&mut self.late_or_wrong, other.late_or_wrong);
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
        let predecoder = self.predecoder.map(|arm| PlainPredecoderCounts { matching_ns: 0, ..arm });
        Self { matching_ns: 0, late: 0, late_or_wrong: 0, predecoder, ..self }
    }

    /// Checks that these can be the counts for this many errors of correlated matching, alone and after the predecoder.
    pub(super) fn check(&self, shots: u64, correlated: u64, after: Option<u64>) -> Result<(), String> {
        common(self.both, self.errors, correlated, shots)?;
        lateness(self.late, self.late_or_wrong, shots)?;
        match (self.predecoder, after) {
            (None, None) => Ok(()),
            (Some(plain), Some(after)) => {
                common(plain.both, self.errors, plain.errors, shots)?;
                common(plain.correlated_both, self.errors, after, shots)
            }
            _ => Err("counts of a predecoder by one kind of matching alone".to_owned()),
        }
    }
}

/// For fields that a line omits; serde passes a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
pub(super) fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Checks that this many shots can be late, and late or wrong.
pub(super) fn lateness(late: u64, late_or_wrong: u64, shots: u64) -> Result<(), String> {
    if late <= late_or_wrong && late_or_wrong <= shots {
        return Ok(());
    }
    Err(format!("{late} late and {late_or_wrong} late or wrong of {shots} shots"))
}

/// Checks that two decoders can have this many errors in common.
pub(super) fn common(both: u64, first: u64, second: u64, shots: u64) -> Result<(), String> {
    let either = first.checked_add(second).and_then(|sum| sum.checked_sub(both));
    if first.max(second) > shots {
        return Err(format!("{} errors in {shots} shots", first.max(second)));
    }
    if both > first.min(second) || either.is_none_or(|n| n > shots) {
        return Err(format!("{both} errors in common of {first} and {second}"));
    }
    Ok(())
}

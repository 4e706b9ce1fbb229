//! Counts of a sweep as sinter's CSV (`sinter.CSV_HEADER`, sinter 1.13 and later).

use super::grid::Names;
use anyhow::Result;
use ringcall_decoder_service::study::{ArmCounts, Matching, Outcome, Point, Setup, ShotCounts};
use ringcall_qec::circuit::DetectorBases;
use ringcall_qec::code::Basis;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// sinter's columns with its padding.
const HEADER: &str =
    "     shots,    errors,  discards, seconds,decoder,strong_id,json_metadata,custom_counts\n";

/// One row for each point and arm with a shot.
pub(super) fn to_csv(setup: &Setup, outcomes: &[(Point, Outcome)], names: &Names) -> Result<String> {
    let mut csv = HEADER.to_owned();
    for (point, Outcome { counts, .. }) in outcomes.iter().filter(|(_, outcome)| outcome.counts.shots > 0) {
        for arm in counts.arms() {
            let decoder = decoder(&arm);
            let metadata = Value::Object(metadata(point, names)).to_string();
            let id = strong_id(setup, point, decoder)?;
            let (shots, errors, seconds) = (counts.shots, arm.errors, seconds(counts, &arm));
            let (metadata, custom) = (quoted(&metadata), quoted(&custom_counts(counts, &arm).to_string()));
            // Writing to a String cannot fail.
            let _ = writeln!(
                csv,
                "{shots:>10},{errors:>10},{:>10},{seconds:>8.6},{decoder},{id},{metadata},{custom}",
                0
            );
        }
    }
    Ok(csv)
}

/// The arm's decoder. The first two names are those of the Python package's `ringcall.sinter_decoders()`.
fn decoder(arm: &ArmCounts) -> &'static str {
    match (arm.matching, arm.predecoder) {
        (Matching::Plain, false) => "ringcall",
        (Matching::Plain, true) => "ringcall_predecoder",
        (Matching::Slices, false) => "ringcall_slices",
        (Matching::Slices, true) => "ringcall_slices_predecoder",
        (Matching::Relay, false) => "ringcall_relay",
        (Matching::Relay, true) => "ringcall_relay_predecoder",
        (Matching::Ensemble, false) => "ringcall_ensemble",
        (Matching::Ensemble, true) => "ringcall_ensemble_predecoder",
        // An arm has one kind of matching, never both.
        (Matching::Correlated | Matching::Both, false) => "ringcall_correlated",
        (Matching::Correlated | Matching::Both, true) => "ringcall_correlated_predecoder",
    }
}

/// The point's numbers, by the letters that sinter's documentation uses.
fn metadata(point: &Point, names: &Names) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut set = |key: &str, value: Value| drop(fields.insert(key.to_owned(), value));
    if let Some(model) = point.given {
        set("model", json!(format!("{:016x}", model.digest)));
        if let Some(name) = names.get(&point.to_string()) {
            set("name", json!(name));
        }
        // Unknown numbers are left out.
        for (key, number) in [("d", point.distance), ("r", point.rounds)] {
            if number > 0 {
                set(key, json!(number));
            }
        }
        if point.p > 0.0 {
            set("p", json!(point.p));
        }
        return fields;
    }
    if point.code.has_basis() {
        set("b", json!(if point.basis == Basis::X { "X" } else { "Z" }));
    }
    set("c", json!(point.code.name()));
    set("d", json!(point.distance));
    if point.code.has_detector_bases() && point.detectors == DetectorBases::Both {
        set("detectors", json!("both"));
    }
    set("p", json!(point.p));
    set("r", json!(point.rounds));
    fields
}

/// A hash of the point and its decoder: sinter adds rows with the same hash. The seed is not part of it, as in sinter's
/// own rows, so that studies with different seeds add up.
fn strong_id(setup: &Setup, point: &Point, decoder: &str) -> Result<String> {
    let predecoder = setup.predecoder.as_ref().filter(|_| decoder.ends_with("predecoder"));
    let relay = decoder.contains("relay").then_some(setup.relay);
    let text = serde_json::to_string(&(point.to_string(), decoder, predecoder, relay))?;
    let digest = Sha256::digest(text.as_bytes());
    Ok(digest.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    }))
}

/// Processor time of the arm's matching and network.
fn seconds(counts: &ShotCounts, arm: &ArmCounts) -> f64 {
    let inference = counts.predecoder.filter(|_| arm.predecoder).map_or(0, |after| after.inference_ns);
    arm.matching_ns.saturating_add(inference) as f64 / 1e9
}

/// Counts other than errors, which sinter also adds up.
fn custom_counts(counts: &ShotCounts, arm: &ArmCounts) -> Value {
    let fired = match counts.predecoder.filter(|_| arm.predecoder) {
        Some(after) => after.fired,
        None => counts.fired,
    };
    let mut custom = json!({ "detectors": counts.detectors, "fired": fired, "errors_in_common": arm.both });
    // These two are counted for one arm only.
    if !arm.predecoder && counts.matching() == Some(arm.matching) {
        custom["observable_errors"] = counts.observable_errors.into();
        custom["unconverged"] = counts.unconverged.into();
    }
    custom
}

/// A field in quotation marks, as in RFC 4180.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `sinter combine` would add up rows of two kinds of matching under one name.
    #[test]
    fn arms_that_decode_in_different_ways_have_different_names() {
        let kinds =
            [Matching::Plain, Matching::Correlated, Matching::Ensemble, Matching::Relay, Matching::Slices];
        let arms = kinds.into_iter().flat_map(|matching| [(matching, false), (matching, true)]);
        let mut names: Vec<&str> = arms
            .map(|(matching, predecoder)| {
                decoder(&ArmCounts { matching, predecoder, errors: 0, both: 0, matching_ns: 0, late: None })
            })
            .collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 2 * kinds.len());
    }
}

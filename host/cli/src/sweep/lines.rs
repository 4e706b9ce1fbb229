//! Lines of a sweep's plot: a code with a distance, by one arm.

use super::results::{ArmResult, ComparedResult, PointResult};

/// The codes and their distances, each once, as they come.
pub(super) fn codes(points: &[PointResult]) -> Vec<String> {
    let mut found = Vec::new();
    for label in points.iter().map(PointResult::label) {
        if !found.contains(&label) {
            found.push(label);
        }
    }
    found
}

/// Which arm: by which matching, and whether after a predecoder.
pub(super) type Which = (Option<&'static str>, bool);

/// The arms of all points, each once.
pub(super) fn all_arms(points: &[&PointResult]) -> Vec<Which> {
    let mut found: Vec<Which> =
        points.iter().flat_map(|point| &point.arms).map(|arm| (arm.matching, arm.predecoder)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The same arm of one point, and whether the point has it by the other kind of matching as well.
pub(super) fn pick(point: &PointResult, (matching, predecoder): Which) -> Option<(&ArmResult, bool)> {
    let same = |arm: &&ComparedResult| arm.predecoder == predecoder;
    let arm = point.arms.iter().filter(same).find(|arm| arm.matching == matching)?;
    Some((&arm.arm, point.arms.iter().filter(same).count() > 1))
}

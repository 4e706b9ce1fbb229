//! Lines of a sweep's plot: one for each code, distance and arm.

use super::results::{ArmResult, ComparedResult, PointResult};

/// The codes and distances without repetitions, in order.
pub(super) fn codes(points: &[PointResult]) -> Vec<String> {
    let mut found = Vec::new();
    for label in points.iter().map(PointResult::label) {
        if !found.contains(&label) {
            found.push(label);
        }
    }
    found
}

/// An arm: the kind of matching, and whether a predecoder precedes it.
pub(super) type Which = (Option<&'static str>, bool);

/// The arms of all points without repetitions.
pub(super) fn all_arms(points: &[&PointResult]) -> Vec<Which> {
    let mut found: Vec<Which> =
        points.iter().flat_map(|point| &point.arms).map(|arm| (arm.matching, arm.predecoder)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The arm of one point, and whether the point also has the arm with the other kind of matching.
pub(super) fn pick(point: &PointResult, (matching, predecoder): Which) -> Option<(&ArmResult, bool)> {
    let same = |arm: &&ComparedResult| arm.predecoder == predecoder;
    let arm = point.arms.iter().filter(same).find(|arm| arm.matching == matching)?;
    Some((&arm.arm, point.arms.iter().filter(same).count() > 1))
}

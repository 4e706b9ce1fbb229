//! Splitting errors of more than two detectors into edges, each an error of the same model, for matching.

use ringcall_qec::dem::{Component, DetectorErrorModel};
use std::collections::{BTreeSet, HashMap};

/// The most detectors of an error that is split: the search tries every way to pair them.
const MOST_DETECTORS: usize = 12;

/// Splits every error of more than two detectors that is not split already.
///
/// # Errors
/// The error that does not split, and why.
pub(super) fn into_edges(mut model: DetectorErrorModel) -> Result<DetectorErrorModel, String> {
    // The likeliest of several edges on the same detectors is taken; matching keeps its observables, too, unless the model
    // contradicts itself.
    let mut edges: HashMap<Vec<u32>, (f64, Vec<u32>)> = HashMap::new();
    for error in &model.mechanisms {
        if error.components.is_empty() && matches!(error.detectors.len(), 1 | 2) {
            let entry = edges
                .entry(error.detectors.clone())
                .or_insert((error.probability, error.observables.clone()));
            if error.probability > entry.0 {
                *entry = (error.probability, error.observables.clone());
            }
        }
    }
    for (column, error) in model.mechanisms.iter_mut().enumerate() {
        if error.detectors.len() <= 2 || !error.components.is_empty() {
            continue;
        }
        if error.detectors.len() > MOST_DETECTORS {
            let flips = error.detectors.len();
            return Err(format!(
                "column {column} flips {flips} detectors, and is split up to {MOST_DETECTORS}"
            ));
        }
        let mut parts = Vec::new();
        if !search(&error.detectors, &error.observables, &edges, &mut parts) {
            return Err(format!(
                "column {column} is no combination of columns of one or two detectors with its observables"
            ));
        }
        error.components = parts;
    }
    Ok(model)
}

/// Finds edges that flip these detectors and observables, and appends them.
fn search(
    detectors: &[u32],
    observables: &[u32],
    edges: &HashMap<Vec<u32>, (f64, Vec<u32>)>,
    parts: &mut Vec<Component>,
) -> bool {
    let Some((&first, others)) = detectors.split_first() else { return observables.is_empty() };
    let pairs = others.iter().map(|&other| vec![first, other]);
    for edge in pairs.chain([vec![first]]) {
        let Some((_, flips)) = edges.get(&edge) else { continue };
        let rest: Vec<u32> = detectors.iter().copied().filter(|detector| !edge.contains(detector)).collect();
        let left: BTreeSet<u32> = observables.iter().copied().collect();
        let left = left.symmetric_difference(&flips.iter().copied().collect()).copied().collect::<Vec<_>>();
        parts.push(Component { detectors: edge, observables: flips.clone() });
        if search(&rest, &left, edges, parts) {
            return true;
        }
        parts.pop();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringcall_qec::dem::text::parse;

    #[test]
    fn an_error_is_split_into_edges_with_its_observables() {
        let model = parse(
            "error(0.1) D0 D1 L0\nerror(0.1) D2 D3\nerror(0.1) D0 D2\nerror(0.1) D1 D3\nerror(0.1) D0 D1 D2 D3 L0",
        );
        let model = into_edges(model.expect("a model")).expect("it splits");
        let parts: Vec<_> = model.mechanisms[4].edges().map(|edge| edge.detectors.to_vec()).collect();
        // Not 0 2 and 1 3, which flip no observable.
        assert_eq!(parts, [vec![0, 1], vec![2, 3]]);
        model.validate().expect("the parts add up");
        let model = parse("error(0.1) D0 D1\nerror(0.1) D2\nerror(0.1) D0 D1 D2 L0").expect("a model");
        assert!(into_edges(model).is_err_and(|why| why.contains("column 2")));
    }
}

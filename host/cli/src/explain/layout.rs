//! Positions of detectors in the picture.

use ringcall_qec::dem::DetectorErrorModel;

/// Positions of detectors in pixels, and the size of the picture.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) places: Vec<(f64, f64)>,
    pub(super) width: f64,
    pub(super) height: f64,
    /// Approximate distance of neighbours.
    pub(super) step: f64,
}

const WIDTH: f64 = 1040.0;
const MARGIN: f64 = 46.0;

/// A projection of a detector's coordinates, seen from the side and a little from above: the last coordinate is time
/// and goes up.
fn seen(coordinates: &[f64]) -> (f64, f64) {
    match *coordinates {
        [x] => (x, 0.0),
        [x, t] => (x, -t),
        [x, y, t] => (x + 0.42 * y, 0.30 * y - 2.3 * t),
        [x, y, .., t] => (x + 0.42 * y, 0.30 * y - 2.3 * t),
        [] => (0.0, 0.0),
    }
}

impl Layout {
    /// By coordinates if all detectors have them, else row by row.
    pub(super) fn new(model: &DetectorErrorModel) -> Self {
        let count = model.num_detectors as usize;
        let complete = !model.coordinates.is_empty() && model.coordinates.iter().all(|list| !list.is_empty());
        let mut places: Vec<(f64, f64)> = if complete {
            model.coordinates.iter().map(|list| seen(list)).collect()
        } else {
            let columns = (count as f64).sqrt().ceil().max(1.0) as usize;
            (0..count).map(|index| ((index % columns) as f64, (index / columns) as f64)).collect()
        };
        let bounds = |of: fn(&(f64, f64)) -> f64| {
            places
                .iter()
                .map(of)
                .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)))
        };
        let ((left, right), (top, bottom)) = (bounds(|place| place.0), bounds(|place| place.1));
        let (across, down) = ((right - left).max(1.0), (bottom - top).max(1.0));
        let scale = ((WIDTH - 2.0 * MARGIN) / across).min(1400.0 / down).min(90.0);
        let inner = if places.is_empty() { 0.0 } else { across * scale };
        let indent = (WIDTH - inner) / 2.0;
        for place in &mut places {
            *place = (indent + (place.0 - left) * scale, MARGIN + (place.1 - top) * scale);
        }
        Self { places, width: WIDTH, height: down * scale + 2.0 * MARGIN, step: scale }
    }

    /// The outer end of an edge to the boundary, on the nearer side of the picture.
    pub(super) fn outside(&self, detector: u32) -> (f64, f64) {
        let (x, y) = self.places[detector as usize];
        let away = if x < self.width / 2.0 { -1.0 } else { 1.0 };
        (x + away * self.step.clamp(8.0, 36.0) * 0.8, y)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_detector_is_inside_with_coordinates_and_without() {
        for coordinates in [
            vec![],
            vec![vec![0.0], vec![5.0], vec![9.0]],
            vec![vec![0.0, 0.0, 0.0], vec![8.0, 8.0, 4.0], vec![2.0, 6.0, 1.0]],
            vec![vec![1.0, 1.0], vec![1.0, 1.0], vec![]],
        ] {
            let model = DetectorErrorModel { num_detectors: 3, coordinates, ..DetectorErrorModel::default() };
            let layout = Layout::new(&model);
            assert_eq!(layout.places.len(), 3);
            for (detector, &(x, y)) in (0..).zip(&layout.places) {
                let inside = |(x, y): (f64, f64)| {
                    (0.0..=layout.width).contains(&x) && (0.0..=layout.height).contains(&y)
                };
                assert!(inside((x, y)) && inside(layout.outside(detector)), "{layout:?}");
            }
        }
    }
}

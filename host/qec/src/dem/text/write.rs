//! Writes a model in the text format.

use std::fmt::{self, Display, Formatter};

use crate::dem::DetectorErrorModel;

/// The text format: mechanisms, then detectors with coordinates, then what else is needed for the counts to be read
/// back. Numbers are written with as many digits as bring back the same value.
impl Display for DetectorErrorModel {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (mut detectors, mut observables) = (0, 0);
        for mechanism in &self.mechanisms {
            write!(f, "error({})", Number(mechanism.probability))?;
            let mut first = true;
            for edge in
                mechanism.edges().filter(|edge| !edge.detectors.is_empty() || !edge.observables.is_empty())
            {
                if !std::mem::take(&mut first) {
                    f.write_str(" ^")?;
                }
                edge.detectors.iter().try_for_each(|detector| write!(f, " D{detector}"))?;
                edge.observables.iter().try_for_each(|observable| write!(f, " L{observable}"))?;
                detectors = edge.detectors.iter().fold(detectors, |most, &id| most.max(id.saturating_add(1)));
                observables =
                    edge.observables.iter().fold(observables, |most, &id| most.max(id.saturating_add(1)));
            }
            writeln!(f)?;
        }
        for (detector, coordinates) in (0_u32..).zip(&self.coordinates) {
            if !coordinates.is_empty() {
                let list = coordinates.iter().map(|x| Number(*x).to_string()).collect::<Vec<_>>().join(", ");
                writeln!(f, "detector({list}) D{detector}")?;
                detectors = detectors.max(detector + 1);
            }
        }
        if detectors < self.num_detectors {
            writeln!(f, "detector D{}", self.num_detectors - 1)?;
        }
        if observables < self.num_observables {
            writeln!(f, "logical_observable L{}", self.num_observables - 1)?;
        }
        Ok(())
    }
}

/// A number in the shortest form that reads back exactly: `2`, `0.25`, `1e-7`.
struct Number(f64);

impl Display for Number {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let text = format!("{:?}", self.0);
        f.write_str(text.strip_suffix(".0").unwrap_or(&text))
    }
}

//! The order of checks in a memory experiment.

use crate::code::{Basis, Stabilizer, SurfaceCode};

/// The checks of one basis by column (`x`, then `y`): the order of the first and the last layer of detectors.
pub(super) fn by_column(code: &SurfaceCode, basis: Basis) -> Vec<(u32, &Stabilizer)> {
    let mut checks: Vec<_> = (0..).zip(code.stabilizers(basis)).collect();
    checks.sort_by_key(|(_, check)| check.position);
    checks
}

/// Every check row by row: the order of measurement, and of all other layers of detectors.
pub(super) fn by_row(code: &SurfaceCode) -> Vec<(u32, &Stabilizer)> {
    let mut checks: Vec<_> =
        Basis::BOTH.into_iter().flat_map(|basis| (0..).zip(code.stabilizers(basis))).collect();
    checks.sort_by_key(|(_, check)| (check.position.1, check.position.0));
    checks
}

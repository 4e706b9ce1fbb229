//! Quantum codes: rotated surface codes, bivariate bicycle codes, triangular colour codes, any CSS code by its checks.
//!
//! [`SurfaceCode`] holds the checks with their coordinates, the logical operators and the schedule of the
//! two-qubit gates; [`Configuration`] holds the sizes that a decoding pipeline derives from distance and rounds.
//! [`BicycleCode`] and [`ColorCode`] are built from a few numbers; [`CssCode`] finds the logical operators of any checks.

mod bicycle;
mod color;
mod configuration;
mod css;
mod gf2;
mod surface;

pub use crate::limits::MAX_DISTANCE;
pub use bicycle::{BICYCLE_CODES, BicycleCode, Monomial, Polynomial};
pub use color::{ColorCode, Face};
pub use configuration::{CONFIGURATIONS, Configuration};
pub use css::{CssCode, MAX_CSS_QUBITS};
pub use surface::{Stabilizer, SurfaceCode};

/// A Pauli basis: of a check, of a logical operator or of a memory experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Basis {
    /// X: X checks see Z errors.
    X,
    /// Z: Z checks see X errors.
    Z,
}

impl Basis {
    /// Both, X first.
    pub const BOTH: [Self; 2] = [Self::X, Self::Z];

    /// The other basis.
    pub fn dual(self) -> Self {
        match self {
            Self::X => Self::Z,
            Self::Z => Self::X,
        }
    }
}

impl std::fmt::Display for Basis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::X => "X",
            Self::Z => "Z",
        })
    }
}

//! All results of a sweep, as in JSON.

use super::fits::Fits;
use super::results::{PointResult, Settings};
use crate::report::Provenance;
use serde::Serialize;

/// Everything that is reported.
#[derive(Debug, Serialize)]
pub(super) struct Results {
    /// Every point has enough shots.
    pub(super) complete: bool,
    pub(super) settings: Settings,
    pub(super) points: Vec<PointResult>,
    pub(super) fits: Fits,
    pub(super) provenance: Provenance,
}

//! Results of a sweep, in the form of its JSON.

use super::fits::Fits;
use super::results::{PointResult, Settings};
use crate::report::Provenance;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(super) struct Results {
    /// Whether every point has enough shots.
    pub(super) complete: bool,
    pub(super) settings: Settings,
    pub(super) points: Vec<PointResult>,
    pub(super) fits: Fits,
    pub(super) provenance: Provenance,
}

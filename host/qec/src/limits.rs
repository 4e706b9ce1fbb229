//! The largest experiments.

/// The largest distance that [`SurfaceCode::new`] builds.
pub const MAX_DISTANCE: u32 = 255;

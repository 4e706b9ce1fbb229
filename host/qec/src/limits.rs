//! The largest experiments.

/// The largest distance that [`SurfaceCode::new`](crate::code::SurfaceCode::new) builds.
pub const MAX_DISTANCE: u32 = 255;

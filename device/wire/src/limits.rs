//! How many values a schema describes.

/// Most arguments a handler may have.
pub const MAX_ARGS: usize = 8;
/// Most results a handler may have.
pub const MAX_RESULTS: usize = 4;

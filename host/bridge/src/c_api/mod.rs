//! The C functions, under their C names: exported from whatever this crate is linked into with feature
//! `c-api`. What each does, and who owns what, is in the headers in `include/`.

pub mod bridge;
pub mod udp;

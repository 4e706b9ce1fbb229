//! The C functions, under their C names: exported from every library that links this crate with feature
//! `c-api`. What each does, and who owns what, is in the headers in `include/`.

pub mod bridge;
pub mod udp;

//! The C functions, under their C names: exported from every library that links this crate with feature
//! `c-api`. What each does, and who owns what, is in the headers in `include/`.

pub mod bridge;
pub mod roce;
pub mod udp;

/// 1 or 0.
fn yes(body: impl FnOnce() -> Result<(), crate::Refused>) -> core::ffi::c_int {
    core::ffi::c_int::from(crate::border::enter(body) == 0)
}

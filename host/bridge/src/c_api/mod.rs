//! The C functions under their C names. Every library that links this crate with feature `c-api` exports them. The
//! headers in `include/` say what each does, and who owns what.

pub mod bridge;
pub mod roce;
pub mod udp;

/// 1 for success, 0 for failure.
fn yes(body: impl FnOnce() -> Result<(), crate::Refused>) -> core::ffi::c_int {
    core::ffi::c_int::from(crate::border::enter(body) == 0)
}

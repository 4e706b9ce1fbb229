//! The device code of the driver's tests, by hand: what is linked, and what cannot be.

/// Kernels, one of which calls a function that is not here.
pub(crate) const KERNELS: &str = include_str!("kernels.ptx");

/// The function that the kernels call.
pub(crate) const FUNCTIONS: &str = include_str!("functions.ptx");

/// Text that no assembler takes.
pub(crate) const BROKEN: &str = ".version 8.0\n.target sm_75\n.address_size 64\n\
                          .visible .entry wrong() {\n    frobnicate.u32;\n    ret;\n}\n";

//! Decoders on a GPU: the host's side of the CUDA C++ kernels in `kernels-cu`.
//!
//! | decoder | where |
//! |---|---|
//! | the predecoder network | [`predecoder`] |
//! | Relay-BP | [`relay_bp`] |
//!
//! Each decoder is a [`Model`](ringcall_infer::Model), whose engines replay a captured graph, and a handler of the cooperative dispatcher,
//! whose blocks stay on the device. The kernels are compiled to PTX that is committed; nothing here needs a CUDA toolkit.

#![deny(unsafe_code)]

mod grid;
pub mod predecoder;
pub mod relay_bp;

//! Surface codes, detector error models, sampling, shot files and decoding for quantum error correction.
//!
//! * [`code`]: the rotated surface code of any odd distance, its check matrices and the named configurations;
//! * [`circuit`]: the memory experiment under circuit-level noise, turned into a detector error model;
//! * [`dem`]: the detector error model itself and the reader and writer of its text format;
//! * [`sample`]: shots drawn from a model; [`shots`]: their files; [`stats`]: logical error rates;
//! * [`decode`]: decoders, from a syndrome to the observables that were flipped;
//! * [`predecoder`]: the tensors of a convolutional network for a memory experiment, and the effect of its decisions.
#![forbid(unsafe_code)]

pub mod circuit;
pub mod code;
pub mod decode;
pub mod dem;
mod error;
mod limits;
pub mod predecoder;
pub mod sample;
pub mod shots;
pub mod stats;

pub use error::QecError;

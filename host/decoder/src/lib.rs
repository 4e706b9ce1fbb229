//! Decoders for quantum error correction, from the text of a detector error model in three lines.
//!
//! ```
//! use ringcall_decoder::Decoder;
//!
//! // Three qubits in a row with two checks; an error on the last flips the observable.
//! let mut decoder = Decoder::from_dem("error(0.1) D0\nerror(0.1) D0 D1\nerror(0.1) D1 L0")?;
//! // One byte a shot: no detector, D0 alone, D1 alone, both.
//! assert_eq!(decoder.decode_batch(&[0b00, 0b01, 0b10, 0b11])?, [0, 0, 1, 0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Decoder`] matches, correlated where the model has correlations to use, and takes Relay-BP for models that matching cannot decode.
//! For weights and streams there is `ringcall-matching`, for codes, samplers and files of shots `ringcall-qec`.

#![forbid(unsafe_code)]

pub use ringcall_qec::decode::{BatchDecoder as Decoder, DecodeError};

/// What the README promises.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

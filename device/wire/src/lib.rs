//! Wire format of the Ringcall RPC protocol: headers, payload types, schemas, flags, status codes.
//!
//! A ring is slots of equal size, each with an RX and a TX flag word ([`flag`]). A slot holds one message:
//!
//! ```text
//! request   | RequestHeader  24 | argument 0 | argument 1 | ...            | unused |
//! response  | ResponseHeader 24 | result 0   | result 1   | ...            | unused |
//! ```
//!
//! Everything is little-endian and nothing is padded. What the payload bytes are is not on the wire: both sides hold
//! the [`HandlerSchema`] of a function, whose id is the FNV-1a hash of its name ([`FunctionId`]). A response echoes
//! the request's number and time, and carries a [`Status`].
//!
//! ```
//! use ringcall_wire::{
//!     PayloadDecoder, PayloadEncoder, FunctionId, HEADER_BYTES, RequestHeader, ResponseHeader, Status, names, qec,
//! };
//!
//! const SCHEMA: ringcall_wire::HandlerSchema = qec::decode_syndrome_schema(12, 1);
//! let mut slot = [0_u8; 64];
//!
//! // The controller writes detectors 0 and 11 ...
//! let (header, payload) = slot.split_at_mut(HEADER_BYTES);
//! let len = PayloadEncoder::args(&SCHEMA, payload)?.packed_bits(&[0b1, 0b1000])?.finish()?;
//! let id = FunctionId::of(names::DECODE_SYNDROME);
//! header.copy_from_slice(&RequestHeader::new(id.0, len as u32, 1, 0).to_bytes());
//!
//! // ... and the service reads them.
//! let request = RequestHeader::from_bytes(&slot)?.check_magic()?;
//! SCHEMA.check_arg_len(request.arg_len)?;
//! let mut arguments = PayloadDecoder::args(&SCHEMA, &slot[HEADER_BYTES..][..request.arg_len as usize])?;
//! assert!(arguments.bits()?.ones().eq([0, 11]));
//! let response = ResponseHeader::reply(&request, Status::OK.0, 9);
//! assert_eq!(response.request_id, 1);
//! # Ok::<(), ringcall_wire::WireError>(())
//! ```
//!
//! | module | |
//! |---|---|
//! | [`header`], [`function`], [`flag`], [`status`] | what every message and slot has |
//! | [`tag`] | what may follow a message, for peers that share a key |
//! | [`payload`], [`schema`], [`codec`] | values in a payload |
//! | [`bits`], [`readout`] | measurements: one bit, or more |
//! | [`entry`] | function tables in memory |
//! | [`launch`] | what a host and its device dispatcher agree on |
//! | [`handoff`] | what a host and the graphs of an AI service agree on |
//! | [`qec`], [`weighted`], [`decoding`] | `decode_syndrome`; the same with weights or read-outs; the calls of a decoding server |
//! | [`counter`], [`error`] | what dispatchers count; what can be wrong |
//!
//! The crate is `no_std`, allocates nothing and panics nowhere: the same code runs in a GPU kernel, on a host and in a
//! controller's firmware.

#![no_std]
#![forbid(unsafe_code)]
// A panic in a kernel ends every other request too, so nothing here may index, unwrap or assert at run time.
#![deny(clippy::indexing_slicing, clippy::string_slice)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable)]

mod abi;
pub mod bits;
pub mod call;
pub mod codec;
pub mod counter;
pub mod decoding;
pub mod entry;
pub mod error;
pub mod flag;
pub mod function;
pub mod handoff;
pub mod header;
pub mod launch;
mod limits;
mod named;
pub mod payload;
pub mod qec;
pub mod readout;
pub mod schema;
pub mod status;
pub mod tag;
pub mod unified;
pub mod weighted;

pub use codec::{PayloadDecoder, PayloadEncoder};
pub use counter::Counter;
pub use entry::{FunctionEntry, LegacyFunctionEntry, SeedFunctionEntry};
pub use error::WireError;
pub use flag::{TxState, TxStatus};
pub use function::{FunctionId, fnv1a, names};
pub use header::{HEADER_BYTES, HEADER_WORDS, REQUEST_MAGIC, RESPONSE_MAGIC, RequestHeader, ResponseHeader};
pub use payload::{PayloadType, TypeDesc};
pub use qec::DecodeResponse;
pub use schema::{HandlerSchema, MAX_ARGS, MAX_RESULTS};
pub use status::{CudaqStatus, DispatchMode, DispatchPath, KernelType, Status};

//! The C interface of Ringcall: the CUDA-Q Realtime host API, over the dispatchers of `ringcall` and `ringcall-cuda`, matching
//! decoders, over `ringcall-qec`, and real-time pipelines, over `ringcall-pipeline`.
//!
//! The contract is in the headers (`include`); nothing here is for Rust callers, who have those crates. What
//! is here: structs as C lays them out, checks of everything that comes in, handles that cannot dangle, and
//! the threads that a C caller does not want to write.
//!
//! | module | what |
//! |---|---|
//! | [`layout`] | the structs and their offsets |
//! | `status` | every entry point's guard: panics become statuses, errors get words |
//! | `handles` | live handles: numbers, never addresses |
//! | `raw_ring`, `entries` | rings and tables of the caller's, checked |
//! | `ring_helpers` | the producer's and the consumer's side |
//! | `served` | which functions of which rings are served |
//! | `host_call` | a C function as a handler |
//! | `host_loop` | the host path: a thread, or the caller's |
//! | `engine` | graphs that the host launches |
//! | `manager`, `dispatcher` | their life cycles |
//! | `ringcall_bridge::c_api` | transports from shared libraries, UDP and RoCE: exported from here as well |
//! | `decoder` | decoders by matching and by Relay-BP: models and check matrices in, observables out |
//! | `pipeline` | GPU stage, CPU stage and completion handler of C programs, over `ringcall-pipeline` |
//! | `hsb` | unified loops over an adapter's queues, by transport contexts, and an adapter without hardware |
//! | `device` | the device path: launch functions on streams, kernels of the device archive or linked with modules |

#![allow(unsafe_code)] // named for it: the boundary to C
#![allow(clippy::missing_safety_doc)] // the contract of each function is in the header

mod config;
mod cpu_loop;
mod decoder;
mod device;
mod dispatcher;
mod engine;
mod entries;
mod handles;
mod host_call;
mod host_loop;
mod hsb;
pub mod layout;
mod manager;
mod pipeline;
mod raw_ring;
mod ring_helpers;
mod served;
mod status;

pub use decoder::{api::*, create::*, relay::*, shots::*, slot::*, stream::*};
pub use device::api::*;
pub use dispatcher::*;
pub use engine::api::*;
pub use host_loop::api::*;
pub use hsb::api::*;
pub use manager::*;
pub use pipeline::api::*;
pub use ring_helpers::*;
pub use ringcall_bridge::c_api::{bridge::*, roce::*, udp::*};
pub use status::{ringcall_last_error, ringcall_version};

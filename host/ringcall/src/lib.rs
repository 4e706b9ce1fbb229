//! Real-time RPC over polled ring buffers: the host side.
//!
//! A [`Ring`] holds slots. A producer writes requests into the slots and sets flags. A [`HostDispatcher`] polls the
//! flags, checks every request, calls its function (inline, or on a pool of workers) and writes the answer into the
//! slot. No request is dropped silently: bad input is answered with its own status and counted, a late result is
//! counted, and a stop reports which requests it drained and which it gave up.
//!
//! ```
//! use ringcall::{Client, FunctionTable, HostDispatcher, Ring, RingConfig};
//! use std::time::Duration;
//!
//! let ring = Ring::allocate(RingConfig { slots: 64, slot_bytes: 256 })?;
//! let table = FunctionTable::builder()
//!     .host_call("rpc_increment", |request: &[u8], result: &mut [u8]| {
//!         for (out, byte) in result.iter_mut().zip(request) {
//!             *out = byte.wrapping_add(1);
//!         }
//!         Ok(request.len())
//!     })
//!     .build(&ring)?;
//! let dispatcher = HostDispatcher::builder(&ring, table).build()?.start()?;
//!
//! let mut client = Client::new(&ring);
//! let reply = client.call("rpc_increment", &[1, 2, 3], Duration::from_secs(5))?;
//! assert_eq!(reply.result, [2, 3, 4]);
//!
//! let stopped = dispatcher.stop(Duration::from_secs(5));
//! assert_eq!(stopped.report.dropped, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`ring`] | rings that this process owns, or that a caller mapped |
//! | [`table`] | functions, how each is run, and their schemas; collisions and schemas that cannot fit are refused |
//! | [`dispatcher`] | the host dispatcher: inline calls, worker pools, per-function queues, stop with a report |
//! | [`worker`] | the worker's side of a pool: jobs, ready flags, answers, deferred completions |
//! | [`external`] | functions that an executor answers in the slot (a graph that the host launches); rules of other libraries' rings |
//! | [`completion_log`] | completions on rings whose responses a transport takes |
//! | [`client`] | a producer and consumer in one thread, for tests and benchmarks without a NIC |
//! | [`thread_pool`] | a pool of pinned threads, each with its own state |
//! | [`thread`], [`wait`], [`pin`] | threads that stop within a deadline, how they poll, and on which core |

#![forbid(unsafe_code)]

pub mod client;
pub mod completion_log;
pub mod dispatcher;
pub mod external;
pub mod pin;
pub mod ring;
mod shared;
pub mod table;
pub mod thread;
pub mod thread_pool;
pub mod wait;
pub mod worker;

pub use client::Client;
pub use dispatcher::{HostDispatcher, HostOptions, StopReport};
pub use ring::{Ring, RingConfig};
pub use ringcall_wire as wire;
pub use ringcall_wire::function::FunctionId;
pub use ringcall_wire::status::Status;
pub use table::FunctionTable;
pub use thread_pool::ThreadPool;
pub use wait::Wait;

/// The README's Rust code.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

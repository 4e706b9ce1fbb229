//! The bridge interface of CUDA-Q Realtime: transports in shared libraries, from both sides.
//!
//! | purpose | item |
//! |---|---|
//! | use a transport of others, by its library's name | [`Provider`] |
//! | serve its ring, or a ring of your own, with it | [`RingProvider`], [`PolledProvider`] |
//! | make a library of your transport, in Rust | [`provider`], and `examples/tcp_provider.rs` to copy |
//! | the same in C | the header in `include/`, and `examples/c-provider` to copy |
//! | Ringcall's UDP and RoCE v2 transports as such libraries | packages `ringcall-bridge-udp` and `ringcall-bridge-roce` |
//! | the C functions `cudaq_bridge_*`, `cpu_udp_*` and `cpu_roce_*` | feature `c-api`: module `c_api` |
//!
//! # Two ways of moving requests
//! - **Ring buffer**: the provider fills a ring of its own, by threads or by hardware; a dispatcher serves that ring
//!   ([`RingProvider`]).
//! - **Data plane** (interface version 2): the provider has two hooks, and one thread of its user polls, serves and
//!   publishes. [`WireProvider`] makes a [`Wire`](ringcall_transport::Wire) of the hooks, so everything that works over
//!   a wire works over a provider: any ring, and transport and dispatcher on one thread ([`PolledProvider`]).
//!
//! # What is checked
//! A library is code in this process and is trusted as such; the values that it returns are not. Version, members,
//! statuses, geometry, strides, addresses (mapped and writable), overlaps, slots and lines of text are checked, and the
//! order of calls is enforced. An impossible value becomes an error that says what was found.
//!
//! # What Ringcall's providers add
//! A second exported symbol ([`extension`]): counters, reasons, stops with deadlines. Providers without it work, too;
//! their counters then cover only what can be seen from outside.

#[cfg(feature = "c-api")]
pub mod c_api;

mod border;
mod endpoint;
mod error;
pub mod extension;
mod handles;
pub mod layout;
pub mod loader;
mod polled_provider;
pub mod provider;
mod ring_provider;
pub mod roce_transceiver;
pub mod transceiver;
mod wire_provider;

pub use endpoint::parse as parse_endpoint;
pub use error::{BridgeError, Refused};
pub use loader::Provider;
pub use polled_provider::{AttachError, PolledProvider};
pub use ring_provider::RingProvider;
pub use wire_provider::WireProvider;

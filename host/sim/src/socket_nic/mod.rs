//! A NIC in software on a UDP socket, and a service over it: what an adapter and a kernel on a device do, without either.
//!
//! ```text
//! peer ─ RoCE v2 packets ─► RocePort ─ messages ─► Nic ─ memory, completions ─► unified loop
//! peer ◄─ UC SEND packets ─ RocePort ◄─ messages ─ Nic ◄─ work requests, doorbells ─┘
//! ```
//! [`crate::nic`] knows no packets and [`ringcall_roce`] no queues; who joins them knows both, and is this crate.
//!
//! | module | what |
//! |---|---|
//! | [`port`] | a NIC's port on a socket: every check between a packet and a message |
//! | [`service`] | queues in this process's memory, the NIC, and the unified loop, on one thread or two |
//! | [`adapter`] | the NIC alone, on queues that a device's kernels work |
//! | [`report`], [`counts`] | what was counted, live and in the end |
//!
//! ```
//! use ringcall::FunctionTable;
//! use ringcall_sim::fpga::{Increment, Player, PlayerConfig, PlayerTarget};
//! use ringcall_roce::RoceSocket;
//! use ringcall_sim::socket_nic::{SocketNicOptions, Service};
//! use std::time::Duration;
//!
//! let options = SocketNicOptions::default();
//! let capacity = Service::capacity(options.port.page_bytes);
//! let table = FunctionTable::builder()
//!     .host_call("rpc_increment", |request: &[u8], result: &mut [u8]| {
//!         result.iter_mut().zip(request).for_each(|(out, byte)| *out = byte.wrapping_add(1));
//!         Ok(request.len())
//!     })
//!     .build_for(capacity, capacity)?;
//! let service = Service::start(options, table)?;
//!
//! let port = options.port;
//! let target = PlayerTarget {
//!     peer: service.address(), qp: port.qp, key: port.key, base: port.base,
//!     page_bytes: port.page_bytes, pages: port.pages,
//! };
//! let socket = RoceSocket::bind("127.0.0.1:0".parse()?)?;
//! let mut player = Player::new(socket, PlayerConfig::new(target))?;
//! let played = player.run(&mut Increment::new(200, 16), &mut Increment::check, &|| false)?;
//! assert!(played.clean());
//! let report = service.stop(Duration::from_secs(5));
//! assert!(report.is_clean(), "{report}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod adapter;
pub mod counts;
mod driver;
pub mod port;
mod queues;
pub mod report;
pub mod service;

pub use adapter::Adapter;
pub use counts::{Count, Counts};
pub use port::{Delivery, PortError, RocePort};
pub use queues::AdapterQueues;
pub use report::{LoopStats, Report, Watch};
pub use ringcall_roce::PortOptions;
pub use service::{Service, ServiceError, SocketNicOptions, SteppedService, Threads, Wiring};

/// The transport's name on a command line. On the wire it is RoCE v2.
pub const NAME: &str = "nic";

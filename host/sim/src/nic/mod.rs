//! An mlx5 NIC simulated on a host: the hardware's side of [`ringcall_mlx5`].
//!
//! It works on mapped memory alone, as a NIC does: it reads work requests, doorbell records and doorbells,
//! and writes payload and completion entries. So a driver of a NIC's queues, a kernel on a GPU or a thread in
//! a test, runs against it unchanged, and every mistake that a NIC would punish with silence has a name and a
//! count here ([`Violation`]).
//!
//! | module | what |
//! |---|---|
//! | [`port`] | where messages come from and go to; an in-process wire |
//! | [`memory`] | registered memory, by key |
//! | [`stats`] | what was counted, and the rules that the other side broke |
//! | [`fault`] | completions that should not be, on demand |
//! | [`thread`] | a NIC on its own thread |
//!
//! [`Nic::step`] does a bounded piece of work and never blocks, so that a model checker can play it too.
//!
//! # How it takes the rules
//! * A doorbell makes it read the doorbell record; requests up to there are fetched at once, and done later, a few a step.
//!   A request that changes in between was overwritten while the NIC had it.
//! * A BlueFlame copy is taken if it is the next request and was not torn; it must be the contents of the
//!   queue. Otherwise it is no more than a doorbell.
//! * A message that needs a receive request and finds none is dropped and counted, as on an unreliable connection.
//! * Payload, then the completion entry, then the entry's owner byte.
//! * After a failed send request the queue pair is in the error state: everything posted is flushed.
//!
//! # Example
//! A queue pair with one request under way; everything on one thread.
//! ```
//! use ringcall_gpu::shared::Region;
//! use ringcall_sim::nic::{Config, Memory, Message, Nic, Port, Region as Registered, Wire};
//! use ringcall_mlx5::endpoint::{self, Frame, Poll, ResponsePath, Windows};
//! use ringcall_mlx5::rq::Buffers;
//! use ringcall_mlx5::sq::RecordMode;
//! use ringcall_mlx5::{BlueFlame, CompletionQueue, Endpoint, Event};
//!
//! // Two requests deep: 8 words a completion entry or send request, 2 a receive request.
//! let region = Region::zeroed(4096)?;
//! let words = |at: usize, count: usize| region.words(at, count);
//! let windows = Windows {
//!     rx_completions: words(0, 16)?,
//!     rx_completions_record: None,
//!     tx_completions: words(128, 16)?,
//!     tx_completions_record: None,
//!     send: words(256, 16)?,
//!     receive: words(384, 4)?,
//!     record: words(416, 1)?,
//!     shutdown: words(424, 1)?,
//!     counters: words(512, Event::COUNT)?,
//!     rx_data: region.bytes(1024, 256)?,
//!     tx_data: region.bytes(1280, 256)?,
//! };
//! let uar = words(2048, 8)?;
//! CompletionQueue::prepare(&windows.rx_completions);
//! CompletionQueue::prepare(&windows.tx_completions);
//!
//! let config = endpoint::Config {
//!     qpn: 0x12, slots: 2, rx_stride: 128, tx_stride: 128, tx_lkey: 7, tx_base: 0, depth: 2,
//!     buffers: Buffers::Credits, sequence: false, reply: ResponsePath::Send, record: RecordMode::Written,
//! };
//! let mut endpoint = Endpoint::new(config, windows.clone(), BlueFlame::new(uar.clone())?)?;
//!
//! let memory = Memory::new(vec![
//!     Registered { key: 5, base: 0, window: windows.rx_data.clone(), remote_write: true },
//!     Registered { key: 7, base: 0, window: windows.tx_data.clone(), remote_write: false },
//! ]);
//! let (port, mut peer) = Wire::pair(16);
//! let config = Config { qpn: 0x12, record: RecordMode::Written, burst: 16 };
//! let mut nic = Nic::new(config, &windows, uar, memory, port)?;
//!
//! // The peer writes into slot 1 and says so.
//! assert!(peer.send(Message::WriteImm { address: 128, rkey: 5, immediate: 1 }, b"syndrome"));
//! nic.step();
//! let Poll::Arrived(request) = endpoint.poll() else { panic!("no request") };
//! assert_eq!((request.slot(), request.bytes()), (1, 8));
//! let room = endpoint.try_reserve().expect("nothing is under way");
//! endpoint.respond(request, room, Frame::Bytes(b"correction")).expect("it fits");
//! while nic.step() {}
//! let mut response = Vec::new();
//! assert_eq!(peer.receive(&mut response), Some(Message::Send));
//! assert_eq!(response, b"correction");
//! assert_eq!(nic.violations().broken().count(), 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod adapter;
mod completion;
pub mod fault;
pub mod memory;
pub mod port;
mod receive;
mod send;
pub mod stats;
#[cfg(not(loom))]
pub mod thread;

pub use adapter::{Config, Nic, NicError};
pub use fault::{Fault, Queue};
pub use memory::{Memory, Region};
pub use port::{Message, Port, Wire};
pub use stats::{Stats, Violation};

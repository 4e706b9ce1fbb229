//! A sensor bridge in software: the other side of a real-time service's wire.
//!
//! It plays requests into a host's window by RoCE v2 as an FPGA does, with many in flight; injects loss, damage,
//! duplicates and disorder; stamps each request with its time of sending; and checks every answer: content, request
//! number, time, and how long it took. Every request ends in exactly one of four ways, which [`Report`] counts: correct,
//! wrong, lost on purpose, or unanswered.
//!
//! | module | |
//! |---|---|
//! | [`player`] | the data plane: a [`Player`] sends [`Windows`] to a [`PlayerTarget`] |
//! | [`windows`] | what to send, and which answers are right |
//! | [`faults`] | what goes wrong on purpose |
//! | [`report`] | what came of it |
//! | [`bridge`] | both planes: a [`Bridge`] whose registers a host writes, and which plays the contents of its memory |
//! | [`control`] | the registers of a sensor bridge: codec, client, server, register file |
//! | [`metadata`] | the block at the end of a frame |
//! | [`loopback`] | a service to test against: answers over a socket on its own thread |
//!
//! ```
//! use ringcall_sim::fpga::{Increment, Loopback, LoopbackConfig, Player, PlayerConfig};
//! use ringcall_roce::RoceSocket;
//!
//! let any = "127.0.0.1:0".parse()?;
//! let service = Loopback::start(any, LoopbackConfig::default())?;
//! let mut config = PlayerConfig::new(service.target());
//! config.faults.loss = 0.01;
//! config.timeout = std::time::Duration::from_millis(200);
//! let mut player = Player::new(RoceSocket::bind(any)?, config)?;
//! let report = player.run(&mut Increment::new(500, 16), &mut Increment::check, &|| false)?;
//! assert!(report.accounted() && report.wrong() == 0);
//! assert_eq!(report.correct + report.lost + report.unanswered, 500);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod bridge;
pub mod config;
pub mod control;
pub mod error;
pub mod faults;
pub mod loopback;
pub mod metadata;
mod outgoing;
pub mod player;
mod reliable;
pub mod report;
mod request_log;
pub mod windows;

pub use bridge::{Bridge, BridgeConfig};
pub use config::{EMULATOR_QP, PlayerConfig, PlayerTarget, RequestIds, TimeFormat};
pub use error::EmulatorError;
pub use faults::{FaultStats, Faults, Injector};
pub use loopback::{Loopback, LoopbackConfig, LoopbackStats};
pub use player::Player;
pub use report::{Latency, Report};
pub use windows::{Checker, Exchange, Increment, Recorded, Windows};

//! The control plane of a sensor bridge: registers, read and written over UDP.
//!
//! | module | |
//! |---|---|
//! | [`codec`] | requests and replies as bytes |
//! | [`registers`] | addresses, and what the words mean |
//! | [`mod@file`] | the bridge's registers in memory |
//! | [`client`] | the host's end: one command at a time, repeated until answered |
//! | [`server`] | the bridge's end |
//!
//! Register map and reply formats are those that the public host software of Holoscan Sensor Bridge (2.7) and CUDA-Q
//! Realtime's emulator read and write; nothing here was checked against a bridge in hardware.

pub mod client;
pub mod codec;
pub mod file;
pub mod registers;
pub mod server;

pub use client::{ClientError, ClientOptions, ControlClient};
pub use codec::{Command, ControlError, Pairs, Reply, Request, ResponseCode};
pub use file::{AddressEncoding, AddressError, PlayerSettings, RegisterFile, Target};
pub use registers::{CONTROL_PORT, EMULATOR_CONTROL_PORT, RegisterMap};
pub use server::{ControlServer, SequenceCheck, ServerHandle, ServerStats};

//! A decoding server: CUDA-Q QEC's three calls, its sessions, and its YAML configuration.
//!
//! ```text
//! enqueue_syndromes ─► Session: measurements ─► detectors ─► decoder ─► corrections ─► get_corrections
//! ```
//! A [`Config`] lists the decoders, each by sparse matrices: H (the detectors that each error flips), O (the observables that
//! each error flips) and D (the measurements of each detector). A [`Session`] is one decoder with its collected measurements;
//! [`Sessions`] are all sessions of a server, as functions of rings. Runs of any length are decoded round by round as their
//! measurements come. `docs/decoding-server.md` has the keys and the statuses.
//!
//! This module opens no socket: `ringcall serve --config` puts the calls on rings.

mod arguments;
mod config;
mod counters;
mod engine;
mod error;
mod matrix;
mod session;
mod sessions;
mod split;
mod stream;
mod write;
mod yaml;

pub use config::{Config, DecoderConfig, MAX_DECODERS, TransportConfig};
pub use counters::DecodeStats;
pub use error::ConfigError;
pub use session::{Frame, Session, SessionState};
pub use sessions::Sessions;
pub use write::{WriteError, write, write_endless};

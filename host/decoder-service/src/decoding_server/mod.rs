//! A decoding server: CUDA-Q QEC's three calls, its sessions, and its YAML configuration.
//!
//! ```text
//! enqueue_syndromes ─► Session: measurements ─► detectors ─► decoder ─► corrections ─► get_corrections
//! ```
//! A [`Config`] says which decoders there are, each by sparse matrices: H (which errors flip which detectors), O (which flip which
//! observables) and D (which measurements make a detector). A [`Session`] is one decoder with what it has collected; [`Sessions`]
//! are all of a server, as functions of rings. Runs of any length are decoded round by round as their measurements come. `docs/decoding-server.md` has the keys and the statuses.
//!
//! Nothing here knows a socket: `ringcall serve --config` puts the calls on rings.

mod arguments;
mod config;
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
pub use error::ConfigError;
pub use session::{Frame, Session, SessionState};
pub use sessions::Sessions;
pub use write::{WriteError, write, write_endless};

//! Teams of threads that work on one request together: identity, barriers and collectives.
//!
//! | type | on a device | on a CPU |
//! |---|---|---|
//! | [`Warp`] | 32 lanes in lock step | up to 32 threads |
//! | [`Block`] | the threads of one block | threads, in warps of 32 |
//! | [`Grid`] | all blocks of a cooperative launch | threads, in blocks |
//!
//! The code of a handler is the same on both. A device's threads find their team with `current()`; on a CPU
//! [`run_warp`] and [`run_grid`] start scoped threads that play the lanes, and [`Warp::single`], [`Block::single`] and
//! [`Grid::single`] are teams of the calling thread alone, where every collective is trivial.
//!
//! Every thread of a team has to reach every collective (barrier, shuffle, vote, sum), in the same order. On
//! a device a thread that does not leaves the others waiting indefinitely. On a CPU they panic, and say why.
//!
//! [`OutBytes`] is the memory that a team writes its result to, many threads at once.
//!
//! ```
//! use ringcall_gpu::team::{self, Warp};
//!
//! /// The number of ones in `bytes`, each lane counting every 32nd.
//! fn ones(warp: Warp<'_>, bytes: &[u8]) -> u32 {
//!     warp.sum(warp.stride(bytes.len()).map(|i| bytes[i].count_ones()).sum())
//! }
//!
//! assert_eq!(team::run_warp(4, |warp| ones(warp, b"\x01\x03\x07\x0f\x1f")), [15; 4]);
//! assert_eq!(ones(Warp::single(), b"\x01\x03"), 3);
//! ```

mod block;
mod grid;
mod out;
mod stride;
mod warp;

#[cfg(not(target_arch = "nvptx64"))]
mod cpu;
#[cfg(target_arch = "nvptx64")]
mod device;
#[cfg(not(target_arch = "nvptx64"))]
mod spin;

#[cfg(not(target_arch = "nvptx64"))]
use cpu as machine;
#[cfg(target_arch = "nvptx64")]
use device as machine;

pub use block::Block;
#[cfg(not(target_arch = "nvptx64"))]
pub use cpu::{run_grid, run_warp};
#[cfg(target_arch = "nvptx64")]
pub use device::result_out;
pub use grid::Grid;
pub use out::OutBytes;
#[cfg(not(target_arch = "nvptx64"))]
pub use spin::{Broken, SpinBarrier};
pub use stride::Stride;
pub use warp::Warp;

/// Most lanes of a warp; on a device every warp has as many.
pub const WARP_LANES: u32 = 32;

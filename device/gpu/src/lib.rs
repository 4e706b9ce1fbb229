//! The machine under Ringcall: scoped atomics, shared memory, purpose-named barriers, hints and a clock.
//!
//! The crate knows memory and nothing of any protocol. It is the one room (besides the CUDA host crate) where `unsafe`
//! is allowed, so that every crate above it can deny it: rings, dispatchers and pipelines are written against
//! [`shared::Words`], [`shared::Bytes`] and [`atomic`].
//!
//! | module | what |
//! |---|---|
//! | [`scope`] | who has to see a write: the whole [`SystemScope`](scope::SystemScope), the [`DeviceScope`](scope::DeviceScope), a [`BlockScope`](scope::BlockScope) |
//! | [`atomic`] | 64-bit atomics with the scope in the type and the order at the call |
//! | [`shared`] | memory that another agent may write at any time: never a `&[u8]`, always loads and stores |
//! | [`barrier`] | fences named by what they are for |
//! | [`hint`] | spinning and prefetching |
//! | [`clock`] | monotonic nanoseconds |
//! | [`staging`] | a warp's private buffer, where a handler works |
//! | [`pad`] | values kept on cache lines of their own |
//! | [`team`] | threads that work together: warps, blocks and grids, simulated by threads on a CPU |
//!
//! # Two builds of one source
//! By default the types sit on `core::sync::atomic` and real memory. With `RUSTFLAGS="--cfg loom"` they sit on
//! [loom](https://docs.rs/loom)'s, so a protocol written on this crate is model-checked as it stands: every
//! interleaving and every allowed stale read of the very code that ships.
//!
//! ```
//! use ringcall_gpu::shared::Region;
//! use core::sync::atomic::Ordering;
//!
//! let region = Region::zeroed(4096)?;
//! let flags = region.words(0, 8)?;
//! let data = region.bytes(64, 256)?;
//! data.write(0, b"syndrome");                        // relaxed stores
//! flags.store(3, 0x40, Ordering::Release);           // publish
//! assert_eq!(flags.load(3, Ordering::Acquire), 0x40); // observe
//! let mut copy = [0; 8];
//! data.read(0, &mut copy);
//! assert_eq!(&copy, b"syndrome");
//! # Ok::<(), ringcall_gpu::shared::SharedError>(())
//! ```

#![cfg_attr(target_arch = "nvptx64", no_std, feature(asm_experimental_arch))]
#![allow(unsafe_code)] // named for it: see ARCHITECTURE.md, "Where unsafe lives"
#![allow(clippy::disallowed_types)] // this is the shim the rest of the workspace has to go through

pub mod atomic;
pub mod barrier;
pub mod clock;
pub mod hint;
pub mod pad;
#[cfg(target_arch = "nvptx64")]
pub mod ptx;
pub mod scope;
pub mod shared;
pub mod staging;
pub mod team;

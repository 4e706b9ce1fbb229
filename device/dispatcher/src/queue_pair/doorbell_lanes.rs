//! The doorbell register, written by the lanes of a warp.

use core::sync::atomic::Ordering;
use ringcall_gpu::shared::Words;
use ringcall_mlx5::QueueError;
use ringcall_mlx5::doorbell::Doorbell;
use ringcall_mlx5::layout::{self, wqe};

/// How a send request is copied to the BlueFlame buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Copying {
    /// Not at all.
    #[default]
    Not,
    /// By one store of the whole warp: what a NIC's register combines into one transaction.
    Whole,
    /// All but its first word early, the first word after the fence: for memory that software polls (the
    /// emulated NIC), where nothing combines stores.
    FirstWordLast,
}

/// A doorbell register.
#[derive(Debug, Clone)]
pub struct Bell {
    uar: Words,
    copying: Copying,
}

/// Lanes that a copy takes, 16 bytes each.
const LANES: u32 = wqe::WORDS as u32 / 2;

impl Bell {
    /// The register in `uar`: a window that begins [`layout::UAR_DOORBELL`] bytes into the page.
    ///
    /// # Errors
    /// A window of fewer words than the register has.
    pub fn new(uar: Words, copying: Copying) -> Result<Self, QueueError> {
        let bytes = if copying == Copying::Not { 8 } else { layout::BLUE_FLAME_BYTES };
        ringcall_mlx5::doorbell::register(&uar, bytes)?;
        Ok(Self { uar, copying })
    }

    /// Whether a warp of so many lanes copies.
    #[inline(always)]
    pub(crate) fn copies(&self, lanes: u32) -> bool {
        self.copying != Copying::Not && lanes >= LANES
    }

    /// Whether the copy is made after the fence by several lanes, which then have to know of the fence.
    #[inline(always)]
    pub(crate) fn is_whole(&self) -> bool {
        self.copying == Copying::Whole
    }

    /// Before the fence: this lane's part of the request, for what can be written early.
    ///
    /// The first word is the last request's doorbell. It was stored, and polls of memory have come back
    /// since.
    #[inline(always)]
    pub(crate) fn copy_early(&self, lane: u32, pair: [u64; 2]) {
        if self.copying != Copying::FirstWordLast || lane >= LANES {
            return;
        }
        if lane == 0 {
            self.uar.store(1, pair[1], Ordering::Relaxed);
        } else {
            self.uar.store_pair(2 * lane as usize, pair);
        }
    }

    /// After the fence: this lane's part of the request.
    #[inline(always)]
    pub(crate) fn copy(&self, lane: u32, pair: [u64; 2]) {
        match self.copying {
            Copying::Whole if lane < LANES => self.uar.store_pair(2 * lane as usize, pair),
            Copying::FirstWordLast if lane == 0 => self.uar.store(0, pair[0], Ordering::Relaxed),
            _ => (),
        }
    }
}

impl Doorbell for &Bell {
    /// Copies are made by lanes, or not at all.
    #[inline(always)]
    fn copy(&mut self, _: &[u64; wqe::WORDS]) {}

    #[inline(always)]
    fn ring(&mut self, value: u64) {
        self.uar.store_register(0, value);
    }
}

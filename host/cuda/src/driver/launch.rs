//! The shape of a launch, and the arguments of a kernel.

use super::DeviceAddress;
use core::ffi::c_void;

/// Blocks, threads and shared memory of a launch.
///
/// ```
/// use ringcall_cuda::driver::Launch;
///
/// let launch = Launch::linear(8, 128).dynamic_shared(16 * 1024).cooperative();
/// assert_eq!(launch.grid, [8, 1, 1]);
/// assert_eq!(launch.threads_per_block(), 128);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// Blocks, along x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block, along x, y and z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory a block gets.
    pub dynamic_shared: u32,
    /// Whether all blocks must be resident at once, so that barriers across the grid work.
    pub cooperative: bool,
    /// Blocks of a cluster, along x, whose blocks reach each other's shared memory; 1 for none, and for kernels whose
    /// clusters are fixed in their code.
    pub cluster: u32,
}

impl Launch {
    /// `blocks` blocks of `threads` threads, all along x.
    #[must_use]
    pub fn linear(blocks: u32, threads: u32) -> Self {
        Self {
            grid: [blocks, 1, 1],
            block: [threads, 1, 1],
            dynamic_shared: 0,
            cooperative: false,
            cluster: 1,
        }
    }

    /// The same with `bytes` of dynamic shared memory for each block. Above 48 KiB the kernel must allow it first:
    /// [`Kernel::set_dynamic_shared`](super::Kernel::set_dynamic_shared).
    #[must_use]
    pub fn dynamic_shared(mut self, bytes: u32) -> Self {
        self.dynamic_shared = bytes;
        self
    }

    /// The same, with all blocks resident at once.
    #[must_use]
    pub fn cooperative(mut self) -> Self {
        self.cooperative = true;
        self
    }

    /// The same, in clusters of `blocks` blocks.
    #[must_use]
    pub fn cluster(mut self, blocks: u32) -> Self {
        self.cluster = blocks;
        self
    }

    /// Threads of one block.
    #[must_use]
    pub fn threads_per_block(&self) -> u64 {
        self.block.iter().map(|&side| u64::from(side)).product()
    }

    /// Why no kernel can be launched with this shape, if none can.
    pub(super) fn fault(&self) -> Option<String> {
        if self.grid.contains(&0) || self.block.contains(&0) {
            return Some(format!(
                "a launch of {:?} blocks of {:?} threads does nothing",
                self.grid, self.block
            ));
        }
        if self.cluster == 0 || !self.grid[0].is_multiple_of(self.cluster) {
            return Some(format!(
                "{} blocks along x are no whole clusters of {}",
                self.grid[0], self.cluster
            ));
        }
        None
    }
}

/// The arguments of a kernel, in order: values of 4 or 8 bytes, and structures. Whether their sizes are what the kernel
/// takes is checked against the kernel's own parameter list before a launch.
///
/// ```
/// use ringcall_cuda::driver::{DeviceAddress, KernelArgs};
///
/// let args = KernelArgs::new().address(DeviceAddress(0x1000)).u32(64).u64(5);
/// assert_eq!(args.sizes(), [8, 4, 8]);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelArgs {
    /// Each value from the first byte of its words, as the driver reads it.
    values: Vec<Box<[u64]>>,
    sizes: Vec<usize>,
}

impl KernelArgs {
    /// No arguments.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a 64-bit value.
    #[must_use]
    pub fn u64(self, value: u64) -> Self {
        self.bytes(&value.to_ne_bytes())
    }

    /// Appends a 32-bit value.
    #[must_use]
    pub fn u32(self, value: u32) -> Self {
        self.bytes(&value.to_ne_bytes())
    }

    /// Appends a structure that the kernel takes by value, of an alignment of at most 8.
    #[must_use]
    pub fn bytes(mut self, value: &[u8]) -> Self {
        let words = value.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(word)
        });
        self.values.push(words.collect());
        self.sizes.push(value.len());
        self
    }

    /// Appends a pointer.
    #[must_use]
    pub fn address(self, address: DeviceAddress) -> Self {
        self.u64(address.0)
    }

    /// The size of each argument, in bytes.
    #[must_use]
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// A pointer to each value. The driver only reads through them, and only while `self` is borrowed.
    pub(super) fn pointers(&self) -> Vec<*mut c_void> {
        self.values.iter().map(|value| value.as_ptr().cast_mut().cast()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_argument_lies_in_the_first_bytes_of_its_cell() {
        let args = KernelArgs::new().u32(0x0102_0304).u64(0x0506_0708_090A_0B0C);
        assert_eq!(args.values[0][0].to_ne_bytes()[..4], 0x0102_0304_u32.to_ne_bytes());
        assert_eq!(*args.values[1], [0x0506_0708_090A_0B0C]);
        let pointers = args.pointers();
        assert_eq!(pointers[0].addr(), args.values[0].as_ptr().addr());
        assert_eq!(pointers[1].addr(), args.values[1].as_ptr().addr());
    }

    #[test]
    fn an_empty_launch_is_a_fault() {
        assert!(Launch::linear(1, 1).fault().is_none());
        assert!(Launch::linear(0, 1).fault().is_some());
        assert!(Launch::linear(1, 0).fault().is_some());
        assert!(Launch::linear(8, 1).cluster(4).fault().is_none());
        assert!(Launch::linear(6, 1).cluster(4).fault().is_some());
        assert!(Launch::linear(6, 1).cluster(0).fault().is_some());
    }
}

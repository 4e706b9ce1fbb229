//! Entry points of the inference kernels.

use super::output::Counts;
use super::{Instance, Memory, input, output};
use core::sync::atomic::Ordering;
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::shared::Words;
use ringcall_gpu::team::Block;
use ringcall_wire::counter::Counter;
use ringcall_wire::handoff::{TENSOR_ALIGN, instance};
use ringcall_wire::launch::io;

/// Addresses of this device.
struct Device;

impl Memory for Device {
    #[inline(always)]
    fn words(&self, address: u64, words: usize) -> Option<Words> {
        // SAFETY: addresses in a mailbox or an instance's block are the host's or the dispatcher's, of memory that outlives
        // the graph and is only accessed atomically while it runs.
        unsafe { Words::from_raw(address as usize as *mut u64, words) }.ok()
    }
}

/// The mailbox as far as its payload, and the instance's block.
fn windows(mailbox: u64, block: u64) -> Option<(Words, Words)> {
    let head = Device.words(mailbox, io::PAYLOAD / 8)?;
    let pairs = (head.load(io::ARG_LEN, Ordering::Relaxed) as usize).div_ceil(TENSOR_ALIGN);
    Some((Device.words(mailbox, io::PAYLOAD / 8 + 2 * pairs)?, Device.words(block, instance::WORDS)?))
}

#[inline(always)]
fn input(mailbox: u64, block: u64) {
    if let Some((mailbox, block)) = windows(mailbox, block) {
        input::run(Block::current(), &mailbox, &Instance::new(&block), &Device);
    }
}

#[inline(always)]
fn output(mailbox: u64, block: u64) {
    let Some((mailbox, block)) = windows(mailbox, block) else { return };
    let (counters, finished) =
        (mailbox.load(io::COUNTERS, Ordering::Relaxed), mailbox.load(io::FINISHED, Ordering::Relaxed));
    // SAFETY: the host wrote the address of the children's counters into the mailbox: device memory, atomics only.
    let counters =
        unsafe { core::slice::from_raw_parts(counters as usize as *const DeviceU64, Counter::COUNT) };
    // SAFETY: as for the counters.
    let finished = unsafe { &*(finished as usize as *const DeviceU64) };
    let counts = Counts { finished, counters: Some(counters) };
    output::run(Block::current(), &mailbox, &Instance::new(&block), &Device, &counts);
}

/// The first kernel of an autonomous graph: one block of whole warps.
///
/// # Safety
/// `mailbox` is the launch's mailbox, with room for its payload up to a multiple of 16 bytes, and `block` is
/// the block of the instance that owns this graph.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn ringcall_gateway_input(mailbox: u64, block: u64) {
    input(mailbox, block);
}

/// The last kernel of an autonomous graph.
///
/// # Safety
/// As for [`ringcall_gateway_input`].
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn ringcall_gateway_output(mailbox: u64, block: u64) {
    output(mailbox, block);
}

/// The first kernel of a graph that hands over.
///
/// # Safety
/// As for [`ringcall_gateway_input`].
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn ringcall_predecoder_input(mailbox: u64, block: u64) {
    input(mailbox, block);
}

/// The last kernel of a graph that hands over.
///
/// # Safety
/// As for [`ringcall_gateway_input`].
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn ringcall_predecoder_output(mailbox: u64, block: u64) {
    output(mailbox, block);
}

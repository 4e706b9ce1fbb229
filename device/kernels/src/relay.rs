//! The two kernels around a dispatcher of a ring: from a NIC's queues into the ring, and from the ring to them.

use crate::queues;
use crate::setup::shared_base;
use crate::window::words;
use core::sync::atomic::Ordering;
use ringcall_dispatcher::queue_pair::{Bell, Copying};
use ringcall_dispatcher::relay::{Receiver, Sender};
use ringcall_gpu::ptx;
use ringcall_gpu::shared::{Bytes, Words};
use ringcall_gpu::staging::StagingBuffer;
use ringcall_gpu::team::Warp;
use ringcall_mlx5::layout::BLUE_FLAME_BYTES;
use ringcall_protocol::SharedRing;
use ringcall_protocol::ring::RingWindows;
use ringcall_wire::unified::{RelayParams, control, options};

/// The ring between the kernels.
///
/// # Safety
/// `params` as the host fills them for this launch: flags, slots and queues that outlive the kernel.
#[inline(always)]
unsafe fn ring(params: &RelayParams) -> Option<SharedRing> {
    let queues = &params.queues;
    let slots = queues.slots as usize;
    let bytes = |address: u64, stride: u32| {
        // SAFETY: the caller's promise.
        unsafe { Bytes::from_raw(address as usize as *mut u8, slots * stride as usize) }.ok()
    };
    let windows = RingWindows {
        // SAFETY: the caller's promise.
        rx_flags: unsafe { words(params.rx_flags, slots) }?,
        // SAFETY: the caller's promise.
        tx_flags: unsafe { words(params.tx_flags, slots) }?,
        rx_data: bytes(queues.rx_data, queues.rx_stride)?,
        tx_data: bytes(params.responses, queues.tx_stride)?,
    };
    SharedRing::new(queues.slots, queues.rx_stride, queues.tx_stride, windows, Some(queues.rx_data)).ok()
}

/// The end word of a kernel that could not begin.
#[inline(always)]
fn refuse(control: &Words) {
    if ptx::thread_id() == 0 {
        control.store(control::STATE, control::STATE_FAILED, Ordering::Release);
    }
}

/// From the completions of a queue pair into the ring.
///
/// # Safety
/// `params` as the host fills them for this launch: queues, a ring and a control block that outlive the kernel. One warp.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn ringcall_relay_receive(params: RelayParams) {
    let params = &params;
    // SAFETY: the caller's promise.
    let Some(control) = (unsafe { words(params.queues.control, control::WORDS) }) else { return };
    // SAFETY: the caller's promise.
    let ring = unsafe { ring(params) };
    // SAFETY: the caller's promise.
    let windows = unsafe { queues::windows(&params.queues) };
    let (Some(ring), Some(windows)) = (ring, windows) else { return refuse(&control) };
    let config = queues::config(&params.queues);
    let Ok(receiver) = Receiver::new(config, &windows, ring, queues::extent(&params.queues)) else {
        return refuse(&control);
    };
    let warp = Warp::current();
    let mut receiver = receiver.open(warp, &control);
    receiver.run(warp, || ());
    receiver.close(warp, &control);
}

/// From the ring to the send queue of a queue pair.
///
/// # Safety
/// As for [`ringcall_relay_receive`], with a staging buffer of `staging_bytes` in dynamic shared memory, or in device memory at `scratch`.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn ringcall_relay_send(params: RelayParams) {
    let params = &params;
    let queues = &params.queues;
    // SAFETY: the caller's promise.
    let Some(control) = (unsafe { words(queues.control, control::WORDS) }) else { return };
    if queues.scratch == 0 && ptx::dynamic_shared_bytes() < queues.staging_bytes {
        return refuse(&control);
    }
    let copying = match queues.options & (options::BLUE_FLAME | options::BLUE_FLAME_FIRST_WORD_LAST) {
        0 => Copying::Not,
        options::BLUE_FLAME => Copying::Whole,
        _ => Copying::FirstWordLast,
    };
    // SAFETY: the caller's promise.
    let uar = unsafe { words(queues.uar, BLUE_FLAME_BYTES / 8) };
    let bell = uar.and_then(|uar| Bell::new(uar, copying).ok());
    // SAFETY: the caller's promise.
    let ring = unsafe { ring(params) };
    // SAFETY: the caller's promise.
    let windows = unsafe { queues::windows(queues) };
    let (Some(bell), Some(ring), Some(windows)) = (bell, ring, windows) else { return refuse(&control) };
    let Ok(sender) = Sender::new(queues::config(queues), &windows, ring, bell) else {
        return refuse(&control);
    };
    let at = if queues.scratch == 0 { shared_base() } else { queues.scratch };
    // SAFETY: inside the shared memory that was asked for above, or the device memory that the host made room in; one warp.
    let staging = unsafe { StagingBuffer::from_raw(at, queues.staging_bytes as usize / 8) };
    let warp = Warp::current();
    let mut sender = sender.open(warp, &control);
    sender.run(warp, staging, || ());
    sender.close(warp, &control);
}

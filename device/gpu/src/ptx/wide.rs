//! 16-byte accesses: one instruction a lane, 512 bytes a warp, and across PCIe one round trip for all of them.
//!
//! Each 8-byte half is its own relaxed access; the halves have no order between them.

use core::arch::asm;
use core::sync::atomic::AtomicU8;

/// Loads 16 bytes that another agent may write: two relaxed system-scope loads in one instruction.
///
/// # Safety
/// `address` is 16-byte aligned and readable by the device.
#[must_use]
#[inline(always)]
pub unsafe fn load_peer(address: u64) -> [u64; 2] {
    let (a, b): (u64, u64);
    // SAFETY: the caller's promise; relaxed, so a concurrent writer is no race.
    unsafe {
        asm!("ld.relaxed.sys.global.v2.u64 {{{}, {}}}, [{}];", out(reg64) a, out(reg64) b, in(reg64) address,
             options(nostack));
    }
    [a, b]
}

/// Stores 16 bytes that another agent may read.
///
/// # Safety
/// `address` is 16-byte aligned and writable by the device.
#[inline(always)]
pub unsafe fn store_peer(address: u64, value: [u64; 2]) {
    // SAFETY: the caller's promise; relaxed, so a concurrent reader is no race.
    unsafe {
        asm!("st.relaxed.sys.global.v2.u64 [{}], {{{}, {}}};", in(reg64) address, in(reg64) value[0],
             in(reg64) value[1], options(nostack));
    }
}

/// Loads 16 bytes that only this block writes (shared memory or a scratch buffer).
///
/// # Safety
/// `address` is 16-byte aligned and readable, and no thread writes it at the same time.
#[must_use]
#[inline(always)]
pub unsafe fn load_own(address: u64) -> [u64; 2] {
    let (a, b): (u64, u64);
    // SAFETY: the caller's promise.
    unsafe {
        asm!("ld.v2.u64 {{{}, {}}}, [{}];", out(reg64) a, out(reg64) b, in(reg64) address, options(nostack));
    }
    [a, b]
}

/// Stores 16 bytes that only this block reads.
///
/// # Safety
/// `address` is 16-byte aligned and writable, and no thread accesses it at the same time.
#[inline(always)]
pub unsafe fn store_own(address: u64, value: [u64; 2]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("st.v2.u64 [{}], {{{}, {}}};", in(reg64) address, in(reg64) value[0], in(reg64) value[1],
             options(nostack));
    }
}

/// Loads up to 1 KiB with one burst: pairs `lane` and `lane + 32` of it, and in lane 0 the word at `word`,
/// unless that is 0: independent loads, all under way before the first is waited for, so that a warp pays for
/// one round trip. One assembly block, because nothing else keeps the compiler from waiting in between. A
/// word that is not loaded is 0.
///
/// # Safety
/// `address` is 16-byte aligned, and `pairs * 16` bytes from it, and the word, are readable by the device.
#[must_use]
#[inline(always)]
pub unsafe fn load_burst(address: u64, lane: u32, pairs: u32, word: u64) -> ([[u64; 2]; 2], u64) {
    let (a, b, c, d, w): (u64, u64, u64, u64, u64);
    let last = if word != 0 && lane == 0 { 1_u32 } else { 0 };
    // SAFETY: the caller's promise; relaxed, so a concurrent writer is no race. Lanes after the end load nothing.
    unsafe {
        asm!(
            "{{ .reg .pred p, q, r;",
            ".reg .b64 x, y;",
            ".reg .b32 l;",
            "add.u32 l, {lane}, 32;",
            "setp.lt.u32 p, {lane}, {pairs};",
            "setp.lt.u32 q, l, {pairs};",
            "setp.ne.u32 r, {last}, 0;",
            "mad.wide.u32 x, {lane}, 16, {address};",
            "add.u64 y, x, 512;",
            "mov.b64 {a}, 0; mov.b64 {b}, 0; mov.b64 {c}, 0; mov.b64 {d}, 0; mov.b64 {w}, 0;",
            "@p ld.relaxed.sys.global.v2.u64 {{{a}, {b}}}, [x];",
            "@q ld.relaxed.sys.global.v2.u64 {{{c}, {d}}}, [y];",
            "@r ld.relaxed.sys.global.u64 {w}, [{word}]; }}",
            lane = in(reg32) lane,
            pairs = in(reg32) pairs,
            last = in(reg32) last,
            address = in(reg64) address,
            word = in(reg64) word,
            a = out(reg64) a,
            b = out(reg64) b,
            c = out(reg64) c,
            d = out(reg64) d,
            w = out(reg64) w,
            options(nostack),
        );
    }
    ([[a, b], [c, d]], w)
}

/// Loads 16 bytes from each of two addresses of this lane's own, one after the other without a wait in between;
/// an address of 0 stands for none, and a word that is not loaded is 0. As [`load_peer`] otherwise.
///
/// # Safety
/// Each address is 0, or 16-byte aligned and readable by the device.
#[must_use]
#[inline(always)]
pub unsafe fn load_two(first: u64, second: u64) -> [[u64; 2]; 2] {
    let (a, b, c, d): (u64, u64, u64, u64);
    // SAFETY: the caller's promise; relaxed, so a concurrent writer is no race.
    unsafe {
        asm!(
            "{{ .reg .pred p, q;",
            "setp.ne.u64 p, {first}, 0;",
            "setp.ne.u64 q, {second}, 0;",
            "mov.b64 {a}, 0; mov.b64 {b}, 0; mov.b64 {c}, 0; mov.b64 {d}, 0;",
            "@p ld.relaxed.sys.global.v2.u64 {{{a}, {b}}}, [{first}];",
            "@q ld.relaxed.sys.global.v2.u64 {{{c}, {d}}}, [{second}]; }}",
            first = in(reg64) first,
            second = in(reg64) second,
            a = out(reg64) a,
            b = out(reg64) b,
            c = out(reg64) c,
            d = out(reg64) d,
            options(nostack),
        );
    }
    [[a, b], [c, d]]
}

/// Stores 8 bytes to a device's register: neither combined with other stores nor repeated (`st.mmio`, where the PTX version
/// has it).
///
/// # Safety
/// `address` is 8-byte aligned and writable by the device.
#[inline(always)]
pub unsafe fn store_register(address: u64, value: u64) {
    #[cfg(target_feature = "sm_90")]
    // SAFETY: the caller's promise.
    unsafe {
        asm!("st.mmio.relaxed.sys.global.u64 [{}], {};", in(reg64) address, in(reg64) value, options(nostack));
    }
    #[cfg(not(target_feature = "sm_90"))]
    // SAFETY: the caller's promise.
    unsafe {
        asm!("st.relaxed.sys.global.u64 [{}], {};", in(reg64) address, in(reg64) value, options(nostack));
    }
}

/// Stores 4 or 8 bytes at once where they are aligned; false where nothing was stored.
///
/// The address is a generic one: results may lie in shared or in global memory.
#[inline(always)]
pub(crate) fn store_word<const N: usize>(target: &[AtomicU8; N], value: [u8; N]) -> bool {
    let address = target.as_ptr();
    if !address.addr().is_multiple_of(N) {
        return false;
    }
    if N == 4
        && let Some(&value) = value.first_chunk::<4>()
    {
        // SAFETY: does what four relaxed atomic stores to the bytes of `target` would do; the address is aligned.
        unsafe {
            asm!("st.relaxed.sys.b32 [{address}], {value};", address = in(reg64) address,
                value = in(reg32) u32::from_le_bytes(value), options(nostack, preserves_flags));
        }
        return true;
    }
    if N == 8
        && let Some(&value) = value.first_chunk::<8>()
    {
        // SAFETY: does what eight relaxed atomic stores to the bytes of `target` would do; the address is aligned.
        unsafe {
            asm!("st.relaxed.sys.b64 [{address}], {value};", address = in(reg64) address,
                value = in(reg64) u64::from_le_bytes(value), options(nostack, preserves_flags));
        }
        return true;
    }
    false
}

//! Calling handlers through addresses, and what a handler is handed.

use core::ffi::c_void;
use core::mem::transmute;

/// A handler as a linked module has it: C's calling convention.
type Handler = unsafe extern "C" fn(*const c_void, *mut c_void, u32, u32, *mut u32) -> i32;

/// What a handler came back with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandlerReturn {
    /// 0, or the status to answer with.
    pub status: i32,
    /// Bytes of the result it says it wrote.
    pub len: u32,
}

/// Calls the handler at `address`.
///
/// # Safety
/// 1. `address` is the address of a function with this signature in the module that the caller runs in.
/// 2. `input` and `output` are addresses (generic) of `arg_len` readable and `max_result_len` writable bytes, 8-byte
///    aligned, that nothing else accesses meanwhile, the other threads of a warp or grid handler apart.
/// 3. All threads that the handler's kind asks for make this call converged.
#[inline(always)]
pub unsafe fn call(
    address: u64,
    input: u64,
    output: u64,
    arg_len: u32,
    max_result_len: u32,
) -> HandlerReturn {
    // SAFETY: condition 1.
    let handler: Handler = unsafe { transmute::<usize, Handler>(address as usize) };
    let mut len = 0;
    // SAFETY: conditions 2 and 3; `len` is this thread's own.
    let status = unsafe {
        handler(
            input as usize as *const c_void,
            output as usize as *mut c_void,
            arg_len,
            max_result_len,
            &raw mut len,
        )
    };
    HandlerReturn { status, len }
}

/// A handler's payload.
///
/// # Safety
/// `input` is 8-byte aligned, and `len` bytes from it are readable and not written while the slice lives.
#[must_use]
#[inline(always)]
pub unsafe fn payload<'a>(input: *const c_void, len: u32) -> &'a [u8] {
    // SAFETY: the caller's promise; the hint lets wide loads be used.
    unsafe { core::hint::assert_unchecked(input.addr().is_multiple_of(8)) };
    // SAFETY: the caller's promise.
    unsafe { core::slice::from_raw_parts(input.cast(), len as usize) }
}

/// A thread handler's result.
///
/// # Safety
/// `output` is 8-byte aligned, and `len` bytes from it are this thread's alone while the slice lives.
#[must_use]
#[inline(always)]
pub unsafe fn result_mut<'a>(output: *mut c_void, len: u32) -> &'a mut [u8] {
    // SAFETY: the caller's promise; the hint lets wide stores be used.
    unsafe { core::hint::assert_unchecked(output.addr().is_multiple_of(8)) };
    // SAFETY: the caller's promise.
    unsafe { core::slice::from_raw_parts_mut(output.cast(), len as usize) }
}

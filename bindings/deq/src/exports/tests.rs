//! What the functions say of a handle that another thread has, or that panicked.

use super::*;

/// One error on one detector.
fn handle() -> *mut c_void {
    let (probabilities, offsets, members) = ([0.1], [0, 1], [0]);
    let mut handle = core::ptr::null_mut();
    // SAFETY: lists of the lengths that are said.
    let status = unsafe {
        deq_decoder_create(
            1,
            1,
            probabilities.as_ptr(),
            offsets.as_ptr(),
            members.as_ptr(),
            1,
            core::ptr::null(),
            &raw mut handle,
        )
    };
    assert_eq!(status, STATUS_OK);
    handle
}

fn decode(handle: *mut c_void) -> (i32, usize) {
    let (syndrome, mut out, mut count) = ([0x80], [0], usize::MAX);
    // SAFETY: a live handle, lists of the lengths that are said.
    let status =
        unsafe { deq_decoder_decode(handle, 1, syndrome.as_ptr(), 1, out.as_mut_ptr(), 1, &raw mut count) };
    (status, count)
}

#[test]
fn a_handle_in_use_is_refused_and_a_poisoned_one_says_so() {
    let handle = handle();
    assert_eq!(decode(handle), (STATUS_OK, 1));
    // SAFETY: of `create`, and live until the end of the test.
    let inside = unsafe { &*handle.cast::<Handle>() };
    {
        let _busy = inside.lock().expect("not poisoned");
        assert_eq!(decode(handle).0, STATUS_INVALID_ARG);
    }
    assert_eq!(decode(handle), (STATUS_OK, 1));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _broken = inside.lock().expect("not poisoned");
        panic!("as a decoder's defect would");
    }));
    assert!(panicked.is_err());
    for _ in 0..2 {
        assert_eq!(decode(handle), (STATUS_POISONED, usize::MAX));
    }
    // SAFETY: live until now; `inside` is not used any more.
    unsafe { deq_decoder_destroy(handle) };
}

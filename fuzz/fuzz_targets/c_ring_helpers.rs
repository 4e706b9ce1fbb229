//! The C interface's ring helpers, on rings of any stride and pointers that may be missing: a status, and nothing written
//! outside of the slot.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use ringcall_c::layout::cudaq_ringbuffer_t;
use ringcall_c::{
    cudaq_host_ringbuffer_clear_slot, cudaq_host_ringbuffer_poll_tx_flag, cudaq_host_ringbuffer_signal_slot,
    cudaq_host_ringbuffer_slot_available, cudaq_host_ringbuffer_write_rpc_request,
};

const SLOTS: usize = 4;
const WORDS: usize = 32;

#[derive(Debug, Arbitrary)]
struct Case<'a> {
    missing: [bool; 3],
    skew: u8,
    stride: usize,
    slot: u8,
    flag: u64,
    payload: &'a [u8],
    claimed: Option<u32>,
}

fuzz_target!(|case: Case| {
    let mut flags = [[0_u64; SLOTS]; 2];
    flags[1] = [case.flag; SLOTS];
    let mut data = vec![0x55_u64; SLOTS * WORDS];
    let pick = |missing: bool, at: *mut u64| if missing { std::ptr::null_mut() } else { at };
    let rx_data = pick(case.missing[2], data.as_mut_ptr()).cast::<u8>();
    let skew = if rx_data.is_null() { 0 } else { usize::from(case.skew % 9) };
    // A stride that the memory holds, or one that is refused before anything is touched.
    let fits = case.stride <= WORDS * 8 - 8;
    if !fits && case.stride >= 24 && case.stride.is_multiple_of(8) && case.stride <= 1 << 31 {
        return;
    }
    let ring = cudaq_ringbuffer_t {
        rx_flags: std::ptr::null_mut(),
        tx_flags: std::ptr::null_mut(),
        rx_data: std::ptr::null_mut(),
        tx_data: std::ptr::null_mut(),
        rx_stride_sz: case.stride,
        tx_stride_sz: case.stride,
        rx_flags_host: pick(case.missing[0], flags[0].as_mut_ptr()),
        tx_flags_host: pick(case.missing[1], flags[1].as_mut_ptr()),
        rx_data_host: rx_data.wrapping_add(skew),
        tx_data_host: rx_data,
    };
    let slot = u32::from(case.slot) % SLOTS as u32;
    // More than there is would be read past the payload's end.
    let len =
        case.claimed.filter(|len| *len as usize <= case.payload.len()).unwrap_or(case.payload.len() as u32);
    let mut error = -1;
    // SAFETY: pointers are null, misaligned (and refused), or to memory that holds every slot of the stride.
    let (status, state, free) = unsafe {
        let payload = case.payload.as_ptr().cast();
        let status = cudaq_host_ringbuffer_write_rpc_request(&ring, slot, 7, payload, len, 1, 2);
        let state = cudaq_host_ringbuffer_poll_tx_flag(&ring, slot, &mut error);
        let free = cudaq_host_ringbuffer_slot_available(&ring, slot);
        cudaq_host_ringbuffer_signal_slot(&ring, slot);
        cudaq_host_ringbuffer_clear_slot(&ring, slot);
        (status, state, free)
    };
    assert!((0..=1).contains(&status) && (0..=3).contains(&state) && (0..=1).contains(&free));
    assert_eq!(error >= 0, state == 2);
    if status == 0 {
        assert!(len as usize + 24 <= case.stride && !rx_data.is_null() && skew.is_multiple_of(8));
    } else {
        assert!(data.iter().all(|word| *word == 0x55));
    }
});

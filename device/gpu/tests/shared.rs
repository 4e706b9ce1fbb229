//! Windows over shared memory: bounds, alignment, round trips, foreign memory.
#![cfg(not(loom))]
#![allow(unsafe_code)]
#![allow(clippy::disallowed_types)]

use core::sync::atomic::Ordering;
use ringcall_gpu::shared::{Bytes, Region, SharedError, Words};

#[test]
fn a_region_is_zero_page_aligned_and_rounded_up() {
    let region = Region::zeroed(5000).expect("memory");
    assert_eq!(region.len(), 8192);
    let words = region.words(0, 1024).expect("inside");
    assert_eq!(words.address() % 4096, 0);
    assert!((0..1024).all(|i| words.load(i, Ordering::Relaxed) == 0));
}

#[test]
fn windows_are_refused_past_the_end_and_off_alignment() {
    let region = Region::zeroed(4096).expect("memory");
    assert!(region.words(0, 512).is_ok());
    assert_eq!(region.words(8, 512).unwrap_err(), SharedError::OutOfBounds { end: 4104, len: 4096 });
    assert_eq!(region.words(4, 1).unwrap_err(), SharedError::Misaligned { value: 4 });
    assert_eq!(region.bytes(0, 12).unwrap_err(), SharedError::Misaligned { value: 12 });
    assert!(matches!(region.words(0, usize::MAX), Err(SharedError::OutOfBounds { .. })));
    assert!(matches!(region.words(usize::MAX - 7, 2), Err(SharedError::OutOfBounds { .. })));
    let bytes = region.bytes(0, 64).expect("inside");
    assert!(bytes.slice(8, 56).is_ok());
    assert!(bytes.slice(8, 64).is_err());
    assert!(bytes.slice(usize::MAX - 7, 16).is_err());
    assert!(Region::zeroed(usize::MAX).is_err());
}

#[test]
fn bytes_round_trip_at_every_length_and_touch_nothing_else() {
    let region = Region::zeroed(4096).expect("memory");
    let bytes = region.bytes(0, 256).expect("inside");
    for len in 0..=64_usize {
        let data: Vec<u8> = (0..len).map(|i| (i * 7 + len) as u8 | 1).collect();
        assert!(bytes.write(0, &[0xAA; 256]));
        assert!(bytes.write(16, &data));
        let mut all = [0; 256];
        assert!(bytes.read(0, &mut all));
        assert_eq!(&all[16..16 + len], &data[..]);
        assert!(all[..16].iter().all(|&b| b == 0xAA));
        assert!(all[16 + len..].iter().all(|&b| b == 0xAA), "length {len}");
        // Into private memory at any alignment, and nothing around it.
        let mut copy = vec![0xBB; len + 19];
        assert!(bytes.read(16, &mut copy[3..3 + len]));
        assert_eq!(&copy[3..3 + len], &data[..]);
        assert!(copy[..3].iter().chain(&copy[3 + len..]).all(|&b| b == 0xBB), "length {len}");
    }
    assert!(!bytes.write(256, &[1]));
    assert!(!bytes.write(8, &[1; 249]));
    assert!(!bytes.read(248, &mut [0; 9]));
    assert!(bytes.read_words::<3>(240).is_none());
    assert!(bytes.write_words(232, [1, 2, 3]));
    assert_eq!(bytes.read_words(232), Some([1, 2, 3]));
}

#[test]
fn a_clone_keeps_the_region_alive() {
    let bytes = Region::zeroed(64).and_then(|region| region.bytes(0, 64)).expect("memory");
    let window = bytes.slice(8, 8).expect("inside");
    drop(bytes);
    assert!(window.write(0, &[9; 8]));
    assert_eq!(window.read_words(0), Some([0x0909_0909_0909_0909]));
}

#[test]
fn foreign_memory_is_checked_for_null_and_alignment() {
    let mut memory = vec![0_u64; 16];
    let base = memory.as_mut_ptr();
    // SAFETY: null is refused before any access.
    assert_eq!(unsafe { Words::from_raw(core::ptr::null_mut(), 1) }.unwrap_err(), SharedError::Null);
    // SAFETY: the vector outlives the windows and is not touched while they live.
    let words = unsafe { Words::from_raw(base, 16) }.expect("aligned");
    words.store(1, 0x0102, Ordering::Release);
    // SAFETY: as above.
    let bytes = unsafe { Bytes::from_raw(base.cast(), 128) }.expect("aligned");
    let mut two = [0; 2];
    assert!(bytes.read(8, &mut two));
    assert_eq!(two, 0x0102_u16.to_le_bytes());
    // SAFETY: misaligned by one, refused before any access.
    assert!(unsafe { Bytes::from_raw(base.cast::<u8>().wrapping_add(1), 64) }.is_err());
    // SAFETY: an odd length, refused before any access.
    assert!(unsafe { Bytes::from_raw(base.cast(), 63) }.is_err());
}

#[test]
fn groups_read_zero_past_the_end() {
    let region = Region::zeroed(4096).expect("memory");
    let words = region.words(0, 11).expect("inside");
    for i in 0..11 {
        words.store(i, i as u64 + 1, Ordering::Relaxed);
    }
    assert_eq!(words.load_group(0), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(words.load_group(1), [9, 10, 11, 0, 0, 0, 0, 0]);
    assert_eq!(words.load_group(2), [0; 8]);
}

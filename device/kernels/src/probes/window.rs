//! Windows over memory: accesses of more than one word.
//!
//! Which access a window takes depends on where it lies and how long it is. The probes fix both, so that one path remains.

use core::sync::atomic::Ordering::{Acquire, Release};
use ringcall_gpu::ptx::{trap, wide};
use ringcall_gpu::shared::{Bytes, Words};
use ringcall_gpu::staging::StagingBuffer;
use ringcall_gpu::team::{self, OutBytes};

/// Words of every window here: what one burst loads.
const WORDS: usize = 128;

/// Words that a probe returns, in order.
#[repr(C)]
struct Returned<const N: usize>([u64; N]);

/// A window of [`WORDS`] words on a 16-byte boundary. Of its checks, the one for the end of memory stays: a branch to a trap.
#[inline(always)]
fn words(base: *mut u64) -> Words {
    aligned(base.addr());
    // SAFETY: a probe is never called.
    unsafe { Words::from_raw(base, WORDS) }.unwrap_or_else(|_| trap())
}

/// As [`words`].
#[inline(always)]
fn bytes(base: *mut u64) -> Bytes {
    aligned(base.addr());
    // SAFETY: a probe is never called.
    unsafe { Bytes::from_raw(base.cast(), WORDS * 8) }.unwrap_or_else(|_| trap())
}

#[inline(always)]
fn staging<'a>(base: u64) -> StagingBuffer<'a> {
    // SAFETY: a probe is never called.
    unsafe { StagingBuffer::from_raw(base, WORDS) }
}

#[inline(always)]
fn result<'a>(base: *mut u8) -> OutBytes<'a> {
    aligned(base.addr());
    // SAFETY: a probe is never called.
    unsafe { team::result_out(base.cast(), 64) }
}

/// Lets the compiler know that the address is one of a window whose even words are pairs.
#[inline(always)]
fn aligned(address: usize) {
    // SAFETY: a probe is never called.
    unsafe { core::hint::assert_unchecked(address != 0) };
    // SAFETY: a probe is never called.
    unsafe { core::hint::assert_unchecked(address.is_multiple_of(16)) };
}

/// The two pairs of a burst, and the word beside them.
#[inline(always)]
fn burst(([[a, b], [c, d]], word): ([[u64; 2]; 2], u64)) -> Returned<5> {
    Returned([a, b, c, d, word])
}

probe!(["words_load"] (base: *mut u64) -> u64 { words(base).load(3, Acquire) });
probe!(["words_store"] (base: *mut u64, value: u64) { words(base).store(3, value, Release) });
probe!(["words_load_group"] (base: *mut u64) -> Returned<8> { Returned(words(base).load_group(1)) });
probe!(["words_load_pair"] (base: *mut u64) -> Returned<2> { Returned(words(base).load_pair(2)) });
probe!(["words_store_pair"] (base: *mut u64, first: u64, second: u64) {
    words(base).store_pair(2, [first, second]);
});
// Between two 16-byte boundaries a pair is two words.
probe!(["words_load_pair_between"] (base: *mut u64) -> Returned<2> { Returned(words(base).load_pair(1)) });
probe!(["words_store_pair_between"] (base: *mut u64, first: u64, second: u64) {
    words(base).store_pair(1, [first, second]);
});
probe!(["words_load_burst"] (base: *mut u64, lane: u32, flags: *mut u64) -> Returned<5> {
    burst(words(base).load_burst(0, [lane, 32], 64, Some((&words(flags), 3))))
});

probe!(["bytes_read_words"] (base: *mut u64) -> Returned<2> {
    Returned(bytes(base).read_words::<2>(8).unwrap_or_default())
});
probe!(["bytes_write_words"] (base: *mut u64, first: u64, second: u64) {
    bytes(base).write_words(8, [first, second]);
});

probe!(["wide_load_peer"] (address: u64) -> Returned<2> {
    // SAFETY: a probe is never called.
    Returned(unsafe { wide::load_peer(address) })
});
probe!(["wide_store_peer"] (address: u64, first: u64, second: u64) {
    // SAFETY: a probe is never called.
    unsafe { wide::store_peer(address, [first, second]) }
});
probe!(["wide_load_own"] (address: u64) -> Returned<2> {
    // SAFETY: a probe is never called.
    Returned(unsafe { wide::load_own(address) })
});
probe!(["wide_store_own"] (address: u64, first: u64, second: u64) {
    // SAFETY: a probe is never called.
    unsafe { wide::store_own(address, [first, second]) }
});
probe!(["wide_load_burst"] (address: u64, lane: u32, pairs: u32, word: u64) -> Returned<5> {
    // SAFETY: a probe is never called.
    burst(unsafe { wide::load_burst(address, lane, pairs, word) })
});

probe!(["wide_load_two"] (first: u64, second: u64) -> Returned<4> {
    // SAFETY: a probe is never called.
    let [[a, b], [c, d]] = unsafe { wide::load_two(first, second) };
    Returned([a, b, c, d])
});
probe!(["wide_store_register"] (address: u64, value: u64) {
    // SAFETY: a probe is never called.
    unsafe { wide::store_register(address, value) }
});

probe!(["stage_word"] (base: u64) -> u64 { staging(base).word(3) });
probe!(["stage_set_word"] (base: u64, value: u64) { staging(base).set_word(3, value) });
probe!(["stage_pair"] (base: u64) -> Returned<2> { Returned(staging(base).pair(1)) });
probe!(["stage_set_pair"] (base: u64, first: u64, second: u64) { staging(base).set_pair(1, [first, second]) });

probe!(["result_store_1"] (base: *mut u8, value: u8) { result(base).store(3, [value]); });
probe!(["result_store_4"] (base: *mut u8, value: u32) { result(base).store(4, value.to_le_bytes()); });
probe!(["result_store_8"] (base: *mut u8, value: u64) { result(base).store(8, value.to_le_bytes()); });

//! Tags of frames: eight bytes after a request or a response, by which a peer that has the key knows its author.
//!
//! | offset | |
//! |---|---|
//! | 0 | the header, 24 bytes |
//! | 24 | the payload, as many bytes as the header's third word says (`arg_len`, `result_len`) |
//! | 24 + payload | the tag, `u64`, by a key of 16 bytes |
//! | 32 + payload | padding, which no tag covers and no peer reads |
//!
//! The header and its magic are under the hash: a request cannot be given back as its response, nor under another number or time.
//! Both sides agree on the key and on the [version](VERSION) of this layout beforehand, outside of the wire; a service
//! says the version (`tag=2`) where it says its address, and never the key.
//!
//! A tag says who wrote a frame, not when: a frame that was recorded is right as long as its key is in use. A key for each
//! run keeps frames of earlier runs out. Nothing is encrypted.
//!
//! # The hash
//! Of a payload of at most 32 bytes: SipHash-2-4 of header and payload.
//!
//! Of a longer one: SipHash-2-4, without the word that ends it, of the three words of the header and, for each 1,024 bytes of
//! the payload, of the two words of their sum, low word first. The sum is NH's, modulo 2^128: each 16 bytes of the payload are
//! two words, to each of which a word of a table is added modulo 2^64, and the product of both is added to the sum. Payloads are
//! summed in pieces of 32 bytes; what is left at their end is the last 32 bytes, once more. Word `i` of the table, of 128, is
//! SipHash-2-4 of `i` as eight bytes.
//!
//! Two payloads under one header have the same sums with a probability of at most 2^-64 (Black, Halevi, Krawczyk, Krovetz,
//! Rogaway: "UMAC: fast and secure message authentication", 1999); the header, with its number and its time, goes into SipHash
//! itself, so sums are never compared across headers. It says how many words follow, as SipHash's last word would.
//! Record 0029 has what each hash costs.
//!
//! SipHash by Aumasson and Bernstein ("SipHash: a fast short-input PRF", 2012), whose test vectors are this module's.

use crate::header::HEADER_BYTES;
use core::fmt;
use core::str::FromStr;

/// Bytes of a tag.
pub const TAG_BYTES: usize = 8;
/// The version of the layout above.
pub const VERSION: u8 = 2;
/// Payloads up to here go into SipHash themselves.
const SHORT_BYTES: usize = 32;
/// Words of the payload that are added to the sum together.
const PIECE: usize = 4;
/// Words of the table: those of 1,024 bytes.
const TABLE_WORDS: usize = 128;

/// A key that frames are tagged with.
///
/// ```
/// use ringcall_wire::tag::{FrameKey, TAG_BYTES};
/// use ringcall_wire::{HEADER_BYTES, RequestHeader};
///
/// let key: FrameKey = "000102030405060708090a0b0c0d0e0f".parse()?;
/// let mut frame = [0; HEADER_BYTES + 4 + TAG_BYTES];
/// frame[..HEADER_BYTES].copy_from_slice(&RequestHeader::new(1, 4, 2, 3).to_bytes());
/// assert_eq!(key.seal(&mut frame, HEADER_BYTES + 4), Some(frame.len()));
/// assert_eq!(key.open(&frame), Some(&frame[..HEADER_BYTES + 4]));
/// frame[HEADER_BYTES] ^= 1;
/// assert_eq!(key.open(&frame), None);
/// # Ok::<(), ringcall_wire::tag::NoKey>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FrameKey {
    k0: u64,
    k1: u64,
    /// What words of long payloads are added to: it follows from the key.
    table: [[u64; PIECE]; TABLE_WORDS / PIECE],
}

impl FrameKey {
    /// Bytes of a key.
    pub const BYTES: usize = 16;

    /// The key of these bytes, which should be random.
    #[must_use]
    pub fn new(bytes: [u8; Self::BYTES]) -> Self {
        let joined = u128::from_le_bytes(bytes);
        let (k0, k1) = (joined as u64, (joined >> 64) as u64);
        let mut table = [[0; PIECE]; TABLE_WORDS / PIECE];
        for (word, index) in table.as_flattened_mut().iter_mut().zip(0_u64..) {
            *word = State::new(k0, k1).finish_bytes(&index.to_le_bytes(), 0);
        }
        Self { k0, k1, table }
    }

    /// The tag of a header and its payload, whose length the header says: one header has one way to be hashed.
    #[inline]
    fn tag(&self, header: &[u8; HEADER_BYTES], payload: &[u8]) -> u64 {
        let mut state = State::new(self.k0, self.k1);
        for word in header.as_chunks::<8>().0 {
            state.absorb(u64::from_le_bytes(*word));
        }
        let Some(end) = payload.last_chunk().filter(|_| payload.len() > SHORT_BYTES) else {
            return state.finish_bytes(payload, HEADER_BYTES);
        };
        for block in payload.chunks(8 * TABLE_WORDS) {
            let (pieces, rest) = block.as_chunks::<{ 8 * PIECE }>();
            let rest = (!rest.is_empty()).then_some(end);
            // Four sums, so that no addition waits for another.
            let (mut first, mut second) = ([0; 2], [0; 2]);
            let (pairs, last) = pieces.as_chunks::<2>();
            let (added, _) = self.table.as_chunks::<2>();
            for ([one, two], [to_one, to_two]) in pairs.iter().zip(added) {
                add_products(&mut first, one, to_one);
                add_products(&mut second, two, to_two);
            }
            for (piece, added) in last.iter().chain(rest).zip(self.table.iter().skip(2 * pairs.len())) {
                add_products(&mut first, piece, added);
            }
            let sum = first.into_iter().chain(second).fold(0, u128::wrapping_add);
            state.absorb(sum as u64);
            state.absorb((sum >> 64) as u64);
        }
        state.finish()
    }

    /// Writes the tag behind the payload of the frame in the first `frame_bytes` bytes, over padding. The frame's new length; `None`
    /// where there is no room, or no frame.
    #[inline]
    pub fn seal(&self, buffer: &mut [u8], frame_bytes: usize) -> Option<usize> {
        let end = covered(buffer.get(..frame_bytes)?)?;
        let (frame, behind) = buffer.split_at_mut_checked(end)?;
        let (header, payload) = frame.split_first_chunk()?;
        *behind.first_chunk_mut()? = self.tag(header, payload).to_le_bytes();
        Some(frame_bytes.max(end + TAG_BYTES))
    }

    /// Header and payload of a frame whose tag is right, without tag and padding.
    #[must_use]
    #[inline]
    pub fn open<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let (frame, behind) = bytes.split_at_checked(covered(bytes)?)?;
        let tag = u64::from_le_bytes(*behind.first_chunk()?);
        let (header, payload) = frame.split_first_chunk()?;
        // One comparison of two words: it takes as long for every wrong tag.
        (self.tag(header, payload) == tag).then_some(frame)
    }
}

/// Adds the two products of a piece to two sums, one each.
#[inline(always)]
fn add_products([even, odd]: &mut [u128; 2], piece: &[u8; 8 * PIECE], &[a, b, c, d]: &[u64; PIECE]) {
    let ([one, two, three, four], _) = piece.as_chunks::<8>() else { return };
    let product = |x: &[u8; 8], a: u64, y: &[u8; 8], b: u64| {
        let (x, y) = (u64::from_le_bytes(*x).wrapping_add(a), u64::from_le_bytes(*y).wrapping_add(b));
        u128::from(x) * u128::from(y)
    };
    *even = even.wrapping_add(product(one, a, two, b));
    *odd = odd.wrapping_add(product(three, c, four, d));
}

/// Where the payload ends, by the header; `None` without a header.
fn covered(bytes: &[u8]) -> Option<usize> {
    let header: &[u8; HEADER_BYTES] = bytes.first_chunk()?;
    let payload = header.get(8..)?.first_chunk()?;
    HEADER_BYTES.checked_add(u32::from_le_bytes(*payload) as usize)
}

impl fmt::Debug for FrameKey {
    /// Without the key, since other users read logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameKey").finish_non_exhaustive()
    }
}

/// A text that is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoKey;

impl fmt::Display for NoKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key has 16 bytes: 32 hexadecimal digits")
    }
}

impl core::error::Error for NoKey {}

impl FromStr for FrameKey {
    type Err = NoKey;

    /// Of 32 hexadecimal digits, a byte each two.
    fn from_str(text: &str) -> Result<Self, NoKey> {
        let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return Err(NoKey) };
        if pairs.len() != Self::BYTES {
            return Err(NoKey);
        }
        let mut bytes = [0; Self::BYTES];
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Ok(Self::new(bytes))
    }
}

fn digit(byte: u8) -> Result<u8, NoKey> {
    char::from(byte).to_digit(16).map(|digit| digit as u8).ok_or(NoKey)
}

/// The four words of SipHash.
struct State {
    v0: u64,
    v1: u64,
    v2: u64,
    v3: u64,
}

impl State {
    #[inline(always)]
    const fn new(k0: u64, k1: u64) -> Self {
        // "somepseudorandomlygeneratedbytes".
        Self {
            v0: k0 ^ 0x736f_6d65_7073_6575,
            v1: k1 ^ 0x646f_7261_6e64_6f6d,
            v2: k0 ^ 0x6c79_6765_6e65_7261,
            v3: k1 ^ 0x7465_6462_7974_6573,
        }
    }

    #[inline(always)]
    const fn round(&mut self) {
        self.v0 = self.v0.wrapping_add(self.v1);
        self.v2 = self.v2.wrapping_add(self.v3);
        self.v1 = self.v1.rotate_left(13) ^ self.v0;
        self.v3 = self.v3.rotate_left(16) ^ self.v2;
        self.v0 = self.v0.rotate_left(32);
        self.v2 = self.v2.wrapping_add(self.v1);
        self.v0 = self.v0.wrapping_add(self.v3);
        self.v1 = self.v1.rotate_left(17) ^ self.v2;
        self.v3 = self.v3.rotate_left(21) ^ self.v0;
        self.v2 = self.v2.rotate_left(32);
    }

    #[inline(always)]
    const fn absorb(&mut self, word: u64) {
        self.v3 ^= word;
        self.round();
        self.round();
        self.v0 ^= word;
    }

    /// The rest of the bytes, of which so many went before, and the end.
    #[inline(always)]
    fn finish_bytes(mut self, bytes: &[u8], before: usize) -> u64 {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.absorb(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        for (to, from) in last.iter_mut().zip(rest) {
            *to = *from;
        }
        self.absorb(u64::from_le_bytes(last) | ((before + bytes.len()) as u64) << 56);
        self.finish()
    }

    #[inline(always)]
    const fn finish(mut self) -> u64 {
        self.v2 ^= 0xff;
        self.round();
        self.round();
        self.round();
        self.round();
        self.v0 ^ self.v1 ^ self.v2 ^ self.v3
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::unwrap_used)] // a test that panics has failed
mod tests {
    extern crate std;

    use super::*;
    use crate::header::{RequestHeader, ResponseHeader};
    use proptest::prelude::*;
    use std::string::String;
    use std::vec::Vec;
    use std::{format, vec};

    /// Key 00 01 .. 0f, input 00 01 .. of 0, 1, 2, ... 63 bytes: the reference's `vectors_sip64`.
    const REFERENCE: [u64; 64] = [
        0x726f_db47_dd0e_0e31,
        0x74f8_39c5_93dc_67fd,
        0x0d6c_8009_d9a9_4f5a,
        0x8567_6696_d7fb_7e2d,
        0xcf27_94e0_2771_87b7,
        0x1876_5564_cd99_a68d,
        0xcbc9_466e_58fe_e3ce,
        0xab02_00f5_8b01_d137,
        0x93f5_f579_9a93_2462,
        0x9e00_82df_0ba9_e4b0,
        0x7a5d_bbc5_94dd_b9f3,
        0xf4b3_2f46_226b_ada7,
        0x751e_8fbc_860e_e5fb,
        0x14ea_5627_c084_3d90,
        0xf723_ca90_8e7a_f2ee,
        0xa129_ca61_49be_45e5,
        0x3f2a_cc7f_57c2_9bdb,
        0x699a_e9f5_2cbe_4794,
        0x4bc1_b3f0_968d_d39c,
        0xbb6d_c91d_a779_61bd,
        0xbed6_5cf2_1aa2_ee98,
        0xd0f2_cbb0_2e3b_67c7,
        0x9353_6795_e3a3_3e88,
        0xa80c_038c_cd5c_cec8,
        0xb8ad_50c6_f649_af94,
        0xbce1_92de_8a85_b8ea,
        0x17d8_35b8_5bbb_15f3,
        0x2f2e_6163_076b_cfad,
        0xde4d_aaac_a71d_c9a5,
        0xa6a2_5066_8795_6571,
        0xad87_a353_5c49_ef28,
        0x32d8_92fa_d841_c342,
        0x7127_512f_72f2_7cce,
        0xa7f3_2346_f959_78e3,
        0x12e0_b01a_bb05_1238,
        0x15e0_34d4_0fa1_97ae,
        0x314d_ffbe_0815_a3b4,
        0x0279_90f0_2962_3981,
        0xcadc_d4e5_9ef4_0c4d,
        0x9abf_d876_6a33_735c,
        0x0e3e_a96b_5304_a7d0,
        0xad0c_42d6_fc58_5992,
        0x1873_06c8_9bc2_15a9,
        0xd4a6_0abc_f379_2b95,
        0xf935_451d_e4f2_1df2,
        0xa953_8f04_1975_5787,
        0xdb9a_cddf_f56c_a510,
        0xd06c_98cd_5c09_75eb,
        0xe612_a3cb_9ecb_a951,
        0xc766_e62c_fcad_af96,
        0xee64_435a_9752_fe72,
        0xa192_d576_b245_165a,
        0x0a87_87bf_8ecb_74b2,
        0x81b3_e73d_20b4_9b6f,
        0x7fa8_220b_a3b2_ecea,
        0x2457_31c1_3ca4_2499,
        0xb78d_bfaf_3a8d_83bd,
        0xea1a_d565_322a_1a0b,
        0x60e6_1c23_a379_5013,
        0x6606_d7e4_4628_2b93,
        0x6ca4_ecb1_5c5f_91e1,
        0x9f62_6da1_5c96_25f3,
        0xe51b_3860_8ef2_5f57,
        0x958a_324c_eb06_4572,
    ];

    fn key() -> FrameKey {
        FrameKey::new(core::array::from_fn(|i| i as u8))
    }

    #[test]
    fn siphash_is_the_references() {
        let input: [u8; 64] = core::array::from_fn(|i| i as u8);
        for (bytes, expected) in REFERENCE.into_iter().enumerate() {
            let FrameKey { k0, k1, .. } = key();
            assert_eq!(State::new(k0, k1).finish_bytes(&input[..bytes], 0), expected, "{bytes} bytes");
            if let Some((header, payload)) = input[..bytes].split_first_chunk()
                && payload.len() <= SHORT_BYTES
            {
                assert_eq!(key().tag(header, payload), expected, "{bytes} bytes");
            }
        }
    }

    /// The hash as the module describes it, word by word.
    fn described(key: &FrameKey, header: &[u8], payload: &[u8]) -> u64 {
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
        let table: Vec<u64> = key.table.as_flattened().to_vec();
        let mut words: Vec<u64> = header.chunks(8).map(word).collect();
        for block in payload.chunks(1024) {
            let mut bytes = block[..block.len() / 32 * 32].to_vec();
            if bytes.len() < block.len() {
                bytes.extend_from_slice(&payload[payload.len() - 32..]);
            }
            let mut sum = 0_u128;
            for (i, pair) in bytes.chunks(16).enumerate() {
                let at = |half: usize| word(&pair[8 * half..8 * half + 8]).wrapping_add(table[2 * i + half]);
                sum = sum.wrapping_add(u128::from(at(0)) * u128::from(at(1)));
            }
            words.extend([sum as u64, (sum >> 64) as u64]);
        }
        let mut state = State::new(key.k0, key.k1);
        words.into_iter().for_each(|word| state.absorb(word));
        state.finish()
    }

    #[test]
    fn every_bit_of_a_long_payload_counts() {
        for bytes in [33, 63, 64, 65, 1023, 1024, 1025, 1056, 2100] {
            let header = RequestHeader::new(7, bytes as u32, 8, 9).to_bytes();
            let mut payload: Vec<u8> = (0..bytes).map(|i: usize| (i * 37) as u8).collect();
            let tag = key().tag(&header, &payload);
            assert_eq!(tag, described(&key(), &header, &payload), "{bytes} bytes");
            for bit in 0..8 * bytes {
                payload[bit / 8] ^= 1 << (bit % 8);
                assert_ne!(key().tag(&header, &payload), tag, "bit {bit} of {bytes} bytes");
                payload[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    /// Tags that a program in another language made from the description above: key and header count from 0, byte `i` of a payload is 37 `i`.
    #[test]
    fn long_payloads_have_the_tags_of_another_implementation() {
        let header = core::array::from_fn(|i| i as u8);
        for (bytes, expected) in [
            (33, 0xf9c0_31d4_b5e6_3ef4),
            (64, 0xb9a6_393a_c6cd_8f8b),
            (1024, 0x114c_15f9_e1e8_02bf),
            (1025, 0xa979_28a4_c598_bb6c),
            (1448, 0x8007_1993_a5c4_4e67),
        ] {
            let payload: Vec<u8> = (0..bytes).map(|i: usize| (i * 37) as u8).collect();
            assert_eq!(key().tag(&header, &payload), expected, "{bytes} bytes");
        }
    }

    #[test]
    fn a_key_is_read_as_it_is_written_and_never_shown() {
        assert_eq!("000102030405060708090A0b0c0d0e0f".parse(), Ok(key()));
        for text in ["", "00", "000102030405060708090a0b0c0d0e0g", "000102030405060708090a0b0c0d0e0f0", "0é"]
        {
            assert_eq!(text.parse::<FrameKey>(), Err(NoKey), "{text}");
        }
        assert_eq!(format!("{:?}", key()), "FrameKey { .. }");
    }

    #[test]
    fn a_request_is_not_its_own_response() {
        let request = RequestHeader::new(1, 0, 2, 3);
        let mut sealed = [0; HEADER_BYTES + TAG_BYTES];
        sealed[..HEADER_BYTES].copy_from_slice(&request.to_bytes());
        key().seal(&mut sealed, HEADER_BYTES).unwrap();
        sealed[..4].copy_from_slice(&ResponseHeader::reply(&request, 0, 0).to_bytes()[..4]);
        assert_eq!(key().open(&sealed), None);
    }

    proptest! {
        #[test]
        fn what_is_sealed_opens_and_one_other_bit_does_not(payload in proptest::collection::vec(any::<u8>(), 0..160),
            padding in 0_usize..20, bit in any::<prop::sample::Index>()) {
            let mut frame = RequestHeader::new(7, payload.len() as u32, 8, 9).to_bytes().to_vec();
            frame.extend_from_slice(&payload);
            let (covered, padded) = (frame.len(), frame.len() + padding);
            let mut buffer = frame.clone();
            buffer.resize(padded + TAG_BYTES, 0x55);
            let sealed = key().seal(&mut buffer, padded).unwrap();
            prop_assert_eq!(sealed, padded.max(covered + TAG_BYTES));
            prop_assert_eq!(key().open(&buffer[..sealed]), Some(&frame[..]));
            let bit = bit.index((covered + TAG_BYTES) * 8);
            buffer[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(key().open(&buffer[..sealed]), None);
            prop_assert_eq!(FrameKey::new([1; 16]).open(&frame), None);
        }

        #[test]
        fn nothing_panics(bytes in proptest::collection::vec(any::<u8>(), 0..60), len in 0_usize..80, text in ".*") {
            let _ = key().open(&bytes);
            let _ = key().seal(&mut vec![1; len], bytes.len());
            let _ = key().seal(&mut bytes.clone(), bytes.len());
            let _ = String::from(&text).parse::<FrameKey>();
        }
    }
}

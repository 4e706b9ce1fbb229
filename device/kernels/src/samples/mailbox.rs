//! A mailbox as a warp reads it: its head and a short payload in one burst of loads.
//!
//! Mailboxes of graphs that the host launches lie in host memory, where a load takes a device about a microsecond, and one
//! that waits for another as long again, as does one of a sector that another load is on its way for. So each lane loads one
//! word, all of them in one instruction, and lanes ask each other.

use core::sync::atomic::Ordering;
use ringcall_dispatcher::ring::graph_end::{ResponseWindows, count};
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::shared::Words;
use ringcall_gpu::team::Warp;
use ringcall_wire::counter::Counter;
use ringcall_wire::header::{HEADER_WORDS, RequestHeader, ResponseHeader};
use ringcall_wire::launch::io;
use ringcall_wire::status::Status;

/// Words of one burst. No mailbox is shorter
/// ([`mailbox_bytes`](ringcall_dispatcher::ring::graph_end::mailbox_bytes)).
pub const BURST: usize = 32;
/// Words before the payload.
pub const HEAD: usize = io::PAYLOAD / 8;
/// Payload words that the burst brings.
pub const BESIDE: usize = BURST - HEAD;

/// One launch's mailbox, a word a lane.
#[derive(Clone, Copy, Debug)]
pub struct Burst<'a> {
    warp: Warp<'a>,
    word: u64,
}

impl<'a> Burst<'a> {
    /// Reads it, by all 32 lanes of a warp. `mailbox` has [`BURST`] words at least; what lies after it reads 0.
    #[must_use]
    #[inline(always)]
    pub fn read(warp: Warp<'a>, mailbox: &Words) -> Self {
        let word = mailbox.get(warp.lane() as usize).map_or(0, |word| word.load(Ordering::Relaxed));
        Self { warp, word }
    }

    /// Word `index` of the head, by all lanes.
    #[must_use]
    #[inline(always)]
    pub fn word(&self, index: usize) -> u64 {
        self.warp.shuffle_u64(self.word, index as u32)
    }

    /// Payload bytes, by all lanes.
    #[must_use]
    #[inline(always)]
    pub fn arg_len(&self) -> u32 {
        self.word(io::ARG_LEN) as u32
    }

    /// The payload word that this lane has, with its index in the payload; the old contents after the
    /// payload's end.
    #[must_use]
    #[inline(always)]
    pub fn payload(&self) -> Option<(usize, u64)> {
        let index = (self.warp.lane() as usize).checked_sub(HEAD)?;
        (index < BESIDE).then_some((index, self.word))
    }

    /// Answers, by all lanes: `len` bytes of result, each word of which is `result` of the payload's word of the same
    /// index. Words that the burst did not bring are read in `mailbox`, which has the head and `len` bytes. A result that
    /// is longer than the slot takes is cut, and says so.
    #[inline(always)]
    pub fn answer(
        &self,
        mailbox: &Words,
        response: &ResponseWindows<'_>,
        counters: Option<&[DeviceU64]>,
        (status, len): (Status, u32),
        result: impl Fn(u64) -> u64,
    ) {
        let capacity = self.word(io::TX_CAPACITY) as u32;
        let value = self.word(io::TX_VALUE);
        let header = RequestHeader::from_words(core::array::from_fn(|i| self.word(io::HEADER + i)));
        let (status, len) = status.clamped(len, capacity);
        let [first, second, third] = ResponseHeader::reply(&header, status.0, len).to_words();
        let lane = self.warp.lane() as usize;
        if lane < HEADER_WORDS {
            let word = match lane {
                0 => first,
                1 => second,
                _ => third,
            };
            response.slot.store(lane, word, Ordering::Relaxed);
        }
        let words = (len as usize).div_ceil(8);
        if let Some((at, word)) = self.payload()
            && at < words
        {
            response.slot.store(HEADER_WORDS + at, result(word), Ordering::Relaxed);
        }
        let mut at = BESIDE + lane;
        while at < words {
            let word = mailbox.load(HEAD + at, Ordering::Relaxed);
            response.slot.store(HEADER_WORDS + at, result(word), Ordering::Relaxed);
            at += self.warp.lanes() as usize;
        }
        self.warp.sync();
        if lane == 0 {
            count(counters, Counter::of_status(status));
            // Release: all lanes' words, which came before the barrier, before the flag. Pairs with the consumer's acquire.
            response.flag.store(0, value, Ordering::Release);
        }
    }
}

const _: () = assert!(BURST == ringcall_gpu::team::WARP_LANES as usize && HEAD < BURST && HEADER_WORDS == 3);

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    use super::*;
    use crate::samples::handlers::increment_word;
    use ringcall_dispatcher::ring::graph_end::mailbox_bytes;
    use ringcall_gpu::shared::Region;
    use ringcall_gpu::team::run_warp;

    /// The response and its flag after a warp has answered a payload of `len` bytes.
    fn answered(len: u32, capacity: u32, status: Status) -> (ResponseHeader, Vec<u8>, u64) {
        let bytes = mailbox_bytes(len.max(8)) as usize;
        let region = Region::zeroed(bytes).expect("memory");
        let mailbox = region.words(0, bytes / 8).expect("all of it");
        let payload = region.bytes(io::PAYLOAD, len.next_multiple_of(8) as usize).expect("inside");
        let sent: Vec<u8> = (0..len).map(|i| (i * 7 + 250) as u8).collect();
        assert!(payload.write(0, &sent));
        for (i, word) in RequestHeader::new(9, len, 5, 77).to_words().into_iter().enumerate() {
            mailbox.store(io::HEADER + i, word, Ordering::Relaxed);
        }
        mailbox.store(io::ARG_LEN, len.into(), Ordering::Relaxed);
        mailbox.store(io::TX_CAPACITY, capacity.into(), Ordering::Relaxed);
        mailbox.store(io::TX_VALUE, 0x4000, Ordering::Relaxed);
        // A word after the slot's capacity, which no kernel may write.
        let words = HEADER_WORDS + capacity as usize / 8;
        let out = Region::zeroed((words + 2) * 8).expect("memory");
        let (slot, flag) =
            (out.words(0, words + 1).expect("inside"), out.words(8 * (words + 1), 1).expect("inside"));
        run_warp(32, |warp| {
            let burst = Burst::read(warp, &mailbox);
            assert_eq!(burst.arg_len(), len);
            let response = ResponseWindows { slot: &slot, flag: &flag };
            burst.answer(&mailbox, &response, None, (status, burst.arg_len()), increment_word);
        });
        assert_eq!(slot.load(words, Ordering::Relaxed), 0, "past the slot");
        let header = ResponseHeader::from_words(core::array::from_fn(|i| slot.load(i, Ordering::Relaxed)));
        let mut result = vec![0; header.result_len as usize];
        assert!(out.bytes(24, capacity as usize).expect("inside").read(0, &mut result));
        for (got, sent) in result.iter().zip(&sent) {
            assert_eq!(*got, sent.wrapping_add(1));
        }
        (header, result, flag.load(0, Ordering::Acquire))
    }

    #[test]
    fn payloads_of_every_length_are_answered() {
        for len in [0, 1, 7, 8, 32, 111, 112, 113, 120, 367, 368, 369, 488] {
            let (header, result, flag) = answered(len, 488, Status::OK);
            let request = RequestHeader::new(9, len, 5, 77);
            assert_eq!(header, ResponseHeader::reply(&request, 0, len), "{len} bytes");
            assert_eq!((result.len(), flag), (len as usize, 0x4000));
        }
    }

    #[test]
    fn a_result_too_long_is_cut_and_says_so() {
        let (header, result, _) = answered(64, 40, Status::OK);
        assert_eq!((Status(header.status), result.len()), (Status::RESULT_TOO_LONG, 40));
    }
}

//! One slot, copied to a warp's staging buffer, as a memory for the life cycle of [`slot`](ringcall_protocol::slot).

use ringcall_gpu::shared::Rows;
use ringcall_gpu::staging::StagingBuffer;
use ringcall_gpu::team::Warp;
use ringcall_protocol::ring::{Body, Geometry, RingMemory, SharedRing, SlotIndex};
use ringcall_wire::header::{HEADER_BYTES, HEADER_WORDS, RequestHeader};

/// Words that are fetched before the header is known: 1 KiB, two wide loads a lane, in one round trip.
const FIRST_BURST: usize = 128;

/// A slot's first kilobyte on its way, this lane's part; in lane 0 its response flag, where that was asked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct BurstLoad {
    pairs: [[u64; 2]; 2],
    flag: u64,
}

impl BurstLoad {
    /// Begins to fetch a slot whose response flag is known to be free.
    #[inline(always)]
    #[must_use]
    pub fn of(warp: Warp<'_>, ring: &SharedRing, slot: SlotIndex) -> Self {
        let (pairs, flag) = ring.request_burst(slot, [warp.lane(), warp.lanes()], first_pairs(ring), false);
        Self { pairs, flag }
    }

    /// Begins to fetch a slot and its response flag: independent loads, one round trip. The flag needs no acquire: a
    /// producer that keeps to the protocol saw it 0 (acquire) before it set the request flag (release), which the poller saw
    /// before its fence. The load guards against one that does not.
    #[inline(always)]
    #[must_use]
    pub fn with_flag(warp: Warp<'_>, ring: &SharedRing, slot: SlotIndex) -> Self {
        let (pairs, flag) = ring.request_burst(slot, [warp.lane(), warp.lanes()], first_pairs(ring), true);
        Self { pairs, flag }
    }

    /// The same for a ring of rows, each of no more than one burst.
    #[inline(always)]
    #[must_use]
    pub(super) fn of_row(warp: Warp<'_>, ring: &SharedRing, requests: &Rows, slot: u32) -> Self {
        let beside = (ring.tx_flags(), slot as usize);
        let (pairs, flag) = requests.load_burst(slot, [warp.lane(), warp.lanes()], beside);
        Self { pairs, flag }
    }

    /// Puts this lane's part into the staging buffer, of a burst of `pairs` pairs.
    #[inline(always)]
    pub(super) fn put(&self, warp: Warp<'_>, input: StagingBuffer<'_>, pairs: u32) {
        for (i, pair) in self.pairs.into_iter().enumerate() {
            let index = warp.lane() + i as u32 * warp.lanes();
            if index < pairs {
                input.set_pair(index as usize, pair);
            }
        }
    }

    /// The request's header, from the first two lanes.
    #[inline(always)]
    #[must_use]
    pub(super) fn header(&self, warp: Warp<'_>) -> RequestHeader {
        let [a, b] = self.pairs[0];
        RequestHeader::from_words([warp.shuffle_u64(a, 0), warp.shuffle_u64(b, 0), warp.shuffle_u64(a, 1)])
    }

    /// This lane's first pair.
    #[inline(always)]
    #[must_use]
    pub(super) fn first_pair(&self) -> [u64; 2] {
        self.pairs[0]
    }

    /// Whether the slot's previous response was not taken yet.
    #[inline(always)]
    #[must_use]
    pub(super) fn is_held(&self, warp: Warp<'_>) -> bool {
        warp.any(self.flag != ringcall_wire::flag::FREE)
    }
}

/// Pairs of the first burst.
#[inline(always)]
fn first_pairs(ring: &SharedRing) -> u32 {
    (ring.geometry().rx_stride() / 16).min(FIRST_BURST as u32 / 2)
}

/// The private copy of a slot. All lanes of the warp have it and make every call together.
#[derive(Debug)]
pub struct SlotCopy<'a> {
    warp: Warp<'a>,
    ring: &'a SharedRing,
    slot: SlotIndex,
    input: StagingBuffer<'a>,
    output: StagingBuffer<'a>,
    publishes: bool,
    clears: bool,
    taken: bool,
}

/// A result that lies in the output staging buffer, after room for the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InStagingBuffer(pub usize);

impl Body for InStagingBuffer {
    const EMPTY: Self = Self(0);

    #[inline(always)]
    fn len(self) -> usize {
        self.0
    }

    #[inline(always)]
    fn cut(self, len: usize) -> Self {
        Self(len)
    }
}

impl<'a> SlotCopy<'a> {
    /// Puts what was fetched into the staging buffer.
    ///
    /// `publishes` says whether an answer sets the response flag, `clears` whether it then clears the request
    /// flag; else the maintenance warp does, later.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)] // one call, of two lines
    pub fn new(
        warp: Warp<'a>,
        ring: &'a SharedRing,
        slot: SlotIndex,
        burst: BurstLoad,
        input: StagingBuffer<'a>,
        output: StagingBuffer<'a>,
        publishes: bool,
        clears: bool,
    ) -> Self {
        let pairs = first_pairs(ring);
        burst.put(warp, input, pairs);
        let done = (2 * warp.lanes()).min(pairs) as usize * 2;
        let all = (ring.geometry().rx_stride() as usize / 8).min(FIRST_BURST);
        if done < all {
            // Fewer lanes than a device has, or a slot of an odd number of words.
            copy_in(warp, ring, slot, input, done, all);
        }
        warp.sync();
        Self { warp, ring, slot, input, output, publishes, clears, taken: !burst.is_held(warp) }
    }

    /// Fetches what the first burst left of a payload of `arg_len` bytes, which was checked against the slot.
    #[inline(always)]
    pub fn fetch_rest(&self, arg_len: u32) {
        let words = (HEADER_BYTES + arg_len as usize).div_ceil(8);
        if words > FIRST_BURST {
            copy_in(self.warp, self.ring, self.slot, self.input, FIRST_BURST, words);
            self.warp.sync();
        }
    }

    /// Word `index` of the slot, the header's three first.
    #[must_use]
    pub fn word(&self, index: usize) -> u64 {
        self.input.word(index)
    }
}

/// Copies words `from .. to` of a request slot into the staging buffer; `from` is even. Two wide loads a lane are under way before
/// the first is waited for.
#[inline(always)]
fn copy_in(
    warp: Warp<'_>,
    ring: &SharedRing,
    slot: SlotIndex,
    input: StagingBuffer<'_>,
    from: usize,
    to: usize,
) {
    let lanes = warp.lanes() as usize;
    let lane = warp.lane() as usize;
    let mut pair = from / 2;
    let pairs = to.div_ceil(2);
    while pair < pairs {
        let (first, second) = (pair + lane, pair + lanes + lane);
        let a = if first < pairs { ring.request_pair(slot, first) } else { [0; 2] };
        let b = if second < pairs { ring.request_pair(slot, second) } else { [0; 2] };
        if first < pairs {
            input.set_pair(first, a);
        }
        if second < pairs {
            input.set_pair(second, b);
        }
        pair += 2 * lanes;
    }
}

impl RingMemory for SlotCopy<'_> {
    type Body<'b> = InStagingBuffer;

    #[inline(always)]
    fn geometry(&self) -> &Geometry {
        self.ring.geometry()
    }

    fn rx_group(&self, group: u32) -> [u64; 8] {
        self.ring.rx_group(group)
    }

    #[inline(always)]
    fn observe(&self) {
        self.ring.observe();
    }

    #[inline(always)]
    fn clear_rx(&self, slot: SlotIndex) {
        if self.clears && self.warp.lane() == 0 {
            self.ring.clear_rx(slot);
        }
    }

    #[inline(always)]
    fn tx(&self, _: SlotIndex) -> u64 {
        // Free, or some value that is not.
        if self.taken { ringcall_wire::flag::FREE } else { ringcall_wire::flag::IN_FLIGHT }
    }

    #[inline(always)]
    fn publish_tx(&self, slot: SlotIndex, value: u64) {
        // What the other lanes wrote is before the barrier, and so before lane 0's release.
        self.warp.sync();
        if self.publishes && self.warp.lane() == 0 {
            self.ring.publish_tx(slot, value);
        }
    }

    #[inline(always)]
    fn mark_tx(&self, slot: SlotIndex) {
        if self.warp.lane() == 0 {
            self.ring.mark_tx(slot);
        }
    }

    #[inline(always)]
    fn request_header(&self, _: SlotIndex) -> [u64; HEADER_WORDS] {
        core::array::from_fn(|i| self.input.word(i))
    }

    fn read_payload(&self, slot: SlotIndex, out: &mut [u8]) {
        self.ring.read_payload(slot, out);
    }

    #[inline(always)]
    fn write_response(&self, slot: SlotIndex, header: [u64; HEADER_WORDS], body: InStagingBuffer) {
        let words = (HEADER_BYTES + body.len()).div_ceil(8);
        for pair in self.warp.stride(words.div_ceil(2)) {
            let [a, b] = self.output.pair(pair);
            let pair_of = match pair {
                0 => [header[0], header[1]],
                1 => [header[2], b],
                _ => [a, b],
            };
            self.ring.store_response_pair(slot, pair, pair_of);
        }
    }

    fn prefetch(&self, _: SlotIndex) {}
}

//! A ring's shape, its slots, and the memory behind it.

use core::sync::atomic::Ordering;
use ringcall_gpu::barrier;
use ringcall_gpu::shared::{Bytes, Rows, Words};
use ringcall_wire::header::{HEADER_BYTES, HEADER_WORDS};

/// A slot of a ring: always below the ring's slot count, since only a [`Geometry`] makes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotIndex(u32);

impl SlotIndex {
    /// For rooms of this crate that walk storage of one record a slot.
    pub(crate) const fn unchecked(index: u32) -> Self {
        Self(index)
    }

    /// The index as a number, `0 .. slots`.
    #[must_use]
    #[inline(always)]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The index for use with slices.
    #[must_use]
    #[inline(always)]
    pub const fn as_usize(self) -> usize {
        self.0 as usize
    }
}

/// The shape of a ring: how many slots, how long, and at which address a peer says they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    slots: u32,
    rx_stride: u32,
    tx_stride: u32,
    rx_base: u64,
    rx_peer_base: u64,
    tx_base: u64,
}

/// Why a ring's shape is impossible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GeometryError {
    /// No slots, or more than [`Geometry::MAX_SLOTS`].
    Slots(u32),
    /// A stride that is shorter than a header, no multiple of 8, or above 2³¹.
    Stride(u32),
    /// A window of the ring is shorter than the shape needs.
    TooSmall {
        /// Bytes the shape needs.
        needed: u64,
        /// Bytes there are.
        have: u64,
    },
    /// The slots would wrap around the end of the address space.
    Wraps,
}

impl core::fmt::Display for GeometryError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Slots(n) => write!(f, "a ring has 1 to {} slots, not {n}", Geometry::MAX_SLOTS),
            Self::Stride(n) => write!(
                f,
                "a slot is a multiple of 8 bytes, at least {HEADER_BYTES} and below 2^31, not {n} bytes"
            ),
            Self::TooSmall { needed, have } => {
                write!(f, "the ring needs {needed} bytes of memory where there are {have}")
            }
            Self::Wraps => f.write_str("the ring wraps around the end of the address space"),
        }
    }
}

impl core::error::Error for GeometryError {}

impl Geometry {
    /// The largest ring: what the 12-bit page number of an RDMA immediate can name is 4,096; local rings may be larger.
    pub const MAX_SLOTS: u32 = 1 << 20;

    /// A ring of `slots` slots of `rx_stride` bytes for requests and `tx_stride` for responses.
    ///
    /// `rx_base` is the address of slot 0 as this side sees it, `rx_peer_base` as the producer may see it (the device
    /// address of mapped memory; the same where there is only one). Both are accepted in a flag.
    ///
    /// # Errors
    /// A shape that cannot be.
    pub fn new(
        slots: u32,
        rx_stride: u32,
        tx_stride: u32,
        rx_base: u64,
        rx_peer_base: u64,
        tx_base: u64,
    ) -> Result<Self, GeometryError> {
        if slots == 0 || slots > Self::MAX_SLOTS {
            return Err(GeometryError::Slots(slots));
        }
        for stride in [rx_stride, tx_stride] {
            if (stride as usize) < HEADER_BYTES || !stride.is_multiple_of(8) || stride > 1 << 31 {
                return Err(GeometryError::Stride(stride));
            }
        }
        for (base, stride) in [(rx_base, rx_stride), (rx_peer_base, rx_stride), (tx_base, tx_stride)] {
            if base.checked_add(u64::from(slots) * u64::from(stride)).is_none() {
                return Err(GeometryError::Wraps);
            }
        }
        Ok(Self { slots, rx_stride, tx_stride, rx_base, rx_peer_base, tx_base })
    }

    /// How many slots.
    #[must_use]
    #[inline(always)]
    pub const fn slots(&self) -> u32 {
        self.slots
    }

    /// Bytes from one request slot to the next.
    #[must_use]
    pub const fn rx_stride(&self) -> u32 {
        self.rx_stride
    }

    /// Bytes from one response slot to the next.
    #[must_use]
    pub const fn tx_stride(&self) -> u32 {
        self.tx_stride
    }

    /// The slot with this number, if the ring has it.
    #[must_use]
    #[inline(always)]
    pub const fn slot(&self, index: u32) -> Option<SlotIndex> {
        if index < self.slots { Some(SlotIndex(index)) } else { None }
    }

    /// All slots in order.
    pub fn iter(&self) -> impl Iterator<Item = SlotIndex> + use<> {
        (0..self.slots).map(SlotIndex)
    }

    /// The slot after `slot`, around the ring.
    #[must_use]
    #[inline(always)]
    pub const fn next(&self, slot: SlotIndex) -> SlotIndex {
        if slot.0 + 1 < self.slots { SlotIndex(slot.0 + 1) } else { SlotIndex(0) }
    }

    /// The most payload bytes a request can carry.
    #[must_use]
    #[inline(always)]
    pub const fn request_capacity(&self) -> u32 {
        self.rx_stride - HEADER_BYTES as u32
    }

    /// The most result bytes a response can carry.
    #[must_use]
    #[inline(always)]
    pub const fn result_capacity(&self) -> u32 {
        self.tx_stride - HEADER_BYTES as u32
    }

    /// The flag value by which this side publishes a request in `slot`: the slot's address.
    #[must_use]
    #[inline(always)]
    pub const fn request_address(&self, slot: SlotIndex) -> u64 {
        self.rx_base + slot.0 as u64 * self.rx_stride as u64
    }

    /// The address of `slot` as the peer may see it.
    #[must_use]
    #[inline(always)]
    pub const fn peer_request_address(&self, slot: SlotIndex) -> u64 {
        self.rx_peer_base + slot.0 as u64 * self.rx_stride as u64
    }

    /// The flag value that publishes the response of `slot`: the address of its response slot.
    #[must_use]
    #[inline(always)]
    pub const fn response_address(&self, slot: SlotIndex) -> u64 {
        self.tx_base + slot.0 as u64 * self.tx_stride as u64
    }

    const fn rx_offset(&self, slot: SlotIndex) -> usize {
        slot.0 as usize * self.rx_stride as usize
    }

    const fn tx_offset(&self, slot: SlotIndex) -> usize {
        slot.0 as usize * self.tx_stride as usize
    }
}

/// A result on its way into a response slot.
pub trait Body: Copy {
    /// No bytes.
    const EMPTY: Self;
    /// How many bytes.
    fn len(self) -> usize;
    /// The first `len` bytes.
    #[must_use]
    fn cut(self, len: usize) -> Self;
    /// Whether there are none.
    fn is_empty(self) -> bool {
        self.len() == 0
    }
}

impl Body for &[u8] {
    const EMPTY: Self = &[];

    #[inline(always)]
    fn len(self) -> usize {
        <[u8]>::len(self)
    }

    #[inline(always)]
    fn cut(self, len: usize) -> Self {
        self.get(..len).unwrap_or(self)
    }
}

/// How a dispatcher loads and publishes: the one thing that differs between a host thread, a device kernel and a model.
///
/// No method blocks, and none trusts what it reads: lengths are the caller's, already checked against the
/// [`Geometry`].
pub trait RingMemory {
    /// Where results come from: a slice on a host, a warp's staging buffer on a device.
    type Body<'b>: Body;
    /// The ring's shape.
    fn geometry(&self) -> &Geometry;
    /// The request flags of slots `8 * group ..`, relaxed, as one line; 0 past the end.
    fn rx_group(&self, group: u32) -> [u64; 8];
    /// After a flag was seen set: its writer's payload is visible from here on.
    fn observe(&self);
    /// Gives the request slot back to the producer (release).
    fn clear_rx(&self, slot: SlotIndex);
    /// The response flag (acquire).
    fn tx(&self, slot: SlotIndex) -> u64;
    /// Sets the response flag; everything written before is visible to an agent that sees the flag (release).
    fn publish_tx(&self, slot: SlotIndex, value: u64);
    /// Sets the in-flight mark, relaxed: for a caller that orders it itself before anybody can answer.
    fn mark_tx(&self, slot: SlotIndex);
    /// The request header's words.
    fn request_header(&self, slot: SlotIndex) -> [u64; HEADER_WORDS];
    /// Copies the first `out.len()` payload bytes out of the request slot; at most the request capacity.
    fn read_payload(&self, slot: SlotIndex, out: &mut [u8]);
    /// Writes a response: at most the result capacity. Publishes nothing.
    fn write_response(&self, slot: SlotIndex, header: [u64; HEADER_WORDS], result: Self::Body<'_>);
    /// The lines of `slot` will be needed soon.
    fn prefetch(&self, slot: SlotIndex);
}

/// A ring over shared memory, for threads of this process and every other agent that maps the same bytes.
///
/// Cheap to clone: a handle, like the windows it is made of.
#[derive(Debug, Clone)]
pub struct SharedRing {
    geometry: Geometry,
    rx_flags: Words,
    tx_flags: Words,
    rx_data: Bytes,
    tx_data: Bytes,
}

impl SharedRing {
    /// A ring of the given flags and data. `rx_peer_base` is the producer's address of the request data where that
    /// differs from ours (mapped memory seen from a device), else `None`.
    ///
    /// `rx_data` and `tx_data` may be the same memory: the response then lies where the request did.
    ///
    /// # Errors
    /// An impossible shape, or a window shorter than it.
    pub fn new(
        slots: u32,
        rx_stride: u32,
        tx_stride: u32,
        windows: RingWindows,
        rx_peer_base: Option<u64>,
    ) -> Result<Self, GeometryError> {
        let RingWindows { rx_flags, tx_flags, rx_data, tx_data } = windows;
        let rx_base = rx_data.address();
        let geometry = Geometry::new(
            slots,
            rx_stride,
            tx_stride,
            rx_base,
            rx_peer_base.unwrap_or(rx_base),
            tx_data.address(),
        )?;
        let n = u64::from(slots);
        for (needed, have) in [
            (n * 8, rx_flags.len() as u64 * 8),
            (n * 8, tx_flags.len() as u64 * 8),
            (n * u64::from(rx_stride), rx_data.len() as u64),
            (n * u64::from(tx_stride), tx_data.len() as u64),
        ] {
            if have < needed {
                return Err(GeometryError::TooSmall { needed, have });
            }
        }
        Ok(Self { geometry, rx_flags, tx_flags, rx_data, tx_data })
    }

    /// The windows this ring is made of.
    #[must_use]
    pub fn windows(&self) -> RingWindows {
        RingWindows {
            rx_flags: self.rx_flags.clone(),
            tx_flags: self.tx_flags.clone(),
            rx_data: self.rx_data.clone(),
            tx_data: self.tx_data.clone(),
        }
    }

    /// The request flag of a slot (acquire). For producers and dumps; dispatchers poll groups.
    #[must_use]
    #[inline(always)]
    pub fn rx(&self, slot: SlotIndex) -> u64 {
        self.rx_flags.load(slot.as_usize(), Ordering::Acquire)
    }

    /// The request flags of two slots, relaxed, in one access where the machine has one; 0 past the end. `slot` is even.
    #[must_use]
    #[inline(always)]
    pub fn rx_pair(&self, slot: u32) -> [u64; 2] {
        self.rx_flags.load_pair(slot as usize)
    }

    /// The response flags of two slots, as [`rx_pair`](Self::rx_pair).
    #[must_use]
    #[inline(always)]
    pub fn tx_pair(&self, slot: u32) -> [u64; 2] {
        self.tx_flags.load_pair(slot as usize)
    }

    /// Sets the flag of a response that is written, relaxed: for a caller that has fenced for many.
    #[inline(always)]
    pub fn publish_tx_relaxed(&self, slot: u32) {
        let value = self.geometry.response_address(SlotIndex(slot));
        self.tx_flags.store(slot as usize, value, Ordering::Relaxed);
    }

    /// Gives a request slot back to the producer, relaxed: for a caller that has fenced for many.
    #[inline(always)]
    pub fn clear_rx_relaxed(&self, slot: u32) {
        self.rx_flags.store(slot as usize, ringcall_wire::flag::FREE, Ordering::Relaxed);
    }

    /// Words `2 * pair` and the next of a request slot, relaxed, in one access where the machine has one; what lies after
    /// the slot reads 0.
    #[must_use]
    #[inline(always)]
    pub fn request_pair(&self, slot: SlotIndex, pair: usize) -> [u64; 2] {
        let words = self.geometry.rx_stride as usize / 8;
        let at = self.geometry.rx_offset(slot) / 8 + pair * 2;
        match words.saturating_sub(pair * 2) {
            0 => [0; 2],
            1 => [self.rx_data.words().load(at, Ordering::Relaxed), 0],
            _ => self.rx_data.words().load_pair(at),
        }
    }

    /// One burst over the first `pairs` pairs of a request slot: this lane's pairs `lane` and `lane + lanes`; in lane 0 also
    /// its response flag, if that is asked for (0 elsewhere).
    #[must_use]
    #[inline(always)]
    pub fn request_burst(
        &self,
        slot: SlotIndex,
        lane: [u32; 2],
        pairs: u32,
        with_flag: bool,
    ) -> ([[u64; 2]; 2], u64) {
        let at = self.geometry.rx_offset(slot) / 8;
        let flag = with_flag.then_some((&self.tx_flags, slot.as_usize()));
        self.rx_data.words().load_burst(at, lane, pairs, flag)
    }

    /// Request and response slots as rows; `None` where one does not lie on boundaries of 16 bytes.
    #[must_use]
    #[inline(always)]
    pub fn rows(&self) -> Option<[Rows; 2]> {
        let Geometry { slots, rx_stride, tx_stride, .. } = self.geometry;
        let requests = Rows::of(self.rx_data.words(), slots, rx_stride)?;
        Some([requests, Rows::of(self.tx_data.words(), slots, tx_stride)?])
    }

    /// The response flags, one word a slot.
    #[must_use]
    #[inline(always)]
    pub fn tx_flags(&self) -> &Words {
        &self.tx_flags
    }

    /// Sets words `2 * pair` and the next of a response slot, relaxed; nothing past the slot.
    #[inline(always)]
    pub fn store_response_pair(&self, slot: SlotIndex, pair: usize, value: [u64; 2]) {
        let words = self.geometry.tx_stride as usize / 8;
        let at = self.geometry.tx_offset(slot) / 8 + pair * 2;
        match words.saturating_sub(pair * 2) {
            0 => (),
            1 => self.tx_data.words().store(at, value[0], Ordering::Relaxed),
            _ => self.tx_data.words().store_pair(at, value),
        }
    }

    /// Where the response of slot `slot` goes, as addresses: for an agent that gets numbers alone.
    #[must_use]
    pub fn response_addresses(&self, slot: u32) -> Option<ResponseAddresses> {
        let slot = self.geometry.slot(slot)?;
        Some(ResponseAddresses {
            slot: self.tx_data.address() + self.geometry.tx_offset(slot) as u64,
            flag: self.tx_flags.address() + slot.as_usize() as u64 * 8,
            value: self.geometry.response_address(slot),
        })
    }

    /// Whether a flag's value is the address of slot `slot`, as this side or as the peer sees it.
    #[must_use]
    #[inline(always)]
    pub fn is_address_of(&self, slot: u32, value: u64) -> bool {
        let slot = SlotIndex(slot);
        value == self.geometry.request_address(slot) || value == self.geometry.peer_request_address(slot)
    }

    /// The response flags of slots `8 * group ..`, relaxed; 0 past the end.
    #[must_use]
    #[inline(always)]
    pub fn tx_group(&self, group: u32) -> [u64; 8] {
        self.tx_flags.load_group(group as usize)
    }

    /// Writes a request. Publishes nothing. The payload's length was checked against the geometry.
    #[inline]
    pub(crate) fn write_request(&self, slot: SlotIndex, header: [u64; HEADER_WORDS], payload: &[u8]) {
        let offset = self.geometry.rx_offset(slot);
        self.rx_data.write_words(offset, header);
        self.rx_data.write(offset + HEADER_BYTES, payload);
    }

    /// Sets the request flag (release). Pairs with [`RingMemory::observe`] in the dispatcher.
    #[inline(always)]
    pub(crate) fn publish_request(&self, slot: SlotIndex, value: u64) {
        self.rx_flags.store(slot.as_usize(), value, Ordering::Release);
    }

    /// The response header's words.
    #[inline(always)]
    pub(crate) fn response_header(&self, slot: SlotIndex) -> [u64; HEADER_WORDS] {
        self.tx_data.read_words(self.geometry.tx_offset(slot)).unwrap_or_default()
    }

    /// Copies the first result bytes out of the response slot.
    #[inline]
    pub(crate) fn read_result(&self, slot: SlotIndex, out: &mut [u8]) {
        let inside = self.tx_data.read(self.geometry.tx_offset(slot) + HEADER_BYTES, out);
        debug_assert!(inside);
    }

    /// Frees the slot (release). Pairs with the producer's acquire in [`Vacant::probe`](crate::Vacant::probe).
    #[inline(always)]
    pub fn clear_tx(&self, slot: SlotIndex) {
        self.tx_flags.store(slot.as_usize(), ringcall_wire::flag::FREE, Ordering::Release);
    }

    /// The response line of `slot` will be needed soon.
    #[inline(always)]
    pub fn prefetch_response(&self, slot: SlotIndex) {
        self.tx_data.prefetch_read(self.geometry.tx_offset(slot));
    }

    /// Writes any flag value and any bytes into a slot, as a broken or hostile producer would. For tests of the other
    /// side: everything written here is an allegation to a dispatcher.
    pub fn forge_request(&self, slot: SlotIndex, raw: &[u8], flag: u64) {
        let len = raw.len().min(self.geometry.rx_stride as usize);
        self.rx_data.write(self.geometry.rx_offset(slot), &raw[..len]);
        self.publish_request(slot, flag);
    }
}

/// Addresses of a response, as the side that asks sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResponseAddresses {
    /// The response slot.
    pub slot: u64,
    /// Its flag.
    pub flag: u64,
    /// The flag's value when the response is there.
    pub value: u64,
}

/// The four windows of a ring.
#[derive(Debug, Clone)]
pub struct RingWindows {
    /// One word a slot: set by the producer, cleared by the dispatcher.
    pub rx_flags: Words,
    /// One word a slot: set by the dispatcher or worker, cleared by the consumer.
    pub tx_flags: Words,
    /// Request slots.
    pub rx_data: Bytes,
    /// Response slots.
    pub tx_data: Bytes,
}

impl RingMemory for SharedRing {
    type Body<'b> = &'b [u8];

    #[inline(always)]
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    #[inline(always)]
    fn rx_group(&self, group: u32) -> [u64; 8] {
        let mut flags = self.rx_flags.load_group(group as usize);
        // The window may be longer than the ring (a caller's array): what lies after the ring is not ours.
        let slots = self.geometry.slots as usize;
        let first = group as usize * 8;
        if first + 8 > slots {
            for (i, flag) in flags.iter_mut().enumerate() {
                if first + i >= slots {
                    *flag = ringcall_wire::flag::FREE;
                }
            }
        }
        flags
    }

    #[inline(always)]
    fn observe(&self) {
        barrier::observe_from_peer();
    }

    #[inline(always)]
    fn clear_rx(&self, slot: SlotIndex) {
        self.rx_flags.store(slot.as_usize(), ringcall_wire::flag::FREE, Ordering::Release);
    }

    #[inline(always)]
    fn tx(&self, slot: SlotIndex) -> u64 {
        self.tx_flags.load(slot.as_usize(), Ordering::Acquire)
    }

    #[inline(always)]
    fn publish_tx(&self, slot: SlotIndex, value: u64) {
        self.tx_flags.store(slot.as_usize(), value, Ordering::Release);
    }

    #[inline(always)]
    fn mark_tx(&self, slot: SlotIndex) {
        self.tx_flags.store(slot.as_usize(), ringcall_wire::flag::IN_FLIGHT, Ordering::Relaxed);
    }

    #[inline(always)]
    fn request_header(&self, slot: SlotIndex) -> [u64; HEADER_WORDS] {
        self.rx_data.read_words(self.geometry.rx_offset(slot)).unwrap_or_default()
    }

    #[inline]
    fn read_payload(&self, slot: SlotIndex, out: &mut [u8]) {
        let inside = self.rx_data.read(self.geometry.rx_offset(slot) + HEADER_BYTES, out);
        debug_assert!(inside);
    }

    #[inline]
    fn write_response(&self, slot: SlotIndex, header: [u64; HEADER_WORDS], result: &[u8]) {
        let offset = self.geometry.tx_offset(slot);
        // The body first: on a response that overwrites its request the header is what a reader checks.
        let inside = self.tx_data.write(offset + HEADER_BYTES, result);
        debug_assert!(inside);
        self.tx_data.write_words(offset, header);
    }

    #[inline(always)]
    fn prefetch(&self, slot: SlotIndex) {
        self.rx_data.prefetch_read(self.geometry.rx_offset(slot));
        self.tx_data.prefetch_write(self.geometry.tx_offset(slot));
        // Read first, but for the last time by anybody else.
        self.tx_flags.prefetch_write(slot.as_usize());
    }
}

//! Bit strings of a known length: read, written in place, and returned.

use crate::{Argument, OutParam, ResultValue, Status, TypeDesc, count};
use core::ops::Deref;
use ringcall_wire::WireError;
use ringcall_wire::bits::{BitView, packed_len};

/// `N` bits of a payload, LSB-first; unused bits are zero.
///
/// ```
/// use ringcall_handler::Bits;
/// let bits = Bits::<10>::new(&[0b10, 0b11])?;
/// assert!(bits.ones().eq([1, 8, 9]));
/// assert!(Bits::<9>::new(&[0b10, 0b11]).is_err(), "bit 9 would be padding");
/// # Ok::<(), ringcall_wire::WireError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits<'a, const N: usize> {
    view: BitView<'a>,
}

impl<'a, const N: usize> Bits<'a, N> {
    /// How many bits.
    pub const LEN: usize = N;

    /// Checks packed bytes.
    ///
    /// # Errors
    /// As [`BitView::new`].
    #[inline(always)]
    pub fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        Ok(Self { view: BitView::new(bytes, N)? })
    }

    /// As [`BitView::words`]. Written so that the compiler, which knows the length and on a device the alignment, loads
    /// whole words.
    #[inline(always)]
    pub fn words(&self) -> impl Iterator<Item = u64> + use<'a, N> {
        let (words, rest) = self.as_bytes().as_chunks::<8>();
        let last = rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        let last = (!rest.is_empty()).then_some(last);
        words.iter().map(|word| u64::from_le_bytes(*word)).chain(last)
    }

    /// How many bits are set.
    #[must_use]
    #[inline(always)]
    pub fn count_ones(&self) -> usize {
        self.words().map(|word| word.count_ones() as usize).sum()
    }
}

impl<'a, const N: usize> Deref for Bits<'a, N> {
    type Target = BitView<'a>;

    #[inline(always)]
    fn deref(&self) -> &BitView<'a> {
        &self.view
    }
}

impl<'a, const N: usize> Argument<'a> for Bits<'a, N> {
    const DESC: TypeDesc = TypeDesc::bit_packed(count(N));

    #[inline(always)]
    fn decode(bytes: &'a [u8]) -> Result<Self, Status> {
        Self::new(bytes).map_err(|_| Status::BAD_PAYLOAD)
    }

    fn write(&self, out: &mut [u8]) {
        crate::argument::put(out, self.as_bytes());
    }
}

fn get(bytes: &[u8], bits: usize, index: usize) -> Option<bool> {
    let byte = bytes.get(index / 8).filter(|_| index < bits)?;
    Some(byte >> (index % 8) & 1 == 1)
}

/// Sets, clears or flips a bit; false past the end, where nothing changes.
fn change(bytes: &mut [u8], bits: usize, index: usize, change: impl FnOnce(u8, u8) -> u8) -> bool {
    match bytes.get_mut(index / 8) {
        Some(byte) if index < bits => {
            *byte = change(*byte, 1 << (index % 8));
            true
        }
        _ => false,
    }
}

fn put(value: bool) -> impl FnOnce(u8, u8) -> u8 {
    move |byte, bit| if value { byte | bit } else { byte & !bit }
}

/// `N` bits of one's own, all zero at first: to return.
///
/// Takes `N` bytes, of which it uses `ceil(N / 8)`; a long result is better written in place, through [`BitsMut`].
///
/// ```
/// use ringcall_handler::BitString;
/// let mut bits = BitString::<10>::new();
/// assert!(bits.set(9, true) && bits.flip(0) && !bits.set(10, true));
/// assert_eq!(bits.as_bytes(), [0b1, 0b10]);
/// assert_eq!(bits, BitString::from([true, false, false, false, false, false, false, false, false, true]));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BitString<const N: usize> {
    /// The first `packed_len(N)` are in use, the rest are zero: there is no `[u8; N / 8]`.
    bytes: [u8; N],
}

impl<const N: usize> BitString<N> {
    /// All zero.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: [0; N] }
    }

    /// Bit `index`; `None` past the end.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<bool> {
        get(&self.bytes, N, index)
    }

    /// Makes bit `index` `value`. False past the end, where nothing changes.
    pub fn set(&mut self, index: usize, value: bool) -> bool {
        change(&mut self.bytes, N, index, put(value))
    }

    /// Turns bit `index` over. False past the end, where nothing changes.
    pub fn flip(&mut self, index: usize) -> bool {
        change(&mut self.bytes, N, index, |byte, bit| byte ^ bit)
    }

    /// The packed bytes, `ceil(N / 8)` of them.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..packed_len(N)).unwrap_or_default()
    }
}

impl<const N: usize> Default for BitString<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> From<[bool; N]> for BitString<N> {
    fn from(values: [bool; N]) -> Self {
        let mut bits = Self::new();
        for (index, value) in values.into_iter().enumerate() {
            bits.set(index, value);
        }
        bits
    }
}

impl<const N: usize> From<Bits<'_, N>> for BitString<N> {
    fn from(view: Bits<'_, N>) -> Self {
        let mut bits = Self::new();
        bits.bytes.iter_mut().zip(view.as_bytes()).for_each(|(target, &byte)| *target = byte);
        bits
    }
}

impl<const N: usize> core::fmt::Debug for BitString<N> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("BitString").field(&self.as_bytes()).finish()
    }
}

impl<const N: usize> ResultValue for BitString<N> {
    const DESC: TypeDesc = TypeDesc::bit_packed(count(N));

    #[inline(always)]
    fn encode(self, out: &mut [u8]) {
        out.iter_mut().zip(self.bytes).for_each(|(target, byte)| *target = byte);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        Bits::new(bytes).ok().map(Self::from)
    }
}

/// `N` bits of a result, written in place; all zero at first.
#[derive(Debug)]
pub struct BitsMut<'a, const N: usize> {
    bytes: &'a mut [u8],
}

impl<'a, const N: usize> BitsMut<'a, N> {
    /// How many bits.
    pub const LEN: usize = N;

    /// Over the first `ceil(N / 8)` of `bytes`, which become zero; `None` when there are fewer.
    ///
    /// ```
    /// use ringcall_handler::BitsMut;
    /// let mut bytes = [0xFF; 2];
    /// let mut bits = BitsMut::<10>::new(&mut bytes).expect("long enough");
    /// assert!(bits.set(9, true) && bits.flip(0) && !bits.flip(10));
    /// assert_eq!((bits.get(9), bits.get(8), bits.get(10)), (Some(true), Some(false), None));
    /// assert_eq!(bytes, [0b1, 0b10]);
    /// ```
    #[must_use]
    #[inline(always)]
    pub fn new(bytes: &'a mut [u8]) -> Option<Self> {
        let bytes = bytes.get_mut(..packed_len(N))?;
        bytes.fill(0);
        Some(Self { bytes })
    }

    /// Bit `index`; `None` past the end.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<bool> {
        get(self.bytes, N, index)
    }

    /// Makes bit `index` `value`. False past the end, where nothing changes.
    pub fn set(&mut self, index: usize, value: bool) -> bool {
        change(self.bytes, N, index, put(value))
    }

    /// Turns bit `index` over. False past the end, where nothing changes.
    pub fn flip(&mut self, index: usize) -> bool {
        change(self.bytes, N, index, |byte, bit| byte ^ bit)
    }
}

impl<'a, const N: usize> OutParam<'a> for BitsMut<'a, N> {
    const DESC: TypeDesc = TypeDesc::bit_packed(count(N));

    #[inline(always)]
    fn over(bytes: &'a mut [u8]) -> Result<Self, Status> {
        Self::new(bytes).ok_or(Status::RESULT_TOO_LONG)
    }

    type Value = BitString<N>;

    fn read(bytes: &[u8]) -> Option<BitString<N>> {
        BitString::read(bytes)
    }
}

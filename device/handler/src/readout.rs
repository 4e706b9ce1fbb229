//! 4-bit readout.

use crate::{Argument, Status, TypeDesc, count};
use core::ops::Deref;
use ringcall_wire::WireError;
use ringcall_wire::readout::NibbleView;

/// `N` 4-bit values, two to a byte, the first in the low nibble. What they are for is the sender's matter; mostly
/// confidences.
///
/// ```
/// use ringcall_handler::Readout4;
/// let readout = Readout4::<3>::new(&[0xF3, 0x07])?;
/// assert!(readout.iter().eq([3, 15, 7]));
/// assert!(Readout4::<3>::new(&[0xF3, 0x17]).is_err(), "the unused nibble is zero");
/// # Ok::<(), ringcall_wire::WireError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readout4<'a, const N: usize> {
    view: NibbleView<'a>,
}

impl<'a, const N: usize> Readout4<'a, N> {
    /// How many values.
    pub const LEN: usize = N;

    /// Checks packed bytes.
    ///
    /// # Errors
    /// As [`NibbleView::new`].
    pub fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        Ok(Self { view: NibbleView::new(bytes, N)? })
    }
}

impl<'a, const N: usize> Deref for Readout4<'a, N> {
    type Target = NibbleView<'a>;

    fn deref(&self) -> &NibbleView<'a> {
        &self.view
    }
}

impl<'a, const N: usize> Argument<'a> for Readout4<'a, N> {
    const DESC: TypeDesc = TypeDesc::readout4(count(N));

    #[inline(always)]
    fn decode(bytes: &'a [u8]) -> Result<Self, Status> {
        Self::new(bytes).map_err(|_| Status::BAD_PAYLOAD)
    }

    fn write(&self, out: &mut [u8]) {
        for (byte, pair) in out.iter_mut().enumerate() {
            let nibble = |index: usize| self.get(index).unwrap_or(0);
            *pair = nibble(2 * byte) | nibble(2 * byte + 1) << 4;
        }
    }
}

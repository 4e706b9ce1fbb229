//! The immediate of a sensor bridge's write: the page, and the low bits of the sequence number.

use crate::psn::Psn;

/// `page | psn << 12`, as Holoscan Sensor Bridge puts it into the last packet of a frame (big-endian on the wire).
///
/// A page is a slot of the receiver's window. Some senders leave the upper 20 bits 0.
///
/// ```
/// use ringcall_roce::{Immediate, Psn};
///
/// let immediate = Immediate::new(3, Psn::new(5));
/// assert_eq!(immediate, Immediate(0x5003));
/// assert_eq!((immediate.page(), immediate.psn_low()), (3, 5));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Immediate(pub u32);

/// The most pages that an immediate can name.
pub const MAX_PAGES: u32 = 1 << PAGE_BITS;
/// Page sizes are multiples of this many bytes, the unit of the bridge's registers.
pub const PAGE_UNIT_BYTES: u32 = 128;

const PAGE_BITS: u32 = 12;

impl Immediate {
    /// The immediate for `page` in a packet numbered `psn`; only the low 12 and 20 bits are kept.
    #[must_use]
    pub const fn new(page: u32, psn: Psn) -> Self {
        Self((page & (MAX_PAGES - 1)) | psn.get() << PAGE_BITS)
    }

    /// The page, below [`MAX_PAGES`].
    #[must_use]
    pub const fn page(self) -> u32 {
        self.0 & (MAX_PAGES - 1)
    }

    /// The low 20 bits of the sequence number.
    #[must_use]
    pub const fn psn_low(self) -> u32 {
        self.0 >> PAGE_BITS
    }
}

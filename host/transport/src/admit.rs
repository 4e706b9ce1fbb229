//! Admission: the checks of a frame before it gets a slot.
//!
//! Only the transport knows how long a frame really was, so only it can tell that a frame is shorter than its header
//! says. A refused frame takes no slot and never reaches a dispatcher, so nothing is answered twice. The dispatcher
//! checks requests again, since other programs write rings, too.

use ringcall_wire::header::{HEADER_BYTES, RESPONSE_MAGIC, RequestHeader};
use ringcall_wire::status::Status;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    Oversize,
    Truncated,
    BadMagic,
    BadSlot,
    SlotTaken,
    Stopping,
}

impl Reason {
    /// Whether the frame itself is wrong, rather than the moment at which it came.
    pub(crate) fn is_bad_frame(self) -> bool {
        matches!(self, Self::Oversize | Self::Truncated | Self::BadMagic)
    }

    pub(crate) fn status(self) -> Status {
        match self {
            Self::Oversize | Self::Truncated => Status::ARG_TOO_LONG,
            Self::BadMagic => Status::BAD_MAGIC,
            Self::BadSlot => Status::BAD_FLAG,
            Self::SlotTaken => Status::BACKPRESSURE,
            Self::Stopping => Status::SHUTTING_DOWN,
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission<'a> {
    /// The header and exactly the payload that it announces, without padding.
    Request(RequestHeader, &'a [u8]),
    /// The sender gets an error.
    Refuse(RequestHeader, Reason),
    /// Shorter than a header: no field can be echoed.
    Runt,
    /// A response. Two services that answered each other's answers would never stop.
    Stray,
}

/// Classifies a frame of `len` bytes. `bytes` has all of them, unless the frame is longer than a slot.
#[inline]
pub(crate) fn admission(bytes: &[u8], len: usize, slot_bytes: usize) -> Admission<'_> {
    let Ok(header) = RequestHeader::from_bytes(bytes) else { return Admission::Runt };
    if header.magic == RESPONSE_MAGIC {
        return Admission::Stray;
    }
    if !header.has_magic() {
        return Admission::Refuse(header, Reason::BadMagic);
    }
    if len > slot_bytes {
        return Admission::Refuse(header, Reason::Oversize);
    }
    match bytes[HEADER_BYTES..].get(..header.arg_len as usize) {
        Some(payload) => Admission::Request(header, payload),
        None => Admission::Refuse(header, Reason::Truncated),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use ringcall_wire::header::ResponseHeader;

    fn frame(arg_len: u32, len: usize) -> Vec<u8> {
        let mut frame = RequestHeader::new(1, arg_len, 2, 3).to_bytes().to_vec();
        frame.resize(len, 9);
        frame
    }

    #[test]
    fn each_fault_has_its_name() {
        let refused = |frame: &[u8]| match admission(frame, frame.len(), 64) {
            Admission::Refuse(_, reason) => reason,
            other => panic!("{other:?}"),
        };
        assert_eq!(refused(&frame(8, 72)), Reason::Oversize);
        assert_eq!(refused(&frame(9, 32)), Reason::Truncated);
        assert_eq!(refused(&frame(u32::MAX, 64)), Reason::Truncated);
        assert_eq!(refused(&[7; 24]), Reason::BadMagic);
        assert_eq!(refused(&[7; 100]), Reason::BadMagic);
        assert_eq!(admission(&frame(0, 24)[..23], 23, 64), Admission::Runt);
        let response = ResponseHeader::reply(&RequestHeader::new(1, 0, 0, 0), 0, 0).to_bytes();
        assert_eq!(admission(&response, 24, 64), Admission::Stray);
        // The wire cut the frame at the slot's length: the true length decides.
        assert!(matches!(admission(&frame(40, 64), 65, 64), Admission::Refuse(_, Reason::Oversize)));
    }

    proptest! {
        #[test]
        fn a_request_is_exactly_what_its_header_says(arg_len in 0_u32..80, len in 0_usize..100, slot in 24_usize..100) {
            let frame = frame(arg_len, 24 + len);
            let seen = &frame[..frame.len().min(slot)];
            let fits = frame.len() <= slot && arg_len as usize <= len;
            match admission(seen, frame.len(), slot) {
                Admission::Request(header, payload) => {
                    prop_assert!(fits);
                    prop_assert_eq!(header.request_id, 2);
                    prop_assert_eq!(payload, &frame[24..24 + arg_len as usize]);
                }
                _ => prop_assert!(!fits),
            }
        }

        #[test]
        fn nothing_panics(bytes in proptest::collection::vec(any::<u8>(), 0..80), more in 0_usize..10) {
            let _ = admission(&bytes, bytes.len() + more, 40);
        }
    }
}

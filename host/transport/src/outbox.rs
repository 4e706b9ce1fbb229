//! Outbox: frames that wait to be sent.

use ringcall_wire::tag::{FrameKey, TAG_BYTES};
use std::collections::VecDeque;

/// A frame for the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outgoing<'a, P> {
    /// The recipient.
    pub to: P,
    /// The slot of the answer; for a caller's request, the slot that the caller suggests.
    pub slot: u32,
    /// Exactly the header and the payload.
    pub bytes: &'a [u8],
}

/// A bounded queue of outgoing frames. They are copies, so a slot is free as soon as its answer is queued. Nothing is
/// allocated after creation.
#[derive(Debug)]
pub struct Outbox<P> {
    entries: VecDeque<Entry<P>>,
    bytes: Box<[u8]>,
    stride: usize,
    capacity: usize,
    next: usize,
    answers: usize,
    key: Option<FrameKey>,
}

#[derive(Debug, Clone, Copy)]
struct Entry<P> {
    to: P,
    slot: u32,
    tag: Tag,
    /// Index of the frame's part of `bytes`.
    frame: usize,
    len: usize,
}

/// Which counters a frame affects when it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tag {
    Answer,
    /// A refusal, which was counted when it was made.
    Refusal,
    /// A caller's request, with its id.
    Request(u32),
}

impl<P: Copy> Outbox<P> {
    /// An outbox for `capacity` frames of up to `frame_bytes`.
    #[must_use]
    pub fn new(capacity: usize, frame_bytes: usize) -> Self {
        Self {
            entries: VecDeque::with_capacity(capacity),
            bytes: vec![0; capacity * frame_bytes].into(),
            stride: frame_bytes,
            capacity,
            next: 0,
            answers: 0,
            key: None,
        }
    }

    /// An outbox for `capacity` frames of up to `frame_bytes`, each followed by its [tag](ringcall_wire::tag) if there
    /// is a key.
    pub(crate) fn sealed(capacity: usize, frame_bytes: usize, key: Option<FrameKey>) -> Self {
        let tag_bytes = if key.is_some() { TAG_BYTES } else { 0 };
        Self { key, ..Self::new(capacity, frame_bytes + tag_bytes) }
    }

    /// The number of frames that still fit.
    #[must_use]
    pub fn room(&self) -> usize {
        self.capacity - self.entries.len()
    }

    /// The number of waiting frames.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn answers(&self) -> usize {
        self.answers
    }

    /// Whether no frame waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The waiting frames, the oldest first.
    pub fn frames(&self) -> impl ExactSizeIterator<Item = Outgoing<'_, P>> {
        self.entries.iter().map(|entry| Outgoing {
            to: entry.to,
            slot: entry.slot,
            bytes: &self.bytes[entry.frame * self.stride..][..entry.len],
        })
    }

    /// Adds a frame, for a wire that sends through another one. Returns false if there is no room or the frame is too
    /// long.
    pub fn add(&mut self, to: P, bytes: &[u8]) -> bool {
        bytes.len() <= self.stride
            && self.push(to, 0, Tag::Refusal, |out| {
                out[..bytes.len()].copy_from_slice(bytes);
                bytes.len()
            })
    }

    /// Removes the first `frames` frames, which were sent.
    pub fn remove(&mut self, frames: usize) {
        for _ in 0..frames {
            self.pop();
        }
    }

    /// Adds a frame that `fill` writes; `fill` returns its length. Returns false, without calling `fill`, if there is
    /// no room.
    pub(crate) fn push(&mut self, to: P, slot: u32, tag: Tag, fill: impl FnOnce(&mut [u8]) -> usize) -> bool {
        if self.room() == 0 {
            return false;
        }
        let frame = self.next;
        self.next = if frame + 1 < self.capacity { frame + 1 } else { 0 };
        let bytes = &mut self.bytes[frame * self.stride..][..self.stride];
        let len = match &self.key {
            None => fill(bytes).min(self.stride),
            Some(key) => {
                let most = self.stride - TAG_BYTES;
                let len = fill(&mut bytes[..most]).min(most);
                key.seal(bytes, len).unwrap_or(len)
            }
        };
        self.answers += usize::from(tag == Tag::Answer);
        self.entries.push_back(Entry { to, slot, tag, frame, len });
        true
    }

    pub(crate) fn pop(&mut self) -> Option<Tag> {
        let tag = self.entries.pop_front()?.tag;
        self.answers -= usize::from(tag == Tag::Answer);
        Some(tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_keep_their_order_and_bytes_around_the_end() {
        let mut outbox = Outbox::new(3, 8);
        let mut expected = VecDeque::new();
        for n in 0_u8..20 {
            let len = usize::from(n % 9);
            assert!(outbox.push(n, u32::from(n), Tag::Answer, |out| {
                out[..len].fill(n);
                len
            }));
            expected.push_back((n, vec![n; len]));
            let seen: VecDeque<_> = outbox.frames().map(|f| (f.to, f.bytes.to_vec())).collect();
            assert_eq!(seen, expected);
            if outbox.room() == 0 {
                assert!(!outbox.push(0, 0, Tag::Answer, |_| unreachable!("no room")));
                assert_eq!(outbox.pop(), Some(Tag::Answer));
                expected.pop_front();
            }
        }
    }
}

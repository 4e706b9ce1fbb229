//! Tags of frames, any sequence of sealing, damage and opening: what opens is byte for byte a frame that was sealed with that key,
//! and was not opened to anybody who did not have it.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use ringcall_wire::tag::{FrameKey, TAG_BYTES};
use ringcall_wire::{HEADER_BYTES, RequestHeader};

#[derive(Arbitrary, Debug)]
enum Step {
    /// A frame by one of the keys, with padding.
    Seal { key: u8, function: u32, payload: Vec<u8>, padding: u8 },
    /// Bytes of a frame that travels are changed.
    Damage { frame: u8, at: u16, by: u8 },
    /// A frame loses its end, or gets one.
    Resize { frame: u8, to: u16 },
    /// Half of one frame, half of another.
    Splice { from: u8, to: u8, at: u16 },
    /// Any bytes.
    Forge { bytes: Vec<u8> },
    /// Somebody tries a key.
    Open { frame: u8, key: u8 },
}

/// Of few keys, so that the right one is tried.
fn key(index: u8) -> FrameKey {
    FrameKey::new([index % 3; FrameKey::BYTES])
}

fuzz_target!(|steps: Vec<Step>| {
    let mut frames: Vec<Vec<u8>> = Vec::new();
    // What was sealed with which key: all that may ever open.
    let mut sealed: Vec<(u8, Vec<u8>)> = Vec::new();
    for step in steps {
        let count = frames.len().max(1);
        let pick = |index: u8| usize::from(index) % count;
        match step {
            Step::Seal { key: index, function, payload, padding } => {
                let mut frame = RequestHeader::new(function, payload.len() as u32, 1, 2).to_bytes().to_vec();
                frame.extend_from_slice(&payload);
                let (covered, padded) = (frame.clone(), frame.len() + usize::from(padding));
                // With room for the tag alone, or for padding as well.
                frame.resize(padded.max(covered.len() + TAG_BYTES), 0);
                let before = padded.min(frame.len());
                let len = key(index).seal(&mut frame, before).expect("there is room");
                assert_eq!(len, frame.len());
                assert_eq!(key(index).open(&frame), Some(&covered[..]));
                sealed.push((index % 3, covered));
                frames.push(frame);
            }
            Step::Damage { frame, at, by } => {
                let index = pick(frame);
                if let Some(byte) = frames.get_mut(index).and_then(|frame| frame.get_mut(usize::from(at))) {
                    *byte ^= by;
                }
            }
            Step::Resize { frame, to } => {
                let index = pick(frame);
                if let Some(frame) = frames.get_mut(index) {
                    frame.resize(usize::from(to % 512), 0);
                }
            }
            Step::Splice { from, to, at } => {
                let (from, to) = (pick(from), pick(to));
                if let Some(source) = frames.get(from).cloned() {
                    let at = usize::from(at).min(source.len()).min(frames[to].len());
                    frames[to].truncate(at);
                    frames[to].extend_from_slice(&source[at..]);
                }
            }
            Step::Forge { bytes } => frames.push(bytes),
            Step::Open { frame, key: index } => {
                let Some(frame) = frames.get(pick(frame)) else { continue };
                if let Some(opened) = key(index).open(frame) {
                    assert!(opened.len() >= HEADER_BYTES);
                    let known = sealed.iter().any(|(by, bytes)| *by == index % 3 && bytes == opened);
                    assert!(known, "a frame that nobody sealed opens");
                }
            }
        }
        frames.truncate(16);
    }
});

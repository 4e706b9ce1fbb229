//! `--tag-key`: the key that authenticates frames.

use clap::Args as ClapArgs;
use ringcall_wire::tag::{FrameKey, NoKey, TAG_BYTES};
use std::fs::File;
use std::io::Read;
use std::str::FromStr;

/// The key, from a file or the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TagKey(FrameKey);

/// The option for tagged frames, for both ends.
#[derive(Debug, Clone, Copy, ClapArgs)]
pub(crate) struct TagArgs {
    /// The key of 16 bytes that both sides tag each frame with; frames without their tag are counted (wrong_tag) and not
    /// answered. FILE has the 16 bytes, or 32 hexadecimal digits; digits given here instead are seen by every user of this
    /// machine [default: no tags]
    #[arg(long, value_name = "FILE|HEX")]
    tag_key: Option<TagKey>,
}

impl TagArgs {
    pub(crate) const FIELDS: [&'static str; 1] = ["tag_key"];

    pub(crate) fn key(&self) -> Option<FrameKey> {
        self.tag_key.map(|TagKey(key)| key)
    }

    /// Bytes that the tag adds to each frame.
    pub(crate) const fn bytes(&self) -> usize {
        if self.tag_key.is_some() { TAG_BYTES } else { 0 }
    }
}

impl FromStr for TagKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(key) = text.parse() {
            return Ok(Self(key));
        }
        // A key, its digits or a little more: an endless file is not a key.
        let mut bytes = Vec::new();
        File::open(text)
            .and_then(|file| file.take(64).read_to_end(&mut bytes))
            .map_err(|error| format!("no 32 hexadecimal digits, nor a file that can be read: {error}"))?;
        if let Ok(bytes) = <[u8; FrameKey::BYTES]>::try_from(&*bytes) {
            return Ok(Self(FrameKey::new(bytes)));
        }
        let digits = str::from_utf8(&bytes).map_err(|_| NoKey.to_string())?;
        digits.trim().parse().map(Self).map_err(|error: NoKey| format!("the file {text}: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGITS: &str = "000102030405060708090a0b0c0d0e0f";

    #[test]
    fn a_key_is_digits_or_a_file_with_bytes_or_digits() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let key = Ok(TagKey(DIGITS.parse().unwrap()));
        assert_eq!(DIGITS.parse(), key);
        let bytes: Vec<u8> = (0..16).collect();
        for content in [&bytes[..], DIGITS.as_bytes(), format!("{DIGITS}\n").as_bytes()] {
            std::fs::write(&path, content).unwrap();
            assert_eq!(path.to_str().unwrap().parse(), key);
        }
        for content in [&[][..], &[0xff; 15], &[0xff; 32], &[b'0'; 64], b"not a key"] {
            std::fs::write(&path, content).unwrap();
            assert!(path.to_str().unwrap().parse::<TagKey>().is_err(), "{content:?}");
        }
        assert!("/dev/zero".parse::<TagKey>().is_err() && "nowhere".parse::<TagKey>().is_err());
    }
}

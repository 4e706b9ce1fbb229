//! Registered memory: which bytes a key opens, under which addresses.

use ringcall_gpu::shared::Bytes;

/// One registered region.
#[derive(Debug, Clone)]
pub struct Region {
    /// Its key, for this side and for the peer.
    pub key: u32,
    /// The address of its first byte, as requests name it.
    pub base: u64,
    /// Its bytes.
    pub window: Bytes,
    /// Whether the peer may write.
    pub remote_write: bool,
}

/// An access that the NIC refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// No region has this key.
    Key(u32),
    /// The bytes are not all in the region.
    Bounds,
    /// The peer may not write there.
    Access,
}

/// All registered regions of a NIC.
#[derive(Debug, Clone, Default)]
pub struct Memory(Vec<Region>);

impl Memory {
    /// These regions. Where two have one key, the first counts.
    #[must_use]
    pub fn new(regions: Vec<Region>) -> Self {
        Self(regions)
    }

    fn locate(&self, key: u32, address: u64, len: usize) -> Result<(&Region, usize), Refused> {
        let region = self.0.iter().find(|region| region.key == key).ok_or(Refused::Key(key))?;
        let offset = address.checked_sub(region.base).and_then(|offset| usize::try_from(offset).ok());
        let end = offset.and_then(|offset| offset.checked_add(len));
        match (offset, end) {
            (Some(offset), Some(end)) if end <= region.window.len() => Ok((region, offset)),
            _ => Err(Refused::Bounds),
        }
    }

    /// Reads from wherever this side may: everywhere.
    pub(crate) fn read(&self, key: u32, address: u64, len: usize) -> Result<Vec<u8>, Refused> {
        let (region, offset) = self.locate(key, address, len)?;
        let skip = offset % 8;
        let mut bytes = vec![0; skip + len];
        if !region.window.read(offset - skip, &mut bytes) {
            return Err(Refused::Bounds);
        }
        bytes.drain(..skip);
        Ok(bytes)
    }

    /// Writes a message. Bytes beside it in its first and last word keep their value; they have no other writer.
    pub(crate) fn write(&self, key: u32, address: u64, data: &[u8], by_peer: bool) -> Result<(), Refused> {
        let (region, offset) = self.locate(key, address, data.len())?;
        if by_peer && !region.remote_write {
            return Err(Refused::Access);
        }
        let skip = offset % 8;
        let written = if skip == 0 {
            region.window.write(offset, data)
        } else {
            let mut bytes = vec![0; skip];
            let read = region.window.read(offset - skip, &mut bytes);
            bytes.extend_from_slice(data);
            read && region.window.write(offset - skip, &bytes)
        };
        if written { Ok(()) } else { Err(Refused::Bounds) }
    }
}

//! The network to run: the user's file, or the built-in network.

use anyhow::{Context, Result};
use ringcall_infer::onnx_file::OnnxFile;
use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

/// The network that runs by default: compiled in, so that a command needs no file.
pub(crate) const COMMITTED: &[u8] = include_bytes!("../../../../training/models/predecoder_3x128_int8.onnx");
pub(crate) const COMMITTED_NAME: &str = "predecoder_3x128_int8";

/// An ONNX file, read once.
#[derive(Debug, Clone)]
pub(crate) struct NetworkFile {
    name: String,
    bytes: Cow<'static, [u8]>,
    /// `None`: the committed one.
    path: Option<PathBuf>,
}

impl NetworkFile {
    /// The file at `path`, or the network that is built in.
    pub(crate) fn read(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else {
            return Ok(Self { name: COMMITTED_NAME.to_owned(), bytes: Cow::Borrowed(COMMITTED), path: None });
        };
        let bytes =
            std::fs::read(path).with_context(|| format!("cannot read the model {}", path.display()))?;
        let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Ok(Self { name, bytes: Cow::Owned(bytes), path: Some(path.to_owned()) })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Metadata of an ONNX file; none of an engine, or of a file that no engine accepts.
    pub(crate) fn metadata(&self) -> Vec<(String, String)> {
        OnnxFile::read(&self.bytes).map_or_else(|_| Vec::new(), |file| file.metadata)
    }

    /// The file's path if it is an engine that was built before.
    pub(crate) fn engine(&self) -> Option<&Path> {
        self.path.as_deref().filter(|path| {
            path.extension().is_some_and(|extension| extension == "engine" || extension == "plan")
        })
    }

    /// The file's name, length and checksum, which identify it wherever it is.
    pub(crate) fn fingerprint(&self) -> String {
        format!("{} ({} bytes, crc32 {:08x})", self.name, self.bytes.len(), crc32fast::hash(&self.bytes))
    }
}

/// As a report or an error names it.
impl fmt::Display for NetworkFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => path.display().fmt(f),
            None => write!(f, "{}, built in", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_network_that_is_built_in_is_the_committed_file() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../training/models/predecoder_3x128_int8.onnx");
        let [read, built_in] = [Some(Path::new(file)), None].map(|path| NetworkFile::read(path).unwrap());
        // A study begun with one continues with the other.
        assert_eq!(built_in.fingerprint(), read.fingerprint());
        assert_eq!((built_in.name(), built_in.bytes()), (read.name(), read.bytes()));
        assert_eq!(built_in.to_string(), "predecoder_3x128_int8, built in");
        assert_eq!(read.to_string(), file);
    }
}

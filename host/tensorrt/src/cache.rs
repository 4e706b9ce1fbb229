//! Cache of plans between runs, keyed by the plans' inputs.

use crate::folder::{self, Key};
use crate::{BuildOptions, Builder, Library, Plan, TensorRtError};
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::Device;
use std::fmt::Write;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Of a file with a plan.
const MAGIC: &[u8; 16] = b"ringcall plan 1\n";
/// No key is longer than this.
const MOST_KEY_BYTES: usize = 1 << 20;

/// A GPU, as far as plans differ by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// Its name, such as `NVIDIA H200`.
    pub name: String,
    /// Its compute capability, as (major, minor).
    pub capability: (u32, u32),
}

impl Gpu {
    /// This device.
    ///
    /// # Errors
    /// The driver does not say.
    pub fn of(device: &Device) -> Result<Self, CudaError> {
        Ok(Self { name: device.name()?, capability: device.capability() })
    }
}

/// Where a plan came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// It was kept.
    Kept,
    /// It was built now, since none was kept.
    Built,
    /// It was built now, since the kept plan is damaged, or TensorRT refused it.
    Rebuilt {
        /// The defect.
        why: String,
    },
}

/// A plan and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cached {
    /// The plan.
    pub plan: Plan,
    /// Where it came from.
    pub found: Found,
    /// Why it could not be kept for the next time: the disk is full, say. A plan is a plan, kept or not.
    pub not_kept: Option<String>,
}

/// A folder of plans. The key of each is the model's SHA-256, the TensorRT version, the GPU and every option; the plan lies
/// beside it with a SHA-256 of its own, so that a damaged file is found out, and built again.
///
/// Several processes may use one folder at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// This folder, made if need be.
    ///
    /// # Errors
    /// [`TensorRtError::Folder`]: it cannot be made, or others may write it.
    pub fn at(folder: impl Into<PathBuf>) -> Result<Self, TensorRtError> {
        let folder = folder.into();
        folder::prepare(&folder)?;
        Ok(Self { folder })
    }

    /// The user's: `$RINGCALL_CACHE/plans`, or below `$XDG_CACHE_HOME/ringcall` or `~/.cache/ringcall`.
    ///
    /// # Errors
    /// As for [`at`](Self::at).
    pub fn user() -> Result<Self, TensorRtError> {
        Self::at(folder::user("plans")?)
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The plan for a model, from the folder or built now. `gpu` is the one it is built on; none for plans that name their
    /// compute capabilities.
    ///
    /// # Errors
    /// As for [`Builder::parse`] and [`Builder::build`]. That a plan cannot be kept is no error.
    pub fn plan(
        &self,
        library: &Library,
        model: &str,
        onnx: &[u8],
        options: &BuildOptions,
        gpu: Option<&Gpu>,
    ) -> Result<Cached, TensorRtError> {
        let key = key(&library.version().to_string(), onnx, options, gpu);
        let found = match self.read(&key) {
            Ok(Some(plan)) => {
                return Ok(Cached { plan: Plan::from_bytes(plan), found: Found::Kept, not_kept: None });
            }
            Ok(None) => Found::Built,
            Err(why) => Found::Rebuilt { why },
        };
        let plan = Builder::parse(library, model, onnx, options)?.build()?;
        let not_kept = self.write(&key, plan.as_bytes()).err().map(|why| why.to_string());
        Ok(Cached { plan, found, not_kept })
    }

    /// Forgets the plan for a model: TensorRT refuses the kept plan, say.
    pub(crate) fn forget(&self, library: &Library, onnx: &[u8], options: &BuildOptions, gpu: Option<&Gpu>) {
        // One that is gone, or cannot be removed, is written over.
        let _ = fs::remove_file(self.path(&key(&library.version().to_string(), onnx, options, gpu)));
    }

    fn path(&self, key: &str) -> PathBuf {
        let mut hash = Key::default();
        hash.add("plan", key.as_bytes());
        self.folder.join(format!("{}.plan", hash.finish()))
    }

    /// The plan kept for a key; its fault, should it be damaged.
    fn read(&self, key: &str) -> Result<Option<Vec<u8>>, String> {
        let path = self.path(key);
        match fs::read(&path) {
            Err(why) if why.kind() == ErrorKind::NotFound => Ok(None),
            Err(why) => Err(format!("{}: {why}", path.display())),
            Ok(bytes) => unpack(bytes, key).map(Some).map_err(|why| format!("{}: {why}", path.display())),
        }
    }

    fn write(&self, key: &str, plan: &[u8]) -> std::io::Result<()> {
        folder::write(&self.path(key), &[&head(key, plan), plan])
    }
}

/// The inputs of a plan, in lines.
fn key(version: &str, onnx: &[u8], options: &BuildOptions, gpu: Option<&Gpu>) -> String {
    let mut text = format!("model: {}\nlibrary: {version}\n", folder::hex(&folder::digest(onnx)));
    // Writing into a string does not fail.
    let _ = match gpu {
        Some(Gpu { name, capability: (major, minor) }) => writeln!(text, "gpu: {name:?} {major}.{minor}"),
        None => writeln!(text, "gpu: none"),
    };
    text + &options.lines()
}

/// Magic, key with its length, length and SHA-256 of the plan. Numbers are little-endian.
fn head(key: &str, plan: &[u8]) -> Vec<u8> {
    let mut head = MAGIC.to_vec();
    head.extend((key.len() as u64).to_le_bytes());
    head.extend(key.as_bytes());
    head.extend((plan.len() as u64).to_le_bytes());
    head.extend(folder::digest(plan));
    head
}

/// Checks a file and takes the plan out of it.
fn unpack(mut bytes: Vec<u8>, key: &str) -> Result<Vec<u8>, &'static str> {
    const CUT: &str = "it is cut short";
    let rest = bytes.strip_prefix(MAGIC).ok_or("it is no file of plans of this version")?;
    let (length, rest) = rest.split_first_chunk::<8>().ok_or(CUT)?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok().filter(|length| *length <= MOST_KEY_BYTES);
    let (kept, rest) = rest.split_at_checked(length.ok_or("its key is too long")?).ok_or(CUT)?;
    if kept != key.as_bytes() {
        return Err("it is of something else");
    }
    let (length, rest) = rest.split_first_chunk::<8>().ok_or(CUT)?;
    let (digest, plan) = rest.split_first_chunk::<32>().ok_or(CUT)?;
    if u64::from_le_bytes(*length) != plan.len() as u64 {
        return Err("its length is not what it says");
    }
    if folder::digest(plan) != *digest {
        return Err("its contents are not what they were");
    }
    let start = bytes.len() - plan.len();
    Ok(bytes.split_off(start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cache() -> (tempfile::TempDir, Cache) {
        let home = tempfile::tempdir().expect("a folder");
        let cache = Cache::at(home.path().join("plans")).expect("made");
        (home, cache)
    }

    #[test]
    fn what_is_kept_comes_back_and_damage_is_found_out_at_every_byte() {
        let (_home, cache) = cache();
        assert_eq!(cache.read("key"), Ok(None));
        cache.write("key", b"a plan").expect("written");
        assert_eq!(cache.read("key"), Ok(Some(b"a plan".to_vec())));
        assert_eq!(cache.read("other"), Ok(None));

        let path = cache.path("key");
        let whole = fs::read(&path).expect("there");
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&path, damaged).expect("written");
            assert!(cache.read("key").is_err(), "byte {at}");
            fs::write(&path, &whole[..at]).expect("written");
            assert!(cache.read("key").is_err(), "cut at {at}");
        }
        fs::write(&path, [&whole[..], b"!"].concat()).expect("written");
        assert!(cache.read("key").expect_err("longer").contains("its length is not what it says"));
        fs::rename(&path, cache.path("other")).expect("moved");
        assert!(cache.read("other").expect_err("foreign").contains("it is of something else"));
    }

    #[test]
    fn model_version_and_gpu_make_the_key() {
        let options = BuildOptions::new();
        let h200 = Gpu { name: "NVIDIA H200".to_owned(), capability: (9, 0) };
        let h100 = Gpu { name: "NVIDIA H100".to_owned(), ..h200.clone() };
        let other = Gpu { capability: (9, 1), ..h200.clone() };
        let mut keys = vec![
            key("TensorRT 11.4.0.106", b"m", &options, Some(&h200)),
            key("TensorRT 11.4.0.107", b"m", &options, Some(&h200)),
            key("TensorRT 11.4.0.106", b"n", &options, Some(&h200)),
            key("TensorRT 11.4.0.106", b"m", &options, Some(&h100)),
            key("TensorRT 11.4.0.106", b"m", &options, Some(&other)),
            key("TensorRT 11.4.0.106", b"m", &options, None),
            key("TensorRT 11.4.0.106", b"m", &options.clone().with_symbol("a", 1), None),
        ];
        let all = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), all);
    }

    proptest! {
        #[test]
        fn any_file_is_read_or_refused(bytes: Vec<u8>, prefix: bool) {
            let bytes = if prefix { [&MAGIC[..], &bytes].concat() } else { bytes };
            prop_assert!(unpack(bytes, "key").is_err());
        }
    }
}

//! The shared library.

use ort::LoadDynamicError;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The environment variable that names the library where no path is given.
pub const LIBRARY_VARIABLE: &str = "ORT_DYLIB_PATH";
/// The oldest release that will do is 1 point this.
pub const OLDEST_MINOR: u32 = ort::MINOR_VERSION;
/// The library name that the system is asked for by default.
const LIBRARY: &str = "libonnxruntime.so";

/// Why ONNX Runtime is not there.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// It could not be loaded.
    #[error(
        "cannot load ONNX Runtime from `{}`: {reason}. Name its library by path or in {LIBRARY_VARIABLE}: it comes with \
         its releases, and with `pip install onnxruntime` as capi/libonnxruntime.so.*",
        path.display()
    )]
    Absent {
        /// Where it was looked for.
        path: PathBuf,
        /// The loader's own words.
        reason: String,
    },
    /// Another library, or one that is too old.
    #[error("`{}` is no ONNX Runtime from 1.{OLDEST_MINOR} on: {reason}", path.display())]
    Unusable {
        /// The library.
        path: PathBuf,
        /// The version that the library reports, or the error of loading it.
        reason: String,
    },
    /// It was tried before, and failed: a process has one attempt.
    #[error("ONNX Runtime can be loaded once in a process, and that has failed: {0}")]
    Earlier(Box<RuntimeError>),
    /// Another one is in use: a process has one.
    #[error("ONNX Runtime is loaded from `{}` already, and cannot be from `{}` as well", loaded.display(), asked.display())]
    Another {
        /// In use.
        loaded: PathBuf,
        /// Asked for.
        asked: PathBuf,
    },
}

/// ONNX Runtime, loaded for the rest of the process.
#[derive(Debug, Clone)]
pub struct Runtime {
    path: PathBuf,
}

/// What came of loading it. The library below takes a failed attempt for a good one when it is asked again, so it is not:
/// nothing else in this workspace asks.
static LOADED: Mutex<Option<Result<PathBuf, RuntimeError>>> = Mutex::new(None);

impl Runtime {
    /// Loads it from `library`, or else from where [`LIBRARY_VARIABLE`] says, or else by the name `libonnxruntime.so`.
    ///
    /// # Errors
    /// It is not there, too old, or another one is loaded; or it failed before, in this process.
    pub fn load(library: Option<&Path>) -> Result<Self, RuntimeError> {
        let variable =
            || std::env::var_os(LIBRARY_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
        let asked = library.map(Path::to_owned).or_else(variable).unwrap_or_else(|| LIBRARY.into());
        // A file of this folder by its path; a bare name is the system's to find.
        let path = if asked.is_file() { asked.canonicalize().unwrap_or(asked) } else { asked };
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        match &*loaded {
            Some(Ok(loaded)) if *loaded == path => return Ok(Self { path }),
            Some(Ok(loaded)) => return Err(RuntimeError::Another { loaded: loaded.clone(), asked: path }),
            Some(Err(error)) => return Err(RuntimeError::Earlier(Box::new(error.clone()))),
            None => {}
        }
        let environment = ort::init_from(&path).map_err(|error| match error {
            LoadDynamicError::Dlopen { error, path } => {
                RuntimeError::Absent { path, reason: error.to_string() }
            }
            other => RuntimeError::Unusable { path: path.clone(), reason: other.to_string() },
        });
        let environment = match environment {
            Ok(environment) => environment,
            Err(error) => {
                *loaded = Some(Err(error.clone()));
                return Err(error);
            }
        };
        *loaded = Some(Ok(path.clone()));
        environment.with_name("ringcall").with_telemetry(false).commit();
        Ok(Self { path })
    }

    /// What was loaded.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The library's build information.
    #[must_use]
    pub fn build(&self) -> &'static str {
        ort::info()
    }
}

//! A loaded TensorRT.

use crate::ffi::Loaded;
use crate::{Message, Search, TensorRtError, Version, search, shim};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// TensorRT, loaded, with a shim that speaks its version. A cheap handle; a loaded library stays so until the
/// process ends.
#[derive(Debug, Clone, Copy)]
pub struct Library {
    loaded: &'static Loaded,
}

/// Loaded libraries, by library and shim.
static OPEN: Mutex<Vec<((PathBuf, PathBuf), &'static Loaded)>> = Mutex::new(Vec::new());

impl Library {
    /// Finds the library, then headers that fit it, and compiles the shim unless one for the same headers and compiler is
    /// kept already (see [`Search`]).
    ///
    /// Two processes may do so at once. The compiler takes seconds, at the first use alone.
    ///
    /// # Errors
    /// No library, none that can be used, no headers that fit, no compiler, headers that do not compile, or a cache folder
    /// that cannot be used: each says what to install or set.
    pub fn open(search: &Search) -> Result<Self, TensorRtError> {
        let library = search.library()?;
        let (headers, _) = search.headers(library.version)?;
        let parser = if library.builds() { search::parser(&library.path, library.version) } else { None };
        let shim = shim::compiled(search, &headers, false)?;
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (library.path.clone(), shim.clone());
        if let Some((_, loaded)) = open.iter().find(|(other, _)| *other == key) {
            return Ok(Self { loaded });
        }
        let path = library.path.clone();
        let unusable = |why: String| TensorRtError::LibraryUnusable { path: path.clone(), why };
        let loaded = match Loaded::join(library, parser.as_deref(), &shim) {
            Ok(loaded) => loaded,
            // The kept file may be damaged: once more, from the source.
            Err(_) => {
                let shim = shim::compiled(search, &headers, true)?;
                Loaded::join(search.library()?, parser.as_deref(), &shim).map_err(unusable)?
            }
        };
        let loaded: &'static Loaded = Box::leak(Box::new(loaded));
        open.push((key, loaded));
        Ok(Self { loaded })
    }

    /// What the library says it is.
    #[must_use]
    pub fn version(&self) -> Version {
        self.loaded.version
    }

    /// Of the headers that the shim was compiled with.
    #[must_use]
    pub fn headers(&self) -> Version {
        self.loaded.headers
    }

    /// The file, or the name that the dynamic linker found it by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.loaded.path
    }

    /// Whether it makes plans; otherwise it is a lean runtime, or has no parser beside it.
    #[must_use]
    pub fn builds(&self) -> bool {
        self.loaded.builds
    }

    /// Its last warnings and errors, from every thread, oldest first.
    #[must_use]
    pub fn messages(&self) -> Vec<Message> {
        self.loaded.log.messages()
    }

    pub(crate) fn loaded(&self) -> &'static Loaded {
        self.loaded
    }
}

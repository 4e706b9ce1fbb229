//! A shared library with deq's interface, and a handle of its.
#![allow(unsafe_code)] // named for it: code of a shared library

use super::PluginError;
use core::ffi::{CStr, c_void};
use deq_decoder_abi::interface::{
    ABI_VERSION, AbiVersionFn, CapabilitiesFn, CreateFn, CreateWithObservablesFn,
    DEQ_DECODER_CAPABILITY_LOSS, DEQ_DECODER_CAPABILITY_OBSERVABLES, DEQ_DECODER_CAPABILITY_REWEIGHTS,
    DEQ_DECODER_CAPABILITY_SEED, DecodeFn, DecodeRequestFn, DeqDecoderObservableFlips, DestroyFn,
    LastErrorFn, STATUS_BUFFER_TOO_SMALL, STATUS_OK,
};
use std::error::Error;
use std::ffi::CString;
use std::path::Path;
use std::sync::Arc;

const KNOWN: u64 = DEQ_DECODER_CAPABILITY_SEED
    | DEQ_DECODER_CAPABILITY_REWEIGHTS
    | DEQ_DECODER_CAPABILITY_LOSS
    | DEQ_DECODER_CAPABILITY_OBSERVABLES;

/// A plug-in that is loaded: its functions. Cheap to clone.
///
/// It stays loaded until the process ends: threads that called it may hold memory of its. Loading runs the library's initialisers;
/// the user who names a library trusts it as a dependency.
#[derive(Debug, Clone)]
pub struct Library(Arc<Functions>);

#[derive(Debug)]
struct Functions {
    name: String,
    create: CreateFn,
    create_with_observables: Option<CreateWithObservablesFn>,
    decode: DecodeFn,
    destroy: DestroyFn,
    last_error: LastErrorFn,
}

impl Library {
    /// Loads the library of this file; if there is no such file, the library that the dynamic linker finds by the name.
    ///
    /// # Errors
    /// [`PluginError::Load`], [`PluginError::Symbol`], [`PluginError::Version`], [`PluginError::Capabilities`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, PluginError> {
        use libloading::os::unix::{Library as Opened, RTLD_LOCAL, RTLD_NOW};
        let path = path.as_ref();
        let name = path.display().to_string();
        let load = |reason: String| PluginError::Load { library: name.clone(), reason };
        if path.as_os_str().is_empty() {
            return Err(load("it has no name".to_owned()));
        }
        if path.is_dir() {
            return Err(load("it is a folder".to_owned()));
        }
        // The dynamic linker takes a name without a slash for one in its own folders.
        let found = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        // SAFETY: its initialisers run; that is what loading means, and the caller has asked for it.
        let library = unsafe { Opened::open(Some(&found), RTLD_NOW | RTLD_LOCAL) };
        let library =
            library.map_err(|e| load(e.source().map_or_else(|| e.to_string(), ToString::to_string)))?;
        let lacks = |symbol| PluginError::Symbol { library: name.clone(), symbol };

        const VERSION: &str = "deq_decoder_abi_version";
        // SAFETY: the symbol has this type, by the interface.
        let version =
            unsafe { library.get::<AbiVersionFn>(VERSION.as_bytes()) }.map_err(|_| lacks(VERSION))?;
        // SAFETY: takes nothing.
        let found = unsafe { version() };
        if found != ABI_VERSION {
            return Err(PluginError::Version { library: name, found, expected: ABI_VERSION });
        }
        const CREATE: &str = "deq_decoder_create";
        // SAFETY: the symbol has this type in libraries of this version.
        let create = *unsafe { library.get::<CreateFn>(CREATE.as_bytes()) }.map_err(|_| lacks(CREATE))?;
        const DECODE: &str = "deq_decoder_decode";
        // SAFETY: as above.
        let decode = *unsafe { library.get::<DecodeFn>(DECODE.as_bytes()) }.map_err(|_| lacks(DECODE))?;
        const DESTROY: &str = "deq_decoder_destroy";
        // SAFETY: as above.
        let destroy = *unsafe { library.get::<DestroyFn>(DESTROY.as_bytes()) }.map_err(|_| lacks(DESTROY))?;
        const ERROR: &str = "deq_decoder_last_error";
        // SAFETY: as above.
        let last_error =
            *unsafe { library.get::<LastErrorFn>(ERROR.as_bytes()) }.map_err(|_| lacks(ERROR))?;

        const CAPABILITIES: &str = "deq_decoder_capabilities";
        // SAFETY: as above.
        let capabilities = unsafe { library.get::<CapabilitiesFn>(CAPABILITIES.as_bytes()) }.ok().map(|f| *f);
        const REQUEST: &str = "deq_decoder_decode_request";
        // SAFETY: as above.
        let has_request = unsafe { library.get::<DecodeRequestFn>(REQUEST.as_bytes()) }.is_ok();
        let capabilities = match (capabilities, has_request) {
            // SAFETY: takes nothing.
            (Some(capabilities), true) => unsafe { capabilities() },
            (None, false) => 0,
            (Some(_), false) => return Err(lacks(REQUEST)),
            (None, true) => return Err(lacks(CAPABILITIES)),
        };
        if capabilities & !KNOWN != 0 {
            let unknown = capabilities & !KNOWN;
            return Err(PluginError::Capabilities { library: name, unknown, version: ABI_VERSION });
        }
        let mut create_with_observables = None;
        if capabilities & DEQ_DECODER_CAPABILITY_OBSERVABLES != 0 {
            const WITH: &str = "deq_decoder_create_with_observables";
            // SAFETY: as above.
            let with = unsafe { library.get::<CreateWithObservablesFn>(WITH.as_bytes()) };
            create_with_observables = Some(*with.map_err(|_| lacks(WITH))?);
        }
        // From here on it is used: it stays.
        std::mem::forget(library);
        Ok(Self(Arc::new(Functions { name, create, create_with_observables, decode, destroy, last_error })))
    }

    /// What it was called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    pub(super) fn refused(&self, reason: String) -> PluginError {
        PluginError::Refused { library: self.name().to_owned(), reason }
    }

    /// What the library says of the call before, which gave this status.
    fn said(&self, status: i32) -> String {
        // SAFETY: takes nothing; asked by the thread that made the call.
        let message = unsafe { (self.0.last_error)() };
        if message.is_null() {
            return format!("it gives status {status}, and no reason");
        }
        // SAFETY: not null, and ends in a NUL until the next call of this thread, by the interface.
        let message = unsafe { CStr::from_ptr(message) };
        format!("{} (status {status})", message.to_string_lossy())
    }
}

/// The errors of a model in the lists that the interface has.
#[derive(Debug, Default)]
pub(super) struct Lists {
    pub(super) vertices: u64,
    pub(super) probabilities: Vec<f64>,
    pub(super) offsets: Vec<u64>,
    pub(super) members: Vec<u64>,
    pub(super) flip_ends: Vec<usize>,
    pub(super) flips: Vec<u64>,
    pub(super) config: CString,
}

/// A decoder of a library's; destroyed when it is dropped.
#[derive(Debug)]
pub(super) struct Handle {
    library: Library,
    handle: *mut c_void,
    syndrome_bits: u64,
    /// Room for every error there is.
    answer: Vec<u64>,
}

// SAFETY: any thread may call a handle, one at a time: calls take it by `&mut`.
unsafe impl Send for Handle {}

impl Handle {
    pub(super) fn create(library: &Library, lists: &Lists) -> Result<Self, PluginError> {
        let edges = lists.probabilities.len();
        let mut begin = 0;
        let flips: Vec<DeqDecoderObservableFlips> = lists
            .flip_ends
            .iter()
            .map(|&end| {
                let indices = &lists.flips[begin..end];
                begin = end;
                DeqDecoderObservableFlips {
                    known: true,
                    indices: indices.as_ptr(),
                    index_count: indices.len(),
                }
            })
            .collect();
        let mut handle: *mut c_void = core::ptr::null_mut();
        let functions = &*library.0;
        let status = match functions.create_with_observables {
            // SAFETY: a function of the library's; the lists are as long as is said, and live until it returns.
            Some(create) => unsafe {
                create(
                    lists.vertices,
                    edges as u64,
                    lists.probabilities.as_ptr(),
                    lists.offsets.as_ptr(),
                    lists.members.as_ptr(),
                    lists.members.len(),
                    flips.as_ptr(),
                    lists.config.as_ptr(),
                    &raw mut handle,
                )
            },
            // SAFETY: as above.
            None => unsafe {
                (functions.create)(
                    lists.vertices,
                    edges as u64,
                    lists.probabilities.as_ptr(),
                    lists.offsets.as_ptr(),
                    lists.members.as_ptr(),
                    lists.members.len(),
                    lists.config.as_ptr(),
                    &raw mut handle,
                )
            },
        };
        if status != STATUS_OK {
            return Err(library.refused(library.said(status)));
        }
        if handle.is_null() {
            return Err(library.refused("it made a decoder that is null".to_owned()));
        }
        let library = library.clone();
        Ok(Self { library, handle, syndrome_bits: lists.vertices, answer: vec![0; edges.max(1)] })
    }

    /// The errors that explain a syndrome, most significant bit first.
    pub(super) fn decode(&mut self, syndrome: &[u8]) -> Result<&[u64], String> {
        let room = self.answer.len();
        let mut count = 0;
        // SAFETY: a function of the library's, on a live handle that no other thread has; the lists are as long as is said.
        let status = unsafe {
            (self.library.0.decode)(
                self.handle,
                self.syndrome_bits,
                syndrome.as_ptr(),
                syndrome.len(),
                self.answer.as_mut_ptr(),
                room,
                &raw mut count,
            )
        };
        match status {
            STATUS_OK if count <= room => Ok(&self.answer[..count]),
            STATUS_OK | STATUS_BUFFER_TOO_SMALL => {
                Err(format!("its answer has {count} errors, and the model {room}"))
            }
            _ => Err(self.library.said(status)),
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: a live handle, destroyed once.
        unsafe { (self.library.0.destroy)(self.handle) };
    }
}

//! A library and its shim, in memory.

use super::{Log, sys, text};
use crate::{TensorRtError, Version};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::c_void;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// The first errors name the fault; what follows, follows.
const MOST_LINES: usize = 6;

type Factory = unsafe extern "C" fn(*mut c_void, i32) -> *mut c_void;
type ParserFactory = unsafe extern "C" fn(*mut c_void, *mut c_void, i32) -> *mut c_void;

/// TensorRT's own library, before headers for it are looked for.
pub(crate) struct RawLibrary {
    pub(crate) path: PathBuf,
    pub(crate) version: Version,
    builder: Option<Factory>,
    runtime: Option<Factory>,
    library: Library,
}

impl RawLibrary {
    /// Loads it and asks for its version.
    pub(crate) fn open(path: &Path) -> Result<Self, TensorRtError> {
        let unusable = |why: String| TensorRtError::LibraryUnusable { path: path.to_owned(), why };
        let library = load(path).map_err(unusable)?;
        let mut numbers = [0; 4];
        for (number, part) in numbers.iter_mut().zip(["Major", "Minor", "Patch", "Build"]) {
            let name = format!("getInferLib{part}Version");
            // SAFETY: the function of this name takes nothing and gives an int, in every release that has it.
            let ask =
                unsafe { library.get::<unsafe extern "C" fn() -> i32>(name.as_bytes()) }.map_err(|_| {
                    unusable(format!("it is no TensorRT 10 or later, nor TensorRT-RTX: it has no {name}"))
                })?;
            // SAFETY: as above.
            *number = unsafe { ask() }.max(0).unsigned_abs();
        }
        let version = Version::of_library(numbers).ok_or_else(|| {
            unusable(format!("it is of version {}.{}: TensorRT 10 is the oldest", numbers[0], numbers[1]))
        })?;
        let factory = |name: &[u8]| {
            // SAFETY: TensorRT's factories have this signature.
            unsafe { library.get::<Factory>(name) }.ok().map(|symbol| *symbol)
        };
        let (builder, runtime) =
            (factory(b"createInferBuilder_INTERNAL"), factory(b"createInferRuntime_INTERNAL"));
        Ok(Self { path: path.to_owned(), version, builder, runtime, library })
    }

    /// Whether it makes plans, given a parser.
    pub(crate) fn builds(&self) -> bool {
        self.builder.is_some()
    }
}

fn load(path: &Path) -> Result<Library, String> {
    // SAFETY: a library that the user names or has installed: its initialisers run, as they would if it were linked.
    unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map_err(|why| why.to_string())
}

/// A library with its shim, for the rest of the process: TensorRT keeps threads, and the first logger it is given.
pub(crate) struct Loaded {
    pub(crate) path: PathBuf,
    pub(crate) version: Version,
    /// Of the headers that the shim was compiled with.
    pub(crate) headers: Version,
    /// Whether plans can be made with it.
    pub(crate) builds: bool,
    pub(crate) log: &'static Log,
    pub(super) shim: sys::Shim,
    pub(super) raw: *mut sys::ringcall_trt_library,
    _libraries: Vec<Library>,
}

// SAFETY: the library's handle may be used from any thread, says `shim.h`; the rest is shared by nature.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}

impl Loaded {
    /// Joins them. What goes wrong is the shim file's fault, and said in words.
    pub(crate) fn join(library: RawLibrary, parser: Option<&Path>, shim: &Path) -> Result<Self, String> {
        // SAFETY: a file that this crate compiled, in a folder that no other agent may write.
        let shim = unsafe { sys::Shim::new(shim) }.map_err(|why| why.to_string())?;
        // SAFETY: takes nothing.
        let abi = unsafe { shim.ringcall_trt_abi() };
        if abi != sys::RINGCALL_TRT_ABI {
            return Err(format!("the shim is of interface {abi}, this is {}", sys::RINGCALL_TRT_ABI));
        }
        // SAFETY: takes nothing.
        let headers = Version::of_shim(unsafe { shim.ringcall_trt_headers() });
        let mut libraries = Vec::new();
        let mut make_parser = None;
        if let Some(path) = parser {
            let parser = load(path)?;
            // SAFETY: the parser's factory has this signature.
            let symbol = unsafe { parser.get::<ParserFactory>(b"createNvOnnxParser_INTERNAL") };
            make_parser = Some(*symbol.map_err(|why| why.to_string())?);
            libraries.push(parser);
        }
        let factories = sys::ringcall_trt_factories {
            builder: library.builder,
            runtime: library.runtime,
            parser: make_parser,
        };
        let builds = library.builds() && make_parser.is_some();
        libraries.push(library.library);
        let log: &'static Log = Box::leak(Box::default());
        let mut loaded = Self {
            path: library.path,
            version: library.version,
            headers,
            builds,
            log,
            shim,
            raw: std::ptr::null_mut(),
            _libraries: libraries,
        };
        let user = std::ptr::from_ref(log).cast_mut().cast();
        let mut raw = std::ptr::null_mut();
        let opened = loaded.call("opening TensorRT", |why| {
            // SAFETY: the pointers are to live locals, the log lives indefinitely, and the callback takes a
            // log.
            unsafe {
                loaded.shim.ringcall_trt_library_open(
                    &raw const factories,
                    Some(Log::callback),
                    user,
                    &raw mut raw,
                    why,
                )
            }
        });
        opened.map_err(|why| why.to_string())?;
        loaded.raw = raw;
        Ok(loaded)
    }

    /// Makes one call of the shim and adds the messages of shim and library to the error.
    pub(super) fn call(
        &self,
        doing: impl Display,
        call: impl FnOnce(*mut sys::ringcall_trt_why) -> i32,
    ) -> Result<(), TensorRtError> {
        let mark = self.log.mark();
        let mut why = sys::ringcall_trt_why { text: [0; sys::RINGCALL_TRT_WHY_BYTES as usize] };
        let status = call(&raw mut why).cast_unsigned();
        if status == sys::RINGCALL_TRT_OK {
            return Ok(());
        }
        // SAFETY: the shim terminates what it writes, and it was all zero before.
        let said = unsafe { text(why.text.as_ptr()) }.unwrap_or_default();
        let doing = doing.to_string();
        if status == sys::RINGCALL_TRT_UNSUPPORTED {
            return Err(TensorRtError::Unsupported { doing, library: self.version, why: said });
        }
        let mut words = self.log.errors_since(mark);
        words.dedup();
        words.truncate(MOST_LINES);
        if !said.is_empty() {
            // What the parser complains of is in the log as well, in many lines.
            words.retain(|line| !line.starts_with("ModelImporter"));
            words.insert(0, said);
        }
        let words = if words.is_empty() { "TensorRT gives no reason".to_owned() } else { words.join("; ") };
        Err(TensorRtError::Refused { doing, words: words.replace('\n', " ") })
    }
}

impl std::fmt::Debug for Loaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loaded")
            .field("path", &self.path)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

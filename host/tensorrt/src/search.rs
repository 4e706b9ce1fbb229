//! Search for TensorRT's library and headers.

use crate::ffi::RawLibrary;
use crate::{TensorRtError, Version};
use std::path::{Path, PathBuf};

/// Names the library, or its folder.
pub const LIBRARY_VARIABLE: &str = "RINGCALL_TENSORRT_LIB";
/// Names the folder of `NvInfer.h`.
pub const INCLUDE_VARIABLE: &str = "RINGCALL_TENSORRT_INCLUDE";
/// Installations name themselves in these, by habit.
const HOMES: [&str; 4] = ["TENSORRT_HOME", "TENSORRT_ROOT", "TENSORRT_DIR", "TENSORRT_RTX_HOME"];
/// Where packages and archives are put.
const HOME_PATTERNS: [&str; 5] =
    ["/usr/local/TensorRT*", "/opt/TensorRT*", "/opt/tensorrt*", "/usr/local/tensorrt*", "/usr/local/cuda"];
/// Libraries that make plans first, the newest of each first; the lean runtime only runs plans.
const LIBRARIES: [&str; 8] = [
    "libnvinfer.so.11",
    "libnvinfer.so.10",
    "libnvinfer.so",
    "libtensorrt_rtx.so.1",
    "libtensorrt_rtx.so",
    "libnvinfer_lean.so.11",
    "libnvinfer_lean.so.10",
    "libnvinfer_lean.so",
];

/// Where to look. A path that is not given is looked for: in the environment (`RINGCALL_TENSORRT_LIB`,
/// `RINGCALL_TENSORRT_INCLUDE`, `TENSORRT_HOME` and its like), then where packages put things.
///
/// ```no_run
/// use ringcall_tensorrt::{Library, Search};
/// let library = Library::open(&Search::new().with_library("/opt/tensorrt/lib").with_include("/opt/tensorrt/include"))?;
/// println!("{}", library.version());
/// # Ok::<(), ringcall_tensorrt::TensorRtError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Search {
    /// The library, or a folder that has it.
    pub library: Option<PathBuf>,
    /// The folder that has `NvInfer.h`.
    pub include: Option<PathBuf>,
    /// The C++ compiler. Otherwise `CXX`, `c++`, `g++`, `clang++`.
    pub compiler: Option<String>,
    /// Where the compiled shim is kept. Otherwise `RINGCALL_CACHE`, `$XDG_CACHE_HOME/ringcall`, `~/.cache/ringcall`.
    pub cache: Option<PathBuf>,
}

impl Search {
    /// Nothing given.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives the library, or its folder.
    #[must_use]
    pub fn with_library(mut self, path: impl Into<PathBuf>) -> Self {
        self.library = Some(path.into());
        self
    }

    /// Gives the folder of the headers.
    #[must_use]
    pub fn with_include(mut self, path: impl Into<PathBuf>) -> Self {
        self.include = Some(path.into());
        self
    }

    /// Gives the C++ compiler.
    #[must_use]
    pub fn with_compiler(mut self, command: impl Into<String>) -> Self {
        self.compiler = Some(command.into());
        self
    }

    /// Gives the folder in which the compiled shim is kept.
    #[must_use]
    pub fn with_cache(mut self, path: impl Into<PathBuf>) -> Self {
        self.cache = Some(path.into());
        self
    }

    /// The first library that loads.
    pub(crate) fn library(&self) -> Result<RawLibrary, TensorRtError> {
        let given = self.library.clone().or_else(|| variable(LIBRARY_VARIABLE));
        let mut looked = Vec::new();
        let mut broken = None;
        for path in candidates(given.as_deref()) {
            looked.push(path.display().to_string());
            // A bare name is for the dynamic linker to find; its failure to is no news.
            let named = path.components().count() == 1;
            if !named && !path.is_file() {
                continue;
            }
            match RawLibrary::open(&path) {
                Ok(library) => return Ok(library),
                Err(why) if !named => broken = broken.or(Some(why)),
                Err(_) => {}
            }
        }
        Err(broken.unwrap_or(TensorRtError::NoLibrary { looked }))
    }

    /// The folder whose headers are the newest that fit `library`.
    pub(crate) fn headers(&self, library: Version) -> Result<(PathBuf, Version), TensorRtError> {
        let given = self.include.clone().or_else(|| variable(INCLUDE_VARIABLE));
        let folders = given.map_or_else(usual_headers, |folder| vec![folder]);
        let mut found = Vec::new();
        let mut best: Option<(PathBuf, Version)> = None;
        for folder in folders {
            match version_in(&folder) {
                Ok(version) => {
                    found.push(format!("{} has those of {version}", folder.display()));
                    let better = best.as_ref().is_none_or(|(_, other)| version > *other);
                    if version.may_call(library) && better {
                        best = Some((folder, version));
                    }
                }
                Err(why) => found.push(why),
            }
        }
        best.ok_or(TensorRtError::NoHeaders { library, found })
    }
}

/// The parser that lies beside a library, or goes by its name where that was found by name.
pub(crate) fn parser(library: &Path, version: Version) -> Option<PathBuf> {
    let major = version.numbers[0];
    let stem = match version.product {
        crate::Product::Enterprise => "libnvonnxparser.so",
        crate::Product::Rtx => "libtensorrt_onnxparser_rtx.so",
    };
    let names = [format!("{stem}.{major}"), stem.to_owned()];
    if library.components().count() == 1 {
        return names.into_iter().next().map(PathBuf::from);
    }
    let folder = library.parent()?;
    names.iter().map(|name| folder.join(name)).find(|path| path.is_file())
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn candidates(given: Option<&Path>) -> Vec<PathBuf> {
    let within = |folder: &Path| LIBRARIES.map(|name| folder.join(name));
    if let Some(path) = given {
        return if path.is_dir() { within(path).to_vec() } else { vec![path.to_owned()] };
    }
    let folders = homes().into_iter().flat_map(|home| ["lib", "lib64"].map(|lib| home.join(lib)));
    let mut all: Vec<PathBuf> =
        folders.flat_map(|folder| within(&folder)).filter(|path| path.is_file()).collect();
    all.extend(LIBRARIES.map(PathBuf::from));
    all
}

fn homes() -> Vec<PathBuf> {
    let mut homes: Vec<PathBuf> = HOMES.iter().filter_map(|name| variable(name)).collect();
    homes.extend(HOME_PATTERNS.iter().flat_map(|pattern| globbed(pattern)));
    homes
}

fn usual_headers() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = homes().into_iter().map(|home| home.join("include")).collect();
    folders.extend(["/usr/include", "/usr/local/include"].map(PathBuf::from));
    folders.extend(globbed("/usr/include/*-linux-gnu"));
    folders
}

fn globbed(pattern: &str) -> Vec<PathBuf> {
    // A folder that cannot be read has nothing for us.
    glob::glob(pattern).into_iter().flatten().flatten().collect()
}

/// The version of the headers in a folder, or its fault.
fn version_in(folder: &Path) -> Result<Version, String> {
    let at = folder.display();
    for name in ["NvInfer.h", "NvOnnxParser.h"] {
        if !folder.join(name).is_file() {
            return Err(format!("{at} has no {name}"));
        }
    }
    let text = std::fs::read_to_string(folder.join("NvInferVersion.h"))
        .map_err(|why| format!("{at} has no NvInferVersion.h that can be read ({why})"))?;
    Version::of_header(&text).ok_or_else(|| format!("{at} has an NvInferVersion.h of an unknown form"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Product;

    const RTX: Version = Version { product: Product::Rtx, numbers: [1, 7, 1, 116] };

    fn headers(folder: &Path, minor: u32) {
        for name in ["NvInfer.h", "NvOnnxParser.h"] {
            std::fs::write(folder.join(name), "").expect("written");
        }
        let lines = ["MAJOR 1", &format!("MINOR {minor}"), "PATCH 0", "BUILD 9"]
            .map(|line| format!("#define TRT_{}\n", line.replacen(' ', "_RTX ", 1)));
        std::fs::write(folder.join("NvInferVersion.h"), lines.concat()).expect("written");
    }

    #[test]
    fn no_library_says_what_to_install() {
        let home = tempfile::tempdir().expect("a folder");
        let why =
            Search::new().with_library(home.path()).library().err().expect("an empty folder").to_string();
        assert!(why.starts_with("no TensorRT library: install TensorRT"), "{why}");
        assert!(why.contains("RINGCALL_TENSORRT_LIB") && why.contains("libnvinfer.so.11"), "{why}");
        let why = Search::new().with_library("/no/such/lib.so").library().err().expect("no file").to_string();
        assert!(why.contains("looked for /no/such/lib.so"), "{why}");
    }

    #[test]
    fn a_library_of_something_else_is_named() {
        let home = tempfile::tempdir().expect("a folder");
        let path = home.path().join("libnvinfer.so.11");
        std::fs::write(&path, "no library").expect("written");
        let why = Search::new().with_library(&path).library().err().expect("no library").to_string();
        assert!(why.contains("libnvinfer.so.11 cannot be used: "), "{why}");
        let why =
            Search::new().with_library("libc.so.6").library().err().expect("another library").to_string();
        assert!(why.starts_with("no TensorRT library"), "{why}");
    }

    #[test]
    fn headers_must_fit_the_library() {
        let home = tempfile::tempdir().expect("a folder");
        let search = Search::new().with_include(home.path());
        let why = search.headers(RTX).expect_err("none").to_string();
        assert!(
            why.starts_with("no headers for TensorRT-RTX 1.7.1.116: install") && why.contains("no NvInfer.h"),
            "{why}"
        );
        headers(home.path(), 6);
        let why = search.headers(RTX).expect_err("older").to_string();
        assert!(why.contains("has those of TensorRT-RTX 1.6.0.9"), "{why}");
        headers(home.path(), 7);
        assert_eq!(search.headers(RTX).expect("these").1.numbers, [1, 7, 0, 9]);
    }

    #[test]
    fn the_parser_lies_beside_its_library() {
        let home = tempfile::tempdir().expect("a folder");
        let library = home.path().join("libtensorrt_rtx.so.1");
        assert_eq!(parser(&library, RTX), None);
        let beside = home.path().join("libtensorrt_onnxparser_rtx.so.1");
        std::fs::write(&beside, "").expect("written");
        assert_eq!(parser(&library, RTX), Some(beside));
        let named = parser(Path::new("libtensorrt_rtx.so"), RTX);
        assert_eq!(named, Some(PathBuf::from("libtensorrt_onnxparser_rtx.so.1")));
    }
}

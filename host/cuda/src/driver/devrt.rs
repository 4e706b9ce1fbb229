//! Search for `libcudadevrt.a`, the library that device code calls to launch graphs.

use crate::CudaError;
use std::env;
use std::path::{Path, PathBuf};

const FILE: &str = "libcudadevrt.a";

/// Names the file itself, and ends the search.
const VARIABLE: &str = "RINGCALL_CUDADEVRT";

/// Library folders of a toolkit, below its root.
const IN_TOOLKIT: &[&str] = &["lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"];

/// Where Python packages have it, below a folder of packages. Newest first.
const IN_PACKAGES: &[&str] = &["nvidia/cu13/lib", "nvidia/cuda_runtime/lib", "nvidia/cu12/lib"];

/// Paths to look in. [`find`] takes them from the process's environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Search {
    /// The file itself: no other path is searched.
    pub file: Option<PathBuf>,
    /// Roots of CUDA toolkits, such as `/usr/local/cuda`. Each may be a glob pattern, of whose matches the
    /// last in alphabetical order comes first.
    pub toolkits: Vec<PathBuf>,
    /// Folders that hold the library itself.
    pub folders: Vec<PathBuf>,
    /// Folders of Python packages, such as those of `PYTHONPATH`.
    pub packages: Vec<PathBuf>,
    /// Roots of Python installations and virtual environments, such as `/usr` and `.venv`, or glob patterns of them.
    pub pythons: Vec<PathBuf>,
}

/// Finds the library: `RINGCALL_CUDADEVRT`, then `CUDA_HOME` and `CUDA_PATH`, `/usr/local/cuda*`, the distribution's
/// library folders, and the packages of the Pythons there are (`nvidia-cuda-runtime`).
///
/// ```
/// match ringcall_cuda::driver::devrt::find() {
///     Ok(path) => println!("{}", path.display()),
///     Err(why) => println!("{why}"), // says where it looked, and what to install
/// }
/// ```
///
/// # Errors
/// [`CudaError::DeviceRuntimeNotFound`], with every path that was looked at.
pub fn find() -> Result<PathBuf, CudaError> {
    Search::from_environment().run()
}

impl Search {
    /// The paths that this process's environment names, and the usual ones.
    #[must_use]
    pub fn from_environment() -> Self {
        let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let mut pythons: Vec<PathBuf> = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(set).collect();
        pythons.extend([".venv", "venv"].map(PathBuf::from));
        // Where `python3` is found: PREFIX/bin.
        let path = env::var_os("PATH").unwrap_or_default();
        let prefixes =
            env::split_paths(&path).filter(|folder| folder.ends_with("bin") && folder.is_absolute());
        let prefixes = prefixes.filter_map(|folder| folder.parent().map(Path::to_owned));
        pythons.extend(prefixes.filter(|prefix| prefix.join("bin/python3").exists()));
        pythons.extend(set("PYENV_ROOT").map(|root| root.join("versions/*")));
        if let Some(home) = set("HOME") {
            pythons.extend([".local", ".pyenv/versions/*"].map(|below| home.join(below)));
        }
        pythons.extend(["/usr/local", "/usr", "/opt/conda"].map(PathBuf::from));
        let mut seen = Vec::new();
        pythons.retain(|root| {
            !seen.contains(root) && {
                seen.push(root.clone());
                true
            }
        });
        let mut toolkits: Vec<PathBuf> =
            ["CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX"].into_iter().filter_map(set).collect();
        toolkits.extend(["/usr/local/cuda", "/usr/local/cuda-*"].map(PathBuf::from));
        let packages = env::var_os("PYTHONPATH")
            .map(|paths| env::split_paths(&paths).filter(|path| !path.as_os_str().is_empty()).collect())
            .unwrap_or_default();
        Self {
            file: set(VARIABLE),
            toolkits,
            folders: ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"].map(PathBuf::from).into(),
            packages,
            pythons,
        }
    }

    /// Looks in every path, in the order of the fields.
    ///
    /// # Errors
    /// [`CudaError::DeviceRuntimeNotFound`], with every path that was looked at.
    pub fn run(&self) -> Result<PathBuf, CudaError> {
        if let Some(file) = &self.file {
            let looked = || vec![format!("{} ({VARIABLE})", file.display())];
            return is_file(file).ok_or_else(|| CudaError::DeviceRuntimeNotFound { looked: looked() });
        }
        let patterns = self.patterns();
        let found = patterns.iter().find_map(|(root, below)| {
            // The newest version first: the last in alphabetical order.
            let roots = matches(root).into_iter().rev();
            roots
                .flat_map(|root| below.iter().map(move |below| root.join(below).join(FILE)))
                .find_map(|f| is_file(&f))
        });
        found.ok_or_else(|| {
            let files = patterns
                .iter()
                .flat_map(|(root, below)| below.iter().map(|below| root.join(below).join(FILE)));
            CudaError::DeviceRuntimeNotFound {
                looked: files.map(|file| file.display().to_string()).collect(),
            }
        })
    }

    /// Roots, or patterns of roots, and the folders to try below each.
    fn patterns(&self) -> Vec<(PathBuf, &'static [&'static str])> {
        /// Debian's Python has dist-packages, other Pythons have site-packages.
        const PACKAGES: &[&str] =
            &["lib/python3*/site-packages", "lib/python3*/dist-packages", "lib/python3/dist-packages"];
        let toolkits = self.toolkits.iter().map(|root| (root.clone(), IN_TOOLKIT));
        let folders = self.folders.iter().map(|folder| (folder.clone(), [""].as_slice()));
        let packages = self.packages.iter().map(|root| (root.clone(), IN_PACKAGES));
        let pythons =
            self.pythons.iter().flat_map(|root| PACKAGES.iter().map(|below| (root.join(below), IN_PACKAGES)));
        toolkits.chain(folders).chain(packages).chain(pythons).collect()
    }
}

/// The folder itself, or what matches it as a pattern, in alphabetical order.
fn matches(pattern: &Path) -> Vec<PathBuf> {
    if pattern.is_dir() {
        return vec![pattern.to_owned()];
    }
    let found = pattern.to_str().and_then(|text| glob::glob(text).ok());
    found.map(|paths| paths.flatten().collect()).unwrap_or_default()
}

fn is_file(path: &Path) -> Option<PathBuf> {
    path.is_file().then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A folder with the library at each of these paths.
    fn tree(paths: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        for path in paths {
            let folder = root.path().join(path);
            fs::create_dir_all(&folder).expect("made");
            fs::write(folder.join(FILE), "!<arch>\n").expect("written");
        }
        root
    }

    #[test]
    fn a_named_file_is_taken_and_a_wrong_name_is_no_reason_to_guess() {
        let root = tree(&["a", "cuda/lib64"]);
        let toolkits = vec![root.path().join("cuda")];
        let named = root.path().join("a").join(FILE);
        let search = Search { file: Some(named.clone()), toolkits, ..Search::default() };
        assert_eq!(search.run(), Ok(named));
        let search = Search { file: Some(root.path().join("b")), ..search };
        let text = search.run().unwrap_err().to_string();
        assert!(text.contains("/b (RINGCALL_CUDADEVRT)") && !text.contains('\n'), "{text}");
    }

    #[test]
    fn toolkits_come_before_packages_and_newer_ones_before_older() {
        let root = tree(&["cuda-12.8/lib64", "cuda-13.0/targets/x86_64-linux/lib", "py/nvidia/cu13/lib"]);
        let at = |path: &str| root.path().join(path);
        let search = Search { packages: vec![at("py")], ..Search::default() };
        assert_eq!(search.run(), Ok(at("py/nvidia/cu13/lib").join(FILE)));
        let search = Search { toolkits: vec![at("cuda-1*")], ..search };
        assert_eq!(search.run(), Ok(at("cuda-13.0/targets/x86_64-linux/lib").join(FILE)));
        let search = Search { toolkits: vec![at("cuda-12.8"), at("cuda-13.0")], ..search };
        assert_eq!(search.run(), Ok(at("cuda-12.8/lib64").join(FILE)), "the caller's order");
    }

    #[test]
    fn every_kind_of_python_is_searched() {
        for path in [
            "lib/python3.11/site-packages/nvidia/cu13/lib",
            "versions/3.11.7/lib/python3.11/site-packages/nvidia/cu13/lib",
            "lib/python3.12/dist-packages/nvidia/cuda_runtime/lib",
            "lib/python3/dist-packages/nvidia/cu12/lib",
        ] {
            let root = tree(&[path]);
            let pythons = vec![root.path().to_owned(), root.path().join("versions/*")];
            let search = Search { pythons, ..Search::default() };
            assert_eq!(search.run(), Ok(root.path().join(path).join(FILE)));
        }
    }

    #[test]
    fn a_folder_of_that_name_is_no_library_and_the_error_says_where_it_looked() {
        let root = tree(&[]);
        fs::create_dir_all(root.path().join("lib64").join(FILE)).expect("made");
        let search = Search { toolkits: vec![root.path().to_owned()], ..Search::default() };
        let Err(error) = search.run() else { panic!("a folder was taken for the library") };
        let CudaError::DeviceRuntimeNotFound { looked } = &error else { panic!("{error}") };
        assert_eq!(looked.len(), IN_TOOLKIT.len());
        let text = error.to_string();
        assert!(text.contains("lib64/libcudadevrt.a") && text.contains("nvidia-cuda-runtime"), "{text}");
    }
}

//! NVIDIA's assembler, linker and C++ compiler: from a CUDA toolkit if there is one, or else from PyPI.

use crate::shell::Shell;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The first release that knows every architecture of the committed PTX.
const OLDEST: (u32, u32) = (12, 8);
/// What PyPI has in place of a toolkit: assembler, linker and compiler; its front end; its headers; the runtime.
const WHEELS: &[&str] = &[
    "nvidia-cuda-nvcc==13.0.*",
    "nvidia-nvvm==13.0.*",
    "nvidia-cuda-crt==13.0.*",
    "nvidia-cuda-cccl==13.0.*",
    "nvidia-cuda-runtime==13.0.*",
];

/// The tools.
pub(crate) struct Cuda {
    bin: PathBuf,
    /// `libcudadevrt.a`, which has the launches from device code.
    pub(crate) device_runtime: PathBuf,
}

impl Cuda {
    /// The toolkit on the path, in `CUDA_HOME` or in `/usr/local/cuda`; or else the one from PyPI, which is installed
    /// below the target folder.
    pub(crate) fn find(shell: &Shell) -> Result<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let home = std::env::var_os("CUDA_HOME").map(|home| Path::new(&home).join("bin"));
        let folders = std::env::split_paths(&path).chain(home).chain([PathBuf::from("/usr/local/cuda/bin")]);
        for folder in folders {
            if let Some(found) = Self::at(&folder) {
                return Ok(found);
            }
        }
        let folder = shell.target("tools").join("cuda");
        let bin = folder.join("nvidia/cu13/bin");
        if let Some(found) = Self::at(&bin) {
            return Ok(found);
        }
        shell.pip(&folder, WHEELS).context(
            "no CUDA toolkit of 12.8 or later on the path, in CUDA_HOME or in /usr/local/cuda, and none from PyPI: \
             install a toolkit, or python3 with pip",
        )?;
        Self::at(&bin)
            .with_context(|| format!("PyPI's packages put no complete toolkit into {}", folder.display()))
    }

    /// The tools in a folder, if all are there and new enough.
    fn at(bin: &Path) -> Option<Self> {
        // A folder on the path may have links to the toolkit only.
        let ptxas = bin.join("ptxas").canonicalize().ok()?;
        let bin = ptxas.parent()?.to_owned();
        if !["nvlink", "nvcc"].iter().all(|tool| bin.join(tool).is_file()) {
            return None;
        }
        let output = Command::new(&ptxas).arg("--version").output().ok()?;
        if release(&String::from_utf8_lossy(&output.stdout))? < OLDEST {
            return None;
        }
        let libraries = ["../lib64", "../lib", "../targets/x86_64-linux/lib", "../lib/x86_64-linux-gnu"];
        let device_runtime = libraries
            .iter()
            .map(|folder| bin.join(folder).join("libcudadevrt.a"))
            .find(|library| library.is_file())?;
        Some(Self { bin, device_runtime })
    }

    /// One of the tools, run from the repository's root.
    pub(crate) fn tool(&self, shell: &Shell, name: &str) -> Command {
        shell.command(&self.bin.join(name).to_string_lossy(), &[])
    }
}

/// Runs a tool that should find nothing to complain of, and gives what it printed.
pub(super) fn quiet(command: &mut Command) -> Result<String> {
    let shown = crate::shell::shown(command);
    let output = command.output().with_context(|| format!("cannot start {shown}"))?;
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed).trim().to_owned();
    ensure!(output.status.success(), "{}: {shown}\n{printed}", output.status);
    Ok(printed)
}

/// Major and minor number in `Cuda compilation tools, release 13.0, V13.0.88`.
fn release(version: &str) -> Option<(u32, u32)> {
    let (_, rest) = version.split_once("release ")?;
    let (major, minor) = rest.split(',').next()?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_understood() {
        assert_eq!(release("ptxas: …\nCuda compilation tools, release 13.0, V13.0.88\nBuild"), Some((13, 0)));
        assert_eq!(release("Cuda compilation tools, release 11.8, V11.8.89"), Some((11, 8)));
        assert_eq!(release("command not found"), None);
    }

    #[test]
    fn a_folder_without_tools_has_none() {
        assert!(Cuda::at(Path::new("/no/such/folder")).is_none());
    }

    #[test]
    fn a_failing_tool_shows_what_it_printed() {
        let error = quiet(Command::new("sh").args(["-c", "echo because; exit 3"])).expect_err("it fails");
        assert!(error.to_string().contains("because"), "{error}");
        assert_eq!(quiet(Command::new("echo").arg("fine")).expect("fine"), "fine");
    }
}

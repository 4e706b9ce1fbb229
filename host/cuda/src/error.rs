//! Errors between the host and the CUDA driver.

use ringcall_gpu::shared::SharedError;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// A code that the driver returned, with the driver's own name and description for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverCode {
    /// The number (`CUresult`).
    pub code: u32,
    /// The driver's name for it, such as `CUDA_ERROR_OUT_OF_MEMORY`.
    pub name: String,
    /// The driver's words for it.
    pub text: String,
}

impl fmt::Display for DriverCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}: {})", self.name, self.code, self.text)?;
        match self.advice() {
            "" => Ok(()),
            advice => write!(f, "; {advice}"),
        }
    }
}

impl DriverCode {
    /// Whether the context is dead after this code: every later call in it fails.
    #[must_use]
    pub fn is_sticky(&self) -> bool {
        // Uncorrectable memory or link error, contained error, illegal address, launch timeout, destroyed context,
        // assertion, stack, instruction, alignment, address space, program counter, launch failure, tensor memory leak.
        matches!(self.code, 214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719 | 721)
    }

    /// A remedy, if the driver's description names none.
    fn advice(&self) -> &'static str {
        match self.code {
            218 => "the PTX is invalid: assemble it with ptxas to see where",
            221 => "the driver's installation lacks libnvidia-ptxjitcompiler.so: install it",
            222 => "the PTX is newer than the driver: update the driver, or build with an older PTX version",
            209 => "the image holds no code for this device: link PTX, or a cubin of this architecture",
            701 => "use fewer threads a block, fewer registers or less shared memory",
            720 => {
                "a cooperative grid must be resident at once: use at most Kernel::occupancy blocks a multiprocessor"
            }
            803 => {
                "the kernel module and the driver library differ: restart the machine, or reinstall the driver"
            }
            _ if self.is_sticky() => {
                "the context is dead: drop everything made in it and start the process anew"
            }
            _ => "",
        }
    }
}

/// Why a CUDA operation failed. Each message is one line and says what to do, if that is known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CudaError {
    /// No driver library on this machine.
    #[error("no CUDA driver: libcuda.so.1 cannot be loaded; install the NVIDIA driver, or run without a GPU")]
    NoDriver,
    /// The driver library is there and cannot be used.
    #[error("the CUDA driver does not start: {0}; check that nvidia-smi lists a device in this environment")]
    DriverUnusable(DriverCode),
    /// The driver lacks a function that this crate uses.
    #[error("the CUDA driver has no {symbol}: update it to one for CUDA 12.4 or later (driver 550)")]
    DriverTooOld {
        /// The missing function.
        symbol: &'static str,
    },
    /// A driver, and no device.
    #[error(
        "the CUDA driver finds no device: check nvidia-smi, CUDA_VISIBLE_DEVICES, and whether a container was given one"
    )]
    NoDevice,
    /// No device of that number.
    #[error("there is no CUDA device {ordinal}: this machine has {count}, counted from 0")]
    NoSuchDevice {
        /// The number asked for.
        ordinal: u32,
        /// How many there are.
        count: u32,
    },
    /// The device is too old for what it should run.
    #[error(
        "{what} needs compute capability {}.{}, the device has {}.{}: build it for sm_{}{}, or use a newer device",
        .needs.0, .needs.1, .found.0, .found.1, .found.0, .found.1
    )]
    TooOld {
        /// What needs more.
        what: String,
        /// The capability it needs.
        needs: (u32, u32),
        /// The device's capability.
        found: (u32, u32),
    },
    /// The device runtime library was not found.
    #[error(
        "libcudadevrt.a not found: install the CUDA toolkit or the Python package nvidia-cuda-runtime, or set \
         RINGCALL_CUDADEVRT to the file; looked for {}",
        .looked.join(", ")
    )]
    DeviceRuntimeNotFound {
        /// The files and patterns tried, in order.
        looked: Vec<String>,
    },
    /// A file could not be read.
    #[error("cannot read {}: {why}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The operating system's words.
        why: String,
    },
    /// A call of the driver failed.
    #[error("{doing}: {code}")]
    Call {
        /// What was being done.
        doing: String,
        /// What the driver said.
        code: DriverCode,
    },
    /// A module for the linker has a wrong form.
    #[error("cannot link {name:?}: {why}")]
    LinkInput {
        /// The name given with it.
        name: String,
        /// The fault that was found.
        why: String,
    },
    /// A symbol that is called, and defined nowhere.
    #[error("{} in none of the modules linked ({}): link the module that defines {}",
        unresolved(.symbols), .modules.join(", "), if .symbols.len() == 1 { "it" } else { "them" })]
    Unresolved {
        /// The symbols, as the linker names them.
        symbols: Vec<String>,
        /// The names of the modules linked.
        modules: Vec<String>,
    },
    /// Linking failed for another reason.
    #[error("{doing}: {code}; {}", if .log.is_empty() { "the linker gives no reason" } else { .log })]
    Link {
        /// What was being done.
        doing: String,
        /// What the driver said.
        code: DriverCode,
        /// The linker's messages, on one line.
        log: String,
    },
    /// No kernel or variable of that name in a module.
    #[error("the module has no {kind} `{name}`; it has {}",
        if .has.is_empty() { "none".to_owned() } else { .has.join(", ") })]
    NoSymbol {
        /// "kernel" or "global variable".
        kind: &'static str,
        /// The name looked for.
        name: String,
        /// The names that are there; empty where the driver cannot list them.
        has: Vec<String>,
    },
    /// Arguments or a launch that do not fit the kernel.
    #[error("kernel `{kernel}`: {why}")]
    BadLaunch {
        /// The kernel's name.
        kernel: String,
        /// What does not fit.
        why: String,
    },
    /// A graph that cannot be built or made executable.
    #[error("graph: {0}")]
    Graph(String),
    /// An access past the end of memory.
    #[error("{len} bytes at {offset} do not fit {size} bytes of {what}")]
    OutOfBounds {
        /// What was accessed.
        what: &'static str,
        /// Where, in bytes.
        offset: usize,
        /// How much, in bytes.
        len: usize,
        /// The size of the memory, in bytes.
        size: usize,
    },
    /// Host memory could not be laid out.
    #[error("host memory: {0}")]
    Memory(#[from] SharedError),
    /// Work on a stream did not end in time.
    #[error("the stream is still busy after {0:?}")]
    TimedOut(Duration),
    /// An operation for which the driver would wait until a running persistent kernel ends.
    #[error(
        "{0} would wait for the persistent kernel that runs in this context: wire every dispatcher before the first starts"
    )]
    KernelRuns(&'static str),
}

impl CudaError {
    /// Whether the context is dead: a kernel of it failed, and every later call in it fails too.
    #[must_use]
    pub fn is_sticky(&self) -> bool {
        self.code().is_some_and(DriverCode::is_sticky)
    }

    /// The driver's code, if a call of the driver failed.
    #[must_use]
    pub fn code(&self) -> Option<&DriverCode> {
        match self {
            Self::Call { code, .. } | Self::Link { code, .. } | Self::DriverUnusable(code) => Some(code),
            _ => None,
        }
    }
}

fn unresolved(symbols: &[String]) -> String {
    let quoted: Vec<String> = symbols.iter().map(|symbol| format!("`{symbol}`")).collect();
    match quoted.as_slice() {
        [one] => format!("symbol {one} is"),
        many => format!("symbols {} are", many.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(code: u32) -> DriverCode {
        DriverCode { code, name: format!("CUDA_ERROR_{code}"), text: "words".to_owned() }
    }

    #[test]
    fn only_errors_that_kill_the_context_are_sticky() {
        for dead in [700, 702, 709, 715, 716, 717, 718, 719, 214] {
            assert!(
                CudaError::Call { doing: "launching".to_owned(), code: code(dead) }.is_sticky(),
                "{dead}"
            );
        }
        for alive in [1, 2, 100, 201, 218, 500, 600, 701, 712, 713, 720] {
            assert!(
                !CudaError::Call { doing: "launching".to_owned(), code: code(alive) }.is_sticky(),
                "{alive}"
            );
        }
        assert!(!CudaError::NoDriver.is_sticky());
    }

    #[test]
    fn unresolved_symbols_are_named_in_one_line() {
        let error = |symbols: &[&str]| {
            CudaError::Unresolved {
                symbols: symbols.iter().map(ToString::to_string).collect(),
                modules: vec!["dispatcher".to_owned(), "handlers".to_owned()],
            }
            .to_string()
        };
        assert_eq!(
            error(&["decode"]),
            "symbol `decode` is in none of the modules linked (dispatcher, handlers): link the module that defines it"
        );
        assert!(error(&["a", "b"]).starts_with("symbols `a`, `b` are in none"));
    }

    #[test]
    fn a_device_too_old_says_which_architecture_to_build_for() {
        let text =
            CudaError::TooOld { what: "module \"h\"".to_owned(), needs: (9, 0), found: (8, 6) }.to_string();
        assert!(
            text.contains("needs compute capability 9.0") && text.contains("build it for sm_86"),
            "{text}"
        );
    }
}

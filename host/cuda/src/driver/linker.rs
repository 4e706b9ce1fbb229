//! Linking PTX and relocatable device code into one image, when the program runs.

use super::Context;
use super::api::Api;
use super::handle::Handle;
use super::link_input::{Input, Kind};
use super::link_log;
use crate::CudaError;
use core::ffi::c_void;
use cudarc::driver::sys::{CUjit_option, CUlinkState_st};
use std::fmt::Display;
use std::path::Path;

/// How hard the driver's compiler works on PTX.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Optimisation {
    /// Not at all: for stepping through device code.
    O0 = 0,
    /// A little.
    O1 = 1,
    /// More.
    O2 = 2,
    /// Much.
    O3 = 3,
    /// As far as possible; the driver's default.
    #[default]
    O4 = 4,
}

/// Collects modules, and links them into one [`Image`]. Calls across modules are resolved here, with the register
/// counts of both sides known, so function addresses taken in the image may be called in it.
#[derive(Debug, Clone)]
pub struct Linker {
    capability: (u32, u32),
    inputs: Vec<Input>,
    max_registers: Option<u32>,
    optimisation: Optimisation,
    log_bytes: u32,
}

/// Linked code for one device architecture, ready to be loaded.
#[derive(Debug, Clone)]
pub struct Image {
    cubin: Vec<u8>,
    log: String,
}

impl Image {
    /// The machine code, an ELF file: what `cuobjdump` and `nvdisasm` read.
    #[must_use]
    pub fn cubin(&self) -> &[u8] {
        &self.cubin
    }

    /// The linker's remarks: registers and spills of each function, warnings.
    #[must_use]
    pub fn log(&self) -> &str {
        &self.log
    }
}

impl Linker {
    /// A linker for devices of this compute capability.
    #[must_use]
    pub fn new(capability: (u32, u32)) -> Self {
        Self {
            capability,
            inputs: Vec::new(),
            max_registers: None,
            optimisation: Optimisation::default(),
            log_bytes: 16 * 1024,
        }
    }

    /// Adds a module of PTX text. Errors refer to it by `name`.
    ///
    /// # Errors
    /// No PTX, a NUL character in it or its name, or PTX for a newer device ([`CudaError::TooOld`]).
    ///
    /// ```
    /// use ringcall_cuda::driver::Linker;
    ///
    /// let ptx = ".version 8.0\n.target sm_90\n.address_size 64\n";
    /// assert!(Linker::new((9, 0)).ptx("handlers", ptx).is_ok());
    /// let why = Linker::new((8, 0)).ptx("handlers", ptx).unwrap_err();
    /// assert!(why.to_string().contains("needs compute capability 9.0, the device has 8.0"));
    /// ```
    pub fn ptx(mut self, name: &str, text: &str) -> Result<Self, CudaError> {
        self.inputs.push(Input::ptx(name, text, self.capability)?);
        Ok(self)
    }

    /// Adds a relocatable cubin (`nvcc -cubin -rdc=true`, `ptxas -c`), built for this very architecture.
    ///
    /// # Errors
    /// No ELF file, or a NUL character in the name.
    pub fn cubin(self, name: &str, data: &[u8]) -> Result<Self, CudaError> {
        self.binary(name, Kind::Cubin, data)
    }

    /// Adds a fat binary (`nvcc -fatbin -rdc=true`).
    ///
    /// # Errors
    /// No fat binary, or a NUL character in the name.
    pub fn fatbin(self, name: &str, data: &[u8]) -> Result<Self, CudaError> {
        self.binary(name, Kind::Fatbin, data)
    }

    /// Adds a library of device code, such as [`libcudadevrt.a`](super::devrt::find): only functions that are
    /// called are linked.
    ///
    /// # Errors
    /// The file cannot be read, or is no archive.
    pub fn library(self, path: &Path) -> Result<Self, CudaError> {
        let data = std::fs::read(path)
            .map_err(|error| CudaError::Unreadable { path: path.to_owned(), why: error.to_string() })?;
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        self.binary(&name, Kind::Library, &data)
    }

    fn binary(mut self, name: &str, kind: Kind, data: &[u8]) -> Result<Self, CudaError> {
        self.inputs.push(Input::binary(name, kind, data)?);
        Ok(self)
    }

    /// Lets PTX use at most so many registers a thread. Fewer registers let more threads be resident, and spill sooner.
    #[must_use]
    pub fn max_registers(mut self, registers: u32) -> Self {
        self.max_registers = Some(registers);
        self
    }

    /// Sets how hard PTX is optimised.
    #[must_use]
    pub fn optimisation(mut self, level: Optimisation) -> Self {
        self.optimisation = level;
        self
    }

    /// Sets how many bytes of the linker's messages are kept, of remarks and errors each; 16 KiB otherwise.
    #[must_use]
    pub fn log_bytes(mut self, bytes: u32) -> Self {
        self.log_bytes = bytes.max(256);
        self
    }

    /// Links everything added, for the device of `context`. Takes milliseconds to a second.
    ///
    /// # Errors
    /// - [`CudaError::Unresolved`]: a function or variable that none of the modules defines.
    /// - [`CudaError::Link`]: any other complaint of the linker's, with its messages.
    /// - [`CudaError::LinkInput`]: nothing was added, or the context's device is of another architecture.
    pub fn link(&self, context: &Context) -> Result<Image, CudaError> {
        let refuse = |why: String| Err(CudaError::LinkInput { name: "image".to_owned(), why });
        if self.inputs.is_empty() {
            return refuse("no module was added to the linker".to_owned());
        }
        let found = context.device().capability();
        if found != self.capability {
            let (needs, has) = (self.capability, found);
            return refuse(format!(
                "the linker was made for compute capability {}.{}, the device has {}.{}",
                needs.0, needs.1, has.0, has.1
            ));
        }
        let api = context.enter()?;
        let mut session = Session::begin(api, self)?;
        for input in &self.inputs {
            let answer = session.add(input);
            let doing = format_args!("reading module {:?}", input.name);
            self.check(api, answer, &session, doing)?;
        }
        let mut cubin = core::ptr::null_mut();
        let mut len = 0;
        // SAFETY: the driver writes a pointer and a length; the session is alive.
        let answer = unsafe { (api.cuLinkComplete)(session.state.0, &raw mut cubin, &raw mut len) };
        self.check(api, answer, &session, "linking device code")?;
        // SAFETY: the driver's image of `len` bytes, which stays until the session ends.
        let cubin = unsafe { core::slice::from_raw_parts(cubin.cast::<u8>(), len) }.to_vec();
        Ok(Image { cubin, log: session.remarks() })
    }

    /// An error with the linker's words for every answer but success.
    fn check(
        &self,
        api: &Api,
        answer: u32,
        session: &Session<'_>,
        doing: impl Display,
    ) -> Result<(), CudaError> {
        let Err(error) = api.check(answer, doing) else { return Ok(()) };
        let CudaError::Call { doing, code } = error else { return Err(error) };
        let log = session.errors();
        let symbols = link_log::unresolved(&log);
        if symbols.is_empty() {
            return Err(CudaError::Link { doing, code, log: link_log::one_line(&log) });
        }
        let modules = self.inputs.iter().map(|input| input.name.to_string_lossy().into_owned()).collect();
        Err(CudaError::Unresolved { symbols, modules })
    }
}

/// A link under way, with the buffers that the driver writes into until it ends.
struct Session<'a> {
    api: &'a Api,
    state: Handle<CUlinkState_st>,
    remarks: Vec<u8>,
    errors: Vec<u8>,
    /// The driver keeps a pointer to these values and writes the lengths of the logs there.
    _values: Vec<*mut c_void>,
}

impl<'a> Session<'a> {
    fn begin(api: &'a Api, linker: &Linker) -> Result<Self, CudaError> {
        let bytes = linker.log_bytes as usize;
        let mut remarks = vec![0_u8; bytes];
        let mut errors = vec![0_u8; bytes];
        let number = |value: u32| core::ptr::without_provenance_mut::<c_void>(value as usize);
        let mut options = vec![
            (CUjit_option::CU_JIT_INFO_LOG_BUFFER, remarks.as_mut_ptr().cast()),
            (CUjit_option::CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, number(linker.log_bytes)),
            (CUjit_option::CU_JIT_ERROR_LOG_BUFFER, errors.as_mut_ptr().cast()),
            (CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, number(linker.log_bytes)),
            (CUjit_option::CU_JIT_LOG_VERBOSE, number(1)),
            (CUjit_option::CU_JIT_OPTIMIZATION_LEVEL, number(linker.optimisation as u32)),
        ];
        if let Some(registers) = linker.max_registers {
            options.push((CUjit_option::CU_JIT_MAX_REGISTERS, number(registers)));
        }
        let (mut names, mut values): (Vec<_>, Vec<_>) = options.into_iter().unzip();
        let mut state = core::ptr::null_mut();
        // SAFETY: two arrays of that length; values and buffers outlive the link, since they end in `Drop` after it.
        let code = unsafe {
            (api.cuLinkCreate_v2)(names.len() as u32, names.as_mut_ptr(), values.as_mut_ptr(), &raw mut state)
        };
        api.check(code, "starting the driver's linker")?;
        Ok(Self { api, state: Handle(state), remarks, errors, _values: values })
    }

    fn add(&mut self, input: &Input) -> u32 {
        let data = input.data.as_ptr().cast_mut().cast();
        let none = core::ptr::null_mut();
        // SAFETY: the driver reads `len` bytes and a terminated name during the call, and writes neither; no options.
        unsafe {
            (self.api.cuLinkAddData_v2)(
                self.state.0,
                input.kind.input_type(),
                data,
                input.data.len(),
                input.name.as_ptr(),
                0,
                none,
                none.cast(),
            )
        }
    }

    fn remarks(&self) -> String {
        text(&self.remarks)
    }

    fn errors(&self) -> String {
        text(&self.errors)
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // SAFETY: begun once, ended once; its buffers are dropped afterwards.
        unsafe { (self.api.cuLinkDestroy)(self.state.0) };
    }
}

/// A log buffer up to its terminator, or all of it.
fn text(buffer: &[u8]) -> String {
    let end = buffer.iter().position(|&byte| byte == 0).unwrap_or(buffer.len());
    String::from_utf8_lossy(&buffer[..end]).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_or_no_archive_is_refused_by_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("libcudadevrt.a");
        let missing = Linker::new((9, 0)).library(&path).unwrap_err().to_string();
        assert!(missing.starts_with("cannot read ") && missing.contains("libcudadevrt.a"), "{missing}");
        std::fs::write(&path, "text").expect("written");
        let wrong = Linker::new((9, 0)).library(&path).unwrap_err().to_string();
        assert!(wrong.contains("\"libcudadevrt.a\"") && wrong.contains("ar archive"), "{wrong}");
        std::fs::write(&path, "!<arch>\n").expect("written");
        assert!(Linker::new((9, 0)).library(&path).is_ok());
    }

    #[test]
    fn a_log_ends_at_its_terminator_or_with_its_buffer() {
        assert_eq!(text(b"  error\n\0rest"), "error");
        assert_eq!(text(b"full"), "full");
        assert_eq!(text(b"\0"), "");
    }
}

//! Device code of a program's handlers, and the names of their functions, kept until a start links them with the
//! dispatch kernel.

use crate::status::Fault;
use core::ffi::{CStr, c_char, c_int, c_void};
use ringcall_cuda::driver::Linker;
use ringcall_launch::ring::Modules;
use ringcall_wire::FunctionId;
use ringcall_wire::entry::FunctionEntry;
use ringcall_wire::schema::HandlerSchema;
use ringcall_wire::status::DispatchMode;

/// The most bytes of one module: a larger size is a mistake that would read far past the module.
const MOST_BYTES: usize = 1 << 28;
/// Characters of a symbol at most.
const MOST_LETTERS: usize = 4096;
/// A capability above every device's, since a module is checked before its device is known.
const ANY_DEVICE: (u32, u32) = (u32::MAX, 0);

/// One function.
#[derive(Debug, Clone)]
pub(super) struct CodeFunction {
    pub(super) id: u32,
    pub(super) symbol: String,
    pub(super) schema: HandlerSchema,
}

/// Modules and functions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Code {
    pub(super) modules: Modules,
    pub(super) functions: Vec<CodeFunction>,
    count: usize,
}

impl Code {
    /// Whether there is neither module nor function.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0 && self.functions.is_empty()
    }

    /// Checks that modules and functions are complete before a start.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        match (self.count, self.functions.len()) {
            (0, _) => Err(Fault::invalid("ringcall_dispatcher_add_module was not called")),
            (_, 0) => Err(Fault::invalid("ringcall_dispatcher_add_function was not called")),
            _ => Ok(()),
        }
    }

    /// Copies a module and checks its first bytes.
    ///
    /// # Safety
    /// `data` is null, or has `size` bytes.
    pub(crate) unsafe fn add_module(
        &mut self,
        kind: c_int,
        data: *const c_void,
        size: usize,
    ) -> Result<(), Fault> {
        if data.is_null() || size == 0 || size > MOST_BYTES {
            return Err(Fault::invalid(format!("a module of {size} bytes at {data:p}: 1 to {MOST_BYTES}")));
        }
        // SAFETY: not null, and the caller's promise; copied before anything looks at it.
        let bytes = unsafe { core::slice::from_raw_parts(data.cast::<u8>(), size) }.to_vec();
        let name = format!("module {}", self.count + 1);
        let (modules, linker) = (self.modules.clone(), Linker::new(ANY_DEVICE));
        let (modules, parsed) = match kind {
            1 => {
                // Text of C often counts its NUL.
                let text = bytes.strip_suffix(b"\0").unwrap_or(&bytes);
                let text = core::str::from_utf8(text)
                    .map_err(|error| Fault::invalid(format!("{name} is no PTX: {error}")))?;
                (modules.ptx(&name, text), linker.ptx(&name, text))
            }
            2 => (modules.cubin(&name, &bytes), linker.cubin(&name, &bytes)),
            3 => (modules.fatbin(&name, &bytes), linker.fatbin(&name, &bytes)),
            _ => return Err(Fault::invalid(format!("there is no kind {kind} of modules"))),
        };
        parsed.map_err(|error| Fault::invalid(error.to_string()))?;
        self.modules = modules;
        self.count += 1;
        Ok(())
    }

    /// Enters a function.
    ///
    /// # Safety
    /// `symbol` is null or ends in a NUL; `schema` is null or a schema.
    pub(crate) unsafe fn add_function(
        &mut self,
        id: u32,
        symbol: *const c_char,
        schema: *const HandlerSchema,
    ) -> Result<(), Fault> {
        if symbol.is_null() {
            return Err(Fault::invalid("the symbol is null"));
        }
        // SAFETY: not null, and the caller's promise.
        let symbol = unsafe { CStr::from_ptr(symbol) }.to_bytes();
        let good = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$');
        let first = symbol.first().is_some_and(|byte| !byte.is_ascii_digit());
        if !first || symbol.len() > MOST_LETTERS || !symbol.iter().all(good) {
            let symbol = String::from_utf8_lossy(&symbol[..symbol.len().min(64)]).into_owned();
            return Err(Fault::invalid(format!("{symbol:?} is no symbol of device code")));
        }
        if self.functions.iter().any(|function| function.id == id) {
            return Err(Fault::invalid(format!("function id {id:#010x} occurs more than once")));
        }
        let schema = if schema.is_null() {
            HandlerSchema::new()
        } else {
            // SAFETY: not null, and the caller's promise; alignment is not asked for.
            unsafe { schema.read_unaligned() }
        };
        // Any address except 0, since the handler's address is not known yet.
        let entry = FunctionEntry::new(FunctionId(id), DispatchMode::DeviceCall, schema, 1);
        entry.validate().map_err(|error| Fault::invalid(error.to_string()))?;
        let symbol = String::from_utf8_lossy(symbol).into_owned();
        self.functions.push(CodeFunction { id, symbol, schema });
        Ok(())
    }
}

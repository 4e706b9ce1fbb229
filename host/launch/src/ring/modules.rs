//! Modules linked into a dispatcher: the dispatch kernels, and the modules that define its functions.

use super::{DeviceError, KernelKind, UnifiedKernel};
use ringcall_cuda::driver::{Context, Linker, Module, devrt};
use std::any::Any;
use std::borrow::Cow;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

/// A kernel's committed PTX, which devices from Hopper on take. Devices before take [what the compiler writes for Ampere]
/// (ringcall_build::for_sm_80) in its place, as `cargo xtask ptx --check` proves.
macro_rules! committed {
    ($name:literal) => {
        include_str!(concat!("../../../../device/kernels/ptx/", $name, ".ptx"))
    };
}

static DISPATCH: &str = committed!("dispatch.sm_90");
static GRID: &str = committed!("grid.sm_90");
static AHEAD: &str = committed!("ahead.sm_90");
static GRAPH: &str = committed!("graph.sm_90");
static UNIFIED: &str = committed!("unified.sm_90");
static UNIFIED_GRID: &str = committed!("unified-grid.sm_90");
static UNIFIED_GRAPH: &str = committed!("unified-graph.sm_90");
static RELAY: &str = committed!("relay.sm_90");
static HOOKS: &str = committed!("hooks.sm_90");
static TRANSPORT: &str = committed!("transport.sm_90");
/// The same for every architecture.
static FLOOR: &str = committed!("floor.sm_80");

/// A kernel's PTX for a device.
///
/// # Errors
/// The device is older than Ampere.
fn text_for(kernel: &'static str, capability: (u32, u32)) -> Result<Cow<'static, str>, DeviceError> {
    match capability {
        (9.., _) => Ok(Cow::Borrowed(kernel)),
        (8, _) => Ok(Cow::Owned(ringcall_build::for_sm_80(kernel))),
        _ => Err(DeviceError::NoKernels(capability)),
    }
}

/// The newest PTX that a device of this capability takes.
#[must_use]
fn newest<'a>(texts: &[(u32, &'a str)], capability: (u32, u32)) -> Option<&'a str> {
    let device = capability.0 * 10 + capability.1;
    texts.iter().filter(|(sm, _)| *sm <= device).max_by_key(|(sm, _)| *sm).map(|&(_, text)| text)
}

#[derive(Debug, Clone)]
enum Part {
    Ptx { name: String, text: String },
    Cubin { name: String, data: Vec<u8> },
    Fatbin { name: String, data: Vec<u8> },
    Library(PathBuf),
}

/// Modules with handlers: Rust or C++, PTX or relocatable machine code, any number of them.
#[derive(Debug, Clone, Default)]
pub struct Modules {
    parts: Vec<Part>,
    registers: Option<u32>,
    variables: Vec<(String, Vec<u8>)>,
    kept: Vec<Arc<dyn Any + Send + Sync>>,
}

impl Modules {
    /// No modules.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A PTX module.
    #[must_use]
    pub fn ptx(mut self, name: &str, text: &str) -> Self {
        self.parts.push(Part::Ptx { name: name.to_owned(), text: text.to_owned() });
        self
    }

    /// The newest of several PTX texts (compute capability, text), as `ringcall_build` makes them, that the device of
    /// `context` can run.
    ///
    /// # Errors
    /// The device can run none of them, or there are none because the crate was built without a device toolchain.
    pub fn ptx_for(self, name: &str, texts: &[(u32, &str)], context: &Context) -> Result<Self, DeviceError> {
        let capability = context.device().capability();
        match newest(texts, capability) {
            Some(text) => Ok(self.ptx(name, text)),
            None if texts.is_empty() => Err(DeviceError::Shape(format!(
                "`{name}` was built without a device toolchain and has no PTX: install one (see ringcall-build), and \
                 build again"
            ))),
            None => Err(DeviceError::NoKernels(capability)),
        }
    }

    /// The transport over the queues of a NIC, for a dispatcher [with hooks](crate::queue_pair::UnifiedDispatcher::with_hooks):
    /// its context is a [`QueueContext`](crate::queue_pair::QueueContext).
    ///
    /// # Errors
    /// The device is too old.
    pub fn queue_transport(self, context: &Context) -> Result<Self, DeviceError> {
        let text = text_for(TRANSPORT, context.device().capability())?;
        Ok(self.ptx("the transport over a NIC's queues", &text))
    }

    /// Relocatable machine code of one architecture (`nvcc -rdc=true -cubin`, `ptxas -c`).
    #[must_use]
    pub fn cubin(mut self, name: &str, data: &[u8]) -> Self {
        self.parts.push(Part::Cubin { name: name.to_owned(), data: data.to_owned() });
        self
    }

    /// A fat binary.
    #[must_use]
    pub fn fatbin(mut self, name: &str, data: &[u8]) -> Self {
        self.parts.push(Part::Fatbin { name: name.to_owned(), data: data.to_owned() });
        self
    }

    /// A library of device code.
    #[must_use]
    pub fn library(mut self, path: impl Into<PathBuf>) -> Self {
        self.parts.push(Part::Library(path.into()));
        self
    }

    /// Sets the initial contents of a global or constant variable of these modules to `data`, which is as long as the
    /// variable.
    #[must_use]
    pub fn variable(mut self, name: &str, data: &[u8]) -> Self {
        self.variables.push((name.to_owned(), data.to_owned()));
        self
    }

    /// Keeps `what` alive as long as the loaded modules, their dispatchers or kernels are used: for memory whose
    /// address is in a [`variable`](Self::variable).
    #[must_use]
    pub fn keep(mut self, what: Arc<dyn Any + Send + Sync>) -> Self {
        self.kept.push(what);
        self
    }

    /// The most registers of a thread. The default is the most with which the chosen block fits a multiprocessor.
    /// Code that needs more registers spills to memory.
    #[must_use]
    pub fn max_registers(mut self, registers: u32) -> Self {
        self.registers = Some(registers);
        self
    }

    /// Links and loads these modules without a dispatcher, for graphs that the host launches.
    ///
    /// # Errors
    /// The modules do not link.
    pub fn load_alone(&self, context: &Arc<Context>) -> Result<Module, DeviceError> {
        // Grid handlers refer to the barrier of the dispatch kernels, so these kernels are linked, too.
        self.load(context, KernelKind::regular(), &[])
    }

    /// Links everything with the kernel of `kernel` and a table of the addresses of `symbols`, and loads it.
    pub(super) fn load(
        &self,
        context: &Arc<Context>,
        kernel: KernelKind,
        symbols: &[&str],
    ) -> Result<Module, DeviceError> {
        let dispatcher = match kernel {
            KernelKind::Regular { .. } => DISPATCH,
            KernelKind::Cooperative { .. } => GRID,
            KernelKind::Ahead { .. } => AHEAD,
            KernelKind::Graph { .. } => GRAPH,
        };
        self.load_with(dispatcher, context, kernel, symbols)
    }

    /// Links these modules with the kernel that echoes a bare flag, and loads them.
    pub(super) fn load_baseline(&self, context: &Arc<Context>) -> Result<Module, DeviceError> {
        self.load_with(FLOOR, context, KernelKind::regular(), &[])
    }

    /// Links and loads the receiver or the sender of a ring.
    pub(crate) fn load_relay(context: &Arc<Context>) -> Result<Module, DeviceError> {
        Self::new().load_with(RELAY, context, KernelKind::Regular { blocks: 1, warps: 1 }, &[])
    }

    /// As [`load`](Self::load), with a unified kernel.
    pub(super) fn load_unified(
        &self,
        context: &Arc<Context>,
        kind: KernelKind,
        kernel: UnifiedKernel,
        symbols: &[&str],
    ) -> Result<Module, DeviceError> {
        let dispatcher = match kernel {
            UnifiedKernel::Queues => UNIFIED,
            UnifiedKernel::Grid => UNIFIED_GRID,
            UnifiedKernel::Graph => UNIFIED_GRAPH,
            // One of these modules defines the transport.
            UnifiedKernel::Hooks => HOOKS,
        };
        self.load_with(dispatcher, context, kind, symbols)
    }

    fn load_with(
        &self,
        dispatcher: &'static str,
        context: &Arc<Context>,
        kernel: KernelKind,
        symbols: &[&str],
    ) -> Result<Module, DeviceError> {
        let capability = context.device().capability();
        let text = text_for(dispatcher, capability)?;
        let registers = self.registers.unwrap_or_else(|| registers_for(kernel.threads()));
        let mut linker = Linker::new(capability)
            .max_registers(registers)
            .ptx("the dispatch kernels", &text)?
            .ptx("the function table", &table_ptx(symbols))?;
        for part in &self.parts {
            linker = match part {
                Part::Ptx { name, text } => linker.ptx(name, text)?,
                Part::Cubin { name, data } => linker.cubin(name, data)?,
                Part::Fatbin { name, data } => linker.fatbin(name, data)?,
                Part::Library(path) => linker.library(path)?,
            };
        }
        if matches!(kernel, KernelKind::Graph { .. }) {
            linker = linker.library(&devrt::find()?)?;
        }
        let module = Module::load_with(context, &linker.link(context)?, self.kept.clone())?;
        for (name, data) in &self.variables {
            module.write_global(name, data)?;
        }
        Ok(module)
    }
}

/// The addresses of `symbols` in a module that was loaded with them.
pub(super) fn addresses(module: &Module, symbols: &[&str]) -> Result<Vec<u64>, DeviceError> {
    let bytes = module.read_global(TABLE)?;
    let words = bytes.chunks_exact(8).take(symbols.len());
    Ok(words.map(|word| word.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))).collect())
}

/// Registers of a thread with which one block of this many threads fits a multiprocessor, in the hardware's units.
fn registers_for(threads: u32) -> u32 {
    (65_536 / threads.max(32) / 8 * 8).clamp(32, 255)
}

/// Name of the table of addresses.
const TABLE: &str = "ringcall_function_addresses";

/// The address of one of `symbols`.
pub(super) fn address_in(module: &Module, symbols: &[&str], symbol: &str) -> Result<u64, DeviceError> {
    let all = addresses(module, symbols)?;
    let index = symbols.iter().position(|other| *other == symbol);
    Ok(index.and_then(|index| all.get(index)).copied().unwrap_or(0))
}

/// PTX that takes the address of every symbol. So any module that defines a function of the right signature can be
/// linked, and the linker names a missing symbol.
fn table_ptx(symbols: &[&str]) -> String {
    const SIGNATURE: &str =
        "(.param .b64 input, .param .b64 output, .param .b32 len, .param .b32 room, .param .b64 result_len)";
    let mut text = String::from(".version 8.0\n.target sm_80\n.address_size 64\n");
    for symbol in symbols {
        let _ = writeln!(text, ".extern .func (.param .b32 status) {symbol}{SIGNATURE};");
    }
    let all = if symbols.is_empty() { "0".to_owned() } else { symbols.join(", ") };
    let _ = writeln!(text, ".visible .global .align 8 .u64 {TABLE}[{}] = {{ {all} }};", symbols.len().max(1));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_that_the_device_takes() {
        let texts = [(100, "c"), (80, "a"), (90, "b")];
        assert_eq!(newest(&texts, (9, 0)), Some("b"));
        assert_eq!(newest(&texts, (8, 9)), Some("a"));
        assert_eq!(newest(&texts, (12, 0)), Some("c"));
        assert_eq!(newest(&texts, (7, 5)), None);
    }

    #[test]
    fn an_older_device_gets_a_text_that_it_takes() {
        for kernel in [
            DISPATCH,
            GRID,
            AHEAD,
            GRAPH,
            UNIFIED,
            UNIFIED_GRID,
            UNIFIED_GRAPH,
            HOOKS,
            RELAY,
            TRANSPORT,
            FLOOR,
        ] {
            for capability in [(8, 0), (8, 9)] {
                let text = text_for(kernel, capability).expect("Ampere and Ada are served");
                assert!(text.contains("\n.version 8.0\n.target sm_80\n"));
                for newer in ["sm_90", "fence.acquire.", ".mmio.", "used_bytes_mask"] {
                    assert!(!text.contains(newer), "{newer}");
                }
            }
            assert_eq!(text_for(kernel, (12, 0)).expect("Blackwell is served"), kernel);
            assert!(matches!(text_for(kernel, (7, 5)), Err(DeviceError::NoKernels((7, 5)))));
        }
    }

    #[test]
    fn the_table_names_every_symbol() {
        let text = table_ptx(&["one", "two"]);
        assert!(text.contains("[2] = { one, two };"), "{text}");
        assert_eq!(text.matches(".extern .func").count(), 2);
        assert!(table_ptx(&[]).contains("[1] = { 0 };"));
    }

    #[test]
    fn registers_fill_a_multiprocessor() {
        assert_eq!(registers_for(1024), 64);
        assert_eq!(registers_for(512), 128);
        assert_eq!(registers_for(32), 255);
    }
}

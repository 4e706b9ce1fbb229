//! What the unified dispatcher takes from this one: tables, linking, launching.

use super::functions::{Functions, Run};
use super::modules::{Modules, addresses};
use super::{DeviceError, KernelKind};
use crate::driver::{Context, Module};
use ringcall_dispatch::Geometry;
use ringcall_dispatch::table::{Cell, IdIndex};
use ringcall_wire::launch::{DeviceEntry, HandlerKind};
use std::sync::Arc;

pub(crate) use super::launch::UnifiedLauncher;

/// A function table with the addresses of a loaded module.
pub(crate) struct UnifiedTable {
    pub(crate) entries: Vec<DeviceEntry>,
    pub(crate) cells: Vec<Cell>,
    pub(crate) index: IdIndex,
    pub(crate) names: Vec<(u32, String)>,
}

/// Which unified kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnifiedKernel {
    /// Warps on the queues of a NIC.
    Queues,
    /// One thread on a transport that is linked in.
    Hooks,
}

impl UnifiedKernel {
    /// Its entry point.
    pub(crate) const fn entry(self) -> &'static str {
        match self {
            Self::Queues => "ringcall_unified",
            Self::Hooks => "ringcall_unified_hooks",
        }
    }
}

/// Links functions with a unified kernel, and loads them.
pub(crate) fn link_unified(
    context: &Arc<Context>,
    functions: &Functions,
    modules: &Modules,
    geometry: &Geometry,
    kind: KernelKind,
    kernel: UnifiedKernel,
) -> Result<(UnifiedTable, Module), DeviceError> {
    let mut table = functions.lay_out(geometry, kind)?;
    if kernel == UnifiedKernel::Hooks
        && let Some(place) = table.entries.iter().position(|entry| entry.kind != HandlerKind::Thread as u32)
    {
        let name = functions.all.get(place).map_or("?", |function| &function.name);
        return Err(DeviceError::Shape(format!(
            "function `{name}` is no thread handler, and the kernel `{}` is one thread",
            kernel.entry()
        )));
    }
    let symbols = functions.symbols();
    let module = match kernel {
        UnifiedKernel::Queues => modules.load_unified(context, kind, &symbols)?,
        UnifiedKernel::Hooks => modules.load_hooks(context, kind, &symbols)?,
    };
    let addresses = addresses(&module, &symbols)?;
    for (entry, function) in table.entries.iter_mut().zip(&functions.all) {
        if let Run::Call { symbol, .. } = &function.run {
            let place = symbols.iter().position(|other| other == symbol);
            entry.address = place.and_then(|place| addresses.get(place).copied()).unwrap_or(0);
        }
    }
    let names =
        table.entries.iter().zip(&functions.all).map(|(entry, f)| (entry.id, f.name.clone())).collect();
    Ok((UnifiedTable { entries: table.entries, cells: table.cells, index: table.index, names }, module))
}

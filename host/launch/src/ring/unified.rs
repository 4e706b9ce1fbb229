//! Tables of loaded functions, and linking and launching for the unified dispatcher.

use super::functions::Functions;
use super::loaded_graph::{LoadedGraph, fill_addresses};
use super::modules::Modules;
use super::unified_kernel::UnifiedKernel;
use super::{DeviceError, KernelKind};
use ringcall_cuda::driver::{Context, Module, Stream};
use ringcall_protocol::Geometry;
use ringcall_protocol::table::{Cell, IdIndex};
use ringcall_wire::launch::{DeviceEntry, HandlerKind};
use std::sync::Arc;

pub(crate) use super::launch::Launcher as UnifiedLauncher;

/// A function table with the addresses of a loaded module.
pub(crate) struct LoadedTable {
    pub(crate) entries: Vec<DeviceEntry>,
    pub(crate) cells: Vec<Cell>,
    pub(crate) index: IdIndex,
    pub(crate) names: Vec<(u32, String)>,
    /// Mailboxes and executables, which are kept while the kernel runs.
    pub(crate) graphs: Vec<LoadedGraph>,
    /// Executables of all graphs.
    pub(crate) execs: u32,
}

/// Links functions with a unified kernel, and loads them. Graphs count in the words at `saved`.
#[allow(clippy::too_many_arguments)] // one call; a struct for it would say no more
pub(crate) fn link_unified(
    context: &Arc<Context>,
    functions: &Functions,
    modules: &Modules,
    geometry: &Geometry,
    kind: KernelKind,
    kernel: UnifiedKernel,
    saved: u64,
    stream: &Stream,
) -> Result<(LoadedTable, Module), DeviceError> {
    let mut table = functions.lay_out(geometry, kind).map_err(|error| match error {
        DeviceError::WrongKernel { name, kind, .. } => {
            DeviceError::WrongKernel { name, kind, kernel: kernel.entry() }
        }
        other => other,
    })?;
    if kernel == UnifiedKernel::Hooks
        && let Some(index) = table.entries.iter().position(|entry| entry.kind != HandlerKind::Thread as u32)
    {
        let name = functions.all.get(index).map_or("?", |function| &function.name);
        return Err(DeviceError::Shape(format!(
            "function `{name}` is no thread handler, and the kernel `{}` is one thread",
            kernel.entry()
        )));
    }
    let module = modules.load_unified(context, kind, kernel, &functions.symbols())?;
    let graphs = fill_addresses(&mut table, functions, &module, geometry, saved, stream)?;
    let execs = graphs.iter().map(LoadedGraph::execs).sum();
    let names =
        table.entries.iter().zip(&functions.all).map(|(entry, f)| (entry.id, f.name.clone())).collect();
    let table =
        LoadedTable { entries: table.entries, cells: table.cells, index: table.index, names, graphs, execs };
    Ok((table, module))
}

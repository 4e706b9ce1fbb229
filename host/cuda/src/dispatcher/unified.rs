//! What the unified dispatcher takes from this one: tables, linking, launching.

use super::functions::{Functions, Run};
use super::modules::{Modules, addresses};
use super::{DeviceError, KernelKind};
use crate::driver::{Context, Module};
use ringcall_dispatch::Geometry;
use ringcall_dispatch::table::{Cell, IdIndex};
use ringcall_wire::launch::DeviceEntry;
use std::sync::Arc;

pub(crate) use super::launch::UnifiedLauncher;

/// A function table with the addresses of a loaded module.
pub(crate) struct UnifiedTable {
    pub(crate) entries: Vec<DeviceEntry>,
    pub(crate) cells: Vec<Cell>,
    pub(crate) index: IdIndex,
    pub(crate) names: Vec<(u32, String)>,
}

/// Links functions with the unified kernel, and loads them.
pub(crate) fn link_unified(
    context: &Arc<Context>,
    functions: &Functions,
    modules: &Modules,
    geometry: &Geometry,
    kind: KernelKind,
) -> Result<(UnifiedTable, Module), DeviceError> {
    let mut table = functions.lay_out(geometry, kind)?;
    let symbols = functions.symbols();
    let module = modules.load_unified(context, kind, &symbols)?;
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

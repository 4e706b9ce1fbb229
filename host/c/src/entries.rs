//! Function tables of the caller, read as a whole in each layout, and checked.

use crate::layout::cudaq_function_table_t;
use crate::raw_ring::aligned;
use crate::status::Fault;
use ringcall_wire::entry::{FunctionEntry, LegacyFunctionEntry, SeedFunctionEntry};
use ringcall_wire::schema::HandlerSchema;
use ringcall_wire::status::DispatchMode;
use std::collections::HashMap;
use std::mem::size_of;
use zerocopy::FromBytes;

/// Functions of one table at most. A larger count is a mistake, and would be read far past the table.
const MAX_FUNCTIONS: u32 = 1 << 16;

/// Which of the three layouts a table has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum EntryLayout {
    Seed,
    #[default]
    Present,
    Legacy,
}

impl EntryLayout {
    pub(crate) fn of_bytes(bytes: usize) -> Result<Self, Fault> {
        [Self::Seed, Self::Present, Self::Legacy]
            .into_iter()
            .find(|layout| layout.bytes() == bytes)
            .ok_or_else(|| Fault::invalid(format!("entries of {bytes} bytes: there are 168, 176 and 192")))
    }

    pub(crate) const fn bytes(self) -> usize {
        match self {
            Self::Seed => size_of::<SeedFunctionEntry>(),
            Self::Present => size_of::<FunctionEntry>(),
            Self::Legacy => size_of::<LegacyFunctionEntry>(),
        }
    }

    fn parse(self, bytes: &[u8]) -> Option<FunctionEntry> {
        match self {
            Self::Seed => SeedFunctionEntry::read_from_bytes(bytes).ok().map(FunctionEntry::from),
            Self::Present => FunctionEntry::read_from_bytes(bytes).ok(),
            Self::Legacy => LegacyFunctionEntry::read_from_bytes(bytes).ok().map(FunctionEntry::from),
        }
    }

    /// The entries in `bytes`, whole ones only.
    ///
    /// # Errors
    /// A graph of the legacy layout has a back-pressure field that no engine here keeps.
    pub(crate) fn parse_all(self, bytes: &[u8]) -> Result<Vec<FunctionEntry>, Fault> {
        if self == Self::Legacy {
            check_legacy(bytes)?;
        }
        Ok(bytes.chunks_exact(self.bytes()).filter_map(|entry| self.parse(entry)).collect())
    }
}

/// Refuses graphs whose back-pressure fields say something that would be lost. The n-th graph's mailbox is the n-th of the bank;
/// an index that was left 0 is taken for that. Entries of other modes have no use for these fields, and may leave them unwritten.
fn check_legacy(bytes: &[u8]) -> Result<(), Fault> {
    let entries = bytes.chunks_exact(size_of::<LegacyFunctionEntry>()).enumerate();
    let entries = entries.filter_map(|(index, entry)| {
        LegacyFunctionEntry::read_from_bytes(entry).ok().map(|entry| (index, entry))
    });
    let graphs = entries
        .filter(|(_, entry)| u32::from(entry.dispatch_mode) == DispatchMode::GraphLaunch.raw())
        .zip(0_u32..);
    for ((index, entry), mailbox) in graphs {
        let pointers = [
            ("d_queue_idx", entry.d_queue_idx),
            ("d_ready_flags", entry.d_ready_flags),
            ("d_inflight_flag", entry.d_inflight_flag),
        ];
        if let Some((name, _)) = pointers.iter().find(|(_, address)| *address != 0) {
            return Err(Fault::unsupported(format!(
                "entry {index}: {name} is set, and nothing here reads or writes what it points to: set it to null"
            )));
        }
        let given = entry.mailbox_idx;
        if given != 0 && given != mailbox {
            return Err(Fault::unsupported(format!(
                "entry {index}: mailbox_idx is {given}, and the table's graphs have the mailboxes of the bank in their order: \
                 it must be {mailbox}"
            )));
        }
    }
    Ok(())
}

/// Whether the schemas of a table bind its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Schemas {
    /// They are not looked at: programs written for the reference leave them as the memory was.
    #[default]
    Ignored,
    /// A bad schema refuses the table, and a request of another length is answered with a schema mismatch.
    Checked,
}

/// What can be said of a table without reading its entries.
pub(crate) fn check_table(table: &cudaq_function_table_t) -> Result<(), Fault> {
    aligned(table.entries.cast_const(), 8, "the table's entries")?;
    if table.count == 0 || table.count > MAX_FUNCTIONS {
        let count = table.count;
        return Err(Fault::invalid(format!("a table of {count} functions: there are 1 to {MAX_FUNCTIONS}")));
    }
    Ok(())
}

/// Reads a table in host memory, and checks each entry.
///
/// # Safety
/// The table's `count` entries of this layout are there.
pub(crate) unsafe fn read_host(
    table: &cudaq_function_table_t,
    layout: EntryLayout,
    schemas: Schemas,
) -> Result<Vec<FunctionEntry>, Fault> {
    check_table(table)?;
    let mut bytes = vec![0; table.count as usize * layout.bytes()];
    let from = table.entries.cast_const().cast::<u8>();
    // SAFETY: the caller's promise; a copy, since the table may change later.
    unsafe { from.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
    let mut entries = layout.parse_all(&bytes)?;
    check_entries(&mut entries, schemas)?;
    Ok(entries)
}

/// Checks modes and handlers, and the schemas or makes them untyped. Routing keys count only where several entries have one id: tables filled field by
/// field, as the specification's examples do, leave them as they were.
pub(crate) fn check_entries(entries: &mut [FunctionEntry], schemas: Schemas) -> Result<(), Fault> {
    for (index, entry) in entries.iter_mut().enumerate() {
        if schemas == Schemas::Ignored {
            entry.schema = HandlerSchema::new();
        }
        entry.validate().map_err(|error| Fault::invalid(format!("entry {index}: {error}")))?;
    }
    let mut times: HashMap<u32, u32> = HashMap::new();
    for entry in &*entries {
        *times.entry(entry.function_id).or_default() += 1;
    }
    for (index, entry) in entries.iter_mut().enumerate() {
        let (id, mode) = (entry.function_id, u32::from(entry.dispatch_mode));
        if times.get(&id) == Some(&1) {
            entry.routing_key = 0;
        } else if mode != DispatchMode::GraphLaunch.raw() {
            return Err(Fault::invalid(format!(
                "entry {index}: function id {id:#010x} occurs more than once"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringcall_wire::FunctionId;

    fn entry(id: u32, mode: DispatchMode) -> FunctionEntry {
        let mut entry = FunctionEntry::new(FunctionId(id), mode, HandlerSchema::new(), 0x1000);
        entry.routing_key = u64::from(id) + 100;
        entry
    }

    #[test]
    fn only_graphs_may_share_an_id_and_only_they_have_keys() {
        let (call, graph) = (DispatchMode::HostCall, DispatchMode::GraphLaunch);
        let mut entries = [entry(1, graph), entry(2, call), entry(1, graph), entry(3, graph)];
        check_entries(&mut entries, Schemas::Checked).expect("good");
        assert_eq!(entries.map(|entry| entry.routing_key), [101, 0, 101, 0]);
        for (mut twins, index) in
            [([entry(1, graph), entry(1, call)], 1), ([entry(2, call), entry(2, graph)], 0)]
        {
            let why = check_entries(&mut twins, Schemas::Checked).expect_err("a call among them").why;
            assert!(why.contains(&format!("entry {index}:")) && why.contains("more than once"), "{why}");
        }
    }

    #[test]
    fn graphs_of_the_legacy_layout_have_their_mailboxes_in_order() {
        use zerocopy::IntoBytes;
        let table = |indices: &[(DispatchMode, u32)]| {
            let legacy = |(id, &(mode, index)): (u32, &(DispatchMode, u32))| {
                let entry = FunctionEntry::new(FunctionId(id), mode, HandlerSchema::new(), 0x1000);
                entry.to_legacy(index).expect("no routing key")
            };
            let entries: Vec<LegacyFunctionEntry> = (1..).zip(indices).map(legacy).collect();
            EntryLayout::Legacy
                .parse_all(entries.as_bytes())
                .map(|entries| entries.len())
                .map_err(|fault| fault.why)
        };
        let (call, graph) = (DispatchMode::HostCall, DispatchMode::GraphLaunch);
        assert_eq!(table(&[(graph, 0), (call, 77), (graph, 1), (graph, 2)]), Ok(4));
        assert_eq!(table(&[(graph, 0), (graph, 0)]), Ok(2), "left as zeroed");
        let why = table(&[(call, 0), (graph, 0), (graph, 2)]).expect_err("another's mailbox");
        assert!(why.contains("entry 2: mailbox_idx is 2") && why.contains("must be 1"), "{why}");
    }

    #[test]
    fn the_largest_table_is_checked() {
        let mut entries: Vec<_> = (0..MAX_FUNCTIONS).map(|id| entry(id, DispatchMode::HostCall)).collect();
        check_entries(&mut entries, Schemas::Checked).expect("good");
        let last = entries.len() - 1;
        entries[last].function_id = 0;
        assert!(check_entries(&mut entries, Schemas::Checked).expect_err("twice").why.contains("entry 0:"));
    }
}

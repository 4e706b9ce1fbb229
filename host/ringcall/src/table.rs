//! Function tables of a dispatcher: which functions there are and how each is run.

use crate::Ring;
use ringcall_protocol::ring::Geometry;
use ringcall_protocol::table::{Callable, Cell, EMPTY, IdIndex, IndexError, Table};
use ringcall_wire::function::FunctionId;
use ringcall_wire::header::{HEADER_BYTES, RequestHeader};
use ringcall_wire::schema::HandlerSchema;
use ringcall_wire::status::{DispatchMode, Status};
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A function that the dispatcher thread runs inline.
///
/// It gets the request's payload and a buffer for the result, both private copies, and returns how many bytes of the
/// result it wrote. An error is sent as the response's status; positive values are defined by the handler. A handler
/// must not block, since every other request of the ring waits for it.
pub trait HostHandler: Send {
    /// Runs the function.
    ///
    /// # Errors
    /// The status to answer with.
    fn call(&mut self, request: &[u8], result: &mut [u8]) -> Result<usize, Status>;

    /// Runs the function on private copies of both slots. Returns a status and the number of result bytes, which are
    /// sent with any status. The default calls [`call`](Self::call) with the bytes after the headers.
    ///
    /// # Errors
    /// The status to answer with, without a result.
    #[inline]
    fn call_in_slots(
        &mut self,
        header: &RequestHeader,
        slots: &mut Slots,
    ) -> Result<(Status, usize), Status> {
        let Slots { request, response } = slots;
        let request = &request.as_bytes()[HEADER_BYTES..][..header.arg_len as usize];
        self.call(request, &mut response.as_mut_bytes()[HEADER_BYTES..]).map(|len| (Status::OK, len))
    }
}

/// One thread's private copies of a whole request slot and a whole response slot, headers included. Bytes of earlier
/// requests remain in them.
#[derive(Debug)]
pub struct Slots {
    /// The request: its header, and the bytes of payload that the header declares (checked against the slot).
    pub request: SlotWords,
    /// Buffer of the result, after room for a header that the dispatcher does not read.
    pub response: SlotWords,
}

impl Slots {
    /// Copies for slots of a ring.
    pub(crate) fn new(geometry: &Geometry) -> Self {
        Self { request: SlotWords::new(geometry.rx_stride()), response: SlotWords::new(geometry.tx_stride()) }
    }
}

/// The words of one slot, aligned to a cache line. Which accesses cross a line then depends on the slot's layout and
/// not on the allocator.
#[derive(Debug)]
pub struct SlotWords {
    lines: Box<[Line]>,
    words: usize,
}

#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
struct Line([u64; 8]);

impl SlotWords {
    fn new(bytes: u32) -> Self {
        let lines = vec![Line::default(); (bytes as usize).div_ceil(size_of::<Line>())];
        Self { lines: lines.into_boxed_slice(), words: bytes as usize / 8 }
    }
}

impl Deref for SlotWords {
    type Target = [u64];

    #[inline(always)]
    fn deref(&self) -> &[u64] {
        <[u64]>::ref_from_bytes(self.lines.as_bytes()).map_or(&[], |words| &words[..self.words])
    }
}

impl DerefMut for SlotWords {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u64] {
        <[u64]>::mut_from_bytes(self.lines.as_mut_bytes()).map_or(&mut [], |words| &mut words[..self.words])
    }
}

impl<F: FnMut(&[u8], &mut [u8]) -> Result<usize, Status> + Send> HostHandler for F {
    fn call(&mut self, request: &[u8], result: &mut [u8]) -> Result<usize, Status> {
        self(request, result)
    }
}

/// Why a table cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// Two names hash to the same id, or one name was entered twice.
    #[error("functions `{first}` and `{second}` have the same id {id:#010x}: rename one")]
    Collision {
        /// The earlier name.
        first: String,
        /// The later name.
        second: String,
        /// Their id.
        id: u32,
    },
    /// A schema is malformed.
    #[error("function `{name}`: {reason}")]
    Schema {
        /// The function.
        name: String,
        /// The defect.
        reason: String,
    },
    /// The arguments or the results do not fit a slot.
    #[error("function `{name}`: {what} of {bytes} bytes do not fit a slot that takes {capacity}")]
    TooLong {
        /// The function.
        name: String,
        /// Arguments or results.
        what: &'static str,
        /// Bytes of the schema.
        bytes: u32,
        /// Bytes that a slot holds.
        capacity: u32,
    },
    /// The id index could not be built.
    #[error("{0}")]
    Index(IndexError),
}

/// One function's data for validation, and the index of its handler.
#[derive(Debug, Clone)]
pub struct Function {
    pub(crate) name: String,
    pub(crate) id: FunctionId,
    pub(crate) schema: HandlerSchema,
    pub(crate) mode: DispatchMode,
    arg_bytes: Option<u32>,
    pub(crate) index: usize,
    /// Answered in the slot, by what [`ExternalExecutor`](crate::external::ExternalExecutor) starts.
    pub(crate) executor: bool,
}

impl Callable for Function {
    #[inline(always)]
    fn mode(&self) -> DispatchMode {
        self.mode
    }

    #[inline(always)]
    fn arg_bytes(&self) -> Option<u32> {
        self.arg_bytes
    }
}

/// The lookup half of a table: shared by reference while handlers run.
#[derive(Debug, Clone)]
pub struct Functions {
    pub(crate) entries: Vec<Function>,
    index: IdIndex,
    cells: Vec<Cell>,
}

impl Table for Functions {
    type Entry = Function;

    #[inline(always)]
    fn lookup(&self, id: FunctionId) -> Option<&Function> {
        self.entries.get(self.index.lookup(&self.cells, id)?)
    }
}

/// The functions of one dispatcher, found by id in constant time.
pub struct FunctionTable {
    pub(crate) functions: Functions,
    /// The handler of each function that has one.
    pub(crate) handlers: Vec<Option<Box<dyn HostHandler>>>,
}

/// The handlers of a table: inline handlers by function.
pub struct Handlers(Vec<Option<Box<dyn HostHandler>>>);

impl std::fmt::Debug for Handlers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handlers").field("count", &self.0.len()).finish()
    }
}

impl Handlers {
    /// Runs a function's handler. Returns the length of the result.
    ///
    /// # Errors
    /// The status to answer with: the handler's own, [`HANDLER_PANIC`](Status::HANDLER_PANIC), or
    /// [`WRONG_MODE`](Status::WRONG_MODE) for a function that is not run inline.
    pub fn call(&mut self, function: &Function, request: &[u8], result: &mut [u8]) -> Result<usize, Status> {
        let handler = self.0.get_mut(function.index).and_then(Option::as_mut).ok_or(Status::WRONG_MODE)?;
        // The panic is caught, since the caller also serves every other request.
        catch_unwind(AssertUnwindSafe(|| handler.call(request, result))).unwrap_or(Err(Status::HANDLER_PANIC))
    }
}

impl std::fmt::Debug for FunctionTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

impl FunctionTable {
    /// Begins an empty table.
    #[must_use]
    pub fn builder() -> TableBuilder {
        TableBuilder { functions: Vec::new() }
    }

    /// Splits the table into lookup and handlers, for a loop without a ring, such as a queue pair's.
    #[must_use]
    pub fn into_parts(self) -> (Functions, Handlers) {
        (self.functions, Handlers(self.handlers))
    }

    /// The schema of each function, in order of entry.
    pub fn schemas(&self) -> impl Iterator<Item = (&str, &HandlerSchema)> {
        self.functions.entries.iter().map(|f| (f.name.as_str(), &f.schema))
    }

    /// The functions' names and ids, in order of entry.
    pub fn names(&self) -> impl Iterator<Item = (&str, FunctionId)> {
        self.functions.entries.iter().map(|f| (f.name.as_str(), f.id))
    }
}

struct Draft {
    name: String,
    id: FunctionId,
    executor: bool,
    schema: HandlerSchema,
    mode: DispatchMode,
    handler: Option<Box<dyn HostHandler>>,
}

/// Builder of a [`FunctionTable`].
pub struct TableBuilder {
    functions: Vec<Draft>,
}

impl TableBuilder {
    fn push(
        mut self,
        name: &str,
        schema: HandlerSchema,
        mode: DispatchMode,
        handler: Option<Box<dyn HostHandler>>,
    ) -> Self {
        let id = FunctionId::of(name);
        self.functions.push(Draft { name: name.to_owned(), id, executor: false, schema, mode, handler });
        self
    }

    /// Gives the last entered function the id `id` in place of its name's hash, for tables of other libraries, which
    /// have ids and no names.
    #[must_use]
    pub fn with_id(mut self, id: FunctionId) -> Self {
        if let Some(last) = self.functions.last_mut() {
            last.id = id;
        }
        self
    }

    /// A function that is started by the dispatcher's [`ExternalExecutor`](crate::external::ExternalExecutor) and answered in the slot.
    #[must_use]
    pub fn external_call(self, name: &str, schema: HandlerSchema) -> Self {
        let mut builder = self.push(name, schema, DispatchMode::GraphLaunch, None);
        if let Some(last) = builder.functions.last_mut() {
            last.executor = true;
        }
        builder
    }

    /// A function that the dispatcher thread runs inline, taking payloads of any length.
    #[must_use]
    pub fn host_call(self, name: &str, handler: impl HostHandler + 'static) -> Self {
        self.host_call_with_schema(name, HandlerSchema::new(), handler)
    }

    /// A function that the dispatcher thread runs inline. Payloads of another length than the schema's are refused.
    #[must_use]
    pub fn host_call_with_schema(
        self,
        name: &str,
        schema: HandlerSchema,
        handler: impl HostHandler + 'static,
    ) -> Self {
        self.push(name, schema, DispatchMode::HostCall, Some(Box::new(handler)))
    }

    /// A function that a pool of workers serves ([`HostDispatcherBuilder::worker`](crate::dispatcher::HostDispatcherBuilder::worker)).
    #[must_use]
    pub fn worker_call(self, name: &str, schema: HandlerSchema) -> Self {
        self.push(name, schema, DispatchMode::GraphLaunch, None)
    }

    /// A function that only a device dispatcher runs. Here its requests are answered
    /// [`WRONG_MODE`](Status::WRONG_MODE); entering it tells a mistake in wiring from an unknown name.
    #[must_use]
    pub fn device_call(self, name: &str, schema: HandlerSchema) -> Self {
        self.push(name, schema, DispatchMode::DeviceCall, None)
    }

    /// Checks the table for this ring and builds it.
    ///
    /// # Errors
    /// Two functions with one id, a malformed schema, or one that does not fit the ring's slots.
    pub fn build(self, ring: &Ring) -> Result<FunctionTable, TableError> {
        let geometry = ring.geometry();
        self.build_for(geometry.request_capacity(), geometry.result_capacity())
    }

    /// Checks the table for slots with this many payload bytes in each direction and builds it.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_for(self, request_bytes: u32, result_bytes: u32) -> Result<FunctionTable, TableError> {
        let mut entries = Vec::with_capacity(self.functions.len());
        let mut handlers = Vec::with_capacity(self.functions.len());
        for (index, Draft { name, id, executor, schema, mode, handler }) in
            self.functions.into_iter().enumerate()
        {
            let malformed =
                |e: &dyn std::fmt::Display| TableError::Schema { name: name.clone(), reason: e.to_string() };
            schema.validate().map_err(|e| malformed(&e))?;
            let args = schema.args_bytes().map_err(|e| malformed(&e))?;
            let results = schema.results_bytes().map_err(|e| malformed(&e))?;
            for (what, bytes, capacity) in
                [("arguments", args, request_bytes), ("results", results, result_bytes)]
            {
                if bytes > capacity {
                    return Err(TableError::TooLong { name, what, bytes, capacity });
                }
            }
            let arg_bytes = schema.arg_len().map_err(|e| malformed(&e))?;
            entries.push(Function { id, name, schema, mode, arg_bytes, index, executor });
            handlers.push(handler);
        }
        let mut size = IdIndex::cells_for(entries.len());
        let (index, cells) = loop {
            let mut cells = vec![EMPTY; size];
            match IdIndex::build(entries.len(), |i| entries[i].id.0, &mut cells) {
                Ok(index) => break (index, cells),
                Err(IndexError::NoMultiplier) if size < 1 << 24 => size *= 2,
                Err(IndexError::Collision { id, first, second }) => {
                    return Err(TableError::Collision {
                        first: entries[first].name.clone(),
                        second: entries[second].name.clone(),
                        id,
                    });
                }
                Err(other) => return Err(TableError::Index(other)),
            }
        };
        Ok(FunctionTable { functions: Functions { entries, index, cells }, handlers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slots_copy_is_as_long_as_the_slot_and_begins_a_line() {
        for bytes in (24..=264).step_by(8) {
            let mut copy = SlotWords::new(bytes);
            assert_eq!(copy.len() * 8, bytes as usize);
            assert_eq!(copy.as_ptr().addr() % 64, 0);
            copy.fill(7);
            assert!(copy.iter().all(|&word| word == 7));
        }
    }
}

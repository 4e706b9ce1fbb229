//! Function tables of a device dispatcher: handlers, graphs, and functions of other dispatchers.

use super::graphs::GraphFunction;
use super::index::{Clash, chain, index};
use super::{DeviceError, KernelKind};
use ringcall_handler::Handler;
use ringcall_protocol::Geometry;
use ringcall_protocol::table::{Cell, IdIndex};
use ringcall_wire::function::FunctionId;
use ringcall_wire::launch::{DeviceEntry, HandlerKind};
use ringcall_wire::schema::HandlerSchema;

/// One function.
#[derive(Debug, Clone)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) schema: HandlerSchema,
    pub(super) run: Run,
    follow_up: Option<String>,
}

/// How the function is run.
#[derive(Debug, Clone)]
pub(super) enum Run {
    /// A device function of this symbol. `measures`: it may ask how large its grid is.
    Call { symbol: String, kind: HandlerKind, measures: bool },
    /// A graph.
    Graph(GraphFunction),
    /// By another dispatcher.
    Elsewhere,
}

/// The functions of a device dispatcher, in order of entry.
#[derive(Debug, Clone, Default)]
pub struct Functions {
    pub(super) all: Vec<Function>,
    /// A grid function and the symbol of its participant function.
    participant: Option<[String; 2]>,
}

/// The laid-out table: entries that have no addresses yet, and the index over them.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub(super) entries: Vec<DeviceEntry>,
    pub(super) cells: Vec<Cell>,
    pub(super) index: IdIndex,
}

impl Functions {
    /// No functions yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Handlers written with `#[handler]`.
    #[must_use]
    pub fn handlers(mut self, handlers: &[Handler]) -> Self {
        for handler in handlers {
            self = self.call(handler.name, handler.symbol, handler.kind, handler.schema, true);
        }
        self
    }

    fn call(
        mut self,
        name: &str,
        symbol: &str,
        kind: HandlerKind,
        schema: HandlerSchema,
        measures: bool,
    ) -> Self {
        let run = Run::Call { symbol: symbol.to_owned(), kind, measures };
        self.all.push(Function { name: name.to_owned(), schema, run, follow_up: None });
        self
    }

    /// A device function by its symbol, such as one of a C++ module. All handlers have this signature: `int f(const
    /// void* in, void* out, uint32_t arg_len, uint32_t max_result_len, uint32_t* result_len)`.
    #[must_use]
    pub fn symbol(self, name: &str, symbol: &str, kind: HandlerKind, schema: HandlerSchema) -> Self {
        self.call(name, symbol, kind, schema, false)
    }

    /// A function that a graph answers. Several graphs of one name differ in their routing keys; a request's first
    /// eight bytes choose among them.
    #[must_use]
    pub fn graph(mut self, name: &str, schema: HandlerSchema, graph: GraphFunction) -> Self {
        let run = Run::Graph(graph);
        self.all.push(Function { name: name.to_owned(), schema, run, follow_up: None });
        self
    }

    /// A function that another dispatcher of the same ring serves: its requests are left in the ring. This is for the
    /// one dispatcher of a shared ring that answers malformed requests and unknown functions
    /// ([`DispatcherOptions::shared_ring`](super::DispatcherOptions::shared_ring)). This dispatcher then reads every
    /// request twice, as dispatchers in shared mode do, because another dispatcher may have taken the request that it
    /// saw, and the producer may be writing the next request.
    #[must_use]
    pub fn elsewhere(mut self, name: &str) -> Self {
        let (schema, run) = (HandlerSchema::new(), Run::Elsewhere);
        self.all.push(Function { name: name.to_owned(), schema, run, follow_up: None });
        self
    }

    /// Whether other dispatchers serve some of the functions.
    pub(super) fn shares(&self) -> bool {
        self.all.iter().any(|function| matches!(function.run, Run::Elsewhere))
    }

    /// Names the graph that the handler `name` triggers by returning the trigger marker
    /// ([`GRAPH_TRIGGER`](ringcall_wire::flag::GRAPH_TRIGGER)) as its status.
    ///
    /// The handler is called only while the dispatcher has a launch left for the graph; until then its request waits
    /// in the ring. No executable is reserved for a call, since most calls may not trigger the graph. If all
    /// executables run when the handler returns, its result is sent with the status `BACKPRESSURE`, and no graph is
    /// launched. A graph with as many executables as its runs overlap ([`GraphFunction`]) avoids that.
    #[must_use]
    pub fn follow_up(mut self, name: &str, graph: &str) -> Self {
        for function in self.all.iter_mut().filter(|function| function.name == name) {
            function.follow_up = Some(graph.to_owned());
        }
        self
    }

    /// In a dispatcher of [`KernelKind::Ahead`], lets the blocks of the grid function `name`, which must be the only
    /// grid function, wait for calls inside the device function `symbol` and not in a loop around the handler. That
    /// saves each call the cost of entering a handler with many registers. `kernels-cu/grid_channel.cuh` has the
    /// signature and the duties of `symbol`, which relies on the grid's size. Other dispatchers call the handler.
    #[must_use]
    pub fn participant(mut self, name: &str, symbol: &str) -> Self {
        self.participant = Some([name, symbol].map(str::to_owned));
        self
    }

    /// The symbol of the participant function in a kernel, if it has one.
    pub(super) fn participant_of(&self, kernel: KernelKind) -> Result<Option<&str>, DeviceError> {
        let Some([name, symbol]) = &self.participant else { return Ok(None) };
        if !matches!(kernel, KernelKind::Ahead { .. }) {
            return Ok(None);
        }
        let is_grid = |f: &&Function| matches!(f.run, Run::Call { kind: HandlerKind::Grid, .. });
        if !self.all.iter().filter(is_grid).map(|function| &function.name).eq([name]) {
            let why = format!("a participant serves one grid function, and {name} is not the only one");
            return Err(DeviceError::Shape(why));
        }
        Ok(Some(symbol))
    }

    /// The symbols of device functions, each once.
    pub(super) fn symbols(&self) -> Vec<&str> {
        let mut symbols: Vec<&str> = self.participant.iter().map(|[_, symbol]| symbol.as_str()).collect();
        for function in &self.all {
            if let Run::Call { symbol, .. } = &function.run
                && !symbols.contains(&symbol.as_str())
            {
                symbols.push(symbol);
            }
        }
        symbols
    }

    /// Lays the table out, after every check that needs no device.
    pub(super) fn lay_out(&self, geometry: &Geometry, kernel: KernelKind) -> Result<Table, DeviceError> {
        let entry = |function| self.entry(function, geometry, kernel);
        let mut entries = self.all.iter().map(entry).collect::<Result<Vec<_>, _>>()?;
        let heads = chain(&mut entries, |first, second| self.all[first].name == self.all[second].name)
            .map_err(|clash| self.name(&clash))?;
        let (index, cells) = index(&entries, &heads)?;
        Ok(Table { entries, cells, index })
    }

    /// Two entries that exclude each other, by name.
    fn name(&self, clash: &Clash) -> DeviceError {
        let name = |index: usize| self.all[index].name.clone();
        match *clash {
            Clash::Id { first, second, id } => {
                DeviceError::Collision { first: name(first), second: name(second), id }
            }
            Clash::Route { second, key } => DeviceError::SameRoute { name: name(second), key },
        }
    }

    fn entry(
        &self,
        function: &Function,
        geometry: &Geometry,
        kernel: KernelKind,
    ) -> Result<DeviceEntry, DeviceError> {
        let schema = |why: String| DeviceError::Schema { name: function.name.clone(), why };
        function.schema.validate().map_err(|error| schema(error.to_string()))?;
        let slot = geometry.rx_stride().min(geometry.tx_stride()) as usize;
        function.schema.fits_slot(slot).map_err(|error| schema(error.to_string()))?;
        let arg_len = function.schema.arg_len().map_err(|error| schema(error.to_string()))?;
        let arg_bytes = arg_len.unwrap_or(DeviceEntry::NONE);
        let wrong =
            |kind| DeviceError::WrongKernel { name: function.name.clone(), kind, kernel: kernel.entry() };
        let (kind, execs, routing_key) = match &function.run {
            Run::Call { kind: HandlerKind::Grid, .. } if !kernel.is_grid() => {
                return Err(wrong("a grid handler"));
            }
            Run::Call { kind: HandlerKind::Grid, measures: true, .. }
                if matches!(kernel, KernelKind::Ahead { .. }) =>
            {
                return Err(wrong("a grid handler that may ask how large the grid is"));
            }
            Run::Graph(_) if !matches!(kernel, KernelKind::Graph { .. }) => return Err(wrong("a graph")),
            Run::Call { kind, .. } => (*kind, 0, 0),
            Run::Graph(graph) => (HandlerKind::Graph, graph.execs, graph.routing_key),
            Run::Elsewhere => (HandlerKind::OtherDispatcher, 0, 0),
        };
        Ok(DeviceEntry {
            address: 0,
            id: FunctionId::of(&function.name).0,
            kind: kind as u32,
            arg_bytes,
            follow_up: self.follow_up_of(function)?,
            execs,
            io_stride: 0,
            routing_key,
            next_route: DeviceEntry::NONE,
            reserved: 0,
        })
    }

    fn follow_up_of(&self, function: &Function) -> Result<u32, DeviceError> {
        let Some(graph) = &function.follow_up else { return Ok(DeviceEntry::NONE) };
        self.all
            .iter()
            .position(|other| other.name == *graph && matches!(other.run, Run::Graph(_)))
            .map(|index| index as u32)
            .ok_or_else(|| DeviceError::NoFollowUp { name: function.name.clone(), graph: graph.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AHEAD: KernelKind = KernelKind::Ahead { blocks: 4, threads: 64 };
    const COOPERATIVE: KernelKind = KernelKind::Cooperative { blocks: 4, threads: 64 };

    fn grid(functions: Functions, name: &str) -> Functions {
        functions.symbol(name, "f", HandlerKind::Grid, HandlerSchema::new())
    }

    #[test]
    fn a_grid_that_is_served_ahead_runs_what_knows_its_grid() {
        let geometry = Geometry::new(16, 576, 576, 0, 0, 0).expect("a ring");
        assert!(grid(Functions::new(), "one").lay_out(&geometry, AHEAD).is_ok());
        let samples = ringcall_kernels::samples::handlers::all();
        let measuring: Vec<_> =
            samples.into_iter().filter(|handler| handler.name == "rpc_increment_grid").collect();
        let measuring = Functions::new().handlers(&measuring);
        assert!(measuring.lay_out(&geometry, COOPERATIVE).is_ok());
        let refused = measuring.lay_out(&geometry, AHEAD).expect_err("it may ask").to_string();
        assert!(refused.contains("how large the grid is"), "{refused}");
    }

    #[test]
    fn a_participant_is_for_the_only_grid_function() {
        let one = grid(Functions::new(), "one").participant("one", "follow");
        assert_eq!(one.participant_of(AHEAD).expect("it is"), Some("follow"));
        assert_eq!(one.participant_of(COOPERATIVE).expect("not asked for"), None);
        assert_eq!(one.symbols(), ["follow", "f"]);
        for wrong in [grid(one, "two"), Functions::new().participant("one", "follow")] {
            assert!(matches!(wrong.participant_of(AHEAD), Err(DeviceError::Shape(_))));
        }
    }
}

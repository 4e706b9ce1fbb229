//! Options of a service.

use crate::Pick;

/// Who moves tensors between requests, the network and answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transfer {
    /// The kernels at both ends of the graph.
    #[default]
    Kernel,
    /// Copy nodes of the graph, by the device's copy engines: between fixed addresses alone, so inputs always, outputs to a
    /// queue of one record. The kernels are left with checks and signals.
    Dma,
}

/// How a service is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceOptions {
    /// What a request fills.
    pub inputs: Pick,
    /// The tensors that are handed over, or answered.
    pub outputs: Pick,
    /// Instances: as many requests are inferred at once.
    pub instances: u32,
    /// How a request gets into the inputs.
    pub input_transfer: Transfer,
    /// How outputs get into a queue.
    pub output_transfer: Transfer,
    /// Times that a graph looks for a free record before it refuses its request, about a microsecond each. Dispatchers do not
    /// launch before there is one, so this is a second line.
    pub poll_limit: u64,
    /// Whether dispatchers look for a free record before they launch. Without it the second line is the only one: a full
    /// queue then costs launches and refusals.
    pub gated: bool,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        Self {
            inputs: Pick::First,
            outputs: Pick::First,
            instances: 1,
            input_transfer: Transfer::Kernel,
            output_transfer: Transfer::Kernel,
            poll_limit: 2_000,
            gated: true,
        }
    }
}

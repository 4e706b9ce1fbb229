//! The tables of a run that cores share: the graph, and how far its nodes are from the ends of windows.

use super::SharedEndlessConfig;
use crate::blossom::Tables;
use crate::decoder::{DecoderConfig, MwpmDecoder};
use crate::endless::Shape;
use crate::error::SlidingError;
use crate::graph::MatchingGraph;
use crate::layers::{Layers, Window};
use crate::metric::{FAR, Metric};
use crate::queue::RadixQueue;

/// The tables that all threads share: one graph, in which all windows lie.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) layers: Layers,
    pub(super) passes: Passes,
    pub(super) bases: Vec<u32>,
    pub(super) layer_of: Vec<u32>,
    pub(super) context: usize,
    pub(super) overlap: usize,
    pub(super) step: usize,
    /// The least grid weight of an edge per round that the edge spans.
    pub(super) per_round: i64,
    /// The round at which the first two windows are joined.
    pub(super) first_join: usize,
    pub(super) scale: f64,
}

/// How windows are matched.
#[derive(Debug)]
pub(super) enum Passes {
    One(Box<OnePass>),
    /// Twice, each by a clone of this decoder.
    Two(Box<MwpmDecoder>),
}

/// The tables of one pass.
#[derive(Debug)]
pub(super) struct OnePass {
    graph: MatchingGraph,
    metric: Metric,
    /// Per layer of a window, counted from its first and from its last one, and per detector: the distance to the nearest one in
    /// front of the window, and to the nearest one behind it.
    pub(super) fronts: Vec<Vec<i64>>,
    pub(super) backs: Vec<Vec<i64>>,
}

/// Where the windows in the middle of a run lie in the graph: their first layer, their layers, and how many rounds a path may lead over.
#[derive(Debug, Clone, Copy)]
struct Ends {
    begin: usize,
    length: usize,
    reach: usize,
}

impl OnePass {
    fn new(graph: MatchingGraph, near_entries: usize, bases: &[u32], layer_of: &[u32], ends: Ends) -> Self {
        let metric = Metric::new(&graph, near_entries);
        let border = Border { graph: &graph, bases, layer_of };
        // Two defects that are further from each other than both are from the boundary do not interact.
        let out = |node: u32| metric.nodes[node as usize].boundary;
        // A node that is left out has no way to the boundary, and limits nothing.
        let widest = (0..graph.num_detectors() as u32).map(out).filter(|&out| out < FAR).max().unwrap_or(0);
        let cut = |distances: Vec<i64>, base: u32| -> Vec<i64> {
            let limit = |position: usize| out(base + position as u32) + widest;
            distances.into_iter().enumerate().map(|(i, d)| if d <= limit(i) { d } else { FAR }).collect()
        };
        // Layers of the repeating part, with as many before and after them as a shortest path can lead over.
        let Ends { begin, length, reach } = ends;
        let from_before = border.distances(|layer| layer < begin);
        let end = begin + length;
        let from_after = border.distances(|layer| layer >= end);
        let row = |distances: &[i64], layer: usize| {
            let nodes = bases[layer]..bases[layer + 1];
            cut(distances[nodes.start as usize..nodes.end as usize].to_vec(), nodes.start)
        };
        let fronts = (begin..begin + reach).map(|layer| row(&from_before, layer)).collect();
        let backs = (0..reach).map(|k| row(&from_after, end - 1 - k)).collect();
        Self { graph, metric, fronts, backs }
    }

    pub(super) fn tables(&self) -> Tables<'_> {
        Tables { graph: &self.graph, metric: &self.metric }
    }
}

impl Plan {
    pub(super) fn new(
        graph: &MatchingGraph,
        rounds: &[u32],
        config: &SharedEndlessConfig,
    ) -> Result<Self, SlidingError> {
        let twice = config.correlations && graph.num_correlations() > 0;
        let layers =
            if twice { Layers::with_correlations(graph, rounds)? } else { Layers::new(graph, rounds)? };
        let Shape { layers, step: per_round, context } = Shape::new(graph, rounds, layers)?;
        let or = |given: usize, default: usize| if given == 0 { default } else { given };
        let overlap = or(config.overlap, if twice { (3 * context).div_ceil(2) } else { context }.max(8));
        let step = or(config.step, (2 * context).max(8));
        // Room for the longest window, the last one, and for the rounds before and after it that a shortest path can lead over.
        let length = overlap.saturating_mul(2).saturating_add(step).saturating_add(2 * context);
        let longest = length.saturating_add(layers.head()).saturating_add(layers.tail());
        if longest.saturating_mul(layers.most_detectors()) > crate::MAX_DETECTORS as usize {
            return Err(SlidingError::Window { window: length, commit: step });
        }
        let Window { graph: run, bases, layer_of } = layers.whole(length)?;
        if run.parts().contains(&false) {
            return Err(SlidingError::NoBoundary { window: length });
        }
        let (first_join, scale) = (layers.head() + context + overlap, graph.scale());
        let ends = Ends {
            begin: layers.head() + context,
            length: 2 * overlap + step,
            reach: 2 * context.min(overlap + step),
        };
        let passes = if twice {
            let mut two = DecoderConfig::default();
            (two.near_entries, two.correlations) = (config.near_entries, true);
            Passes::Two(Box::new(MwpmDecoder::with_config(run, &two)))
        } else {
            let run = if config.observables_only { run.for_observables(false) } else { run };
            Passes::One(Box::new(OnePass::new(run, config.near_entries, &bases, &layer_of, ends)))
        };
        Ok(Self { layers, passes, bases, layer_of, context, overlap, step, per_round, first_join, scale })
    }

    /// The graph in which all windows lie.
    pub(super) fn graph(&self) -> &MatchingGraph {
        match &self.passes {
            Passes::One(one) => &one.graph,
            Passes::Two(decoder) => decoder.graph(),
        }
    }

    /// The round at which window `k` is joined to the next one.
    pub(super) fn join(&self, k: usize) -> usize {
        self.first_join + k * self.step
    }

    /// The first round of window `k`, and the round after its last unless it is the last window.
    pub(super) fn window(&self, k: usize) -> [usize; 2] {
        let begin = k.checked_sub(1).map_or(0, |before| self.join(before) - self.overlap);
        [begin, self.join(k) + self.overlap]
    }
}

/// What distances from a set of layers are searched in.
struct Border<'a> {
    graph: &'a MatchingGraph,
    bases: &'a [u32],
    layer_of: &'a [u32],
}

impl Border<'_> {
    /// The distance of each node from the layers `outside`.
    fn distances(&self, outside: impl Fn(usize) -> bool) -> Vec<i64> {
        let n = self.layer_of.len() as u32;
        let mut distances = vec![FAR; n as usize];
        let mut queue = RadixQueue::new(n as usize);
        queue.restart();
        for node in 0..n {
            queue.forget(node);
            if outside(self.layer_of[node as usize] as usize) {
                distances[node as usize] = 0;
                queue.push(node, 0);
            }
        }
        debug_assert_eq!(self.bases.last(), Some(&n));
        while let Some((dist, node)) = queue.pop() {
            for nb in self.graph.neighbours(node) {
                let through = dist + i64::from(nb.weight);
                if through < distances[nb.node as usize] {
                    distances[nb.node as usize] = through;
                    queue.push(nb.node, through);
                }
            }
        }
        distances
    }
}

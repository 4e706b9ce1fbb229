//! The tables of a run that cores share: the graphs of windows, and where windows are in them.

use super::SharedEndlessConfig;
use crate::blossom::Tables;
use crate::endless::Shape;
use crate::endless::pane::{Pane, Places};
use crate::error::SlidingError;
use crate::graph::MatchingGraph;
use crate::layers::{End, Layers, Window};
use crate::metric::{FAR, Metric};
use crate::queue::RadixQueue;

/// The tables that all threads share. In one pass all windows are in one graph.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) layers: Layers,
    pub(super) passes: Passes,
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
    /// Twice, by clones of these decoders: of the first, of a middle and of the last window.
    Two(Box<[Pane; 3]>),
}

/// The tables of one pass.
#[derive(Debug)]
pub(super) struct OnePass {
    places: Places,
    graph: MatchingGraph,
    metric: Metric,
    /// Per layer of a window, counted from its first and from its last one, and per detector: the distance to the nearest one in
    /// front of the window, and to the nearest one behind it.
    pub(super) fronts: Vec<Vec<i64>>,
    pub(super) backs: Vec<Vec<i64>>,
}

/// A kind of window: with the first rounds of a run, with none of the first and the last, and with the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    First,
    Middle,
    Last,
}

/// Where a window is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// Its rounds, and the layer of the graph of its kind that its first round is in.
    pub(super) begin: usize,
    pub(super) end: usize,
    pub(super) layer: usize,
    pub(super) kind: Kind,
    /// The joins between which its pairs are probably taken.
    pub(super) expected: [usize; 2],
}

/// Where the windows in the middle of a run lie in the graph: their first layer, their layers, and how many rounds a path may lead over.
#[derive(Debug, Clone, Copy)]
struct Ends {
    begin: usize,
    length: usize,
    reach: usize,
}

impl OnePass {
    fn new(graph: MatchingGraph, near_entries: usize, places: Places, ends: Ends) -> Self {
        let metric = Metric::new(&graph, near_entries);
        let bases = &places.bases;
        let border = Border { graph: &graph, places: &places };
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
        Self { places, graph, metric, fronts, backs }
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
        let Shape { layers, step: per_round, context } =
            Shape::new(graph, rounds, Layers::of(graph, rounds, twice)?)?;
        let or = |given: usize, default: usize| if given == 0 { default } else { given };
        let overlap = or(config.overlap, if twice { (3 * context).div_ceil(2) } else { context }.max(8));
        let step = or(config.step, (2 * context).max(8));
        // Room for the longest window, the last one, and for the rounds before and after it that a shortest path can lead over.
        let length = overlap.saturating_mul(2).saturating_add(step).saturating_add(2 * context);
        let longest = length.saturating_add(layers.head()).saturating_add(layers.tail());
        if longest.saturating_mul(layers.most_detectors()) > crate::MAX_DETECTORS as usize {
            return Err(SlidingError::Window { window: length, commit: step });
        }
        let (first_join, scale) = (layers.head() + context + overlap, graph.scale());
        let middle = 2 * overlap + step;
        let passes = if twice {
            let windows = [
                layers.window(0, first_join + overlap, End::Boundary)?,
                layers.cut_window(middle, false)?,
                layers.cut_window(middle, true)?,
            ];
            let [first, middle, last] = windows.map(|window| Pane::new(window, config.near_entries));
            Passes::Two(Box::new([first?, middle?, last?]))
        } else {
            let Window { graph: run, bases, layer_of } = layers.whole(length)?;
            if run.parts().contains(&false) {
                return Err(SlidingError::NoBoundary { window: length });
            }
            let run = if config.observables_only { run.for_observables(false) } else { run };
            let reach = 2 * context.min(overlap + step);
            let ends = Ends { begin: layers.head() + context, length: middle, reach };
            let places = Places { bases, layer_of };
            Passes::One(Box::new(OnePass::new(run, config.near_entries, places, ends)))
        };
        Ok(Self { layers, passes, context, overlap, step, per_round, first_join, scale })
    }

    /// Whether windows are matched twice.
    pub(super) fn is_twice(&self) -> bool {
        matches!(self.passes, Passes::Two(_))
    }

    /// Where windows of this kind lie.
    pub(super) fn places(&self, kind: Kind) -> &Places {
        match &self.passes {
            Passes::One(one) => &one.places,
            Passes::Two(panes) => &panes[kind as usize].places,
        }
    }

    /// The most detectors and edges of a graph of windows, and the words of its observables.
    pub(super) fn sizes(&self) -> [usize; 3] {
        let of = |graph: &MatchingGraph| [graph.num_detectors(), graph.num_edges(), graph.observable_words()];
        match &self.passes {
            Passes::One(one) => of(&one.graph),
            Passes::Two(panes) => {
                let sizes = panes.each_ref().map(|pane| of(pane.decoder.graph()));
                std::array::from_fn(|i| sizes.iter().map(|size| size[i]).max().unwrap_or(0))
            }
        }
    }

    /// Whether the detector is in a part that is left out.
    pub(super) fn is_silent(&self, layer: usize, position: u32) -> bool {
        match &self.passes {
            Passes::One(one) => one.graph.is_silent(one.places.bases[layer] + position),
            Passes::Two(_) => false,
        }
    }

    /// Where window `k` is, if it is not the last.
    pub(super) fn place(&self, k: usize) -> Place {
        let [begin, end] = self.window(k);
        let (kind, layer) = match (k, self.is_twice()) {
            (0, _) => (Kind::First, 0),
            (_, true) => (Kind::Middle, 0),
            (_, false) => (Kind::Middle, begin.min(self.layers.head() + self.context)),
        };
        let before = k.checked_sub(1).map_or(0, |before| self.join(before));
        Place { begin, end, layer, kind, expected: [before, self.join(k)] }
    }

    /// Where window `k` is, at least the second, if it is the last one of a run that ends before round `end`.
    pub(super) fn last_place(&self, k: usize, end: usize) -> Place {
        let mut begin = self.window(k)[0];
        if self.is_twice() {
            // In front of the graph's first layer alone is a boundary, for defects whose partners are in the rounds before the window.
            let longest = 2 * self.overlap + self.step + self.layers.tail();
            begin = end.saturating_sub(longest).clamp(self.layers.head().min(begin), begin);
        }
        let layer = self.places(Kind::Last).bases.len() - 1 - (end - begin);
        Place { begin, end, layer, kind: Kind::Last, expected: [self.join(k - 1), usize::MAX] }
    }

    /// How many rounds before a window are kept, for a last one that is made longer.
    pub(super) fn kept(&self) -> usize {
        if self.is_twice() { self.step } else { 0 }
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
    places: &'a Places,
}

impl Border<'_> {
    /// The distance of each node from the layers `outside`.
    fn distances(&self, outside: impl Fn(usize) -> bool) -> Vec<i64> {
        let n = self.places.layer_of.len() as u32;
        let mut distances = vec![FAR; n as usize];
        let mut queue = RadixQueue::new(n as usize);
        queue.restart();
        for node in 0..n {
            queue.forget(node);
            if outside(self.places.layer_of[node as usize] as usize) {
                distances[node as usize] = 0;
                queue.push(node, 0);
            }
        }
        debug_assert_eq!(self.places.bases.last(), Some(&n));
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

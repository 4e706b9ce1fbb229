//! The edges on the path of a matched pair, wherever it is recorded.

use crate::blossom::flood::{Flood, is_labelled};
use crate::blossom::{SEARCHED, Tables};
use crate::metric::search::{Flow, Search};
use crate::pair_path::PairPath;
use crate::solution::MatchedPair;

/// Calls `edge` with every edge on the path of a matched pair.
pub(crate) fn walk(
    tables: Tables<'_>,
    search: &mut Search,
    flood: Option<&Flood>,
    pair: MatchedPair,
    place: PairPath,
    mut edge: impl FnMut(u32),
) {
    let Tables { graph, metric } = tables;
    if let Some(flood) = flood.filter(|_| is_labelled(place.position)) {
        return flood.walk(graph, (place.owner, place.position), edge);
    }
    let Some(b) = pair.b else {
        return metric.way_out(pair.a).for_each(edge);
    };
    if place.position != SEARCHED {
        let info = &metric.nodes[place.owner as usize];
        metric.near.path(graph, place.owner, info, place.position).for_each(edge);
        return;
    }
    search.run(graph, pair.a, |v| if v.node == b { Flow::Stop } else { Flow::Expand });
    let mut at = b;
    while at != pair.a {
        let (before, step) = search.before(at);
        edge(step);
        at = before;
    }
}

//! Against the plainest exact method: all distances, then all ways to pair up.

use proptest::prelude::*;
use ringcall_matching::{DecoderConfig, GraphBuilder, MergeStrategy, MwpmDecoder};

const FAR: i64 = 1 << 40;

#[derive(Debug, Clone)]
struct Problem {
    nodes: usize,
    edges: Vec<(usize, Option<usize>, i64)>,
    defects: Vec<bool>,
}

fn problems() -> impl Strategy<Value = Problem> {
    (2usize..=12).prop_flat_map(|nodes| {
        let edge = (0..nodes, prop::option::weighted(0.85, 0..nodes), -2i64..12);
        (prop::collection::vec(edge, 1..4 * nodes), prop::collection::vec(any::<bool>(), nodes))
            .prop_map(move |(edges, defects)| Problem { nodes, edges, defects })
    })
}

/// The least weight of a set of edges with the given odd nodes, or `None`.
fn least(p: &Problem) -> Option<i64> {
    let n = p.nodes;
    // Node n is the boundary. Parallel edges: the first one counts. Negative edges are used up front.
    let mut weight = vec![vec![FAR; n + 1]; n + 1];
    let mut odd = p.defects.clone();
    odd.push(false);
    let mut base = 0;
    let mut seen = std::collections::HashSet::new();
    for &(u, v, w) in &p.edges {
        let v = v.unwrap_or(n);
        if !seen.insert((u.min(v), u.max(v))) {
            continue;
        }
        if w < 0 {
            base += w;
            odd[u] ^= true;
            odd[v] ^= true;
        }
        weight[u][v] = weight[u][v].min(w.abs());
        weight[v][u] = weight[u][v];
    }
    for k in 0..=n {
        for i in 0..=n {
            for j in 0..=n {
                weight[i][j] = weight[i][j].min(weight[i][k] + weight[k][j]);
            }
        }
    }
    let defects: Vec<usize> = (0..n).filter(|&i| odd[i]).collect();
    let mut best = vec![FAR; 1 << defects.len()];
    best[0] = 0;
    for set in 1..best.len() {
        let i = set.trailing_zeros() as usize;
        let rest = set & (set - 1);
        best[set] = best[rest] + weight[defects[i]][n];
        for j in i + 1..defects.len() {
            if rest >> j & 1 == 1 {
                best[set] = best[set].min(best[rest & !(1 << j)] + weight[defects[i]][defects[j]]);
            }
        }
    }
    let total = *best.last()?;
    (total < FAR).then_some(base + total)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn weight_is_the_least_there_is(p in problems()) {
        let mut b = GraphBuilder::new();
        b.ensure_detectors(p.nodes);
        for &(u, v, w) in &p.edges {
            b.merge_edge(u as u32, v.map(|v| v as u32), w as f64, &[], None, MergeStrategy::KeepOriginal).unwrap();
        }
        let graph = b.build().unwrap();
        let defects: Vec<u32> = (0..p.nodes as u32).filter(|&i| p.defects[i as usize]).collect();
        let mut backwards = defects.clone();
        backwards.reverse();
        for near_entries in [0, 16] {
            let mut config = DecoderConfig::default();
            config.near_entries = near_entries;
            let mut decoder = MwpmDecoder::with_config(graph.clone(), &config);
            match (least(&p), decoder.decode(&defects)) {
                (None, Err(_)) => {}
                (Some(want), Ok(s)) => {
                    prop_assert_eq!(s.weight(), want as f64);
                    let first = s.clone();
                    decoder.verify().unwrap();
                    prop_assert_eq!(decoder.decode(&backwards).unwrap(), &first);
                }
                (want, got) => prop_assert!(false, "{:?} but {:?}", want, got),
            }
        }
    }
}

//! Tests of the inside: the hard cases (nested blossoms, blossoms that shatter) do occur in the tests, and are right.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus as Rng;

use super::{Blossom, Tables};
use crate::graph::NONE;
use crate::metric::Metric;
use crate::{GraphBuilder, MatchingGraph};

/// A dense graph without a boundary and with few different weights, so that many events fall on the same time.
fn graph(rng: &mut Rng, nodes: u32) -> MatchingGraph {
    let mut b = GraphBuilder::new();
    for u in 0..nodes {
        for v in 0..u {
            if v + 1 == u || rng.random_bool(0.4) {
                b.edge(u, v, f64::from(rng.random_range(1..12)), &[]).unwrap();
            }
        }
    }
    b.build().unwrap()
}

fn depth(blossom: &Blossom, defect: u32) -> usize {
    let mut r = defect;
    let mut depth = 0;
    while blossom.regions[r as usize].parent != NONE {
        r = blossom.regions[r as usize].parent;
        depth += 1;
    }
    depth
}

#[test]
fn nested_and_shattered_blossoms_are_optimal() {
    let mut rng = Rng::seed_from_u64(5);
    let (mut nested, mut shattered, mut nested_shattered) = (0, 0, 0);
    for _ in 0..1500 {
        let nodes = rng.random_range(6..30) & !1;
        let graph = graph(&mut rng, nodes);
        let metric = Metric::new(&graph, [0, 16, 256][rng.random_range(0..3)]);
        let tables = Tables { graph: &graph, metric: &metric };
        let mut blossom = Blossom::new(tables);
        let all: Vec<u32> = (0..nodes).collect();
        // Twice: the first solve must leave nothing behind.
        for _ in 0..2 {
            blossom.solve(tables, &all);
            let mut weight = 0;
            let mut seen = vec![0; nodes as usize];
            blossom.matching(|b, link| {
                weight += b.dist(link.pair);
                seen[link.from as usize] += 1;
                seen[link.to as usize] += 1;
            });
            assert_eq!(seen, vec![1; nodes as usize], "everybody has one partner");
            blossom.verify(tables, weight).unwrap();
        }
        let deepest = (0..nodes).map(|i| depth(&blossom, i)).max().unwrap();
        nested += u32::from(deepest >= 2);
        shattered += u32::from(!blossom.free.is_empty());
        nested_shattered += u32::from(deepest >= 2 && !blossom.free.is_empty());
    }
    assert!(
        nested >= 50 && shattered >= 50 && nested_shattered >= 10,
        "{nested} {shattered} {nested_shattered}"
    );
}

/// Other tests rely on the verifier: it must see a wrong weight and a wrong region.
#[test]
fn the_certificate_can_fail() {
    let mut rng = Rng::seed_from_u64(6);
    let graph = graph(&mut rng, 10);
    let metric = Metric::new(&graph, 256);
    let tables = Tables { graph: &graph, metric: &metric };
    let mut blossom = Blossom::new(tables);
    blossom.solve(tables, &[0, 1, 2, 3, 4, 5]);
    let mut weight = 0;
    blossom.matching(|b, link| weight += b.dist(link.pair));
    blossom.verify(tables, weight).unwrap();
    assert!(blossom.verify(tables, weight + 2).is_err());
    for r in 0..6 {
        blossom.regions[r].origin += 100;
        assert!(blossom.verify(tables, weight + 100).is_err());
        blossom.regions[r].origin -= 100;
    }
}

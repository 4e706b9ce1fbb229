//! Detectors with very many neighbours.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use ringcall_matching::{DecoderConfig, GraphBuilder, MatchingGraph, MwpmDecoder};
use std::sync::mpsc;
use std::time::Duration;

/// Detectors `1..=leaves` around detector 0, each joined to the next one as well if `ring` says so, and boundary edges at
/// every tenth.
fn star(leaves: u32, ring: bool, rng: &mut impl RngExt) -> MatchingGraph {
    let mut b = GraphBuilder::new();
    b.boundary_edge(0, f64::from(rng.random_range(1..40)), &[0]).unwrap();
    for leaf in 1..=leaves {
        b.edge(0, leaf, f64::from(rng.random_range(1..20)), &[leaf % 3]).unwrap();
        if ring && leaf > 1 {
            b.edge(leaf - 1, leaf, f64::from(rng.random_range(1..20)), &[]).unwrap();
        }
        if leaf % 10 == 0 {
            b.boundary_edge(leaf, f64::from(rng.random_range(1..40)), &[1]).unwrap();
        }
    }
    b.build().unwrap()
}

/// The deadline is far above the second that it takes, and far below the minutes that a quadratic set-up takes.
#[test]
fn a_star_of_many_edges_is_set_up_in_time() {
    let (sender, done) = mpsc::channel();
    std::thread::spawn(move || {
        let graph = star(200_000, false, &mut Xoshiro256PlusPlus::seed_from_u64(1));
        let mut decoder = MwpmDecoder::new(graph);
        let defects = [7, 100_000, 199_999];
        let weight = decoder.decode(&defects).unwrap().weight();
        decoder.verify().unwrap();
        sender.send(weight).unwrap();
    });
    let weight = done.recv_timeout(Duration::from_secs(60)).expect("set up and decoded");
    assert!(weight > 0.0);
}

/// Lists that end at a hub find what lists that go past it find.
#[test]
fn lists_that_end_at_a_hub_lose_nothing() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
    for case in 0..40 {
        let leaves = rng.random_range(33..120);
        let graph = star(leaves, case % 2 == 0, &mut rng);
        let with = |entries, graph: &MatchingGraph| {
            let mut config = DecoderConfig::default();
            (config.near_entries, config.pair_table) = (entries, false);
            MwpmDecoder::with_config(graph.clone(), &config)
        };
        // With 16 entries detector 0 is a hub, with 1024 it is not.
        let [mut short, mut long] = [16, 1024].map(|entries| with(entries, &graph));
        for _ in 0..50 {
            let defects: Vec<u32> = (0..=leaves).filter(|_| rng.random_bool(0.2)).collect();
            let weight = long.decode(&defects).unwrap().grid_weight();
            assert_eq!(short.decode(&defects).unwrap().grid_weight(), weight, "{case}: {defects:?}");
            short.verify().unwrap();
        }
    }
}

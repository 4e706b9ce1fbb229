//! Decoding allocates nothing: not on first use, not at any density, not on an error.

mod common;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus as Rng;
use ringcall_matching::{MwpmDecoder, Solution};

#[test]
fn decoding_allocates_nothing() {
    let mut rng = Rng::seed_from_u64(1);
    for line in include_str!("data/circuits.txt").lines() {
        let (graph, shots) = common::parse(line);
        let n = graph.num_detectors() as u32;
        let mut lists: Vec<Vec<u32>> = shots.iter().map(|s| s.defects.clone()).collect();
        for density in [0.02, 0.2, 0.5, 1.0] {
            lists.push((0..n).filter(|_| rng.random_bool(density)).collect());
        }
        lists.push((0..n).rev().collect());
        lists.push(vec![n]);
        lists.push(vec![1, 0, 1]);
        let mut bits = vec![0u64; n.div_ceil(64) as usize];
        for &d in &lists[0] {
            bits[d as usize / 64] |= 1 << (d % 64);
        }
        for config in common::configs() {
            // As a worker has it, which is given a clone.
            let mut decoder = MwpmDecoder::with_config(graph.clone(), &config).clone();
            let info = allocation_counter::measure(|| {
                for list in &lists {
                    let _ = std::hint::black_box(decoder.decode(list).map(Solution::weight));
                    std::hint::black_box(decoder.correction());
                }
                assert!(std::hint::black_box(decoder.decode_bits(&bits)).is_ok());
                assert!(decoder.decode_bits(&[]).is_err());
            });
            assert_eq!(info.count_total, 0, "{n} detectors, {config:?}");
            // It did decode.
            for shot in &shots {
                common::check(&mut decoder, shot, true).unwrap();
            }
        }
    }
}

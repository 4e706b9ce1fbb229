//! Decoding allocates nothing: neither on first use, nor when it does not converge, nor on an error.

mod common;

use rand::{RngExt, SeedableRng};
use ringcall_bp::{BpConfig, BpDecoder, OrderedStatistics};

#[test]
fn decoding_allocates_nothing() {
    let mut rng = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(3);
    let errors: common::Errors = (0..300)
        .map(|_| {
            let degree = rng.random_range(1..10);
            let checks = (0..degree).map(|_| rng.random_range(0..90)).collect();
            (rng.random_range(0.001..0.4), checks, vec![rng.random_range(0..20)])
        })
        .collect();
    let graph = common::graph(90, 20, &errors);
    let syndromes: Vec<Vec<u32>> = [0.0, 0.05, 0.5, 1.0]
        .map(|density| (0..90).filter(|_| rng.random_bool(density)).collect())
        .into_iter()
        .chain([vec![90], vec![1, 0, 1]])
        .collect();
    let damped = BpConfig { damping: 40, ..BpConfig::relay() };
    for config in [
        BpConfig::relay(),
        BpConfig { solutions: 4, ..BpConfig::relay() },
        BpConfig::min_sum(30),
        damped,
        BpConfig { lanes: 3, ..BpConfig::relay() },
        BpConfig { ordered_statistics: Some(OrderedStatistics::Zero), ..BpConfig::min_sum(3) },
        BpConfig { ordered_statistics: Some(OrderedStatistics::CombinationSweep(9)), ..BpConfig::min_sum(3) },
    ] {
        let mut decoder = BpDecoder::new(&graph, &config).unwrap();
        let mut converged = 0;
        let info = allocation_counter::measure(|| {
            for defects in &syndromes {
                let outcome = decoder.decode(defects, &mut [0; 3]);
                converged += u32::from(outcome.is_ok_and(|outcome| outcome.converged));
                std::hint::black_box((decoder.error().len(), decoder.marginals().len()));
            }
        });
        assert_eq!(info.count_total, 0, "{config:?}");
        assert!(converged >= 1);
    }
}

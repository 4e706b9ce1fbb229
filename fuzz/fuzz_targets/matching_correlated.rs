//! Correlated matching, and weights of a shot, on any small model: an error, or an answer that is proven and explains the shot.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ringcall_matching::{
    DecoderConfig, ErrorPart, GraphBuilder, MatchingGraph, MwpmDecoder, WeightedDecoder,
};

/// Detectors; one more index is out of range.
const DETECTORS: u8 = 14;

/// Checks that the edges of a correction explain the defects.
fn explains(graph: &MatchingGraph, defects: &[u32], correction: &[u32]) -> bool {
    let mut odd = [false; DETECTORS as usize];
    let edges = correction.iter().map(|&edge| &graph.edges()[edge as usize]);
    let ends = edges.flat_map(|edge| [Some(edge.u), edge.v]).flatten();
    ends.chain(defects.iter().copied()).for_each(|d| odd[d as usize] ^= true);
    !odd.contains(&true)
}

fuzz_target!(|data: &[u8]| {
    // First the near entries, then errors of five bytes each, then 0xff, then shots.
    let Some((&near, mut rest)) = data.split_first() else { return };
    let mut builder = GraphBuilder::new();
    builder.ensure_detectors(DETECTORS.into());
    while let &[p, a, b, c, d, ref more @ ..] = rest {
        if p == 0xff {
            rest = &rest[1..];
            break;
        }
        let node = |byte: u8| u32::from(byte % DETECTORS);
        let part = |u: u8, v: u8| {
            if v >= 200 || node(u) == node(v) { vec![node(u)] } else { vec![node(u), node(v)] }
        };
        let (first, second) = (part(a, b), part(c, d));
        let observables = [u32::from(p % 3)];
        let parts = [
            ErrorPart { detectors: &first, observables: &observables },
            ErrorPart { detectors: &second, observables: &[] },
        ];
        // From certain not to happen to as likely as not, and the one that is refused.
        let probability = f64::from(p) / 500.0;
        let parts = if p % 5 == 0 { &parts[..1] } else { &parts[..] };
        assert_eq!(builder.error(probability, parts).is_ok(), probability <= 0.5);
        rest = more;
    }
    let Ok(graph) = builder.build() else { return };
    let mut config = DecoderConfig::default();
    config.correlations = true;
    config.near_entries = usize::from(near % 4) * 16;
    let mut decoder = MwpmDecoder::with_config(graph.clone(), &config);
    let mut weighted = WeightedDecoder::new(&decoder);
    for list in rest.chunks(9) {
        let defects: Vec<u32> = list.iter().map(|&d| u32::from(d % (DETECTORS + 1))).collect();
        if decoder.decode(&defects).is_ok() {
            decoder.verify().expect("proven");
            assert!(explains(&graph, &defects, decoder.correction()));
        }
        let weights: Vec<(u32, f64)> =
            list.windows(2).map(|pair| (pair[0].into(), f64::from(pair[1]) / 20.0 - 0.2)).collect();
        if weighted.decode(&defects, &weights).is_ok() {
            weighted.verify().expect("proven");
            assert!(explains(&graph, &defects, weighted.correction()));
        }
    }
});

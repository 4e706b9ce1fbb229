//! Matching on any small graph and any defects: an error, or an answer that is proven, the same weight in every form.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ringcall_matching::{GraphBuilder, MergeStrategy, MwpmDecoder, StreamingDecoder};

/// Detectors; one more index is out of range.
const DETECTORS: u8 = 16;

fuzz_target!(|data: &[u8]| {
    // First the edges, four bytes each, then 0xff, then defects.
    let mut builder = GraphBuilder::new();
    builder.ensure_detectors(DETECTORS.into());
    let mut rest = data;
    while let &[u, v, weight, observable, ref more @ ..] = rest {
        if u == 0xff {
            rest = &rest[1..];
            break;
        }
        let v = (v < 200).then_some(u32::from(v % DETECTORS));
        // Weights from -16 to 15 in eighths, and the numbers that must be refused.
        let weight = match weight {
            0 => f64::NAN,
            1 => f64::INFINITY,
            w => (f64::from(w) - 128.0) / 8.0,
        };
        let added = builder.merge_edge(
            u32::from(u % DETECTORS),
            v,
            weight,
            &[u32::from(observable % 70)],
            None,
            MergeStrategy::SmallestWeight,
        );
        assert_eq!(added.is_ok(), weight.is_finite());
        rest = more;
    }
    let Ok(graph) = builder.build() else { return };
    let rounds: Vec<u32> = (0..u32::from(DETECTORS)).map(|i| i * 5 % 3).collect();
    let mut decoder = MwpmDecoder::new(graph);
    let mut stream = StreamingDecoder::new(&decoder, &rounds).expect("a round for each detector");
    for list in rest.chunks(9) {
        let defects: Vec<u32> = list.iter().map(|&d| u32::from(d % (DETECTORS + 1))).collect();
        let Ok(solution) = decoder.decode(&defects) else {
            stream.restart();
            continue;
        };
        let weight = solution.grid_weight();
        decoder.verify().expect("proven");
        for round in 0..3 {
            let part: Vec<u32> = defects.iter().copied().filter(|&d| rounds[d as usize] == round).collect();
            if let Some(solution) = stream.push_round(&part).expect("as the whole") {
                assert_eq!(solution.grid_weight(), weight);
            }
        }
        stream.verify().expect("proven");
    }
});

//! Matching synthesis: the classes that it chooses are those of the likeliest errors more often than correlated matching's.

use proptest::prelude::*;
use ringcall_matching::{
    DecoderConfig, EnsembleConfig, EnsembleDecoder, ErrorPart, ErrorTable, GraphBuilder, MatchingError,
    MwpmDecoder, Progress,
};

/// Two repetition codes of `DISTANCE` bits with errors that cross both: detectors `0..N` and `N..2 * N`.
const DISTANCE: u32 = 7;
const N: u32 = DISTANCE - 1;

/// Each error: its probability and the edges that it crosses. Edges `0..DISTANCE` are of the first code, the others of the second.
fn errors(probabilities: &[[f64; 3]]) -> Vec<(f64, Vec<u32>)> {
    (0..DISTANCE)
        .zip(probabilities)
        .flat_map(|(bit, &[a, b, both])| {
            [(a, vec![bit]), (b, vec![DISTANCE + bit]), (both, vec![bit, DISTANCE + bit])]
        })
        .collect()
}

/// The detectors and observables of an edge.
fn edge(edge: u32) -> (Vec<u32>, Vec<u32>) {
    let (code, bit) = (edge / DISTANCE, edge % DISTANCE);
    let detectors =
        [bit.checked_sub(1), (bit < N).then_some(bit)].into_iter().flatten().map(|d| code * N + d);
    (detectors.collect(), if bit == 0 { vec![code] } else { vec![] })
}

fn decoders(errors: &[(f64, Vec<u32>)]) -> (MwpmDecoder, EnsembleDecoder) {
    let mut builder = GraphBuilder::new();
    // Edges in the order of their numbers.
    for (p, edges) in
        errors.iter().filter(|(_, edges)| edges.len() == 1).chain(errors.iter().filter(|(_, e)| e.len() == 2))
    {
        let parts: Vec<_> = edges.iter().map(|&e| edge(e)).collect();
        let parts: Vec<_> =
            parts.iter().map(|(detectors, observables)| ErrorPart { detectors, observables }).collect();
        builder.error(*p, &parts).expect("a fine error");
    }
    let graph = builder.build().expect("a graph");
    let number = |e: u32| -> u32 {
        let (detectors, _) = edge(e);
        let ends = (detectors[0], detectors.get(1).copied());
        graph.edges().iter().position(|edge| (edge.u, edge.v) == ends).expect("an edge") as u32
    };
    let numbered: Vec<(f64, Vec<u32>)> =
        errors.iter().map(|(p, edges)| (*p, edges.iter().map(|&e| number(e)).collect())).collect();
    let table = ErrorTable::new(graph.num_edges(), numbered.iter().map(|(p, edges)| (*p, &edges[..])))
        .expect("a table");
    let mut config = DecoderConfig::default();
    config.correlations = true;
    let decoder = MwpmDecoder::with_config(graph, &config);
    let ensemble = EnsembleDecoder::new(decoder.clone(), table, EnsembleConfig::default());
    (decoder, ensemble)
}

/// Of every syndrome, the probability of each of the four classes: entry `4 * syndrome + class`.
fn classes(errors: &[(f64, Vec<u32>)]) -> Vec<f64> {
    let mut all = vec![0.0; 4 << (2 * N)];
    all[0] = 1.0;
    for (p, edges) in errors {
        let mut flip = 0;
        for &e in edges {
            let (detectors, observables) = edge(e);
            flip ^= detectors.iter().fold(0, |bits, d| bits | 4 << d);
            flip ^= observables.iter().fold(0, |bits, o| bits | 1 << o);
        }
        let before = all.clone();
        for (at, value) in all.iter_mut().enumerate() {
            *value = before[at] * (1.0 - p) + before[at ^ flip] * p;
        }
    }
    all
}

/// The chance that the answers of all syndromes are right, of correlated matching and of the ensemble, and of the best decoder there is.
fn chances(errors: &[(f64, Vec<u32>)]) -> [f64; 3] {
    let (mut decoder, mut ensemble) = decoders(errors);
    let classes = classes(errors);
    let mut sums = [0.0; 3];
    for syndrome in 0..1u32 << (2 * N) {
        let defects: Vec<u32> = (0..2 * N).filter(|d| syndrome >> d & 1 == 1).collect();
        let of = |class: u64| classes[4 * syndrome as usize + class as usize];
        sums[0] += of(decoder.decode(&defects).expect("a solution").observables()[0]);
        let decision = ensemble.decode(&defects).expect("a solution");
        assert!(!decision.confidence().is_nan() && decision.passes() <= 11);
        sums[1] += of(decision.observables()[0]);
        sums[2] += (0..4).map(of).fold(0.0, f64::max);
    }
    sums
}

/// Of each bit: of an error of the first code, of the second, of both; from 0.01 to 0.12.
fn probabilities(seed: u32) -> Vec<[f64; 3]> {
    let p = |bit: u32, kind: u32| {
        let mix = (seed * 7919 + bit * 104_729 + kind * 1_299_709).wrapping_mul(2_654_435_761);
        0.01 + 0.11 * f64::from(mix >> 16 & 0xff) / 255.0
    };
    (0..DISTANCE).map(|bit| [0, 1, 2].map(|kind| p(bit, kind))).collect()
}

/// Bits of all kinds: the ensemble loses two fifths of what correlated matching loses against the best decoder there is, or less.
#[test]
fn answers_are_nearly_as_good_as_can_be() {
    let mut lost = [0.0; 2];
    for seed in 1..=20 {
        let [correlated, ensemble, best] = chances(&errors(&probabilities(seed)));
        assert!(ensemble <= best + 1e-9 && correlated <= best + 1e-9);
        lost[0] += best - correlated;
        lost[1] += best - ensemble;
    }
    assert!(lost[0] > 0.0 && lost[1] < 0.4 * lost[0], "{lost:?}");
}

/// What the odds say is what happens: the surer the ensemble is, the more seldom it is wrong.
#[test]
fn confidence_is_odds() {
    let errors = errors(&probabilities(3));
    let (_, mut ensemble) = decoders(&errors);
    let classes = classes(&errors);
    // By whole logarithms: how likely the syndromes are, and how likely wrong.
    let mut bins = [[0.0; 2]; 4];
    for syndrome in 0..1u32 << (2 * N) {
        let defects: Vec<u32> = (0..2 * N).filter(|d| syndrome >> d & 1 == 1).collect();
        let decision = ensemble.decode(&defects).expect("a solution");
        let row = &classes[4 * syndrome as usize..][..4];
        let all: f64 = row.iter().sum();
        let bin = &mut bins[(decision.confidence().max(0.0) as usize).min(3)];
        bin[0] += all;
        bin[1] += all - row[decision.observables()[0] as usize];
    }
    let rates = bins.map(|[all, wrong]| wrong / all);
    assert!(rates.is_sorted_by(|a, b| a > b), "{rates:?}");
    // Between even odds and e to 1.
    assert!((0.2..0.5).contains(&rates[0]), "{rates:?}");
    assert!(rates[3] < 0.06, "{rates:?}");
}

#[test]
fn time_that_is_up_leaves_the_passes_so_far() {
    let errors = errors(&[[0.04, 0.04, 0.05]; DISTANCE as usize]);
    let (mut decoder, mut ensemble) = decoders(&errors);
    let mut cut = 0;
    for syndrome in 0..1u32 << (2 * N) {
        let defects: Vec<u32> = (0..2 * N).filter(|d| syndrome >> d & 1 == 1).collect();
        let (whole, progress) = ensemble.decode_until(&defects, || false).expect("a solution");
        let whole = whole.clone();
        assert_eq!(progress, Progress::Done);
        assert_eq!(&whole, ensemble.decode(&defects).expect("the same"));
        let (decision, progress) = ensemble.decode_until(&defects, || true).expect("a solution");
        let observables = decision.observables().to_vec();
        let first = decoder.decode_until(&defects, || true).expect("a solution");
        // Asked for the first time within the passes of the decoder, as by itself.
        assert_eq!((&observables[..], progress), (first.0.observables(), first.1));
        cut += u32::from(whole.passes() > 2);
        // Time that is up once two passes are made.
        let mut left = u32::MAX;
        ensemble
            .decode_until(&defects, || {
                left -= 1;
                false
            })
            .expect("a solution");
        let asked = u32::MAX - left;
        let further = whole.passes().saturating_sub(2);
        let mut left = asked - further;
        let (decision, progress) = ensemble
            .decode_until(&defects, || {
                let up = left == 0;
                left = left.saturating_sub(1);
                up
            })
            .expect("a solution");
        assert_eq!(progress == Progress::SecondPass, further > 0);
        assert!(decision.passes() == whole.passes() - further);
    }
    assert!(cut > 0);
}

#[test]
fn bad_input_is_refused_as_by_matching() {
    let errors = errors(&[[0.04, 0.04, 0.05]; DISTANCE as usize]);
    let (_, mut ensemble) = decoders(&errors);
    let clean = ensemble.decode(&[0, N]).expect("a solution").clone();
    assert!(matches!(ensemble.decode(&[99]), Err(MatchingError::DefectOutOfRange { .. })));
    assert!(matches!(ensemble.decode(&[1, 1]), Err(MatchingError::DuplicateDefect { .. })));
    assert_eq!(ensemble.decode(&[N, 0]).expect("a solution"), &clean, "in any order, and after refusals");
    assert_eq!(ensemble.clone().decode(&[0, N]).expect("a solution"), &clean, "as a clone");
    assert!(ensemble.decode(&[]).expect("nothing").confidence().is_infinite());
    assert!(
        ErrorTable::new(2, [(0.6, &[0][..])]).is_err() && ErrorTable::new(2, [(f64::NAN, &[0][..])]).is_err()
    );
    assert!(ErrorTable::new(2, [(0.1, &[2][..])]).is_err());
    assert!(ErrorTable::new(2, [(0.1, &[1, 1][..]), (0.0, &[1])]).expect("nothing").is_empty());
}

/// Two long repetition codes whose errors all cross both: no edge is an error by itself, and the costs of choices are thousands apart.
#[test]
fn errors_of_pairs_alone_have_a_confidence() {
    const LENGTH: u32 = 60;
    let mut builder = GraphBuilder::new();
    let mut pairs = Vec::new();
    for bit in 0..LENGTH {
        let ends = |base: u32| -> Vec<u32> {
            [bit.checked_sub(1), (bit + 1 < LENGTH).then_some(bit)]
                .into_iter()
                .flatten()
                .map(|d| base + d)
                .collect()
        };
        let (a, b) = (ends(0), ends(LENGTH - 1));
        let observables: &[u32] = if bit == 0 { &[0] } else { &[] };
        let part = |detectors, observables| ErrorPart { detectors, observables };
        builder.error(0.1, &[part(&a, observables), part(&b, &[])]).expect("a fine error");
        pairs.push([2 * bit, 2 * bit + 1]);
    }
    let graph = builder.build().expect("a graph");
    let errors =
        ErrorTable::new(graph.num_edges(), pairs.iter().map(|pair| (0.1, &pair[..]))).expect("a table");
    let mut config = DecoderConfig::default();
    config.correlations = true;
    let mut ensemble =
        EnsembleDecoder::new(MwpmDecoder::with_config(graph, &config), errors, EnsembleConfig::default());
    for begin in 0..20 {
        // The ends of a chain of errors in the middle, of one code alone: no error explains that.
        let decision = ensemble.decode(&[begin, LENGTH - 20 - begin]).expect("a solution");
        assert!(!decision.confidence().is_nan(), "{begin}");
    }
}

proptest! {
    /// Errors of any kind on a small graph: never a panic, and a confidence that is a number.
    #[test]
    fn any_errors_are_taken(
        errors in prop::collection::vec((0.0..=0.5f64, prop::collection::vec(0u32..2 * DISTANCE, 0..5)), 0..30),
        defects in prop::collection::btree_set(0u32..2 * N, 0..12),
    ) {
        let mut all: Vec<(f64, Vec<u32>)> = (0..2 * DISTANCE).map(|edge| (0.03, vec![edge])).collect();
        all.extend((0..DISTANCE).map(|bit| (0.04, vec![bit, bit + DISTANCE])));
        let (decoder, _) = decoders(&all);
        let table = ErrorTable::new(2 * DISTANCE as usize, errors.iter().map(|(p, edges)| (*p, &edges[..]))).unwrap();
        let mut ensemble = EnsembleDecoder::new(decoder, table, EnsembleConfig::default());
        let defects: Vec<u32> = defects.into_iter().collect();
        let decision = ensemble.decode(&defects).unwrap();
        prop_assert!(!decision.confidence().is_nan());
    }
}

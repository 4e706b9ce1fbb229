//! Decoding allocates nothing.

use ringcall_deq::{Config, EdgeReweight, Hypergraph, HypergraphDecoder, LossSite, Matching, NO_LOSS};

/// A ring of detectors with a boundary edge each, and errors of four detectors.
fn decoder(matching: Matching) -> HypergraphDecoder {
    let n = 64u64;
    let mut rows: Vec<Vec<u64>> = (0..n).map(|i| vec![i, (i + 1) % n]).collect();
    rows.extend((0..n).map(|i| vec![i]));
    rows.extend((0..n).map(|i| vec![i, (i + 1) % n, (i + 20) % n, (i + 21) % n]));
    rows.extend((0..n).step_by(8).map(|i| vec![i, (i + 5) % n]));
    let mut p: Vec<f64> = (0..rows.len()).map(|i| 0.01 + 0.0001 * i as f64).collect();
    // The last ones wait for a request, but for one that is likelier than not.
    p[3 * n as usize..].fill(0.0);
    p[5] = 0.8;
    let mut offsets = vec![0];
    for row in &rows {
        offsets.push(offsets.last().unwrap() + row.len() as u64);
    }
    let members = rows.concat();
    let graph = Hypergraph::new(n, &p, &offsets, &members, None).unwrap();
    HypergraphDecoder::new(&graph, Config { matching, ..Config::default() }).unwrap()
}

#[test]
fn nothing_is_allocated_per_decode() {
    for matching in [Matching::Plain, Matching::Correlated] {
        let mut decoder = decoder(matching);
        assert_eq!(decoder.makes_second_pass(), matching == Matching::Correlated);
        let reweights: Vec<EdgeReweight> =
            (0..40).map(|i| EdgeReweight { edge: 5 * i, probability: 0.02 * i as f64 }).collect();
        let edges: Vec<u64> = (3 * 64..3 * 64 + 8).collect();
        let sites: Vec<LossSite<'_>> = (0..30)
            .map(|_| LossSite { source_edges: &edges, probability: 0.02, ..LossSite::default() })
            .collect();
        let mut syndromes = Vec::new();
        let mut state = 1u64;
        for _ in 0..200 {
            // Any stream of bits will do.
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            syndromes.push((state >> 3 & state >> 17).to_le_bytes());
        }
        // The first losses set the mark.
        decoder.decode(&[0; 8], &[], &sites[..]).unwrap();
        let info = allocation_counter::measure(|| {
            let mut listed = 0;
            for syndrome in &syndromes {
                listed += decoder.decode(syndrome, &[], NO_LOSS).unwrap().len();
                listed += decoder.decode(syndrome, &reweights, NO_LOSS).unwrap().len();
                listed += decoder.decode(syndrome, &reweights, &sites[..]).unwrap().len();
            }
            assert!(listed > 1000);
        });
        assert_eq!(info.count_total, 0, "{matching:?}");
    }
}

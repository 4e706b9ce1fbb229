//! Bad input is an error, and leaves nothing behind.

use proptest::prelude::*;
use ringcall_matching::{BatchError, GraphBuilder, MatchingError, MwpmDecoder};

/// A ring of six without a boundary, a chain of three with one, and a lone detector.
fn decoder() -> MwpmDecoder {
    let mut b = GraphBuilder::new();
    for i in 0..6 {
        b.edge(i, (i + 1) % 6, 1.0 + f64::from(i % 2), &[i]).unwrap();
    }
    b.edge(6, 7, 1.0, &[]).unwrap().edge(7, 8, 1.0, &[]).unwrap().boundary_edge(8, 1.0, &[6]).unwrap();
    b.ensure_detectors(10);
    MwpmDecoder::new(b.build().unwrap())
}

#[test]
fn every_error_is_told() {
    let mut d = decoder();
    assert_eq!(
        d.decode(&[1, 10]).unwrap_err(),
        MatchingError::DefectOutOfRange { defect: 10, detectors: 10 }
    );
    assert_eq!(
        d.decode(&[u32::MAX, 1]).unwrap_err(),
        MatchingError::DefectOutOfRange { defect: u32::MAX, detectors: 10 }
    );
    assert_eq!(d.decode(&[4, 1, 4]).unwrap_err(), MatchingError::DuplicateDefect { defect: 4 });
    assert_eq!(d.decode(&[3; 50]).unwrap_err(), MatchingError::DuplicateDefect { defect: 3 });
    assert_eq!(d.decode(&[1, 2, 3, 7]).unwrap_err(), MatchingError::OddParity { detector: 3 });
    assert_eq!(d.decode(&[9]).unwrap_err(), MatchingError::OddParity { detector: 9 });
    assert!(matches!(d.decode_bits(&[]), Err(MatchingError::SyndromeLength { words: 0, detectors: 10 })));
    assert!(matches!(d.decode_bits(&[1 << 10]), Err(MatchingError::SyndromeLength { .. })));
    assert!(matches!(d.decode_bits(&[0, 1]), Err(MatchingError::SyndromeLength { .. })));
    assert!(d.correction().is_empty());
    assert_eq!(d.decode_bits(&[1 << 6, 0]).unwrap().weight(), 3.0);
    assert_eq!(d.correction(), [6, 7, 8]);
}

#[test]
fn a_batch_ends_at_its_first_bad_shot() {
    let mut d = decoder();
    let mut weights = Vec::new();
    let mut batch = |offsets: &[usize], defects: &[u32]| {
        weights.clear();
        let result = d.decode_batch(offsets, defects, |i, s| weights.push((i, s.weight())));
        (result, weights.clone())
    };
    assert_eq!(batch(&[0, 1, 1, 3], &[8, 1, 0]), (Ok(()), vec![(0, 1.0), (1, 0.0), (2, 1.0)]));
    assert_eq!(batch(&[], &[]), (Ok(()), vec![]));
    let source = MatchingError::DuplicateDefect { defect: 7 };
    assert_eq!(batch(&[0, 1, 3, 3], &[8, 7, 7]), (Err(BatchError { shot: 1, source }), vec![(0, 1.0)]));
    let source = MatchingError::Offsets { start: 1, end: 4, defects: 3 };
    assert_eq!(batch(&[0, 1, 4], &[8, 7, 7]), (Err(BatchError { shot: 1, source }), vec![(0, 1.0)]));
    let source = MatchingError::Offsets { start: 2, end: 1, defects: 3 };
    assert_eq!(batch(&[2, 1], &[8, 7, 7]), (Err(BatchError { shot: 0, source }), vec![]));
}

#[test]
fn decoders_cross_threads() {
    let d = decoder();
    let decode = |mut d: MwpmDecoder| d.decode(&[6, 8]).unwrap().weight();
    let copy = d.clone();
    let there = std::thread::spawn(move || decode(copy));
    assert_eq!(there.join().unwrap(), decode(d));
}

proptest! {
    /// Any list at all, good and bad ones in turn: never a panic, and a reused decoder answers as a new one.
    #[test]
    fn the_next_decode_is_right(lists in prop::collection::vec(prop::collection::vec(0u32..12, 0..9), 1..20)) {
        let fresh = decoder();
        let mut reused = decoder();
        for list in lists {
            let want = fresh.clone().decode(&list).cloned();
            prop_assert_eq!(reused.decode(&list).cloned(), want);
        }
    }
}

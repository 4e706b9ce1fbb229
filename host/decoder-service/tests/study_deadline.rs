//! A study with a deadline: late shots, late or wrong shots, and errors that depend on no clock.

use ringcall_decoder_service::study::{Matching, Point, Relay, ShotCounts, State, Stop, Study};
use ringcall_qec::code::Basis;
use std::collections::BTreeMap;
use std::time::Duration;

fn counts(deadline: Option<Duration>) -> ShotCounts {
    let study = Study {
        models: BTreeMap::new(),
        program: String::new(),
        seed: 3,
        batch_shots: 100,
        matching: Matching::Both,
        relay: Relay::default(),
        predecoder: None,
        deadline,
        points: vec![Point::surface(3, 3, Basis::Z, 0.02)],
        stop: Stop { shots: 1000, errors: None },
        threads: 2,
        shard: None,
    };
    let (mut state, mut log) = (State::new(study.setup()), Vec::new());
    assert!(study.run(&mut state, &mut log, &mut |_| true).expect("a study"));
    // The log has the counts.
    let (again, _) = State::read(&mut &log[..], study.setup()).expect("its own log");
    let counts = state.outcome(&study.points[0], &study.stop).counts;
    assert_eq!(again.outcome(&study.points[0], &study.stop).counts, counts);
    counts
}

#[test]
fn late_shots_are_counted_beside_wrong_ones() {
    let [none, long, zero] = [None, Some(Duration::from_secs(3600)), Some(Duration::ZERO)].map(counts);
    let errors = |counts: &ShotCounts| counts.arms().iter().map(|arm| arm.errors).collect::<Vec<_>>();
    assert!(errors(&none).iter().all(|&errors| errors > 0));
    assert_eq!((errors(&long), errors(&zero)), (errors(&none), errors(&none)));
    for arm in 0..2 {
        let late = |counts: &ShotCounts| counts.arms()[arm].late;
        assert_eq!(late(&none), Some([0, 0]));
        assert_eq!(late(&long), Some([0, none.arms()[arm].errors]));
        assert_eq!(late(&zero), Some([1000, 1000]));
    }
}

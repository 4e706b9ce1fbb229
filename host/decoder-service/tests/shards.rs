//! Studies in shards: merged, they equal the whole study; incomplete or mixed shards are refused.

use proptest::prelude::*;
use ringcall_decoder_service::study::{
    Matching, MergeError, Outcome, Point, Relay, Shard, ShotCounts, State, Stop, Study, merge,
};
use ringcall_qec::code::Basis;
use std::collections::BTreeMap;

fn study(errors: Option<u64>, shard: Option<Shard>) -> Study<'static> {
    let point = |distance, p| Point::surface(distance, distance, Basis::Z, p);
    Study {
        program: "test 1".to_owned(),
        seed: 11,
        batch_shots: 20,
        matching: Matching::Both,
        relay: Relay::default(),
        deadline: None,
        predecoder: None,
        points: vec![point(3, 0.02), point(3, 0.05)],
        models: BTreeMap::new(),
        stop: Stop { shots: 1000, errors },
        threads: 2,
        shard,
    }
}

/// Counts of each point, without times.
fn counts(study: &Study<'_>, state: &State) -> Vec<ShotCounts> {
    let counted = |point| {
        let Outcome { mut counts, complete } = state.outcome(point, &study.stop);
        assert!(complete);
        counts.matching_ns = 0;
        counts.plain.iter_mut().for_each(|plain| plain.matching_ns = 0);
        counts
    };
    study.points.iter().map(counted).collect()
}

fn whole(errors: Option<u64>) -> Vec<ShotCounts> {
    let study = study(errors, None);
    let mut state = State::new(study.setup());
    assert!(study.run(&mut state, &mut Vec::new(), &mut |_| true).unwrap());
    counts(&study, &state)
}

/// One shard's log. It sees the logs of the others, as far as they are.
fn shard(errors: Option<u64>, shard: Shard, others: &[(Shard, Vec<u8>)]) -> Vec<u8> {
    let study = study(errors, Some(shard));
    let (mut state, mut log) = (State::new(study.setup()), Vec::new());
    let mut look = |state: &mut State| {
        for (shard, log) in others {
            let (mut other, _) = State::read(&mut &log[..], study.setup().of_shard(*shard)).unwrap();
            state.absorb(&mut other);
        }
    };
    assert!(study.run_beside(&mut state, &mut log, &mut look, &mut |_| true).unwrap());
    log
}

fn read(log: &[u8]) -> (String, State) {
    let setup = State::setup_of(&mut &*log).unwrap();
    let name = format!("state {}", setup.part.as_ref().unwrap().shard);
    (name, State::read(&mut &*log, setup).unwrap().0)
}

fn shards(of: u32) -> Vec<Shard> {
    (1..=of).map(|index| Shard::new(index, of).unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// For any number of shards, in any order, whether they see each other's batches or not.
    #[test]
    fn counts_are_those_of_the_whole_study(
        order in (1_u32..8).prop_flat_map(|of| Just(shards(of)).prop_shuffle()),
        errors in prop::option::of(1_u64..60),
        beside in any::<bool>(),
    ) {
        let mut logs: Vec<(Shard, Vec<u8>)> = Vec::new();
        for one in order {
            let seen = if beside { &logs[..] } else { &[] };
            let log = shard(errors, one, seen);
            logs.push((one, log));
        }
        let merged = merge(logs.iter().map(|(_, log)| read(log)).collect()).unwrap();
        let expected = study(errors, None);
        prop_assert_eq!(counts(&expected, &merged.state), whole(errors));
        prop_assert_eq!((merged.points, merged.stop), (expected.points, expected.stop));
    }
}

/// A shard that sees that the others have enough counts nothing more of a point: batch 0 has the one error that is asked for.
#[test]
fn a_shard_that_sees_enough_counts_nothing() {
    let [first, second] = shards(2)[..] else { panic!("two shards") };
    let batches = |log: &[u8]| String::from_utf8_lossy(log).matches("\"point\":\"d3/r3/z/p0.05\"").count();
    let alone = shard(Some(1), second, &[]);
    let beside = shard(Some(1), second, &[(first, shard(Some(1), first, &[]))]);
    assert!(batches(&alone) > 0);
    assert_eq!(batches(&beside), 0);
}

#[test]
fn what_is_no_whole_study_is_refused() {
    let logs: Vec<Vec<u8>> = shards(3).into_iter().map(|one| shard(None, one, &[])).collect();
    let said = |states: Vec<(String, State)>| merge(states).map(|_| ()).unwrap_err().to_string();
    let all = || -> Vec<_> { logs.iter().map(|log| read(log)).collect() };
    assert!(merge(all()).is_ok());

    assert_eq!(merge(Vec::new()).unwrap_err(), MergeError::Nothing);
    assert_eq!(said(all().split_off(1)), "shard 1/3 is missing");
    let mut twice = all();
    twice.push(read(&logs[1]));
    assert_eq!(said(twice), "shard 2/3 is there twice: state 2/3 and state 2/3");

    // Batch 4, the second one of shard 2, was never finished.
    let text = String::from_utf8(logs[1].clone()).unwrap();
    let kept: String = text.split_inclusive('\n').filter(|line| !line.contains("\"batch\":4,")).collect();
    let mut gap = all();
    gap[1] = read(kept.as_bytes());
    assert!(said(gap).starts_with("shard 2/3 is not finished: batch 4 of d3/r3/z/p0.02 is missing"));

    let whole = study(None, None);
    assert!(
        said(vec![("w".to_owned(), State::new(whole.setup()))])
            .starts_with("w is the state of a whole study")
    );

    let three = Shard::new(3, 3).unwrap();
    let other = |change: fn(&mut Study<'_>)| {
        let mut study = study(None, Some(three));
        change(&mut study);
        let mut states = all();
        states[2] = ("other".to_owned(), State::new(study.setup()));
        said(states)
    };
    for (said, why) in [
        (other(|study| study.program = "test 2".to_owned()), "the program is test 2, not test 1"),
        (other(|study| study.seed = 12), "the seed is 12, not 11"),
        (other(|study| study.matching = Matching::Plain), "the matching is plain, not both"),
        (other(|study| study.batch_shots = 30), "the batch is 30 shots, not 20 shots"),
        (other(|study| study.stop.shots = 2000), "the most shots of a point is 2000, not 1000"),
        (other(|study| study.stop.errors = Some(9)), "the number of errors that end a point is 9, not none"),
        (other(|study| study.shard = Shard::new(3, 4)), "the number of shards is 4, not 3"),
        (
            other(|study| study.points.truncate(1)),
            "the list of points is d3/r3/z/p0.02, not d3/r3/z/p0.02 d3/r3/z/p0.05",
        ),
    ] {
        assert_eq!(said, format!("other does not belong with state 1/3: {why}"));
    }
}

/// A line of another shard is refused even if its checksum is right for the file.
#[test]
fn a_batch_of_another_shard_is_refused() {
    let log = shard(None, Shard::new(1, 2).unwrap(), &[]);
    let lie = study(None, Shard::new(2, 2)).setup();
    let error = State::read(&mut &log[..], lie).unwrap_err().to_string();
    assert!(error.contains("shard 1/2") && error.contains("another study"), "{error}");
}

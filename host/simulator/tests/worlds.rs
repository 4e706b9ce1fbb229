//! Worlds from seeds: no rule may be broken in any. `cargo xtask simulate` runs more of them, faster.

use ringcall_simulator::{Size, Summary, run, run_sized};

/// So many, unless `RINGCALL_SIMULATOR_SEEDS` says otherwise.
const SEEDS: u64 = 300;

fn seeds() -> u64 {
    let asked = std::env::var("RINGCALL_SIMULATOR_SEEDS").ok();
    asked.map_or(SEEDS, |text| text.parse().expect("RINGCALL_SIMULATOR_SEEDS is a number"))
}

#[test]
fn no_world_breaks_a_rule() {
    let mut total = Summary::default();
    for seed in 0..seeds() {
        match run(seed) {
            Ok(summary) => total.add(&summary),
            Err(violation) => panic!("`cargo xtask simulate --seed {seed}`: {violation}"),
        }
    }
    // Worlds in which nothing happens prove nothing.
    assert!(total.answered > 20 * seeds() && total.refused > 0 && total.lost > 0, "{total}");
    assert_eq!(total.answered + total.refused + total.lost, total.requests);
}

#[test]
fn a_world_is_the_same_again() {
    for seed in 0..20 {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
}

#[test]
fn of_64_peers_two_of_them_hostile_no_correct_one_misses_an_answer() {
    let size = Size { peers: 62, hostile: 2, requests: 20 };
    let summary = run_sized(1, &size).expect("no violation");
    assert_eq!((summary.requests, summary.lost), (62 * 20, 0), "{summary}");
}

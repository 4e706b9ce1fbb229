//! Against PyMatching: the same weight on every problem of the committed files, under every trade-off.

mod common;

use ringcall_matching::MwpmDecoder;

fn run(text: &str) -> (usize, usize) {
    let (mut checked, mut ties) = (0, 0);
    for (number, line) in text.lines().enumerate() {
        let (graph, shots) = common::parse(line);
        for config in common::configs() {
            let mut decoder = MwpmDecoder::with_config(graph.clone(), &config);
            for shot in &shots {
                let same = common::check(&mut decoder, shot, true)
                    .unwrap_or_else(|e| panic!("line {}, {config:?}: {:?}: {e}", number + 1, shot.defects));
                checked += 1;
                ties += usize::from(!same);
            }
        }
    }
    (checked, ties)
}

#[test]
fn random_graphs() {
    let (checked, _) = run(include_str!("data/random.txt"));
    assert_eq!(checked, 400 * 4 * 4);
}

#[test]
fn circuit_graphs() {
    let (checked, ties) = run(include_str!("data/circuits.txt"));
    assert_eq!(checked, 160 * 4);
    // Equal weights and different predictions are possible only where two corrections tie.
    assert!(ties * 20 < checked, "{ties} of {checked} predictions differ");
}

//! Repeated measurements to one outcome.

use crate::{CHECKS, ROUNDS};
use ringcall::{BitString, Output, Warp};

/// Outcomes of one byte of the result.
const GROUP: usize = 8;

/// For every check the outcome that its [`ROUNDS`] measurements speak for, and the margin of the weakest vote, 1 to
/// 255 × [`ROUNDS`].
///
/// `readout` has round after round, in each a byte for every check: 0 is surely 0, 255 is surely 1. Each reading counts
/// as much as it is sure, `2 × reading - 255`, so two sure readings outvote five doubtful ones.
///
/// Each lane of the warp has a byte of the result to itself, and so eight neighbouring checks of every round.
#[ringcall::handler(kind = "warp")]
pub fn vote_checks(
    warp: Warp<'_>,
    readout: &[u8; ROUNDS * CHECKS],
    outcomes: Output<'_, BitString<CHECKS>>,
    weakest: Output<'_, i32>,
) {
    let (rounds, _) = readout.as_chunks::<CHECKS>();
    let mut least = u32::MAX;
    for index in warp.stride(CHECKS / GROUP) {
        let mut margins = [0; GROUP];
        for round in rounds {
            if let Some(readings) = round.as_chunks::<GROUP>().0.get(index) {
                for (margin, reading) in margins.iter_mut().zip(readings) {
                    *margin += 2 * i32::from(*reading) - 255;
                }
            }
        }
        let mut bits = 0;
        for (i, margin) in margins.iter().enumerate() {
            bits |= u8::from(*margin > 0) << i;
            least = least.min(margin.unsigned_abs());
        }
        outcomes.set(index, bits);
    }
    // The least of all lanes: there is a largest of a warp, and complements are in the reverse order.
    let least = !warp.max(!least);
    if warp.lane() == 0 {
        weakest.set(0, least.cast_signed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READOUT: usize = ROUNDS * CHECKS;
    const RESULT: usize = CHECKS / 8 + 4;

    /// The answer of a warp of `lanes` threads: outcomes and margin.
    fn vote(lanes: u32, readout: &[u8; READOUT]) -> (Vec<bool>, i32) {
        // Elements that are not set would stay as they are.
        let mut result = [0xA5; RESULT];
        assert_eq!(vote_checks::HANDLER.call_with_lanes(lanes, readout, &mut result), Ok(RESULT));
        let (bits, margin) = result.split_last_chunk().expect("four bytes");
        let outcomes = (0..CHECKS).map(|check| bits[check / 8] >> (check % 8) & 1 == 1).collect();
        (outcomes, i32::from_le_bytes(*margin))
    }

    /// The outcomes that are asked for: neither all the same nor with the period of a lane's share.
    fn truth(check: usize) -> bool {
        check.is_multiple_of(3) != check.is_multiple_of(7)
    }

    fn readout(reading: impl Fn(usize, usize) -> u8) -> [u8; READOUT] {
        std::array::from_fn(|i| reading(i / CHECKS, i % CHECKS))
    }

    #[test]
    fn a_majority_of_equally_sure_readings_wins() {
        // In each check three of the seven rounds are wrong, other ones in each.
        let wrong = |round: usize, check: usize| (round + check) % ROUNDS < ROUNDS / 2;
        let readout = readout(|round, check| if truth(check) != wrong(round, check) { 255 } else { 0 });
        for lanes in [1, 2, 5, 32] {
            let (outcomes, margin) = vote(lanes, &readout);
            assert!(outcomes.into_iter().eq((0..CHECKS).map(truth)), "{lanes} lanes");
            assert_eq!(margin, 255, "{lanes} lanes: four against three");
        }
    }

    #[test]
    fn two_sure_readings_outvote_five_doubtful_ones() {
        let readout = readout(|round, check| match (round < 2, truth(check)) {
            (true, true) => 250,
            (true, false) => 5,
            (false, true) => 100,
            (false, false) => 155,
        });
        let (outcomes, margin) = vote(32, &readout);
        assert!(outcomes.into_iter().eq((0..CHECKS).map(truth)));
        assert_eq!(margin, 2 * 245 - 5 * 55);
    }

    #[test]
    fn the_weakest_vote_is_found_in_every_lane() {
        for check in [0, 7, 8, 100, 255] {
            // One step above the middle in one round, which the others leave alone: 128 and 127 cancel out.
            let readout = readout(|round, at| match (at == check, round % 2) {
                (false, _) => 0,
                (true, 0) => 128,
                (true, _) => 127,
            });
            let (outcomes, margin) = vote(32, &readout);
            assert_eq!((outcomes.iter().position(|&outcome| outcome), margin), (Some(check), 1));
        }
    }

    #[test]
    fn a_team_of_one_answers_as_a_warp_does() {
        let readout = readout(|round, check| (round * 89 + check * 57 + check * check) as u8);
        let (mut alone, mut together) = ([0; RESULT], [0xFF; RESULT]);
        assert_eq!(vote_checks::HANDLER.call(&readout, &mut alone), Ok(RESULT));
        assert_eq!(vote_checks::HANDLER.call_with_lanes(32, &readout, &mut together), Ok(RESULT));
        assert_eq!(alone, together);
    }
}

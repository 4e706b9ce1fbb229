//! Ringcall's decoders, and the part of their work that is timed.

use super::problem::Problem;
use super::reference::Answer;
use anyhow::{Context, Result};
use ringcall_matching::{MwpmDecoder, ParallelConfig, ParallelDecoder, Solution, StreamingDecoder};
use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Instant;

pub(super) enum Ours {
    Whole(Box<MwpmDecoder>),
    /// With buffers for a request's defects in the order of rounds, and for the end of each round.
    Stream(Box<StreamingDecoder>, Vec<u32>, Vec<usize>),
    Cores(Box<ParallelDecoder>),
}

impl Ours {
    pub(super) fn whole(problem: &Problem) -> Result<Self> {
        Ok(Self::Whole(Box::new(MwpmDecoder::new(problem.graph()?))))
    }

    pub(super) fn stream(problem: &Problem) -> Result<Self> {
        let whole = MwpmDecoder::new(problem.graph()?);
        let stream = StreamingDecoder::new(&whole, problem.rounds())?;
        Ok(Self::Stream(Box::new(stream), Vec::new(), Vec::new()))
    }

    /// Each core solves a slab, however thin and however few its defects.
    pub(super) fn cores(problem: &Problem, cores: NonZeroUsize) -> Result<Self> {
        let whole = MwpmDecoder::new(problem.graph()?);
        let mut config = ParallelConfig::new(cores);
        (config.least_defects, config.least_rounds) = (0, Some(NonZeroU32::MIN));
        let decoder = ParallelDecoder::new(&whole, problem.rounds(), &config)?;
        Ok(Self::Cores(Box::new(decoder)))
    }

    /// Decodes one request in one call; a stream's time is its last round's.
    pub(super) fn decode(&mut self, problem: &Problem, request: usize) -> Result<Answer> {
        let (offsets, defects) = (problem.offsets(request), problem.all_defects());
        let whole = &defects[offsets[0]..*offsets.last().context("a request has a shot")?];
        let (mut weight, mut observables) = (0.0, 0);
        let mut add = |solution: &Solution| {
            weight += solution.weight();
            observables ^= solution.observables()[0];
        };
        let mut begin = Instant::now();
        match self {
            Self::Whole(decoder) if offsets.len() > 2 => {
                decoder.decode_batch(offsets, defects, |_, solution| add(solution))?;
            }
            Self::Whole(decoder) => add(decoder.decode(whole)?),
            Self::Cores(decoder) => add(decoder.decode(whole)?),
            Self::Stream(stream, list, ends) => {
                by_round(problem.rounds(), stream.num_rounds(), whole, list, ends);
                let mut from = 0;
                for &end in &*ends {
                    begin = Instant::now();
                    if let Some(solution) = stream.push_round(&list[from..end])? {
                        add(solution);
                    }
                    from = end;
                }
            }
        }
        let ns = begin.elapsed().as_nanos() as u64;
        Ok(Answer { ns, weight, observables })
    }
}

/// Sorts the defects by round, and records where each round ends.
fn by_round(rounds: &[u32], count: usize, defects: &[u32], list: &mut Vec<u32>, ends: &mut Vec<usize>) {
    list.clear();
    list.extend_from_slice(defects);
    list.sort_unstable_by_key(|&defect| (rounds[defect as usize], defect));
    ends.clear();
    ends.extend(
        (1..=count).map(|end| list.partition_point(|&defect| (rounds[defect as usize] as usize) < end)),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All three decoders find the same weight.
    #[test]
    fn they_agree() -> Result<()> {
        let problem = Problem::memory(5, 5, 8, 200)?;
        let mut whole = Ours::whole(&problem)?;
        let mut others = [Ours::stream(&problem)?, Ours::cores(&problem, super::super::TWO)?];
        for request in 0..200 {
            let expected = whole.decode(&problem, request)?.weight;
            for other in &mut others {
                assert!((other.decode(&problem, request)?.weight - expected).abs() < 1e-6);
            }
        }
        Ok(())
    }

    #[test]
    fn rounds_are_cut() {
        let (mut list, mut ends) = (Vec::new(), Vec::new());
        by_round(&[0, 2, 0, 1, 2], 4, &[0, 1, 3, 4], &mut list, &mut ends);
        assert_eq!((list, ends), (vec![0, 3, 1, 4], vec![1, 2, 4, 4]));
    }
}

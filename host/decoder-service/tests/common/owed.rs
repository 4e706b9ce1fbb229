//! Expected answers, from the CPU's engine: every engine gives the same answers, since the network computes in integers.

use super::{Bound, answer, bytes_of, logits};
use ringcall_decoder_service::{Problem, ShotSource};
use ringcall_infer::Model;
use ringcall_qec::decode::{Decoder, DecoderFactory, MatchingFactory};
use ringcall_qec::sample::Sampler;
use ringcall_qec::shots::{Shot, ShotFormat, ShotLayout, ShotWriter};
use std::io::Cursor;

/// The observable that matching makes of an answer.
fn outcome(decoder: &mut dyn Decoder, answer: &[u8]) -> u8 {
    let (left, frame) = answer.split_at(answer.len() - 1);
    let defects: Vec<u32> =
        (0..8 * left.len() as u32).filter(|i| left[*i as usize / 8] >> (i % 8) & 1 == 1).collect();
    let mut predicted = [0];
    decoder.decode(&defects, &mut predicted).expect("decodable");
    predicted[0] ^ frame[0]
}

/// Runs `work` for every item on as many threads as there are cores, each with its own result of `tools`.
pub(crate) fn on_all_cores<I: Sync, T, R: Send>(
    items: &[I],
    tools: impl Fn() -> T + Sync,
    work: impl Fn(&mut T, &I) -> R + Sync,
) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let part = |items: &[I]| -> Vec<R> {
        let mut tools = tools();
        items.iter().map(|item| work(&mut tools, item)).collect()
    };
    std::thread::scope(|scope| {
        let each = items.len().div_ceil(threads).max(1);
        let parts: Vec<_> = items.chunks(each).map(|items| scope.spawn(|| part(items))).collect();
        parts.into_iter().flat_map(|part| part.join().expect("no panic")).collect()
    })
}

/// Shots whose observables are the predictions of the CPU's engine and matching.
pub(crate) struct Predicted {
    pub(crate) shots: Vec<Shot>,
    /// How many are predicted wrong.
    pub(crate) errors: usize,
}

impl Bound {
    /// The first shots of a seed, with their true observables.
    pub(crate) fn shots(&self, shots: u64, seed: u64) -> Vec<Shot> {
        let mut sampler = Sampler::new(&self.model, seed).expect("a sampler");
        let mut shot = sampler.new_shot();
        let mut next = || {
            sampler.sample_into(&mut shot).expect("a shot");
            shot.clone()
        };
        (0..shots).map(|_| next()).collect()
    }

    /// The answer to each shot.
    pub(crate) fn owed(&self, shots: &[Shot]) -> Vec<Vec<u8>> {
        let engine = || self.cpu.instantiate().expect("an engine");
        on_all_cores(shots, engine, |engine, shot| {
            let request = bytes_of(shot);
            let logits = logits(&mut **engine, &self.volume, &request);
            answer(&self.volume, &logits, self.threshold, &request)
        })
    }

    /// What is predicted for each shot.
    pub(crate) fn predicted(&self, mut shots: Vec<Shot>) -> Predicted {
        let owed = self.owed(&shots);
        let decoders = MatchingFactory::from_dem(&self.model).expect("a matching problem");
        let decoder = || decoders.build().expect("a decoder");
        let predicted = on_all_cores(&owed, decoder, |decoder, owed| outcome(&mut **decoder, owed) == 1);
        let mut errors = 0;
        for (shot, observable) in shots.iter_mut().zip(predicted) {
            errors += usize::from(shot.observables.get(0) != Some(observable));
            shot.observables.set(0, observable);
        }
        Predicted { shots, errors }
    }
}

/// The shots round and round: answers that are not their observables count as errors.
pub(crate) fn round_and_round(problem: &Problem, shots: &[Shot], requests: u64) -> ShotSource {
    let layout = ShotLayout::with_observables(problem.detectors(), problem.observables());
    let mut writer = ShotWriter::new(Vec::new(), ShotFormat::B8, layout).expect("bits");
    let each = shots.iter().cycle().take(usize::try_from(requests).expect("few"));
    each.for_each(|shot| writer.write(shot).expect("of this layout"));
    let file = Cursor::new(writer.finish().expect("in memory"));
    ShotSource::read(problem, file, ShotFormat::B8, true).expect("a source")
}

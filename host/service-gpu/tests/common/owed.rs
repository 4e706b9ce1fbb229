//! What the CPU's engine owes for a syndrome, as far as rounding on the device leaves it open.

use super::{Bound, answer, bytes_of, logits};
use ringcall_infer::Model;
use ringcall_qec::decode::{Decoder, DecoderFactory, MatchingFactory};
use ringcall_qec::predecoder::PredecoderVolume;
use ringcall_qec::sample::Sampler;
use ringcall_qec::shots::{Shot, ShotFormat, ShotLayout, ShotWriter};
use ringcall_service::{Problem, ShotSource};
use std::collections::BTreeSet;
use std::io::Cursor;

/// How far from the threshold a logit of the CPU's engine may be, and the device decide otherwise: between layers it rounds to
/// 16 bits. Of 34 million logits none was off by more than 0.014, and no decision fell otherwise whose logit was farther than
/// 0.0008 from the threshold.
pub(crate) const ROUNDING: f32 = 1.0 / 64.0;
/// Up to so many decisions are tried either way, all together.
const MOST_OPEN: usize = 8;

/// The answers that a syndrome may have.
pub(crate) struct Owed {
    /// The CPU's own, then those that other ways of rounding give. All are different.
    ways: Vec<Vec<u8>>,
    /// So many decisions are open that the other ways were not tried.
    untried: bool,
}

impl Owed {
    /// By the logits of the CPU's engine.
    pub(crate) fn new(volume: &PredecoderVolume, logits: &[f32], threshold: f32, request: &[u8]) -> Self {
        let own = answer(volume, logits, threshold, request);
        let mut logits = logits.to_vec();
        // One at a time, so that those that flip nothing drop out.
        let close: Vec<usize> =
            (0..logits.len()).filter(|&at| (logits[at] - threshold).abs() <= ROUNDING).collect();
        let mut flips: Vec<Vec<u8>> = Vec::new();
        for at in close {
            let logit = logits[at];
            logits[at] = if logit > threshold { f32::MIN } else { f32::MAX };
            let other = answer(volume, &logits, threshold, request);
            logits[at] = logit;
            if other != own {
                flips.push(xor(&own, &other));
            }
        }
        let untried = flips.len() > MOST_OPEN;
        let mut ways = vec![own];
        for flip in flips.iter().filter(|_| !untried) {
            for way in ways.clone() {
                let other = xor(&way, flip);
                if !ways.contains(&other) {
                    ways.push(other);
                }
            }
        }
        Self { ways, untried }
    }

    /// What the CPU's engine answers.
    pub(crate) fn own(&self) -> &[u8] {
        &self.ways[0]
    }

    /// What the device may answer, the CPU's own answer first. Where too much is open, only that.
    pub(crate) fn ways(&self) -> &[Vec<u8>] {
        &self.ways
    }

    /// Whether the device may answer so.
    pub(crate) fn allows(&self, answer: &[u8]) -> bool {
        self.ways.iter().any(|way| way == answer)
    }

    /// Whether rounding can change the answer.
    pub(crate) fn is_open(&self) -> bool {
        self.untried || self.ways.len() > 1
    }

    /// The observable that matching makes of the CPU's answer, and whether it is the same however decisions are rounded.
    pub(crate) fn predicted(&self, decoder: &mut dyn Decoder) -> (u8, bool) {
        let own = outcome(decoder, self.own());
        (own, !self.untried && self.ways[1..].iter().all(|way| outcome(decoder, way) == own))
    }
}

/// What came of the shots in one way to the network: each answer is one that is owed, and which are not the CPU's own.
pub(crate) struct Judge<'a> {
    /// What may be answered to each shot, the CPU's own answer first.
    ways: Vec<&'a [Vec<u8>]>,
    tipped: BTreeSet<usize>,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(ways: impl IntoIterator<Item = &'a [Vec<u8>]>) -> Self {
        Self { ways: ways.into_iter().collect(), tipped: BTreeSet::new() }
    }

    pub(crate) fn allows(&mut self, place: usize, answer: &[u8]) -> bool {
        let found = self.ways[place].iter().position(|way| way == answer);
        if found != Some(0) {
            self.tipped.insert(place);
        }
        found.is_some()
    }

    /// How many shots have another answer than the CPU's: few, also where rounding explains it.
    pub(crate) fn tipped(&self, what: &str) -> usize {
        let (tipped, shots) = (self.tipped.len(), self.ways.len());
        assert!(tipped <= 1 + shots / 1000, "{what}: {tipped} of {shots} answers are not the CPU's");
        tipped
    }
}

fn xor(one: &[u8], other: &[u8]) -> Vec<u8> {
    one.iter().zip(other).map(|(a, b)| a ^ b).collect()
}

/// The observable that matching makes of an answer.
pub(crate) fn outcome(decoder: &mut dyn Decoder, answer: &[u8]) -> u8 {
    let (left, frame) = answer.split_at(answer.len() - 1);
    let defects: Vec<u32> =
        (0..8 * left.len() as u32).filter(|i| left[*i as usize / 8] >> (i % 8) & 1 == 1).collect();
    let mut predicted = [0];
    decoder.decode(&defects, &mut predicted).expect("decodable");
    predicted[0] ^ frame[0]
}

/// `work` for every item, by as many threads as there are cores, each with what `tools` makes.
fn on_all_cores<I: Sync, T, R: Send>(
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

/// Shots whose observables are what the CPU's engine and matching predict.
pub(crate) struct Predicted {
    /// Those that every way of rounding predicts alike.
    pub(crate) sure: Vec<Shot>,
    /// How many others there were.
    pub(crate) open: u64,
    /// How many of all are predicted wrong.
    pub(crate) errors: u64,
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

    /// What is owed for each shot.
    pub(crate) fn owed(&self, shots: &[Shot]) -> Vec<Owed> {
        let engine = || self.cpu.instantiate().expect("an engine");
        on_all_cores(shots, engine, |engine, shot| {
            let request = bytes_of(shot);
            Owed::new(&self.volume, &logits(&mut **engine, &self.volume, &request), self.threshold, &request)
        })
    }

    /// What is predicted for each shot.
    pub(crate) fn predicted(&self, mut shots: Vec<Shot>) -> Predicted {
        let owed = self.owed(&shots);
        let decoders = MatchingFactory::from_dem(&self.model).expect("a matching problem");
        let decoder = || decoders.build().expect("a decoder");
        let predicted = on_all_cores(&owed, decoder, |decoder, owed| owed.predicted(&mut **decoder));
        let wrong = |(shot, (observable, _)): &(&Shot, &(u8, bool))| {
            shot.observables.get(0) != Some(*observable == 1)
        };
        let errors = shots.iter().zip(&predicted).filter(wrong);
        let errors = errors.count() as u64;
        for (shot, (observable, _)) in shots.iter_mut().zip(&predicted) {
            shot.observables.set(0, *observable == 1);
        }
        let mut sure = predicted.iter().map(|(_, sure)| *sure);
        shots.retain(|_| sure.next().expect("one each"));
        let open = (predicted.len() - shots.len()) as u64;
        Predicted { sure: shots, open, errors }
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

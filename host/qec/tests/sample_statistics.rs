//! The sampler against exact probabilities.
//!
//! Seeds are fixed, so each test always passes or always fails. Bounds are such that a right sampler would fail with
//! another seed less than once in a million tries.

use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
use ringcall_qec::code::Basis;
use ringcall_qec::dem::{DetectorErrorModel, Mechanism};
use ringcall_qec::sample::{BulkSampler, Sampler, derived_seed};
use ringcall_qec::shots::Shot;

fn model(num_detectors: u32, num_observables: u32, errors: &[(f64, &[u32], &[u32])]) -> DetectorErrorModel {
    let mechanisms = errors.iter().map(|&(probability, detectors, observables)| Mechanism {
        probability,
        detectors: detectors.to_vec(),
        observables: observables.to_vec(),
        components: Vec::new(),
    });
    DetectorErrorModel {
        num_detectors,
        num_observables,
        mechanisms: mechanisms.collect(),
        coordinates: Vec::new(),
    }
}

/// Refuses a count of `shots` draws that is 7 standard deviations (and 7 counts, where the normal law does not reach)
/// from its mean: 2.6e-12 for each of at most a few thousand comparisons.
fn check(count: u64, shots: u64, probability: f64, what: impl std::fmt::Display) {
    let mean = shots as f64 * probability;
    let bound = 7.0 * (mean * (1.0 - probability)).sqrt() + 7.0;
    assert!(
        (count as f64 - mean).abs() <= bound,
        "{what}: {count} of {shots}, expected {mean:.1} +- {bound:.1}"
    );
}

/// The probability that an odd number of errors fire.
fn odd(probabilities: impl Iterator<Item = f64>) -> f64 {
    (1.0 - probabilities.map(|p| 1.0 - 2.0 * p).product::<f64>()) / 2.0
}

/// Either kind of sampler.
trait Draws {
    fn of(model: &DetectorErrorModel, seed: u64) -> Self;
    fn new_shot(&self) -> Shot;
    fn draw(&mut self, shot: &mut Shot);
}

macro_rules! draws {
    ($kind:ty) => {
        impl Draws for $kind {
            fn of(model: &DetectorErrorModel, seed: u64) -> Self {
                Self::new(model, seed).unwrap()
            }

            fn new_shot(&self) -> Shot {
                self.new_shot()
            }

            fn draw(&mut self, shot: &mut Shot) {
                self.sample_into(shot).unwrap();
            }
        }
    };
}

draws!(Sampler);
draws!(BulkSampler);

#[test]
fn every_mechanism_fires_at_its_rate() {
    fires_at_its_rate::<Sampler>();
    fires_at_its_rate::<BulkSampler>();
}

fn fires_at_its_rate<S: Draws>() {
    // Each flips its own detector: many alike, some close to each other, some alone in their class, the
    // extremes.
    let mut rates = vec![0.003; 300];
    rates.extend((0..200).map(|index| 0.001 + 1e-5 * f64::from(index)));
    rates.extend([1.0, 0.999, 0.75, 0.5, 0.49999, 0.2, 0.01, 1e-4, 1e-6, 1e-12, 1e-300, 0.0]);
    let detectors: Vec<[u32; 1]> = (0..rates.len() as u32).map(|index| [index]).collect();
    let errors: Vec<_> =
        rates.iter().zip(&detectors).map(|(&p, detector)| (p, &detector[..], &[][..])).collect();
    let mut sampler = S::of(&model(rates.len() as u32, 0, &errors), 11);
    let shots = 400_000;
    let mut counts = vec![0u64; rates.len()];
    let mut pairs = 0;
    let mut fired_of_alike = [0u64; 12];
    let mut shot = sampler.new_shot();
    for _ in 0..shots {
        sampler.draw(&mut shot);
        let mut alike = 0;
        for index in shot.detectors.iter_ones() {
            counts[index as usize] += 1;
            alike += usize::from(index < 300);
        }
        fired_of_alike[alike.min(11)] += 1;
        pairs += u64::from(shot.detectors.get(0) == Some(true) && shot.detectors.get(1) == Some(true));
    }
    for (index, (&count, &rate)) in counts.iter().zip(&rates).enumerate() {
        check(count, shots, rate, format_args!("mechanism {index} of rate {rate}"));
    }
    assert_eq!(counts[500], shots, "probability 1 fires always");
    assert_eq!(counts[511], 0, "probability 0 never");
    check(pairs, shots, 9e-6, "two neighbours together");
    // Independence: the number that fire of 300 alike is binomial.
    let (mut probability, mut rest) = (0.997f64.powi(300), 1.0);
    for (fired, &count) in fired_of_alike.iter().enumerate() {
        let expected = if fired == 11 { rest } else { probability };
        check(count, shots, expected, format_args!("{fired} of 300 alike"));
        rest -= probability;
        probability *= (300 - fired) as f64 / (fired + 1) as f64 * 0.003 / 0.997;
    }
}

/// Errors on a chain: each detector is flipped by three of them, as in a code.
fn chain() -> DetectorErrorModel {
    let mut errors = Vec::new();
    let lists: Vec<[u32; 3]> = (0..98).map(|index| [index, index + 1, index + 2]).collect();
    for (index, list) in lists.iter().enumerate() {
        let rate = [0.001, 0.0015, 0.004, 0.02, 0.3][index % 5];
        errors.push((rate, &list[..], if index % 7 == 0 { &[0, 2][..] } else { &[1][..] }));
    }
    model(100, 3, &errors)
}

#[test]
fn marginals_and_correlations_of_detectors() {
    detectors_are_correlated::<Sampler>();
    detectors_are_correlated::<BulkSampler>();
}

fn detectors_are_correlated<S: Draws>() {
    let model = chain();
    let mut sampler = S::of(&model, 3);
    let shots = 300_000;
    let (mut single, mut double, mut observable) = ([0u64; 100], [0u64; 99], [0u64; 3]);
    let mut shot = sampler.new_shot();
    for _ in 0..shots {
        sampler.draw(&mut shot);
        let mut before = false;
        for index in 0..100 {
            let now = shot.detectors.get(index).unwrap();
            single[index as usize] += u64::from(now);
            if index > 0 {
                double[index as usize - 1] += u64::from(now ^ before);
            }
            before = now;
        }
        for index in shot.observables.iter_ones() {
            observable[index as usize] += 1;
        }
    }
    let rate = |hit: &dyn Fn(&Mechanism) -> bool| {
        odd(model.mechanisms.iter().filter(|error| hit(error)).map(|error| error.probability))
    };
    for index in 0..100u32 {
        let expected = rate(&|error| error.detectors.contains(&index));
        check(single[index as usize], shots, expected, format_args!("detector {index}"));
    }
    for index in 0..99u32 {
        let expected =
            rate(&|error| error.detectors.contains(&index) != error.detectors.contains(&(index + 1)));
        check(double[index as usize], shots, expected, format_args!("detectors {index} and {}", index + 1));
    }
    for index in 0..3u32 {
        let expected = rate(&|error| error.observables.contains(&index));
        check(observable[index as usize], shots, expected, format_args!("observable {index}"));
    }
}

/// The first shots of a stream, as one number (FNV-1a over the words).
fn digest(sampler: &mut Sampler) -> u64 {
    let mut shot = sampler.new_shot();
    let mut digest = 0xcbf2_9ce4_8422_2325u64;
    for _ in 0..1000 {
        sampler.sample_into(&mut shot).unwrap();
        for &word in shot.detectors.words().iter().chain(shot.observables.words()) {
            digest = (digest ^ word).wrapping_mul(0x0100_0000_01b3);
        }
    }
    digest
}

#[test]
fn the_stream_is_what_it_was() {
    // From tests/data/shots/stream.py, which draws the same from the description alone. They may never change:
    // users and the data of other tests name seeds.
    let sampler = Sampler::new(&chain(), 2024).unwrap();
    let digests: Vec<u64> = [0, 1, 5].map(|index| digest(&mut sampler.stream(index))).to_vec();
    assert_eq!(digests, DIGESTS);
    assert_eq!(digest(&mut sampler.clone()), DIGESTS[0], "stream 0 is the sampler itself");
    assert_eq!(digest(&mut sampler.stream(5).stream(1)), DIGESTS[1], "streams are counted from the seed");
}
const DIGESTS: [u64; 3] = [14_196_107_906_256_409_166, 4_635_528_751_025_699_050, 17_247_610_688_990_475_352];

#[test]
fn bad_models_and_shots_are_refused() {
    for errors in [(f64::NAN, &[0][..]), (-0.1, &[0]), (1.1, &[0]), (0.1, &[2]), (0.1, &[0, 0])] {
        assert!(Sampler::new(&model(2, 0, &[(errors.0, errors.1, &[])]), 0).is_err(), "{errors:?}");
    }
    let mut bulk = BulkSampler::new(&chain(), 9).unwrap();
    assert!(bulk.sample_into(&mut Shot::default()).is_err());
    assert!(BulkSampler::new(&model(2, 0, &[(0.1, &[2], &[])]), 0).is_err());
    let (mut shot, mut drawn) = (bulk.new_shot(), Vec::new());
    let mut again = BulkSampler::new(&chain(), 9).unwrap();
    for _ in 0..50 {
        bulk.sample_into(&mut shot).unwrap();
        drawn.push(shot.clone());
        again.sample_into(&mut shot).unwrap();
        assert_eq!(drawn.last(), Some(&shot), "a seed gives the same shots");
    }
    assert!(drawn.iter().any(|shot| *shot != drawn[0]));
    BulkSampler::new(&model(0, 0, &[]), 1).unwrap().sample_into(&mut Shot::default()).unwrap();
    let mut sampler = Sampler::new(&chain(), 9).unwrap();
    let mut twin = sampler.clone();
    let mut wrong = Shot::default();
    let message = sampler.sample_into(&mut wrong).unwrap_err().to_string();
    assert!(message.contains("100 detectors, 3 observables"), "{message}");
    assert_eq!(digest(&mut sampler), digest(&mut twin), "a refusal draws nothing");
    let empty = Sampler::new(&model(0, 0, &[]), 1).unwrap();
    let mut shot = empty.new_shot();
    empty.stream(3).sample_into(&mut shot).unwrap();
    assert_eq!(shot, Shot::default());
}

#[test]
fn a_marginal_has_the_distribution_of_what_it_keeps() {
    let noise = CircuitNoise::uniform(0.01);
    let model =
        MemoryExperiment { distance: 3, rounds: 3, basis: Basis::X, noise }.detector_error_model().unwrap();
    let kept = model.marginal(|detector| detector % 3 != 1);
    kept.validate().unwrap();
    assert!(kept.mechanisms.len() < model.mechanisms.len());
    assert_eq!((kept.num_detectors, kept.num_observables), (model.num_detectors, model.num_observables));
    assert!(kept.mechanisms.iter().flat_map(|error| &error.detectors).all(|detector| detector % 3 != 1));
    // The parities of all subsets say the distribution (they are its Fourier transform); here are many of them.
    for trial in 0..3_000 {
        let chosen = |of: u64| derived_seed(trial, &[of]).is_multiple_of(2 + trial % 8);
        let in_subset = |detector: &&u32| **detector % 3 != 1 && chosen(u64::from(**detector));
        let parity = |model: &DetectorErrorModel| {
            let flips = |error: &&Mechanism| {
                let observables = if chosen(1_000) { error.observables.len() } else { 0 };
                (error.detectors.iter().filter(in_subset).count() + observables) % 2 == 1
            };
            odd(model.mechanisms.iter().filter(flips).map(|error| error.probability))
        };
        assert!((parity(&model) - parity(&kept)).abs() < 1e-12);
    }
    assert_eq!(model.marginal(|_| true).num_detectors, model.num_detectors);
    assert!(model.marginal(|_| false).mechanisms.iter().all(|error| error.detectors.is_empty()));
}

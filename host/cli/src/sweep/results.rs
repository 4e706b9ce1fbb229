//! Results of a sweep as plain values, for JSON, table and page.

use super::grid::Names;
use ringcall_decoder_service::study::{ArmCounts, Matching, Outcome, Point, Setup, State, Stop};
use ringcall_qec::circuit::Code;
use ringcall_qec::code::Basis;
use ringcall_qec::stats::{Interval, LogicalErrorRate, PairedErrors, StatsError};
use serde::Serialize;

#[derive(Debug, Clone, Serialize)]
pub(super) struct Settings {
    pub(super) seed: u64,
    pub(super) batch_shots: u32,
    pub(super) shots: u64,
    pub(super) max_errors: Option<u64>,
    pub(super) confidence: f64,
    pub(super) matching: &'static str,
    /// For points that Relay-BP decoded.
    pub(super) relay_solutions: u32,
    pub(super) relay_iterations: u32,
    /// Ordered statistics after Relay-BP did not converge.
    pub(super) relay_osd: Option<String>,
    pub(super) predecoder: Option<String>,
    /// Processor time after which a decode is late, µs.
    pub(super) deadline_us: Option<f64>,
    /// `None` for a study in shards.
    pub(super) threads: Option<usize>,
    pub(super) machine: String,
}

/// One point. Rates and ratios without a number are `null`.
#[derive(Debug, Serialize)]
pub(super) struct PointResult {
    /// `model` for a file's model.
    pub(super) code: &'static str,
    /// The name of a file's model; `None` for a generated experiment.
    pub(super) name: Option<String>,
    /// 0 if a file's name does not state it; the same holds for rounds. The noise is then NaN.
    pub(super) distance: u32,
    pub(super) rounds: u32,
    /// `None` for a code whose memory experiment covers all bases.
    pub(super) basis: Option<char>,
    pub(super) p: f64,
    pub(super) complete: bool,
    pub(super) shots: u64,
    /// The kind of matching of `alone` and `predecoder`, once there was a shot.
    pub(super) matching: Option<&'static str>,
    /// Shots of `alone` whose correction does not explain their syndrome: best guesses, right or wrong.
    pub(super) unconverged: u64,
    pub(super) observables: u32,
    /// The share of wrong predictions of `alone`: the mean over observables and shots.
    pub(super) error_rate_per_observable: f64,
    /// Share of detectors that fired.
    pub(super) density_in: f64,
    pub(super) alone: ArmResult,
    pub(super) predecoder: Option<PredecoderResult>,
    /// All arms; the others are compared with the first.
    pub(super) arms: Vec<ComparedResult>,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct ArmResult {
    pub(super) errors: u64,
    /// Rate per shot.
    pub(super) logical_error_rate: f64,
    /// Clopper-Pearson interval.
    pub(super) logical_error_rate_ci: [f64; 2],
    pub(super) logical_error_rate_per_round: f64,
    /// Mean time of matching a shot, µs.
    pub(super) matching_us: f64,
}

/// Additional results of the arm with a predecoder.
#[derive(Debug, Serialize)]
pub(super) struct PredecoderResult {
    #[serde(flatten)]
    pub(super) arm: ArmResult,
    pub(super) errors_in_common: u64,
    /// Errors with the predecoder divided by those of matching alone, on the same shots.
    pub(super) ratio: f64,
    pub(super) ratio_ci: [f64; 2],
    /// Share of detectors left for matching.
    pub(super) density_out: f64,
    /// Mean time of inference on a shot, µs.
    pub(super) inference_us: f64,
}

/// An arm in comparison with the first, on the same shots.
#[derive(Debug, Serialize)]
pub(super) struct ComparedResult {
    /// Known once there was a shot.
    pub(super) matching: Option<&'static str>,
    /// Whether a predecoder precedes it.
    pub(super) predecoder: bool,
    #[serde(flatten)]
    pub(super) arm: ArmResult,
    /// Shots that both this arm and the first got wrong.
    pub(super) errors_in_common: u64,
    /// Errors divided by those of the first arm.
    pub(super) ratio: f64,
    pub(super) ratio_ci: [f64; 2],
    /// Shots that took longer than the deadline; `None` without one, and with a predecoder.
    pub(super) late: Option<u64>,
    /// Shots that took longer, or are wrong.
    pub(super) late_or_wrong: Option<u64>,
}

impl Settings {
    /// The settings of a setup, without threads and machine.
    pub(super) fn new(setup: &Setup, stop: &Stop, confidence: f64) -> Self {
        Self {
            seed: setup.seed,
            batch_shots: setup.batch_shots,
            shots: stop.shots,
            max_errors: stop.errors,
            confidence,
            matching: setup.matching.name(),
            relay_solutions: setup.relay.solutions,
            relay_iterations: setup.relay.iterations,
            relay_osd: setup.relay.ordered.map(|order| order.to_string()),
            predecoder: setup.predecoder.clone(),
            deadline_us: setup.deadline_ns.map(|ns| ns as f64 / 1e3),
            threads: None,
            machine: String::new(),
        }
    }
}

/// A state's counts of each point.
pub(super) fn outcomes(state: &State, points: &[Point], stop: &Stop) -> Vec<(Point, Outcome)> {
    points.iter().map(|&point| (point, state.outcome(&point, stop))).collect()
}

const NONE: [f64; 2] = [f64::NAN; 2];

fn ends(interval: Interval) -> [f64; 2] {
    [interval.low, interval.high]
}

fn ratio_ci(paired: &PairedErrors, confidence: f64) -> Result<[f64; 2], StatsError> {
    match paired.shots {
        0 => Ok(NONE),
        _ => Ok(paired.ratio_interval(confidence)?.map_or(NONE, ends)),
    }
}

impl PointResult {
    /// A label for its code.
    pub(super) fn label(&self) -> String {
        let (code, distance) = (self.code, self.distance);
        if let Some(name) = &self.name {
            // Models whose files' names state both are points of one line.
            return if distance > 0 && self.p > 0.0 { format!("d = {distance}") } else { name.clone() };
        }
        match Code::ALL.into_iter().find(|known| known.name() == code) {
            Some(Code::Surface) => format!("d = {distance}"),
            Some(Code::Color) => format!("{code}, d = {distance}"),
            _ => code.to_owned(),
        }
    }

    pub(super) fn new(
        point: &Point,
        outcome: &Outcome,
        confidence: f64,
        names: &Names,
        timed: bool,
    ) -> Result<Self, StatsError> {
        let known = names.get(&point.to_string()).cloned();
        let name =
            point.given.map(|model| known.unwrap_or_else(|| format!("model {:08x}", model.digest >> 32)));
        let per_round = |rate: LogicalErrorRate| match point.rounds {
            0 => f64::NAN,
            rounds => rate.rate_per_round(rounds),
        };
        let Outcome { counts, complete } = outcome;
        let arm = |rate: LogicalErrorRate, matching_ns| -> Result<ArmResult, StatsError> {
            Ok(ArmResult {
                errors: rate.errors,
                logical_error_rate: rate.rate(),
                logical_error_rate_ci: match rate.shots {
                    0 => NONE,
                    _ => ends(rate.clopper_pearson(confidence)?),
                },
                logical_error_rate_per_round: per_round(rate),
                matching_us: counts.mean_us(matching_ns),
            })
        };
        let predecoder = match (counts.predecoder, counts.paired(), counts.density_out()) {
            (Some(after), Some(paired), Some(density)) => Some(PredecoderResult {
                arm: arm(paired.second_rate(), after.matching_ns)?,
                errors_in_common: after.both,
                ratio: paired.ratio(),
                ratio_ci: ratio_ci(&paired, confidence)?,
                density_out: density.density(),
                inference_us: counts.mean_us(after.inference_ns),
            }),
            _ => None,
        };
        let counted = counts.arms();
        let mut arms = Vec::new();
        for arm_counts in &counted {
            let &ArmCounts { matching, predecoder, errors, both, matching_ns, late } = arm_counts;
            let late = late.filter(|_| timed);
            let first = counted.first().map_or(0, |first| first.errors);
            let paired = PairedErrors { shots: counts.shots, first, second: errors, both };
            arms.push(ComparedResult {
                matching: (counts.shots > 0).then_some(matching.name()),
                predecoder,
                arm: arm(paired.second_rate(), matching_ns)?,
                errors_in_common: both,
                ratio: paired.ratio(),
                ratio_ci: ratio_ci(&paired, confidence)?,
                late: late.map(|[late, _]| late),
                late_or_wrong: late.map(|[_, either]| either),
            });
        }
        Ok(Self {
            code: if name.is_some() { "model" } else { point.code.name() },
            distance: point.distance,
            rounds: point.rounds,
            basis: (name.is_none() && point.code.has_basis()).then_some(if point.basis == Basis::X {
                'X'
            } else {
                'Z'
            }),
            p: if name.is_some() && point.p <= 0.0 { f64::NAN } else { point.p },
            name,
            complete: *complete,
            shots: counts.shots,
            matching: counts.matching().map(Matching::name),
            unconverged: counts.unconverged,
            observables: point.observables(),
            error_rate_per_observable: counts.observable_errors as f64
                / (counts.shots as f64 * f64::from(point.observables())),
            density_in: counts.density().density(),
            alone: arm(counts.alone(), counts.matching_ns)?,
            predecoder,
            arms,
        })
    }
}

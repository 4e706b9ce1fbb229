//! Estimates of a configuration's memory in bytes, by formulas that were fitted to peaks of resident memory
//! (docs/performance/memory.md).

use crate::decoder::{DecoderArgs, MatchingArg};
use ringcall_matching::DecoderConfig;
use ringcall_qec::circuit::{Code, DetectorBases, Experiment};
use ringcall_qec::decode::OrderedStatistics;
use ringcall_qec::dem::DetectorErrorModel;

/// The program itself: 14 MiB in the release profile, 20 in the development profile.
const PROCESS: f64 = 17.5 * 1024.0 * 1024.0;
/// The engine of a network on the CPU.
const NETWORK: f64 = 22.0 * 1024.0 * 1024.0;
/// Per detector: the circuit's analysis, the error model and the decoder's graph of a generated experiment.
const EXPERIMENT_DETECTOR: f64 = 10_500.0;
/// Per detector, the same of codes that Relay-BP decodes: a colour code, and a bivariate bicycle code with detectors of one basis
/// and of both.
const COLOR_DETECTOR: f64 = 11_000.0;
const BICYCLE_DETECTOR: f64 = 3_400.0;
const BICYCLE_DETECTOR_OF_BOTH: f64 = 15_000.0;
/// For each error and each detector that it flips, in a decoder by Relay-BP.
const RELAY_ERROR: f64 = 15.0;
const RELAY_FLIP: f64 = 4.0;
/// For each error, in the graph that decoders by Relay-BP share.
const RELAY_GRAPH_ERROR: f64 = 85.0;
/// Per detector, each further matching decoder.
const MATCHING_DETECTOR: f64 = 200.0;
/// For each column, in each decoder that may continue with ordered statistics.
const ORDERED_COLUMN: f64 = 10.0;
/// Per detector, the additions of an ensemble to each decoder, and the table of errors that its decoders share.
const ENSEMBLE_DETECTOR: f64 = 1_600.0;
const ENSEMBLE_SHARED: f64 = 400.0;
/// A decoder of endless runs: at least, and for each detector and round of its window, by d³, plain and correlated.
const ENDLESS: f64 = 0.4 * 1024.0 * 1024.0;
const ENDLESS_PLAIN: f64 = 14_200.0;
const ENDLESS_CORRELATED: f64 = 32_500.0;
/// Each further core that shares a run: at least, and by d³.
const ENDLESS_HELPER: f64 = 1024.0 * 1024.0;
const ENDLESS_HELPER_WINDOWS: f64 = 4_000.0;
/// Codes up to this distance have windows of more rounds relative to the distance.
const ENDLESS_SMALL: f64 = 5.0;
const ENDLESS_CORRELATED_SMALL: f64 = 49_000.0;
/// For each error of a model.
pub(super) const MECHANISM: u64 = 170;
/// Lists grow by doubling, and are shrunk to size at the end.
const LISTS: f64 = 1.2;

/// A part of the memory taken.
#[derive(Debug, Clone, Copy)]
struct Part {
    /// The purpose, and the options that determine the size.
    what: &'static str,
    bytes: f64,
}

/// The memory of a configuration.
#[derive(Debug, Clone)]
pub(crate) struct Estimate {
    parts: Vec<Part>,
    detectors: f64,
    /// Bytes of the decoder's near lists.
    lists: f64,
    /// Columns of a decoder by Relay-BP: the errors of its model.
    columns: f64,
    /// Bytes of each further decoder; 0: by detectors.
    decoder: f64,
}

/// The purpose of memory for a decoder.
const EXPERIMENT: &str = "decoding (--code, --distance, --rounds)";
const MODEL: &str = "decoding the error model";

impl Estimate {
    /// The program without a configuration.
    pub(crate) fn process() -> Self {
        let process = Part { what: "the program", bytes: PROCESS };
        Self { parts: vec![process], detectors: 0.0, lists: 0.0, columns: 0.0, decoder: 0.0 }
    }

    fn and(mut self, what: &'static str, bytes: f64) -> Self {
        self.parts.push(Part { what, bytes });
        self
    }

    /// A generated memory experiment and its decoder.
    pub(crate) fn experiment(self, experiment: &Experiment) -> Self {
        let &Experiment { code, distance, rounds, detectors, .. } = experiment;
        let bytes = match (code, detectors) {
            (Code::Surface, _) => return self.surface(distance, rounds),
            (Code::Color, _) => COLOR_DETECTOR,
            (_, DetectorBases::Memory) => BICYCLE_DETECTOR,
            (_, DetectorBases::Both) => BICYCLE_DETECTOR_OF_BOTH,
        };
        let watched = if code.has_detector_bases() && detectors == DetectorBases::Memory { 0.5 } else { 1.0 };
        // There is one more layer than rounds if only the memory's basis has detectors.
        let layers = f64::from(rounds) + 1.0;
        let detectors = layers * watched * code.detectors_per_round(distance) as f64;
        // Seven to ten errors a detector if the circuits have noise.
        let columns = 10.0 * detectors;
        let estimate = Self { detectors, columns, decoder: bytes * detectors / 10.0, ..self };
        estimate.and(EXPERIMENT, bytes * detectors)
    }

    /// A memory experiment of the surface code and its decoder.
    pub(crate) fn surface(mut self, distance: u32, rounds: u32) -> Self {
        let (d, rounds) = (f64::from(distance), f64::from(rounds));
        // Each round has a detector for each check.
        self.detectors = rounds * (d * d - 1.0).max(0.0);
        let config = DecoderConfig::default();
        let most = config.most_near_entries(self.detectors as usize) as f64;
        // A list reaches as far as pairs are closer to each other than to the boundary: further for larger codes, less
        // far with fewer rounds. It ends at `most`.
        let elongation = self.detectors / d.powi(3).max(1.0);
        let reach = 0.48 * d.powf(2.72) * elongation / (elongation + 0.65);
        let entries = (reach.powi(-2) + most.powi(-2)).powf(-0.5);
        self.lists = config.near_list_bytes(self.detectors as usize, entries);
        let bytes = EXPERIMENT_DETECTOR * self.detectors + LISTS * self.lists;
        self.and(EXPERIMENT, bytes)
    }

    /// The decoder that the options select for an error model.
    pub(crate) fn decoder_of(self, model: &DetectorErrorModel, decoder: &DecoderArgs) -> Self {
        let estimate = if decoder.is_relay_of(model) {
            self.relay(model)
        } else {
            self.model(model, decoder.may_correlate())
        };
        estimate.further(decoder)
    }

    /// The additions that the options ask for to correlated matching or Relay-BP.
    pub(crate) fn further(self, decoder: &DecoderArgs) -> Self {
        let estimate = match decoder.relay.ordered {
            Some(order) => self.ordered(order),
            None => self,
        };
        if decoder.kind == Some(MatchingArg::Ensemble) { estimate.ensemble() } else { estimate }
    }

    /// Ordered statistics after Relay-BP: in each decoder a square matrix of bits by checks, and the columns of a
    /// sweep.
    pub(crate) fn ordered(mut self, order: OrderedStatistics) -> Self {
        let swept = match order {
            OrderedStatistics::Zero => 0.0,
            OrderedStatistics::CombinationSweep(first) => f64::from(first).min(self.columns),
        };
        let words = (self.detectors / 64.0).ceil();
        let bytes = 8.0 * words * (self.detectors + swept) + ORDERED_COLUMN * self.columns;
        self.decoder += bytes;
        self.and("ordered statistics (--relay-osd)", bytes)
    }

    /// An ensemble of matchings: passes with separate weights in each decoder, and a table of errors.
    pub(crate) fn ensemble(mut self) -> Self {
        let each = ENSEMBLE_DETECTOR * self.detectors;
        self.decoder = MATCHING_DETECTOR * self.detectors + each;
        let shared = ENSEMBLE_SHARED * self.detectors;
        self.and("an ensemble (--matching ensemble)", each + shared)
    }

    /// A decoder of endless runs with `each` detectors a round, whose window moves with the run, or whose windows so many cores
    /// share.
    pub(crate) fn endless(self, each: u32, correlated: bool, cores: usize) -> Self {
        let distance = (f64::from(each) + 1.0).sqrt();
        let bytes = match correlated {
            false => ENDLESS_PLAIN,
            true if distance <= ENDLESS_SMALL => ENDLESS_CORRELATED_SMALL,
            true => ENDLESS_CORRELATED,
        };
        let helper = ENDLESS_HELPER + ENDLESS_HELPER_WINDOWS * distance.powi(3);
        let bytes = ENDLESS + bytes * distance.powi(3) + helper * (cores - 1) as f64;
        self.and("decoders of runs without end (--decoders, --distance, --cores)", bytes)
    }

    /// A decoder of an error model by Relay-BP.
    pub(crate) fn relay(mut self, model: &DetectorErrorModel) -> Self {
        let errors = model.mechanisms.len() as f64;
        let flips: f64 = model.mechanisms.iter().map(|error| error.detectors.len() as f64).sum();
        (self.detectors, self.columns) = (f64::from(model.num_detectors), errors);
        self.decoder = RELAY_ERROR * errors + RELAY_FLIP * flips;
        let bytes = (MECHANISM as f64 + RELAY_GRAPH_ERROR) * errors + 2.0 * RELAY_FLIP * flips + self.decoder;
        self.and(MODEL, bytes)
    }

    /// A decoder of an error model by matching. Its near lists are estimated at their greatest length.
    pub(crate) fn model(mut self, model: &DetectorErrorModel, correlated: bool) -> Self {
        let detectors = model.num_detectors as usize;
        let (mut parts, mut flipping, mut several, mut edges) = (0.0, 0.0, 0.0, 0.0_f64);
        for mechanism in &model.mechanisms {
            parts += mechanism.components.len().saturating_sub(1) as f64;
            flipping += f64::from(u8::from(!mechanism.observables.is_empty()));
            several += f64::from(u8::from(mechanism.components.len() > 1));
            edges += mechanism.components.len().max(1) as f64;
        }
        self.detectors = detectors as f64;
        let config = DecoderConfig::default();
        // A detector without an edge has no list, and other lists have no more entries than there are detectors with
        // edges.
        let linked = self.detectors.min(2.0 * edges);
        let most = (config.most_near_entries(detectors) as f64).min(linked);
        self.lists = config.near_list_bytes(detectors, most * linked / self.detectors.max(1.0));
        let bytes = 520.0 * self.detectors
            + MECHANISM as f64 * model.mechanisms.len() as f64
            + 150.0 * parts
            + 100.0 * flipping
            + 200.0 * edges.min(10.0 * self.detectors)
            + LISTS * self.lists
            + if correlated { 600.0 * several } else { 0.0 };
        self.and(MODEL, bytes)
    }

    /// Decoders on the same tables, one for each thread; the first is included already.
    pub(crate) fn workers(self, workers: u32) -> Self {
        let each = if self.decoder > 0.0 { self.decoder } else { MATCHING_DETECTOR * self.detectors };
        let bytes = each * f64::from(workers.saturating_sub(1));
        self.and("decoders of threads (--workers, --threads)", bytes)
    }

    /// A network on the CPU for each worker.
    pub(crate) fn network(self, workers: u32, distance: u32, rounds: u32) -> Self {
        let volume = (f64::from(rounds) + 1.0) * f64::from(distance).powi(2);
        let bytes = NETWORK + f64::from(workers) * volume * 4_096.0;
        self.and("the network (--workers, --distance, --rounds)", bytes)
    }

    /// A file while it is being read.
    pub(crate) fn file(self, bytes: u64) -> Self {
        self.and("reading the file", bytes as f64)
    }

    /// A ring with slots for requests and for responses.
    pub(crate) fn ring(self, slots: u32, slot_bytes: u32) -> Self {
        let bytes = f64::from(slots) * (230.0 + 2.0 * f64::from(slot_bytes));
        self.and("the ring (--slots, --slot-bytes)", bytes)
    }

    pub(crate) fn detectors(&self) -> u32 {
        self.detectors as u32
    }

    /// Windows of RoCE peers on the same ring, if every peer writes to all of its window.
    pub(crate) fn windows(self, peers: u32, slots: u32, slot_bytes: u32) -> Self {
        let bytes = f64::from(peers) * f64::from(slots) * (290.0 + f64::from(slot_bytes));
        self.and("windows of peers (--peers, --slots, --slot-bytes)", bytes)
    }

    /// Adds the memory that other parts of the process use already.
    pub(crate) fn beside(self, there: &Self) -> Self {
        self.and("what is there already", (there.bytes() as f64 - PROCESS).max(0.0))
    }

    /// The total, saturated.
    pub(crate) fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum::<f64>() as u64
    }

    /// The total for people.
    pub(crate) fn shown(&self) -> String {
        super::shown(self.bytes())
    }

    /// The purpose of the largest part.
    pub(super) fn largest(&self) -> &'static str {
        self.parts.iter().max_by(|a, b| a.bytes.total_cmp(&b.bytes)).map_or("nothing", |part| part.what)
    }
}

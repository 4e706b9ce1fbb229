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
/// Of an error and of each detector that it flips, in a decoder by Relay-BP.
const RELAY_ERROR: f64 = 15.0;
const RELAY_FLIP: f64 = 4.0;
/// Of an error in the graph that decoders by Relay-BP share.
const RELAY_GRAPH_ERROR: f64 = 85.0;
/// Per detector, each matching decoder beside the first.
const MATCHING_DETECTOR: f64 = 200.0;
/// Of a column, in each decoder that may go on to ordered statistics.
const ORDERED_COLUMN: f64 = 10.0;
/// Per detector, what an ensemble adds to each decoder, and the errors' table that its decoders share.
const ENSEMBLE_DETECTOR: f64 = 1_600.0;
const ENSEMBLE_SHARED: f64 = 400.0;
/// A decoder of runs without end, at least, and for each detector and round that its window is long: by d³, plain and correlated.
const ENDLESS: f64 = 0.4 * 1024.0 * 1024.0;
const ENDLESS_PLAIN: f64 = 14_200.0;
const ENDLESS_CORRELATED: f64 = 32_500.0;
/// Windows of codes up to this distance are longer, measured in it.
const ENDLESS_SMALL: f64 = 5.0;
const ENDLESS_CORRELATED_SMALL: f64 = 49_000.0;
/// Of an error of a model.
pub(super) const MECHANISM: u64 = 170;
/// Lists grow by doubling, and are cut to size at the end.
const LISTS: f64 = 1.2;

/// A part of the memory taken.
#[derive(Debug, Clone, Copy)]
struct Part {
    /// What for, and which options say how much.
    what: &'static str,
    bytes: f64,
}

/// What a configuration takes.
#[derive(Debug, Clone)]
pub(crate) struct Estimate {
    parts: Vec<Part>,
    detectors: f64,
    /// Bytes of the decoder's near lists.
    lists: f64,
    /// Columns of a decoder by Relay-BP: the errors of its model.
    columns: f64,
    /// Bytes of each decoder beside the first; 0: by detectors.
    decoder: f64,
}

/// What takes memory where a decoder does.
const EXPERIMENT: &str = "decoding (--code, --distance, --rounds)";
const MODEL: &str = "decoding the error model";

impl Estimate {
    /// The program with nothing to do.
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
        // One layer more than there are rounds, where only the memory's basis has detectors.
        let layers = f64::from(rounds) + 1.0;
        let detectors = layers * watched * code.detectors_per_round(distance) as f64;
        // Seven to ten errors a detector, where there is noise in circuits.
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
        // A list reaches as far as pairs are closer to each other than to the boundary: the further the larger the code is, and
        // the less the fewer rounds there are. It ends at `most`.
        let elongation = self.detectors / d.powi(3).max(1.0);
        let reach = 0.48 * d.powf(2.72) * elongation / (elongation + 0.65);
        let entries = (reach.powi(-2) + most.powi(-2)).powf(-0.5);
        self.lists = config.near_list_bytes(self.detectors as usize, entries);
        let bytes = EXPERIMENT_DETECTOR * self.detectors + LISTS * self.lists;
        self.and(EXPERIMENT, bytes)
    }

    /// The decoder of an error model that the options say.
    pub(crate) fn decoder_of(self, model: &DetectorErrorModel, decoder: &DecoderArgs) -> Self {
        let estimate = if decoder.is_relay_of(model) {
            self.relay(model)
        } else {
            self.model(model, decoder.may_correlate())
        };
        estimate.further(decoder)
    }

    /// What the options ask for beyond matching in two passes, or beyond Relay-BP.
    pub(crate) fn further(self, decoder: &DecoderArgs) -> Self {
        let estimate = match decoder.relay.ordered {
            Some(order) => self.ordered(order),
            None => self,
        };
        if decoder.kind == Some(MatchingArg::Ensemble) { estimate.ensemble() } else { estimate }
    }

    /// Ordered statistics behind Relay-BP: in each decoder a square matrix of bits by checks, and the columns of a sweep.
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

    /// An ensemble of matchings: passes with weights of their own in each decoder, and a table of errors.
    pub(crate) fn ensemble(mut self) -> Self {
        let each = ENSEMBLE_DETECTOR * self.detectors;
        self.decoder = MATCHING_DETECTOR * self.detectors + each;
        let shared = ENSEMBLE_SHARED * self.detectors;
        self.and("an ensemble (--matching ensemble)", each + shared)
    }

    /// A decoder of runs of any length, with so many detectors a round, whose window moves with the run.
    pub(crate) fn endless(self, each: u32, correlated: bool) -> Self {
        let distance = (f64::from(each) + 1.0).sqrt();
        let bytes = match correlated {
            false => ENDLESS_PLAIN,
            true if distance <= ENDLESS_SMALL => ENDLESS_CORRELATED_SMALL,
            true => ENDLESS_CORRELATED,
        };
        self.and("decoders of runs without end (--decoders, --distance)", ENDLESS + bytes * distance.powi(3))
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

    /// A decoder of an error model by matching. Its near lists are counted as long as they may be.
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
        // A detector without an edge has no list, and one with edges no more entries than there are such detectors.
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

    /// Decoders on the same tables, one for each thread; the first is counted.
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

    /// A file while it is read.
    pub(crate) fn file(self, bytes: u64) -> Self {
        self.and("reading the file", bytes as f64)
    }

    /// A ring with slots for requests and for responses.
    pub(crate) fn ring(self, slots: u32, slot_bytes: u32) -> Self {
        let bytes = f64::from(slots) * (230.0 + 2.0 * f64::from(slot_bytes));
        self.and("the ring (--slots, --slot-bytes)", bytes)
    }

    /// Detectors of the decoded model.
    pub(crate) fn detectors(&self) -> u32 {
        self.detectors as u32
    }

    /// Windows of RoCE peers on the same ring, as if every peer had written to all of its window.
    pub(crate) fn windows(self, peers: u32, slots: u32, slot_bytes: u32) -> Self {
        let bytes = f64::from(peers) * f64::from(slots) * (290.0 + f64::from(slot_bytes));
        self.and("windows of peers (--peers, --slots, --slot-bytes)", bytes)
    }

    /// Beside what is there already, which took so much.
    pub(crate) fn beside(self, there: &Self) -> Self {
        self.and("what is there already", (there.bytes() as f64 - PROCESS).max(0.0))
    }

    /// All together; as much as can be said where it is more.
    pub(crate) fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum::<f64>() as u64
    }

    /// All together, for people.
    pub(crate) fn shown(&self) -> String {
        super::shown(self.bytes())
    }

    /// What most of it is for.
    pub(super) fn largest(&self) -> &'static str {
        self.parts.iter().max_by(|a, b| a.bytes.total_cmp(&b.bytes)).map_or("nothing", |part| part.what)
    }
}

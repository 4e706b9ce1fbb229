//! The options of `ringcall sweep`.

use super::grid::{Files, Grid};
use super::outputs::Outputs;
use crate::decoder::{DecoderArg, RelayArgs};
use crate::experiment::{BasisArg, Choice, CodeArg, DetectorsArg, Preset, read_circuit, read_model};
use crate::memory::{Estimate, MemoryLimit};
use crate::network::{Network, NetworkArg, NetworkFile};
use crate::number::{self, Distances, Noises};
use crate::usage::misuse;
use anyhow::{Result, bail};
use clap::ValueEnum;
use ringcall_decoder_service::study::{Matching, Point, Relay, Shard, Stop};
use ringcall_qec::circuit::{Code, Experiment};
use ringcall_qec::decode::BpConfig;
use ringcall_qec::dem::Mechanism;
use std::path::PathBuf;
use std::time::Duration;

/// How syndromes are matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum KindsArg {
    /// In one pass
    Plain,
    /// In two passes, the second with lower weights for edges that share an error with those found first: fewer errors,
    /// more time
    Correlated,
    /// Correlated first, then up to nine more passes where they may help, put together by the likelihood of the errors that they
    /// stand for: the fewest errors, up to about twice the time
    Ensemble,
    /// Plain and correlated: each arm is there twice, on the same shots
    Both,
}

/// Options of generated experiments, which files replace.
const GENERATED: [&str; 7] = ["preset", "codes", "distances", "noises", "rounds", "basis", "detectors"];

/// Measures logical error rates over code distances and noises, or of models of your own, with and without a predecoder.
///
/// All arms decode the same shots, which depend on the seed alone: neither on the number of threads nor on
/// interruptions. With --state each finished batch is written down, and the same command later continues from
/// there, also after it was killed; points, --shots and --max-errors may have changed by then.
///
/// With --shard i/n one of n processes counts every n-th batch of each point, into a file of the folder that --state
/// names; `ringcall merge` then reports what one process would have counted. Points, --shots and --max-errors of such a study
/// are fixed. With --max-errors a shard ends a point once its own batches have so many errors, or those of all shards
/// that it finds in the folder; the merge counts batches in order up to the first at which there are enough.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("predecoder").args(["model", "engine"]).multiple(true)))]
pub(crate) struct Args {
    /// A named configuration of the surface code, which sets distance, rounds and basis: d7, d13, d21, d31, d13_r104,
    /// d21_r42
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with_all = ["codes", "distances", "rounds", "basis", "detectors", "dem", "circuit"]
    )]
    preset: Option<Preset>,
    /// Codes whose memory experiments are studied
    #[arg(
        long = "code",
        value_enum,
        value_delimiter = ',',
        default_value = "surface",
        value_name = "CODE,…"
    )]
    codes: Vec<CodeArg>,
    /// Code distances of surface and colour codes, odd, at least 3: a list, or a range as 3-13 [default: 3,5,7]
    #[arg(long = "distance", alias = "distances", value_delimiter = ',', value_name = "D,…")]
    distances: Vec<Distances>,
    /// Strengths of the circuit noise, each of its rates: a list, or a range as 0.001:0.01:5, evenly spaced on a
    /// logarithmic axis
    #[arg(
        long = "p",
        alias = "noises",
        value_delimiter = ',',
        default_value = "0.002,0.004,0.006,0.01",
        value_name = "P,…"
    )]
    noises: Vec<Noises>,
    /// Detector error models in Stim's format, in place of generated experiments. Of a file that is called d=5,p=0.003.dem
    /// these are the point's distance and noise
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = GENERATED)]
    dem: Vec<Files>,
    /// Circuits in Stim's format, in place of generated experiments: their models are derived here
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = GENERATED)]
    circuit: Vec<Files>,
    /// Rounds of syndrome extraction [default: each distance's own number]
    #[arg(long)]
    rounds: Option<u32>,
    /// Memory basis [default: z]
    #[arg(long, value_enum)]
    basis: Option<BasisArg>,
    /// Which checks of bivariate bicycle codes have detectors [default: memory]
    #[arg(long, value_enum)]
    detectors: Option<DetectorsArg>,
    /// What decodes, matching or relay [default: matching, and relay at points of codes whose errors flip more than two detectors]
    #[arg(long, value_name = "DECODER")]
    decoder: Option<DecoderArg>,
    #[command(flatten)]
    relay: RelayArgs,
    /// How syndromes are matched [default: correlated, and both with a predecoder; plain at points whose noise is above 0.5,
    /// whose models have errors that correlated matching does not take]
    #[arg(long, value_enum, value_name = "KIND")]
    matching: Option<KindsArg>,
    /// Match each basis and layer of time of a surface code alone, which sees no errors of measurement: for what a predecoder leaves
    #[arg(long, conflicts_with_all = ["matching", "decoder", "dem", "circuit"])]
    slices: bool,
    /// ONNX model of a predecoder, of any size as in training/models, or for the one distance that is studied [default: the
    /// committed predecoder_3x128_int8, which is built in, where --engine is given; without either, matching alone]
    #[arg(long, value_name = "FILE")]
    pub(super) model: Option<PathBuf>,
    /// Threshold of a predecoder of any size [default: the model's own for each distance and noise]
    #[arg(long, value_name = "LOGIT", requires = "predecoder")]
    pub(super) threshold: Option<f32>,
    /// What runs the predecoder [default: cpu, where --model is given]
    #[arg(long, value_enum)]
    pub(super) engine: Option<NetworkArg>,
    /// ONNX Runtime's library [default: what ORT_DYLIB_PATH says, or libonnxruntime.so]
    #[arg(long, value_name = "FILE", requires = "predecoder")]
    pub(super) onnxruntime: Option<PathBuf>,
    /// The most shots of a point, rounded up to whole batches
    #[arg(long, default_value = "10_000", value_name = "N", value_parser = number::within::<u64>(1, u64::MAX))]
    pub(super) shots: u64,
    /// Count decodes that take longer than so many microseconds of processor time as late (they are not cut off), and shots that
    /// are late or wrong; without a predecoder's inference
    #[arg(long, alias = "deadline-us", value_name = "TIME", value_parser = number::microseconds)]
    pub(super) deadline: Option<Duration>,
    /// End a point once each arm has made so many logical errors
    #[arg(long, value_name = "N", value_parser = number::within::<u64>(1, u64::MAX))]
    pub(super) max_errors: Option<u64>,
    /// Seed of all shots
    #[arg(long, default_value_t = 1, value_parser = number::count)]
    pub(super) seed: u64,
    /// Threads that decode [default: the cores this process may use]
    #[arg(long, value_name = "N", value_parser = number::within::<u16>(1, 1024))]
    pub(super) threads: Option<u16>,
    /// Shots of a batch: what an interruption costs each thread at most [default: 100 with a predecoder, else 1000]
    #[arg(long, value_name = "N", value_parser = number::within::<u32>(1, 1_000_000))]
    pub(super) batch: Option<u32>,
    /// Where finished batches are kept, a line of JSON each; made if it is not there; a folder with --shard
    #[arg(long, value_name = "FILE")]
    pub(super) state: Option<PathBuf>,
    /// Count one of n parts of the study, which n processes on any machines count into one folder and `ringcall merge` joins
    #[arg(long, value_name = "I/N", requires = "state")]
    pub(super) shard: Option<Shard>,
    #[command(flatten)]
    memory: MemoryLimit,
    /// Show all that was measured: density of syndromes, rates per round, settings
    #[arg(long, short)]
    pub(super) verbose: bool,
    #[command(flatten)]
    pub(super) outputs: Outputs,
}

impl Args {
    /// The grid: codes and distances in the given order, each with all noises; or the models of files, in the given
    /// order.
    pub(super) fn grid(&self) -> Result<Grid> {
        if let Some(DecoderArg::Plugin(_)) = &self.decoder {
            bail!(misuse("--decoder plugin:LIBRARY does not apply to sweep: take matching or relay"));
        }
        if self.decoder == Some(DecoderArg::Relay) && self.matching.is_some() {
            bail!(misuse("--matching does not apply to --decoder relay"));
        }
        if !self.dem.is_empty() || !self.circuit.is_empty() {
            return self.files();
        }
        let bases: Vec<Experiment> =
            self.codes.iter().map(|&code| self.experiments(code)).collect::<Result<Vec<_>>>()?.concat();
        // Points are studied one after another, so only the largest counts.
        if let Some(largest) = bases.iter().map(|base| self.estimate(base)).max_by_key(Estimate::bytes) {
            self.memory.admit(&largest)?;
        }
        if self.slices && self.codes.iter().any(|&code| code != CodeArg::Surface) {
            bail!(misuse("--slices is for --code surface"));
        }
        let relay = self.decoder == Some(DecoderArg::Relay)
            || self.codes.iter().any(|&code| code != CodeArg::Surface);
        self.relay.check(relay)?;
        let mut grid = Grid::default();
        for base in bases {
            for p in self.noises.iter().flat_map(|Noises(noises)| noises).copied() {
                // Written so that NaN fails. A one-qubit channel mixes fully at 3/4.
                if !(p > 0.0 && p <= 0.75) {
                    bail!(misuse(format!("--p {p} is no strength of noise: give numbers above 0, to 0.75")));
                }
                if p > 0.5 && self.matching.is_some_and(|kinds| kinds != KindsArg::Plain) {
                    bail!(misuse(format!(
                        "correlated matching takes no error that is likelier than not: --p {p} is too much"
                    )));
                }
                let point = Point::from(Experiment { p, ..base });
                // Mistakes in the last point are found before hours are spent on the first one.
                point.check().map_err(misuse)?;
                grid.add(point)?;
            }
        }
        Ok(grid)
    }

    fn files(&self) -> Result<Grid> {
        if self.engine.is_some() && self.model.is_none() {
            bail!(misuse(
                "--engine needs --model FILE.onnx with --dem or --circuit: the network that is built in is for generated \
                 experiments"
            ));
        }
        let threads = u32::try_from(self.threads()).unwrap_or(u32::MAX);
        let relay = self.decoder == Some(DecoderArg::Relay);
        let (mut grid, mut relayed) = (Grid::default(), relay);
        let dems = self.dem.iter().flat_map(|Files(paths)| paths).map(|path| (path, true));
        let circuits = self.circuit.iter().flat_map(|Files(paths)| paths).map(|path| (path, false));
        for (path, is_model) in dems.chain(circuits) {
            let model = if is_model { read_model(path, self.memory)? } else { read_circuit(path)? };
            let relay_here = relay || !model.mechanisms.iter().all(Mechanism::is_graphlike);
            relayed |= relay_here;
            let decoding = if relay_here {
                Estimate::process().relay(&model)
            } else {
                Estimate::process().model(&model, self.matching != Some(KindsArg::Plain))
            };
            self.memory.admit(&self.further(decoding).workers(threads))?;
            grid.add_model(path, model)?;
        }
        self.relay.check(relayed)?;
        Ok(grid)
    }

    /// The experiments of one code, without noise.
    fn experiments(&self, code: CodeArg) -> Result<Vec<Experiment>> {
        let &Self { rounds, basis, detectors, .. } = self;
        let only = Code::from(code);
        // A list of codes shares its options: each option applies to the codes that have a use for it.
        let shared = self.codes.len() > 1;
        let of = |distance| {
            let basis = basis.filter(|_| !shared || only.has_basis());
            let detectors = detectors.filter(|_| !shared || only.has_detector_bases());
            Choice { code, distance, default_distance: 0, rounds, basis, detectors, p: 0.0 }.experiment()
        };
        if let Some(preset) = &self.preset {
            let choice =
                Choice { code, distance: None, default_distance: 0, rounds, basis, detectors, p: 0.0 };
            return Ok(vec![preset.choose(choice).experiment()?]);
        }
        let distances: Vec<u32> = self.distances.iter().flat_map(|Distances(list)| list).copied().collect();
        match (only.distance(), &distances[..]) {
            (Some(_), [first, ..]) if !shared => Ok(vec![of(Some(*first))?]),
            (Some(_), _) => Ok(vec![of(None)?]),
            (None, []) => [3, 5, 7].into_iter().map(|distance| of(Some(distance))).collect(),
            (None, distances) => distances.iter().map(|&distance| of(Some(distance))).collect(),
        }
    }

    /// The additional memory of ordered statistics or an ensemble.
    fn further(&self, decoding: Estimate) -> Estimate {
        match (self.matching, self.relay.ordered) {
            (Some(KindsArg::Ensemble), _) => decoding.ensemble(),
            (_, Some(order)) => decoding.ordered(order),
            _ => decoding,
        }
    }

    /// The memory of a point of this experiment.
    fn estimate(&self, experiment: &Experiment) -> Estimate {
        let threads = u32::try_from(self.threads()).unwrap_or(u32::MAX);
        let decoding = self.further(Estimate::process().experiment(experiment)).workers(threads);
        match self.engine() {
            Some(NetworkArg::Cpu | NetworkArg::Onnxruntime) => {
                decoding.network(threads, experiment.distance, experiment.rounds)
            }
            _ => decoding,
        }
    }

    pub(super) fn matching(&self) -> Matching {
        match self.matching {
            _ if self.slices => Matching::Slices,
            _ if self.decoder == Some(DecoderArg::Relay) => Matching::Relay,
            Some(KindsArg::Plain) => Matching::Plain,
            Some(KindsArg::Both) => Matching::Both,
            Some(KindsArg::Correlated) => Matching::Correlated,
            Some(KindsArg::Ensemble) => Matching::Ensemble,
            None if self.engine().is_some() => Matching::Both,
            None => Matching::Correlated,
        }
    }

    pub(super) fn relay(&self) -> Relay {
        let BpConfig { solutions, max_iterations, ordered_statistics, .. } = self.relay.config();
        Relay { solutions, iterations: max_iterations, ordered: ordered_statistics }
    }

    pub(super) fn stop(&self) -> Stop {
        Stop { shots: self.shots, errors: self.max_errors }
    }

    pub(super) fn batch_shots(&self) -> u32 {
        self.batch.unwrap_or(if self.engine().is_some() { 100 } else { 1000 })
    }

    pub(super) fn threads(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        self.threads.map_or_else(cores, usize::from)
    }

    /// The engine of the predecoder, if there is one.
    fn engine(&self) -> Option<NetworkArg> {
        self.engine.or(self.model.is_some().then_some(NetworkArg::Cpu))
    }

    /// The predecoder, and its identity in a state.
    pub(super) fn network(&self) -> Result<Option<(Network, String)>> {
        let Some(engine) = self.engine() else { return Ok(None) };
        if self.codes.iter().any(|&code| Code::from(code) != Code::Surface) {
            bail!(misuse("--model and --engine are for --code surface, which predecoders are for"));
        }
        let file = NetworkFile::read(self.model.as_deref())?;
        let threshold =
            self.threshold.map_or_else(|| "its own threshold".to_owned(), |t| format!("threshold {t}"));
        let label = format!("{}, {threshold}, {}", file.fingerprint(), engine.label());
        Ok(Some((Network::open(file, engine, self.onnxruntime.as_deref())?, label)))
    }
}

//! A memory experiment that two processes agree on by a few numbers, and its decoder as a function.

use crate::decoder::DecoderArgs;
use crate::memory::{Estimate, MemoryLimit};
use crate::number;
use crate::usage::Misuse;
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use ringcall::Status;
use ringcall_decoder_service::{Answer, Problem, WireForm, converged};
use ringcall_qec::QecError;
use ringcall_qec::circuit::{Circuit, Code, DetectorBases, Experiment, MemoryExperiment};
use ringcall_qec::code::{Basis, Configuration};
use ringcall_qec::decode::{Decoder, MatchingEngine};
use ringcall_qec::dem::DetectorErrorModel;
use ringcall_qec::dem::text::read;
use ringcall_wire::HEADER_BYTES;
use ringcall_wire::bits::{BitView, packed_len};
use ringcall_wire::qec::DecodeResponse;
use std::fmt::{self, Write};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Basis of a memory experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BasisArg {
    X,
    Z,
}

impl From<BasisArg> for Basis {
    fn from(basis: BasisArg) -> Self {
        match basis {
            BasisArg::X => Self::X,
            BasisArg::Z => Self::Z,
        }
    }
}

/// A code.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum CodeArg {
    /// The rotated surface code of any odd distance
    #[default]
    Surface,
    /// The triangular colour code on hexagons (6.6.6) of any odd distance
    Color,
    /// The bivariate bicycle code [[72,12,6]]
    Bb72,
    /// The bivariate bicycle code [[144,12,12]], the gross code
    Bb144,
    /// The bivariate bicycle code [[288,12,18]]
    Bb288,
}

impl From<CodeArg> for Code {
    fn from(code: CodeArg) -> Self {
        match code {
            CodeArg::Surface => Self::Surface,
            CodeArg::Color => Self::Color,
            CodeArg::Bb72 => Self::Bb72,
            CodeArg::Bb144 => Self::Bb144,
            CodeArg::Bb288 => Self::Bb288,
        }
    }
}

/// Which checks of a bivariate bicycle code have detectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DetectorsArg {
    /// Those of the memory's basis: the published decoding problem
    Memory,
    /// Those of both bases: more detectors, and a model eight times as large
    Both,
}

impl From<DetectorsArg> for DetectorBases {
    fn from(detectors: DetectorsArg) -> Self {
        match detectors {
            DetectorsArg::Memory => Self::Memory,
            DetectorsArg::Both => Self::Both,
        }
    }
}

/// A named configuration of the surface code: distance, rounds, basis and ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Preset(Configuration);

impl FromStr for Preset {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Configuration::named(name).map(Self).map_err(|error| error.to_string())
    }
}

impl Preset {
    pub(crate) const SLOTS: u32 = 64;

    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }

    /// Sets the configuration in a [`Choice`] that otherwise has only the noise.
    pub(crate) fn choose(&self, choice: Choice) -> Choice {
        let Self(Configuration { distance, rounds, basis, .. }) = self;
        let basis = match basis {
            Basis::X => BasisArg::X,
            Basis::Z => BasisArg::Z,
        };
        Choice {
            code: CodeArg::Surface,
            distance: Some(*distance),
            rounds: Some(*rounds),
            basis: Some(basis),
            ..choice
        }
    }

    /// Bytes of a slot for a request: the header, and a bit for each detector or an integer for each measurement; a
    /// power of two, at least `least`.
    pub(crate) fn slot_bytes(&self, least: u32, measurements: bool) -> u32 {
        let Self(configuration) = self;
        let request = if measurements {
            configuration.slot_size()
        } else {
            HEADER_BYTES + packed_len(configuration.residual_detectors())
        };
        u32::try_from(request).map_or(u32::MAX, |bytes| bytes.max(least).next_power_of_two())
    }
}

/// Given options that choose an experiment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Choice {
    pub(crate) code: CodeArg,
    pub(crate) distance: Option<u32>,
    /// The default distance for codes of any distance.
    pub(crate) default_distance: u32,
    pub(crate) rounds: Option<u32>,
    pub(crate) basis: Option<BasisArg>,
    pub(crate) detectors: Option<DetectorsArg>,
    pub(crate) p: f64,
}

impl Choice {
    /// The experiment.
    ///
    /// # Errors
    /// [`Misuse`]: an option that does not apply to the code, or an invalid distance, number of rounds or strength of
    /// noise.
    pub(crate) fn experiment(self) -> Result<Experiment> {
        let Self { distance, default_distance, rounds, basis, detectors, p, .. } = self;
        let code = Code::from(self.code);
        let name = code.name();
        let misuse = |text: String| Err(Misuse(text).into());
        if let (Some(_), Some(only)) = (distance, code.distance()) {
            return misuse(format!("--distance does not apply to --code {name}, whose distance is {only}"));
        }
        if basis.is_some() && !code.has_basis() {
            return misuse(format!(
                "--basis does not apply to --code {name}, whose memory goes through X, Y and Z"
            ));
        }
        if detectors.is_some() && !code.has_detector_bases() {
            return misuse(format!(
                "--detectors does not apply to --code {name}: it is for bb72, bb144 and bb288"
            ));
        }
        // Written so that NaN fails. A one-qubit channel mixes fully at 3/4.
        if !(0.0..=0.75).contains(&p) {
            return misuse(format!("--p {p} is no strength of noise: give a number from 0 to 0.75"));
        }
        let distance = code.distance().or(distance).unwrap_or(default_distance);
        let experiment = Experiment {
            code,
            distance,
            rounds: rounds.unwrap_or(distance),
            basis: basis.map_or(Basis::Z, Into::into),
            detectors: detectors.map_or(DetectorBases::Memory, Into::into),
            p,
        };
        experiment.check().map_err(|error| match error {
            QecError::Distance { .. } => Misuse(format!("--{error}")),
            QecError::Rounds { rounds, .. } | QecError::RoundsOf { rounds, .. } => {
                Misuse(format!("--rounds {rounds}: {error}"))
            }
            error => Misuse(error.to_string()),
        })?;
        Ok(experiment)
    }
}

/// Reads a detector error model.
///
/// # Errors
/// The file cannot be read, is not a model, or needs more memory than allowed.
pub(crate) fn read_model(path: &Path, memory: MemoryLimit) -> Result<DetectorErrorModel> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    read(BufReader::new(file), memory.of_model()).with_context(|| path.display().to_string())
}

/// Reads a circuit in Stim's format and derives its model, split for matching if possible.
///
/// # Errors
/// Those of [`circuit_of`], or a detector of the circuit is random without noise.
pub(crate) fn read_circuit(path: &Path) -> Result<DetectorErrorModel> {
    circuit_of(path)?.split_detector_error_model().with_context(|| path.display().to_string())
}

/// Reads a circuit in Stim's format.
///
/// # Errors
/// The file cannot be read, is not a circuit, or is larger than a circuit may be.
fn circuit_of(path: &Path) -> Result<Circuit> {
    let shown = || path.display().to_string();
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut text = String::new();
    let bytes = file.take(MAX_CIRCUIT_BYTES + 1).read_to_string(&mut text).with_context(shown)?;
    if bytes as u64 > MAX_CIRCUIT_BYTES {
        bail!("{}: a circuit has at most {MAX_CIRCUIT_BYTES} bytes", path.display());
    }
    text.parse::<Circuit>().with_context(shown)
}

/// The most bytes of a circuit's file.
const MAX_CIRCUIT_BYTES: u64 = 1 << 26;

/// A file with a model in place of a generated experiment.
#[derive(Debug, Clone, Args)]
pub(crate) struct ModelFile {
    /// Detector error model in Stim's format, in place of the generated experiment
    #[arg(long, value_name = "FILE", conflicts_with = "circuit", conflicts_with_all = GENERATED)]
    pub(crate) dem: Option<PathBuf>,
    /// Circuit in Stim's format, in place of the generated experiment: its model is derived here
    #[arg(long, value_name = "FILE", conflicts_with_all = GENERATED)]
    circuit: Option<PathBuf>,
}

/// The options of a generated experiment.
const GENERATED: [&str; 7] = ["code", "distance", "rounds", "p", "basis", "detectors", "preset"];

/// The options of a generated experiment that `--preset` sets.
pub(crate) const CONFIGURED: [&str; 5] = ["code", "distance", "rounds", "basis", "detectors"];

impl ModelFile {
    /// The path of the file, if one was given.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.dem.as_deref().or(self.circuit.as_deref())
    }

    /// The file's model, if one was given.
    ///
    /// # Errors
    /// Those of [`read_model`] and [`read_circuit`].
    pub(crate) fn read(&self, memory: MemoryLimit) -> Result<Option<DetectorErrorModel>> {
        match (&self.dem, &self.circuit) {
            (Some(path), _) => read_model(path, memory).map(Some),
            (None, Some(path)) => read_circuit(path).map(Some),
            (None, None) => Ok(None),
        }
    }
}

/// The options of an experiment: both ends of a service must be given the same.
#[derive(Debug, Clone, Args)]
pub(crate) struct ExperimentArgs {
    /// A named configuration of the surface code, which sets distance, rounds and basis: d7, d13, d21, d31, d13_r104,
    /// d21_r42
    #[arg(long, value_name = "NAME", conflicts_with_all = CONFIGURED)]
    pub(crate) preset: Option<Preset>,
    /// The code whose memory experiment is decoded
    #[arg(long, value_enum, default_value = "surface")]
    code: CodeArg,
    /// Code distance of a surface or colour code, odd, at least 3 [default: 5]
    #[arg(long, value_name = "D", value_parser = number::one::<u32>)]
    distance: Option<u32>,
    /// Rounds of syndrome extraction [default: the distance]
    #[arg(long, value_name = "N", value_parser = number::one::<u32>)]
    rounds: Option<u32>,
    /// Memory basis [default: z]
    #[arg(long, value_enum)]
    basis: Option<BasisArg>,
    /// Strength of the circuit noise, each of its rates
    #[arg(long, default_value_t = 0.003, value_parser = number::one::<f64>)]
    p: f64,
    /// Which checks of a bivariate bicycle code have detectors [default: memory]
    #[arg(long, value_enum)]
    detectors: Option<DetectorsArg>,
    /// Requests are raw measurements, an INT32 each, in place of a bit for each detector: surface code
    #[arg(long, conflicts_with_all = ["dem", "circuit"])]
    pub(crate) measurements: bool,
    /// Match each basis and layer of time alone, which sees no errors of measurement, and answer corrections and convergence
    /// alone, 8 bytes: surface code
    #[arg(long, conflicts_with_all = SLICED)]
    pub(crate) slices: bool,
    /// --matching ensemble: each answer ends with how sure the decoder is of it, a FLOAT32, the natural logarithm of odds
    #[arg(long, conflicts_with = "slices")]
    pub(crate) confidence: bool,
    #[command(flatten)]
    file: ModelFile,
    #[command(flatten)]
    pub(crate) decoder: DecoderArgs,
}

/// The options without effect under `--slices`.
pub(crate) const SLICED: [&str; 8] = [
    "decoder",
    "decoder_config",
    "matching",
    "relay_solutions",
    "relay_iterations",
    "relay_osd",
    "dem",
    "circuit",
];

/// The surface code's experiment, for an option that needs it.
///
/// # Errors
/// [`Misuse`]: another code, or a model of a file.
pub(crate) fn surface_for(option: &str, experiment: Option<&Experiment>) -> Result<MemoryExperiment> {
    match experiment.map(|experiment| (experiment.surface(), experiment.code.name())) {
        Some((Some(surface), _)) => Ok(surface),
        Some((None, code)) => Err(Misuse(format!("{option} is for --code surface, not for {code}")).into()),
        None => Err(Misuse(format!("{option} is for the generated experiment")).into()),
    }
}

impl ExperimentArgs {
    /// The options that a command without a decoder refuses.
    pub(crate) const FIELDS: [&'static str; 12] = [
        "preset",
        "code",
        "distance",
        "rounds",
        "basis",
        "p",
        "detectors",
        "dem",
        "circuit",
        "measurements",
        "slices",
        "confidence",
    ];

    /// The options of requests and answers, which a command without them refuses.
    pub(crate) const FORMS: [&'static str; 3] = ["measurements", "slices", "confidence"];

    /// These options with the default decoder after a network, unless another one is named.
    pub(crate) fn after_a_network(&self) -> Self {
        Self { decoder: self.decoder.clone().or_plain(), ..self.clone() }
    }

    /// The memory experiment or the file's model, with its decoder and the form of its answers. `around` adds the
    /// memory that the command needs besides the decoder.
    ///
    /// # Errors
    /// [`Misuse`], including a need for more memory than allowed. An error of the file, the experiment or the decoder.
    pub(crate) fn problem(
        &self,
        memory: MemoryLimit,
        around: impl FnOnce(Estimate) -> Estimate,
    ) -> Result<Problem> {
        let problem = self.decoded(memory, around)?;
        match (self.confidence, problem.matching()) {
            (false, _) => Ok(problem),
            (true, Some(MatchingEngine::Ensemble)) => Ok(problem.with_confidence()),
            (true, _) => {
                bail!(Misuse("--confidence does not apply: it is for --matching ensemble".to_owned()))
            }
        }
    }

    fn decoded(&self, memory: MemoryLimit, around: impl FnOnce(Estimate) -> Estimate) -> Result<Problem> {
        self.decoder.options()?;
        let model = match self.file.read(memory)? {
            Some(model) => {
                memory.admit(&around(Estimate::process().decoder_of(&model, &self.decoder)))?;
                model
            }
            None => {
                let experiment = self.choice().experiment()?;
                let estimate = || around(Estimate::process().experiment(&experiment).further(&self.decoder));
                let problem = if self.slices {
                    let surface = surface_for("--slices", Some(&experiment))?;
                    memory.admit(&estimate())?;
                    Problem::by_slices(&surface)?.answering_alone()
                } else {
                    if self.measurements {
                        surface_for("--measurements", Some(&experiment))?;
                    }
                    memory.admit(&estimate())?;
                    self.decoder.problem(experiment.detector_error_model()?)?
                };
                return Ok(if self.measurements {
                    problem.with_measurements(&surface_for("--measurements", Some(&experiment))?)?
                } else {
                    problem
                });
            }
        };
        self.decoder.problem(model)
    }

    /// The circuit of the experiment.
    ///
    /// # Errors
    /// [`Misuse`]: only the error model is known. An error of the file or the experiment.
    pub(crate) fn circuit(&self) -> Result<Circuit> {
        if self.file.dem.is_some() {
            let text = "--readout needs a circuit, which --dem does not have: give --circuit, or a generated experiment";
            bail!(Misuse(text.to_owned()));
        }
        match &self.file.circuit {
            Some(path) => circuit_of(path),
            None => Ok(self.choice().experiment()?.circuit()?),
        }
    }

    /// The surface code's experiment with at least `least_rounds` rounds.
    ///
    /// # Errors
    /// [`Misuse`]: another code, or a model of a file. An error of the experiment.
    pub(crate) fn surface_run(&self, least_rounds: u32) -> Result<MemoryExperiment> {
        let experiment = self.choice().experiment()?;
        let surface = experiment.surface().filter(|_| self.file.path().is_none());
        let misuse =
            || Misuse("runs of any length are of a generated experiment of the surface code".to_owned());
        let memory = surface.ok_or_else(misuse)?;
        Ok(MemoryExperiment { rounds: memory.rounds.max(least_rounds), ..memory })
    }

    /// Refuses codes other than the surface code, and models of files.
    ///
    /// # Errors
    /// [`Misuse`].
    pub(crate) fn require_surface(&self, option: &str) -> Result<()> {
        match self.file.path() {
            Some(_) => Ok(()),
            None => surface_for(option, Some(&self.choice().experiment()?)).map(drop),
        }
    }

    /// The generated experiment of the surface code; `None` for another code or a model of a file.
    ///
    /// # Errors
    /// [`Misuse`].
    pub(crate) fn surface(&self) -> Result<Option<MemoryExperiment>> {
        if self.file.path().is_some() {
            return Ok(None);
        }
        Ok(self.choice().experiment()?.surface())
    }

    fn choice(&self) -> Choice {
        let &Self { code, distance, rounds, basis, p, detectors, .. } = self;
        let choice = Choice { code, distance, default_distance: 5, rounds, basis, detectors, p };
        self.preset.as_ref().map_or(choice, |preset| preset.choose(choice))
    }
}

/// A digest by which two processes know that they decode the same experiment: CRC-32 of the error model's text.
pub(crate) fn digest(problem: &Problem) -> String {
    struct Digest(crc32fast::Hasher);
    impl fmt::Write for Digest {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.update(text.as_bytes());
            Ok(())
        }
    }
    let mut digest = Digest(crc32fast::Hasher::new());
    // Writing to a hasher cannot fail.
    let _ = write!(digest, "{}", problem.model());
    format!("{:08x}", digest.0.finalize())
}

/// `decode_syndrome` by the problem's decoder on the calling thread. Nothing is allocated after creation.
pub(crate) struct Syndromes {
    form: WireForm,
    /// The detectors of a request, a bit each.
    bits: Vec<u8>,
    decoder: Box<dyn Decoder>,
    defects: Vec<u32>,
    observables: Vec<u8>,
}

impl Syndromes {
    pub(crate) fn new(problem: &Problem) -> Result<Self> {
        let (detectors, observables) = (problem.detectors() as usize, problem.observables() as usize);
        Ok(Self {
            form: problem.form().clone(),
            bits: vec![0; packed_len(detectors)],
            decoder: problem.decoder()?,
            defects: Vec::with_capacity(detectors),
            observables: vec![0; packed_len(observables)],
        })
    }

    pub(crate) fn answer_in(&self, result: &[u8]) -> Option<Answer> {
        self.form.read_result(result)
    }

    /// How an answer says that its decode ended.
    pub(crate) fn converged(&self, result: &[u8]) -> Option<i32> {
        self.answer_in(result).map(|answer| answer.outcome.converged)
    }

    /// Decodes a request of the problem's form. Writes observables, corrections and convergence, or only the last two.
    pub(crate) fn answer(&mut self, request: &[u8], result: &mut [u8]) -> Result<usize, Status> {
        self.form.detectors(request, &mut self.bits)?;
        let detectors = BitView::new(&self.bits, 8 * self.bits.len()).map_err(|_| Status::ENGINE_FAILED)?;
        self.defects.clear();
        self.defects.extend(detectors.ones().map(|index| index as u32));
        let matched =
            self.decoder.decode(&self.defects, &mut self.observables).map_err(|_| Status::ENGINE_FAILED)?;
        let outcome = DecodeResponse {
            total_corrections: i32::try_from(matched.corrections).unwrap_or(i32::MAX),
            converged: converged(&matched),
        };
        self.form.write_result(result, &self.observables, outcome, matched.confidence)
    }
}

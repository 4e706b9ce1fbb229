//! The options of `ringcall run`.

use crate::decoder::{DeadlineArgs, DecoderArgs, RelayArgs};
use crate::experiment::{BasisArg, CONFIGURED, Choice, CodeArg, DetectorsArg, ModelFile, Preset, SLICED};
use crate::memory::MemoryLimit;
use crate::network::NetworkArg;
use crate::number;
use crate::pinning::{self, CoreList};
use crate::usage::{Misuse, misuse};
use anyhow::{Context as _, Result, bail};
use clap::{Args as ClapArgs, ValueEnum};
use ringcall::Wait;
use ringcall_decoder_service::gpu::Copies;
use ringcall_decoder_service::{Pace, ServiceConfig};
use ringcall_pipeline::CorePinning;
use ringcall_qec::shots::ShotFormat;
use ringcall_wire::launch::MAX_SLOTS;
use rustix::time::{ClockId, DynamicClockId, Timespec, clock_gettime, clock_gettime_dynamic};
use std::fmt;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// Formats of shot files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatArg {
    /// A line of 0 and 1 a shot
    #[value(name = "01")]
    Text01,
    /// Packed bits, least significant first
    B8,
    /// Lengths of runs of zeros
    R8,
    /// 64 shots together, a word for each bit
    Ptb64,
    /// A line with the indices of ones a shot
    Hits,
    /// A line of `shot D3 D8 L0` a shot
    Dets,
}

impl From<FormatArg> for ShotFormat {
    fn from(format: FormatArg) -> Self {
        match format {
            FormatArg::Text01 => Self::Text01,
            FormatArg::B8 => Self::B8,
            FormatArg::R8 => Self::R8,
            FormatArg::Ptb64 => Self::Ptb64,
            FormatArg::Hits => Self::Hits,
            FormatArg::Dets => Self::Dets,
        }
    }
}

/// What runs before the decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineArg {
    /// Nothing: the decoder alone
    Matching,
    /// A copy in place of a network, to measure what surrounds it
    Passthrough,
    /// The network of --model, on the CPU
    Cpu,
    /// The same in ONNX Runtime on the CPU, from its shared library
    Onnxruntime,
    /// The same in ONNX Runtime with CUDA, on the first GPU
    OnnxruntimeCuda,
    /// The same in TensorRT, on the first GPU
    Tensorrt,
    /// The same in our own kernels, on the first GPU (compute capability 9.0)
    Gpu,
    /// Relay-BP, the whole decode, in our own kernel on the first GPU (compute capability 9.0 and later): nothing decodes after it
    Relay,
}

impl EngineArg {
    /// The engine's name as an option's value.
    pub(super) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// The default timeout of a request.
    const fn timeout(self, relay: bool) -> Duration {
        match self {
            Self::Cpu | Self::Onnxruntime => Duration::from_secs(60),
            // A shot that does not converge takes all its iterations.
            _ if relay => Duration::from_secs(60),
            _ => Duration::from_secs(1),
        }
    }

    /// The engine of the network of --model, if there is a network.
    pub(super) const fn network(self) -> Option<NetworkArg> {
        match self {
            Self::Cpu => Some(NetworkArg::Cpu),
            Self::Onnxruntime => Some(NetworkArg::Onnxruntime),
            Self::OnnxruntimeCuda => Some(NetworkArg::OnnxruntimeCuda),
            Self::Tensorrt => Some(NetworkArg::Tensorrt),
            Self::Gpu => Some(NetworkArg::Gpu),
            Self::Matching | Self::Passthrough | Self::Relay => None,
        }
    }
}

/// The number of shots, or, as in earlier versions, their file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ShotsArg {
    Count(u64),
    File(PathBuf),
}

impl FromStr for ShotsArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match number::count(text) {
            Ok(0) => Err("give at least 1".to_owned()),
            Ok(shots) => Ok(Self::Count(shots)),
            // Text that is an invalid number is not a file's name either.
            Err(_)
                if text.parse::<f64>().is_err()
                    && (text.contains(['/', '.']) || Path::new(text).exists()) =>
            {
                Ok(Self::File(text.into()))
            }
            Err(why) => Err(why),
        }
    }
}

fn relay_deadline(text: &str) -> Result<Duration, String> {
    let time = number::microseconds(text)?;
    let range = Duration::from_micros(1)..=Duration::from_secs(10);
    if range.contains(&time) { Ok(time) } else { Err("give a time from 1us to 10s".to_owned()) }
}

/// Who takes requests from the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DispatcherArg {
    /// A thread of this process, which hands them to workers
    Host,
    /// A kernel on the GPU, which stays; workers take what it leaves
    Device,
    /// A kernel on the GPU, which stays and launches a graph of the network for each request; workers take what it leaves
    Graphs,
}

/// How a request comes to a GPU and its output to a worker, with the host's dispatcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum HandoffArg {
    /// The dispatcher hands it to a worker, which launches its graph and waits for it
    Thread,
    /// The dispatcher launches the worker's graph on the worker's stream; the graph's last node raises the worker's ready flag
    Flag,
}

/// How requests reach the GPU, and answers leave it, with --handoff flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CopiesArg {
    /// By the graph's own nodes, whichever is faster for so many bytes
    Auto,
    /// By kernels of the graph
    Kernels,
    /// By copy engines, as nodes of the graph
    Engines,
    /// Requests by a copy engine that a hook before each launch puts on the stream, from the ring's slot
    Hook,
}

impl From<CopiesArg> for Copies {
    fn from(copies: CopiesArg) -> Self {
        match copies {
            CopiesArg::Auto => Self::Fastest,
            CopiesArg::Kernels => Self::Kernels,
            CopiesArg::Engines => Self::CopyEngines,
            CopiesArg::Hook => Self::Hook,
        }
    }
}

/// A clock for PTP time stamps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PtpClockArg {
    /// None: stamps are 0.
    None,
    /// The system's atomic time (`CLOCK_TAI`), which a PTP daemon sets.
    Tai,
    /// The system's time of day (`CLOCK_REALTIME`).
    Realtime,
    /// A network card's PTP hardware clock (`/dev/ptpN`).
    Hardware(PathBuf),
}

impl FromStr for PtpClockArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            "tai" => Ok(Self::Tai),
            "realtime" => Ok(Self::Realtime),
            path if path.starts_with('/') => Ok(Self::Hardware(path.into())),
            _ => Err("a clock is none, tai, realtime, or a PTP hardware clock such as /dev/ptp0".to_owned()),
        }
    }
}

impl fmt::Display for PtpClockArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Tai => f.write_str("tai"),
            Self::Realtime => f.write_str("realtime"),
            Self::Hardware(path) => path.display().fmt(f),
        }
    }
}

/// The source of PTP time stamps.
#[derive(Debug, Clone)]
enum PtpSource {
    Tai,
    Realtime,
    Hardware(Arc<File>),
}

impl PtpSource {
    fn now(&self) -> Timespec {
        let of_day = || clock_gettime(ClockId::Realtime);
        match self {
            Self::Realtime => of_day(),
            // Linux has had `CLOCK_TAI` since 3.10.
            Self::Tai => clock_gettime_dynamic(DynamicClockId::Tai).unwrap_or_else(|_| of_day()),
            // A removed card cannot be read: its stamps are then all the same, and no round trip is counted.
            Self::Hardware(file) => clock_gettime_dynamic(DynamicClockId::Dynamic(file.as_fd()))
                .unwrap_or(Timespec { tv_sec: 0, tv_nsec: 1 }),
        }
    }
}

impl PtpClockArg {
    /// A reader of the clock, in nanoseconds since its epoch.
    ///
    /// # Errors
    /// A hardware clock cannot be opened or read.
    pub(super) fn clock(&self) -> Result<Option<impl FnMut() -> u64 + Clone + Send + use<>>> {
        let source = match self {
            Self::None => return Ok(None),
            Self::Tai => PtpSource::Tai,
            Self::Realtime => PtpSource::Realtime,
            Self::Hardware(path) => {
                let what = || format!("--ptp-clock {}", path.display());
                let file = File::open(path).with_context(what)?;
                clock_gettime_dynamic(DynamicClockId::Dynamic(file.as_fd()))
                    .with_context(|| format!("{}: no PTP hardware clock", what()))?;
                PtpSource::Hardware(Arc::new(file))
            }
        };
        Ok(Some(move || {
            let Timespec { tv_sec, tv_nsec, .. } = source.now();
            (tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(tv_nsec as u64)
        }))
    }
}

/// The pinning of threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PinArg {
    None,
    Auto,
    /// Dispatcher, consumer, first worker.
    Cores([usize; 3]),
}

impl FromStr for PinArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            "auto" => Ok(Self::Auto),
            list => {
                let CoreList(cores) = list.parse()?;
                <[usize; 3]>::try_from(cores).map(Self::Cores).map_err(|_| {
                    "`none`, `auto`, or DISPATCHER,CONSUMER,FIRST-WORKER as core numbers".to_owned()
                })
            }
        }
    }
}

/// Runs a memory experiment through the whole pipeline and reports how fast and how right it was.
///
/// By default distance 7 and circuit noise of 0.003, generated here; or any detector error model, with shots sampled
/// from it or read from a file.
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// A named configuration of the surface code, which sets distance, rounds, basis and slots: d7, d13, d21, d31, d13_r104,
    /// d21_r42
    #[arg(long, value_name = "NAME", conflicts_with_all = CONFIGURED, conflicts_with = "slots")]
    preset: Option<Preset>,
    /// The code whose memory experiment is run
    #[arg(long, value_enum, default_value = "surface")]
    code: CodeArg,
    /// Code distance of a surface or colour code, odd, at least 3 [default: 7]
    #[arg(long, value_name = "D", value_parser = number::one::<u32>)]
    distance: Option<u32>,
    /// Rounds of syndrome extraction [default: the distance]
    #[arg(long, value_name = "N", value_parser = number::one::<u32>)]
    rounds: Option<u32>,
    /// Memory basis [default: z]
    #[arg(long, value_enum)]
    basis: Option<BasisArg>,
    /// Which checks of a bivariate bicycle code have detectors [default: memory]
    #[arg(long, value_enum)]
    detectors: Option<DetectorsArg>,
    /// Strength of the circuit noise, each of its rates
    #[arg(long, default_value_t = 0.003, value_parser = number::one::<f64>)]
    p: f64,
    #[command(flatten)]
    pub(super) file: ModelFile,
    /// Stop after so many shots: one request each
    #[arg(long, value_name = "N")]
    shots: Option<ShotsArg>,
    #[arg(long, value_name = "N", hide = true, value_parser = number::within::<u64>(1, u64::MAX))]
    requests: Option<u64>,
    /// Shots to decode, in place of sampled ones; ends with the file
    #[arg(long = "in", value_name = "FILE")]
    input: Option<PathBuf>,
    /// Format of the shots of --in [default: b8]
    #[arg(long = "in-format", aliases = ["in_format", "shots-format"], value_enum, value_name = "FORMAT")]
    shots_format: Option<FormatArg>,
    /// Each shot's true observables follow its detectors
    #[arg(
        long = "in-includes-appended-observables",
        aliases = ["in_includes_appended_observables", "shots-with-observables"]
    )]
    pub(super) shots_with_observables: bool,
    /// Stop after so long, in s [default: 3 s where --shots and --in are absent]
    #[arg(long, value_name = "TIME", value_parser = number::some_seconds)]
    duration: Option<Duration>,
    /// Interval between requests, in us; 0: as fast as slots become free
    #[arg(long, alias = "interval-us", default_value = "100us", value_name = "TIME", value_parser = number::microseconds)]
    pub(super) interval: Duration,
    /// Worker threads, each with an engine and a decoder [default: as many as there are cores to spare, at most 8]
    #[arg(long, value_parser = number::within::<u32>(1, 4096))]
    pub(super) workers: Option<u32>,
    /// Slots of the ring, 1048576 at most; 4096 where a GPU polls them [default: 32; 64 with --preset]
    #[arg(long, value_parser = number::within::<u32>(1, 1_048_576))]
    slots: Option<u32>,
    #[command(flatten)]
    pub(super) decoder: DecoderArgs,
    #[command(flatten)]
    pub(super) deadline: DeadlineArgs,
    /// Relay-BP: lanes of other memory strengths that race, of which the first that ends wins: shorter longest times. A CPU decodes them
    /// one after another, for the same answers [default: 1]
    #[arg(long, value_name = "N", value_parser = number::within::<u32>(1, 64))]
    pub(super) relay_lanes: Option<u32>,
    /// With --engine relay: end a decode after so long, in us, with a best guess that says that it did not converge
    #[arg(long, alias = "relay-deadline-us", value_name = "TIME", value_parser = relay_deadline)]
    pub(super) relay_deadline: Option<Duration>,
    /// Match each basis and layer of time alone, which sees no errors of measurement, and answer corrections and convergence
    /// alone, 8 bytes: surface code, for what a predecoder leaves
    #[arg(long, conflicts_with_all = SLICED, conflicts_with = "deadline")]
    pub(super) slices: bool,
    /// Requests are raw measurements, an INT32 each, in place of a bit for each detector, as they are for a model that takes them:
    /// surface code
    #[arg(long, conflicts_with_all = ["dem", "circuit"])]
    pub(super) measurements: bool,
    /// The clock of the requests' PTP time stamps, which answers echo: none, tai (CLOCK_TAI, which a PTP daemon sets), realtime
    /// (CLOCK_REALTIME), or the PTP hardware clock of a network card (/dev/ptpN)
    #[arg(long, default_value_t = PtpClockArg::None, value_name = "CLOCK")]
    pub(super) ptp_clock: PtpClockArg,
    /// What runs before the decoder, or in its place
    #[arg(long, value_enum, default_value = "matching")]
    pub(super) engine: EngineArg,
    /// Who takes requests from the ring: `device` is for --engine gpu and --engine relay, `graphs` for --engine gpu
    #[arg(long, value_enum, default_value = "host")]
    pub(super) dispatcher: DispatcherArg,
    /// With --engine gpu and --dispatcher host: who launches a request's graph, and who says that it has ended
    #[arg(long, value_enum, default_value = "thread")]
    pub(super) handoff: HandoffArg,
    /// With --handoff flag: how requests reach the GPU and answers leave it [default: auto]
    #[arg(long, value_enum)]
    pub(super) copies: Option<CopiesArg>,
    /// With --dispatcher device: kernels on the GPU, each on an equal part of it and for an equal part of the slots; with
    /// --dispatcher graphs and --handoff flag: graphs on it at once, each on an equal part of it. More requests a second, each of which takes
    /// longer
    #[arg(long, default_value_t = 1, value_parser = number::within::<u32>(1, 32))]
    pub(super) kernels: u32,
    /// ONNX model of an --engine that runs one: detectors in, residual detectors (and logical frame) out, or a predecoder
    /// of any size, as in training/models; of --engine gpu: such a predecoder of up to 16 convolutions and 512 channels; with
    /// --dispatcher device or graphs in integers, of 4 convolutions and at most 128 channels
    /// [default: the committed predecoder_3x128_int8, which is built in]
    #[arg(long, value_name = "FILE")]
    pub(super) model: Option<PathBuf>,
    /// With --engine tensorrt: keep the engine that is built of --model in FILE, and read it from there if it is there [default: the
    /// user's cache, by what it is built of]
    #[arg(long, value_name = "FILE", requires = "model")]
    pub(super) engine_save_path: Option<PathBuf>,
    /// Threshold of a predecoder of any size [default: the model's own for this distance and noise]
    #[arg(long, value_name = "LOGIT")]
    pub(super) threshold: Option<f32>,
    /// Seed of the sampled shots
    #[arg(long, default_value_t = 1, value_parser = number::count)]
    pub(super) seed: u64,
    /// Pin threads: `none`, `auto` (where there are cores enough), or DISPATCHER,CONSUMER,FIRST-WORKER
    #[arg(long, default_value = "none", value_name = "CORES")]
    pub(super) pin: PinArg,
    /// Answer a request TIMED_OUT after so long, in ms [default: 1 s; 60 s with a network on the CPU, where a full
    /// ring takes seconds, and with Relay-BP, where a shot that does not converge takes all its iterations]
    #[arg(long, alias = "timeout-ms", value_name = "TIME", value_parser = number::some_milliseconds)]
    timeout: Option<Duration>,
    /// Show all that was measured: settings, stages, counts
    #[arg(long, short)]
    pub(super) verbose: bool,
    /// Write the report as JSON to FILE, or to standard output for `-`
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Tell the profiler that this runs under what threads do (NVTX ranges, from a library loaded at run time)
    #[arg(long)]
    pub(super) nvtx: bool,
    #[command(flatten)]
    pub(super) memory: MemoryLimit,
    /// Write the report as one self-contained HTML file; the latency histogram alone where FILE ends in .svg or .pdf; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(super) report: Vec<PathBuf>,
}

impl Args {
    /// Checks combinations of options that the parser cannot check.
    pub(super) fn check(&self) -> Result<()> {
        if self.input.is_some() && matches!(self.shots, Some(ShotsArg::File(_))) {
            bail!(misuse("--shots is a number of shots: their file is --in"));
        }
        if self.shots_in().is_none() {
            for (option, given) in [
                ("in-format", self.shots_format.is_some()),
                ("in-includes-appended-observables", self.shots_with_observables),
            ] {
                if given {
                    bail!(misuse(format!("--{option} is for the shots of a file: give --in as well")));
                }
            }
        }
        if self.dispatcher == DispatcherArg::Device
            && !matches!(self.engine, EngineArg::Gpu | EngineArg::Relay)
        {
            bail!(misuse("--dispatcher device is for --engine gpu and --engine relay"));
        }
        if self.dispatcher == DispatcherArg::Graphs && self.engine != EngineArg::Gpu {
            bail!(misuse("--dispatcher graphs is for --engine gpu"));
        }
        if self.dispatcher != DispatcherArg::Host && self.slots() > MAX_SLOTS {
            bail!(misuse(format!(
                "--dispatcher {}, whose kernels poll {MAX_SLOTS} slots at most, not --slots {}",
                if self.dispatcher == DispatcherArg::Device { "device" } else { "graphs" },
                self.slots()
            )));
        }
        if self.relay_deadline.is_some() && self.engine != EngineArg::Relay {
            bail!(misuse("--relay-deadline is for --engine relay"));
        }
        if self.engine_save_path.is_some() && self.engine != EngineArg::Tensorrt {
            bail!(misuse("--engine-save-path is for --engine tensorrt, which builds an engine"));
        }
        let flag = self.handoff == HandoffArg::Flag;
        if flag && (self.engine != EngineArg::Gpu || self.dispatcher != DispatcherArg::Host) {
            bail!(misuse("--handoff flag is for --engine gpu with --dispatcher host"));
        }
        if self.copies.is_some() && !flag {
            bail!(misuse("--copies is for --handoff flag"));
        }
        if self.kernels > 1 && self.dispatcher == DispatcherArg::Host && !flag {
            bail!(misuse("--kernels is for --dispatcher device, --dispatcher graphs and --handoff flag"));
        }
        if self.deadline.deadline.is_some() && self.engine == EngineArg::Relay {
            bail!(misuse("--deadline does not apply to --engine relay: give --relay-deadline"));
        }
        if (self.slices || self.measurements) && self.engine == EngineArg::Relay {
            let option = if self.slices { "--slices" } else { "--measurements" };
            bail!(Misuse(format!("{option} does not apply to --engine relay")));
        }
        if self.slices && self.relay_lanes.is_some() {
            bail!(misuse("--relay-lanes does not apply to --slices, which are matched"));
        }
        if self.measurements && flag {
            bail!(misuse(
                "--measurements is for --handoff thread: the graphs of --handoff flag read detectors"
            ));
        }
        if self.measurements && self.dispatcher != DispatcherArg::Host {
            bail!(Misuse(
                "--measurements is for --dispatcher host: the device's dispatcher takes detectors".to_owned()
            ));
        }
        if self.engine.network().is_none() {
            for (option, given) in [("model", self.model.is_some()), ("threshold", self.threshold.is_some())]
            {
                if given {
                    bail!(misuse(format!(
                        "--{option} is for the engines that run a network: cpu, gpu, onnxruntime, \
                         onnxruntime-cuda, tensorrt"
                    )));
                }
            }
        } else if self.file.path().is_some() {
            if self.engine == EngineArg::Gpu {
                bail!(misuse("--engine gpu is for the generated experiment, not for --dem or --circuit"));
            }
            if self.model.is_none() {
                bail!(misuse(format!(
                    "--engine {} needs --model FILE.onnx with --dem or --circuit: the network that is built in is for the \
                     generated experiment",
                    self.engine.name()
                )));
            }
        }
        Ok(())
    }

    /// The requested decoder. With --engine relay it is Relay-BP, and after a network it is plain matching by default.
    ///
    /// # Errors
    /// [`Misuse`]: matching was requested with --engine relay.
    pub(super) fn decoder(&self) -> Result<DecoderArgs> {
        let relay = RelayArgs { lanes: self.relay_lanes, ..self.decoder.relay };
        let decoder = DecoderArgs { relay, ..self.decoder.clone() };
        match self.engine {
            EngineArg::Relay => decoder.by_relay(),
            engine if engine.network().is_some() => Ok(decoder.or_plain()),
            _ => Ok(decoder),
        }
    }

    pub(super) fn choice(&self) -> Choice {
        let &Self { code, distance, rounds, basis, detectors, p, .. } = self;
        let choice = Choice { code, distance, default_distance: 7, rounds, basis, detectors, p };
        self.preset.as_ref().map_or(choice, |preset| preset.choose(choice))
    }

    pub(super) fn slots(&self) -> u32 {
        self.slots.unwrap_or(if self.preset.is_some() { Preset::SLOTS } else { 32 })
    }

    /// The file of shots, which earlier versions took as --shots.
    pub(super) fn shots_in(&self) -> Option<&Path> {
        let earlier = match &self.shots {
            Some(ShotsArg::File(path)) => Some(path),
            _ => None,
        };
        self.input.as_ref().or(earlier).map(PathBuf::as_path)
    }

    /// The format of that file.
    pub(super) fn shots_format(&self) -> ShotFormat {
        self.shots_format.unwrap_or(FormatArg::B8).into()
    }

    pub(super) fn most_requests(&self) -> Option<u64> {
        match self.shots {
            Some(ShotsArg::Count(shots)) => Some(self.requests.unwrap_or(shots).min(shots)),
            _ => self.requests,
        }
    }

    pub(super) fn run_time(&self) -> Option<Duration> {
        let endless = self.most_requests().is_none() && self.shots_in().is_none();
        self.duration.or(endless.then_some(Duration::from_secs(3)))
    }

    pub(super) fn pace(&self) -> Pace {
        Pace { requests: self.most_requests(), duration: self.run_time(), interval: self.interval }
    }

    pub(super) fn workers(&self) -> u32 {
        self.workers.unwrap_or_else(pinning::workers)
    }

    pub(super) fn service_config(&self, relay: bool) -> Result<ServiceConfig> {
        let workers = self.workers();
        let cores = match &self.pin {
            PinArg::None => CorePinning::default(),
            PinArg::Cores([dispatcher, consumer, worker_base]) => {
                let last = worker_base.saturating_add(workers as usize - 1);
                for (core, whose) in [(dispatcher, "dispatcher"), (consumer, "consumer")] {
                    if (*worker_base..=last).contains(core) {
                        bail!(misuse(format!(
                            "--pin gives core {core} twice: to the {whose} and to one of {workers} workers, which have \
                             cores {worker_base} to {last}"
                        )));
                    }
                }
                CorePinning {
                    dispatcher: Some(*dispatcher),
                    consumer: Some(*consumer),
                    worker_base: Some(*worker_base),
                }
            }
            PinArg::Auto => pinning::auto(workers)?,
        };
        let timeout = self.timeout.unwrap_or(self.engine.timeout(relay));
        Ok(ServiceConfig {
            workers,
            slots: self.slots(),
            cores,
            wait: Wait::Auto,
            request_timeout: Some(timeout),
            // Requests in flight at the end of the run have their full timeout, too.
            stop_deadline: ServiceConfig::default().stop_deadline.max(timeout),
        })
    }
}

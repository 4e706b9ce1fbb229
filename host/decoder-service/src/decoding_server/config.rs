//! Configuration of a decoding server: its decoders, their matrices, and their transport.

use super::arguments::{self, Method};
use super::error::ConfigError;
use super::matrix::{self, Rows};
use super::yaml::{self, Fields, Node};
use ringcall_qec::decode::OrderedStatistics;
use ringcall_qec::dem::{Component, DetectorErrorModel, Mechanism};
use std::num::NonZeroUsize;
use std::time::Duration;

/// The most decoders of one server: each has a thread.
pub const MAX_DECODERS: usize = 256;
/// The most threads of all decoders together that help to decode runs.
const MAX_HELPERS: usize = 256;
/// The most rows and columns of a matrix.
const MAX_SIZE: u32 = 1 << 24;
/// The probability of an error of weight ln((1 - p) / p) = 1, for errors without a given probability.
const UNIT_WEIGHT_PROBABILITY: f64 = 0.268_941_421_369_995_1;

/// A checked configuration. Some faults show only when its decoders are built.
///
/// ```
/// use ringcall_decoder_service::decoding_server::Config;
///
/// let config: Config = "
/// decoders:
///   - id: 0
///     type: pymatching
///     block_size: 3
///     syndrome_size: 2
///     H_sparse: [0, 1, -1, 1, 2, -1]
///     O_sparse: [0, -1]
///     D_sparse: [0, -1, 0, 1, -1]
///     decoder_custom_args: { merge_strategy: smallest_weight, error_rate_vec: [0.1, 0.1, 0.1] }
/// ".parse()?;
/// let decoder = &config.decoders[0];
/// assert_eq!((decoder.detectors(), decoder.measurements(), decoder.observables()), (2, 2, 1));
///
/// let error = "decoders:\n- id: zero".parse::<Config>().unwrap_err();
/// assert_eq!(error.to_string(), "line 2: decoders[0].id: `zero` is no whole number of 64 bits");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The decoders, in the order of the file, each with its own id.
    pub decoders: Vec<DecoderConfig>,
    /// The decoders' transport, if the file names one.
    pub transport: TransportConfig,
}

/// The section `transport`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TransportConfig {
    /// A transport's name, or the path of a provider's library.
    pub provider: Option<String>,
    /// The provider's arguments.
    pub args: Vec<String>,
    /// The line where the section begins; 0 without a section.
    pub line: usize,
}

/// One decoder.
#[derive(Debug, Clone, PartialEq)]
pub struct DecoderConfig {
    pub(super) id: i64,
    pub(super) line: usize,
    /// The decoder's name in the file, such as `decoders[0]`.
    pub(super) path: String,
    pub(super) columns: u32,
    pub(super) checks: Rows,
    pub(super) observables: Rows,
    /// For each detector, the measurements whose parity it is.
    pub(super) detectors: Rows,
    pub(super) measurements: u32,
    pub(super) priors: Option<Vec<f64>>,
    /// For each error, the errors that compose it: none for an elementary error, and no rows if the file has no such key.
    pub(super) parts: Rows,
    pub(super) method: Method,
    pub(super) unused: Vec<String>,
}

impl std::str::FromStr for Config {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let tree = yaml::read(text)?;
        let mut fields = tree.fields("")?;
        let list = fields.need("decoders")?;
        let nodes = list.list("decoders")?;
        if nodes.is_empty() || nodes.len() > MAX_DECODERS {
            let reason = format!("{} decoders: from 1 to {MAX_DECODERS} are served", nodes.len());
            return Err(ConfigError::new(list.line, "decoders", reason));
        }
        let transport = fields.take("transport").map(transport).transpose()?.unwrap_or_default();
        fields.finish()?;
        let mut decoders: Vec<DecoderConfig> = Vec::with_capacity(nodes.len());
        for (i, node) in nodes.iter().enumerate() {
            let decoder = DecoderConfig::read(node, format!("decoders[{i}]"))?;
            if let Some(first) = decoders.iter().find(|other| other.id == decoder.id) {
                let reason = format!("{} has the id {}, too", first.path, decoder.id);
                return Err(ConfigError::new(decoder.line, format!("{}.id", decoder.path), reason));
            }
            decoders.push(decoder);
        }
        let helpers: usize = decoders.iter().map(|decoder| decoder.cores().get() - 1).sum();
        if helpers > MAX_HELPERS {
            let reason =
                format!("{helpers} cores besides one for each decoder: {MAX_HELPERS} at most are served");
            return Err(ConfigError::new(list.line, "decoders", reason));
        }
        Ok(Self { decoders, transport })
    }
}

fn transport(node: &Node<'_>) -> Result<TransportConfig, ConfigError> {
    let mut fields = node.fields("transport")?;
    let provider = fields.take("provider").map(|node| node.text("transport.provider")).transpose()?;
    let mut args = Vec::new();
    if let Some(node) = fields.take("args") {
        for (i, arg) in node.list("transport.args")?.iter().enumerate() {
            args.push(arg.text(&format!("transport.args[{i}]"))?.to_owned());
        }
    }
    if let Some(node) = fields.take("device_graph") {
        let reason = "device graphs are not served: take `dispatch: host`";
        return Err(ConfigError::new(node.line, "transport.device_graph", reason));
    }
    let line = fields.line();
    fields.finish()?;
    Ok(TransportConfig { provider: provider.map(str::to_owned), args, line })
}

/// Priors, given next to the matrices or among the decoder's arguments.
fn priors(node: &Node<'_>, key: &str, columns: u32) -> Result<Vec<f64>, ConfigError> {
    let list = node.list(key)?;
    if list.len() != columns as usize {
        let reason = format!("{} probabilities for {columns} columns (block_size)", list.len());
        return Err(ConfigError::new(node.line, key, reason));
    }
    let mut priors = Vec::with_capacity(list.len());
    for (i, item) in list.iter().enumerate() {
        let name = format!("{key}[{i}]");
        let p = item.number(&name)?;
        // 0 has an infinite weight, and an error above 1/2 is likelier than not.
        if !(p > 0.0 && p <= 0.5) {
            return Err(ConfigError::new(
                item.line,
                name,
                format!("{p} is no probability above 0 and up to 0.5"),
            ));
        }
        priors.push(p);
    }
    Ok(priors)
}

/// Reads the composition of errors.
fn parts(
    node: &Node<'_>,
    key: &str,
    columns: u32,
    checks: &[Vec<u32>],
    observables: &[Vec<u32>],
) -> Result<Rows, ConfigError> {
    let refuse = |reason: String| Err(ConfigError::new(node.line, key, reason));
    let parts = matrix::rows(node, key, columns)?;
    if parts.len() != columns as usize {
        return refuse(format!("{} rows for {columns} columns (block_size)", parts.len()));
    }
    let flips = [checks, observables].map(|rows| matrix::columns(rows, columns as usize));
    for (column, row) in parts.iter().enumerate() {
        let own = |&part: &u32| parts[part as usize].is_empty() && flips[0][part as usize].len() <= 2;
        if !row.iter().all(own) {
            return refuse(format!(
                "error {column} has a part of several parts, or of more than two detectors"
            ));
        }
        for flips in &flips {
            let mut sum: Vec<u32> =
                row.iter().flat_map(|&part| flips[part as usize].iter().copied()).collect();
            sum.sort_unstable();
            let odd = sum.chunk_by(|a, b| a == b).filter(|same| same.len() % 2 == 1).map(|same| same[0]);
            if !row.is_empty() && !odd.eq(flips[column].iter().copied()) {
                return refuse(format!("the parts of error {column} do not add up to it"));
            }
        }
    }
    Ok(parts)
}

impl DecoderConfig {
    fn read(node: &Node<'_>, path: String) -> Result<Self, ConfigError> {
        let mut fields = node.fields(&path)?;
        let name = |key: &str| format!("{path}.{key}");
        let id = fields.need("id")?;
        let (line, id) = (id.line, i64::from(id.count(&name("id"), 0, u32::MAX)?));
        let kind = fields.need("type")?;
        let columns = fields.need("block_size")?.count(&name("block_size"), 1, MAX_SIZE)?;
        let size = fields.need("syndrome_size")?;
        let syndrome_size = size.count(&name("syndrome_size"), 1, MAX_SIZE)?;
        let sparse = |fields: &mut Fields<'_>, key: &'static str, columns: u32| {
            let node = fields.need(key)?;
            matrix::rows(node, &name(key), columns).map(|rows| (node.line, rows))
        };
        let (_, checks) = sparse(&mut fields, "H_sparse", columns)?;
        let (observables_line, observables) = sparse(&mut fields, "O_sparse", columns)?;
        let (detectors_line, detectors) = sparse(&mut fields, "D_sparse", MAX_SIZE)?;
        let refuse = |line: usize, key: &str, reason: String| Err(ConfigError::new(line, name(key), reason));
        if observables.is_empty() || observables.len() > 1 << 16 {
            let reason = format!("{} rows: from 1 to 65536 observables are served", observables.len());
            return refuse(observables_line, "O_sparse", reason);
        }
        if detectors.len() != checks.len() {
            let reason = format!(
                "{} rows, and H_sparse has {}: both have one a detector",
                detectors.len(),
                checks.len()
            );
            return refuse(detectors_line, "D_sparse", reason);
        }
        let used = detectors.iter().flatten().max().map_or(0, |&last| last + 1);
        // CUDA-Q's files give the rows of H here. A number of measurements is accepted as well: it may include measurements that
        // no detector uses.
        let measurements = match syndrome_size {
            size if size as usize == checks.len() => used,
            size if size >= used => size,
            _ => {
                let rows = checks.len();
                let reason =
                    format!("{syndrome_size}, but H_sparse has {rows} rows and D_sparse {used} measurements");
                return refuse(size.line, "syndrome_size", reason);
            }
        };
        if measurements == 0 {
            return refuse(detectors_line, "D_sparse", "no detector has a measurement".to_owned());
        }
        let outer = fields.take("error_rate_vec");
        let mut unused = Vec::new();
        match fields.take("dispatch").map(|node| (node, node.text(&name("dispatch")))) {
            None | Some((_, Ok("host"))) => {}
            Some((node, Ok(other))) => {
                return refuse(node.line, "dispatch", format!("`{other}` is not served: take `host`"));
            }
            Some((_, Err(error))) => return Err(error),
        }
        if let Some(node) = fields.take("cuda_device_id") {
            node.count(&name("cuda_device_id"), 0, u32::MAX)?;
            unused.push(name("cuda_device_id"));
        }
        let empty = Node { line: node.line, value: yaml::Value::Map(Vec::new()) };
        let custom = fields.take("decoder_custom_args").unwrap_or(&empty);
        fields.finish()?;
        let mut custom = custom.fields(&name("decoder_custom_args"))?;
        let inner = custom.take("error_rate_vec");
        let priors = match (outer, inner) {
            (Some(_), Some(node)) => {
                return refuse(
                    node.line,
                    "decoder_custom_args.error_rate_vec",
                    "this is given twice".to_owned(),
                );
            }
            (Some(node), None) => Some(priors(node, &name("error_rate_vec"), columns)?),
            (None, Some(node)) => Some(priors(node, &name("decoder_custom_args.error_rate_vec"), columns)?),
            (None, None) => None,
        };
        let parts_name = name("decoder_custom_args.parts_sparse");
        let parts = match custom.take("parts_sparse") {
            Some(node) => parts(node, &parts_name, columns, &checks, &observables)?,
            None => Rows::new(),
        };
        let (method, priors) =
            arguments::read(kind, &name("type"), &mut custom, columns, checks.len(), priors, &mut unused)?;
        custom.finish()?;
        if !parts.is_empty() && !method.is_correlated() {
            let reason = "only matching that minds correlations has a use for this".to_owned();
            return refuse(line, "decoder_custom_args.parts_sparse", reason);
        }
        Ok(Self {
            id,
            line,
            path,
            columns,
            checks,
            observables,
            detectors,
            measurements,
            priors,
            parts,
            method,
            unused,
        })
    }

    /// The decoder's id, which requests name.
    #[must_use]
    pub const fn id(&self) -> i64 {
        self.id
    }

    /// The method: `matching`, `correlated matching`, `sliding window`, `correlated sliding window`, `endless matching`, `endless correlated matching` or
    /// `relay`.
    #[must_use]
    pub const fn method(&self) -> &'static str {
        self.method.name()
    }

    /// Whether the method is matching with correlations.
    #[must_use]
    pub const fn is_correlated(&self) -> bool {
        self.method.is_correlated()
    }

    /// For runs of any length: the detectors of each round in the middle, and of the first and the last. The matrices then
    /// describe a short run.
    #[must_use]
    pub const fn endless(&self) -> Option<(u32, u32)> {
        match self.method {
            Method::Endless { rounds, .. } => Some((rounds.each, rounds.boundary)),
            _ => None,
        }
    }

    /// The cores that share each run; 1 for other methods.
    #[must_use]
    pub const fn cores(&self) -> NonZeroUsize {
        match self.method {
            Method::Endless { cores, .. } => cores,
            _ => NonZeroUsize::MIN,
        }
    }

    /// Whether the method is belief propagation.
    #[must_use]
    pub const fn is_relay(&self) -> bool {
        matches!(self.method, Method::Relay { .. })
    }

    /// The time after which a decode by belief propagation is cut off; its corrections are then the best found so far.
    #[must_use]
    pub const fn deadline(&self) -> Option<Duration> {
        match self.method {
            Method::Relay { deadline, .. } => deadline,
            _ => None,
        }
    }

    /// This decoder without its deadline, so that its corrections do not depend on the machine.
    #[must_use]
    pub fn without_deadline(mut self) -> Self {
        if let Method::Relay { deadline, .. } = &mut self.method {
            *deadline = None;
        }
        self
    }

    /// The ordered statistics that follow belief propagation without a solution.
    #[must_use]
    pub const fn ordered_statistics(&self) -> Option<OrderedStatistics> {
        match &self.method {
            Method::Relay { config, .. } => config.ordered_statistics,
            _ => None,
        }
    }

    /// Detectors: the rows of H and of D.
    #[must_use]
    pub fn detectors(&self) -> usize {
        self.checks.len()
    }

    /// Measurements of one decode; for runs of any length, those of the short run.
    #[must_use]
    pub const fn measurements(&self) -> usize {
        self.measurements as usize
    }

    /// Observables, one correction each.
    #[must_use]
    pub fn observables(&self) -> usize {
        self.observables.len()
    }

    /// Errors: the columns of H.
    #[must_use]
    pub const fn errors(&self) -> usize {
        self.columns as usize
    }

    /// For each detector, the measurements whose parity it is, in ascending order.
    #[must_use]
    pub fn detector_measurements(&self) -> &[Vec<u32>] {
        &self.detectors
    }

    /// Keys of the file that have no effect here, since this service decodes on a CPU.
    #[must_use]
    pub fn unused(&self) -> &[String] {
        &self.unused
    }

    /// The errors with their probabilities, to draw shots from. Without `error_rate_vec` every error weighs 1.
    #[must_use]
    pub fn model(&self) -> DetectorErrorModel {
        let columns = self.columns as usize;
        let detectors = matrix::columns(&self.checks, columns);
        let observables = matrix::columns(&self.observables, columns);
        let part = |&column: &u32| Component {
            detectors: detectors[column as usize].clone(),
            observables: observables[column as usize].clone(),
        };
        let mechanisms = (0..columns).map(|column| Mechanism {
            probability: self.priors.as_ref().map_or(UNIT_WEIGHT_PROBABILITY, |priors| priors[column]),
            detectors: detectors[column].clone(),
            observables: observables[column].clone(),
            components: self
                .parts
                .get(column)
                .map_or_else(Vec::new, |parts| parts.iter().map(part).collect()),
        });
        DetectorErrorModel {
            num_detectors: self.checks.len() as u32,
            num_observables: self.observables.len() as u32,
            mechanisms: mechanisms.collect(),
            coordinates: Vec::new(),
        }
    }

    pub(super) fn refuse(&self, key: &str, reason: impl std::fmt::Display) -> ConfigError {
        ConfigError::new(self.line, format!("{}.{key}", self.path), reason.to_string())
    }
}

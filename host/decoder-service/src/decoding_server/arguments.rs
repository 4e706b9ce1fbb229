//! Arguments of a decoder: `type` and `decoder_custom_args`.

use super::error::ConfigError;
use super::yaml::{Fields, Node};
use ringcall_matching::MergeStrategy;
use ringcall_qec::decode::{BpConfig, OrderedStatistics};
use std::num::NonZeroUsize;
use std::time::Duration;

/// The algorithm of a decoder.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Method {
    /// Minimum-weight perfect matching.
    Matching { merge: MergeStrategy, correlated: bool },
    /// The same in windows over the rounds.
    Sliding { merge: MergeStrategy, correlated: bool, window: u32, step: u32, rounds: Rounds },
    /// The same round by round, for runs of any length, each shared among so many cores.
    Endless { merge: MergeStrategy, correlated: bool, margin: u32, rounds: Rounds, cores: NonZeroUsize },
    /// Belief propagation in relayed legs, for at most so long a decode.
    Relay { config: BpConfig, deadline: Option<Duration> },
}

/// The detectors of each round: `each` in every round, but `boundary` in the first and the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rounds {
    pub(super) each: u32,
    pub(super) boundary: u32,
}

impl Rounds {
    /// The first detector of each round, and the number of detectors, `detectors`, at the end.
    pub(super) fn starts(self, detectors: u32) -> Vec<u32> {
        let Self { each, boundary } = self;
        let inner = (detectors - 2 * boundary) / each;
        let mut starts = vec![0, boundary];
        starts.extend((1..=inner).map(|round| boundary + round * each));
        starts.push(detectors);
        starts
    }

    /// The round of each detector.
    pub(super) fn of_detectors(starts: &[u32]) -> Vec<u32> {
        let rounds = (0..).zip(starts.windows(2));
        rounds.flat_map(|(round, ends)| (ends[0]..ends[1]).map(move |_| round)).collect()
    }
}

impl Method {
    pub(super) const fn is_correlated(&self) -> bool {
        match *self {
            Self::Matching { correlated, .. }
            | Self::Sliding { correlated, .. }
            | Self::Endless { correlated, .. } => correlated,
            Self::Relay { .. } => false,
        }
    }

    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Matching { correlated: false, .. } => "matching",
            Self::Matching { correlated: true, .. } => "correlated matching",
            Self::Sliding { correlated: false, .. } => "sliding window",
            Self::Sliding { correlated: true, .. } => "correlated sliding window",
            Self::Endless { correlated: false, .. } => "endless matching",
            Self::Endless { correlated: true, .. } => "endless correlated matching",
            Self::Relay { .. } => "relay",
        }
    }
}

/// The algorithm of a decoder, and the probabilities of its errors.
pub(super) type Read = Result<(Method, Option<Vec<f64>>), ConfigError>;

/// Reads the arguments of a type. Arguments that have no effect on a CPU are appended to `unused`.
pub(super) fn read(
    kind: &Node<'_>,
    kind_name: &str,
    custom: &mut Fields<'_>,
    columns: u32,
    detectors: usize,
    priors: Option<Vec<f64>>,
    unused: &mut Vec<String>,
) -> Read {
    match kind.text(kind_name)? {
        "pymatching" => {
            let (merge, correlated) = matching(custom)?;
            Ok((Method::Matching { merge, correlated }, priors))
        }
        "endless" => {
            let (merge, correlated) = matching(custom)?;
            let margin = count(custom, "margin", 0, 1 << 10)?.unwrap_or(0);
            let rounds = rounds(custom, detectors)?;
            let cores = cores(custom, margin)?;
            Ok((Method::Endless { merge, correlated, margin, rounds, cores }, priors))
        }
        "sliding_window" => Ok((sliding(custom, detectors)?, priors)),
        "nv-qldpc-decoder" => relay(kind, custom, columns, priors, unused),
        other => {
            let reason = format!(
                "`{other}` is not served; served are pymatching, sliding_window, nv-qldpc-decoder and endless"
            );
            Err(ConfigError::new(kind.line, kind_name, reason))
        }
    }
}

fn count(
    custom: &mut Fields<'_>,
    key: &'static str,
    least: u32,
    most: u32,
) -> Result<Option<u32>, ConfigError> {
    let name = custom.name(key);
    custom.take(key).map(|node| node.count(&name, least, most)).transpose()
}

fn flag(custom: &mut Fields<'_>, key: &'static str) -> Result<Option<bool>, ConfigError> {
    let name = custom.name(key);
    custom.take(key).map(|node| node.boolean(&name)).transpose()
}

/// How parallel edges are merged. The default is that of an error model, since observables are given.
fn merge(custom: &mut Fields<'_>) -> Result<MergeStrategy, ConfigError> {
    let name = custom.name("merge_strategy");
    let Some(node) = custom.take("merge_strategy") else { return Ok(MergeStrategy::Independent) };
    Ok(match node.text(&name)? {
        "disallow" => MergeStrategy::Disallow,
        "independent" => MergeStrategy::Independent,
        "smallest_weight" => MergeStrategy::SmallestWeight,
        "keep_original" => MergeStrategy::KeepOriginal,
        "replace" => MergeStrategy::Replace,
        other => {
            let reason =
                format!("`{other}`: take disallow, independent, smallest_weight, keep_original or replace");
            return Err(ConfigError::new(node.line, name, reason));
        }
    })
}

/// How parallel edges are merged, and whether correlations are used.
fn matching(custom: &mut Fields<'_>) -> Result<(MergeStrategy, bool), ConfigError> {
    let (merge, correlated) = (merge(custom)?, flag(custom, "enable_correlations")?.unwrap_or(false));
    if correlated && merge != MergeStrategy::Independent {
        let name = custom.name("merge_strategy");
        return Err(ConfigError::new(custom.line(), name, "correlated matching merges by `independent`"));
    }
    Ok((merge, correlated))
}

/// The most cores that share a run.
const MAX_CORES: u32 = 64;

/// How many cores share a run. Several of them have windows in place of a margin.
fn cores(custom: &mut Fields<'_>, margin: u32) -> Result<NonZeroUsize, ConfigError> {
    let name = custom.name("cores");
    let Some(node) = custom.take("cores") else { return Ok(NonZeroUsize::MIN) };
    let cores = NonZeroUsize::new(node.count(&name, 1, MAX_CORES)? as usize).unwrap_or(NonZeroUsize::MIN);
    if cores.get() > 1 && margin > 0 {
        let reason = "several cores have windows in place of a margin: leave `margin` out";
        return Err(ConfigError::new(node.line, name, reason));
    }
    Ok(cores)
}

/// A count of at least 1.
fn need(custom: &mut Fields<'_>, key: &'static str, most: u32) -> Result<u32, ConfigError> {
    let missing = ConfigError::new(custom.line(), custom.name(key), "this key is missing");
    count(custom, key, 1, most)?.ok_or(missing)
}

/// The assignment of detectors to rounds.
fn rounds(custom: &mut Fields<'_>, detectors: usize) -> Result<Rounds, ConfigError> {
    let most = u32::try_from(detectors).unwrap_or(u32::MAX);
    let line = custom.line();
    let each = need(custom, "num_syndromes_per_round", most)?;
    let boundary = count(custom, "num_boundary_syndromes", 0, each)?.filter(|&n| n > 0).unwrap_or(each);
    let whole = detectors as u64;
    let inner = whole.checked_sub(2 * u64::from(boundary)).filter(|inner| inner % u64::from(each) == 0);
    if inner.is_none() {
        let reason = format!(
            "{detectors} detectors are no whole rounds of {each}, with {boundary} in the first and the last"
        );
        return Err(ConfigError::new(line, custom.name("num_syndromes_per_round"), reason));
    }
    Ok(Rounds { each, boundary })
}

/// A window of rounds that is matched separately.
fn sliding(custom: &mut Fields<'_>, detectors: usize) -> Result<Method, ConfigError> {
    let most = u32::try_from(detectors).unwrap_or(u32::MAX);
    let line = custom.line();
    let window = need(custom, "window_size", most)?;
    let step = need(custom, "step_size", most)?;
    let rounds = rounds(custom, detectors)?;
    // The edges that windows cut. Ours are open at both ends, which is also these arguments' default.
    for (key, served) in [("straddle_start_round", false), ("straddle_end_round", true)] {
        if flag(custom, key)?.is_some_and(|value| value != served) {
            return Err(ConfigError::new(line, custom.name(key), format!("only `{served}` is served")));
        }
    }
    let name = custom.name("inner_decoder_name");
    let inner = custom.need("inner_decoder_name")?;
    if inner.text(&name)? != "pymatching" {
        return Err(ConfigError::new(inner.line, name, "windows are decoded by `pymatching` alone"));
    }
    let params = custom.name("inner_decoder_params");
    let (merge, correlated) = match custom.take("inner_decoder_params") {
        None => (MergeStrategy::Independent, false),
        Some(node) => {
            let mut fields = node.fields(&params)?;
            let inner = matching(&mut fields)?;
            fields.finish()?;
            inner
        }
    };
    Ok(Method::Sliding { merge, correlated, window, step, rounds })
}

/// Arguments that affect how the reference uses a GPU, and not the results.
const GPU: [&str; 8] = [
    "use_sparsity",
    "n_threads",
    "bp_batch_size",
    "osd_batch_size",
    "iter_per_check",
    "repeatable",
    "proc_float",
    "clip_value",
];

/// Min-sum belief propagation, with memory if the arguments ask for it.
fn relay(
    kind: &Node<'_>,
    custom: &mut Fields<'_>,
    columns: u32,
    priors: Option<Vec<f64>>,
    unused: &mut Vec<String>,
) -> Read {
    let line = custom.line();
    let refuse = |node: &Node<'_>, name: String, reason: &str| Err(ConfigError::new(node.line, name, reason));
    for key in GPU {
        let name = custom.name(key);
        if custom.take(key).is_some() {
            unused.push(name);
        }
    }
    let name = custom.name("explicit_gammas");
    if let Some(node) = custom.take("explicit_gammas") {
        return refuse(node, name, "this is not served");
    }
    let ordered_statistics = ordered_statistics(custom)?;
    let deadline = deadline(custom)?;
    let name = custom.name("scale_factor");
    if let Some(node) = custom.take("scale_factor")
        && node.number(&name)? != 1.0
    {
        return refuse(node, name, "messages are not scaled here: take 1.0");
    }
    let priors = match (priors, custom.take("error_rate")) {
        (Some(_), Some(node)) => {
            return refuse(node, custom.name("error_rate"), "error_rate_vec is given, too");
        }
        (Some(priors), None) => priors,
        (None, Some(node)) => {
            let name = custom.name("error_rate");
            let p = node.number(&name)?;
            if !(p > 0.0 && p <= 0.5) {
                return refuse(node, name, "this is no probability above 0 and up to 0.5");
            }
            vec![p; columns as usize]
        }
        (None, None) => {
            let reason = "belief propagation needs error_rate_vec or error_rate";
            return Err(ConfigError::new(kind.line, custom.name("error_rate_vec"), reason));
        }
    };
    let max_iterations = count(custom, "max_iterations", 1, 1_000_000)?.unwrap_or(30);
    let seed = count(custom, "bp_seed", 0, u32::MAX)?.unwrap_or(0);
    let method_name = custom.name("bp_method");
    let (method_line, method) = match custom.take("bp_method") {
        None => (line, 0),
        Some(node) => (node.line, node.count(&method_name, 0, 3)?),
    };
    let composition = count(custom, "composition", 0, 1)?.unwrap_or(0);
    let gamma0 = custom.name("gamma0");
    let gamma0 = custom.take("gamma0").map(|node| strength(node, &gamma0)).transpose()?;
    let memory = dist(custom)?;
    let base = BpConfig { seed, ordered_statistics, ..BpConfig::min_sum(max_iterations) };
    let config = match (method, composition) {
        (1, 0) => base,
        (2, 0) => BpConfig { first_memory: gamma0.unwrap_or(0), ..base },
        (3, 1) => {
            let (legs, first_iterations, solutions) = srelay(custom)?;
            let Some(memory) = memory else {
                return Err(ConfigError::new(line, custom.name("gamma_dist"), "this key is missing"));
            };
            BpConfig {
                first_memory: gamma0.unwrap_or(0),
                memory,
                first_iterations,
                leg_iterations: max_iterations,
                legs,
                solutions,
                ..base
            }
        }
        _ => {
            let reason = format!(
                "{method} with composition {composition} is not served; served are 1 (min-sum), 2 (with memory), and 3 with \
                 composition 1 (Relay-BP)"
            );
            return Err(ConfigError::new(method_line, method_name, reason));
        }
    };
    Ok((Method::Relay { config, deadline }, Some(priors)))
}

/// Ordered statistics for what does not converge: `osd_method` 1 is order 0, and 3 a combination sweep of order `osd_order`.
fn ordered_statistics(custom: &mut Fields<'_>) -> Result<Option<OrderedStatistics>, ConfigError> {
    let name = custom.name("use_osd");
    let is_used = match custom.take("use_osd") {
        None => false,
        // A number, too: files of Python programs have 0 and 1.
        Some(node) => node.boolean(&name).or_else(|_| node.count(&name, 0, 1).map(|number| number == 1))?,
    };
    let line = custom.line();
    let refuse = |name: String, reason: &str| Err(ConfigError::new(line, name, reason));
    let method = count(custom, "osd_method", 0, 3)?;
    let order = count(custom, "osd_order", 0, OrderedStatistics::MOST_SWEPT)?;
    let [method_name, order_name] = ["osd_method", "osd_order"].map(|key| custom.name(key));
    if !is_used {
        return match (method, order) {
            (None | Some(0), None) => Ok(None),
            (Some(1..), _) => refuse(method_name, "this has no effect without `use_osd: true`"),
            (_, Some(_)) => refuse(order_name, "this has no effect without `use_osd: true`"),
        };
    }
    match (method.unwrap_or(1), order.unwrap_or(0)) {
        (1, 0) => Ok(Some(OrderedStatistics::Zero)),
        (1, _) => refuse(order_name, "only a combination sweep (`osd_method: 3`) has an order above 0"),
        (3, order) => Ok(Some(OrderedStatistics::CombinationSweep(order))),
        _ => refuse(method_name, "served are 1 (order 0) and 3 (combination sweep)"),
    }
}

/// The longest deadline, in microseconds: an hour.
const MAX_DEADLINE_US: f64 = 3.6e9;

/// The time after which a decode is cut off.
fn deadline(custom: &mut Fields<'_>) -> Result<Option<Duration>, ConfigError> {
    let name = custom.name("deadline_us");
    let Some(node) = custom.take("deadline_us") else { return Ok(None) };
    let us = node.number(&name)?;
    if !(0.001..=MAX_DEADLINE_US).contains(&us) {
        let reason = format!("{us} is no time from 0.001 us to an hour");
        return Err(ConfigError::new(node.line, name, reason));
    }
    Ok(Some(Duration::from_nanos((us * 1e3).round() as u64)))
}

/// A memory strength, rounded to 128ths.
fn strength(node: &Node<'_>, name: &str) -> Result<i16, ConfigError> {
    let gamma = node.number(name)?;
    if !(-1.0..=1.0).contains(&gamma) {
        return Err(ConfigError::new(node.line, name, format!("{gamma} is no memory strength from -1 to 1")));
    }
    Ok((gamma * f64::from(ringcall_qec::decode::MEMORY_UNIT)).round() as i16)
}

fn dist(custom: &mut Fields<'_>) -> Result<Option<(i16, i16)>, ConfigError> {
    let name = custom.name("gamma_dist");
    let Some(node) = custom.take("gamma_dist") else { return Ok(None) };
    let [low, high] = node.list(&name)? else {
        return Err(ConfigError::new(node.line, name, "this is a list of two numbers, least and greatest"));
    };
    let (low, high) = (strength(low, &format!("{name}[0]"))?, strength(high, &format!("{name}[1]"))?);
    if low > high {
        return Err(ConfigError::new(node.line, name, "the first number is the lesser one"));
    }
    Ok(Some((low, high)))
}

/// Legs after the first, iterations of the first, and the number of solutions that end a decode.
fn srelay(custom: &mut Fields<'_>) -> Result<(u32, u32, u32), ConfigError> {
    let path = custom.name("srelay_config");
    let mut fields = custom.need("srelay_config")?.fields(&path)?;
    let line = fields.line();
    let need = |fields: &mut Fields<'_>, key: &'static str, least| {
        let missing = ConfigError::new(line, fields.name(key), "this key is missing");
        count(fields, key, least, 100_000)?.ok_or(missing)
    };
    let first = need(&mut fields, "pre_iter", 1)?;
    let legs = need(&mut fields, "num_sets", 0)?;
    let wanted = count(&mut fields, "stop_nconv", 1, 100_000)?;
    let name = fields.name("stopping_criterion");
    let solutions = match fields.take("stopping_criterion") {
        None => 1,
        Some(node) => match node.text(&name)? {
            "FirstConv" => 1,
            "All" => legs + 1,
            "NConv" => match wanted {
                Some(wanted) => wanted,
                None => return Err(ConfigError::new(line, fields.name("stop_nconv"), "this key is missing")),
            },
            other => {
                let reason = format!("`{other}`: take FirstConv, NConv or All");
                return Err(ConfigError::new(node.line, name, reason));
            }
        },
    };
    fields.finish()?;
    Ok((legs, first, solutions))
}

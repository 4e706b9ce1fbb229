//! Options of building a plan.

use crate::TensorRtError;
use crate::ffi::{BuildFlags, Tensor};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The sizes that a dimension may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sizes {
    /// The least, 1 or more.
    pub smallest: usize,
    /// The size for which the plan is tuned, and the default size of a model.
    pub optimum: usize,
    /// The most.
    pub largest: usize,
}

impl Sizes {
    /// A range, and the size in it that the plan is tuned for.
    #[must_use]
    pub fn new(smallest: usize, optimum: usize, largest: usize) -> Self {
        Self { smallest, optimum, largest }
    }

    /// Why it is no range.
    fn fault(self) -> Option<String> {
        let Self { smallest, optimum, largest } = self;
        let ordered = 1 <= smallest && smallest <= optimum && optimum <= largest;
        (!ordered || i32::try_from(largest).is_err())
            .then(|| format!("{smallest}, {optimum}, {largest} are not 1 or more, in order and below 2^31"))
    }
}

impl From<usize> for Sizes {
    /// One size: the dimension becomes fixed.
    fn from(size: usize) -> Self {
        Self { smallest: size, optimum: size, largest: size }
    }
}

/// A precision that the builder may choose for layers, below that of the model. TensorRT 10 alone: TensorRT 11 and
/// TensorRT-RTX take each tensor's type from the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Precision {
    /// IEEE 754 binary16.
    F16,
    /// bfloat16.
    Bf16,
    /// 8-bit integers, where the model quantizes.
    Int8,
}

/// How to build a plan. The default is enough for a model whose batch alone is dynamic.
///
/// ```
/// use ringcall_tensorrt::{BuildOptions, Sizes};
/// let options = BuildOptions::new()
///     .with_symbol("rounds", Sizes::new(3, 13, 21))
///     .with_symbol("height", 7)
///     .with_axis("volume", 4, 7);
/// assert!(options.tf32 && options.precisions.is_empty());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildOptions {
    /// Sizes by symbol (`dim_param`): hold wherever an input uses the symbol, the batch included.
    pub symbols: BTreeMap<String, Sizes>,
    /// Sizes by input name and axis; they come before a symbol's.
    pub axes: BTreeMap<(String, usize), Sizes>,
    /// Lower precisions that layers may have. None: every tensor has the model's.
    pub precisions: BTreeSet<Precision>,
    /// Whether products of binary32 may be rounded to 10 bits of fraction (TF32). TensorRT's default, so on.
    pub tf32: bool,
    /// A plan that later releases of the same major version run as well, the lean runtime among them. That is put into the
    /// plan: TensorRT looks for its library (`libnvinfer_lean.so`) when it builds.
    pub version_compatible: bool,
    /// Leaves the lean runtime out of a version-compatible plan: smaller, and then it runs only where one is installed.
    pub exclude_lean_runtime: bool,
    /// The most device memory that one layer may take while it runs, in bytes; TensorRT's own default otherwise.
    pub workspace_bytes: Option<u64>,
    /// How long to search, 0 to 5; TensorRT's default otherwise (3).
    pub effort: Option<u8>,
    /// Compute capabilities to build for, as (major, minor): TensorRT-RTX alone. None: the GPU that is there.
    pub capabilities: Vec<(u32, u32)>,
}

impl Default for BuildOptions {
    fn default() -> Self {
        Self {
            symbols: BTreeMap::new(),
            axes: BTreeMap::new(),
            precisions: BTreeSet::new(),
            tf32: true,
            version_compatible: false,
            exclude_lean_runtime: false,
            workspace_bytes: None,
            effort: None,
            capabilities: Vec::new(),
        }
    }
}

impl BuildOptions {
    /// The default.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives the dimensions called `symbol` a size or a range of them.
    #[must_use]
    pub fn with_symbol(mut self, symbol: impl Into<String>, sizes: impl Into<Sizes>) -> Self {
        self.symbols.insert(symbol.into(), sizes.into());
        self
    }

    /// Gives dimension `axis` (outermost 0) of the input `tensor` a size or a range of them.
    #[must_use]
    pub fn with_axis(mut self, tensor: impl Into<String>, axis: usize, sizes: impl Into<Sizes>) -> Self {
        self.axes.insert((tensor.into(), axis), sizes.into());
        self
    }

    /// Lets layers have a lower precision.
    #[must_use]
    pub fn with_precision(mut self, precision: Precision) -> Self {
        self.precisions.insert(precision);
        self
    }

    /// Builds for these compute capabilities, as (major, minor), instead of the GPU that is there.
    #[must_use]
    pub fn with_capabilities(mut self, capabilities: impl Into<Vec<(u32, u32)>>) -> Self {
        self.capabilities = capabilities.into();
        self
    }

    pub(crate) fn flags(&self) -> BuildFlags {
        let has = |precision| self.precisions.contains(&precision);
        BuildFlags {
            f16: has(Precision::F16),
            bf16: has(Precision::Bf16),
            int8: has(Precision::Int8),
            tf32: self.tf32,
            version_compatible: self.version_compatible,
            exclude_lean_runtime: self.exclude_lean_runtime,
        }
    }

    /// Everything that makes another plan, in lines; part of a cache's key.
    pub(crate) fn lines(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: String| {
            // Writing into a string does not fail.
            let _ = writeln!(text, "{name}: {value}");
        };
        let sizes = |sizes: &Sizes| format!("{} {} {}", sizes.smallest, sizes.optimum, sizes.largest);
        for (symbol, range) in &self.symbols {
            line("symbol", format!("{symbol:?} {}", sizes(range)));
        }
        for ((tensor, axis), range) in &self.axes {
            line("axis", format!("{tensor:?} {axis} {}", sizes(range)));
        }
        line("flags", format!("{:?}", self.flags()));
        line("workspace_bytes", format!("{:?}", self.workspace_bytes));
        line("effort", format!("{:?}", self.effort));
        line("capabilities", format!("{:?}", self.capabilities));
        text
    }

    /// What every dimension of every input becomes: for each the smallest, optimum and largest shape.
    ///
    /// As for ONNX on the CPU: dimension 0 is the batch where the file leaves it open, and becomes 1; a symbol that names a
    /// batch and nothing else, too. Any other open dimension needs sizes.
    pub(crate) fn shapes(&self, model: &str, inputs: &[Tensor]) -> Result<Vec<[Vec<i64>; 3]>, TensorRtError> {
        let refused = |dimension: String, why: String| {
            Err(TensorRtError::Sizes { model: model.to_owned(), dimension, why })
        };
        let given = self.symbols.iter().map(|(symbol, sizes)| (format!("`{symbol}`"), sizes));
        let axes =
            self.axes.iter().map(|((tensor, axis), sizes)| (format!("axis {axis} of `{tensor}`"), sizes));
        for (dimension, sizes) in given.chain(axes) {
            if let Some(why) = sizes.fault() {
                return refused(dimension, why);
            }
        }
        let symbols: BTreeSet<&String> =
            inputs.iter().flat_map(|input| input.symbols.iter().flatten()).collect();
        if let Some(symbol) = self.symbols.keys().find(|symbol| !symbols.contains(symbol)) {
            return refused(format!("`{symbol}`"), format!("the inputs' symbols are {symbols:?}"));
        }
        if let Some((tensor, axis)) = self.axes.keys().find(|(tensor, axis)| {
            !inputs.iter().any(|input| input.name == *tensor && *axis < input.dims.len())
        }) {
            let names: Vec<&str> = inputs.iter().map(|input| input.name.as_str()).collect();
            return refused(
                format!("axis {axis} of `{tensor}`"),
                format!("there is none; the inputs are {names:?}"),
            );
        }
        let later: BTreeSet<&String> =
            inputs.iter().flat_map(|input| input.symbols.iter().skip(1).flatten()).collect();
        let firsts: BTreeSet<&String> =
            inputs.iter().filter_map(|input| input.symbols.first()?.as_ref()).collect();

        let mut shapes = Vec::with_capacity(inputs.len());
        for input in inputs {
            let mut shape = [Vec::new(), Vec::new(), Vec::new()];
            for (axis, &dim) in input.dims.iter().enumerate() {
                let symbol = input.symbols.get(axis).and_then(Option::as_ref);
                let given =
                    self.axes.get(&(input.name.clone(), axis)).or_else(|| self.symbols.get(symbol?)).copied();
                let batch = match symbol {
                    None => axis == 0,
                    Some(symbol) => firsts.contains(symbol) && !later.contains(symbol),
                };
                let fixed = usize::try_from(dim).ok().filter(|&dim| dim > 0);
                let sizes = match (fixed, given) {
                    (Some(fixed), Some(given)) if Sizes::from(fixed) != given => {
                        return refused(
                            format!("axis {axis} of `{}`", input.name),
                            format!("the file fixes it at {fixed}"),
                        );
                    }
                    (Some(fixed), _) => fixed.into(),
                    (None, Some(given)) => given,
                    (None, None) if batch => 1.into(),
                    (None, None) => {
                        return Err(TensorRtError::OpenDimension {
                            model: model.to_owned(),
                            tensor: input.name.clone(),
                            axis,
                            dimension: symbol
                                .map_or_else(|| "no symbol".to_owned(), |name| format!("`{name}`")),
                        });
                    }
                };
                let Sizes { smallest, optimum, largest } = sizes;
                for (shape, size) in shape.iter_mut().zip([smallest, optimum, largest]) {
                    shape.push(size as i64);
                }
            }
            shapes.push(shape);
        }
        Ok(shapes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(name: &str, dims: &[(i64, &str)]) -> Tensor {
        Tensor {
            name: name.to_owned(),
            type_code: 0,
            on_host: false,
            linear: true,
            is_output: false,
            dims: dims.iter().map(|(dim, _)| *dim).collect(),
            symbols: dims
                .iter()
                .map(|(_, symbol)| (!symbol.is_empty()).then(|| (*symbol).to_owned()))
                .collect(),
        }
    }

    fn optimum(options: &BuildOptions, inputs: &[Tensor]) -> Result<Vec<Vec<i64>>, String> {
        let shapes = options.shapes("m", inputs).map_err(|why| why.to_string())?;
        Ok(shapes.into_iter().map(|[_, optimum, _]| optimum).collect())
    }

    #[test]
    fn the_batch_is_pinned_to_1_and_everything_else_wants_a_size() {
        let options = BuildOptions::new();
        for batch in [(-1, "batch"), (-1, ""), (0, "")] {
            assert_eq!(optimum(&options, &[input("x", &[batch, (4, "")])]), Ok(vec![vec![1, 4]]));
        }
        let why = optimum(&options, &[input("x", &[(-1, "n"), (-1, "rounds")])]).expect_err("open");
        assert!(why.contains("dimension 1 of `x` is dynamic (`rounds`)"), "{why}");
        let why = optimum(&options, &[input("x", &[(-1, "n"), (-1, "n")])]).expect_err("no batch");
        assert!(why.contains("dimension 0 of `x` is dynamic (`n`)"), "{why}");
        let sized = options.with_symbol("rounds", 5).with_axis("x", 2, Sizes::new(1, 2, 3));
        let shapes =
            sized.shapes("m", &[input("x", &[(-1, "n"), (-1, "rounds"), (-1, "rounds")])]).expect("sized");
        assert_eq!(shapes, [[vec![1, 5, 1], vec![1, 5, 2], vec![1, 5, 3]]]);
    }

    #[test]
    fn sizes_for_what_is_not_there_are_refused() {
        let inputs = [input("x", &[(-1, "n"), (4, "")])];
        let options = BuildOptions::new;
        for (options, says) in [
            (options().with_symbol("rounds", 3), "the inputs' symbols are {\"n\"}"),
            (options().with_axis("x", 2, 3), "there is none; the inputs are [\"x\"]"),
            (options().with_axis("y", 0, 3), "there is none"),
            (options().with_axis("x", 1, 3), "the file fixes it at 4"),
            (options().with_axis("x", 1, Sizes::new(1, 4, 8)), "the file fixes it at 4"),
            (options().with_symbol("n", 0), "not 1 or more"),
            (options().with_symbol("n", Sizes::new(2, 1, 3)), "in order"),
            (options().with_symbol("n", 1 << 31), "below 2^31"),
        ] {
            let why = optimum(&options, &inputs).expect_err(says);
            assert!(why.contains(says), "{why}");
        }
        assert_eq!(
            optimum(&options().with_axis("x", 1, 4), &inputs),
            Ok(vec![vec![1, 4]]),
            "the same is no other"
        );
    }

    #[test]
    fn every_option_makes_another_key() {
        let plain = BuildOptions::new();
        let others = [
            plain.clone().with_symbol("a", 1),
            plain.clone().with_symbol("a", 2),
            plain.clone().with_symbol("a\" 2", 1),
            plain.clone().with_axis("a", 0, 1),
            plain.clone().with_precision(Precision::F16),
            plain.clone().with_precision(Precision::Bf16),
            plain.clone().with_precision(Precision::Int8),
            BuildOptions { tf32: false, ..plain.clone() },
            BuildOptions { version_compatible: true, ..plain.clone() },
            BuildOptions { exclude_lean_runtime: true, ..plain.clone() },
            BuildOptions { workspace_bytes: Some(1), ..plain.clone() },
            BuildOptions { effort: Some(1), ..plain.clone() },
            plain.clone().with_capabilities([(8, 6)]),
        ];
        let keys: BTreeSet<String> = others.iter().chain([&plain]).map(BuildOptions::lines).collect();
        assert_eq!(keys.len(), others.len() + 1);
    }
}

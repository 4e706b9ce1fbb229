//! Sizes for the open dimensions of an ONNX file's inputs: the rules that all engines share.
//!
//! A dimension gets the size that [`OnnxOptions`] names for it, by axis before by symbol; dimension 0 is the batch and
//! becomes 1 where nothing else is said. A symbol is the batch's where it stands for dimension 0 alone.
//!
//! ```
//! use ringcall_infer::pin::{self, Declared, Dimension};
//! use ringcall_infer::{ElementType, OnnxOptions};
//!
//! let dimensions = vec![Dimension::new(0, "batch"), Dimension::new(4, ""), Dimension::new(-1, "rounds")];
//! let declared = Declared { name: "detectors".to_owned(), element: ElementType::F32, dimensions };
//! let specs = pin::inputs("a model", vec![declared], &OnnxOptions::new().with_symbol("rounds", 7))?;
//! assert_eq!(specs[0].to_string(), "detectors: f32[1, 4, 7]");
//! # Ok::<(), ringcall_infer::InferError>(())
//! ```

use crate::{ElementType, InferError, OnnxOptions, TensorSpec};
use std::collections::BTreeSet;

/// A dimension as a file declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// Of this size.
    Fixed(usize),
    /// Open, with its symbol if it has one.
    Open(Option<String>),
}

impl Dimension {
    /// A size above 0 is one; with any other (a 0, a -1) the dimension is open. An empty symbol is none.
    #[must_use]
    pub fn new(size: i64, symbol: &str) -> Self {
        match usize::try_from(size) {
            Ok(size) if size > 0 => Self::Fixed(size),
            _ => Self::Open((!symbol.is_empty()).then(|| symbol.to_owned())),
        }
    }
}

/// An input as a file declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub element: ElementType,
    /// Outermost first.
    pub dimensions: Vec<Dimension>,
}

/// Gives every open dimension of every input its size. `model` is the name for messages.
///
/// # Errors
/// [`InferError::DynamicDimension`] for one that has none, [`InferError::UnusedDimension`] for a size that applies to
/// nothing, [`InferError::InvalidSpec`] for a tensor that cannot be, [`InferError::Malformed`] without inputs.
pub fn inputs(
    model: &str,
    declared: Vec<Declared>,
    options: &OnnxOptions,
) -> Result<Vec<TensorSpec>, InferError> {
    let batch = batch_symbols(&declared);
    let (mut seen_symbols, mut seen_axes) = (BTreeSet::new(), BTreeSet::new());
    let mut specs = Vec::new();
    for Declared { name, element, dimensions } in declared {
        let mut shape = Vec::with_capacity(dimensions.len());
        for (axis, dimension) in dimensions.into_iter().enumerate() {
            let (fixed, symbol) = match dimension {
                Dimension::Fixed(size) => (Some(size), None),
                Dimension::Open(symbol) => (None, symbol),
            };
            let key = (name.clone(), axis);
            let given = options.axes.get(&key).or_else(|| options.symbols.get(symbol.as_deref()?)).copied();
            let batch =
                || (axis == 0 && symbol.is_none()) || symbol.as_ref().is_some_and(|s| batch.contains(s));
            let size = match (fixed, given) {
                (Some(fixed), Some(given)) if fixed != given => {
                    return Err(InferError::UnusedDimension {
                        model: model.to_owned(),
                        dimension: format!("axis {axis} of `{name}`"),
                        reason: format!("the file fixes it at {fixed}, not {given}"),
                    });
                }
                (Some(size), _) | (None, Some(size)) => size,
                (None, None) if batch() => 1,
                (None, None) => {
                    return Err(InferError::DynamicDimension {
                        model: model.to_owned(),
                        tensor: name,
                        axis,
                        dimension: symbol.map_or_else(|| "no symbol".to_owned(), |s| format!("`{s}`")),
                    });
                }
            };
            seen_symbols.extend(symbol);
            seen_axes.insert(key);
            shape.push(size);
        }
        specs.push(TensorSpec::new(name, element, shape)?);
    }
    check_all_used(model, options, &seen_symbols, &seen_axes)?;
    if specs.is_empty() {
        let reason = "it has no input that is not a constant".to_owned();
        return Err(InferError::Malformed { model: model.to_owned(), reason });
    }
    Ok(specs)
}

/// Symbols that stand for dimension 0 wherever they stand: anywhere else, 1 would be a guess.
fn batch_symbols(declared: &[Declared]) -> BTreeSet<String> {
    let (mut first, mut later) = (BTreeSet::new(), BTreeSet::new());
    for (axis, dimension) in declared.iter().flat_map(|input| input.dimensions.iter().enumerate()) {
        if let Dimension::Open(Some(symbol)) = dimension {
            if axis == 0 { &mut first } else { &mut later }.insert(symbol.clone());
        }
    }
    first.difference(&later).cloned().collect()
}

/// A size for something that does not exist is a typing error, not a wish to be ignored.
fn check_all_used(
    model: &str,
    options: &OnnxOptions,
    symbols: &BTreeSet<String>,
    axes: &BTreeSet<(String, usize)>,
) -> Result<(), InferError> {
    let unused = |dimension: String, there_is: String| {
        Err(InferError::UnusedDimension { model: model.to_owned(), dimension, reason: there_is })
    };
    if let Some(symbol) = options.symbols.keys().find(|s| !symbols.contains(*s)) {
        return unused(format!("`{symbol}`"), format!("the inputs' symbols are {symbols:?}"));
    }
    if let Some((tensor, axis)) = options.axes.keys().find(|a| !axes.contains(a)) {
        let inputs: BTreeSet<&String> = axes.iter().map(|(name, _)| name).collect();
        return unused(
            format!("axis {axis} of `{tensor}`"),
            format!("there is none; the inputs are {inputs:?}"),
        );
    }
    Ok(())
}

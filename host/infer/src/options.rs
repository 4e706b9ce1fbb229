//! Sizes for the dimensions an ONNX file leaves open, whichever engine reads it.

use std::collections::BTreeMap;

/// How to load an ONNX file. The default is enough for a model whose batch alone is dynamic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OnnxOptions {
    /// Sizes by symbol (`dim_param`): hold wherever an input uses the symbol, the batch included.
    pub symbols: BTreeMap<String, usize>,
    /// Sizes by input name and axis, for dimensions with no symbol; they come before a symbol's.
    pub axes: BTreeMap<(String, usize), usize>,
}

impl OnnxOptions {
    /// No sizes given.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives the dimensions called `symbol` a size.
    #[must_use]
    pub fn with_symbol(mut self, symbol: impl Into<String>, size: usize) -> Self {
        self.symbols.insert(symbol.into(), size);
        self
    }

    /// Gives dimension `axis` (outermost 0) of the input `tensor` a size.
    #[must_use]
    pub fn with_axis(mut self, tensor: impl Into<String>, axis: usize, size: usize) -> Self {
        self.axes.insert((tensor.into(), axis), size);
        self
    }
}

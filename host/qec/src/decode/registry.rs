//! Decoders by name: this crate's, and any that a program registers.

use super::{
    BpConfig, DecodeError, DecoderFactory, DecoderOptions, DecodingGraph, MatchingEngine, MatchingFactory,
    ModelDecoders, ParallelEdges, RelayFactory,
};
use crate::dem::DetectorErrorModel;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The input of a decoder.
#[derive(Debug, Clone, Copy)]
pub enum DecoderInput<'a> {
    /// A detector error model.
    Model(&'a DetectorErrorModel),
    /// A check matrix: the columns (data qubits, errors) of each row (check), and the number of columns. Decoders of a check
    /// matrix have no observables, and count corrections.
    Checks {
        /// The columns of each row.
        rows: &'a [&'a [u32]],
        /// The number of columns.
        columns: u32,
    },
}

/// A value of a parameter.
#[derive(Debug, Clone, PartialEq)]
pub enum Param {
    /// Yes or no.
    Flag(bool),
    /// A whole number.
    Integer(i64),
    /// A number.
    Number(f64),
    /// A word.
    Text(String),
}

macro_rules! from {
    ($($from:ty => $variant:ident;)*) => {$(
        impl From<$from> for Param {
            fn from(value: $from) -> Self {
                Self::$variant(value.into())
            }
        }
    )*};
}

from! {
    bool => Flag;
    i64 => Integer;
    u32 => Integer;
    f64 => Number;
    &str => Text;
    String => Text;
}

/// Parameters of a decoder, by name. A decoder refuses a name that it does not know.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Params(BTreeMap<String, Param>);

impl Params {
    /// No parameters.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a parameter, or replaces the one of the same name.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Param>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    /// The value of a parameter.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Param> {
        self.0.get(name)
    }

    /// Refuses every name but those in `known`.
    ///
    /// # Errors
    /// [`DecodeError::Plugin`] with the first other name.
    pub fn expect(&self, known: &[&str]) -> Result<(), DecodeError> {
        match self.0.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => Err(refused(format!("no parameter `{name}`; there are: {}", known.join(", ")))),
        }
    }

    fn flag(&self, name: &str) -> Result<bool, DecodeError> {
        match self.get(name) {
            None => Ok(false),
            Some(Param::Flag(value)) => Ok(*value),
            Some(other) => Err(refused(format!("`{name}` is true or false, not {other:?}"))),
        }
    }

    fn count(&self, name: &str) -> Result<Option<u32>, DecodeError> {
        match self.get(name) {
            None => Ok(None),
            Some(Param::Integer(value)) if (1..=i64::from(u32::MAX)).contains(value) => {
                Ok(Some(*value as u32))
            }
            Some(other) => {
                Err(refused(format!("`{name}` is a whole number from 1 to 2^32 - 1, not {other:?}")))
            }
        }
    }
}

fn refused(reason: String) -> DecodeError {
    DecodeError::Plugin { reason }
}

/// Makes the decoders of one name.
pub type Constructor =
    Arc<dyn Fn(DecoderInput<'_>, &Params) -> Result<Arc<dyn DecoderFactory>, DecodeError> + Send + Sync>;

/// Decoders by name.
///
/// | name | decodes by | parameters |
/// |---|---|---|
/// | `pymatching` | minimum-weight perfect matching, equal to PyMatching's in weight | `merge_strategy`: `smallest_weight` (default of a check matrix) or `independent` (default of a model); `enable_correlations`, of a model |
/// | `relay` | Relay-BP, of a model | `solutions`, `max_iterations` |
///
/// A program adds its own, which may come from a shared library.
///
/// ```
/// use ringcall_qec::code::{Basis, SurfaceCode};
/// use ringcall_qec::decode::{DecodeError, DecoderInput, Params, Registry};
///
/// let code = SurfaceCode::new(7)?;
/// let (rows, columns) = (code.check_matrix(Basis::Z), code.num_data());
/// let input = DecoderInput::Checks { rows: &rows, columns };
/// let params = Params::new().with("merge_strategy", "smallest_weight");
/// let mut decoder = Registry::new().get("pymatching", input, &params)?.build()?;
/// assert_eq!(decoder.decode(&[0], &mut [])?.corrections, 1);
///
/// // Under a name of one's own, and an unknown name.
/// let mut registry = Registry::new();
/// let inner = registry.clone();
/// registry.register("mine", move |input, params| inner.get("pymatching", input, params))?;
/// assert!(registry.get("mine", input, &params).is_ok());
/// assert!(matches!(registry.get("yours", input, &params), Err(DecodeError::Plugin { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Registry {
    constructors: BTreeMap<String, Constructor>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}

impl Registry {
    /// The decoders of this crate.
    #[must_use]
    pub fn new() -> Self {
        let ours: [(&str, Constructor); 2] = [("pymatching", Arc::new(matching)), ("relay", Arc::new(relay))];
        Self { constructors: ours.into_iter().map(|(name, make)| (name.to_owned(), make)).collect() }
    }

    /// Adds decoders under a name.
    ///
    /// # Errors
    /// [`DecodeError::Plugin`] if the name is taken.
    pub fn register(
        &mut self,
        name: &str,
        make: impl Fn(DecoderInput<'_>, &Params) -> Result<Arc<dyn DecoderFactory>, DecodeError>
        + Send
        + Sync
        + 'static,
    ) -> Result<(), DecodeError> {
        if self.constructors.contains_key(name) {
            return Err(refused(format!("there is a decoder `{name}` already")));
        }
        self.constructors.insert(name.to_owned(), Arc::new(make));
        Ok(())
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.constructors.keys().map(String::as_str)
    }

    /// Decoders of `input` by name; each thread builds its own.
    ///
    /// # Errors
    /// [`DecodeError::Plugin`] for an unknown name or parameter; and the decoder's own errors.
    pub fn get(
        &self,
        name: &str,
        input: DecoderInput<'_>,
        params: &Params,
    ) -> Result<Arc<dyn DecoderFactory>, DecodeError> {
        let make = self.constructors.get(name).ok_or_else(|| {
            refused(format!(
                "no decoder `{name}`; there are: {}",
                self.names().collect::<Vec<_>>().join(", ")
            ))
        })?;
        make(input, params)
    }

    /// As [`get`](Self::get), for the decoders of a model in a pipeline.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn of_model(
        &self,
        name: &str,
        model: &DetectorErrorModel,
        params: &Params,
    ) -> Result<ModelDecoders, DecodeError> {
        self.get(name, DecoderInput::Model(model), params).map(ModelDecoders::Plugin)
    }
}

/// Decoders of `input` by a name of [`Registry::new`].
///
/// # Errors
/// As [`Registry::get`].
pub fn get(
    name: &str,
    input: DecoderInput<'_>,
    params: &Params,
) -> Result<Arc<dyn DecoderFactory>, DecodeError> {
    Registry::new().get(name, input, params)
}

fn matching(input: DecoderInput<'_>, params: &Params) -> Result<Arc<dyn DecoderFactory>, DecodeError> {
    params.expect(&["merge_strategy", "enable_correlations"])?;
    let correlated = params.flag("enable_correlations")?;
    let default = match input {
        DecoderInput::Model(_) => ParallelEdges::Independent,
        DecoderInput::Checks { .. } => ParallelEdges::SmallestWeight,
    };
    let merge = match params.get("merge_strategy") {
        None => default,
        Some(Param::Text(text)) if text == "smallest_weight" => ParallelEdges::SmallestWeight,
        Some(Param::Text(text)) if text == "independent" => ParallelEdges::Independent,
        Some(other) => {
            return Err(refused(format!(
                "`merge_strategy` is smallest_weight or independent, not {other:?}"
            )));
        }
    };
    let graph = match input {
        DecoderInput::Model(model) => DecodingGraph::from_dem(model, merge)?,
        DecoderInput::Checks { .. } if correlated => {
            return Err(refused(
                "`enable_correlations` is for a model, whose errors have several parts".to_owned(),
            ));
        }
        DecoderInput::Checks { rows, columns } => {
            DecodingGraph::from_check_matrix(rows, columns, None, merge)?
        }
    };
    let engine = if correlated { MatchingEngine::CorrelatedBlossom } else { MatchingEngine::SparseBlossom };
    Ok(Arc::new(MatchingFactory::new(&graph, engine)?))
}

fn relay(input: DecoderInput<'_>, params: &Params) -> Result<Arc<dyn DecoderFactory>, DecodeError> {
    params.expect(&["solutions", "max_iterations"])?;
    let DecoderInput::Model(model) = input else {
        return Err(refused("`relay` is for a model, which has probabilities".to_owned()));
    };
    let published = DecoderOptions::default().relay;
    let config = BpConfig {
        solutions: params.count("solutions")?.unwrap_or(published.solutions),
        max_iterations: params.count("max_iterations")?.unwrap_or(published.max_iterations),
        ..published
    };
    Ok(Arc::new(RelayFactory::new(model, &config)?))
}

//! Bindings: the tensors that a request fills, and those that make an answer, by name.

use crate::ServiceError;
use ringcall_infer::TensorSpec;
use ringcall_wire::handoff::{MAX_TENSORS, TENSOR_ALIGN};

/// Which of an engine's inputs or outputs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Pick {
    /// The primary one.
    #[default]
    First,
    /// These, in this order.
    Names(Vec<String>),
}

impl Pick {
    /// These, in this order.
    ///
    /// ```
    /// use ringcall_inference_service::Pick;
    /// let both = Pick::names(["residual_detectors", "logical_frame"]);
    /// assert_ne!(both, Pick::First);
    /// ```
    #[must_use]
    pub fn names<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        Self::Names(names.into_iter().map(Into::into).collect())
    }
}

/// One chosen tensor, and its part of a request or an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// Its number among the engine's.
    pub index: usize,
    /// Its name, type and shape.
    pub spec: TensorSpec,
    /// First byte of its part.
    pub offset: usize,
    /// Bytes of its part.
    pub bytes: usize,
}

/// The chosen tensors of one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bindings {
    bound: Vec<Binding>,
    auxiliary: Vec<TensorSpec>,
    bytes: usize,
}

impl Bindings {
    /// Looks the names up. `what` is `input` or `output`.
    ///
    /// # Errors
    /// A name that is not there or chosen twice, no tensor, or too many.
    pub fn choose(
        engine: &str,
        what: &'static str,
        specs: &[TensorSpec],
        pick: &Pick,
    ) -> Result<Self, ServiceError> {
        let engine = || engine.to_owned();
        let chosen = match pick {
            Pick::First => (0..specs.len().min(1)).collect(),
            Pick::Names(names) => {
                let mut chosen = Vec::with_capacity(names.len());
                for name in names {
                    let found = specs.iter().position(|spec| spec.name == *name);
                    let index = found.ok_or_else(|| ServiceError::NoTensor {
                        engine: engine(),
                        what,
                        name: name.clone(),
                        known: known(specs),
                    })?;
                    if chosen.contains(&index) {
                        return Err(ServiceError::Twice { engine: engine(), what, name: name.clone() });
                    }
                    chosen.push(index);
                }
                chosen
            }
        };
        if chosen.is_empty() || chosen.len() > MAX_TENSORS {
            return Err(ServiceError::HowMany { engine: engine(), what, count: chosen.len() });
        }
        let (mut bound, mut end) = (Vec::with_capacity(chosen.len()), 0_usize);
        for &index in &chosen {
            let spec = specs[index].clone();
            spec.validate()?;
            let (offset, bytes) = (end.next_multiple_of(TENSOR_ALIGN), spec.size_bytes());
            end = offset + bytes;
            bound.push(Binding { index, spec, offset, bytes });
        }
        if u32::try_from(end).is_err() {
            return Err(ServiceError::Shape(format!("{end} bytes of {what}s are more than a slot can have")));
        }
        let others = specs.iter().enumerate().filter(|(index, _)| !chosen.contains(index));
        Ok(Self { auxiliary: others.map(|(_, spec)| spec.clone()).collect(), bound, bytes: end })
    }

    /// The chosen ones, in order.
    #[must_use]
    pub fn bound(&self) -> &[Binding] {
        &self.bound
    }

    /// The others.
    #[must_use]
    pub fn auxiliary(&self) -> &[TensorSpec] {
        &self.auxiliary
    }

    /// Bytes of a request or an answer.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

fn known(specs: &[TensorSpec]) -> String {
    let names: Vec<_> = specs.iter().map(|spec| format!("`{}`", spec.name)).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

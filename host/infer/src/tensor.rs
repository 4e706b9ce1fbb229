//! Tensor specifications: name, element type, static shape.

use std::fmt;

use crate::InferError;

/// The largest tensor a model may declare, in bytes (1 GiB): a corrupt dimension is refused before it becomes an
/// allocation.
pub const MAX_TENSOR_BYTES: usize = 1 << 30;

/// The type of one element, as it lies in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElementType {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary16.
    F16,
    /// Two's complement, 32 bits.
    I32,
    /// Two's complement, 64 bits.
    I64,
    /// Unsigned, 8 bits.
    U8,
    /// One byte, 0 or 1.
    Bool,
}

impl ElementType {
    /// Every element type.
    pub const ALL: [Self; 6] = [Self::F32, Self::F16, Self::I32, Self::I64, Self::U8, Self::Bool];

    /// Bytes one element takes in a packed buffer.
    #[must_use]
    pub const fn size_bytes(self) -> usize {
        match self {
            Self::I64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::F16 => 2,
            Self::U8 | Self::Bool => 1,
        }
    }

    /// The name used in messages and reports, as in `i32`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U8 => "u8",
            Self::Bool => "bool",
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One input or output of a model.
///
/// ```
/// use ringcall_infer::{ElementType, TensorSpec};
/// let spec = TensorSpec::new("measurements", ElementType::I32, [1, 252, 13])?;
/// assert_eq!((spec.elements(), spec.size_bytes()), (3276, 13_104));
/// assert_eq!(spec.to_string(), "measurements: i32[1, 252, 13]");
/// assert!(TensorSpec::new("empty", ElementType::F32, [1, 0]).is_err());
/// # Ok::<(), ringcall_infer::InferError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorSpec {
    /// The name in the model.
    pub name: String,
    /// The type of its elements.
    pub element: ElementType,
    /// Dimensions, outermost first, all at least 1; dimension 0 is the batch where the model has one, pinned to
    /// 1. A scalar has none.
    pub shape: Vec<usize>,
}

impl TensorSpec {
    /// A tensor of a static shape, checked.
    ///
    /// # Errors
    /// As [`validate`](TensorSpec::validate).
    pub fn new(
        name: impl Into<String>,
        element: ElementType,
        shape: impl Into<Vec<usize>>,
    ) -> Result<Self, InferError> {
        let spec = Self { name: name.into(), element, shape: shape.into() };
        spec.validate()?;
        Ok(spec)
    }

    /// Checks a spec built from its fields.
    ///
    /// # Errors
    /// [`InferError::InvalidSpec`] on an empty name, a dimension of 0, or more than [`MAX_TENSOR_BYTES`].
    pub fn validate(&self) -> Result<(), InferError> {
        let reason = if self.name.is_empty() {
            "it has no name".to_owned()
        } else if self.shape.contains(&0) {
            format!("{self} has a dimension of 0")
        } else if self.size_bytes() > MAX_TENSOR_BYTES {
            format!("{self} is more than {MAX_TENSOR_BYTES} bytes")
        } else {
            return Ok(());
        };
        Err(InferError::InvalidSpec { name: self.name.clone(), reason })
    }

    /// Number of elements; 1 for a scalar. Saturates on a spec that [`validate`](TensorSpec::validate) refuses.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.shape.iter().fold(1, |n: usize, &d| n.saturating_mul(d))
    }

    /// Bytes of the packed buffer. Saturates as [`elements`](TensorSpec::elements).
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.elements().saturating_mul(self.element.size_bytes())
    }

    /// The position and spec of the tensor called `name`, to bind buffers by name.
    #[must_use]
    pub fn find<'a>(specs: &'a [Self], name: &str) -> Option<(usize, &'a Self)> {
        specs.iter().enumerate().find(|(_, spec)| spec.name == name)
    }
}

impl fmt::Display for TensorSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}{:?}", self.name, self.element, self.shape)
    }
}

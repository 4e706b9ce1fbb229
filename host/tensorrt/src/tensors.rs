//! Tensors of a network and of an engine.

use crate::TensorRtError;
use crate::ffi::Tensor;
use ringcall_infer::{ElementType, InferError};
use std::fmt;

/// An input or output, some of whose dimensions may be open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// Its name in the model.
    pub name: String,
    /// The type of its elements.
    pub element: ElementType,
    /// Outermost first; none where it is open.
    pub dims: Vec<Option<usize>>,
}

impl fmt::Display for TensorInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<String> =
            self.dims.iter().map(|dim| dim.map_or_else(|| "?".to_owned(), |dim| dim.to_string())).collect();
        write!(f, "{}: {}[{}]", self.name, self.element, dims.join(", "))
    }
}

impl TensorInfo {
    /// Checks what this crate can feed: element types that there are here, on the device, row-major.
    pub(crate) fn of(model: &str, tensor: &Tensor) -> Result<Self, TensorRtError> {
        let unusable = |reason: &str| {
            let (name, reason) = (tensor.name.clone(), reason.to_owned());
            TensorRtError::Model(InferError::InvalidSpec { name, reason })
        };
        if tensor.on_host {
            return Err(unusable(
                "its values are shapes, which TensorRT wants on the host; export them as constants",
            ));
        }
        if !tensor.linear {
            return Err(unusable("its elements do not lie row-major"));
        }
        let element = element(tensor.type_code).ok_or_else(|| InferError::UnsupportedElement {
            model: model.to_owned(),
            tensor: tensor.name.clone(),
            found: name_of(tensor.type_code),
        })?;
        let dims = tensor.dims.iter().map(|&dim| usize::try_from(dim).ok()).collect();
        Ok(Self { name: tensor.name.clone(), element, dims })
    }

    /// Inputs and outputs, in the order they are in.
    pub(crate) fn split(model: &str, tensors: &[Tensor]) -> Result<[Vec<Self>; 2], TensorRtError> {
        let mut sides = [Vec::new(), Vec::new()];
        for tensor in tensors {
            sides[usize::from(tensor.is_output)].push(Self::of(model, tensor)?);
        }
        Ok(sides)
    }
}

/// `nvinfer1::DataType`, whose numbers have been the same since TensorRT 8.
fn element(code: i32) -> Option<ElementType> {
    Some(match code {
        0 => ElementType::F32,
        1 => ElementType::F16,
        3 => ElementType::I32,
        4 => ElementType::Bool,
        5 => ElementType::U8,
        8 => ElementType::I64,
        _ => return None,
    })
}

fn name_of(code: i32) -> String {
    match code {
        2 => "int8".to_owned(),
        6 => "fp8".to_owned(),
        7 => "bf16".to_owned(),
        9 => "int4".to_owned(),
        10 => "fp4".to_owned(),
        other => format!("TensorRT's type {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(type_code: i32, dims: &[i64]) -> Tensor {
        Tensor {
            name: "x".to_owned(),
            type_code,
            on_host: false,
            linear: true,
            is_output: false,
            dims: dims.to_vec(),
            symbols: vec![None; dims.len()],
        }
    }

    #[test]
    fn every_element_type_has_its_number() {
        let found: Vec<ElementType> = (0..16).filter_map(element).collect();
        assert!(ElementType::ALL.iter().all(|element| found.contains(element)) && found.len() == 6);
        assert_eq!(TensorInfo::of("m", &tensor(5, &[-1, 3])).expect("bytes").to_string(), "x: u8[?, 3]");
    }

    #[test]
    fn what_cannot_be_fed_is_refused() {
        let why = |tensor| TensorInfo::of("m", &tensor).expect_err("refused").to_string();
        assert!(why(tensor(7, &[1])).contains("`x` is bf16"));
        assert!(why(Tensor { on_host: true, ..tensor(0, &[1]) }).contains("on the host"));
        assert!(why(Tensor { linear: false, ..tensor(0, &[1]) }).contains("row-major"));
    }
}

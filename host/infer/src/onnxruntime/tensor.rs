//! Packed bytes to tensors and back.

use crate::{ElementType, TensorSpec};
use half::f16;
use ort::memory::Allocator;
use ort::value::{DynTensor, DynValue, PrimitiveTensorElementType, TensorElementType};

/// Ours for theirs, if there is one.
pub(crate) fn element_type(theirs: TensorElementType) -> Option<ElementType> {
    ElementType::ALL.into_iter().find(|&ours| their_type(ours) == theirs)
}

fn their_type(ours: ElementType) -> TensorElementType {
    match ours {
        ElementType::F32 => TensorElementType::Float32,
        ElementType::F16 => TensorElementType::Float16,
        ElementType::I32 => TensorElementType::Int32,
        ElementType::I64 => TensorElementType::Int64,
        ElementType::U8 => TensorElementType::Uint8,
        ElementType::Bool => TensorElementType::Bool,
    }
}

/// A tensor in host memory, of zeros.
pub(crate) fn zeroed(spec: &TensorSpec) -> ort::Result<DynTensor> {
    let mut tensor = DynTensor::new(&Allocator::default(), their_type(spec.element), spec.shape.as_slice())?;
    write(&mut tensor, spec.element, &vec![0; spec.size_bytes()])?;
    Ok(tensor)
}

/// Writes packed bytes, as many as the tensor's.
pub(crate) fn write(tensor: &mut DynTensor, element: ElementType, bytes: &[u8]) -> ort::Result<()> {
    fn each<T: PrimitiveTensorElementType, const N: usize>(
        tensor: &mut DynTensor,
        bytes: &[u8],
        value: fn([u8; N]) -> T,
    ) -> ort::Result<()> {
        let (_, values) = tensor.try_extract_tensor_mut::<T>()?;
        for (element, bytes) in values.iter_mut().zip(bytes.as_chunks::<N>().0) {
            *element = value(*bytes);
        }
        Ok(())
    }
    match element {
        ElementType::F32 => each(tensor, bytes, f32::from_le_bytes),
        ElementType::F16 => each(tensor, bytes, f16::from_le_bytes),
        ElementType::I32 => each(tensor, bytes, i32::from_le_bytes),
        ElementType::I64 => each(tensor, bytes, i64::from_le_bytes),
        ElementType::U8 => each(tensor, bytes, u8::from_le_bytes),
        ElementType::Bool => each(tensor, bytes, |[byte]: [u8; 1]| byte != 0),
    }
}

/// Reads a result as packed bytes; it must be of the spec's shape.
pub(crate) fn read(value: &DynValue, spec: &TensorSpec, out: &mut [u8]) -> ort::Result<()> {
    fn each<T: PrimitiveTensorElementType + Copy, const N: usize>(
        value: &DynValue,
        spec: &TensorSpec,
        out: &mut [u8],
        bytes: fn(T) -> [u8; N],
    ) -> ort::Result<()> {
        let (shape, values) = value.try_extract_tensor::<T>()?;
        let is_shape = shape.len() == spec.shape.len()
            && shape.iter().zip(&spec.shape).all(|(&got, &size)| usize::try_from(got) == Ok(size));
        if !is_shape {
            return Err(ort::Error::new(format!("{spec} came out in the shape {shape}")));
        }
        for (element, value) in out.as_chunks_mut::<N>().0.iter_mut().zip(values) {
            *element = bytes(*value);
        }
        Ok(())
    }
    match spec.element {
        ElementType::F32 => each(value, spec, out, f32::to_le_bytes),
        ElementType::F16 => each(value, spec, out, f16::to_le_bytes),
        ElementType::I32 => each(value, spec, out, i32::to_le_bytes),
        ElementType::I64 => each(value, spec, out, i64::to_le_bytes),
        ElementType::U8 => each(value, spec, out, u8::to_le_bytes),
        ElementType::Bool => each(value, spec, out, |bit: bool| [u8::from(bit)]),
    }
}

//! The fields of an ONNX file that are read before TensorRT sees it.

use ringcall_infer::InferError;
use ringcall_infer::onnx_file::{OnnxFile, Tensor};

/// The file's metadata, if it is a model whose weights are all inside: a plan is kept by what the file says.
pub(crate) fn metadata(model: &str, bytes: &[u8]) -> Result<Vec<(String, String)>, InferError> {
    let OnnxFile { graph, metadata } = OnnxFile::read(bytes).map_err(|why| why.of(model))?;
    if let Some(outside) = graph.initializer.iter().find(|tensor| tensor.data_location == Tensor::EXTERNAL) {
        let reason =
            format!("its constant `{}` is in a file of its own: save the model as one file", outside.name);
        return Err(InferError::Malformed { model: model.to_owned(), reason });
    }
    Ok(metadata)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringcall_infer::onnx_file::Graph;

    fn file(data_location: i32) -> Vec<u8> {
        let tensor = Tensor { name: "w".to_owned(), data_location, ..Tensor::default() };
        let graph = Graph { initializer: vec![tensor], ..Graph::default() };
        OnnxFile { graph, metadata: vec![("threshold".to_owned(), "2.0".to_owned())] }.to_bytes()
    }

    #[test]
    fn metadata_is_read_and_weights_elsewhere_are_refused() {
        assert_eq!(metadata("m", &file(0)).expect("whole"), [("threshold".to_owned(), "2.0".to_owned())]);
        let why = metadata("m", &file(Tensor::EXTERNAL)).expect_err("elsewhere").to_string();
        assert!(why.contains("`w` is in a file of its own"), "{why}");
        let why = metadata("m", &[]).expect_err("empty").to_string();
        assert!(why.contains("contains no graph"), "{why}");
    }
}

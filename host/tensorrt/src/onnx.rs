//! What is read of an ONNX file before TensorRT sees it. Field numbers as in `onnx.proto3`.

use prost::Message;
use ringcall_infer::InferError;

#[derive(Clone, PartialEq, Message)]
struct ModelProto {
    #[prost(message, optional, tag = "7")]
    graph: Option<GraphProto>,
    #[prost(message, repeated, tag = "14")]
    metadata_props: Vec<StringStringEntryProto>,
}

#[derive(Clone, PartialEq, Message)]
struct StringStringEntryProto {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct GraphProto {
    #[prost(message, repeated, tag = "5")]
    initializer: Vec<TensorProto>,
}

#[derive(Clone, PartialEq, Message)]
struct TensorProto {
    #[prost(string, tag = "8")]
    name: String,
    #[prost(int32, tag = "14")]
    data_location: i32,
}

/// `TensorProto.DataLocation.EXTERNAL`.
const EXTERNAL: i32 = 1;

/// The file's metadata, if it is a model whose weights are all inside: a plan is kept by what the file says.
pub(crate) fn metadata(model: &str, bytes: &[u8]) -> Result<Vec<(String, String)>, InferError> {
    let malformed = |reason: String| InferError::Malformed { model: model.to_owned(), reason };
    let file = ModelProto::decode(bytes)
        .map_err(|why| malformed(format!("{why}; the file is cut short, or not ONNX")))?;
    let graph = file.graph.ok_or_else(|| {
        malformed("it contains no graph; the file is empty, cut short, or not ONNX".to_owned())
    })?;
    if let Some(outside) = graph.initializer.iter().find(|tensor| tensor.data_location == EXTERNAL) {
        let name = &outside.name;
        return Err(malformed(format!(
            "its constant `{name}` is in a file of its own: save the model as one file"
        )));
    }
    Ok(file.metadata_props.into_iter().map(|entry| (entry.key, entry.value)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(location: i32) -> Vec<u8> {
        let initializer = vec![TensorProto { name: "w".to_owned(), data_location: location }];
        let entry = StringStringEntryProto { key: "threshold".to_owned(), value: "2.0".to_owned() };
        ModelProto { graph: Some(GraphProto { initializer }), metadata_props: vec![entry] }.encode_to_vec()
    }

    #[test]
    fn metadata_is_read_and_weights_elsewhere_are_refused() {
        assert_eq!(metadata("m", &file(0)).expect("whole"), [("threshold".to_owned(), "2.0".to_owned())]);
        let why = metadata("m", &file(EXTERNAL)).expect_err("elsewhere").to_string();
        assert!(why.contains("`w` is in a file of its own"), "{why}");
        let why = metadata("m", &[]).expect_err("empty").to_string();
        assert!(why.contains("contains no graph"), "{why}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = metadata("m", &bytes);
        }
    }
}

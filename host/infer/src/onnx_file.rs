//! The contents of an ONNX file, for engines that look into one themselves: nodes, constants, metadata. Names
//! and field numbers as in `onnx.proto3`; fields that are not read here are left out.
//!
//! ```
//! use ringcall_infer::onnx_file::{Graph, Node, OnnxFile};
//!
//! let node = Node { op_type: "Relu".to_owned(), ..Node::default() };
//! let graph = Graph { node: vec![node], ..Graph::default() };
//! let file = OnnxFile { graph, metadata: vec![("threshold".to_owned(), "2.0".to_owned())] };
//! assert_eq!(OnnxFile::read(&file.to_bytes()), Ok(file));
//! assert!(OnnxFile::read(b"no model").is_err());
//! ```

use crate::error::FileError;
use prost::Message;

/// A model.
#[derive(Debug, Clone, PartialEq)]
pub struct OnnxFile {
    /// What it computes.
    pub graph: Graph,
    /// The model's metadata, in the file's order.
    pub metadata: Vec<(String, String)>,
}

impl OnnxFile {
    /// Reads a file; that it can be run is not checked.
    ///
    /// # Errors
    /// The bytes are no ONNX, or there is no graph.
    pub fn read(bytes: &[u8]) -> Result<Self, FileError> {
        let ModelProto { graph, metadata_props } =
            ModelProto::decode(bytes).map_err(|why| FileError::NotOnnx(why.to_string()))?;
        let metadata = metadata_props.into_iter().map(|entry| (entry.key, entry.value)).collect();
        Ok(Self { graph: graph.ok_or(FileError::NoGraph)?, metadata })
    }

    /// As a file.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let entry = |(key, value): &(String, String)| Entry { key: key.clone(), value: value.clone() };
        let metadata_props = self.metadata.iter().map(entry).collect();
        ModelProto { graph: Some(self.graph.clone()), metadata_props }.encode_to_vec()
    }
}

#[derive(Clone, PartialEq, Message)]
struct ModelProto {
    #[prost(message, optional, tag = "7")]
    graph: Option<Graph>,
    #[prost(message, repeated, tag = "14")]
    metadata_props: Vec<Entry>,
}

/// `StringStringEntryProto`.
#[derive(Clone, PartialEq, Message)]
struct Entry {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

/// `GraphProto`.
#[derive(Clone, PartialEq, Message)]
pub struct Graph {
    /// Its operators, each after those whose outputs it reads.
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<Node>,
    /// Its constants.
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<Tensor>,
}

/// `NodeProto`: an operator.
#[derive(Clone, PartialEq, Message)]
pub struct Node {
    /// Names of the tensors that it reads.
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    /// Names of the tensors that it writes.
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    /// Which operator, as `Conv`.
    #[prost(string, tag = "4")]
    pub op_type: String,
    /// Its settings.
    #[prost(message, repeated, tag = "5")]
    pub attribute: Vec<Attribute>,
}

/// `AttributeProto`: a setting of an operator, in the field of its type.
#[derive(Clone, PartialEq, Message)]
pub struct Attribute {
    /// Which.
    #[prost(string, tag = "1")]
    pub name: String,
    /// A number.
    #[prost(int64, tag = "3")]
    pub i: i64,
    /// A text, in UTF-8.
    #[prost(bytes = "vec", tag = "4")]
    pub s: Vec<u8>,
    /// Numbers.
    #[prost(int64, repeated, tag = "8")]
    pub ints: Vec<i64>,
}

/// `TensorProto`: a constant, in raw bytes or in the field of its type.
#[derive(Clone, PartialEq, Message)]
pub struct Tensor {
    /// Sizes, outermost first.
    #[prost(int64, repeated, tag = "1")]
    pub dims: Vec<i64>,
    /// What its elements are, such as [`Tensor::FLOAT`].
    #[prost(int32, tag = "2")]
    pub data_type: i32,
    /// Elements of [`Tensor::FLOAT`].
    #[prost(float, repeated, tag = "4")]
    pub float_data: Vec<f32>,
    /// Elements of [`Tensor::FLOAT16`], their bits, among others.
    #[prost(int32, repeated, tag = "5")]
    pub int32_data: Vec<i32>,
    /// Its name.
    #[prost(string, tag = "8")]
    pub name: String,
    /// Elements of any type, little-endian.
    #[prost(bytes = "vec", tag = "9")]
    pub raw_data: Vec<u8>,
    /// Where the elements are: [`Tensor::EXTERNAL`] is a file of their own.
    #[prost(int32, tag = "14")]
    pub data_location: i32,
}

impl Tensor {
    /// `TensorProto.DataType.FLOAT`.
    pub const FLOAT: i32 = 1;
    /// `TensorProto.DataType.FLOAT16`.
    pub const FLOAT16: i32 = 10;
    /// `TensorProto.DataLocation.EXTERNAL`.
    pub const EXTERNAL: i32 = 1;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_file_without_a_graph_is_none() {
        assert_eq!(OnnxFile::read(&[]), Err(FileError::NoGraph));
        assert!(matches!(OnnxFile::read(b"no model"), Err(FileError::NotOnnx(_))));
    }

    /// The oracle is ONNX's own library: it wrote the file that is committed.
    #[test]
    fn a_file_of_somebody_elses_is_read() {
        let file = OnnxFile::read(include_bytes!("../tests/data/fully_convolutional.onnx")).expect("a file");
        assert!(file.graph.node.iter().any(|node| node.op_type == "Conv" && !node.attribute.is_empty()));
        assert!(file.graph.initializer.iter().any(|tensor| tensor.data_type == Tensor::FLOAT));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = OnnxFile::read(&bytes);
        }
    }
}

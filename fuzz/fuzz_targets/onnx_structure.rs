//! ONNX files by their structure: networks of the predecoder's shape with anything in their place, written and read back the same,
//! then damaged as bytes. A file is a network or an error, in bounded memory, never a panic.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use ringcall_gpu_decoders::predecoder::Network;
use ringcall_infer::onnx_file::{Attribute, Graph, Node, OnnxFile, Tensor};

#[derive(Arbitrary, Debug)]
enum Change {
    /// An operator takes another's place.
    Operator {
        node: u8,
        op: u8,
    },
    /// A tensor is of another shape, type or place.
    Shape {
        tensor: u8,
        dims: Vec<i64>,
    },
    Kind {
        tensor: u8,
        kind: i32,
        location: i32,
    },
    /// It has other bytes, or fewer.
    Data {
        tensor: u8,
        bytes: Vec<u8>,
        cut: bool,
    },
    /// A name, so that an operator reads another thing, or nothing.
    Rename {
        node: u8,
        input: u8,
        name: u8,
    },
    Setting {
        node: u8,
        name: u8,
        i: i64,
        ints: Vec<i64>,
    },
    Remove {
        node: u8,
    },
    Double {
        node: u8,
    },
    Metadata {
        key: String,
        value: String,
    },
}

const OPERATORS: [&str; 7] = ["Mul", "Conv", "Round", "Add", "Clip", "Relu", ""];
const SETTINGS: [&str; 6] = ["pads", "strides", "dilations", "group", "kernel_shape", "auto_pad"];

/// The shape of a committed network, with small numbers in it: made once.
fn network() -> OnnxFile {
    let tensor = |name: String, dims: &[i64]| {
        let elements = dims.iter().product::<i64>().max(1) as usize;
        let raw_data = (0..elements).flat_map(|i| ((i % 3) as f32).to_le_bytes()).collect();
        Tensor { dims: dims.to_vec(), data_type: Tensor::FLOAT, name, raw_data, ..Tensor::default() }
    };
    let mut graph = Graph::default();
    let mut flows = "x".to_owned();
    let mut add = |graph: &mut Graph, op: &str, constants: Vec<Tensor>| {
        let output = format!("{op}{}", graph.node.len());
        let mut input = vec![flows.clone()];
        input.extend(constants.iter().map(|tensor| tensor.name.clone()));
        graph.initializer.extend(constants);
        let ints =
            |name: &str, ints: Vec<i64>| Attribute { name: name.to_owned(), ints, ..Attribute::default() };
        let attribute = if op == "Conv" {
            vec![ints("pads", vec![1; 6]), ints("kernel_shape", vec![3; 3])]
        } else {
            vec![]
        };
        graph.node.push(Node { input, output: vec![output.clone()], op_type: op.to_owned(), attribute });
        flows = output;
    };
    add(&mut graph, "Mul", vec![tensor("two".to_owned(), &[])]);
    for layer in 0..2_i64 {
        let (from, to) = if layer == 0 { (4, 8) } else { (8, 4) };
        add(&mut graph, "Conv", vec![tensor(format!("w{layer}"), &[to, from, 3, 3, 3])]);
        add(&mut graph, "Round", vec![]);
        add(&mut graph, "Mul", vec![tensor(format!("f{layer}"), &[to, 1, 1, 1])]);
        add(&mut graph, "Add", vec![tensor(format!("o{layer}"), &[to, 1, 1, 1])]);
        if layer == 0 {
            add(&mut graph, "Round", vec![]);
            add(&mut graph, "Clip", vec![tensor("low".to_owned(), &[]), tensor("high".to_owned(), &[])]);
        }
    }
    OnnxFile { graph, metadata: vec![("threshold".to_owned(), "0".to_owned())] }
}

fn change(file: &mut OnnxFile, change: Change) {
    let (nodes, tensors) = (file.graph.node.len().max(1), file.graph.initializer.len().max(1));
    let graph = &mut file.graph;
    match change {
        Change::Operator { node, op } => {
            if let Some(node) = graph.node.get_mut(usize::from(node) % nodes) {
                node.op_type = OPERATORS[usize::from(op) % OPERATORS.len()].to_owned();
            }
        }
        Change::Shape { tensor, dims } => {
            if let Some(tensor) = graph.initializer.get_mut(usize::from(tensor) % tensors) {
                tensor.dims = dims;
            }
        }
        Change::Kind { tensor, kind, location } => {
            if let Some(tensor) = graph.initializer.get_mut(usize::from(tensor) % tensors) {
                (tensor.data_type, tensor.data_location) = (kind, location);
            }
        }
        Change::Data { tensor, bytes, cut } => {
            if let Some(tensor) = graph.initializer.get_mut(usize::from(tensor) % tensors) {
                let kept = if cut { bytes.len() } else { tensor.raw_data.len() };
                for (to, from) in tensor.raw_data.iter_mut().zip(&bytes) {
                    *to = *from;
                }
                tensor.raw_data.truncate(kept);
            }
        }
        Change::Rename { node, input, name } => {
            let other =
                graph.node.get(usize::from(name) % nodes).and_then(|node| node.output.first()).cloned();
            if let Some(node) = graph.node.get_mut(usize::from(node) % nodes) {
                let inputs = node.input.len().max(1);
                if let Some(input) = node.input.get_mut(usize::from(input) % inputs) {
                    *input = other.unwrap_or_default();
                }
            }
        }
        Change::Setting { node, name, i, ints } => {
            if let Some(node) = graph.node.get_mut(usize::from(node) % nodes) {
                let name = SETTINGS[usize::from(name) % SETTINGS.len()].to_owned();
                node.attribute.push(Attribute { name, i, s: Vec::new(), ints });
            }
        }
        Change::Remove { node } => {
            if !graph.node.is_empty() {
                graph.node.remove(usize::from(node) % nodes);
            }
        }
        Change::Double { node } => {
            if let Some(node) = graph.node.get(usize::from(node) % nodes).cloned().filter(|_| nodes < 64) {
                graph.node.push(node);
            }
        }
        Change::Metadata { key, value } => file.metadata.push((key, value)),
    }
}

fuzz_target!(|input: (Vec<Change>, Vec<(u16, u8)>)| {
    let (changes, damage) = input;
    let mut file = network();
    for one in changes {
        change(&mut file, one);
    }
    let mut bytes = file.to_bytes();
    assert_eq!(OnnxFile::read(&bytes).expect("it was written"), file);
    match Network::from_onnx(&bytes) {
        Ok(network) => assert!(network.layers().iter().all(|layer| !layer.weights.is_empty())),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    for (at, by) in damage {
        let length = bytes.len();
        bytes[usize::from(at) % length] ^= by;
    }
    let _ = Network::from_onnx(&bytes);
    let _ = OnnxFile::read(&bytes).map(|file| assert_eq!(OnnxFile::read(&file.to_bytes()), Ok(file)));
});

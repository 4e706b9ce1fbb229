//! ONNX files of made-up networks, which a device's engine and a CPU's read alike. Field numbers are those of `onnx.proto3`.

use ringcall_gpu_decoders::predecoder::{HalfLayer, Layer, Network};

const FLOAT: u64 = 1;

/// A field of a protocol buffer with a number.
fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

/// A field with bytes, a text or a message.
fn bytes(field: u64, content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    [&*varint(field << 3 | 2), &*varint(content.len() as u64), content].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut written = Vec::new();
    while value > 0x7F {
        written.push(value as u8 | 0x80);
        value >>= 7;
    }
    written.push(value as u8);
    written
}

/// A graph under construction: each operator reads what the one before it wrote.
struct Chain {
    graph: Vec<u8>,
    flows: String,
    constants: usize,
}

impl Chain {
    /// Appends an operator with constants of single precision.
    fn then(&mut self, operator: &str, output: &str, constants: &[(&[usize], Vec<f32>)]) {
        let mut node = bytes(1, &self.flows);
        for (dims, values) in constants {
            let name = format!("constant{}", self.constants);
            self.constants += 1;
            node.extend(bytes(1, &name));
            let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            let dims: Vec<u8> = dims.iter().flat_map(|&size| number(1, size as u64)).collect();
            let tensor = [dims, number(2, FLOAT), bytes(8, &name), bytes(9, data)].concat();
            self.graph.extend(bytes(5, tensor));
        }
        node.extend([bytes(2, output), bytes(3, output), bytes(4, operator)].concat());
        if operator == "Conv" {
            let ones = number(8, 1).repeat(6);
            node.extend(bytes(5, [bytes(1, "pads"), ones, number(20, 7)].concat()));
        }
        self.graph.extend(bytes(1, node));
        output.clone_into(&mut self.flows);
    }
}

/// A network as a file, for volumes of any size, whose dimensions have the names that committed networks give them.
pub(crate) fn file(network: &Network) -> Vec<u8> {
    let mut chain = Chain { graph: Vec::new(), flows: "volume".to_owned(), constants: 0 };
    let mut inputs = 4;
    let mut dims = |outputs: usize| {
        let dims = [outputs, inputs, 3, 3, 3];
        inputs = outputs;
        dims
    };
    let last = network.widths().len() - 1;
    if !network.layers().is_empty() {
        chain.then("Mul", "doubled", &[(&[1], vec![2.0])]);
    }
    for (index, Layer { weights, factors, offsets }) in network.layers().iter().enumerate() {
        let (dims, channels) = (dims(factors.len()), [1, factors.len(), 1, 1, 1]);
        let name = |what: &str| format!("{what}{index}");
        let weights = weights.iter().copied().map(f32::from).collect();
        chain.then("Conv", &name("sums"), &[(&dims, weights)]);
        chain.then("Round", &name("whole"), &[]);
        chain.then("Mul", &name("scaled"), &[(&channels, factors.clone())]);
        let moved = if index == last { "logits".to_owned() } else { name("moved") };
        chain.then("Add", &moved, &[(&channels, offsets.clone())]);
        if index != last {
            chain.then("Round", &name("rounded"), &[]);
            chain.then("Clip", &name("hidden"), &[(&[], vec![0.0]), (&[], vec![255.0])]);
        }
    }
    for (index, HalfLayer { weights, biases }) in network.half_layers().iter().enumerate() {
        let dims = dims(biases.len());
        let sums = if index == last { "logits".to_owned() } else { format!("sums{index}") };
        let weights = weights.iter().map(|weight| weight.to_f32()).collect();
        chain.then("Conv", &sums, &[(&dims, weights), (&[biases.len()], biases.clone())]);
        if index != last {
            chain.then("Relu", &format!("hidden{index}"), &[]);
        }
    }
    let fixed = [1, 4].map(|size| bytes(1, number(1, size))).concat();
    let open = ["layers", "height", "width"].map(|name| bytes(1, bytes(2, name))).concat();
    let sizes = [fixed, open].concat();
    let tensor = bytes(2, bytes(1, [number(1, FLOAT), bytes(2, sizes)].concat()));
    let [input, output] = ["volume", "logits"].map(|name| [bytes(1, name), tensor.clone()].concat());
    let graph = [chain.graph, bytes(2, "network"), bytes(11, input), bytes(12, output)].concat();
    [number(1, 8), bytes(7, graph), bytes(8, number(2, 17))].concat()
}

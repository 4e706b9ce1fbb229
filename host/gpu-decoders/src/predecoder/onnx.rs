//! The layers of a network in integers, from an ONNX file; `training/predecoder/onnx_forms.py` writes them.

use crate::predecoder::layer::{DOUBLED, HalfLayer, Layer, NetworkError, TOP};
use half::f16;
use ringcall_infer::onnx_file::{Graph, Node, OnnxFile, Tensor};

/// One convolution: sizes of its weights, outermost first, and the numbers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Convolution {
    pub(crate) dims: Vec<usize>,
    pub(crate) layer: Layer,
}

/// What a file holds: its convolutions in order, and what it says about itself.
pub(crate) type Found = (Vec<Convolution>, Vec<(String, String)>);

/// The parts of a network in integers.
const OPERATORS: [&str; 5] = ["Mul", "Conv", "Round", "Add", "Clip"];

/// The convolutions of a graph that is a chain of them in integers.
pub(crate) fn convolutions(bytes: &[u8]) -> Result<Found, NetworkError> {
    let OnnxFile { graph, metadata } = OnnxFile::read(bytes).map_err(|why| refuse(why.to_string()))?;
    let mut chain = Chain::of(&graph)?;
    let doubled = chain.next("Mul", 2)?;
    chain.is(doubled, 1, DOUBLED)?;
    let mut found = Vec::new();
    loop {
        let (dims, weights) = chain.weights()?;
        let outputs = dims.first().copied().unwrap_or(0);
        // Of integers it changes nothing.
        chain.next("Round", 1)?;
        let factors = chain.of_channels("Mul", outputs)?;
        let offsets = chain.of_channels("Add", outputs)?;
        found.push(Convolution { dims, layer: Layer { weights, factors, offsets } });
        if chain.is_over() {
            return Ok((found, metadata));
        }
        chain.next("Round", 1)?;
        let clip = chain.next("Clip", 3)?;
        chain.is(clip, 1, 0)?;
        chain.is(clip, 2, TOP)?;
    }
}

/// What a file with a network in floating point holds: sizes of each convolution's weights and its numbers, and what it says about itself.
pub(crate) type PlainFound = (Vec<(Vec<usize>, HalfLayer)>, Vec<(String, String)>);

/// The convolutions of a graph that is a chain of them with ReLU between.
pub(crate) fn plain_convolutions(bytes: &[u8]) -> Result<PlainFound, NetworkError> {
    let OnnxFile { graph, metadata } = OnnxFile::read(bytes).map_err(|why| refuse(why.to_string()))?;
    let mut chain = Chain::made_of(&graph, &["Conv", "Relu"], "a network in floating point")?;
    let mut found = Vec::new();
    loop {
        let node = chain.next("Conv", 2)?;
        attributes(node)?;
        let (dims, weights) = values(&graph, &node.input[1])?;
        let outputs = dims.first().copied().unwrap_or(0);
        let biases = match node.input.get(2).filter(|name| !name.is_empty()) {
            Some(name) => values(&graph, name)?.1,
            None => vec![0.0; outputs],
        };
        let weights = weights.into_iter().map(f16::from_f32).collect();
        found.push((dims, HalfLayer { weights, biases }));
        if chain.is_over() {
            return Ok((found, metadata));
        }
        chain.next("Relu", 1)?;
    }
}

fn refuse(why: String) -> NetworkError {
    NetworkError::Unreadable(why)
}

/// The operators of a graph, each on what the one before it leaves.
struct Chain<'a> {
    graph: &'a Graph,
    rest: std::vec::IntoIter<&'a Node>,
    /// What the last one leaves, and which it was.
    flows: Option<(&'a str, &'a str)>,
    /// Its expected form, in words.
    what: &'static str,
}

/// The nodes of a graph, but for casts of constants, which `values` sees through.
fn operators_of(graph: &Graph) -> Vec<&Node> {
    let of_constant = |node: &Node| {
        node.input.first().is_some_and(|name| graph.initializer.iter().any(|tensor| tensor.name == *name))
    };
    graph.node.iter().filter(|node| node.op_type != "Cast" || !of_constant(node)).collect()
}

impl<'a> Chain<'a> {
    fn of(graph: &'a Graph) -> Result<Self, NetworkError> {
        let rest = operators_of(graph);
        let named = |name: &str| rest.iter().any(|node| node.op_type == name);
        if named("Relu") || (named("Conv") && rest.iter().all(|node| node.op_type == "Conv")) {
            return Err(NetworkError::InFloatingPoint);
        }
        Self::made_of(graph, &OPERATORS, "a network in integers")
    }

    fn made_of(graph: &'a Graph, operators: &[&str], what: &'static str) -> Result<Self, NetworkError> {
        let rest = operators_of(graph);
        if let Some(other) = rest.iter().find(|node| !operators.contains(&node.op_type.as_str())) {
            return Err(refuse(format!(
                "operator `{}`: {what} is made of {operators:?}; export it without what comes before and after it",
                other.op_type
            )));
        }
        Ok(Self { graph, rest: rest.into_iter(), flows: None, what })
    }

    fn is_over(&self) -> bool {
        self.rest.as_slice().is_empty()
    }

    /// The next operator, which has to be this one, with so many inputs; settings are a convolution's alone.
    fn next(&mut self, operator: &str, inputs: usize) -> Result<&'a Node, NetworkError> {
        let after = || match self.flows {
            Some((_, before)) => format!("after `{before}`"),
            None => "at the beginning".to_owned(),
        };
        let node = match self.rest.next() {
            Some(node) if node.op_type == operator => node,
            found => {
                let found = found.map_or("nothing".to_owned(), |node| format!("`{}`", node.op_type));
                return Err(refuse(format!("{found} {}, where {} has `{operator}`", after(), self.what)));
            }
        };
        let input = node.input.first().map(String::as_str);
        if self.flows.is_some_and(|(flows, _)| input != Some(flows)) {
            return Err(refuse(format!("`{operator}` {} is not the next of a chain", after())));
        }
        let [output] = node.output.as_slice() else {
            return Err(refuse(format!("`{operator}` with {} outputs", node.output.len())));
        };
        // An input without a name is one that is left out.
        let given = node.input.len() - usize::from(node.input.last().is_some_and(String::is_empty));
        let optional = usize::from(operator == "Conv");
        if !(inputs..=inputs + optional).contains(&given) {
            return Err(refuse(format!("`{operator}` of {given} inputs")));
        }
        if let (Some(attribute), true) = (node.attribute.first(), operator != "Conv") {
            return Err(refuse(format!("`{operator}` with `{}`", attribute.name)));
        }
        self.flows = Some((output, &node.op_type));
        Ok(node)
    }

    /// The next convolution's weights.
    fn weights(&mut self) -> Result<(Vec<usize>, Vec<i16>), NetworkError> {
        let node = self.next("Conv", 2)?;
        attributes(node)?;
        let (dims, weights) = values(self.graph, &node.input[1])?;
        if let Some(name) = node.input.get(2).filter(|name| !name.is_empty()) {
            let (_, biases) = values(self.graph, name)?;
            if let Some(bias) = biases.iter().find(|&&bias| bias != 0.0) {
                return Err(refuse(format!(
                    "`{name}`: a bias of {bias}; a network in integers has offsets instead"
                )));
            }
        }
        let integer = |&weight: &f32| {
            let cut = weight as i16;
            let whole = f32::from(cut) == weight;
            whole.then_some(cut).ok_or_else(|| {
                refuse(format!("`{}`: a weight of {weight}, which is no integer of 16 bits", node.input[1]))
            })
        };
        Ok((dims, weights.iter().map(integer).collect::<Result<_, _>>()?))
    }

    /// What the next operator, this one, has for each of so many channels.
    fn of_channels(&mut self, operator: &str, channels: usize) -> Result<Vec<f32>, NetworkError> {
        let node = self.next(operator, 2)?;
        let (dims, values) = values(self.graph, &node.input[1])?;
        if dims != [1, channels, 1, 1, 1] {
            return Err(refuse(format!(
                "`{}`: sizes {dims:?}, not one value for each of {channels} channels",
                node.input[1]
            )));
        }
        Ok(values)
    }

    /// Whether an operator's input is this number.
    fn is(&self, node: &Node, input: usize, number: i16) -> Result<(), NetworkError> {
        let (_, values) = values(self.graph, &node.input[input])?;
        if values == [f32::from(number)] {
            return Ok(());
        }
        Err(refuse(format!("`{}` with {values:?}, where a network in integers has {number}", node.op_type)))
    }
}

/// Stride 1, no dilation, one group, one position of padding all round. Where the file says nothing there is no padding; a
/// kernel of three that keeps the size has one.
fn attributes(node: &Node) -> Result<(), NetworkError> {
    let mut padded = false;
    for attribute in &node.attribute {
        let good = match attribute.name.as_str() {
            "kernel_shape" => attribute.ints == [3, 3, 3],
            "strides" | "dilations" => attribute.ints.iter().all(|&v| v == 1),
            "pads" => {
                padded = true;
                attribute.ints == [1; 6]
            }
            "auto_pad" => {
                let same = [&b"SAME_UPPER"[..], b"SAME_LOWER"].contains(&&*attribute.s);
                padded |= same;
                same || attribute.s == b"NOTSET"
            }
            "group" => attribute.i == 1,
            _ => true,
        };
        if !good {
            let value = match attribute.name.as_str() {
                "group" => attribute.i.to_string(),
                "auto_pad" => String::from_utf8_lossy(&attribute.s).into_owned(),
                _ => format!("{:?}", attribute.ints),
            };
            return Err(NetworkError::Unreadable(format!("a convolution with `{}` {value}", attribute.name)));
        }
    }
    if padded {
        return Ok(());
    }
    Err(NetworkError::Unreadable("a convolution without `pads`, which is one without padding".to_owned()))
}

/// An initialiser, perhaps with a cast after it.
fn values(graph: &Graph, name: &str) -> Result<(Vec<usize>, Vec<f32>), NetworkError> {
    let refuse = |why: String| NetworkError::Unreadable(format!("`{name}`: {why}"));
    let cast = graph.node.iter().find(|node| node.op_type == "Cast" && node.output.iter().any(|o| o == name));
    let single =
        |node: &Node| node.attribute.iter().any(|a| a.name == "to" && a.i == i64::from(Tensor::FLOAT));
    if cast.is_some_and(|node| !single(node)) {
        return Err(refuse("a cast to another type than f32".to_owned()));
    }
    let source = cast.and_then(|node| node.input.first()).map_or(name, String::as_str);
    let tensor = graph
        .initializer
        .iter()
        .find(|tensor| tensor.name == source)
        .ok_or_else(|| refuse("not among the file's constants".to_owned()))?;
    let dims = tensor
        .dims
        .iter()
        .map(|&d| usize::try_from(d).ok())
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| refuse(format!("sizes {:?}", tensor.dims)))?;
    let values: Vec<f32> = match tensor.data_type {
        Tensor::FLOAT if tensor.raw_data.is_empty() => tensor.float_data.clone(),
        Tensor::FLOAT => tensor.raw_data.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
        Tensor::FLOAT16 if tensor.raw_data.is_empty() => {
            tensor.int32_data.iter().map(|&v| f16::from_bits(v as u16).to_f32()).collect()
        }
        Tensor::FLOAT16 => {
            tensor.raw_data.as_chunks().0.iter().map(|b| f16::from_le_bytes(*b).to_f32()).collect()
        }
        other => return Err(refuse(format!("element type {other}; f32 and f16 are read"))),
    };
    let expected = dims.iter().try_fold(1_usize, |n, &d| n.checked_mul(d));
    if expected != Some(values.len()) {
        return Err(refuse(format!("{} values for sizes {dims:?}", values.len())));
    }
    Ok((dims, values))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringcall_infer::onnx_file::Attribute;

    fn node(op: &str, input: &[&str], output: &str) -> Node {
        let input = input.iter().map(|&name| name.to_owned()).collect();
        let attribute = match op {
            "Conv" => vec![ints("pads", &[1; 6])],
            "Cast" => vec![Attribute { name: "to".to_owned(), i: 1, ..Default::default() }],
            _ => Vec::new(),
        };
        Node { op_type: op.to_owned(), input, output: vec![output.to_owned()], attribute }
    }

    fn ints(name: &str, ints: &[i64]) -> Attribute {
        Attribute { name: name.to_owned(), ints: ints.to_vec(), ..Default::default() }
    }

    fn string(name: &str, value: &str) -> Attribute {
        Attribute { name: name.to_owned(), s: value.as_bytes().to_vec(), ..Default::default() }
    }

    /// Of two layers, with casts after the first one's weights and the second one's factors, and a bias of zeros.
    fn chain() -> Graph {
        Graph {
            node: vec![
                node("Mul", &["volume", "doubled"], "in"),
                node("Cast", &["w0"], "w0.f32"),
                node("Conv", &["in", "w0.f32"], "s0"),
                node("Round", &["s0"], "i0"),
                node("Mul", &["i0", "f0"], "m0"),
                node("Add", &["m0", "o0"], "a0"),
                node("Round", &["a0"], "r0"),
                node("Clip", &["r0", "bottom", "top"], "c0"),
                node("Conv", &["c0", "w1", "b1"], "s1"),
                node("Round", &["s1"], "i1"),
                node("Cast", &["f1"], "f1.f32"),
                node("Mul", &["i1", "f1.f32"], "m1"),
                node("Add", &["m1", "o1"], "logits"),
            ],
            initializer: vec![
                constant("doubled", &[1], &[2.0], false),
                constant("bottom", &[1], &[0.0], false),
                constant("top", &[], &[255.0], true),
                constant("w0", &[2, 4, 3, 3, 3], &told(216), true),
                constant("f0", &[1, 2, 1, 1, 1], &[0.1, 0.2], false),
                constant("o0", &[1, 2, 1, 1, 1], &[0.3, 0.4], false),
                constant("w1", &[4, 2, 3, 3, 3], &told(216), false),
                constant("b1", &[4], &[0.0, -0.0, 0.0, 0.0], false),
                constant("f1", &[1, 4, 1, 1, 1], &[0.5, 0.25, 0.125, 1.0], true),
                constant("o1", &[1, 4, 1, 1, 1], &[1.0, 2.0, 3.0, 4.0], false),
            ],
        }
    }

    fn told(count: i16) -> Vec<f32> {
        (0..count).map(|i| f32::from(i - 100)).collect()
    }

    fn constant(name: &str, dims: &[i64], values: &[f32], half: bool) -> Tensor {
        let raw = |&value: &f32| match half {
            true => f16::from_f32(value).to_le_bytes().to_vec(),
            false => value.to_le_bytes().to_vec(),
        };
        let data_type = if half { Tensor::FLOAT16 } else { Tensor::FLOAT };
        let raw_data = values.iter().flat_map(raw).collect();
        Tensor { name: name.to_owned(), dims: dims.to_vec(), data_type, raw_data, ..Default::default() }
    }

    fn read(graph: Graph) -> Result<Found, NetworkError> {
        convolutions(&OnnxFile { graph, metadata: Vec::new() }.to_bytes())
    }

    /// What is said of the chain, changed.
    fn refused(change: impl FnOnce(&mut Graph)) -> String {
        let mut graph = chain();
        change(&mut graph);
        read(graph).expect_err("refused").to_string()
    }

    #[test]
    fn a_chain_is_read_through_casts() {
        let (found, _) = read(chain()).expect("readable");
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].dims, [2, 4, 3, 3, 3]);
        assert_eq!(found[0].layer.weights, Vec::from_iter(-100_i16..116));
        assert_eq!(found[0].layer.factors, [0.1, 0.2]);
        assert_eq!(found[0].layer.offsets, [0.3, 0.4]);
        assert_eq!(found[1].layer.factors, [0.5, 0.25, 0.125, 1.0]);
    }

    /// As the exporter writes them, here of other sizes than the kernel's.
    #[test]
    fn an_exported_network_is_one() {
        let file = include_bytes!("../../../infer/tests/data/predecoder_in_integers.onnx");
        let (found, _) = convolutions(file).expect("readable");
        let dims: Vec<_> = found.iter().map(|one| &one.dims[..2]).collect();
        assert_eq!(dims, [[8, 4], [8, 8], [4, 8]]);
        for (one, largest) in found.iter().zip([511, 127, 511]) {
            assert_eq!(one.layer.weights.iter().map(|w| w.abs()).max(), Some(largest));
            assert!(one.layer.factors.iter().all(|&factor| factor > 0.0));
        }
        let network = crate::predecoder::Network::from_onnx(file).expect("a network");
        assert_eq!(network.widths(), [8, 8, 4]);
    }

    /// Four layers of the kernel's sizes, and one of them taken out.
    #[test]
    fn a_file_of_the_kernels_sizes_is_a_network() {
        let file = |sizes: &[(usize, usize)]| {
            let mut graph = Graph { node: vec![node("Mul", &["volume", "two"], "x0")], ..Default::default() };
            graph.initializer.push(constant("two", &[1], &[2.0], false));
            graph.initializer.push(constant("0", &[1], &[0.0], false));
            graph.initializer.push(constant("255", &[1], &[255.0], false));
            for (k, &(inputs, outputs)) in sizes.iter().enumerate() {
                let name = |what: &str| format!("{what}{k}");
                let [x, w, s, i, f, m, o, a, r] = ["x", "w", "s", "i", "f", "m", "o", "a", "r"].map(name);
                let dims = [outputs as i64, inputs as i64, 3, 3, 3];
                let weights: Vec<f32> = (0..outputs * inputs * 27).map(|i| (i % 7) as f32 - 3.0).collect();
                let channels = [1, outputs as i64, 1, 1, 1];
                let values: Vec<f32> = (0..outputs).map(|i| i as f32 + 0.5).collect();
                graph.initializer.push(constant(&w, &dims, &weights, true));
                graph.initializer.push(constant(&f, &channels, &values, false));
                graph.initializer.push(constant(&o, &channels, &values, false));
                graph.node.push(node("Conv", &[&x, &w], &s));
                graph.node.push(node("Round", &[&s], &i));
                graph.node.push(node("Mul", &[&i, &f], &m));
                graph.node.push(node("Add", &[&m, &o], &a));
                if k + 1 < sizes.len() {
                    graph.node.push(node("Round", &[&a], &r));
                    graph.node.push(node("Clip", &[&r, "0", "255"], &format!("x{}", k + 1)));
                }
            }
            OnnxFile { graph, metadata: vec![("threshold".to_owned(), "2.0".to_owned())] }.to_bytes()
        };
        let sizes = [(4, 128), (128, 128), (128, 128), (128, 4)];
        let network = crate::predecoder::Network::from_onnx(&file(&sizes)).expect("a network");
        assert_eq!(network.metadata(), [("threshold".to_owned(), "2.0".to_owned())]);
        assert_eq!(network.layers()[2].weights[..9], [-3, -2, -1, 0, 1, 2, 3, -3, -2]);
        assert_eq!(network.layers()[3].offsets, [0.5, 1.5, 2.5, 3.5]);
        for sizes in [&[(4, 64), (64, 4)][..], &[(4, 128), (128, 96), (96, 128), (128, 128), (128, 4)]] {
            let network = crate::predecoder::Network::from_onnx(&file(sizes)).expect("a network");
            assert!(network.widths().iter().eq(sizes.iter().map(|(_, outputs)| outputs)));
        }
        for (sizes, layer) in [
            (&sizes[..2], 1),
            (&sizes[..1], 1),
            (&[(4, 128), (64, 128), (128, 4)], 1),
            (&[(4, 520), (520, 4)], 0),
        ] {
            let why = crate::predecoder::Network::from_onnx(&file(sizes)).expect_err("another shape");
            assert!(matches!(why, NetworkError::OtherShape { layer: l, .. } if l == layer), "{why}");
        }
    }

    #[test]
    fn the_committed_network_is_read() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../training/models/predecoder_3x128_int8.onnx");
        let network = crate::predecoder::Network::from_onnx(&std::fs::read(path).expect("the file"))
            .expect("a network");
        let largest: Vec<_> =
            network.layers().iter().map(|layer| layer.weights.iter().map(|w| w.abs()).max()).collect();
        // Each channel's weights were scaled to fill what there is.
        assert_eq!(largest, [511, 127, 127, 511].map(Some));
        let says = |key: &str| network.metadata().iter().any(|(k, _)| k == key);
        assert!(says("predecoder.threshold.d13.p0.003"), "{:?}", network.metadata());
    }

    /// The networks that were trained first: convolutions with ReLU between.
    #[test]
    fn a_network_in_floating_point_is_read_in_halves() {
        let read_file = |name: &str| {
            let path = format!("{}/../../training/models/{name}.onnx", env!("CARGO_MANIFEST_DIR"));
            crate::predecoder::Network::from_onnx(&std::fs::read(path).expect("the file"))
        };
        for (name, width) in [("predecoder_3x128", 128), ("predecoder_3x64", 64)] {
            let network = read_file(name).expect("a network");
            assert_eq!(
                (network.widths(), network.layers()),
                (vec![width, width, width, 4], &[][..]),
                "{name}"
            );
            assert!(network.half_layers().iter().all(|layer| layer.biases.iter().any(|&bias| bias != 0.0)));
            assert_eq!(network.fused(), Err(NetworkError::InFloatingPoint), "{name}");
        }
        let why = read_file("predecoder_3x128_d7_r7_Z.measurements").expect_err("refused");
        assert!(why.to_string().contains("a network in floating point is made of"), "{why}");
        let of = |nodes: Vec<Node>| read(Graph { node: nodes, ..chain() });
        let conv = |input, output| node("Conv", &[input, "w1", "b1"], output);
        assert_eq!(of(vec![conv("x", "a")]), Err(NetworkError::InFloatingPoint));
        let nodes = vec![conv("x", "a"), node("Relu", &["a"], "b"), conv("b", "c")];
        assert_eq!(of(nodes), Err(NetworkError::InFloatingPoint));
    }

    #[test]
    fn what_is_no_chain_is_refused() {
        let says = |change: fn(&mut Graph), part: &str| {
            let why = refused(change);
            assert!(why.contains(part), "{why}");
        };
        says(|g| g.node[8].input[0] = "volume".to_owned(), "`Conv` after `Clip` is not the next of a chain");
        says(|g| g.node.insert(3, node("Tanh", &["s0"], "t")), "operator `Tanh`");
        says(|g| g.node.insert(0, node("Cast", &["bits"], "volume")), "operator `Cast`");
        says(|g| g.initializer[6].dims[0] = 5, "216 values for sizes [5, 2, 3, 3, 3]");
        says(|g| g.initializer[4].data_type = 7, "element type 7");
        says(|g| g.node[2].attribute.push(ints("strides", &[1, 2, 1])), "strides");
        says(|g| g.node[1].attribute[0].i = 10, "`w0.f32`: a cast to another type than f32");
        says(|g| g.node[1].attribute.clear(), "`w0.f32`: a cast to another type than f32");
        says(|g| g.node[8].input.truncate(1), "`Conv` of 1 inputs");
        says(|g| g.node[8].input[1] = "elsewhere".to_owned(), "`elsewhere`: not among the file's constants");
        assert!(convolutions(b"no model").is_err());
        assert!(convolutions(&[]).is_err());
        assert_eq!(
            read(Graph::default()).map_err(|why| why.to_string()).map(|_| ()),
            Err(
                "the network cannot be read: nothing at the beginning, where a network in integers has `Mul`"
                    .to_owned()
            )
        );
    }

    /// Each operator has its position, and each left out is missed.
    #[test]
    fn operators_come_in_one_order() {
        // The operators apart from casts; the remaining nodes are made a chain again.
        let missing = |at: usize| {
            refused(|graph| {
                let gone = graph.node.remove(at);
                for node in &mut graph.node {
                    node.input.iter_mut().filter(|name| **name == gone.output[0]).for_each(|name| {
                        name.clone_from(&gone.input[0]);
                    });
                }
            })
        };
        for (at, part) in [
            (0, "`Conv` at the beginning, where a network in integers has `Mul`"),
            (2, "`Round` after `Mul`, where a network in integers has `Conv`"),
            (3, "`Mul` after `Conv`, where a network in integers has `Round`"),
            (4, "`Add` after `Round`, where a network in integers has `Mul`"),
            (5, "`Round` after `Mul`, where a network in integers has `Add`"),
            (6, "`Clip` after `Add`, where a network in integers has `Round`"),
            (7, "`Conv` after `Round`, where a network in integers has `Clip`"),
            (9, "`Mul` after `Conv`, where a network in integers has `Round`"),
            (12, "nothing after `Mul`, where a network in integers has `Add`"),
        ] {
            let why = missing(at);
            assert!(why.contains(part), "{at}: {why}");
        }
        let why = refused(|graph| graph.node.push(node("Round", &["logits"], "more")));
        assert!(why.contains("nothing after `Round`, where a network in integers has `Clip`"), "{why}");
    }

    #[test]
    fn numbers_are_those_of_the_form() {
        let says = |change: fn(&mut Graph), part: &str| {
            let why = refused(change);
            assert!(why.contains(part), "{why}");
        };
        let other = |name, values| constant(name, &[1], values, false);
        let mut three = chain();
        three.initializer[0] = other("doubled", &[3.0]);
        assert!(read(three).is_err_and(|why| why.to_string().contains("`Mul` with [3.0]")));
        let mut low = chain();
        low.initializer[1] = other("bottom", &[-128.0]);
        assert!(read(low).is_err_and(|why| why.to_string().contains("`Clip` with [-128.0]")));
        let mut high = chain();
        high.initializer[2] = other("top", &[127.0]);
        assert!(read(high).is_err_and(|why| why.to_string().contains("`Clip` with [127.0]")));
        let mut bias = chain();
        bias.initializer[7] = constant("b1", &[4], &[0.0, 0.0, 1.5, 0.0], false);
        assert!(read(bias).is_err_and(|why| why.to_string().contains("`b1`: a bias of 1.5")));
        for weight in [0.5, 40_000.0, f32::NAN] {
            let mut graph = chain();
            graph.initializer[6].raw_data[..4].copy_from_slice(&weight.to_le_bytes());
            let why = read(graph).expect_err("refused").to_string();
            assert!(why.contains(&format!("`w1`: a weight of {weight}")), "{why}");
        }
        says(|g| g.initializer[4].dims = vec![2], "`f0`: sizes [2], not one value for each of 2 channels");
        says(|g| g.initializer[9].dims = vec![4, 1, 1, 1, 1], "`o1`: sizes [4, 1, 1, 1, 1]");
        says(|g| g.node[7].input.truncate(2), "`Clip` of 2 inputs");
        says(|g| g.node[4].attribute.push(ints("axis", &[1])), "`Mul` with `axis`");
    }

    #[test]
    fn padding_is_one_position_or_the_network_is_another() {
        let with = |attributes: Vec<Attribute>| {
            let mut graph = chain();
            graph.node[8].attribute = attributes;
            read(graph).map(|_| ()).map_err(|why| why.to_string())
        };
        let padded = ints("pads", &[1; 6]);
        for good in [
            vec![padded.clone()],
            vec![string("auto_pad", "NOTSET"), padded.clone()],
            vec![string("auto_pad", "SAME_UPPER")],
            vec![string("auto_pad", "SAME_LOWER")],
        ] {
            assert_eq!(with(good.clone()), Ok(()), "{good:?}");
        }
        for (bad, part) in [
            (vec![], "without `pads`"),
            (vec![ints("pads", &[0; 6])], "`pads` [0, 0, 0, 0, 0, 0]"),
            (vec![ints("pads", &[1; 4])], "`pads` [1, 1, 1, 1]"),
            (vec![string("auto_pad", "NOTSET")], "without `pads`"),
            (vec![string("auto_pad", "VALID")], "`auto_pad` VALID"),
            (vec![string("auto_pad", "VALID"), padded.clone()], "`auto_pad` VALID"),
            (vec![string("auto_pad", "")], "`auto_pad` "),
            (vec![padded, Attribute { name: "group".to_owned(), i: 2, ..Default::default() }], "`group` 2"),
        ] {
            let why = with(bad.clone()).expect_err("refused");
            assert!(why.contains(part), "{bad:?}: {why}");
        }
    }
}

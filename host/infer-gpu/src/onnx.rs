//! The weights of a chain of convolutions, from an ONNX file.

use crate::NetworkError;
use half::f16;
use ringcall_infer::onnx_file::{Graph, Node, OnnxFile, Tensor};

/// One convolution: sizes of its weights, outermost first, and the values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Convolution {
    pub(crate) dims: Vec<usize>,
    pub(crate) weights: Vec<f32>,
    pub(crate) biases: Vec<f32>,
}

/// What a file holds: its convolutions in order, and what it says about itself.
pub(crate) type Chain = (Vec<Convolution>, Vec<(String, String)>);

/// The convolutions of a graph that is a chain of them, with ReLU between.
pub(crate) fn convolutions(bytes: &[u8]) -> Result<Chain, NetworkError> {
    let refuse = |why: String| NetworkError::Unreadable(why);
    let OnnxFile { graph, metadata } = OnnxFile::read(bytes).map_err(|why| refuse(why.to_string()))?;
    let mut found = Vec::new();
    let mut flows = None::<String>;
    // Of what flows, the convolutions and ReLUs so far, in turns.
    let mut relus = 0;
    for node in &graph.node {
        let input = node.input.first();
        let follows = || {
            if flows.is_none() || flows.as_ref() == input {
                return Ok(());
            }
            Err(refuse(format!(
                "`{}` after convolution {} is not the next of a chain",
                node.op_type,
                found.len()
            )))
        };
        match node.op_type.as_str() {
            "Conv" => {
                follows()?;
                if relus != found.len() {
                    return Err(refuse(format!("no ReLU after convolution {}", found.len())));
                }
                attributes(node)?;
                found.push(convolution(&graph, node)?);
                flows = node.output.first().cloned();
            }
            "Relu" => {
                follows()?;
                relus += 1;
                if relus != found.len() {
                    return Err(refuse(format!("{relus} ReLU after {} convolutions", found.len())));
                }
                flows = node.output.first().cloned();
            }
            // Of an initialiser, which `values` sees through.
            "Cast" if input.is_some_and(|name| graph.initializer.iter().any(|t| t.name == *name)) => (),
            other => {
                return Err(refuse(format!(
                    "operator `{other}`: the network is plain convolutions with ReLU between; export it without what \
                     comes before and after it"
                )));
            }
        }
    }
    if found.is_empty() || relus + 1 != found.len() {
        return Err(refuse(format!("{} convolutions with {relus} ReLU between", found.len())));
    }
    Ok((found, metadata))
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

fn convolution(graph: &Graph, node: &Node) -> Result<Convolution, NetworkError> {
    let [_, weights, biases] = node.input.as_slice() else {
        return Err(NetworkError::Unreadable("a convolution without weights or biases".to_owned()));
    };
    let (dims, weights) = values(graph, weights)?;
    let (_, biases) = values(graph, biases)?;
    Ok(Convolution { dims, weights, biases })
}

/// An initialiser, perhaps behind a cast.
fn values(graph: &Graph, name: &str) -> Result<(Vec<usize>, Vec<f32>), NetworkError> {
    let refuse = |why: String| NetworkError::Unreadable(format!("`{name}`: {why}"));
    let cast = graph.node.iter().find(|node| node.op_type == "Cast" && node.output.iter().any(|o| o == name));
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

    fn tensor(name: &str, dims: &[i64], half: bool) -> Tensor {
        let count = dims.iter().product::<i64>() as usize;
        let value = |i: usize| i as f32 / 8.0 - 1.0;
        let raw_data = (0..count)
            .flat_map(|i| match half {
                true => f16::from_f32(value(i)).to_le_bytes().to_vec(),
                false => value(i).to_le_bytes().to_vec(),
            })
            .collect();
        let data_type = if half { Tensor::FLOAT16 } else { Tensor::FLOAT };
        Tensor { name: name.to_owned(), dims: dims.to_vec(), data_type, raw_data, ..Default::default() }
    }

    fn node(op: &str, input: &[&str], output: &str) -> Node {
        let input = input.iter().map(|&name| name.to_owned()).collect();
        let attribute = if op == "Conv" { vec![ints("pads", &[1; 6])] } else { Vec::new() };
        Node { op_type: op.to_owned(), input, output: vec![output.to_owned()], attribute }
    }

    fn ints(name: &str, ints: &[i64]) -> Attribute {
        Attribute { name: name.to_owned(), ints: ints.to_vec(), ..Default::default() }
    }

    fn string(name: &str, value: &str) -> Attribute {
        Attribute { name: name.to_owned(), s: value.as_bytes().to_vec(), ..Default::default() }
    }

    fn chain() -> Graph {
        Graph {
            node: vec![
                node("Cast", &["w0"], "w0.f32"),
                node("Conv", &["volume", "w0.f32", "b0"], "c0"),
                node("Relu", &["c0"], "r0"),
                node("Conv", &["r0", "w1", "b1"], "logits"),
            ],
            initializer: vec![
                tensor("w0", &[2, 4, 3, 3, 3], true),
                tensor("b0", &[2], false),
                tensor("w1", &[4, 2, 3, 3, 3], false),
                tensor("b1", &[4], false),
            ],
        }
    }

    fn read(graph: Graph) -> Result<Chain, NetworkError> {
        convolutions(&OnnxFile { graph, metadata: Vec::new() }.to_bytes())
    }

    #[test]
    fn a_chain_is_read_through_casts() {
        let (found, _) = read(chain()).expect("readable");
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].dims, [2, 4, 3, 3, 3]);
        assert_eq!(found[0].weights[9], 0.125);
        assert_eq!(found[1].biases, [-1.0, -0.875, -0.75, -0.625]);
    }

    /// The network that is trained here, as its exporter writes it.
    #[test]
    fn the_trained_network_is_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../training/models/predecoder_3x128.onnx");
        let network = crate::Network::from_onnx(&std::fs::read(path).expect("the file"));
        assert_eq!(network.map(|_| ()), Ok(()));
    }

    #[test]
    fn what_is_no_chain_is_refused() {
        let refused = |graph, part: &str| {
            let why = read(graph).expect_err("refused").to_string();
            assert!(why.contains(part), "{why}");
        };
        let mut graph = chain();
        graph.node[3].input[0] = "volume".to_owned();
        refused(graph, "not the next of a chain");
        let mut graph = chain();
        graph.node.insert(2, node("Tanh", &["c0"], "t"));
        refused(graph, "operator `Tanh`");
        let mut graph = chain();
        graph.initializer[2].raw_data.pop();
        graph.initializer[2].dims[0] = 5;
        refused(graph, "values for sizes");
        let mut graph = chain();
        graph.initializer[1].data_type = 7;
        refused(graph, "element type 7");
        let mut graph = chain();
        graph.node[1].attribute.push(ints("strides", &[1, 2, 1]));
        refused(graph, "strides");
        assert!(convolutions(b"no model").is_err());
        assert!(convolutions(&[]).is_err());
    }

    #[test]
    fn padding_is_one_position_or_the_network_is_another() {
        let with = |attributes: Vec<Attribute>| {
            let mut graph = chain();
            graph.node[3].attribute = attributes;
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

    /// As many ReLUs as there are gaps, in other places.
    #[test]
    fn convolutions_and_relus_take_turns() {
        let conv = |input, output| node("Conv", &[input, "w1", "b1"], output);
        let relu = |input, output| node("Relu", &[input], output);
        let of = |nodes: Vec<Node>| {
            read(Graph { node: nodes, ..chain() })
                .map(|(found, _)| found.len())
                .map_err(|why| why.to_string())
        };
        assert_eq!(of(vec![conv("x", "a")]), Ok(1));
        assert_eq!(
            of(vec![conv("x", "a"), relu("a", "b"), conv("b", "c"), relu("c", "d"), conv("d", "e")]),
            Ok(3)
        );
        for (nodes, part) in [
            (vec![relu("x", "a"), conv("a", "b"), conv("b", "c")], "1 ReLU after 0"),
            (vec![conv("x", "a"), conv("a", "b"), relu("b", "c")], "no ReLU after convolution 1"),
            (
                vec![conv("x", "a"), relu("a", "b"), relu("b", "c"), conv("c", "d"), conv("d", "e")],
                "2 ReLU after 1",
            ),
            (
                vec![conv("x", "a"), relu("a", "b"), conv("b", "c"), relu("c", "d")],
                "2 convolutions with 2 ReLU",
            ),
            (vec![], "0 convolutions"),
        ] {
            let why = of(nodes).expect_err("refused");
            assert!(why.contains(part), "{why}");
        }
    }
}

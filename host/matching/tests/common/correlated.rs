//! Error models with known answers of correlated matching (written by `tests/data/make_correlated.py`), and a second
//! implementation of how weights are lowered, to check the decoder by.

use std::collections::HashMap;

use ringcall_matching::{
    DecoderConfig, ErrorPart, GraphBuilder, MatchingError, MatchingGraph, MatchingGraphError, MwpmDecoder,
};

/// An edge: its detectors in order.
pub(crate) type Ends = (u32, Option<u32>);

/// An error: its probability, and the detectors and observables of its parts.
pub(crate) type ModelError = (f64, Vec<(Vec<u32>, Vec<u32>)>);

#[derive(Debug, Clone)]
pub(crate) struct Model {
    pub(crate) detectors: usize,
    pub(crate) observables: usize,
    pub(crate) errors: Vec<ModelError>,
}

/// What is expected of one list of defects.
pub(crate) struct Shot {
    pub(crate) defects: Vec<u32>,
    /// `None` where there is no correction.
    pub(crate) answer: Option<Answer>,
}

pub(crate) struct Answer {
    /// Of the second pass.
    pub(crate) weight: f64,
    pub(crate) observables: Vec<u32>,
    /// The edges of the first pass.
    pub(crate) first: Vec<Ends>,
    /// The observables that were flipped.
    pub(crate) truth: Option<Vec<u32>>,
}

/// How a decoder fared on a shot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing differs.
    Same,
    /// The weights are the same, the observables are not.
    SecondTie,
    /// The first passes differ (at the same weight), and so do the weights of the second ones.
    FirstTie,
}

fn list(text: &str) -> Vec<u32> {
    text.split(',').filter(|s| !s.is_empty()).map(|s| s.parse().expect("an index")).collect()
}

pub(crate) fn ends(detectors: &[u32]) -> Ends {
    match *detectors {
        [u] => (u, None),
        [u, v] => (u.min(v), Some(u.max(v))),
        _ => panic!("{detectors:?} is no edge"),
    }
}

/// Reads one line.
pub(crate) fn parse(line: &str) -> (Model, Vec<Shot>) {
    let mut fields = line.split('|');
    let mut errors = fields.next().expect("a model").split(';');
    let (detectors, observables) = errors.next().expect("a head").split_once(' ').expect("two counts");
    let part = |text: &str| {
        let (detectors, observables) = text.split_once(':').expect("a part");
        (list(detectors), list(observables))
    };
    let model = Model {
        detectors: detectors.parse().expect("a count"),
        observables: observables.parse().expect("a count"),
        errors: errors
            .map(|text| {
                let (p, parts) = text.split_once(' ').expect("an error");
                (p.parse().expect("a probability"), parts.split('^').map(part).collect())
            })
            .collect(),
    };
    let edge = |text: &str| {
        let (u, v) = text.split_once('-').expect("an edge");
        let mut both = list(u);
        both.extend(v.parse::<u32>());
        ends(&both)
    };
    let shots = fields.map(|field| {
        let (defects, answer) = field.split_once('=').expect("an answer");
        let answer = (answer != "odd").then(|| {
            let mut words = answer.split(' ');
            let mut word = || words.next().expect("four words");
            Answer {
                weight: word().parse().expect("a weight"),
                observables: list(word()),
                first: word().split(',').filter(|s| !s.is_empty()).map(edge).collect(),
                truth: Some(word()).filter(|&w| w != "?").map(list),
            }
        });
        Shot { defects: list(defects), answer }
    });
    (model, shots.collect())
}

impl Model {
    pub(crate) fn graph(&self) -> Result<MatchingGraph, MatchingGraphError> {
        let mut b = GraphBuilder::new();
        b.ensure_detectors(self.detectors).ensure_observables(self.observables);
        for (p, parts) in &self.errors {
            let parts: Vec<ErrorPart<'_>> =
                parts.iter().map(|(detectors, observables)| ErrorPart { detectors, observables }).collect();
            b.error(*p, &parts)?;
        }
        b.build()
    }

    /// For each ordered pair of edges that share an error, the weight of the second one given the first.
    pub(crate) fn implied(&self) -> HashMap<Ends, Vec<(Ends, f64)>> {
        let xor = |p: f64, q: f64| p * (1.0 - q) + q * (1.0 - p);
        let mut joint: HashMap<(Ends, Ends), f64> = HashMap::new();
        for (p, parts) in &self.errors {
            let edges: Vec<Ends> = parts.iter().filter(|d| !d.0.is_empty()).map(|d| ends(&d.0)).collect();
            for i in 0..edges.len() {
                for j in 0..edges.len() {
                    let at = joint.entry((edges[i], edges[j])).or_insert(0.0);
                    *at = xor(*at, *p);
                }
            }
        }
        let mut out: HashMap<Ends, Vec<(Ends, f64)>> = HashMap::new();
        for (&(a, b), &both) in joint.iter().filter(|((a, b), both)| a != b && **both > 0.0) {
            let p = (both / joint[&(a, a)]).min(0.5);
            out.entry(a).or_default().push((b, ((1.0 - p) / p).ln()));
        }
        out
    }
}

/// Checks a decoder against a plain one on graphs made for the shot, and against the answer known.
pub(crate) struct Checker {
    model: Model,
    implied: HashMap<Ends, Vec<(Ends, f64)>>,
    plain: MwpmDecoder,
    pub(crate) decoder: MwpmDecoder,
}

impl Checker {
    pub(crate) fn new(model: Model, config: &DecoderConfig) -> Self {
        let graph = model.graph().expect("a good graph");
        let mut config = config.clone();
        config.correlations = false;
        // A first pass is made without the table, and where there are ties it matters how they are broken.
        config.pair_table = false;
        let plain = MwpmDecoder::with_config(graph.clone(), &config);
        config.correlations = true;
        let decoder = MwpmDecoder::with_config(graph, &config);
        Self { implied: model.implied(), model, plain, decoder }
    }

    fn ends(&self, edges: &[u32]) -> Vec<Ends> {
        edges.iter().map(|&e| &self.plain.graph().edges()[e as usize]).map(|e| (e.u, e.v)).collect()
    }

    /// The graph with weights lowered as the edges of a first pass demand, as whole numbers of half grid steps.
    pub(crate) fn lowered(&self, first: &[Ends]) -> MatchingGraph {
        let graph = self.plain.graph();
        let mut weights: HashMap<Ends, f64> = HashMap::new();
        for (i, edge) in graph.edges().iter().enumerate() {
            weights.insert((edge.u, edge.v), graph.grid_weight(i) as f64 / 2.0);
        }
        for given in first {
            for (other, weight) in self.implied.get(given).into_iter().flatten() {
                let at = weights.get_mut(other).expect("an edge");
                *at = at.min((weight * graph.scale()).round());
            }
        }
        let mut b = GraphBuilder::new();
        b.ensure_detectors(graph.num_detectors()).ensure_observables(graph.num_observables());
        for edge in graph.edges() {
            let weight = weights[&(edge.u, edge.v)];
            match edge.v {
                Some(v) => b.edge(edge.u, v, weight, &edge.observables),
                None => b.boundary_edge(edge.u, weight, &edge.observables),
            }
            .expect("a good edge");
        }
        b.build().expect("a good graph")
    }

    /// The grid weight of the second pass after this first one, by a fresh decoder.
    pub(crate) fn second(&self, first: &[Ends], defects: &[u32]) -> i64 {
        let mut config = DecoderConfig::default();
        config.near_entries = 0;
        let mut fresh = MwpmDecoder::with_config(self.lowered(first), &config);
        fresh.decode(defects).expect("a solution").grid_weight()
    }

    /// Decodes and checks all that can be checked without an answer; `None` where there is no correction.
    pub(crate) fn decode(&mut self, defects: &[u32], thorough: bool) -> Result<Option<i64>, String> {
        let solution = match self.decoder.decode(defects) {
            Ok(solution) => solution.clone(),
            Err(MatchingError::OddParity { .. }) => return Ok(None),
            Err(e) => return Err(format!("failed: {e}")),
        };
        if !thorough {
            return Ok(Some(solution.grid_weight()));
        }
        self.decoder.verify().map_err(|e| e.to_string())?;
        self.plain.decode(defects).map_err(|e| e.to_string())?;
        let first = self.plain.correction().to_vec();
        let first = self.ends(&first);
        let expected = self.second(&first, defects);
        if solution.grid_weight() != expected {
            return Err(format!("weight {} instead of {expected}", solution.grid_weight()));
        }
        let edges = self.decoder.correction().to_vec();
        let lowered = self.lowered(&first);
        let mut flipped = vec![false; self.model.detectors];
        let mut observables = vec![false; self.model.observables];
        let mut sum = 0;
        for e in edges {
            let edge = &lowered.edges()[e as usize];
            sum += lowered.grid_weight(e as usize);
            for d in [Some(edge.u), edge.v].into_iter().flatten() {
                flipped[d as usize] ^= true;
            }
            for &o in &edge.observables {
                observables[o as usize] ^= true;
            }
        }
        defects.iter().for_each(|&d| flipped[d as usize] ^= true);
        if flipped.contains(&true) {
            return Err("the correction does not explain the defects".into());
        }
        if sum != solution.grid_weight() {
            return Err(format!("the correction weighs {sum}, not {}", solution.grid_weight()));
        }
        if (0..observables.len()).any(|o| observables[o] != solution.flips(o)) {
            return Err("the correction does not flip the observables predicted".into());
        }
        Ok(Some(expected))
    }

    /// The observables that the decoder predicts for a shot that it can decode.
    pub(crate) fn predicted(&mut self, shot: &Shot) -> Vec<u32> {
        let solution = self.decoder.decode(&shot.defects).expect("a solution");
        (0..self.model.observables).filter(|&o| solution.flips(o)).map(|o| o as u32).collect()
    }

    /// As [`decode`](Self::decode), and compares with the answer known.
    pub(crate) fn check(&mut self, shot: &Shot, thorough: bool) -> Result<Outcome, String> {
        let weight = match (self.decode(&shot.defects, thorough)?, &shot.answer) {
            (None, None) => return Ok(Outcome::Same),
            (Some(weight), Some(_)) => weight,
            (found, _) => return Err(format!("{found:?} where PyMatching finds otherwise")),
        };
        let answer = shot.answer.as_ref().expect("checked above");
        let scale = self.decoder.graph().scale();
        let theirs = (answer.weight * scale).round() as i64 * 2;
        if weight == theirs {
            let same = self.predicted(shot) == answer.observables;
            return Ok(if same { Outcome::Same } else { Outcome::SecondTie });
        }
        // Only another first pass, of the same weight, may lead elsewhere; and it must lead there.
        let by_theirs = self.second(&answer.first, &shot.defects);
        if by_theirs != theirs {
            return Err(format!("weight {theirs}, but {by_theirs} by PyMatching's first pass"));
        }
        let graph = self.plain.graph();
        let index: HashMap<Ends, usize> =
            graph.edges().iter().enumerate().map(|(i, e)| ((e.u, e.v), i)).collect();
        let sum: i64 = answer.first.iter().map(|e| graph.grid_weight(index[e])).sum();
        let ours = self.plain.decode(&shot.defects).expect("as before").grid_weight();
        if sum != ours {
            return Err(format!("first pass of weight {ours} instead of {sum}"));
        }
        Ok(Outcome::FirstTie)
    }
}

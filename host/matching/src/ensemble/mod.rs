//! Matching synthesis: correlated matchings of one shot, combined and decided by the likelihood of their errors.
//!
//! Matching finds the likeliest set of edges as if no error crossed two of them. Correlated matching mends half of that: it
//! lowers the weights of edges that share an error with those found first, and then forgets why. Here its two passes are
//! candidates:
//!
//! 1. **Candidates differ in cycles** ([`clusters`]). A choice of cycles costs the least cost of errors of the model that cross
//!    its edges ([`cover`]). The choices sum to the probability of each class, that is of which observables are flipped.
//! 2. **A third pass**, on weights that follow from the second pass's correction, runs if the cycles of a cluster are long
//!    ([`EnsembleConfig::exchange`]) or one flips an observable.
//! 3. **More members** join if the odds leave a doubt ([`EnsembleConfig::doubt`]): passes on weights with noise, which find
//!    corrections that are nearly as likely and add their cycles.
//!
//! The answer is the likeliest class, with its confidence. Sources: harmonised ensembles of matchings (Shutty, Newman
//! and Villalonga, arXiv:2401.12434), matching synthesis (C. Jones, arXiv:2408.12135).

mod clusters;
mod cover;
mod errors;

use std::sync::Arc;

use crate::decoder::{MwpmDecoder, Progress};
use crate::error::MatchingError;
use crate::solution::Solution;
use crate::weighted::WeightedDecoder;
use clusters::{Clusters, Weighed, mixed};
pub use errors::ErrorTable;

/// When an [`EnsembleDecoder`] looks further.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct EnsembleConfig {
    /// The number of edges of a cluster from which on a third pass runs. `None` is the natural logarithm of the graph's number of
    /// edges, rounded up: large clusters arise by chance, and more often in a larger graph.
    pub exchange: Option<usize>,
    /// The confidence, as a natural logarithm of odds, below which members with noise run.
    pub doubt: f64,
    /// The number of members.
    pub members: u32,
    /// Standard deviation of the noise on members' weights.
    pub noise: f64,
}

impl Default for EnsembleConfig {
    fn default() -> Self {
        Self { exchange: None, doubt: 3.0, members: 8, noise: 0.7 }
    }
}

/// An answer of an [`EnsembleDecoder`].
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    observables: Vec<u64>,
    confidence: f64,
    passes: u32,
}

impl Decision {
    /// The flipped observables: number `o` is bit `o % 64` of word `o / 64`.
    #[must_use]
    pub fn observables(&self) -> &[u64] {
        &self.observables
    }

    /// The natural logarithm of the odds that the answer is right, against the alternatives seen; infinite if there were none.
    #[must_use]
    pub fn confidence(&self) -> f64 {
        self.confidence
    }

    /// The number of times that the shot was matched.
    #[must_use]
    pub fn passes(&self) -> u32 {
        self.passes
    }
}

/// A decoder that decides between correlated matchings by the likelihood of the errors that they stand for.
///
/// ```
/// use ringcall_matching::{DecoderConfig, EnsembleConfig, EnsembleDecoder, ErrorPart, ErrorTable, GraphBuilder, MwpmDecoder};
///
/// let part = |detectors, observables| ErrorPart { detectors, observables };
/// let mut b = GraphBuilder::new();
/// b.error(0.01, &[part(&[0, 1], &[]), part(&[2, 3], &[0])])?;
/// b.error(0.012, &[part(&[2], &[])])?.error(0.495, &[part(&[3], &[])])?;
/// b.error(0.001, &[part(&[0], &[])])?.error(0.001, &[part(&[1], &[])])?;
/// let graph = b.build()?;
/// let errors = ErrorTable::new(
///     graph.num_edges(),
///     [(0.01, &[0, 1][..]), (0.012, &[2]), (0.495, &[3]), (0.001, &[4]), (0.001, &[5])],
/// )?;
/// let mut config = DecoderConfig::default();
/// config.correlations = true;
/// let decoder = MwpmDecoder::with_config(graph, &config);
/// let mut decoder = EnsembleDecoder::new(decoder, errors, EnsembleConfig::default());
///
/// let decision = decoder.decode(&[0, 1, 2, 3])?;
/// assert_eq!(decision.observables(), [1]);
/// // One error of 0.01 against three of 0.012, 0.495 and 0.001 squared.
/// assert!(decision.confidence() > 10.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct EnsembleDecoder {
    shared: Arc<(ErrorTable, EnsembleConfig)>,
    decoder: MwpmDecoder,
    weighted: WeightedDecoder,
    clusters: Clusters,
    /// Corrections of the shot, sorted: those of the first pass, the second pass, and so on.
    others: Vec<Vec<u32>>,
    /// The likeliest combination of the corrections.
    correction: Vec<u32>,
    /// Per edge, its weight in this shot; NaN for the graph's weight.
    given: Vec<f64>,
    /// The edges with a weight of this shot.
    touched: Vec<u32>,
    weights: Vec<(u32, f64)>,
    decision: Decision,
}

/// Not derived: a clone begins without an answer.
impl Clone for EnsembleDecoder {
    fn clone(&self) -> Self {
        Self::on(self.decoder.clone(), Arc::clone(&self.shared))
    }
}

impl EnsembleDecoder {
    /// Makes a decoder on the tables of `decoder`, which makes two passes, with the errors of its graph's model.
    ///
    /// # Panics
    /// If the errors refer to a graph with another number of edges.
    #[must_use]
    pub fn new(decoder: MwpmDecoder, errors: ErrorTable, config: EnsembleConfig) -> Self {
        assert_eq!(errors.edges(), decoder.graph().num_edges(), "errors of another graph");
        Self::on(decoder, Arc::new((errors, config)))
    }

    fn on(decoder: MwpmDecoder, shared: Arc<(ErrorTable, EnsembleConfig)>) -> Self {
        let graph = decoder.graph();
        let observables = vec![0; graph.observable_words()];
        Self {
            weighted: WeightedDecoder::new(&decoder),
            clusters: Clusters::new(graph),
            others: vec![Vec::new(); 3],
            correction: Vec::new(),
            given: vec![f64::NAN; graph.num_edges()],
            touched: Vec::new(),
            weights: Vec::new(),
            decision: Decision { observables, confidence: f64::INFINITY, passes: 0 },
            shared,
            decoder,
        }
    }

    /// The solution of the second pass of the last shot.
    #[must_use]
    pub fn solution(&self) -> &Solution {
        self.decoder.solution()
    }

    /// Decides on the observables for the detectors that fired, each given once, in any order.
    ///
    /// # Errors
    /// As [`MwpmDecoder::decode`].
    pub fn decode(&mut self, defects: &[u32]) -> Result<&Decision, MatchingError> {
        self.decoder.decode(defects)?;
        self.look_further(defects, &mut || false);
        Ok(&self.decision)
    }

    /// As [`decode`](Self::decode), until `expired` returns true; then the answer of the passes so far. `expired` is called
    /// within the first two passes as by [`MwpmDecoder::decode_until`], and before each further pass.
    ///
    /// # Errors
    /// As [`MwpmDecoder::decode`].
    pub fn decode_until(
        &mut self,
        defects: &[u32],
        mut expired: impl FnMut() -> bool,
    ) -> Result<(&Decision, Progress), MatchingError> {
        let (_, mut progress) = self.decoder.decode_until(defects, &mut expired)?;
        if !self.look_further(defects, &mut expired) {
            progress = Progress::SecondPass;
        }
        Ok((&self.decision, progress))
    }

    /// Compares the two passes, and runs more where they may help. Returns false if `expired` returned true before the end.
    fn look_further(&mut self, defects: &[u32], expired: &mut impl FnMut() -> bool) -> bool {
        let two = self.decoder.second_pass_applied();
        self.decision.observables.copy_from_slice(self.decoder.solution().observables());
        self.decision.confidence = f64::INFINITY;
        self.decision.passes = 1 + u32::from(two);
        if !two {
            return true;
        }
        self.decoder.first_correction(&mut self.others[0]);
        self.others[1].clear();
        self.others[1].extend_from_slice(self.decoder.correction());
        if self.others[0] == self.others[1] {
            return true;
        }
        self.correction.clone_from(&self.others[1]);
        let EnsembleConfig { exchange, doubt, members, .. } = self.shared.1;
        let exchange = exchange.unwrap_or_else(|| (self.given.len() as f64).ln().ceil() as usize);
        let mut found = self.weigh(2);
        if found.largest >= exchange || found.confidence.is_finite() {
            if expired() {
                return false;
            }
            self.follow(1, None);
            self.match_again(defects);
            found = self.weigh(3);
        }
        if found.confidence < doubt {
            let mut whole = true;
            for member in 0..members {
                if expired() {
                    whole = false;
                    break;
                }
                self.follow(0, Some(member));
                self.match_again(defects);
            }
            self.weigh(self.decision.passes as usize);
            return whole;
        }
        true
    }

    /// Weighs the corrections so far, and stores the result.
    fn weigh(&mut self, count: usize) -> Weighed {
        let Self { decoder, clusters, others, correction, decision, shared, .. } = self;
        let graph = decoder.graph();
        decision.observables.fill(0);
        correction.iter().for_each(|&edge| graph.edges()[edge as usize].flip(&mut decision.observables));
        let found = clusters.weigh(graph, &shared.0, correction, &others[..count], &mut decision.observables);
        decision.confidence = found.confidence;
        found
    }

    /// Sets the weights that follow from a correction: edges that share errors with its edges are lighter. With a member, every
    /// edge has that member's noise.
    fn follow(&mut self, correction: usize, member: Option<u32>) {
        let Self { decoder, weighted, others, given, touched, shared, .. } = self;
        let graph = decoder.graph();
        let noise = |index: usize| member.map_or(0.0, |member| shared.1.noise * normal(member, index));
        if member.is_some() {
            let most = weighted.most_weight();
            for (index, edge) in graph.edges().iter().enumerate().filter(|(_, edge)| edge.weight >= 0.0) {
                given[index] = (edge.weight + noise(index)).clamp(0.0, most);
                touched.push(index as u32);
            }
        }
        let unit = 0.5 / graph.scale();
        for rule in others[correction].iter().flat_map(|&edge| graph.rules().of(edge)) {
            let at = rule.edge as usize;
            let weight = (f64::from(rule.weight) * unit + noise(at)).max(0.0);
            if given[at].is_nan() {
                touched.push(rule.edge);
            }
            // `min` takes the other value if one is NaN.
            given[at] = given[at].min(weight);
        }
    }

    /// Matches with the given weights, clears them, and adds the correction.
    fn match_again(&mut self, defects: &[u32]) {
        let place = self.decision.passes as usize;
        let Self { weights, given, touched, weighted, others, decision, .. } = self;
        weights.clear();
        weights.extend(
            touched.drain(..).map(|edge| (edge, std::mem::replace(&mut given[edge as usize], f64::NAN))),
        );
        if others.len() == place {
            others.push(Vec::new());
        }
        others[place].clear();
        decision.passes += 1;
        // The defects have been matched before, and no weight is out of range.
        if weighted.decode(defects, weights).is_ok() {
            others[place].extend_from_slice(weighted.correction());
        } else {
            let (before, after) = others.split_at_mut(place);
            after[0].extend_from_slice(&before[1]);
        }
    }
}

/// An approximately normal number with mean 0 and variance 1: a sum of four uniform ones.
fn normal(member: u32, index: usize) -> f64 {
    let bits = mixed(mixed(u64::from(member)) ^ index as u64);
    let sum: u64 = (0..4).map(|part| bits >> (16 * part) & 0xffff).sum();
    (sum as f64 / 65536.0 - 2.0) * 3f64.sqrt()
}

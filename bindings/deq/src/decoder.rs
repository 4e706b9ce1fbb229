//! A matching decoder of a hypergraph: requests with probabilities and losses of their own, answers as lists of errors.

use crate::edges::{Edges, Weighed};
use crate::hypergraph::Hypergraph;
use crate::loss::{Losses, raised};
use crate::rows::Rows;
use crate::{Config, EdgeReweight, LossSites, Matching, Refusal};
use ringcall_matching::{
    DecoderConfig, GraphBuilder, MatchingError, MwpmDecoder, WeightedDecoder, WeightsError,
};

/// Every weight of a positive probability is below this: the smallest number has the weight 744.4. Weights of a request may be 32
/// times the largest of the graph.
const ROOM: f64 = 24.0;
/// What a closed edge weighs in the graph, in weights of the heaviest open one. A correction that crosses one is solved again.
const CLOSED: f64 = 64.0;

/// Minimum-weight perfect matching on a hypergraph whose errors flip mostly one detector or two.
///
/// Answers are errors that together flip the detectors that fired, of minimum weight on the probabilities of the request:
/// those of the graph, but for the errors that the request names. Nothing is allocated per decode, with two exceptions: the
/// first requests with more losses than any before; and a request that closes edges which the cheapest answer would have
/// crossed, which is solved again on a new graph.
#[derive(Debug)]
pub struct HypergraphDecoder {
    config: Config,
    detectors: usize,
    members: Rows<u32>,
    edges: Edges,
    /// The probabilities that the graph was loaded with, and those of the request at hand; the same between requests.
    loaded: Vec<f64>,
    probability: Vec<f64>,
    folded: Vec<f64>,
    /// What the edges amount to with the loaded probabilities.
    weighed: Vec<Weighed>,
    /// The errors that are likelier than not, and what they flip.
    likely: Vec<u32>,
    likely_flip: Vec<u64>,
    plain: MwpmDecoder,
    weighted: WeightedDecoder,
    losses: Losses,
    /// Errors whose probabilities the request at hand sets, and whether each is among them.
    set: Vec<u32>,
    is_set: Vec<bool>,
    /// Edges that those cross.
    touched: Vec<u32>,
    is_touched: Vec<bool>,
    weights: Vec<(u32, f64)>,
    fired: Vec<u64>,
    defects: Vec<u32>,
    crossed: Vec<u32>,
    /// Per error, whether the answer has it; all `false` between requests.
    picked: Vec<bool>,
    answer: Vec<u64>,
}

fn fold(probability: f64) -> f64 {
    probability.min(1.0 - probability)
}

fn is_likely(probability: f64) -> bool {
    probability > 0.5
}

impl HypergraphDecoder {
    /// A decoder of this graph. It takes time and memory for tables, as [`MwpmDecoder::with_config`] does.
    ///
    /// # Errors
    /// [`Refusal::Argument`] for a configuration out of range, [`Refusal::Failed`] for a graph that matching cannot represent.
    pub fn new(graph: &Hypergraph<'_>, config: Config) -> Result<Self, Refusal> {
        config.check()?;
        let loaded = graph.probabilities().to_vec();
        let folded: Vec<f64> = loaded.iter().copied().map(fold).collect();
        let edges = Edges::new(graph, &folded, &config);
        let weighed: Vec<Weighed> = (0..edges.len()).map(|edge| edges.weigh(edge, &folded)).collect();
        let plain = decoder(graph.detectors(), &edges, &weighed, &folded, &config)?;
        let members = (0..loaded.len()).map(|error| graph.members(error).iter().map(|&d| d as u32).collect());
        let members = Rows::of(&members.collect::<Vec<Vec<u32>>>());
        let mut likely_flip = vec![0; (graph.detectors() as usize).div_ceil(64)];
        let likely: Vec<u32> =
            (0..).zip(&loaded).filter(|(_, p)| is_likely(**p)).map(|(error, _)| error).collect();
        likely.iter().for_each(|&error| flip(&mut likely_flip, members.row(error as usize)));
        let (errors, count) = (loaded.len(), edges.len());
        Ok(Self {
            config,
            detectors: graph.detectors() as usize,
            weighted: WeightedDecoder::new(&plain),
            plain,
            members,
            probability: loaded.clone(),
            folded,
            weighed,
            losses: Losses::new(errors),
            set: Vec::with_capacity(errors),
            is_set: vec![false; errors],
            touched: Vec::with_capacity(count),
            is_touched: vec![false; count],
            weights: Vec::with_capacity(count),
            fired: vec![0; likely_flip.len()],
            defects: Vec::with_capacity(graph.detectors() as usize),
            crossed: Vec::with_capacity(count),
            picked: vec![false; errors],
            answer: Vec::with_capacity(errors),
            likely,
            likely_flip,
            loaded,
            edges,
        })
    }

    /// How many detectors it has.
    #[must_use]
    pub fn detectors(&self) -> usize {
        self.detectors
    }

    /// How many errors it has.
    #[must_use]
    pub fn errors(&self) -> usize {
        self.loaded.len()
    }

    /// Whether requests without probabilities are decoded in two passes: that was asked for, and the graph has errors of
    /// several parts.
    #[must_use]
    pub fn makes_second_pass(&self) -> bool {
        self.plain.makes_second_pass()
    }

    /// The errors that explain a syndrome, in order. Detector `i` is bit `7 - i % 8` of byte `i / 8`; bits past the last detector
    /// are not looked at.
    ///
    /// `reweights` are the probabilities of errors in this shot, each once; `losses` the sites of losses observed in it. Both
    /// hold for this shot alone.
    ///
    /// # Errors
    /// [`Refusal::Argument`] for a syndrome of another length, an error that is not there or listed twice, a probability that is
    /// not in `[0, 1]`, and sites as [`LossSite`](crate::LossSite) does not allow them. [`Refusal::Failed`] if no set of errors
    /// explains the syndrome.
    pub fn decode(
        &mut self,
        syndrome: &[u8],
        reweights: &[EdgeReweight],
        losses: &(impl LossSites + ?Sized),
    ) -> Result<&[u64], Refusal> {
        let bytes = self.detectors.div_ceil(8);
        if syndrome.len() != bytes {
            let (found, detectors) = (syndrome.len(), self.detectors);
            let why = format!("the syndrome has {found} bytes; {detectors} vertices need {bytes}");
            return Err(Refusal::Argument(why));
        }
        let done = self.prepare(reweights, losses).and_then(|()| self.solve(syndrome));
        self.restore();
        done.map(|()| self.answer.as_slice())
    }

    /// Sets the probabilities of the request, and weighs the edges that they touch.
    fn prepare(
        &mut self,
        reweights: &[EdgeReweight],
        losses: &(impl LossSites + ?Sized),
    ) -> Result<(), Refusal> {
        for &EdgeReweight { edge, probability } in reweights {
            let refuse = |why: String| Err(Refusal::Argument(why));
            if edge >= self.loaded.len() as u64 {
                return refuse(format!("reweight of edge {edge}; the graph has {}", self.loaded.len()));
            }
            if !(0.0..=1.0).contains(&probability) {
                return refuse(format!("reweight of edge {edge} to {probability}: it must be from 0 to 1"));
            }
            if self.is_set[edge as usize] {
                return refuse(format!("edge {edge} is reweighted twice"));
            }
            self.assign(edge as u32, probability);
        }
        if losses.count() > 0 {
            self.losses.gather(losses)?;
            for place in 0..self.losses.errors.len() {
                let error = self.losses.errors[place];
                let (own, caused) = (self.probability[error as usize], self.losses.take(error));
                self.assign(error, raised(own, caused, self.config.loss_weight_fraction));
            }
            self.losses.errors.clear();
        }
        for &error in &self.set {
            for &edge in self.edges.crossed(error) {
                if !std::mem::replace(&mut self.is_touched[edge as usize], true) {
                    self.touched.push(edge);
                }
            }
        }
        let most = self.weighted.most_weight();
        for &edge in &self.touched {
            let weight = self.edges.weigh(edge as usize, &self.folded).weight();
            // A weight of just above 0 may come out as just below.
            self.weights.push((edge, weight.clamp(0.0, most)));
        }
        Ok(())
    }

    fn assign(&mut self, error: u32, probability: f64) {
        let at = error as usize;
        if !std::mem::replace(&mut self.is_set[at], true) {
            self.set.push(error);
        }
        self.probability[at] = probability;
        self.folded[at] = fold(probability);
    }

    /// Puts the probabilities back.
    fn restore(&mut self) {
        for &error in &self.set {
            let at = error as usize;
            self.probability[at] = self.loaded[at];
            self.folded[at] = fold(self.loaded[at]);
            self.is_set[at] = false;
        }
        self.touched.iter().for_each(|&edge| self.is_touched[edge as usize] = false);
        self.set.clear();
        self.touched.clear();
        self.weights.clear();
    }

    fn solve(&mut self, syndrome: &[u8]) -> Result<(), Refusal> {
        self.read(syndrome);
        if self.weights.is_empty() {
            self.plain.decode(&self.defects).map_err(unexplained)?;
            self.crossed.clear();
            self.crossed.extend_from_slice(self.plain.correction());
        } else {
            self.weighted.decode(&self.defects, &self.weights).map_err(|error| match error {
                WeightsError::Decode(error) => unexplained(error),
                other => Refusal::Failed(other.to_string()),
            })?;
            self.crossed.clear();
            self.crossed.extend_from_slice(self.weighted.correction());
        }
        if self.crossed.iter().any(|&edge| self.weigh(edge).probability == 0.0) {
            self.solve_without_closed()?;
        }
        self.compose();
        Ok(())
    }

    fn weigh(&self, edge: u32) -> Weighed {
        let edge = edge as usize;
        if self.is_touched[edge] { self.edges.weigh(edge, &self.folded) } else { self.weighed[edge] }
    }

    /// Lists what fired, less what likely errors flip.
    fn read(&mut self, syndrome: &[u8]) {
        self.fired.copy_from_slice(&self.likely_flip);
        for (at, byte) in syndrome.iter().enumerate() {
            self.fired[at / 8] ^= u64::from(byte.reverse_bits()) << (8 * (at % 8));
        }
        for &error in &self.set {
            let at = error as usize;
            if is_likely(self.probability[at]) != is_likely(self.loaded[at]) {
                flip(&mut self.fired, self.members.row(at));
            }
        }
        if !self.detectors.is_multiple_of(64) {
            let last = self.fired.len() - 1;
            self.fired[last] &= (1 << (self.detectors % 64)) - 1;
        }
        self.defects.clear();
        for (at, &word) in (0..).zip(&self.fired) {
            let mut word = word;
            while word != 0 {
                self.defects.push(64 * at + word.trailing_zeros());
                word &= word - 1;
            }
        }
    }

    /// Solves on a graph that has only the edges that can have been crossed.
    #[cold]
    fn solve_without_closed(&mut self) -> Result<(), Refusal> {
        let open = |edge: &usize| self.weigh(*edge as u32).probability > 0.0;
        let open: Vec<usize> = (0..self.edges.len()).filter(open).collect();
        let mut builder = GraphBuilder::new();
        builder.ensure_detectors(self.detectors);
        for &edge in &open {
            add(&mut builder, &self.edges, edge, self.weigh(edge as u32).weight())?;
        }
        let mut decoder =
            MwpmDecoder::new(builder.room_for(ROOM).and_then(|b| b.build()).map_err(|error| unfit(&error))?);
        decoder.decode(&self.defects).map_err(unexplained)?;
        self.crossed.clear();
        self.crossed.extend(decoder.correction().iter().map(|&edge| open[edge as usize] as u32));
        Ok(())
    }

    /// The errors of the edges that were crossed, where likely errors count as undone.
    fn compose(&mut self) {
        self.answer.clear();
        for place in 0..self.crossed.len() {
            let error = self.weigh(self.crossed[place]).error;
            self.picked[error as usize] = true;
            self.answer.push(error.into());
        }
        let Self { likely, set, is_set, probability, picked, answer, .. } = self;
        let likely = likely.iter().filter(|&&error| !is_set[error as usize]);
        for &error in likely.chain(set.iter().filter(|&&error| is_likely(probability[error as usize]))) {
            let picked = &mut picked[error as usize];
            if !std::mem::replace(picked, !*picked) {
                answer.push(error.into());
            }
        }
        answer.retain(|&error| std::mem::take(&mut picked[error as usize]));
        answer.sort_unstable();
    }
}

/// The decoder of the graph as it was loaded.
fn decoder(
    detectors: u32,
    edges: &Edges,
    weighed: &[Weighed],
    folded: &[f64],
    config: &Config,
) -> Result<MwpmDecoder, Refusal> {
    let open = weighed.iter().map(Weighed::weight).filter(|weight| weight.is_finite());
    let heaviest = open.fold(1.0, f64::max);
    let mut builder = GraphBuilder::new();
    builder.ensure_detectors(detectors as usize);
    for (edge, weighed) in weighed.iter().enumerate() {
        let weight = weighed.weight().max(0.0);
        add(&mut builder, edges, edge, if weight.is_finite() { weight } else { CLOSED * heaviest })?;
    }
    builder.room_for(ROOM).map_err(|error| unfit(&error))?;
    let mut options = DecoderConfig::default();
    options.correlations = config.matching == Matching::Correlated;
    if options.correlations {
        for (error, &probability) in (0..).zip(folded) {
            builder.correlate(probability, edges.crossed(error)).map_err(|error| unfit(&error))?;
        }
    }
    Ok(MwpmDecoder::with_config(builder.build().map_err(|error| unfit(&error))?, &options))
}

fn add(builder: &mut GraphBuilder, edges: &Edges, edge: usize, weight: f64) -> Result<(), Refusal> {
    let added = match edges.ends(edge) {
        (u, None) => builder.boundary_edge(u, weight, &[]),
        (u, Some(v)) => builder.edge(u, v, weight, &[]),
    };
    added.map(|_| ()).map_err(|error| unfit(&error))
}

fn flip(bits: &mut [u64], members: &[u32]) {
    members.iter().for_each(|&detector| bits[detector as usize / 64] ^= 1 << (detector % 64));
}

fn unfit(error: &ringcall_matching::MatchingGraphError) -> Refusal {
    Refusal::Failed(format!("the graph cannot be matched on: {error}"))
}

fn unexplained(error: MatchingError) -> Refusal {
    match error {
        MatchingError::OddParity { detector } => Refusal::Failed(format!(
            "no set of edges explains the syndrome: an odd number of vertices fired in the part of the graph that has vertex \
             {detector}, and no edge of one vertex is there"
        )),
        other => Refusal::Failed(other.to_string()),
    }
}

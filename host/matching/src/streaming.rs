//! Streaming decoding: a syndrome is decoded while it arrives, round by round.

use std::sync::Arc;

use crate::blossom::Blossom;
use crate::correlated::SecondPass;
use crate::decoder::{MwpmDecoder, Shared};
use crate::error::{MatchingError, RoundsError};
use crate::input::Intake;
use crate::readout::Answer;
use crate::rounds::Rounds;
use crate::solution::{CertificateError, Solution};

/// A decoder that takes a syndrome round by round, and does most of its work before the last round.
///
/// The answer is a correction of minimum weight for the whole syndrome, as that of a [`MwpmDecoder`], though not always the same one.
/// A second pass for correlations follows the last round and covers all rounds. A round allocates nothing.
///
/// ```
/// use ringcall_matching::{GraphBuilder, MwpmDecoder, StreamingDecoder};
///
/// // One detector per round; an error in the last one's measurement flips the observable.
/// let mut b = GraphBuilder::new();
/// b.boundary_edge(0, 2.0, &[])?.edge(0, 1, 1.0, &[])?.edge(1, 2, 1.0, &[])?.boundary_edge(2, 2.0, &[0])?;
/// let decoder = MwpmDecoder::new(b.build()?);
///
/// let mut stream = StreamingDecoder::new(&decoder, &[0, 1, 2])?;
/// assert!(stream.push_round(&[])?.is_none());
/// assert!(stream.push_round(&[1])?.is_none());
/// let solution = stream.push_round(&[2])?.expect("that was the last round");
/// assert!(!solution.flips(0));
/// assert!((solution.weight() - 1.0).abs() < 1e-6);
/// // The next round is the first of the next syndrome.
/// assert_eq!(stream.next_round(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct StreamingDecoder {
    shared: Arc<Shared>,
    rounds: Arc<Rounds>,
    blossom: Blossom,
    next: usize,
    intake: Intake,
    /// The defects given so far, if parity must be checked or a second pass follows.
    all: Vec<u32>,
    answer: Answer,
    second: Option<Box<SecondPass>>,
}

impl StreamingDecoder {
    /// Makes a streaming decoder on the graph of `decoder`, whose tables it shares; detector `i` belongs to round `rounds[i]`.
    /// The new decoder makes a second pass for correlations if `decoder` does.
    ///
    /// # Errors
    /// [`RoundsError`] if there is not one round for each detector, or too many rounds.
    pub fn new(decoder: &MwpmDecoder, rounds: &[u32]) -> Result<Self, RoundsError> {
        let shared = Arc::clone(decoder.shared());
        let tables = shared.tables();
        let rounds = Arc::new(Rounds::new(tables, rounds)?);
        let n = tables.graph.num_detectors();
        let mut blossom = Blossom::new(tables);
        blossom.begin(tables);
        Ok(Self {
            rounds,
            blossom,
            next: 0,
            intake: Intake::new(tables.graph, decoder.makes_second_pass()),
            all: Vec::with_capacity(n),
            answer: Answer::new(tables.graph),
            second: decoder.makes_second_pass().then(|| shared.second_pass()),
            shared,
        })
    }

    /// The number of rounds of a syndrome.
    pub fn num_rounds(&self) -> usize {
        self.rounds.count()
    }

    /// The round that comes next.
    pub fn next_round(&self) -> usize {
        self.next
    }

    /// Takes the defects of the next round, each once, in any order. Returns the solution after the last round.
    ///
    /// # Errors
    /// As [`MwpmDecoder::decode`], and [`MatchingError::WrongRound`]. The decoder has then not taken the round: the caller gives the
    /// round again, or abandons the syndrome with [`restart`](Self::restart).
    pub fn push_round(&mut self, defects: &[u32]) -> Result<Option<&Solution>, MatchingError> {
        let Self { shared, rounds, blossom, next, intake, all, answer, second } = self;
        let tables = shared.tables();
        let expected = *next;
        if expected == 0 {
            answer.clear();
        }
        intake.take_part(tables.graph, defects, rounds.used(expected), |defect| match rounds.of(defect) {
            round if round as usize == expected => Ok(()),
            round => Err(MatchingError::WrongRound { defect, round, expected }),
        })?;
        let last = expected + 1 == rounds.count();
        if intake.odd_parts() {
            let before = all.len();
            all.extend_from_slice(defects);
            if let Some(error) = last.then(|| intake.check_parity(tables.graph, all).err()).flatten() {
                all.truncate(before);
                return Err(error);
            }
        }
        let taken = &intake.defects;
        if expected == 0 {
            blossom.begin(tables);
        }
        // Without a new defect, the unknown rounds have turned out to be empty.
        let before = next.checked_sub(1).filter(|_| !taken.is_empty());
        // Before the last round, defects may be left that only an odd parity can explain; the last round shows whether.
        let matched = blossom.resume(tables, taken, 0, rounds.frontier(before), rounds.frontier(Some(*next)));
        if !last {
            *next += 1;
            return Ok(None);
        }
        debug_assert!(matched, "the parities were checked");
        answer.read(tables, blossom, second.as_deref_mut());
        self.restart();
        Ok(Some(&self.answer.solution))
    }

    /// Forgets the rounds of an unfinished syndrome: the next round is the first of another.
    pub fn restart(&mut self) {
        self.blossom.forget_nodes();
        self.all.clear();
        self.next = 0;
    }

    /// The edges of the last solution, as [`MwpmDecoder::correction`]; empty unless a syndrome has just been finished.
    pub fn correction(&mut self) -> &[u32] {
        let second = self.second.as_deref().filter(|second| second.applied());
        self.answer.correction(self.shared.tables(), second)
    }

    /// Proves that the last solution is of minimum weight, from the state that it was read from.
    ///
    /// This is for tests: it searches the whole graph from every defect, and allocates.
    ///
    /// # Errors
    /// [`CertificateError`]; in particular if no syndrome has just been finished.
    pub fn verify(&mut self) -> Result<(), CertificateError> {
        self.answer.verify_pass(self.shared.tables(), &self.blossom, self.second.as_deref())
    }
}

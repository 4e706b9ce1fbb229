//! The decoding hypergraph that a host hands over, checked.

use crate::Refusal;

/// The most detectors: as many as the C interface takes.
const MAX_DETECTORS: u64 = 1 << 24;
/// The most errors, and the most detectors of all errors together: as many as 32-bit indices name.
const MAX_ENTRIES: usize = u32::MAX as usize;

/// Errors of a detector error model in compressed rows, borrowed: error `i` fires with probability `probabilities[i]` and flips
/// the detectors `members[offsets[i]..offsets[i + 1]]`.
#[derive(Debug, Clone)]
pub struct Hypergraph<'a> {
    detectors: u32,
    probabilities: &'a [f64],
    offsets: &'a [u64],
    members: &'a [u64],
    flips: Option<Vec<Option<&'a [u64]>>>,
}

impl<'a> Hypergraph<'a> {
    /// A hypergraph of so many detectors. `flips` are the observables that each error flips: `None` where that is not known.
    ///
    /// An error of probability 0 is *dormant*: it does not happen unless a request says so.
    ///
    /// # Errors
    /// [`Refusal::Argument`]: lists whose lengths do not fit each other, a probability that is not in `[0, 1)`, a detector out of
    /// range or twice in an error, an observable twice in an error, more than 2^24 detectors.
    pub fn new(
        detectors: u64,
        probabilities: &'a [f64],
        offsets: &'a [u64],
        members: &'a [u64],
        flips: Option<Vec<Option<&'a [u64]>>>,
    ) -> Result<Self, Refusal> {
        let refuse = |why: String| Err(Refusal::Argument(why));
        if detectors > MAX_DETECTORS {
            return refuse(format!(
                "the graph has {detectors} vertices; at most {MAX_DETECTORS} are supported"
            ));
        }
        if probabilities.len() >= MAX_ENTRIES || members.len() > MAX_ENTRIES {
            return refuse(format!("the graph has {} edges: too many", probabilities.len()));
        }
        if offsets.len() != probabilities.len() + 1 {
            let (found, edges) = (offsets.len(), probabilities.len());
            return refuse(format!("edge_offsets has {found} entries; {edges} edges need {}", edges + 1));
        }
        if offsets[0] != 0 || !offsets.is_sorted() || offsets[probabilities.len()] != members.len() as u64 {
            let end = members.len();
            return refuse(format!("edge_offsets must begin at 0, never fall, and end at {end}"));
        }
        if let Some((edge, p)) = probabilities.iter().enumerate().find(|(_, p)| !(0.0..1.0).contains(*p)) {
            return refuse(format!("edge {edge} has probability {p}: it must be at least 0 and below 1"));
        }
        if let Some(flips) = flips.as_ref().filter(|flips| flips.len() != probabilities.len()) {
            let (found, edges) = (flips.len(), probabilities.len());
            return refuse(format!("observable flips are given for {found} edges of {edges}"));
        }
        let graph = Self { detectors: detectors as u32, probabilities, offsets, members, flips };
        let mut sorted = Vec::new();
        for edge in 0..probabilities.len() {
            if let Some(vertex) = graph.members(edge).iter().find(|&&vertex| vertex >= detectors) {
                return refuse(format!("edge {edge} has vertex {vertex}; there are {detectors}"));
            }
            if let Some(vertex) = twice(graph.members(edge), &mut sorted) {
                return refuse(format!("edge {edge} has vertex {vertex} twice"));
            }
            let flips = graph.flips(edge).unwrap_or_default();
            if let Some(observable) = twice(flips, &mut sorted) {
                return refuse(format!("edge {edge} has observable {observable} twice"));
            }
        }
        Ok(graph)
    }

    /// How many detectors it has.
    #[must_use]
    pub fn detectors(&self) -> u32 {
        self.detectors
    }

    /// The probability of each error.
    #[must_use]
    pub fn probabilities(&self) -> &'a [f64] {
        self.probabilities
    }

    /// The detectors of an error.
    pub(crate) fn members(&self, edge: usize) -> &'a [u64] {
        &self.members[self.offsets[edge] as usize..self.offsets[edge + 1] as usize]
    }

    /// The observables of an error, where known.
    pub(crate) fn flips(&self, edge: usize) -> Option<&'a [u64]> {
        self.flips.as_ref()?[edge]
    }
}

/// The first value that is there twice, by a sorted copy.
fn twice(list: &[u64], sorted: &mut Vec<u64>) -> Option<u64> {
    if list.len() < 2 {
        return None;
    }
    sorted.clear();
    sorted.extend_from_slice(list);
    sorted.sort_unstable();
    sorted.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(detectors: u64, p: &[f64], offsets: &[u64], members: &[u64]) -> String {
        Hypergraph::new(detectors, p, offsets, members, None).unwrap_err().to_string()
    }

    #[test]
    fn faults_are_named() {
        assert!(Hypergraph::new(0, &[], &[0], &[], None).is_ok());
        assert!(why(2, &[0.1], &[0], &[0]).contains("1 edges need 2"));
        assert!(why(2, &[0.1], &[], &[0]).contains("0 entries"));
        for offsets in [[1, 2, 2], [0, 2, 1], [0, 1, 3]] {
            assert!(why(2, &[0.1, 0.1], &offsets, &[0, 1]).contains("end at 2"), "{offsets:?}");
        }
        for p in [1.0, -0.1, f64::NAN, f64::INFINITY] {
            assert!(why(2, &[p], &[0, 1], &[0]).contains("edge 0 has probability"), "{p}");
        }
        assert!(why(2, &[0.1], &[0, 1], &[2]).contains("vertex 2"));
        assert!(why(3, &[0.1], &[0, 3], &[1, 0, 1]).contains("vertex 1 twice"));
        assert!(why(MAX_DETECTORS + 1, &[], &[0], &[]).contains("at most"));
        let flips = |flips| Hypergraph::new(1, &[0.1], &[0, 1], &[0], Some(flips)).map(|_| ());
        assert_eq!(flips(vec![Some(&[u64::MAX, 4][..])]), Ok(()));
        assert!(flips(vec![Some(&[4, 4][..])]).is_err());
        assert!(flips(vec![]).is_err());
    }
}

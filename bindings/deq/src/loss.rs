//! Observed losses as probabilities of errors.
//!
//! A loss may have begun at any of several sites, and errors go with each: those of its *source* if the loss began there,
//! those of its *continuation* if it began there or earlier. The probability of that is added to an error's own, and the
//! error then weighs a fraction of what "the error, or the loss" would weigh: the errors of one loss happen together, and
//! matching counts each by itself. This is the mapping that deq's coordinators document for decoders that know no losses.

use crate::Refusal;

/// One place where an observed loss may have begun.
#[derive(Debug, Clone, Copy, Default)]
pub struct LossSite<'a> {
    /// Errors that a loss causes where it begins.
    pub source_edges: &'a [u64],
    /// Errors that a loss causes here, whether it began here or earlier.
    pub continuation_edges: &'a [u64],
    /// The probability that a loss begins here.
    pub probability: f64,
    /// The sites that come next in the life of what was lost here, as indices among the sites.
    pub children: &'a [u64],
}

/// A list of sites.
pub trait LossSites {
    /// How many there are.
    fn count(&self) -> usize;
    /// One of them.
    fn site(&self, index: usize) -> LossSite<'_>;
}

impl LossSites for [LossSite<'_>] {
    fn count(&self) -> usize {
        self.len()
    }

    fn site(&self, index: usize) -> LossSite<'_> {
        self[index]
    }
}

/// No loss was observed.
pub const NO_LOSS: &[LossSite<'static>] = &[];

/// Memory for the losses of a request: as much as the largest so far needed.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// Per site, the probability that a loss began there or earlier.
    reached: Vec<f64>,
    parents_left: Vec<u32>,
    ready: Vec<u32>,
    /// Per error, the probability that a loss caused it; 0 between requests.
    caused: Vec<f64>,
    /// Per error, whether the list at hand has it; all `false` between lists.
    listed: Vec<bool>,
    /// The errors that losses may have caused.
    pub(crate) errors: Vec<u32>,
    seen: Vec<bool>,
}

impl Losses {
    pub(crate) fn new(errors: usize) -> Self {
        Self {
            caused: vec![0.0; errors],
            listed: vec![false; errors],
            seen: vec![false; errors],
            errors: Vec::with_capacity(errors),
            ..Self::default()
        }
    }

    /// Works out what the sites may have caused: then [`errors`](Self::errors) has the errors, [`take`](Self::take) how likely.
    pub(crate) fn gather(&mut self, sites: &(impl LossSites + ?Sized)) -> Result<(), Refusal> {
        self.check(sites)?;
        self.reach(sites)?;
        for index in 0..sites.count() {
            let LossSite { source_edges, continuation_edges, probability, .. } = sites.site(index);
            // An error of both lists goes with the continuation, which is the likelier.
            let reached = self.reached[index];
            for (edges, probability) in [(continuation_edges, reached), (source_edges, probability)] {
                for &edge in edges {
                    if !std::mem::replace(&mut self.listed[edge as usize], true) {
                        self.cause(edge as u32, probability);
                    }
                }
            }
            for &edge in source_edges.iter().chain(continuation_edges) {
                self.listed[edge as usize] = false;
            }
        }
        Ok(())
    }

    fn cause(&mut self, error: u32, probability: f64) {
        if !std::mem::replace(&mut self.seen[error as usize], true) {
            self.errors.push(error);
        }
        let caused = &mut self.caused[error as usize];
        *caused = odd(*caused, probability);
    }

    /// How likely a loss caused this error, which is forgotten.
    pub(crate) fn take(&mut self, error: u32) -> f64 {
        self.seen[error as usize] = false;
        std::mem::take(&mut self.caused[error as usize])
    }

    fn check(&self, sites: &(impl LossSites + ?Sized)) -> Result<(), Refusal> {
        let (count, errors) = (sites.count() as u64, self.caused.len() as u64);
        for index in 0..sites.count() {
            let site = sites.site(index);
            let refuse = |why: String| Err(Refusal::Argument(format!("loss site {index} {why}")));
            if !(0.0..=1.0).contains(&site.probability) {
                return refuse(format!("has probability {}: it must be from 0 to 1", site.probability));
            }
            let edges = site.source_edges.iter().chain(site.continuation_edges);
            if let Some(edge) = edges.copied().find(|&edge| edge >= errors) {
                return refuse(format!("names edge {edge}; the graph has {errors}"));
            }
            if let Some(child) = site.children.iter().find(|&&child| child >= count) {
                return refuse(format!("names site {child} as its child; there are {count}"));
            }
        }
        Ok(())
    }

    /// Parents before children: a loss that began at a parent is at its children, too.
    fn reach(&mut self, sites: &(impl LossSites + ?Sized)) -> Result<(), Refusal> {
        let count = sites.count();
        let Self { reached, parents_left, ready, .. } = self;
        reached.clear();
        reached.extend((0..count).map(|index| sites.site(index).probability));
        parents_left.clear();
        parents_left.resize(count, 0);
        for index in 0..count {
            sites.site(index).children.iter().for_each(|&child| parents_left[child as usize] += 1);
        }
        ready.clear();
        ready.extend((0..count as u32).filter(|&index| parents_left[index as usize] == 0));
        let mut done = 0;
        while let Some(&index) = ready.get(done) {
            done += 1;
            let from = reached[index as usize];
            for &child in sites.site(index as usize).children {
                let child = child as usize;
                reached[child] = either(reached[child], from);
                parents_left[child] -= 1;
                if parents_left[child] == 0 {
                    ready.push(child as u32);
                }
            }
        }
        if done < count {
            return Err(Refusal::Argument("the children of loss sites go round in a circle".to_owned()));
        }
        Ok(())
    }
}

/// That one of two independent events happens, or both.
fn either(p: f64, q: f64) -> f64 {
    p + (1.0 - p) * q
}

/// That one of two independent events happens, and not both.
pub(crate) fn odd(p: f64, q: f64) -> f64 {
    p * (1.0 - q) + q * (1.0 - p)
}

/// What an error's probability becomes where a loss may have caused it: its weight is this fraction of the weight of "one of both".
pub(crate) fn raised(own: f64, caused: f64, fraction: f64) -> f64 {
    let one = odd(own, caused);
    let weight = ((1.0 - one) / one).ln().max(0.0);
    1.0 / (1.0 + (fraction * weight).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caused(errors: usize, sites: &[LossSite<'_>]) -> Result<Vec<(u32, f64)>, Refusal> {
        let mut losses = Losses::new(errors);
        losses.gather(sites)?;
        let list = std::mem::take(&mut losses.errors);
        let found = list.into_iter().map(|error| (error, losses.take(error))).collect();
        assert!(losses.caused.iter().all(|p| *p == 0.0) && !losses.listed.contains(&true));
        Ok(found)
    }

    #[test]
    fn a_continuation_follows_every_earlier_site() {
        let first =
            LossSite { source_edges: &[0], continuation_edges: &[1], probability: 0.1, children: &[1] };
        let second =
            LossSite { source_edges: &[2, 3], continuation_edges: &[3], probability: 0.2, children: &[] };
        let mut found = caused(4, &[first, second]).unwrap();
        found.sort_unstable_by_key(|entry| entry.0);
        let reached = 0.2 + 0.8 * 0.1;
        assert_eq!(found, [(0, 0.1), (1, 0.1), (2, 0.2), (3, reached)]);
        // The order of the sites does not matter.
        let first = LossSite { children: &[0], ..first };
        let mut other = caused(4, &[second, first]).unwrap();
        other.sort_unstable_by_key(|entry| entry.0);
        assert_eq!(other, found);
    }

    #[test]
    fn sites_of_one_error_add_up() {
        let site = |probability| LossSite { source_edges: &[1, 1], probability, ..LossSite::default() };
        let found = caused(2, &[site(0.1), site(0.3)]).unwrap();
        assert_eq!(found, [(1, odd(0.1, 0.3))]);
    }

    #[test]
    fn faults_are_named() {
        let site = |probability, edges, children| LossSite {
            source_edges: edges,
            probability,
            children,
            ..LossSite::default()
        };
        let why = |site| caused(2, &[site]).unwrap_err().to_string();
        assert!(why(site(f64::NAN, &[], &[])).contains("loss site 0 has probability"));
        assert!(why(site(0.1, &[2], &[])).contains("edge 2"));
        assert!(why(site(0.1, &[], &[1])).contains("site 1"));
        assert!(why(site(0.1, &[], &[0])).contains("circle"));
        let round = [site(0.1, &[], &[1]), site(0.1, &[], &[0])];
        assert!(caused(2, &round).is_err());
    }

    #[test]
    fn a_loss_makes_an_error_likelier() {
        assert_eq!(raised(0.0, 0.0, 0.5), 0.0);
        assert_eq!(raised(0.5, 0.3, 0.5), 0.5);
        assert!((raised(0.1, 0.0, 1.0) - 0.1).abs() < 1e-15);
        // Half the weight of 0.1 is the weight of 1/4: 9 to 1 becomes 3 to 1.
        assert!((raised(0.0, 0.1, 0.5) - 0.25).abs() < 1e-15);
    }
}

//! A window of a run that cores share: its defects and their regions, matched anew.

use super::plan::{Kind, OnePass, Passes, Place, Plan};
use crate::blossom::Blossom;
use crate::decoder::MwpmDecoder;
use crate::endless::decided::Decided;
use crate::endless::pane::Places;
use crate::metric::FAR;
use crate::readout::Answer;
use crate::solution::MatchedPair;

/// Rounds between pairs that two windows have matched differently, if a second pass is to weigh the pairs between them equally.
const QUIET: i64 = 2;

/// A window: its defects, and their regions or pairs once it is solved.
#[derive(Debug)]
pub(super) struct Work {
    /// Tells this window from all others of the decoder.
    pub(super) ticket: u64,
    /// The rounds of the window, and the layer of the graph that its first round lies in.
    pub(super) begin: usize,
    pub(super) end: usize,
    pub(super) layer: usize,
    pub(super) kind: Kind,
    /// Whether regions stop where rounds before it, or after it, begin; and whether it has the last rounds of the run.
    pub(super) has_front: bool,
    pub(super) has_back: bool,
    pub(super) nodes: Vec<u32>,
    matcher: Matcher,
    pub(super) defects: Vec<Solved>,
    /// The joins at which the window is expected to begin and to end.
    pub(super) expected: [usize; 2],
    /// The latest time that the defects between them influence.
    pub(super) front: i64,
}

/// What matches a window, and holds the answer between two joins.
#[derive(Debug)]
enum Matcher {
    Once { blossom: Box<Blossom>, extents: Vec<[u32; 2]>, answer: Box<Answer> },
    Twice { decoders: Box<[MwpmDecoder; 3]>, grid_weight: i64, observables: Vec<u64> },
}

/// What joins ask of a defect.
#[derive(Debug, Clone, Copy)]
pub(super) struct Solved {
    /// Its round, and its place there.
    pub(super) key: (usize, u32),
    /// The oldest and the newest round of its region and of that region's partner, or of its pair; `usize::MAX` is the newest of a
    /// region that would be matched with something outside the window.
    pub(super) oldest: usize,
    pub(super) newest: usize,
    /// Two windows with the same evidence have matched the defect alike.
    pub(super) evidence: Evidence,
}

/// What a window knows of a defect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Evidence {
    /// How far its region reaches, in one pass.
    Reach(i64),
    /// The round and the place of its partner, in two; the boundary has none.
    Partner(Option<(usize, u32)>),
}

impl Solved {
    /// The latest time at which the defect has an influence: of what its region covers, or in two passes in rounds, of its pair.
    pub(super) fn until(&self, plan: &Plan) -> i64 {
        match self.evidence {
            Evidence::Reach(reach) => self.key.0 as i64 * plan.per_round + reach,
            Evidence::Partner(_) => self.newest as i64 + QUIET,
        }
    }

    /// The earliest such time.
    pub(super) fn since(&self, plan: &Plan) -> i64 {
        match self.evidence {
            Evidence::Reach(reach) => self.key.0 as i64 * plan.per_round - reach,
            Evidence::Partner(_) => self.oldest as i64,
        }
    }
}

impl Work {
    pub(super) fn new(plan: &Plan) -> Self {
        let [n, edges, words] = plan.sizes();
        let matcher = match &plan.passes {
            Passes::One(_) => Matcher::Once {
                blossom: Box::new(Blossom::with_nodes(n)),
                extents: vec![[0; 2]; n + n / 2 + 1],
                answer: Box::new(Answer::with_room(n, edges, words)),
            },
            Passes::Two(panes) => Matcher::Twice {
                decoders: Box::new(panes.each_ref().map(|pane| pane.decoder.clone())),
                grid_weight: 0,
                observables: vec![0; words],
            },
        };
        Self {
            ticket: 0,
            begin: 0,
            end: 0,
            layer: 0,
            kind: Kind::First,
            has_front: false,
            has_back: false,
            nodes: Vec::with_capacity(n),
            matcher,
            defects: Vec::with_capacity(n),
            expected: [0; 2],
            front: -FAR,
        }
    }

    /// Begins without defects.
    pub(super) fn place(&mut self, ticket: u64, place: Place) {
        let Place { begin, end, layer, kind, expected } = place;
        (self.ticket, self.begin, self.end, self.layer, self.kind) = (ticket, begin, end, layer, kind);
        (self.has_front, self.has_back, self.expected) = (kind != Kind::First, kind != Kind::Last, expected);
        self.nodes.clear();
    }

    pub(super) fn solve(&mut self, plan: &Plan) {
        match &plan.passes {
            Passes::One(one) => self.solve_once(plan, one),
            Passes::Two(_) => self.solve_twice(plan),
        }
        self.read(plan, self.expected);
    }

    fn solve_once(&mut self, plan: &Plan, tables: &OnePass) {
        let Self { begin, end, layer, nodes, matcher, defects, .. } = self;
        let Matcher::Once { blossom, extents, .. } = matcher else { return };
        let (begin, layer, length) = (*begin, *layer, *end - *begin);
        let (has_front, has_back) = (self.has_front, self.has_back);
        let places = plan.places(self.kind);
        let border = |node: u32| {
            let layer_of_node = places.layer_of[node as usize] as usize;
            let (at, position) = (layer_of_node - layer, (node - places.bases[layer_of_node]) as usize);
            let to = |rows: &[Vec<i64>], at: usize| rows.get(at).map_or(FAR, |row| row[position]);
            let front = if has_front { to(&tables.fronts, at) } else { FAR };
            let back = if has_back { to(&tables.backs, length - 1 - at) } else { FAR };
            front.min(back)
        };
        blossom.begin(tables.tables());
        let matched = blossom.resume(tables.tables(), nodes, 0, |_| FAR, border);
        debug_assert!(matched, "every part has a boundary");
        blossom.forget_nodes();
        blossom.extents(|node| places.layer_of[node as usize], extents);
        let round = |layer_of_node: u32| layer_of_node as usize + begin - layer;
        defects.clear();
        defects.extend((0..).zip(&*nodes).map(|(i, &node)| {
            let [oldest, newest] = extents[blossom.outermost(i) as usize];
            let newest = if newest == u32::MAX { usize::MAX } else { round(newest) };
            let evidence = Evidence::Reach(blossom.covered(i));
            Solved { key: key(places, begin, layer, node), oldest: round(oldest), newest, evidence }
        }));
    }

    /// Edges that lead out of the window lead to the boundary. A pair beside them may be wrong, and is then another in the next
    /// window.
    fn solve_twice(&mut self, plan: &Plan) {
        let Self { begin, layer, kind, nodes, matcher, defects, .. } = self;
        let Matcher::Twice { decoders, .. } = matcher else { return };
        let (decoder, places) = (&mut decoders[*kind as usize], plan.places(*kind));
        let matched = decoder.decode(nodes).is_ok();
        debug_assert!(matched, "every part has a boundary");
        let key = |node: u32| key(places, *begin, *layer, node);
        let alone = |node: u32| {
            let key = key(node);
            Solved { key, oldest: key.0, newest: key.0, evidence: Evidence::Partner(None) }
        };
        defects.clear();
        defects.extend(nodes.iter().map(|&node| alone(node)));
        for &MatchedPair { a, b } in decoder.pairs() {
            let Some(b) = b else { continue };
            for (one, other) in [(a, b), (b, a)] {
                let (Ok(at), other) = (nodes.binary_search(&one), key(other)) else { continue };
                let defect = &mut defects[at];
                (defect.oldest, defect.newest) = (defect.oldest.min(other.0), defect.newest.max(other.0));
                defect.evidence = Evidence::Partner(Some(other));
            }
        }
    }

    /// Solves the defects whose pairs of regions have no round before `from`, as if the run had no others.
    pub(super) fn solve_alone(&mut self, plan: &Plan, from: usize) {
        let Self { nodes, defects, .. } = self;
        let mut defects = defects.iter();
        nodes.retain(|_| defects.next().is_some_and(|defect| defect.oldest >= from));
        (self.has_front, self.has_back, self.expected[0]) = (false, false, 0);
        self.solve(plan);
    }

    /// Whether a pair that is taken from round `from` on leads out of the window.
    pub(super) fn leads_out(&self, from: usize) -> bool {
        self.defects.iter().any(|defect| defect.oldest >= from && defect.newest == usize::MAX)
    }

    /// Reads the pairs whose oldest rounds are from `from` to before `to`.
    pub(super) fn read(&mut self, plan: &Plan, [from, to]: [usize; 2]) {
        self.expected = [from, to];
        let Self { begin, layer, kind, matcher, defects, front, .. } = self;
        let taken = defects.iter().filter(|d| (from..to).contains(&d.oldest));
        *front = taken.map(|d| d.until(plan)).max().unwrap_or(-FAR);
        match (matcher, &plan.passes) {
            (Matcher::Once { blossom, extents, answer }, Passes::One(one)) => {
                let oldest = |top: u32| extents[top as usize][0] as usize + *begin - *layer;
                answer.clear();
                answer.compose(one.tables(), |out| {
                    out.regions_of(blossom, |top| {
                        (from..to).contains(&oldest(top)) && extents[top as usize][1] != u32::MAX
                    });
                });
            }
            (Matcher::Twice { decoders, grid_weight, observables }, _) => {
                let places = plan.places(*kind);
                let round = |node: u32| places.layer_of[node as usize] as usize + *begin - *layer;
                let oldest =
                    |pair: MatchedPair| pair.b.map_or(round(pair.a), |b| round(pair.a).min(round(b)));
                observables.fill(0);
                *grid_weight =
                    decoders[*kind as usize].part(|pair| (from..to).contains(&oldest(pair)), observables);
            }
            (Matcher::Once { .. }, Passes::Two(_)) => {}
        }
    }

    /// Adds what was read.
    pub(super) fn add_to(&self, decided: &mut Decided) {
        match &self.matcher {
            Matcher::Once { answer, .. } => decided.add(&answer.solution),
            Matcher::Twice { grid_weight, observables, .. } => decided.add_part(*grid_weight, observables),
        }
    }

    /// The first defect of round `round` or a later one.
    pub(super) fn first_from(&self, round: usize) -> usize {
        self.defects.partition_point(|defect| defect.key.0 < round)
    }
}

/// The round of a node, and its place there, in a window whose round `begin` lies in layer `layer`.
fn key(places: &Places, begin: usize, layer: usize, node: u32) -> (usize, u32) {
    let layer_of_node = places.layer_of[node as usize] as usize;
    (layer_of_node + begin - layer, node - places.bases[layer_of_node])
}

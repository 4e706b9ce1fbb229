//! A window of a run that cores share: its defects and their regions, matched anew.

use super::plan::Plan;
use crate::blossom::Blossom;
use crate::metric::FAR;
use crate::readout::Answer;

/// A window: its defects, and their regions once it is solved.
#[derive(Debug)]
pub(super) struct Work {
    /// Tells this window from all others of the decoder.
    pub(super) ticket: u64,
    /// The rounds of the window, and the layer of the graph that its first round lies in.
    pub(super) begin: usize,
    pub(super) end: usize,
    pub(super) layer: usize,
    /// Whether regions stop where rounds before it, or after it, begin; and whether it has the last rounds of the run.
    pub(super) has_front: bool,
    pub(super) has_back: bool,
    pub(super) is_last: bool,
    pub(super) nodes: Vec<u32>,
    pub(super) blossom: Blossom,
    pub(super) extents: Vec<[u32; 2]>,
    pub(super) defects: Vec<Solved>,
    /// The joins at which the window is expected to begin and to end, and the answer between them.
    pub(super) expected: [usize; 2],
    pub(super) answer: Answer,
    /// The latest time that the regions between them cover.
    pub(super) front: i64,
}

/// What joins ask of a defect.
#[derive(Debug, Clone, Copy)]
pub(super) struct Solved {
    /// Its round, and its place there.
    pub(super) key: (usize, u32),
    /// The oldest and the newest round of its region and of that region's partner; `usize::MAX` is the newest of a region
    /// that would be matched with something outside the window.
    pub(super) oldest: usize,
    pub(super) newest: usize,
    pub(super) reach: i64,
}

impl Work {
    pub(super) fn new(plan: &Plan) -> Self {
        let n = plan.graph.num_detectors();
        Self {
            ticket: 0,
            begin: 0,
            end: 0,
            layer: 0,
            has_front: false,
            has_back: false,
            is_last: false,
            nodes: Vec::with_capacity(n),
            blossom: Blossom::with_nodes(n),
            extents: vec![[0; 2]; n + n / 2 + 1],
            defects: Vec::with_capacity(n),
            expected: [0; 2],
            answer: Answer::with_room(n, plan.graph.num_edges(), plan.graph.observable_words()),
            front: -FAR,
        }
    }

    /// Begins without defects.
    pub(super) fn place(&mut self, ticket: u64, place: Place) {
        let Place { begin, end, layer, expected, is_last } = place;
        (self.ticket, self.begin, self.end, self.layer) = (ticket, begin, end, layer);
        (self.has_front, self.has_back) = (begin > 0, !is_last);
        (self.is_last, self.expected) = (is_last, expected);
        self.nodes.clear();
    }

    pub(super) fn solve(&mut self, plan: &Plan) {
        let Self { begin, end, layer, nodes, blossom, extents, defects, .. } = self;
        let (begin, layer, length) = (*begin, *layer, *end - *begin);
        let (has_front, has_back) = (self.has_front, self.has_back);
        let border = |node: u32| {
            let layer_of_node = plan.layer_of[node as usize] as usize;
            let (at, position) = (layer_of_node - layer, (node - plan.bases[layer_of_node]) as usize);
            let to = |rows: &[Vec<i64>], at: usize| rows.get(at).map_or(FAR, |row| row[position]);
            let front = if has_front { to(&plan.fronts, at) } else { FAR };
            let back = if has_back { to(&plan.backs, length - 1 - at) } else { FAR };
            front.min(back)
        };
        blossom.begin(plan.tables());
        let matched = blossom.resume(plan.tables(), nodes, 0, |_| FAR, border);
        debug_assert!(matched, "every part has a boundary");
        blossom.forget_nodes();
        blossom.extents(|node| plan.layer_of[node as usize], extents);
        let round = |layer_of_node: u32| layer_of_node as usize + begin - layer;
        defects.clear();
        defects.extend((0..).zip(&*nodes).map(|(i, &node)| {
            let layer = plan.layer_of[node as usize];
            let [oldest, newest] = extents[blossom.outermost(i) as usize];
            let newest = if newest == u32::MAX { usize::MAX } else { round(newest) };
            let key = (round(layer), node - plan.bases[layer as usize]);
            Solved { key, oldest: round(oldest), newest, reach: blossom.covered(i) }
        }));
        self.read(plan, self.expected);
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
        let Self { blossom, extents, begin, layer, answer, defects, front, .. } = self;
        let taken = defects.iter().filter(|d| (from..to).contains(&d.oldest));
        *front = taken.map(|d| d.key.0 as i64 * plan.per_round + d.reach).max().unwrap_or(-FAR);
        let oldest = |top: u32| extents[top as usize][0] as usize + *begin - *layer;
        answer.clear();
        answer.compose(plan.tables(), |out| {
            out.regions_of(blossom, |top| {
                (from..to).contains(&oldest(top)) && extents[top as usize][1] != u32::MAX
            });
        });
    }

    /// The first defect of round `round` or a later one.
    pub(super) fn first_from(&self, round: usize) -> usize {
        self.defects.partition_point(|defect| defect.key.0 < round)
    }
}

/// Where a window lies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// Its rounds, and the layer of the graph that its first round lies in.
    pub(super) begin: usize,
    pub(super) end: usize,
    pub(super) layer: usize,
    /// The joins between which its pairs are probably taken.
    pub(super) expected: [usize; 2],
    pub(super) is_last: bool,
}

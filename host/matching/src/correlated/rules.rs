//! Weight rules: how a crossed edge changes the weights of other edges, on the integer grid.

/// Per edge, the edges that become lighter when it is crossed, and their weights then.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules {
    /// Where each edge's rules begin, with one more entry at the end; empty if there are no rules.
    rows: Vec<u32>,
    rules: Vec<Rule>,
}

/// An edge and its weight, given another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) edge: u32,
    /// Grid weight: even, less than the edge's own.
    pub(crate) weight: u32,
}

impl Rules {
    /// From rules in the order of the edges that they belong to.
    pub(crate) fn new(edges: usize, list: impl Iterator<Item = (u32, Rule)>) -> Self {
        let mut out = Self { rows: vec![0; edges + 1], rules: Vec::new() };
        for (given, rule) in list {
            out.rows[given as usize + 1] += 1;
            out.rules.push(rule);
        }
        if out.rules.is_empty() {
            return Self::default();
        }
        for i in 0..edges {
            out.rows[i + 1] += out.rows[i];
        }
        out
    }

    /// Those that are `wanted`.
    pub(crate) fn only(&self, edges: usize, wanted: impl Fn(&Rule) -> bool) -> Self {
        let all = (0..edges as u32).flat_map(|given| self.of(given).iter().map(move |&rule| (given, rule)));
        Self::new(edges, all.filter(|(_, rule)| wanted(rule)))
    }

    pub(crate) fn len(&self) -> usize {
        self.rules.len()
    }

    /// A part of the result of [`of`](Self::of), to fetch it into a cache.
    #[inline]
    pub(crate) fn first(&self, edge: u32) -> u32 {
        let row = self.rows.get(edge as usize).map_or(0, |&row| row as usize);
        self.rules.get(row).map_or(0, |rule| rule.edge)
    }

    /// What follows from crossing `edge`.
    pub(crate) fn of(&self, edge: u32) -> &[Rule] {
        let i = edge as usize;
        if self.rules.is_empty() {
            &[]
        } else {
            &self.rules[self.rows[i] as usize..self.rows[i + 1] as usize]
        }
    }
}

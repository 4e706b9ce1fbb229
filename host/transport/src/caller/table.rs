//! Table of a caller's requests in flight and recent outcomes.

/// Outcomes remembered for each request that may be in flight. While an outcome is remembered, a duplicate or late
/// answer is recognised.
const MEMORY: usize = 16;

const LEAST: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Unused,
    Waiting,
    Answered,
    Lost,
    Unsent,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    id: u32,
    state: State,
    sent_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// The first answer to a request in flight.
    First { sent_ns: u64 },
    /// A further answer to the same request.
    Again,
    /// An answer to a request that was given up.
    Late,
    /// An answer to a request that is not remembered.
    Unknown,
}

/// One entry for each of the last ids, indexed by their low bits.
#[derive(Debug)]
pub(super) struct Table {
    entries: Box<[Entry]>,
    mask: u32,
    window: usize,
    waiting: usize,
    next: u32,
    unsent: Vec<(u32, u64)>,
}

impl Table {
    pub(super) fn new(window: usize, first_id: u32) -> Self {
        let entries = (window.clamp(1, 1 << 20) * MEMORY).max(LEAST).next_power_of_two();
        let unused = Entry { id: 0, state: State::Unused, sent_ns: 0 };
        Self {
            entries: vec![unused; entries].into(),
            mask: entries as u32 - 1,
            window,
            waiting: 0,
            next: first_id,
            unsent: Vec::new(),
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    fn entry(&mut self, id: u32) -> &mut Entry {
        &mut self.entries[(id & self.mask) as usize]
    }

    /// The next id and the index of its entry; `None` if the window is full. Ids whose entries are still in flight are
    /// skipped, so an unanswered request does not stall later ones.
    #[inline]
    pub(super) fn open(&mut self, now_ns: u64) -> Option<(u32, u32)> {
        if self.waiting >= self.window {
            return None;
        }
        // The loop ends, since there are more entries than requests may be in flight.
        loop {
            let id = self.next;
            self.next = id.wrapping_add(1);
            let index = id & self.mask;
            let entry = self.entry(id);
            if entry.state != State::Waiting {
                *entry = Entry { id, state: State::Waiting, sent_ns: now_ns };
                self.waiting += 1;
                return Some((id, index));
            }
        }
    }

    #[inline]
    pub(super) fn answer(&mut self, id: u32) -> Answer {
        let entry = self.entry(id);
        if entry.id != id {
            return Answer::Unknown;
        }
        match entry.state {
            State::Waiting => {
                entry.state = State::Answered;
                let sent_ns = entry.sent_ns;
                self.waiting -= 1;
                Answer::First { sent_ns }
            }
            State::Answered => Answer::Again,
            State::Lost | State::Unsent => Answer::Late,
            State::Unused => Answer::Unknown,
        }
    }

    /// Records that the wire refused a request.
    pub(super) fn unsent(&mut self, id: u32) {
        let entry = self.entry(id);
        if entry.id == id && entry.state == State::Waiting {
            entry.state = State::Unsent;
            let sent_ns = entry.sent_ns;
            self.waiting -= 1;
            self.unsent.push((id, sent_ns));
        }
    }

    /// The requests refused by the wire since the last call.
    pub(super) fn take_unsent(&mut self) -> Vec<(u32, u64)> {
        std::mem::take(&mut self.unsent)
    }

    /// Gives up every request that has been in flight for `allowed_ns`.
    pub(super) fn expire(&mut self, now_ns: u64, allowed_ns: u64, mut lost: impl FnMut(u32, u64)) {
        let mut left = self.waiting;
        for entry in &mut self.entries {
            if left == 0 {
                break;
            }
            if entry.state != State::Waiting {
                continue;
            }
            left -= 1;
            if now_ns.saturating_sub(entry.sent_ns) >= allowed_ns {
                entry.state = State::Lost;
                self.waiting -= 1;
                lost(entry.id, entry.sent_ns);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_answer_is_what_it_is() {
        let mut table = Table::new(2, u32::MAX);
        assert_eq!(table.open(10).map(|(id, _)| id), Some(u32::MAX));
        assert_eq!(table.open(20).map(|(id, _)| id), Some(0), "ids wrap");
        assert_eq!(table.open(30), None);
        assert_eq!(table.answer(0), Answer::First { sent_ns: 20 });
        assert_eq!(table.answer(0), Answer::Again);
        assert_eq!(table.answer(1), Answer::Unknown);
        let mut lost = Vec::new();
        table.expire(15, 5, |id, _| lost.push(id));
        assert_eq!(lost, [u32::MAX]);
        assert_eq!(table.answer(u32::MAX), Answer::Late);
        assert_eq!(table.waiting(), 0);
    }

    #[test]
    fn one_that_is_never_answered_stalls_none() {
        let mut table = Table::new(2, 0);
        let (held, _) = table.open(0).unwrap();
        for _ in 0..10 * LEAST {
            let (id, _) = table.open(1).unwrap();
            assert_eq!(table.answer(id), Answer::First { sent_ns: 1 });
        }
        assert_eq!(table.answer(held), Answer::First { sent_ns: 0 });
    }

    proptest! {
        #[test]
        fn each_request_ends_once(answers in proptest::collection::vec(0_u32..50, 0..300), window in 1_usize..20) {
            let mut table = Table::new(window, 0);
            let (mut sent, mut first) = (0, 0);
            for id in answers {
                while table.open(0).is_some() { sent += 1; }
                first += usize::from(matches!(table.answer(id), Answer::First { .. }));
                prop_assert_eq!(table.waiting() + first, sent);
                prop_assert!(table.waiting() <= window);
            }
            let mut lost = 0;
            table.expire(10, 1, |_, _| lost += 1);
            prop_assert_eq!((first + lost, table.waiting()), (sent, 0));
        }
    }
}

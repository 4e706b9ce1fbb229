//! The next event of a defect.

use super::region::{FROZEN, GROWING};
use super::{Blossom, Tables};
use crate::graph::NONE;
use crate::metric::FAR;
use crate::queue::NEVER;

/// The next event of a defect.
#[derive(Debug, Clone, Copy)]
pub(super) enum Event {
    /// No event before this time; [`NEVER`] if this defect waits for none.
    Later(i64),
    /// The defect has reached the boundary, or the frontier.
    Boundary,
    /// The defect meets another defect, through this half-edge.
    Meet(u32),
}

impl Blossom {
    /// Finds the next event at defect `i`, and scans further when the defect's reach has come to its horizon.
    ///
    /// At least one of the two defects of a pair waits for the pair: if the other defect is queued for the same or an earlier
    /// time, it checks the pair again then, and nothing is queued here. A queued time may be too early, if a region has stopped
    /// growing since, but never too late: whenever a rate goes up, the defects concerned are attended to again.
    #[inline]
    pub(super) fn next_event(&mut self, tables: Tables<'_>, i: u32) -> Event {
        let d = &self.defects[i as usize];
        let top = d.top;
        let region = &self.regions[top as usize];
        let rate = region.rate;
        if rate < FROZEN {
            return Event::Later(NEVER);
        }
        let now = self.time;
        let reach = d.base + region.radius(now);
        let mut best = NEVER;
        if rate == GROWING && self.flood.is_some() {
            match self.next_flood_event(tables, i, reach) {
                Event::Later(time) => best = time,
                event => return event,
            }
        } else if rate == GROWING {
            let to_boundary = d.boundary - reach;
            if to_boundary <= 0 {
                return Event::Boundary;
            }
            while self.defects[i as usize].horizon <= 2 * reach {
                self.advance(tables, i);
            }
            let horizon = self.defects[i as usize].horizon;
            if to_boundary < FAR / 2 {
                best = now + to_boundary;
            }
            if horizon != NEVER {
                best = best.min(now + horizon / 2 - reach);
            }
        }
        // Without a branch for each condition: which of them holds is anyone's guess.
        let mut h = self.defects[i as usize].head;
        while h != NONE {
            let half = self.halves[h as usize];
            let other = &self.defects[half.other as usize];
            let their = &self.regions[other.top as usize];
            let closing = rate + their.rate;
            if (closing > 0) & (other.top != top) {
                let gap = half.dist - reach - other.base - their.radius(now);
                if gap <= 0 {
                    debug_assert_eq!(gap, 0, "a pair met before anybody looked");
                    return Event::Meet(h);
                }
                debug_assert!(closing == 1 || gap % 2 == 0, "regions meet at whole times");
                let time = now + (gap >> (closing - 1));
                if (time < best) & (self.queue.time_of(half.other) > time) {
                    best = time;
                }
            }
            h = half.next;
        }
        Event::Later(best)
    }
}

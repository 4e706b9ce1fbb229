//! One iteration of min-sum: messages of checks, then of columns, in integers of fixed width.
//!
//! Compilers turn every loop over lanes into vector instructions: bytes for messages, 16 bits for sums. The sums are exact, so
//! their order does not matter. The bounds are in `docs/design/0024`.

use crate::layout::{Group, LANES, Lanes};

/// The largest magnitude of a message.
const MESSAGE_CAP: i16 = 127;
/// The largest magnitude of a marginal.
const MARGINAL_CAP: i16 = 511;

/// A message as a sign (0 or -1) and a magnitude.
#[inline(always)]
fn split(message: i8) -> (i8, u8) {
    let sign = message >> 7;
    (sign, ((message ^ sign).wrapping_sub(sign)) as u8)
}

/// The messages from checks: for each column of a check, the least magnitude among the messages of the check's other columns (127
/// if there are none), with the product of their signs, negated if the check fired.
///
/// `fired` has -1 for each check that fired; `depths` says how many rows each block has.
pub(crate) fn checks(depths: &[u32], fired: &[Lanes<i8>], from: &[Lanes<i8>], to: &mut [Lanes<i8>]) {
    let (mut from, mut to) = (from, to);
    for (&depth, fired) in depths.iter().zip(fired) {
        let (incoming, later) = from.split_at(depth as usize);
        let (outgoing, later_to) = to.split_at_mut(depth as usize);
        (from, to) = (later, later_to);
        check_block(fired, incoming, outgoing);
    }
}

#[inline(always)]
fn check_block(fired: &Lanes<i8>, incoming: &[Lanes<i8>], outgoing: &mut [Lanes<i8>]) {
    let mut signs = *fired;
    let mut least = [MESSAGE_CAP as u8; LANES];
    let mut second = least;
    for row in incoming {
        for lane in 0..LANES {
            let (sign, magnitude) = split(row[lane]);
            second[lane] = second[lane].min(least[lane].max(magnitude));
            least[lane] = least[lane].min(magnitude);
            signs[lane] ^= sign;
        }
    }
    for (row, out) in incoming.iter().zip(outgoing) {
        for lane in 0..LANES {
            let (own, magnitude) = split(row[lane]);
            // If another message has the least magnitude too, `second` equals `least`.
            let others = if magnitude == least[lane] { second[lane] } else { least[lane] } as i8;
            let sign = signs[lane] ^ own;
            out[lane] = (others ^ sign).wrapping_sub(sign);
        }
    }
}

/// The state of a decoder's columns, by blocks.
pub(crate) struct Columns<'a> {
    pub(crate) priors: &'a [Lanes<i16>],
    /// Memory strengths in 128ths.
    pub(crate) memory: &'a [Lanes<i16>],
    pub(crate) marginals: &'a mut [Lanes<i16>],
    /// 1 where the marginal is negative.
    pub(crate) decisions: &'a mut [Lanes<u8>],
    /// Messages from checks, in the order of the columns' rows.
    pub(crate) incoming: &'a [Lanes<i8>],
    /// Messages to checks, in the same order: the last ones before the call, the next ones after it.
    pub(crate) outgoing: &'a mut [Lanes<i8>],
}

/// The marginals and the messages from columns.
pub(crate) fn columns(groups: &[Group], mut all: Columns<'_>, damping: i16) {
    for group in groups {
        let (part, rest) = all.split_at(group.blocks, group.blocks * group.degree);
        all = rest;
        match (group.degree, damping) {
            (1, 0) => column_group::<1>(part),
            (2, 0) => column_group::<2>(part),
            (3, 0) => column_group::<3>(part),
            (4, 0) => column_group::<4>(part),
            (5, 0) => column_group::<5>(part),
            (6, 0) => column_group::<6>(part),
            (degree, damping) => column_group_of(part, degree, damping),
        }
    }
}

impl<'a> Columns<'a> {
    fn split_at(self, blocks: usize, rows: usize) -> (Self, Self) {
        let (priors, priors_rest) = self.priors.split_at(blocks);
        let (memory, memory_rest) = self.memory.split_at(blocks);
        let (marginals, marginals_rest) = self.marginals.split_at_mut(blocks);
        let (decisions, decisions_rest) = self.decisions.split_at_mut(blocks);
        let (incoming, incoming_rest) = self.incoming.split_at(rows);
        let (outgoing, outgoing_rest) = self.outgoing.split_at_mut(rows);
        (
            Self { priors, memory, marginals, decisions, incoming, outgoing },
            Self {
                priors: priors_rest,
                memory: memory_rest,
                marginals: marginals_rest,
                decisions: decisions_rest,
                incoming: incoming_rest,
                outgoing: outgoing_rest,
            },
        )
    }
}

/// Columns of one degree, known to the compiler, undamped.
fn column_group<const DEGREE: usize>(part: Columns<'_>) {
    let incoming = part.incoming.as_chunks::<DEGREE>().0;
    let outgoing = part.outgoing.as_chunks_mut::<DEGREE>().0;
    let state = part.priors.iter().zip(part.memory).zip(part.marginals).zip(part.decisions);
    for ((((priors, memory), marginals), decisions), (incoming, outgoing)) in
        state.zip(incoming.iter().zip(outgoing))
    {
        let sums = sum(priors, memory, marginals, decisions, incoming);
        for (row, out) in incoming.iter().zip(outgoing) {
            for lane in 0..LANES {
                out[lane] = message(sums[lane], row[lane]);
            }
        }
    }
}

/// Columns of any degree, damped or not.
fn column_group_of(part: Columns<'_>, degree: usize, damping: i16) {
    let incoming = part.incoming.chunks_exact(degree);
    let outgoing = part.outgoing.chunks_exact_mut(degree);
    let state = part.priors.iter().zip(part.memory).zip(part.marginals).zip(part.decisions);
    for ((((priors, memory), marginals), decisions), (incoming, outgoing)) in
        state.zip(incoming.zip(outgoing))
    {
        let sums = sum(priors, memory, marginals, decisions, incoming);
        for (row, out) in incoming.iter().zip(outgoing) {
            for lane in 0..LANES {
                let next = message(sums[lane], row[lane]) as i16;
                // Of magnitude 127 × 254 at most.
                let kept = damping * (out[lane] as i16 - next);
                out[lane] = (next + nearest(kept >> 7, kept)) as i8;
            }
        }
    }
}

/// Sums biases and messages, and stores the sums as marginals and decisions.
#[inline(always)]
fn sum(
    priors: &Lanes<i16>,
    memory: &Lanes<i16>,
    marginals: &mut Lanes<i16>,
    decisions: &mut Lanes<u8>,
    incoming: &[Lanes<i8>],
) -> Lanes<i16> {
    let mut sums = [0; LANES];
    for lane in 0..LANES {
        // The product needs more than 16 bits; its quotient by 128 and its low bits do not. The difference is at most 638 in
        // magnitude and the strength 128, so both factors of the first product fit 16 bits.
        let difference = marginals[lane] - priors[lane];
        let quotient = (((difference * 32) as i32 * (memory[lane] * 16) as i32) >> 16) as i16;
        let product = difference.wrapping_mul(memory[lane]);
        sums[lane] = priors[lane] + nearest(quotient, product);
    }
    for row in incoming {
        for lane in 0..LANES {
            sums[lane] += row[lane] as i16;
        }
    }
    for lane in 0..LANES {
        marginals[lane] = sums[lane].clamp(-MARGINAL_CAP, MARGINAL_CAP);
        decisions[lane] = (marginals[lane] < 0) as u8;
    }
    sums
}

/// A product divided by 128, to the nearest integer and halves to even, from the quotient rounded down and the product's low
/// bits.
#[inline(always)]
fn nearest(quotient: i16, product: i16) -> i16 {
    quotient + (((product & 127) + 63 + (quotient & 1)) >> 7)
}

/// The message from a column to a check: the column's sum without that check's message.
#[inline(always)]
fn message(sum: i16, incoming: i8) -> i8 {
    (sum - incoming as i16).clamp(-MESSAGE_CAP, MESSAGE_CAP) as i8
}

/// Copies messages from slots to the order of the columns' rows.
pub(crate) fn gather(slots: &[Lanes<u32>], from: &[Lanes<i8>], to: &mut [Lanes<i8>]) {
    let from = from.as_flattened();
    for (&slot, out) in slots.as_flattened().iter().zip(to.as_flattened_mut()) {
        *out = from[slot as usize];
    }
}

/// Copies messages to slots from the order of the columns' rows.
pub(crate) fn scatter(slots: &[Lanes<u32>], from: &[Lanes<i8>], to: &mut [Lanes<i8>]) {
    let to = to.as_flattened_mut();
    for (&slot, &message) in slots.as_flattened().iter().zip(from.as_flattened()) {
        to[slot as usize] = message;
    }
}

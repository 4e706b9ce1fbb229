//! Counters of transports. Each set has one writer and readers on any thread.

use ringcall_gpu::atomic::DeviceU64;
use std::fmt;
use std::sync::atomic::Ordering;

/// A counter with one writer, which uses a load and a store instead of a read-modify-write.
#[derive(Debug)]
pub(crate) struct Count(DeviceU64);

impl Count {
    #[inline(always)]
    pub(crate) fn add(&self, n: u64) {
        self.0.store(self.get().wrapping_add(n), Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn one(&self) {
        self.add(1);
    }

    #[inline(always)]
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Default for Count {
    fn default() -> Self {
        Self(DeviceU64::new(0))
    }
}

macro_rules! counters {
    ($(#[$about:meta])* $counts:ident, $live:ident { $($field:ident: $meaning:literal;)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        #[non_exhaustive]
        pub struct $counts {
            $(#[doc = concat!($meaning, ".")] pub $field: u64,)*
        }

        impl $counts {
            /// The meaning of each counter by name, in the order of [`named`](Self::named).
            pub const MEANINGS: &'static [(&'static str, &'static str)] =
                &[$((stringify!($field), $meaning),)*];

            /// Every counter with its name, in a fixed order.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($field), self.$field),)*].into_iter()
            }

            /// Sets the counter `name`, for counts that come from another process or library. Returns whether there is
            /// such a counter.
            pub fn set(&mut self, name: &str, count: u64) -> bool {
                match name {
                    $(stringify!($field) => self.$field = count,)*
                    _ => return false,
                }
                true
            }
        }

        impl fmt::Display for $counts {
            /// Prints the counters that are not zero.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                show(f, self.named())
            }
        }

        #[derive(Debug, Default)]
        pub(crate) struct $live {
            $(pub(crate) $field: Count,)*
        }

        impl $live {
            pub(crate) fn stats(&self) -> $counts {
                $counts { $($field: self.$field.get(),)* }
            }
        }
    };
}

fn show(f: &mut fmt::Formatter<'_>, named: impl Iterator<Item = (&'static str, u64)>) -> fmt::Result {
    let mut separator = "";
    for (name, n) in named.filter(|&(_, n)| n != 0) {
        write!(f, "{separator}{name} {n}")?;
        separator = ", ";
    }
    if separator.is_empty() { f.write_str("nothing yet") } else { Ok(()) }
}

counters! {
    /// Counters of a service.
    ///
    /// Everything is accounted for: [`balance`](Self::balance) is zero at any quiet moment, and always after a stop.
    TransportStats, LiveCounters {
        received: "frames taken from the wire, whatever became of them";
        requests: "frames put into slots";
        answered: "answers handed to the wire";
        under_way: "requests in slots, whose answers are still to come";
        unsent: "answers that the wire would not take: an unreachable peer, or a stop";
        unanswered: "requests that the dispatcher took out of their slots without an answer, as it was asked to";
        dropped: "requests without an answer when the transport stopped; their senders were told SHUTTING_DOWN";
        oversize: "frames refused (ARG_TOO_LONG): longer than a slot";
        truncated: "frames refused (ARG_TOO_LONG): shorter than their arg_len says";
        bad_magic: "frames refused (BAD_MAGIC)";
        bad_slot: "frames refused (BAD_FLAG): the peer named a slot that the ring does not have";
        slot_taken: "frames refused (BACKPRESSURE): the peer named a slot that is still in use";
        stopping: "frames refused (SHUTTING_DOWN): they came while the transport stopped";
        runts: "frames ignored: shorter than a header";
        strays: "frames ignored: responses, which nobody may answer";
        malformed: "packets ignored: not of this wire";
        forbidden: "packets ignored: of peers that are not served";
        wrong_tag: "frames ignored: without their tag, or with a wrong one";
        wrong_icrc: "packets ignored: their invariant CRC is wrong, so they were damaged on the way";
        wrong_key: "packets ignored: their key is not the window's";
        no_message: "packets ignored: they continue a message of which an earlier packet is missing";
        wrong_psn: "packets ignored: their sequence number is not the next one of a reliable connection";
        repeated: "packets ignored: the wire knows by its own sequence numbers that they were here before";
        lost: "packets that the wire knows to be lost, by its own sequence numbers";
        incomplete: "frames given up: packets of them never came";
        resent: "packets sent again: the peer of a reliable connection had not acknowledged them";
        broken_silent: "reliable connections that ended: the peer acknowledged nothing, however often it was asked";
        broken_not_ready: "reliable connections that ended: the peer had no receive buffer all the time";
        broken_refused: "reliable connections that ended: the peer refused an answer";
        broken_queue_pair: "connections that ended: the adapter's queue pair went into the error state";
        device_removed: "connections that ended: the adapter was removed";
        evicted: "peers that lost their entry to a newcomer: more wrote than the transport knows at a time";
        error_marks: "answers that were an error mark of the dispatcher";
        bad_answers: "answers replaced (ABANDONED): what the slot held did not belong to its request";
        unasked: "answers thrown away that belong to no request of this transport";
        full: "times that there was no slot to receive into: what comes waits in the wire's buffer";
        blocked: "times that the wire's send buffer was full: the rest was sent later";
        errors: "errors of the wire";
        kernel_drops: "datagrams that the operating system dropped because the receive buffer was full, where it says so";
    }
}

impl TransportStats {
    /// Frames that the transport itself answered with an error.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.oversize + self.truncated + self.bad_magic + self.bad_slot + self.slot_taken + self.stopping
    }

    /// Frames that were dropped because they name no peer to answer.
    #[must_use]
    pub fn ignored(&self) -> u64 {
        let refused = self.malformed + self.forbidden + self.wrong_icrc + self.wrong_key + self.no_message;
        self.runts + self.strays + refused + self.wrong_psn + self.repeated + self.wrong_tag
    }

    /// The number of unaccounted frames, which is always (0, 0): first of those received, then of those put into slots.
    #[must_use]
    pub fn balance(&self) -> (i128, i128) {
        let n = i128::from;
        let frames = n(self.received) - n(self.requests) - n(self.refused()) - n(self.ignored());
        let slots = n(self.requests)
            - n(self.answered)
            - n(self.unanswered)
            - n(self.unsent)
            - n(self.dropped)
            - n(self.under_way);
        (frames, slots)
    }
}

counters! {
    /// Counters of a caller. Each request ends in one of `answered`, `refused`, `lost` and `unsent`, or is waiting.
    CallerStats, LiveCallerCounters {
        sent: "requests that were given an id, waiting ones included";
        answered: "requests answered by their handler (status 0 or positive)";
        refused: "requests answered with a protocol status (negative)";
        lost: "requests without an answer at their deadline";
        unsent: "requests that the wire would not take";
        waiting: "requests whose answer may still come";
        withheld: "requests never sent, on purpose; they end as lost";
        duplicates: "answers to requests that were answered before";
        late: "answers to requests that were given up as lost";
        strays: "answers to no request that this caller remembers";
        malformed: "datagrams that are no answer: too short, wrong magic, or shorter than they say";
        wrong_tag: "answers ignored: without their tag, or with a wrong one";
        blocked: "times that the wire's send buffer was full: the rest was sent later";
        errors: "errors of the wire, closed ones among them";
        closed: "times that the service's machine said that no socket is bound to its port";
    }
}

impl CallerStats {
    /// The number of unaccounted requests, which is always 0.
    #[must_use]
    pub fn balance(&self) -> i128 {
        let ended = [self.answered, self.refused, self.lost, self.unsent, self.waiting];
        i128::from(self.sent) - ended.into_iter().map(i128::from).sum::<i128>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_found_by_name() {
        let mut counts = TransportStats::default();
        for (n, &(name, _)) in (1..).zip(TransportStats::MEANINGS) {
            assert!(counts.set(name, n));
        }
        assert!(counts.named().map(|(_, n)| n).eq(1..=TransportStats::MEANINGS.len() as u64));
        assert!(!counts.set("nobody", 1));
    }

    #[test]
    fn counts_that_are_not_zero_are_shown() {
        let counters = LiveCounters::default();
        assert_eq!(counters.stats().to_string(), "nothing yet");
        counters.received.add(3);
        counters.requests.one();
        assert_eq!(counters.stats().to_string(), "received 3, requests 1");
        assert_eq!(counters.stats().balance(), (2, 1));
    }
}

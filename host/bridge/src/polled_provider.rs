//! A loaded provider's polled functions on a ring: one thread polls, serves and publishes.

use crate::{BridgeError, Provider, WireProvider};
use ringcall::Ring;
use ringcall_transport::{
    Link, TransportAddress, TransportError, TransportStats, TransportWatch, UnifiedTransport,
};
use std::time::Duration;

/// A provider's data plane attached to a ring: for [`OneThread`](ringcall_transport::OneThread), for
/// [`Threaded`](ringcall_transport::Threaded), or for a loop of your own.
///
/// ```no_run
/// use ringcall::{FunctionTable, HostDispatcher, Ring, RingConfig};
/// use ringcall_bridge::{PolledProvider, Provider};
/// use ringcall_transport::{OneThread, ThreadOptions};
///
/// let provider = Provider::load("./libtransport.so", &["--unified", "--slot-size=256"])?;
/// let ring = Ring::allocate(RingConfig { slots: 64, slot_bytes: 256 })?;
/// let table = FunctionTable::builder().host_call("nothing", |_: &[u8], _: &mut [u8]| Ok(0)).build(&ring)?;
/// let dispatcher = HostDispatcher::builder(&ring, table).build()?;
/// let service = OneThread::start(PolledProvider::attach(provider, &ring)?, dispatcher, &ThreadOptions::default())?;
/// println!("{}", service.endpoint());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PolledProvider {
    link: Link<WireProvider>,
    provider: Provider,
}

/// Why a provider cannot serve a ring.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The provider's part.
    #[error(transparent)]
    Bridge(#[from] BridgeError),
    /// The ring's part.
    #[error(transparent)]
    Transport(#[from] TransportError),
}

impl PolledProvider {
    /// Connects and launches the provider, which was created for polling, and attaches it to `ring`.
    ///
    /// # Errors
    /// The provider has no data plane or refuses, or its slots are shorter than the ring's.
    pub fn attach(provider: Provider, ring: &Ring) -> Result<Self, AttachError> {
        let wire = WireProvider::launch(provider.clone())?;
        Ok(Self { link: Link::attach(wire, ring)?, provider })
    }
}

/// The sum of both sides' counters: the link has counted all frames that the provider let through, the provider the
/// frames that it refused, ignored and lost.
fn together(outer: TransportStats, inner: &TransportStats) -> TransportStats {
    // The link counts the frames that the provider let through, and the link's slots.
    const OF_THE_LINK: [&str; 10] = [
        "received",
        "requests",
        "answered",
        "under_way",
        "unanswered",
        "unsent",
        "dropped",
        "error_marks",
        "bad_answers",
        "full",
    ];
    let mut both = outer;
    for ((name, n), (_, m)) in outer.named().zip(inner.named()) {
        if !OF_THE_LINK.contains(&name) {
            both.set(name, n + m);
        }
    }
    both.received += inner.refused() + inner.ignored();
    both
}

impl UnifiedTransport for PolledProvider {
    fn endpoint(&self) -> &TransportAddress {
        self.link.endpoint()
    }

    fn poll(&mut self) -> usize {
        self.link.poll()
    }

    fn publish(&mut self) -> usize {
        self.link.publish()
    }

    fn under_way(&self) -> u32 {
        self.link.under_way()
    }

    fn doze(&mut self, at_most: Duration) -> bool {
        self.link.doze(at_most)
    }

    fn close(&mut self) {
        self.link.close();
    }

    fn give_up(&mut self) {
        self.link.give_up();
        // The provider counts and drops the remaining requests.
        let _ = self.provider.stop(Duration::ZERO);
    }

    /// After the end of this value, only the link's counters: the provider is gone, and its last counters are kept.
    fn watch(&self) -> TransportWatch {
        let (link, provider) = (self.link.watch(), self.provider.clone());
        TransportWatch::other(move || {
            let outer = link.stats();
            provider.stats().map_or(outer, |inner| together(outer, &inner))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_books_of_two_sides_balance_as_each_does() {
        let mut outer = TransportStats::default();
        (outer.received, outer.requests, outer.answered, outer.stopping) = (12, 10, 10, 2);
        let mut inner = TransportStats::default();
        (inner.received, inner.requests, inner.answered) = (19, 12, 12);
        (inner.oversize, inner.bad_magic, inner.runts, inner.malformed) = (1, 2, 3, 1);
        assert_eq!((outer.balance(), inner.balance()), ((0, 0), (0, 0)));
        let both = together(outer, &inner);
        assert_eq!((both.received, both.balance()), (19, (0, 0)));
        (inner.incomplete, inner.evicted, inner.forbidden) = (4, 5, 0);
        let both = together(outer, &inner);
        assert_eq!((both.incomplete, both.evicted, both.oversize, both.stopping), (4, 5, 1, 2));
    }
}

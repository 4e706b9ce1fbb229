//! A loaded provider that moves datagrams between its network and a ring on its own threads.

use crate::{BridgeError, Provider};
use ringcall::Ring;
use ringcall_protocol::{RingMemory, SharedRing};
use ringcall_transport::{
    RingFilling, TransportAddress, TransportStats, TransportStopReport, TransportWatch,
};
use ringcall_wire::flag::FREE;
use std::time::{Duration, Instant};

/// A launched provider that fills its ring, next to the ring's dispatcher, which is a thread or a device.
///
/// ```no_run
/// use ringcall::{FunctionTable, HostDispatcher};
/// use ringcall_bridge::{RingProvider, Provider};
/// use ringcall_transport::RingFilling;
/// use std::time::Duration;
///
/// let provider = Provider::load("./libtransport.so", &["--num-slots=64"])?;
/// let ring = provider.ring()?;
/// let table = FunctionTable::builder().host_call("nothing", |_: &[u8], _: &mut [u8]| Ok(0)).build(&ring)?;
/// let dispatcher = HostDispatcher::builder(&ring, table).build()?.start()?;
/// let transport = RingProvider::launch(provider, &ring)?;
/// println!("{}", transport.endpoint());
///
/// let report = Box::new(transport).stop(Duration::from_secs(1));
/// dispatcher.stop(Duration::from_secs(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RingProvider {
    provider: Provider,
    endpoint: TransportAddress,
    ring: SharedRing,
}

impl RingProvider {
    /// Connects (which may block) and launches. `ring` is the provider's ([`Provider::ring`]).
    ///
    /// # Errors
    /// The provider refuses.
    pub fn launch(provider: Provider, ring: &Ring) -> Result<Self, BridgeError> {
        let endpoint = provider.begin()?;
        Ok(Self { provider, endpoint, ring: ring.shared().clone() })
    }

    fn quiet(&self) -> bool {
        self.ring.geometry().iter().all(|slot| self.ring.rx(slot) == FREE && self.ring.tx(slot) == FREE)
    }
}

impl RingFilling for RingProvider {
    fn endpoint(&self) -> &TransportAddress {
        &self.endpoint
    }

    /// Zeros if the provider does not report its counters.
    fn watch(&self) -> TransportWatch {
        let provider = self.provider.clone();
        TransportWatch::other(move || provider.stats().unwrap_or_default())
    }

    /// If the provider cannot stop with a deadline, this waits until the ring is quiet or the deadline is over, and
    /// disconnects.
    fn stop(self: Box<Self>, deadline: Duration) -> TransportStopReport {
        let begin = Instant::now();
        let before = self.stats();
        // A provider with the extension waits for requests in flight.
        let waits = self.provider.library().has_extension();
        while !waits && !self.quiet() && begin.elapsed() < deadline {
            std::thread::yield_now();
        }
        let stuck = self.provider.stop(deadline.saturating_sub(begin.elapsed())).is_err();
        let stats: TransportStats = self.stats();
        TransportStopReport {
            drained: stats.answered.saturating_sub(before.answered),
            dropped: stats.dropped.saturating_sub(before.dropped),
            refused: stats.stopping.saturating_sub(before.stopping),
            stuck,
            stats,
            took: begin.elapsed(),
        }
    }
}

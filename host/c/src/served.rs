//! Registry of the functions and rings that the dispatchers of this process serve.
//!
//! Two dispatchers that serve one function on one ring both take its requests: a slot is answered twice, or its next request
//! is answered with the last one's result. The second is refused when it starts.

use crate::handles::lock;
use crate::layout::cudaq_ringbuffer_t;
use crate::status::Fault;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, Weak};

/// A ring by the addresses of its request flags: one of them, where a caller gives one view alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RingId {
    host: usize,
    device: usize,
}

impl RingId {
    pub(crate) fn of(ring: &cudaq_ringbuffer_t) -> Self {
        Self { host: ring.rx_flags_host.addr(), device: ring.rx_flags.addr() }
    }

    /// Whether both may be one ring: an address is the same on the host and on the device, or it is not this ring's.
    fn is(&self, other: &Self) -> bool {
        let ours = [self.host, self.device];
        [other.host, other.device].iter().any(|&address| address != 0 && ours.contains(&address))
    }
}

/// What one dispatcher serves, from its start to its end.
#[derive(Debug)]
pub(crate) struct Served {
    ring: RingId,
    by: &'static str,
    functions: BTreeSet<u32>,
}

static SERVED: Mutex<Vec<Weak<Served>>> = Mutex::new(Vec::new());

impl Served {
    /// Notes that a dispatcher serves these functions, until the returned guard is dropped.
    ///
    /// # Errors
    /// Another one serves one of them on the same ring.
    pub(crate) fn begin(
        ring: RingId,
        by: &'static str,
        functions: impl IntoIterator<Item = u32>,
    ) -> Result<Arc<Self>, Fault> {
        let new = Arc::new(Self { ring, by, functions: functions.into_iter().collect() });
        let mut all = lock(&SERVED);
        all.retain(|served| served.strong_count() > 0);
        for served in all.iter().filter_map(Weak::upgrade).filter(|served| served.ring.is(&ring)) {
            if let Some(id) = served.functions.intersection(&new.functions).next() {
                return Err(Fault::invalid(format!(
                    "function {id:#010x} is served on this ring by {} of this process already: the dispatchers of a ring \
                     have no function in common",
                    served.by
                )));
            }
        }
        all.push(Arc::downgrade(&new));
        Ok(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_served_once_on_a_ring() {
        let ring = |host, device| RingId { host, device };
        let begin = |ring, functions: &[u32]| Served::begin(ring, "a test", functions.iter().copied());
        let first = begin(ring(0x10_0000, 0x20_0000), &[1, 2]).expect("the first");
        let why = begin(ring(0x10_0000, 0), &[3, 2]).expect_err("served").why;
        assert!(why.contains("function 0x00000002") && why.contains("a test"), "{why}");
        assert!(begin(ring(0, 0x20_0000), &[1]).is_err(), "by the device's address");
        let other = begin(ring(0x10_0000, 0x20_0000), &[3]).expect("another function");
        assert!(begin(ring(0x30_0000, 0), &[1, 2, 3]).is_ok(), "another ring");
        drop(first);
        assert!(begin(ring(0x10_0000, 0), &[1, 2]).is_ok(), "ended");
        drop(other);
    }
}

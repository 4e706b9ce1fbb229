//! A UDP socket that duplicates and reorders requests on purpose.

use ringcall_sim::fpga::{FaultStats, Faults, Injector};
use ringcall_transport::wire::{Sent, WireArrival};
use ringcall_transport::{Outbox, TransportAddress, Wire, udp};
use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Counters of faults, readable while the caller has the wire.
pub(super) type Counts = Arc<Mutex<FaultStats>>;

#[derive(Debug)]
pub(super) struct Faulty {
    udp: udp::Udp,
    /// `None` sends requests unchanged.
    injector: Option<Injector>,
    to: udp::Peer,
    out: Outbox<udp::Peer>,
    datagram: Vec<u8>,
    /// Consecutive polls that found the socket empty.
    empty: u32,
    /// Whether a send has reported that no socket is bound to the service's port, which is still to be returned.
    closed: bool,
    counts: Counts,
}

/// The most datagrams for one request: itself twice, and all that were held back.
const MOST: usize = 16;
const CAPACITY: usize = 64;
/// After this many empty polls no further request comes for now, so held ones are sent.
const MAX_EMPTY_POLLS: u32 = 256;

impl Faulty {
    /// Injects `faults` except for losses, which are the caller's: only it knows which request is lost.
    pub(super) fn new(udp: udp::Udp, to: udp::Peer, faults: Faults) -> (Self, Counts) {
        let wanted = faults.duplication + faults.reordering > 0.0;
        let counts = Counts::default();
        let faulty = Self {
            udp,
            injector: wanted.then(|| Injector::new(faults)),
            to,
            out: Outbox::new(0, 0),
            datagram: Vec::new(),
            empty: 0,
            closed: false,
            counts: Arc::clone(&counts),
        };
        (faulty, counts)
    }

    fn drain(&mut self) {
        while !self.out.is_empty() {
            let Sent { frames, error } = self.udp.send(&self.out);
            self.out.remove(frames);
            match error {
                Some(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    self.closed = true;
                    return;
                }
                // No room now: it is offered again until the request's timeout.
                Some(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // This one cannot be sent: it stays unanswered.
                Some(_) => self.out.remove(1),
                None if frames == 0 => return,
                None => {}
            }
        }
    }

    fn is_holding(&self) -> bool {
        !self.out.is_empty() || self.injector.as_ref().is_some_and(Injector::is_holding)
    }
}

impl Wire for Faulty {
    type Peer = udp::Peer;
    const NAMES_SLOTS: bool = false;

    fn endpoint(&self) -> TransportAddress {
        self.udp.endpoint()
    }

    fn max_frame_bytes(&self) -> usize {
        self.udp.max_frame_bytes()
    }

    fn open(&mut self, receive_bytes: usize, send_bytes: usize) -> io::Result<()> {
        if self.injector.is_some() {
            self.out = Outbox::new(CAPACITY, send_bytes);
        }
        self.udp.open(receive_bytes, send_bytes)
    }

    fn receive(&mut self, limit: usize, take: &mut impl FnMut(WireArrival<'_, udp::Peer>)) -> io::Result<()> {
        let mut any = false;
        let outcome = self.udp.receive(limit, &mut |arrival| {
            any = true;
            take(arrival);
        });
        let Self { injector, out, to, .. } = self;
        if let Some(injector) = injector {
            self.empty = if any { 0 } else { self.empty.saturating_add(1) };
            if self.empty > MAX_EMPTY_POLLS && out.room() >= MOST {
                let Ok(()) = injector.release(true, |bytes| {
                    out.add(*to, bytes);
                    Ok::<_, Infallible>(())
                });
            }
            self.drain();
        }
        if std::mem::take(&mut self.closed) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        outcome
    }

    fn send(&mut self, outbox: &Outbox<udp::Peer>) -> Sent {
        if self.injector.is_none() {
            return self.udp.send(outbox);
        }
        let mut sent = 0;
        for frame in outbox.frames() {
            if self.out.room() < MOST {
                self.drain();
            }
            let Self { injector: Some(injector), out, datagram, counts, .. } = self else { break };
            if out.room() < MOST {
                return Sent { frames: sent, error: Some(io::ErrorKind::WouldBlock.into()) };
            }
            datagram.clear();
            datagram.extend_from_slice(frame.bytes);
            let Ok(_) = injector.pass(datagram, |bytes| {
                out.add(frame.to, bytes);
                Ok::<_, Infallible>(())
            });
            *counts.lock().unwrap_or_else(PoisonError::into_inner) = *injector.stats();
            sent += 1;
        }
        self.drain();
        Sent { frames: sent, error: None }
    }

    fn wait(&self, timeout: Duration) -> io::Result<()> {
        // A held-back request goes out after some more polls.
        if self.is_holding() { Ok(()) } else { self.udp.wait(timeout) }
    }
}

//! The UDP transceiver of the C functions `cpu_udp_*`: it moves unchanged datagrams between a socket and two rings, at
//! either end of a connection.
//!
//! The transceiver does not read the contents of datagrams; [`ringcall_transport::udp`] checks requests. The rules of
//! the rings (source: the CUDA-Q Realtime UDP transport):
//!
//! - A datagram of up to a slot's bytes goes to the next request slot **in the order of the ring**, once both flags of
//!   that slot are 0: until then nothing is read. The slot is zeroed first; its flag becomes its address. Longer
//!   datagrams are dropped and counted.
//! - A response slot whose flag is its address is sent, and the flag cleared. It goes to the peer that [`connect`]
//!   named, or to the source of the datagram in the request slot of the same number. Any other value but 0 and the
//!   in-flight mark is cleared without a send.
//! - A connected end sends in the order of the ring, each slot once it is ready: its user fills them in that order. A
//!   bound end skips slots that are not answered, so that an unanswered one stalls no other; answers made in the order
//!   of the ring are sent in that order.
//! - A slot that begins with a request's or a response's header is sent with the length that the header says, any other
//!   slot whole. Receivers accept both.
//!
//! [`connect`]: Transceiver::connect

pub(crate) mod idle;
pub(crate) mod pump;

use crate::Refused;
use pump::Pump;
use ringcall::thread::{StopFlag, Supervised};
use ringcall::{Ring, RingConfig};
use ringcall_gpu::atomic::DeviceU64;
use ringcall_protocol::{RingMemory, SharedRing};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A UDP socket between two rings.
pub struct Transceiver {
    ring: SharedRing,
    state: Mutex<State>,
    /// Datagrams dropped because they are longer than a slot.
    oversize: Arc<DeviceU64>,
}

#[derive(Default)]
struct State {
    pump: Option<Pump>,
    address: Option<SocketAddr>,
    unified: bool,
    running: Option<Running>,
}

struct Running {
    stop: StopFlag,
    thread: Supervised<()>,
}

fn os(what: &str, error: &dyn fmt::Display) -> Refused {
    Refused::internal(format!("{what}: {error}"))
}

impl Transceiver {
    /// A transceiver with rings of its own: slots of `slot_bytes` bytes, a multiple of 8 and at least 24.
    ///
    /// # Errors
    /// An invalid shape, or not enough memory.
    pub fn new(slots: u32, slot_bytes: u32) -> Result<Self, Refused> {
        let ring = Ring::allocate(RingConfig { slots, slot_bytes });
        Ok(Self::over(ring.map_err(|e| Refused::invalid(e.to_string()))?.shared().clone()))
    }

    /// A transceiver over the given rings.
    #[must_use]
    pub fn over(ring: SharedRing) -> Self {
        Self { ring, state: Mutex::default(), oversize: Arc::new(DeviceU64::new(0)) }
    }

    /// The transceiver's rings.
    #[must_use]
    pub fn ring(&self) -> &SharedRing {
        &self.ring
    }

    /// The local address, once the socket is bound.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.state().address
    }

    /// The number of datagrams dropped because they are longer than a slot.
    #[must_use]
    pub fn oversize(&self) -> u64 {
        self.oversize.load(Ordering::Relaxed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Binds the service's end; port 0 takes a free one. Answers go to the sender of the request in the same slot.
    ///
    /// # Errors
    /// There is a socket already, or the operating system refuses.
    pub fn bind(&self, address: SocketAddr) -> Result<(), Refused> {
        self.open(address, None)
    }

    /// Connects the caller's end: it receives datagrams only from this peer and sends to it.
    ///
    /// # Errors
    /// There is a socket already, or the operating system refuses.
    pub fn connect(&self, peer: SocketAddr) -> Result<(), Refused> {
        let any = if peer.is_ipv4() {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED)
        } else {
            IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED)
        };
        self.open(SocketAddr::new(any, 0), Some(peer))
    }

    fn open(&self, address: SocketAddr, peer: Option<SocketAddr>) -> Result<(), Refused> {
        let mut state = self.state();
        if state.address.is_some() {
            return Err(Refused::invalid("it has a socket"));
        }
        let socket = UdpSocket::bind(address).map_err(|e| os(&format!("cannot bind {address}"), &e))?;
        socket.set_nonblocking(true).map_err(|e| os("socket", &e))?;
        if let Some(peer) = peer {
            socket.connect(peer).map_err(|e| os(&format!("cannot connect to {peer}"), &e))?;
        }
        state.address = Some(socket.local_addr().map_err(|e| os("socket", &e))?);
        state.pump = Some(Pump::new(socket, peer, self.ring.clone(), Arc::clone(&self.oversize)));
        Ok(())
    }

    /// Sets whether the user calls [`rx_poll`](Self::rx_poll) and [`tx_publish`](Self::tx_publish) in place of a
    /// thread.
    ///
    /// # Errors
    /// The transceiver was started.
    pub fn set_unified(&self, unified: bool) -> Result<(), Refused> {
        let mut state = self.state();
        if state.running.is_some() || state.pump.as_ref().is_some_and(|pump| pump.driven) {
            return Err(Refused::invalid("it was started"));
        }
        state.unified = unified;
        Ok(())
    }

    /// Starts the thread, or, if the transceiver is unified, allows polling.
    ///
    /// # Errors
    /// There is no socket, the transceiver was started, or the operating system refuses a thread.
    pub fn start(&self) -> Result<(), Refused> {
        let mut state = self.state();
        if state.running.is_some() || state.pump.as_ref().is_some_and(|pump| pump.driven) {
            return Err(Refused::invalid("it was started"));
        }
        let Some(mut pump) = state.pump.take() else {
            return Err(Refused::invalid("it has no socket: bind or connect first"));
        };
        if state.unified {
            pump.driven = true;
            state.pump = Some(pump);
            return Ok(());
        }
        let stop = StopFlag::default();
        let seen = stop.clone();
        let thread =
            Supervised::start("udp", None, move || pump.run(&seen)).map_err(|e| os("no thread", &e))?;
        state.running = Some(Running { stop, thread });
        Ok(())
    }

    /// Ends the thread, which first sends all ready answers, and closes the socket. May be called any number of times.
    pub fn close(&self) {
        let mut state = self.state();
        state.pump = None;
        if let Some(mut running) = state.running.take() {
            running.stop.set();
            // Without a deadline, because the caller may own the memory and free it next. The thread sees the flag
            // within a turn.
            let _ = running.thread.wait(Duration::MAX);
        }
        state.address = None;
    }

    /// The slot of a datagram. Request flags are not used: a slot is free while its response flag is 0.
    #[must_use]
    pub fn rx_poll(&self) -> Option<u32> {
        self.state().pump.as_mut().filter(|pump| pump.driven)?.poll()
    }

    /// Sends a response slot without changing its flag.
    ///
    /// # Errors
    /// The transceiver is not started or not unified, there is no such slot or no peer, or the operating system
    /// refuses.
    pub fn tx_publish(&self, slot: u32) -> Result<(), Refused> {
        let mut state = self.state();
        let pump = state.pump.as_mut().filter(|pump| pump.driven);
        let pump = pump.ok_or_else(|| Refused::invalid("it is not started, or has a thread"))?;
        let slot = self.ring.geometry().slot(slot);
        pump.publish(slot.ok_or_else(|| Refused::invalid("no such slot"))?)
    }
}

impl Drop for Transceiver {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Transceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transceiver").field("address", &self.address()).finish_non_exhaustive()
    }
}

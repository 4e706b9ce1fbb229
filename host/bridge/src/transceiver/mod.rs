//! The UDP transceiver behind the C functions `cpu_udp_*`: it moves unchanged datagrams between a socket and two
//! rings, at either end of a connection.
//!
//! The contents of a datagram are not read here; for requests there is [`ringcall_transport::udp`], which
//! checks them. Rules of the rings (source: the CUDA-Q Realtime UDP transport):
//!
//! - A datagram of up to a slot's bytes goes to the next request slot **in the order of the ring**, once both flags of
//!   that slot are 0: until then nothing is read. The slot is zeroed first; its flag becomes its address. Longer datagrams
//!   are dropped, and counted.
//! - A response slot whose flag is its address is sent, and the flag cleared: to the peer that [`connect`] named, or where
//!   the datagram in the request slot of the same number came from. Any other value but 0 and the in-flight mark is
//!   cleared and nothing sent.
//! - A connected end sends in the order of the ring, each slot once it is ready: its user fills them in that order. A bound
//!   end passes over slots that are not answered, so that one that never is stalls no other; what is answered in the order
//!   of the ring is sent in that order.
//! - A slot that begins with a request's or a response's header is sent as long as that says, another one whole. Receivers
//!   take both.
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
    /// With its own rings: slots of `slot_bytes` bytes, a multiple of 8 and at least 24.
    ///
    /// # Errors
    /// An impossible shape, or no memory.
    pub fn new(slots: u32, slot_bytes: u32) -> Result<Self, Refused> {
        let ring = Ring::allocate(RingConfig { slots, slot_bytes });
        Ok(Self::over(ring.map_err(|e| Refused::invalid(e.to_string()))?.shared().clone()))
    }

    /// Over rings that are there.
    #[must_use]
    pub fn over(ring: SharedRing) -> Self {
        Self { ring, state: Mutex::default(), oversize: Arc::new(DeviceU64::new(0)) }
    }

    /// Its rings.
    #[must_use]
    pub fn ring(&self) -> &SharedRing {
        &self.ring
    }

    /// The local address, once it has one.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.state().address
    }

    /// Datagrams dropped because they are longer than a slot.
    #[must_use]
    pub fn oversize(&self) -> u64 {
        self.oversize.load(Ordering::Relaxed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The service's end: binds; port 0 takes a free one. Answers go to the sender of the same slot's
    /// request.
    ///
    /// # Errors
    /// It has a socket, or the operating system refuses.
    pub fn bind(&self, address: SocketAddr) -> Result<(), Refused> {
        self.open(address, None)
    }

    /// The caller's end: takes datagrams of this peer alone and sends to it.
    ///
    /// # Errors
    /// It has a socket, or the operating system refuses.
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

    /// Whether the user drives it by [`rx_poll`](Self::rx_poll) and [`tx_publish`](Self::tx_publish) instead of a thread.
    ///
    /// # Errors
    /// It was started.
    pub fn set_unified(&self, unified: bool) -> Result<(), Refused> {
        let mut state = self.state();
        if state.running.is_some() || state.pump.as_ref().is_some_and(|pump| pump.driven) {
            return Err(Refused::invalid("it was started"));
        }
        state.unified = unified;
        Ok(())
    }

    /// Starts the thread, or, if it is unified, allows polling.
    ///
    /// # Errors
    /// It has no socket, was started, or no thread can be had.
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

    /// Ends the thread, which sends all ready answers before that, and closes the socket. Once is enough.
    pub fn close(&self) {
        let mut state = self.state();
        state.pump = None;
        if let Some(mut running) = state.running.take() {
            running.stop.set();
            // Without a deadline: the memory may be the caller's, who frees it next. The thread sees the flag within a turn.
            let _ = running.thread.wait(Duration::MAX);
        }
        state.address = None;
    }

    /// A datagram's slot. Request flags are not used: a slot is free while its response flag is 0.
    #[must_use]
    pub fn rx_poll(&self) -> Option<u32> {
        self.state().pump.as_mut().filter(|pump| pump.driven)?.poll()
    }

    /// Sends a response slot; leaves its flag alone.
    ///
    /// # Errors
    /// It is not started or not unified, there is no such slot, no peer, or the operating system refuses.
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

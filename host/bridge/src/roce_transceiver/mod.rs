//! The RoCE transceiver of the C functions `cpu_roce_*`: it moves messages between an adapter's queue pair and two
//! rings, at either end of a connection.
//!
//! The rings follow the rules of the [UDP transceiver](crate::transceiver). An adapter adds these (source: the CUDA-Q
//! Realtime CPU RoCE transport):
//!
//! - A peer's RDMA WRITE with immediate is for the slot that the immediate names. A SEND is for the slot whose receive
//!   it took: receives are posted in the order of the ring.
//! - A message for a slot in use waits. A SEND that waits delays later SENDs, so that SENDs come in the order of the
//!   ring; writes name their slots, and wait for nothing else. A write over another waiting write is counted
//!   ([`RoceStats::overwritten`]), and the slot gets the later one.
//! - A response slot with a header is sent with the length that the header says, any other slot with
//!   [`RoceTransceiverOptions::frame_bytes`] bytes; as a SEND, or written into the peer's slot of the same number.
//! - A connection that has ended is counted, and begins anew with the same peer. After an adapter was removed nothing
//!   moves any more: [`fault`](RoceTransceiver::fault) says so, and [`monitor`](RoceTransceiver::monitor) returns.
//!
//! The queue pair is of the unreliable service, as the reference's.

mod adapter;
mod pump;
#[cfg(test)]
mod stand_in;
#[cfg(test)]
mod tests;

pub use pump::RoceStats;

use crate::Refused;
use adapter::Adapter;
use pump::{Counted, Pump};
use ringcall::thread::StopFlag;
use ringcall::{Ring, RingConfig};
use ringcall_protocol::{RingMemory, SharedRing};
use ringcall_rdma::verbs::{PairFault, PairOptions, RemoteQueuePair, VerbsError, VerbsQueuePair};
use std::fmt;
use std::net::Ipv4Addr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Which slots are moved, and by which thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    /// [`monitor`](RoceTransceiver::monitor) receives and sends.
    #[default]
    Both,
    /// [`monitor`](RoceTransceiver::monitor) sends every message back and uses neither ring.
    Forward,
    /// [`monitor`](RoceTransceiver::monitor) only receives.
    ReceiveOnly,
    /// [`monitor`](RoceTransceiver::monitor) only sends.
    SendOnly,
    /// The user polls and publishes: [`rx_poll`](RoceTransceiver::rx_poll), [`tx_publish`](RoceTransceiver::tx_publish).
    Unified,
}

/// The verb by which messages are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SendVerb {
    /// SEND.
    #[default]
    Send,
    /// RDMA WRITE with immediate into the peer's slot of the same number.
    Write {
        /// The address of the peer's slot 0.
        base: u64,
    },
}

/// Options of a RoCE transceiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoceTransceiverOptions {
    /// The RDMA device's name.
    pub device: String,
    /// The device's address, if it has several.
    pub ip: Option<Ipv4Addr>,
    /// Slots of each ring: a power of two, at most 4096.
    pub slots: u32,
    /// Bytes of a slot: a multiple of 8, at least 24.
    pub slot_bytes: u32,
    /// Bytes of a message whose slot has no header: at most a slot's.
    pub frame_bytes: u32,
    /// Which slots are moved, and by which thread.
    pub role: Role,
    /// The verb by which messages are sent.
    pub verb: SendVerb,
}

impl RoceTransceiverOptions {
    fn check(&self) -> Result<(), Refused> {
        let Self { slots, slot_bytes, frame_bytes, .. } = *self;
        if !slots.is_power_of_two() || slots > 4096 {
            return Err(Refused::invalid(format!("{slots} pages: give a power of two, at most 4096")));
        }
        if frame_bytes == 0 || frame_bytes > slot_bytes {
            return Err(Refused::invalid(format!(
                "a frame of {frame_bytes} bytes: give 1 to {slot_bytes}, which a page has"
            )));
        }
        if let SendVerb::Write { base } = self.verb
            && base.checked_add(u64::from(slots) * u64::from(slot_bytes)).is_none()
        {
            return Err(Refused::invalid(format!(
                "the peer's pages end beyond the last address: they begin at {base:#x}"
            )));
        }
        Ok(())
    }
}

/// A queue pair between two rings.
pub struct RoceTransceiver {
    ring: SharedRing,
    options: Mutex<RoceTransceiverOptions>,
    state: Mutex<State>,
    /// Signals that the pump has returned, or is gone.
    returned: Condvar,
    stop: StopFlag,
    counted: Arc<Counted>,
}

/// A pump on loan to a thread. It returns in any case, even by a panic, because the thread that closes the transceiver
/// waits for it.
struct Away<'a> {
    from: &'a RoceTransceiver,
    pump: Option<Pump>,
}

impl Drop for Away<'_> {
    fn drop(&mut self) {
        let mut state = self.from.state();
        (state.away, state.pump) = (false, self.pump.take());
        self.from.returned.notify_all();
    }
}

#[derive(Default)]
struct State {
    pump: Option<Pump>,
    /// The queue pair's number and key, for the peer.
    side: Option<(u32, u32)>,
    connected: bool,
    /// Whether a thread has the pump and moves slots.
    away: bool,
    closed: bool,
}

fn refused(error: &VerbsError) -> Refused {
    match error {
        VerbsError::Setting { .. } => Refused::invalid(error.to_string()),
        VerbsError::Library(_) | VerbsError::NoDevice { .. } | VerbsError::NoAddress { .. } => {
            Refused::unsupported(error.to_string())
        }
        _ => Refused::internal(error.to_string()),
    }
}

impl RoceTransceiver {
    /// A transceiver with rings of its own. [`setup`](Self::setup) opens the device.
    ///
    /// # Errors
    /// An invalid shape, or not enough memory.
    pub fn new(options: RoceTransceiverOptions) -> Result<Self, Refused> {
        options.check()?;
        let config = RingConfig { slots: options.slots, slot_bytes: options.slot_bytes };
        let ring = Ring::allocate(config).map_err(|error| Refused::invalid(error.to_string()))?;
        Ok(Self {
            ring: ring.shared().clone(),
            options: Mutex::new(options),
            state: Mutex::default(),
            returned: Condvar::new(),
            stop: StopFlag::default(),
            counted: Arc::default(),
        })
    }

    /// The transceiver's rings.
    #[must_use]
    pub fn ring(&self) -> &SharedRing {
        &self.ring
    }

    /// The counters.
    #[must_use]
    pub fn stats(&self) -> RoceStats {
        self.counted.read()
    }

    /// Why nothing moves any more, if that is so.
    #[must_use]
    pub fn fault(&self) -> Option<PairFault> {
        self.counted.fault()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn options(&self) -> RoceTransceiverOptions {
        self.options.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Chooses the device's address, before the device is opened.
    ///
    /// # Errors
    /// The device is open.
    pub fn set_local_ip(&self, ip: Ipv4Addr) -> Result<(), Refused> {
        if self.state().side.is_some() {
            return Err(Refused::invalid("the device is open: its address is set before"));
        }
        self.options.lock().unwrap_or_else(PoisonError::into_inner).ip = Some(ip);
        Ok(())
    }

    /// Opens the device: from now on the queue pair has its [number and key](Self::side).
    ///
    /// # Errors
    /// The device is open or was closed; see [`VerbsError`].
    pub fn setup(&self) -> Result<(), Refused> {
        self.setup_over(|options| {
            let RoceTransceiverOptions { device, ip, slots, slot_bytes, .. } = options.clone();
            let pair =
                PairOptions { device, ip, reliable: false, slots, slot_bytes, mtu: 4096, first_psn: 0 };
            Ok(Box::new(VerbsQueuePair::open(pair)?))
        })
    }

    fn setup_over(
        &self,
        open: impl FnOnce(&RoceTransceiverOptions) -> Result<Box<dyn Adapter>, VerbsError>,
    ) -> Result<(), Refused> {
        let mut state = self.state();
        if state.closed || state.side.is_some() {
            return Err(Refused::invalid("the device was opened before"));
        }
        let options = self.options();
        let adapter = open(&options).map_err(|error| refused(&error))?;
        state.side = Some((adapter.number(), adapter.key()));
        state.pump = Some(Pump::new(adapter, &options, self.ring.clone(), Arc::clone(&self.counted)));
        Ok(())
    }

    /// The queue pair's number, and the key to its window, whose first address is 0. `None` before
    /// [`setup`](Self::setup).
    #[must_use]
    pub fn side(&self) -> Option<(u32, u32)> {
        self.state().side
    }

    /// Connects the queue pair. [`SendVerb::Write`] needs `key`, the key to the peer's window.
    ///
    /// # Errors
    /// The device is not open, the queue pair is connected already, or the driver refuses.
    pub fn connect(&self, peer: RemoteQueuePair, key: u32) -> Result<(), Refused> {
        let mut state = self.state();
        if state.connected {
            return Err(Refused::invalid("it is connected"));
        }
        let pump =
            state.pump.as_mut().ok_or_else(|| Refused::invalid("the device is not open: set it up first"))?;
        pump.connect(peer, key).map_err(|error| refused(&error))?;
        state.connected = true;
        Ok(())
    }

    /// Moves slots on the calling thread until the transceiver is [closed](Self::close) or its adapter is gone. With
    /// [`Role::Unified`] it returns at once.
    ///
    /// # Errors
    /// The queue pair is not connected, another thread moves slots, or the adapter is gone.
    pub fn monitor(&self) -> Result<(), Refused> {
        let mut state = self.state();
        if state.closed {
            return Ok(());
        }
        if state.away {
            return Err(Refused::invalid("another thread moves its slots"));
        }
        let unified = self.options().role == Role::Unified;
        let connected = state.connected;
        let Some(pump) = state.pump.take_if(|_| connected) else {
            return Err(Refused::invalid("it is not connected"));
        };
        if unified {
            state.pump = Some(pump);
            return Ok(());
        }
        state.away = true;
        drop(state);
        let mut away = Away { from: self, pump: Some(pump) };
        let ended = away.pump.as_mut().map_or(Ok(()), |pump| pump.run(&self.stop));
        drop(away);
        ended.map_err(|fault| Refused::internal(fault.to_string()))
    }

    /// Sends the responses that are ready, and closes the queue pair. Any thread may call this, any number of times.
    pub fn close(&self) {
        self.stop.set();
        let mut state = self.state();
        state.closed = true;
        while state.away {
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        (state.connected, state.pump) = (false, None);
    }

    /// The slot of a message, for [`Role::Unified`]. Request flags are not used, and a slot is free while its response
    /// flag is 0.
    ///
    /// # Errors
    /// The queue pair is not connected, a thread moves its slots, or its adapter is gone.
    pub fn rx_poll(&self) -> Result<Option<u32>, Refused> {
        self.driven(Pump::poll)
    }

    /// Sends a response slot without changing its flag.
    ///
    /// # Errors
    /// As for [`rx_poll`](Self::rx_poll); there is no such slot; or as many messages are in flight as there are slots.
    pub fn tx_publish(&self, slot: u32) -> Result<(), Refused> {
        let index = self.ring.geometry().slot(slot).ok_or_else(|| Refused::invalid("no such slot"))?;
        self.driven(|pump| pump.publish(index))
    }

    fn driven<T>(&self, act: impl FnOnce(&mut Pump) -> Result<T, Refused>) -> Result<T, Refused> {
        if self.options().role != Role::Unified {
            return Err(Refused::invalid("a thread moves its slots: it was not created for unified mode"));
        }
        let mut state = self.state();
        let connected = state.connected;
        match state.pump.as_mut().filter(|_| connected) {
            Some(pump) => act(pump),
            None => Err(Refused::invalid("it is not connected")),
        }
    }
}

impl Drop for RoceTransceiver {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for RoceTransceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoceTransceiver")
            .field("options", &self.options())
            .field("counts", &self.stats())
            .finish_non_exhaustive()
    }
}

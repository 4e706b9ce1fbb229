//! The RoCE transceiver behind the C functions `cpu_roce_*`: it moves messages between an adapter's queue pair and
//! two rings, at either end of a connection.
//!
//! Rules of the rings are those of the [UDP transceiver](crate::transceiver), with what an adapter adds (source: the CUDA-Q Realtime CPU
//! RoCE transport):
//!
//! - A peer's RDMA WRITE with immediate is for the slot that the immediate names. A SEND is for the slot whose receive it took: receives
//!   are posted in the order of the ring.
//! - A message for a slot that is in use waits. A SEND that waits delays the later SENDs, so that SENDs come in the
//!   order of the ring; writes name their slots, and wait for nothing else. One write that comes over another is
//!   counted ([`RoceCounts::overwritten`]), and the later one is what the slot gets.
//! - A response slot is sent as long as its header says, another one with [`RoceOptions::frame_bytes`] bytes; as a SEND, or written into
//!   the peer's slot of the same number.
//! - A connection that has ended begins anew with the same peer, and is counted. After an adapter was removed nothing moves any more:
//!   [`fault`](RoceTransceiver::fault) says so, and [`monitor`](RoceTransceiver::monitor) returns.
//!
//! The queue pair is of the unreliable service, as the reference's.

mod adapter;
mod pump;
#[cfg(test)]
mod stand_in;
#[cfg(test)]
mod tests;

pub use pump::RoceCounts;

use crate::Refused;
use adapter::Adapter;
use pump::{Counted, Pump};
use ringcall::thread::StopFlag;
use ringcall::{Ring, RingConfig};
use ringcall_protocol::{RingMemory, SharedRing};
use ringcall_rdma::verbs::{Pair, PairFault, PairOptions, Remote, VerbsError};
use std::fmt;
use std::net::Ipv4Addr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Who moves slots, and which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    /// [`monitor`](RoceTransceiver::monitor) receives and sends.
    #[default]
    Both,
    /// It sends every message back and uses neither ring.
    Forward,
    /// It receives alone.
    ReceiveOnly,
    /// It sends alone.
    SendOnly,
    /// The user polls and publishes: [`rx_poll`](RoceTransceiver::rx_poll), [`tx_publish`](RoceTransceiver::tx_publish).
    Unified,
}

/// The verb of the messages sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verb {
    /// SEND.
    #[default]
    Send,
    /// RDMA WRITE with immediate into the peer's slot of the same number.
    Write {
        /// The address of the peer's slot 0.
        base: u64,
    },
}

/// Choices of a RoCE transceiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoceOptions {
    /// The RDMA device's name.
    pub device: String,
    /// Its address, if it has several.
    pub ip: Option<Ipv4Addr>,
    /// Slots of each ring: a power of two, at most 4096.
    pub slots: u32,
    /// Bytes of a slot: a multiple of 8, at least 24.
    pub slot_bytes: u32,
    /// Bytes of a message without a header that says its length: at most a slot's.
    pub frame_bytes: u32,
    /// Who moves slots.
    pub role: Role,
    /// The verb of the messages sent.
    pub verb: Verb,
}

impl RoceOptions {
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
        if let Verb::Write { base } = self.verb
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
    options: Mutex<RoceOptions>,
    state: Mutex<State>,
    /// The pump is back, or gone.
    returned: Condvar,
    stop: StopFlag,
    counted: Arc<Counted>,
}

/// A pump that a thread runs. It comes back however that ends, by a panic as well: who closes the transceiver waits for it.
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
    /// What the peer is told: number and key.
    side: Option<(u32, u32)>,
    connected: bool,
    /// A thread moves slots.
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
    /// With its own rings. The device is opened by [`setup`](Self::setup).
    ///
    /// # Errors
    /// An impossible shape, or no memory.
    pub fn new(options: RoceOptions) -> Result<Self, Refused> {
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

    /// Its rings.
    #[must_use]
    pub fn ring(&self) -> &SharedRing {
        &self.ring
    }

    /// The counters so far.
    #[must_use]
    pub fn counts(&self) -> RoceCounts {
        self.counted.read()
    }

    /// Why nothing moves any more, if so.
    #[must_use]
    pub fn fault(&self) -> Option<PairFault> {
        self.counted.fault()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn options(&self) -> RoceOptions {
        self.options.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The device's address, before it is opened.
    ///
    /// # Errors
    /// It is open.
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
    /// It is open or was closed; see [`VerbsError`].
    pub fn setup(&self) -> Result<(), Refused> {
        self.setup_over(|options| {
            let RoceOptions { device, ip, slots, slot_bytes, .. } = options.clone();
            let pair =
                PairOptions { device, ip, reliable: false, slots, slot_bytes, mtu: 4096, first_psn: 0 };
            Ok(Box::new(Pair::open(pair)?))
        })
    }

    fn setup_over(
        &self,
        open: impl FnOnce(&RoceOptions) -> Result<Box<dyn Adapter>, VerbsError>,
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

    /// Number of the queue pair, and the key to its window, whose first address is 0. `None` before [`setup`](Self::setup).
    #[must_use]
    pub fn side(&self) -> Option<(u32, u32)> {
        self.state().side
    }

    /// Connects the queue pair. `key` opens the peer's window, for [`Verb::Write`].
    ///
    /// # Errors
    /// It is not open, or connected, or the driver refuses.
    pub fn connect(&self, peer: Remote, key: u32) -> Result<(), Refused> {
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

    /// Moves slots on the calling thread until the transceiver is [closed](Self::close), or its adapter is gone. Returns at once where
    /// the user moves them.
    ///
    /// # Errors
    /// It is not connected, another thread moves slots, or the adapter is gone.
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

    /// Sends the responses that are ready, and closes the queue pair. By any thread; once is enough.
    pub fn close(&self) {
        self.stop.set();
        let mut state = self.state();
        state.closed = true;
        while state.away {
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        (state.connected, state.pump) = (false, None);
    }

    /// The slot of a message. For [`Role::Unified`]: request flags are not used, and a slot is free while its response flag is 0.
    ///
    /// # Errors
    /// It is not connected, a thread moves its slots, or its adapter is gone.
    pub fn rx_poll(&self) -> Result<Option<u32>, Refused> {
        self.driven(Pump::poll)
    }

    /// Sends a response slot; leaves its flag alone.
    ///
    /// # Errors
    /// As for [`rx_poll`](Self::rx_poll); no such slot; as many are under way as there are slots.
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
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

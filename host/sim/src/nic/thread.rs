//! A NIC on its own thread.

use crate::nic::adapter::Nic;
use crate::nic::fault::Fault;
use crate::nic::port::Port;
use ringcall::thread::{GRACE_PERIOD, StopFlag, Supervised};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::yield_now;

/// A NIC that runs. Dropped, it stops.
#[derive(Debug)]
pub struct Running<P> {
    stop: StopFlag,
    faults: Sender<Fault>,
    thread: Supervised<Nic<P>>,
}

impl<P: Port + Send + 'static> Running<P> {
    /// Starts a NIC.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn start(nic: Nic<P>) -> std::io::Result<Self> {
        let stop = StopFlag::default();
        let (faults, planted) = channel();
        let seen = stop.clone();
        let thread = Supervised::start("nic", None, move || run(nic, &seen, &planted))?;
        Ok(Self { stop, faults, thread })
    }

    /// Plants a fault; false if the NIC's thread is gone.
    pub fn plant(&self, fault: Fault) -> bool {
        self.faults.send(fault).is_ok()
    }

    /// Stops the NIC after all work that it has seen is done. `None` if its thread panicked, or always finds more to
    /// do.
    #[must_use]
    pub fn stop(mut self) -> Option<Nic<P>> {
        self.stop.set();
        self.thread.wait(GRACE_PERIOD).ok()
    }
}

impl<P> Drop for Running<P> {
    fn drop(&mut self) {
        self.stop.set();
    }
}

fn run<P: Port>(mut nic: Nic<P>, stop: &StopFlag, planted: &Receiver<Fault>) -> Nic<P> {
    loop {
        if let Ok(fault) = planted.try_recv() {
            nic.plant(fault);
        }
        if !nic.step() {
            // Told to stop, and nothing to do: later messages have no receiver.
            if stop.is_set() {
                return nic;
            }
            yield_now();
        }
    }
}

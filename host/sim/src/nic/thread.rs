//! A NIC on its own thread.

use crate::nic::adapter::Nic;
use crate::nic::fault::Fault;
use crate::nic::port::Port;
use ringcall_gpu::atomic::DeviceU64;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle, yield_now};

/// A NIC that runs. Dropped, it stops.
#[derive(Debug)]
pub struct Running<P> {
    stop: Arc<DeviceU64>,
    faults: Sender<Fault>,
    thread: Option<JoinHandle<Nic<P>>>,
}

impl<P: Port + Send + 'static> Running<P> {
    /// Starts a NIC.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn start(nic: Nic<P>) -> std::io::Result<Self> {
        let stop = Arc::new(DeviceU64::new(0));
        let (faults, planted) = channel();
        let word = Arc::clone(&stop);
        let thread = Builder::new().name("nic".to_owned()).spawn(move || run(nic, &word, &planted))?;
        Ok(Self { stop, faults, thread: Some(thread) })
    }

    /// Plants a fault; false if the NIC's thread is gone.
    pub fn plant(&self, fault: Fault) -> bool {
        self.faults.send(fault).is_ok()
    }

    /// Stops it, after what it has seen so far is done; `None` if its thread panicked.
    #[must_use]
    pub fn stop(mut self) -> Option<Nic<P>> {
        self.stop.store(1, Ordering::Relaxed);
        self.thread.take()?.join().ok()
    }
}

impl<P> Drop for Running<P> {
    fn drop(&mut self) {
        self.stop.store(1, Ordering::Relaxed);
    }
}

fn run<P: Port>(mut nic: Nic<P>, stop: &DeviceU64, planted: &Receiver<Fault>) -> Nic<P> {
    loop {
        if let Ok(fault) = planted.try_recv() {
            nic.plant(fault);
        }
        if !nic.step() {
            // A stop word and nothing to do: later messages have no receiver.
            if stop.load(Ordering::Relaxed) != 0 {
                return nic;
            }
            yield_now();
        }
    }
}

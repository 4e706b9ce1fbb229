//! Answers whoever asks for queue pair and key, on a thread of its own.

use anyhow::{Context, Result};
use ringcall_roce::rendezvous::{Service, Side};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

pub(super) struct Rendezvous {
    address: SocketAddr,
    /// Dropped to end the thread.
    alive: Sender<()>,
    thread: JoinHandle<()>,
}

/// How fast a stop is noticed.
const LOOK: Duration = Duration::from_millis(50);

impl Rendezvous {
    pub(super) fn start(address: SocketAddr, side: Side) -> Result<Self> {
        let service = Service::bind(address).with_context(|| format!("no rendezvous at {address}"))?;
        let address = service.local_addr()?;
        let (alive, until) = channel();
        let thread = std::thread::Builder::new()
            .name("ringcall-rendezvous".to_owned())
            .spawn(move || answer(&service, side, &until))?;
        Ok(Self { address, alive, thread })
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn stop(self) {
        let Self { alive, thread, .. } = self;
        drop(alive);
        let _ = thread.join();
    }
}

fn answer(service: &Service, side: Side, until: &Receiver<()>) {
    while until.try_recv() != Err(TryRecvError::Disconnected) {
        if let Err(error) = service.answer(side, LOOK) {
            // Somebody who spoke something else, or fell silent: the next one is listened to.
            eprintln!("ringcall: a rendezvous failed: {error}");
            // Nor does an error that lasts, as a lack of descriptors, keep a core busy.
            let _ = until.recv_timeout(LOOK);
        }
    }
}

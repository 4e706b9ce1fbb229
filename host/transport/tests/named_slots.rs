//! The smallest wire whose peers name slots, as RDMA peers do by the immediate: through memory. It passes the
//! same suite, so the code that all transports share does not depend on UDP.

use ringcall::dispatcher::Wired;
use ringcall::{HostDispatcher, Ring};
use ringcall_transport::conformance::{FrameClient, Subject, check, serve};
use ringcall_transport::wire::{ReceivedFrame, Sent, WireArrival};
use ringcall_transport::{Link, Outbox, RingFilling, TransportAddress, TransportError, Wire};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A packet: its sender, its slot, its bytes.
type Packet = (u64, u32, Vec<u8>);

/// The table in which services and clients find each other.
#[derive(Clone, Default)]
struct Net(Arc<Mutex<Directory>>);

#[derive(Default)]
struct Directory {
    services: BTreeMap<u16, (Sender<Packet>, u32)>,
    clients: BTreeMap<u64, Sender<Vec<u8>>>,
}

struct Memory {
    net: Net,
    port: u16,
    inbox: Receiver<Packet>,
    longest: usize,
}

impl Wire for Memory {
    type Peer = u64;
    const NAMES_SLOTS: bool = true;

    fn endpoint(&self) -> TransportAddress {
        TransportAddress::new("memory", SocketAddr::from(([127, 0, 0, 1], self.port)))
    }

    fn max_frame_bytes(&self) -> usize {
        1 << 20
    }

    fn open(&mut self, receive_bytes: usize, _: usize) -> io::Result<()> {
        self.longest = receive_bytes;
        Ok(())
    }

    fn receive(&mut self, limit: usize, take: &mut impl FnMut(WireArrival<'_, u64>)) -> io::Result<()> {
        for (from, slot, bytes) in self.inbox.try_iter().take(limit) {
            let len = bytes.len();
            take(WireArrival::Frame(ReceivedFrame {
                from,
                slot: Some(slot),
                bytes: &bytes[..len.min(self.longest)],
                len,
            }));
        }
        Ok(())
    }

    fn send(&mut self, outbox: &Outbox<u64>) -> Sent {
        let directory = self.net.0.lock().unwrap();
        let mut frames = 0;
        for frame in outbox.frames() {
            let gone = || io::Error::from(io::ErrorKind::HostUnreachable);
            if directory
                .clients
                .get(&frame.to)
                .is_none_or(|client| client.send(frame.bytes.to_vec()).is_err())
            {
                return Sent { frames, error: Some(gone()) };
            }
            frames += 1;
        }
        Sent { frames, error: None }
    }

    fn wait(&self, _: Duration) -> io::Result<()> {
        std::thread::yield_now();
        Ok(())
    }
}

impl Subject for Net {
    fn start(
        &self,
        ring: &Ring,
        at: Option<&TransportAddress>,
        dispatcher: Option<HostDispatcher<Wired>>,
    ) -> Result<Box<dyn RingFilling>, TransportError> {
        let (sender, inbox) = channel();
        let mut directory = self.0.lock().unwrap();
        let port = at.map_or(directory.services.len() as u16 + 1, |endpoint| endpoint.address.port());
        directory.services.insert(port, (sender, ring.geometry().slots()));
        drop(directory);
        let link = Link::attach(Memory { net: self.clone(), port, inbox, longest: 0 }, ring)?;
        serve(link, dispatcher, true)
    }

    fn client(&self, service: &TransportAddress) -> Box<dyn FrameClient> {
        let mut directory = self.0.lock().unwrap();
        let (sender, inbox) = channel();
        let name = directory.clients.len() as u64;
        directory.clients.insert(name, sender);
        Box::new(Peer { net: self.clone(), name, port: service.address.port(), inbox })
    }

    fn names_slots(&self) -> bool {
        true
    }
}

struct Peer {
    net: Net,
    name: u64,
    port: u16,
    inbox: Receiver<Vec<u8>>,
}

impl FrameClient for Peer {
    fn send(&mut self, frame: &[u8]) {
        let directory = self.net.0.lock().unwrap();
        let (service, slots) = &directory.services[&self.port];
        // Frames use the slots in turn, whichever peer sends them: no peer picks a slot whose answer is still to
        // come.
        let slot = NEXT.with(|next| next.replace((next.get() + 1) % slots)) % slots;
        let _ = service.send((self.name, slot, frame.to_vec()));
    }

    fn send_raw(&mut self, bytes: &[u8]) {
        self.send(bytes);
    }

    fn receive(&mut self, timeout: Duration) -> Option<Vec<u8>> {
        self.inbox.recv_timeout(timeout).ok()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // No later client gets this name.
        self.net.0.lock().unwrap().clients.insert(self.name, channel().0);
    }
}

thread_local! {
    static NEXT: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

#[test]
fn it_passes_the_suite() {
    check(&Net::default()).unwrap();
}

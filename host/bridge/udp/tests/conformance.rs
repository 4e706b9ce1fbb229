//! The suite, over this package's library as the dynamic linker loads it: in both of the interface's modes.

use ringcall::dispatcher::Wired;
use ringcall::{HostDispatcher, Ring};
use ringcall_bridge::{PolledProvider, Provider, RingProvider};
use ringcall_transport::conformance::{FrameClient, Subject, alone, beside, check, datagrams};
use ringcall_transport::{OneThread, RingFilling, ThreadOptions, Threaded, TransportAddress, TransportError};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

/// The library that was built for this test: beside it.
fn library() -> String {
    let test = std::env::current_exe().unwrap();
    let beside = |folder: Option<&std::path::Path>| folder.map(|f| f.join("libcudaq_realtime_bridge_udp.so"));
    let paths = [beside(test.parent()), beside(test.parent().and_then(|deps| deps.parent()))];
    let found: Option<PathBuf> = paths.into_iter().flatten().find(|path| path.is_file());
    found.expect("the library was built").to_str().unwrap().to_owned()
}

fn load(port: u16, slots: u32, slot_bytes: u32, more: &[&str]) -> Provider {
    let mut args = vec![
        format!("--port={port}"),
        format!("--num-slots={slots}"),
        format!("--slot-size={slot_bytes}"),
        "--whatever=else".to_owned(),
    ];
    args.extend(more.iter().map(|&arg| arg.to_owned()));
    Provider::load(&library(), &args).unwrap()
}

fn refused(error: impl std::fmt::Display) -> TransportError {
    TransportError::Thread(error.to_string())
}

/// The library fills its own ring.
#[derive(Default)]
struct OwnRing(Mutex<BTreeMap<u64, Provider>>);

impl Subject for OwnRing {
    fn ring(&self, slots: u32, slot_bytes: u32) -> Result<Ring, String> {
        let provider = load(0, slots, slot_bytes, &[]);
        let ring = provider.ring().map_err(|e| e.to_string())?;
        self.0.lock().unwrap().insert(ring.bases().rx_host, provider);
        Ok(ring)
    }

    fn start(
        &self,
        ring: &Ring,
        _: Option<&TransportAddress>,
        dispatcher: Option<HostDispatcher<Wired>>,
    ) -> Result<Box<dyn RingFilling>, TransportError> {
        // At the same address, if it ran before: it keeps that.
        let provider = self.0.lock().unwrap()[&ring.bases().rx_host].clone();
        beside(RingProvider::launch(provider, ring).map_err(refused)?, dispatcher)
    }

    fn client(&self, service: &TransportAddress) -> Box<dyn FrameClient> {
        datagrams(service).unwrap()
    }
}

/// A thread of ours drives the library, for any ring.
struct Hooks {
    one_thread: bool,
}

impl Subject for Hooks {
    fn start(
        &self,
        ring: &Ring,
        at: Option<&TransportAddress>,
        dispatcher: Option<HostDispatcher<Wired>>,
    ) -> Result<Box<dyn RingFilling>, TransportError> {
        let port = at.map_or(0, |endpoint| endpoint.address.port());
        // What does not fit is the library's to refuse, so its slots are as long as the ring's.
        let geometry = ring.geometry();
        let provider = load(port, geometry.slots(), geometry.rx_stride(), &["--unified"]);
        let driven = PolledProvider::attach(provider, ring).map_err(refused)?;
        match dispatcher {
            Some(dispatcher) if self.one_thread => {
                Ok(alone(OneThread::start(driven, dispatcher, &ThreadOptions::default())?))
            }
            other => beside(Threaded::start(driven, &ThreadOptions::default())?, other),
        }
    }

    fn client(&self, service: &TransportAddress) -> Box<dyn FrameClient> {
        datagrams(service).unwrap()
    }
}

#[test]
fn it_fills_its_own_ring() {
    check(&OwnRing::default()).unwrap();
}

#[test]
fn one_thread_drives_it_and_serves() {
    check(&Hooks { one_thread: true }).unwrap();
}

#[test]
fn a_thread_drives_it_beside_a_dispatcher() {
    check(&Hooks { one_thread: false }).unwrap();
}

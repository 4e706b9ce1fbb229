//! The provider in C of `examples/c-provider`, compiled, loaded, and served in both modes.

mod support;

use ringcall::dispatcher::Wired;
use ringcall::{FunctionTable, HostDispatcher, Ring, RingConfig};
use ringcall_bridge::{Driven, Filled, Provider};
use ringcall_transport::{OneThread, RingFilling, ThreadOptions};
use ringcall_wire::FunctionId;
use ringcall_wire::header::{HEADER_BYTES, RequestHeader, ResponseHeader};
use std::os::unix::net::UnixDatagram;
use std::time::Duration;
use support::Shop;

const GRACE: Duration = Duration::from_secs(20);

fn library(shop: &Shop) -> String {
    shop.library("examples/c-provider/provider.c", &[])
}

fn incrementer(ring: &Ring) -> HostDispatcher<Wired> {
    let table = FunctionTable::builder().host_call("rpc_increment", |request: &[u8], result: &mut [u8]| {
        result.iter_mut().zip(request).for_each(|(out, byte)| *out = byte.wrapping_add(1));
        Ok(request.len())
    });
    HostDispatcher::builder(ring, table.build(ring).unwrap()).build().unwrap()
}

/// More calls than there are slots, several under way, from two clients.
fn ask(shop: &Shop, service: &str) {
    let clients: Vec<_> = (0..2)
        .map(|n| {
            let client = UnixDatagram::bind(shop.path(&format!("client-{n}"))).unwrap();
            client.connect(service).unwrap();
            client.set_read_timeout(Some(GRACE)).unwrap();
            client
        })
        .collect();
    for round in 0..20_u32 {
        for (n, client) in (0_u8..).zip(&clients) {
            for id in round * 2..round * 2 + 2 {
                let payload = vec![n; 1 + id as usize % 40];
                let header =
                    RequestHeader::new(FunctionId::of("rpc_increment").0, payload.len() as u32, id, 7);
                client.send(&[&header.to_bytes()[..], &payload].concat()).unwrap();
            }
        }
        for (n, client) in (0_u8..).zip(&clients) {
            let mut ids = Vec::new();
            for _ in 0..2 {
                let mut frame = [0; 1024];
                let len = client.recv(&mut frame).unwrap();
                let header = ResponseHeader::from_bytes(&frame[..len]).unwrap().check_magic().unwrap();
                let result = 1 + header.request_id as usize % 40;
                assert_eq!(&frame[HEADER_BYTES..len], vec![n + 1; result]);
                ids.push(header.request_id);
            }
            ids.sort_unstable();
            assert_eq!(ids, [round * 2, round * 2 + 1]);
        }
    }
}

#[test]
fn it_fills_its_ring_for_a_dispatcher() {
    let shop = Shop::new();
    let path = shop.path("service");
    let args = [format!("--path={path}"), "--num-slots=6".to_owned(), "--slot-size=128".to_owned()];
    let provider = Provider::load(&library(&shop), &args).unwrap();
    assert_eq!(provider.endpoint_info().unwrap(), format!("transport=unix path={path}"));
    assert_eq!(provider.ring_geometry().unwrap(), (6, 128));
    assert!(provider.plane().is_err(), "a thread fills the ring");
    let ring = provider.ring().unwrap();
    let dispatcher = incrementer(&ring).start().unwrap();
    let filled = Filled::launch(provider.clone(), &ring).unwrap();
    ask(&shop, &path);
    assert!(!Box::new(filled).stop(GRACE).stuck);
    assert_eq!(dispatcher.stop(GRACE).report.dropped, 0);
    // The name is free when the last handle is gone: not before.
    drop((provider, ring));
    assert!(!std::path::Path::new(&path).exists());
}

#[test]
fn one_thread_drives_it_and_serves() {
    let shop = Shop::new();
    let path = shop.path("service");
    let args = [format!("--path={path}"), "--unified".to_owned()];
    let provider = Provider::load(&library(&shop), &args).unwrap();
    assert!(provider.ring().is_err(), "nobody fills a ring");
    // A ring of another shape than the provider's.
    let ring = Ring::allocate(RingConfig { slots: 16, slot_bytes: 128 }).unwrap();
    let dispatcher = incrementer(&ring);
    let driven = Driven::attach(provider, &ring).unwrap();
    let service = OneThread::start(driven, dispatcher, &ThreadOptions::default()).unwrap();
    assert_eq!(service.endpoint().transport, "unix");
    ask(&shop, &path);
    let (report, stopped) = service.stop(GRACE);
    assert_eq!((report.statistics.answered, report.statistics.balance()), (80, (0, 0)));
    assert!(stopped.is_some());
}

#[test]
fn arguments_that_do_not_work_are_refused() {
    let shop = Shop::new();
    let library = library(&shop);
    for wrong in ["--num-slots=0", "--num-slots=x", "--slot-size=20", "--slot-size=99999999999999"] {
        let args = [format!("--path={}", shop.path("service")), wrong.to_owned()];
        assert!(Provider::load(&library, &args).is_err(), "{wrong}");
    }
    assert!(Provider::load(&library, &[""; 0]).is_err(), "no path");
}

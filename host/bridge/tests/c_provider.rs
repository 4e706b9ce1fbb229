//! The provider in C of `examples/c-provider`, compiled, loaded, and served in both modes.

mod support;

use ringcall::dispatcher::Wired;
use ringcall::{FunctionTable, HostDispatcher, Ring, RingConfig};
use ringcall_bridge::loader::{Plane, PlanePoll};
use ringcall_bridge::{PolledProvider, Provider, RingProvider};
use ringcall_protocol::RingMemory;
use ringcall_protocol::scan::Scan;
use ringcall_transport::{OneThread, RingFilling, ThreadOptions};
use ringcall_wire::header::{HEADER_BYTES, RequestHeader, ResponseHeader};
use ringcall_wire::status::Status;
use ringcall_wire::{FunctionId, flag};
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};
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
    let filling = RingProvider::launch(provider.clone(), &ring).unwrap();
    ask(&shop, &path);
    assert!(!Box::new(filling).stop(GRACE).stuck);
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
    let polled = PolledProvider::attach(provider, &ring).unwrap();
    let service = OneThread::start(polled, dispatcher, &ThreadOptions::default()).unwrap();
    assert_eq!(service.endpoint().transport, "unix");
    ask(&shop, &path);
    let (report, stopped) = service.stop(GRACE);
    assert_eq!((report.stats.answered, report.stats.balance()), (80, (0, 0)));
    assert!(stopped.is_some());
}

/// A client that is not connected: the system queues a few datagrams for it, and refuses more until it reads.
fn client(shop: &Shop, name: &str) -> UnixDatagram {
    let client = UnixDatagram::bind(shop.path(name)).unwrap();
    client.set_read_timeout(Some(GRACE)).unwrap();
    client
}

fn request(id: u32) -> Vec<u8> {
    let header = RequestHeader::new(FunctionId::of("rpc_increment").0, 1, id, 7);
    [&header.to_bytes()[..], &[id as u8]].concat()
}

/// The next answer: its request, how that ended, and how many bytes came with it.
fn receive(client: &UnixDatagram) -> (u32, i32, usize) {
    let mut frame = [0; 1024];
    let len = client.recv(&mut frame).unwrap();
    let header = ResponseHeader::from_bytes(&frame[..len]).unwrap().check_magic().unwrap();
    assert_eq!((header.result_len as usize, header.ptp_timestamp), (len - HEADER_BYTES, 7));
    (header.request_id, header.status, len - HEADER_BYTES)
}

/// Asks without reading until the service takes no more, which it does as long as it has slots; then reads.
fn read_late(shop: &Shop, service: &str) {
    let client = client(shop, "late");
    client.set_nonblocking(true).unwrap();
    let (mut sent, mut full) = (0, 0);
    while full < 50 {
        match client.send_to(&request(sent), service) {
            Ok(_) => (sent, full) = (sent + 1, 0),
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                full += 1;
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(e) => panic!("{e}"),
        }
        assert!(sent < 10_000, "the service goes on, though nobody takes its answers");
    }
    client.set_nonblocking(false).unwrap();
    let mut answers: Vec<_> = (0..sent).map(|_| receive(&client)).collect();
    answers.sort_unstable();
    assert!(answers.into_iter().eq((0..sent).map(|id| (id, 0, 1))));
}

#[test]
fn answers_wait_for_a_client_that_reads_late() {
    let shop = Shop::new();
    let library = library(&shop);
    let path = shop.path("service");
    let args = [format!("--path={path}"), "--num-slots=6".to_owned(), "--send-ms=60000".to_owned()];
    let provider = Provider::load(&library, &args).unwrap();
    let ring = provider.ring().unwrap();
    let dispatcher = incrementer(&ring).start().unwrap();
    let filling = RingProvider::launch(provider, &ring).unwrap();
    read_late(&shop, &path);
    assert!(!Box::new(filling).stop(GRACE).stuck);
    assert_eq!(dispatcher.stop(GRACE).report.dropped, 0);

    let shop = Shop::new();
    let path = shop.path("service");
    let args = [format!("--path={path}"), "--unified".to_owned(), "--send-ms=60000".to_owned()];
    let ring = Ring::allocate(RingConfig { slots: 16, slot_bytes: 128 }).unwrap();
    let dispatcher = incrementer(&ring);
    let polled = PolledProvider::attach(Provider::load(&library, &args).unwrap(), &ring).unwrap();
    let service = OneThread::start(polled, dispatcher, &ThreadOptions::default()).unwrap();
    read_late(&shop, &path);
    let (report, _) = service.stop(GRACE);
    assert_eq!((report.stats.unsent, report.stats.balance()), (0, (0, 0)));
}

#[test]
fn a_client_that_never_reads_stalls_no_other() {
    let shop = Shop::new();
    let path = shop.path("service");
    let args = [format!("--path={path}"), "--num-slots=6".to_owned(), "--send-ms=5".to_owned()];
    let provider = Provider::load(&library(&shop), &args).unwrap();
    let ring = provider.ring().unwrap();
    let dispatcher = incrementer(&ring).start().unwrap();
    let filling = RingProvider::launch(provider, &ring).unwrap();
    let silent = client(&shop, "silent");
    for id in 0..100 {
        silent.send_to(&request(id), &path).unwrap();
    }
    ask(&shop, &path);
    assert!(!Box::new(filling).stop(GRACE).stuck);
    assert_eq!(dispatcher.stop(GRACE).report.dropped, 0);
}

#[test]
fn what_a_ring_holds_in_place_of_an_answer_is_reported() {
    const LAST: u32 = 5;
    let shop = Shop::new();
    let path = shop.path("service");
    let args = [format!("--path={path}"), "--num-slots=6".to_owned(), "--slot-size=128".to_owned()];
    let provider = Provider::load(&library(&shop), &args).unwrap();
    let ring = provider.ring().unwrap();
    let filling = RingProvider::launch(provider.clone(), &ring).unwrap();
    let client = client(&shop, "client");
    for id in 0..=LAST {
        client.send_to(&request(id), &path).unwrap();
    }
    let shared = ring.shared();
    let (mut scan, mut seen, begin) = (Scan::new(6), 0, Instant::now());
    while seen <= LAST {
        assert!(begin.elapsed() < GRACE, "never");
        seen += scan.full(shared, |seen| {
            let request = seen.claim(shared).unwrap().take(shared);
            let (slot, asked) = (request.slot(), *request.header());
            let answer_at = shared.geometry().response_address(slot);
            match asked.request_id {
                0 => request.fail(shared, Status::NO_WORKER, 700),
                1 => shared.publish_tx(slot, flag::error(700)),
                2 => shared.publish_tx(slot, answer_at),
                3 => shared.publish_tx(slot, flag::FREE),
                4 => {
                    let claims = ResponseHeader::reply(&asked, 0, 10_000);
                    shared.write_response(slot, claims.to_words(), &[1]);
                    shared.publish_tx(slot, answer_at);
                }
                // Is never answered.
                _ => (),
            }
        });
    }
    let mut answers: Vec<_> = (0..LAST).map(|_| receive(&client)).collect();
    answers.sort_unstable();
    assert_eq!(
        answers,
        [
            (0, Status::NO_WORKER.0, 0),
            (1, Status::LAUNCH_FAILED.0, 0),
            (2, Status::ABANDONED.0, 0),
            (3, Status::ABANDONED.0, 0),
            (4, Status::RESULT_TOO_LONG.0, 104),
        ]
    );
    assert!(!Box::new(filling).stop(Duration::ZERO).stuck);
    drop((provider, ring));
    assert_eq!(receive(&client), (LAST, Status::SHUTTING_DOWN.0, 0));
}

#[test]
fn what_its_user_drops_is_reported_and_leaves_no_slot_behind() {
    let shop = Shop::new();
    let path = shop.path("service");
    let args = [format!("--path={path}"), "--num-slots=3".to_owned(), "--unified".to_owned()];
    let provider = Provider::load(&library(&shop), &args).unwrap();
    let unified = provider.unified_context().unwrap();
    assert!(unified.launch_fn.is_none() && unified.transport_ctx.is_null(), "the loop is the caller's");
    let client = client(&shop, "client");
    // The hooks work from the creation on; a launch changes nothing for them.
    let mut plane = provider.plane().unwrap();
    client.send_to(&request(9), &path).unwrap();
    let PlanePoll::Ready(first) = plane.poll() else { panic!("nothing") };
    provider.launch().unwrap();
    assert_eq!(
        plane.publish(first, &ResponseHeader::reply(&RequestHeader::new(0, 0, 9, 7), 0, 0).to_bytes()),
        0
    );
    assert_eq!(receive(&client), (9, 0, 0));
    let ask = |plane: &mut Plane, id| {
        client.send_to(&request(id), &path).unwrap();
        match plane.poll() {
            PlanePoll::Ready(slot) => slot,
            other => panic!("{other:?}"),
        }
    };
    let slot = ask(&mut plane, 0);
    plane.release(slot);
    assert_eq!(plane.poll(), PlanePoll::Empty);
    assert_eq!(receive(&client), (0, Status::ABANDONED.0, 0));
    let slot = ask(&mut plane, 1);
    assert_eq!(plane.publish(slot, &[0; HEADER_BYTES]), 0, "no response: somebody is told");
    assert_eq!(receive(&client), (1, Status::ABANDONED.0, 0));
    ask(&mut plane, 2);
    provider.disconnect().unwrap();
    assert_eq!(receive(&client), (2, Status::SHUTTING_DOWN.0, 0));
    provider.connect().unwrap();
    provider.launch().unwrap();
    let mut plane = provider.plane().unwrap();
    for id in 3..6 {
        ask(&mut plane, id);
    }
    assert_eq!(plane.poll(), PlanePoll::Empty, "every slot is in use");
}

#[test]
fn arguments_that_do_not_work_are_refused() {
    let shop = Shop::new();
    let library = library(&shop);
    for wrong in
        ["--num-slots=0", "--num-slots=x", "--slot-size=20", "--slot-size=99999999999999", "--send-ms=-1x"]
    {
        let args = [format!("--path={}", shop.path("service")), wrong.to_owned()];
        assert!(Provider::load(&library, &args).is_err(), "{wrong}");
    }
    assert!(Provider::load(&library, &[""; 0]).is_err(), "no path");
}

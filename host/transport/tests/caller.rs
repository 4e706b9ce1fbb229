//! The caller: every request ends, whatever the network does.

mod support;

use ringcall::external::{BadRequests, RingCompat};
use ringcall::wire::{HEADER_BYTES, RequestHeader, ResponseHeader};
use ringcall::{FunctionId, FunctionTable, HostDispatcher, Ring, RingConfig, Status};
use ringcall_transport::conformance::{Faults, Passed, Subject};
use ringcall_transport::{CallerError, CallerOptions, Link, RequestOutcome, UnifiedTransport, udp};
use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::{Udp, V4};

const TIMEOUT: Duration = Duration::from_secs(20);

fn double() -> (Ring, HostDispatcher) {
    let ring = Ring::allocate(RingConfig { slots: 64, slot_bytes: 64 }).unwrap();
    let table = FunctionTable::builder().host_call("double", |args: &[u8], out: &mut [u8]| {
        out.iter_mut().zip(args).for_each(|(out, byte)| *out = byte.wrapping_mul(2));
        Ok(args.len())
    });
    let dispatcher = HostDispatcher::builder(&ring, table.build(&ring).unwrap()).build().unwrap();
    (ring, dispatcher)
}

/// A relay between caller and service, which chooses by each id what it lets through, either way.
fn proxy(
    to: SocketAddr,
    stop: &AtomicBool,
    send_address: impl FnOnce(SocketAddr),
) -> [BTreeMap<u32, u32>; 2] {
    let sockets = [UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap()];
    sockets[1].connect(to).unwrap();
    sockets.iter().for_each(|socket| socket.set_nonblocking(true).unwrap());
    send_address(sockets[0].local_addr().unwrap());
    let mut ways = [Passed::new(Faults::BAD, 11), Passed::new(Faults::BAD, 12)];
    let mut through = [BTreeMap::new(), BTreeMap::new()];
    let mut caller = None;
    let mut buffer = [0; 2048];
    while !stop.load(Ordering::Relaxed) {
        let mut quiet = true;
        for way in 0..2 {
            while let Ok((len, from)) = sockets[way].recv_from(&mut buffer) {
                quiet = false;
                if way == 0 {
                    caller = Some(from);
                }
                for frame in ways[way].pass(&buffer[..len]) {
                    let id = u32::from_le_bytes(frame[12..16].try_into().unwrap());
                    *through[way].entry(id).or_default() += 1;
                    match way {
                        0 => sockets[1].send(&frame).unwrap(),
                        _ => sockets[0].send_to(&frame, caller.unwrap()).unwrap(),
                    };
                }
            }
        }
        if quiet {
            std::thread::yield_now();
        }
    }
    through
}

#[test]
fn a_bad_network_both_ways() {
    let (ring, dispatcher) = double();
    let service = Udp { one_thread: true, ip: V4 }.start(&ring, None, Some(dispatcher)).unwrap();
    let to = service.endpoint().address;
    let stop = AtomicBool::new(false);
    let total = 400;
    let (stats, answered, through) = std::thread::scope(|scope| {
        let (send_address, address) = std::sync::mpsc::channel();
        let stop = &stop;
        let proxy = scope.spawn(move || proxy(to, stop, |address| send_address.send(address).unwrap()));
        let options =
            CallerOptions { window: total, deadline: Duration::from_secs(1), ..CallerOptions::default() };
        let mut caller = udp::Caller::connect(address.recv().unwrap(), &options).unwrap();
        let mut ends = BTreeMap::new();
        for n in 0..total {
            caller.send(FunctionId::of("double"), 0, &[n as u8; 16]).unwrap();
        }
        let begin = Instant::now();
        while ends.len() < total && begin.elapsed() < TIMEOUT {
            caller.poll(|end| {
                let right = match end.outcome {
                    RequestOutcome::Answered(_, result) => {
                        assert_eq!(result, [(end.id as u8).wrapping_sub(1).wrapping_mul(2); 16]);
                        true
                    }
                    RequestOutcome::Lost => false,
                    RequestOutcome::Unsent => panic!("{end:?}"),
                };
                assert_eq!(ends.insert(end.id, right), None, "a request ends once");
            });
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
        let answered: Vec<u32> = ends.iter().filter(|&(_, &right)| right).map(|(&id, _)| id).collect();
        (caller.stats(), answered, proxy.join().unwrap())
    });
    assert_eq!((stats.sent, stats.balance(), stats.waiting), (total as u64, 0, 0));
    // Answers that got through came, in time or late; the others were reported as lost.
    let arrived = &through[1];
    assert!(answered.iter().all(|id| arrived.contains_key(id)));
    assert!(arrived.len() < total, "the network was too good");
    assert!(stats.lost >= (total - arrived.len()) as u64, "{stats}");
    let answers: u64 = arrived.values().map(|&n| u64::from(n)).sum();
    let seen = stats.answered + stats.duplicates + stats.late;
    assert!(seen <= answers && stats.duplicates > 0, "{stats}; {answers} answers");
    let counts = service.stop(TIMEOUT).stats;
    assert_eq!(counts.answered, through[0].values().map(|&n| u64::from(n)).sum::<u64>());
}

#[test]
fn what_comes_unasked_is_counted_and_ignored() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    let options = CallerOptions { deadline: Duration::from_millis(50), ..CallerOptions::default() };
    let mut caller = udp::Caller::connect(socket.local_addr().unwrap(), &options).unwrap();
    let mut buffer = [0; 64];
    let ask = |caller: &mut udp::Caller, buffer: &mut [u8; 64]| {
        caller.send(FunctionId::of("x"), 9, &[]).unwrap();
        caller.flush();
        let (len, from) = socket.recv_from(buffer).unwrap();
        (RequestHeader::from_bytes(&buffer[..len]).unwrap(), from)
    };
    let lost = |caller: &mut udp::Caller| {
        let mut lost = 0;
        while caller.waiting() > 0 {
            caller.poll(|end| lost += u32::from(end.outcome == RequestOutcome::Lost));
        }
        lost
    };
    // The answer is lost, then late.
    let (first, from) = ask(&mut caller, &mut buffer);
    assert_eq!(lost(&mut caller), 1);
    let send = |header: ResponseHeader, extra: &[u8]| {
        socket.send_to(&[&header.to_bytes()[..], extra].concat(), from).unwrap();
    };
    send(ResponseHeader::reply(&first, 0, 0), &[]);
    // An answer comes twice, one is for no request; then a runt, a wrong magic, and a header that says too much.
    let (second, _) = ask(&mut caller, &mut buffer);
    send(ResponseHeader::reply(&second, -4, 0), &[]);
    send(ResponseHeader::reply(&second, 0, 0), &[]);
    send(ResponseHeader { request_id: 77, ..ResponseHeader::reply(&second, 0, 0) }, &[]);
    socket.send_to(&[1; HEADER_BYTES - 1], from).unwrap();
    socket.send_to(&[1; HEADER_BYTES], from).unwrap();
    send(ResponseHeader::reply(&second, 0, 5), b"four");
    let begin = Instant::now();
    while caller.stats().malformed < 3 && begin.elapsed() < TIMEOUT {
        caller.poll(|_| ());
    }
    let counts = caller.stats();
    assert_eq!((counts.late, counts.duplicates, counts.strays, counts.malformed), (1, 1, 1, 3));
    assert_eq!((counts.lost, counts.refused, counts.answered, counts.balance()), (1, 1, 0, 0));
}

#[test]
fn limits_are_reported() {
    // No socket listens: the request is lost at its deadline, and the system's error is counted.
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let options = CallerOptions {
        window: 2,
        deadline: Duration::from_millis(20),
        frame_bytes: 64,
        ..CallerOptions::default()
    };
    let mut caller = udp::Caller::connect(nobody, &options).unwrap();
    assert!(matches!(caller.call("x", &[]), Err(CallerError::Lost(_))));
    let too_long = caller.send(FunctionId::of("x"), 0, &[0; 41]);
    assert_eq!(too_long, Err(CallerError::TooLong { len: 41, capacity: 40 }));
    assert!(caller.withhold().is_ok() && caller.send(FunctionId::of("x"), 0, &[0; 40]).is_ok());
    assert_eq!(caller.send(FunctionId::of("x"), 0, &[]), Err(CallerError::Full(2)));
    let mut lost = 0;
    while caller.waiting() > 0 {
        lost += caller.poll(|_| ());
    }
    let counts = caller.stats();
    assert_eq!((lost, counts.lost, counts.withheld, counts.sent), (2, 3, 1, 3));
    assert!(counts.errors > 0, "{counts}");
    // No datagram carries slots of this size.
    let ring = Ring::allocate(RingConfig { slots: 1, slot_bytes: 65_512 }).unwrap();
    let refused = Link::attach(udp::Udp::bind(&udp::UdpOptions::default()).unwrap(), &ring).unwrap_err();
    assert!(refused.to_string().contains("take shorter slots"), "{refused}");
    // Another socket has the address.
    let first = udp::Udp::bind(&udp::UdpOptions::default()).unwrap();
    let address = ringcall_transport::Wire::endpoint(&first).address;
    let refused = udp::Udp::bind(&udp::UdpOptions { address, ..Default::default() }).unwrap_err();
    assert!(refused.to_string().contains(&address.to_string()), "{refused}");
}

#[test]
fn nothing_is_allocated_on_the_way() {
    let (ring, dispatcher) = double();
    let mut dispatcher = dispatcher.into_stepper();
    let mut link = Link::attach(udp::Udp::bind(&udp::UdpOptions::default()).unwrap(), &ring).unwrap();
    let options = CallerOptions { window: 48, ..CallerOptions::default() };
    let mut caller = udp::Caller::connect(link.endpoint().address, &options).unwrap();
    let mut rounds = |n: u32| {
        let mut ended = 0;
        for _ in 0..n {
            while caller.room() > 0 {
                caller.send(FunctionId::of("double"), 0, &[7; 32]).unwrap();
            }
            link.poll();
            dispatcher.step();
            link.publish();
            ended += caller.poll(|end| assert_eq!(end.result(), [14; 32]));
        }
        ended
    };
    rounds(50);
    let mut ended = 0;
    let allocated = allocation_counter::measure(|| ended = rounds(300));
    assert!(ended > 1000, "{ended}");
    assert_eq!(allocated.count_total, 0);
}

#[test]
fn the_system_counts_what_it_drops() {
    let (ring, _) = double();
    // The smallest buffer that the system gives. No dispatcher serves the ring, so 64 datagrams are taken and the others wait
    // or are dropped.
    let wire =
        udp::Udp::bind(&udp::UdpOptions { receive_buffer_bytes: Some(1), ..Default::default() }).unwrap();
    let mut link = Link::attach(wire, &ring).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let request = RequestHeader::new(1, 0, 0, 0).to_bytes();
    for _ in 0..500 {
        socket.send_to(&request, link.endpoint().address).unwrap();
    }
    while link.poll() > 0 {}
    let counts = link.watch().stats();
    assert!(counts.kernel_drops > 0, "{counts}");
    // Each datagram was taken, waits or was dropped: a stop reads and refuses those that wait.
    let counts = link.stop(Duration::ZERO, &mut || ()).stats;
    assert_eq!(counts.received + counts.kernel_drops, 500);
    assert_eq!(counts.balance(), (0, 0));
}

/// The answer must leave from the address that the request was sent to: a connected caller drops any other.
#[test]
fn a_service_on_every_address_answers_from_the_one_that_was_asked() {
    for (any, asked) in [("0.0.0.0:0", "127.0.0.2"), ("0.0.0.0:0", "127.0.0.1"), ("[::]:0", "::1")] {
        let address = any.parse().unwrap();
        let Ok(wire) = udp::Udp::bind(&udp::UdpOptions { address, ..Default::default() }) else {
            // A machine without IPv6.
            assert_eq!(any, "[::]:0");
            continue;
        };
        let (ring, dispatcher) = double();
        let mut dispatcher = dispatcher.into_stepper();
        let mut link = Link::attach(wire, &ring).unwrap();
        let to = SocketAddr::new(asked.parse().unwrap(), link.endpoint().address.port());
        let mut caller = udp::Caller::connect(to, &CallerOptions::default()).unwrap();
        for id in 0..100_u8 {
            caller.send(FunctionId::of("double"), 0, &[id; 3]).unwrap();
            let begin = Instant::now();
            let mut answer = Vec::new();
            while answer.is_empty() {
                link.poll();
                dispatcher.step();
                link.publish();
                caller.poll(|ended| answer.extend_from_slice(ended.result()));
                assert!(begin.elapsed() < TIMEOUT, "{any} {asked}: no answer");
            }
            assert_eq!(answer, [id * 2; 3]);
        }
    }
}

/// Other peers are counted, and hear nothing; also in batches, and where the socket is bound to every address.
#[test]
fn peers_that_are_not_allowed_are_counted_and_not_answered() {
    for bind in ["127.0.0.1:0", "0.0.0.0:0"] {
        let outsider = UdpSocket::bind("127.0.0.1:0").unwrap();
        let guest = UdpSocket::bind("127.0.0.1:0").unwrap();
        let allowed =
            vec![guest.local_addr().unwrap().to_string().parse().unwrap(), "127.0.0.9".parse().unwrap()];
        let options = udp::UdpOptions { address: bind.parse().unwrap(), allowed, ..Default::default() };
        let (ring, dispatcher) = double();
        let mut dispatcher = dispatcher.into_stepper();
        let mut link = Link::attach(udp::Udp::bind(&options).unwrap(), &ring).unwrap();
        let to = ("127.0.0.1", link.endpoint().address.port());
        let frame =
            [&RequestHeader::new(FunctionId::of("double").0, 3, 7, 0).to_bytes()[..], &[1, 2, 3]].concat();
        for _ in 0..20 {
            outsider.send_to(&frame, to).unwrap();
        }
        guest.send_to(&frame, to).unwrap();
        guest.set_nonblocking(true).unwrap();
        outsider.set_nonblocking(true).unwrap();
        let begin = Instant::now();
        let mut buffer = [0; 64];
        let len = loop {
            link.poll();
            dispatcher.step();
            link.publish();
            if let Ok(len) = guest.recv(&mut buffer) {
                break len;
            }
            assert!(begin.elapsed() < TIMEOUT, "{bind}: no answer");
        };
        assert_eq!(buffer[HEADER_BYTES..len], [2, 4, 6]);
        // The outsider's datagram arrived before.
        let counts = link.watch().stats();
        assert_eq!((counts.received, counts.forbidden, counts.answered), (21, 20, 1), "{bind}: {counts}");
        assert_eq!(counts.balance(), (0, 0));
        assert!(outsider.recv(&mut buffer).is_err(), "{bind}");
    }
}

/// A dispatcher takes requests out unanswered: their slots are used again, and counted.
#[test]
fn bad_requests_are_dropped_where_that_is_asked_for() {
    let ring = Ring::allocate(RingConfig { slots: 4, slot_bytes: 64 }).unwrap();
    let table = FunctionTable::builder().host_call("empty", |_: &[u8], _: &mut [u8]| Ok(0));
    let compat = RingCompat { bad_requests: BadRequests::Drop, ..RingCompat::default() };
    let dispatcher = HostDispatcher::builder(&ring, table.build(&ring).unwrap()).compat(compat);
    let mut dispatcher = dispatcher.build().unwrap().into_stepper();
    let options = udp::UdpOptions::default();
    let mut link = Link::attach(udp::Udp::bind(&options).unwrap(), &ring).unwrap().drop_bad_requests(true);
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(link.endpoint().address).unwrap();
    client.set_nonblocking(true).unwrap();
    let unknown = RequestHeader::new(FunctionId::of("nobody").0, 0, 1, 0).to_bytes();
    let truncated = RequestHeader::new(FunctionId::of("empty").0, 9, 1, 0).to_bytes();
    let mut wrong_magic = RequestHeader::new(FunctionId::of("empty").0, 0, 1, 0).to_bytes();
    wrong_magic[0] ^= 0x80;
    let good = RequestHeader::new(FunctionId::of("empty").0, 0, 77, 0).to_bytes();
    for _ in 0..20 {
        for frame in [&unknown, &truncated, &wrong_magic] {
            client.send(frame).unwrap();
        }
    }
    client.send(&good).unwrap();
    let (begin, mut buffer) = (Instant::now(), [0; 64]);
    let len = loop {
        link.poll();
        dispatcher.step();
        link.publish();
        match client.recv(&mut buffer) {
            Ok(len) => break len,
            Err(_) => assert!(begin.elapsed() < TIMEOUT, "no answer: {}", link.watch().stats()),
        }
    };
    let answer = ResponseHeader::from_bytes(&buffer[..len]).unwrap();
    assert_eq!((answer.request_id, answer.status()), (77, Status::OK));
    let report = link.stop(TIMEOUT, &mut || {
        dispatcher.step();
    });
    let counts = report.stats;
    assert_eq!(
        (counts.requests, counts.unanswered, counts.answered, report.dropped),
        (21, 20, 1, 0),
        "{counts}"
    );
    assert_eq!((counts.truncated, counts.bad_magic, counts.balance()), (20, 20, (0, 0)), "{counts}");
    assert!(client.recv(&mut buffer).is_err(), "nothing else was answered");
}

//! The C functions `cpu_udp_*`: both ends against each other, against our UDP transport, and by hooks.
#![allow(unsafe_code, clippy::multiple_unsafe_ops_per_block)] // calls of C functions
#![allow(clippy::disallowed_types)] // flags, as a C program reaches them

use core::ffi::c_void;
use core::ptr::{null, null_mut};
use ringcall::{FunctionTable, HostDispatcher, Ring, RingConfig};
use ringcall_bridge::c_api::udp::*;
use ringcall_bridge::transceiver::Transceiver;
use ringcall_protocol::SharedRing;
use ringcall_transport::{CallerOptions, Link, UnifiedTransport, udp};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const SLOT: usize = 128;

/// One of a transceiver's arrays, as C reaches it.
fn flag(base: u64, slot: usize) -> &'static AtomicU64 {
    let flag = std::ptr::with_exposed_provenance_mut::<u64>(base as usize + slot * 8);
    // SAFETY: a flag of a transceiver that lives as long as the test uses it.
    unsafe { AtomicU64::from_ptr(flag) }
}

fn until(mut is: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < Duration::from_secs(20), "never");
        std::thread::yield_now();
    }
}

/// Writes a response slot and sets its flag.
fn put(handle: *mut c_void, slot: usize, bytes: &[u8]) {
    let base = cpu_udp_get_tx_ring_data_addr(handle) as usize + slot * SLOT;
    let data = std::ptr::with_exposed_provenance_mut::<u8>(base);
    // SAFETY: inside the slot, whose flag is 0.
    unsafe { data.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    flag(cpu_udp_get_tx_ring_flag_addr(handle), slot).store(base as u64, Ordering::Release);
}

/// Waits for a request slot, and takes its bytes.
fn take(handle: *mut c_void, slot: usize) -> Vec<u8> {
    let rx = flag(cpu_udp_get_rx_ring_flag_addr(handle), slot);
    let base = cpu_udp_get_rx_ring_data_addr(handle) + (slot * SLOT) as u64;
    until(|| rx.load(Ordering::Acquire) == base);
    let data = std::ptr::with_exposed_provenance::<u8>(base as usize);
    // SAFETY: a slot whose flag is set.
    let bytes = unsafe { std::slice::from_raw_parts(data, SLOT) }.to_vec();
    rx.store(0, Ordering::Release);
    bytes
}

fn connect(handle: *mut c_void, port: u16) -> i32 {
    // SAFETY: a string.
    unsafe { cpu_udp_connect(handle, c"127.0.0.1".as_ptr(), port) }
}

#[test]
fn both_ends_in_the_order_of_the_ring() {
    let (service, caller) = (cpu_udp_create_transceiver(SLOT, 4), cpu_udp_create_transceiver(SLOT, 4));
    assert!(!service.is_null() && !caller.is_null());
    assert_eq!((cpu_udp_start(service), cpu_udp_get_port(service)), (0, 0), "no socket yet");
    assert_eq!(cpu_udp_bind(service, 0), 1);
    assert_eq!(cpu_udp_bind(service, 0), 0, "it has one");
    assert_eq!(connect(caller, cpu_udp_get_port(service)), 1);
    assert_eq!((cpu_udp_start(service), cpu_udp_start(caller), cpu_udp_start(service)), (1, 1, 0));
    for n in 0..40 {
        let slot = n % 4;
        let ping = format!("no header at all, number {n}");
        put(caller, slot, ping.as_bytes());
        let mut whole = ping.clone().into_bytes();
        whole.resize(SLOT, 0);
        // What was in the caller's slot before is longer or as long: only the receiver's slot is zeroed.
        assert!(take(service, slot).starts_with(ping.as_bytes()));
        put(service, slot, format!("pong {n}!").as_bytes());
        assert!(take(caller, slot).starts_with(format!("pong {n}!").as_bytes()));
        let sent = flag(cpu_udp_get_tx_ring_flag_addr(caller), slot);
        until(|| sent.load(Ordering::Acquire) == 0);
    }
    cpu_udp_close(service);
    cpu_udp_close(service);
    assert_eq!(cpu_udp_get_port(service), 0);
    assert_eq!(cpu_udp_bind(service, 0), 1, "a new beginning");
    cpu_udp_destroy_transceiver(service);
    cpu_udp_destroy_transceiver(service);
    cpu_udp_destroy_transceiver(caller);
    assert_eq!((cpu_udp_get_rx_ring_flag_addr(caller), cpu_udp_start(caller)), (0, 0));
}

#[test]
fn a_response_that_never_comes_stalls_no_other() {
    let service = Transceiver::new(4, SLOT as u32).unwrap();
    service.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    service.start().unwrap();
    let clients: Vec<_> = (0..3)
        .map(|n: u8| {
            let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.connect(service.address().unwrap()).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            socket.send(&[n; 30]).unwrap();
            socket
        })
        .collect();
    // Each is answered where it came from, and none waits for the first.
    let windows = service.ring().windows();
    for slot in [2, 1] {
        until(|| windows.rx_flags.load(slot, Ordering::Acquire) != 0);
        let mut who = [0; 1];
        assert!(windows.rx_data.read(slot * SLOT, &mut who));
        assert!(windows.tx_data.write(slot * SLOT, &[who[0] + 100; SLOT]));
        windows.rx_flags.store(slot, 0, Ordering::Release);
        let address = windows.tx_data.address() + (slot * SLOT) as u64;
        windows.tx_flags.store(slot, address, Ordering::Release);
        let mut answer = [0; 2 * SLOT];
        assert_eq!(clients[usize::from(who[0])].recv(&mut answer).unwrap(), SLOT);
        assert_eq!(answer[0], who[0] + 100);
    }
    clients[0].send(&[9; SLOT + 1]).unwrap();
    until(|| service.oversize() == 1);
}

/// A datagram that holds a number, and no header.
fn numbered(n: u32) -> [u8; SLOT] {
    let mut bytes = [0; SLOT];
    bytes[..4].copy_from_slice(&n.to_le_bytes());
    bytes
}

fn number_of(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes[..4].try_into().unwrap())
}

/// Fills a response slot once it is free.
fn fill(ring: &SharedRing, slot: usize, bytes: &[u8]) {
    let windows = ring.windows();
    until(|| windows.tx_flags.load(slot, Ordering::Acquire) == 0);
    assert!(windows.tx_data.write(slot * SLOT, bytes));
    let address = windows.tx_data.address() + (slot * SLOT) as u64;
    windows.tx_flags.store(slot, address, Ordering::Release);
}

const SLOTS: u32 = 8;
const DATAGRAMS: u32 = 20_000;

#[test]
fn a_connected_end_sends_in_the_order_of_the_ring() {
    let receiver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let caller = Transceiver::new(SLOTS, SLOT as u32).unwrap();
    caller.connect(receiver.local_addr().unwrap()).unwrap();
    caller.start().unwrap();
    let (received, ring) = (&AtomicU64::new(0), caller.ring().clone());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for n in 0..DATAGRAMS {
                // So few under way that no buffer of the system's overflows.
                until(|| u64::from(n) < received.load(Ordering::Acquire) + u64::from(4 * SLOTS));
                fill(&ring, (n % SLOTS) as usize, &numbered(n));
            }
        });
        for n in 0..DATAGRAMS {
            let mut bytes = [0; 2 * SLOT];
            let len = receiver.recv(&mut bytes).unwrap();
            assert_eq!((len, number_of(&bytes)), (SLOT, n));
            received.store(u64::from(n) + 1, Ordering::Release);
        }
    });
}

#[test]
fn answers_in_the_order_of_the_ring_are_sent_in_that_order() {
    let service = Transceiver::new(SLOTS, SLOT as u32).unwrap();
    service.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    service.start().unwrap();
    let client = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(service.address().unwrap()).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    std::thread::scope(|scope| {
        let ring = service.ring().clone();
        scope.spawn(move || {
            let windows = ring.windows();
            for n in 0..DATAGRAMS {
                let slot = (n % SLOTS) as usize;
                until(|| windows.rx_flags.load(slot, Ordering::Acquire) != 0);
                let mut request = [0; SLOT];
                assert!(windows.rx_data.read(slot * SLOT, &mut request));
                windows.tx_flags.store(slot, ringcall_wire::flag::IN_FLIGHT, Ordering::Release);
                windows.rx_flags.store(slot, 0, Ordering::Release);
                assert!(windows.tx_data.write(slot * SLOT, &request));
                let address = windows.tx_data.address() + (slot * SLOT) as u64;
                windows.tx_flags.store(slot, address, Ordering::Release);
            }
        });
        for n in 0..DATAGRAMS + 4 * SLOTS {
            if n < DATAGRAMS {
                client.send(&numbered(n)).unwrap();
            }
            if let Some(answered) = n.checked_sub(4 * SLOTS) {
                let mut bytes = [0; 2 * SLOT];
                let len = client.recv(&mut bytes).unwrap();
                assert_eq!((len, number_of(&bytes)), (SLOT, answered));
            }
        }
    });
}

#[test]
fn our_caller_and_a_dispatcher_on_its_rings() {
    let service = Transceiver::new(8, SLOT as u32).unwrap();
    service.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let ring = Ring::external(service.ring().clone());
    let table = FunctionTable::builder().host_call("rpc_increment", |args: &[u8], out: &mut [u8]| {
        out.iter_mut().zip(args).for_each(|(out, byte)| *out = byte.wrapping_add(1));
        Ok(args.len())
    });
    let dispatcher = HostDispatcher::builder(&ring, table.build(&ring).unwrap()).build().unwrap();
    let dispatcher = dispatcher.start().unwrap();
    service.start().unwrap();
    let mut caller = udp::Caller::connect(service.address().unwrap(), &CallerOptions::default()).unwrap();
    for n in 0..50_u8 {
        let reply = caller.call("rpc_increment", &vec![n; usize::from(n)]).unwrap();
        assert_eq!(reply.result, vec![n + 1; usize::from(n)]);
    }
    service.close();
    assert_eq!(dispatcher.stop(Duration::from_secs(5)).report.dropped, 0);
}

#[test]
fn our_service_and_its_caller() {
    let ring = Ring::allocate(RingConfig { slots: 8, slot_bytes: SLOT as u32 }).unwrap();
    let table = FunctionTable::builder().host_call("rpc_increment", |args: &[u8], out: &mut [u8]| {
        out.iter_mut().zip(args).for_each(|(out, byte)| *out = byte.wrapping_add(1));
        Ok(args.len())
    });
    let mut dispatcher =
        HostDispatcher::builder(&ring, table.build(&ring).unwrap()).build().unwrap().into_stepper();
    let mut link = Link::attach(udp::Udp::bind(&udp::UdpOptions::default()).unwrap(), &ring).unwrap();
    let caller = cpu_udp_create_transceiver(SLOT, 2);
    assert_eq!((connect(caller, link.endpoint().address.port()), cpu_udp_start(caller)), (1, 1));
    let function = ringcall::FunctionId::of("rpc_increment").0;
    for id in 0..6_u32 {
        let header = ringcall_wire::header::RequestHeader::new(function, 3, id, 0);
        put(caller, id as usize % 2, &[&header.to_bytes()[..], b"abc"].concat());
        let rx = flag(cpu_udp_get_rx_ring_flag_addr(caller), id as usize % 2);
        until(|| {
            link.poll();
            dispatcher.step();
            link.publish();
            rx.load(Ordering::Acquire) != 0
        });
        assert_eq!(&take(caller, id as usize % 2)[24..27], b"bcd");
    }
    cpu_udp_destroy_transceiver(caller);
}

#[test]
fn hooks_instead_of_a_thread() {
    let mut memory = vec![0_u64; 2 * 4 + 2 * 4 * SLOT / 8];
    let base = memory.as_mut_ptr();
    // SAFETY: four arrays one after another in `memory`, which outlives the transceiver.
    let service = unsafe {
        let data = base.add(8).cast::<u8>();
        cpu_udp_create_transceiver_ext(SLOT, 4, base, base.add(4), data, data.add(4 * SLOT))
    };
    assert_eq!((cpu_udp_set_unified(service, 1), cpu_udp_bind(service, 0)), (1, 1));
    let mut slot = 99;
    // SAFETY: an address for a slot, or null.
    let poll = |slot: *mut u32| unsafe { cpu_udp_rx_poll(service, slot) };
    assert_eq!(poll(&raw mut slot), 0, "not started");
    assert_eq!((cpu_udp_start(service), cpu_udp_set_unified(service, 0)), (1, 0));
    assert_eq!(cpu_udp_tx_publish(service, 0), 0, "nobody to send to");
    let client = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(("127.0.0.1", cpu_udp_get_port(service))).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    for n in 0..9_u32 {
        client.send(b"ping").unwrap();
        until(|| poll(&raw mut slot) == 1);
        assert_eq!(slot, n % 4);
        let rx = flag(cpu_udp_get_rx_ring_flag_addr(service), slot as usize);
        assert_eq!(rx.load(Ordering::Relaxed), 0, "request flags are not used");
        let tx = cpu_udp_get_tx_ring_data_addr(service) as usize + slot as usize * SLOT;
        // SAFETY: inside the slot.
        unsafe { std::ptr::with_exposed_provenance_mut::<[u8; 4]>(tx).write_unaligned(*b"pong") };
        assert_eq!(cpu_udp_tx_publish(service, slot), 1);
        let mut answer = [0; 256];
        assert_eq!(client.recv(&mut answer).unwrap(), SLOT);
        assert!(answer.starts_with(b"pong"));
    }
    // A response flag that stands keeps its slot from being filled.
    flag(cpu_udp_get_tx_ring_flag_addr(service), 1).store(1, Ordering::Release);
    client.send(b"held back").unwrap();
    for _ in 0..1000 {
        assert_eq!(poll(&raw mut slot), 0);
    }
    flag(cpu_udp_get_tx_ring_flag_addr(service), 1).store(0, Ordering::Release);
    until(|| poll(&raw mut slot) == 1);
    assert_eq!((poll(null_mut()), cpu_udp_tx_publish(service, 4)), (0, 0));
    cpu_udp_destroy_transceiver(service);
    drop(memory);
}

#[test]
fn what_cannot_be_is_refused() {
    for (bytes, slots) in [(0, 4), (16, 4), (100, 4), (128, 0), (128, u32::MAX), (usize::MAX, 4)] {
        assert!(cpu_udp_create_transceiver(bytes, slots).is_null(), "{slots} slots of {bytes} bytes");
    }
    // SAFETY: null pointers.
    unsafe {
        assert!(
            cpu_udp_create_transceiver_ext(128, 4, null_mut(), null_mut(), null_mut(), null_mut()).is_null()
        );
        assert_eq!(cpu_udp_connect(null_mut(), null(), 1), 0);
        let handle = cpu_udp_create_transceiver(128, 4);
        assert_eq!(cpu_udp_connect(handle, null(), 1), 0);
        assert_eq!(cpu_udp_bind_to(handle, c"no such host.invalid".as_ptr(), 0), 0);
        assert_eq!(cpu_udp_bind_to(handle, c"192.0.2.1".as_ptr(), 0), 0, "not ours");
        assert_eq!(cpu_udp_bind_to(handle, null(), 0), 1);
        cpu_udp_destroy_transceiver(handle);
    }
}

/// A program fills slots in the ring's order, eight at a time: its datagrams leave in that order.
#[test]
fn datagrams_leave_in_the_order_of_the_ring() {
    let peer = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    peer.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let caller = Transceiver::new(8, SLOT as u32).unwrap();
    caller.connect(peer.local_addr().unwrap()).unwrap();
    caller.start().unwrap();
    let windows = caller.ring().windows();
    let (mut written, mut received) = (0_u32, 0_u32);
    let mut frame = [0; 2 * SLOT];
    while received < 20_000 {
        let slot = (written % 8) as usize;
        if written < 20_000 && windows.tx_flags.load(slot, Ordering::Acquire) == 0 {
            assert!(
                windows.tx_data.write(slot * SLOT, &[&written.to_le_bytes()[..], &[7; SLOT - 4]].concat())
            );
            let address = windows.tx_data.address() + (slot * SLOT) as u64;
            windows.tx_flags.store(slot, address, Ordering::Release);
            written += 1;
            if written - received < 8 {
                continue;
            }
        }
        peer.recv(&mut frame).unwrap();
        assert_eq!(frame[..4], received.to_le_bytes(), "out of order");
        received += 1;
    }
}

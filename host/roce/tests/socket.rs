//! The socket: what the kernel does with it, and what does not fit.

use ringcall_roce::{
    BATCH, Inbox, Packet, PacketError, PacketOutbox, Psn, PushError, RoceSocket, SocketError,
};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

fn socket() -> RoceSocket {
    RoceSocket::bind(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("a socket")
}

#[test]
fn a_full_batch_in_order() {
    let (a, b) = (socket(), socket());
    let (mut outbox, mut inbox) = (PacketOutbox::new(128), Inbox::new(128));
    for round in 0..5 {
        for number in 0..BATCH as u32 {
            let packet = Packet::send(1, Psn::new(round * BATCH as u32 + number), b"batch");
            outbox.push(&a, b.local_addr(), &packet).expect("room");
        }
        let packet = Packet::send(1, Psn::new(0), b"");
        assert_eq!(outbox.push(&a, b.local_addr(), &packet), Err(PushError::Full));
        assert!(outbox.is_full() && outbox.len() == BATCH);
        assert_eq!(a.send(&mut outbox).expect("sent"), BATCH);
        assert!(outbox.is_empty());
        let mut next = Psn::new(round * BATCH as u32);
        let mut left = BATCH;
        while left > 0 {
            assert!(b.wait(Duration::from_secs(10)).expect("it waits"));
            left -= b.receive(&mut inbox).expect("received");
            for (peer, datagram) in inbox.iter() {
                assert_eq!(peer, a.local_addr());
                b.envelope_from(peer).verify(datagram).expect("the iCRC");
                assert_eq!(Packet::parse(datagram).expect("a packet").bth.psn, next);
                next = next.next();
            }
        }
    }
    assert_eq!(b.receive(&mut inbox).expect("nothing is no error"), 0);
    assert_eq!(inbox.iter().count(), 0);
    assert!(!b.wait(Duration::from_millis(1)).expect("it waits"));
}

#[test]
fn what_is_too_long_is_counted() {
    let (a, b) = (socket(), socket());
    let (mut outbox, mut inbox) = (PacketOutbox::new(128), Inbox::new(64));
    outbox.push(&a, b.local_addr(), &Packet::send(1, Psn::new(0), &[0; 100])).expect("room");
    outbox.push(&a, b.local_addr(), &Packet::send(1, Psn::new(1), &[0; 48])).expect("room");
    a.send(&mut outbox).expect("sent");
    let (mut taken, mut read) = (0, 0);
    while taken < 2 {
        assert!(b.wait(Duration::from_secs(10)).expect("it waits"));
        taken += b.receive(&mut inbox).expect("received");
        read += inbox.iter().filter(|(_, datagram)| datagram.len() == 64).count();
    }
    assert_eq!((read, inbox.too_long()), (1, 1));
    let packet = Packet::send(1, Psn::new(0), &[0; 200]);
    let small = PacketError::BufferTooSmall { needed: 216, available: 128 };
    assert_eq!(outbox.push(&a, b.local_addr(), &packet), Err(PushError::Packet(small)));
    assert_eq!(outbox.push_bytes(b.local_addr(), &[0; 216]), Err(PushError::Packet(small)));
    assert!(outbox.is_empty());
}

#[test]
fn an_address_of_its_own() {
    let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
    assert!(matches!(RoceSocket::bind(any), Err(SocketError::Unspecified(_))));
    let taken = socket().local_addr();
    let first = RoceSocket::bind(taken).expect("it is free again");
    assert!(matches!(RoceSocket::bind(taken), Err(SocketError::Io { .. })));
    let source = RoceSocket::route_source(first.local_addr()).expect("a route");
    assert_eq!(source, Ipv4Addr::LOCALHOST);
}

/// One thread may send while another receives.
#[test]
fn two_handles() {
    let (a, b) = (socket(), socket());
    let again = b.try_clone().expect("a handle");
    let receiver = std::thread::spawn(move || {
        let mut inbox = Inbox::new(64);
        assert!(again.wait(Duration::from_secs(10)).expect("it waits"));
        again.receive(&mut inbox).expect("received")
    });
    let mut outbox = PacketOutbox::new(64);
    outbox.push(&a, b.local_addr(), &Packet::send(1, Psn::new(0), b"x")).expect("room");
    a.send(&mut outbox).expect("sent");
    assert_eq!(receiver.join().expect("no panic"), 1);
}

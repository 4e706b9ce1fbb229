use super::stand_in::{Shared, joined, lock};
use super::*;
use crate::Refused;
use ringcall_protocol::ring::RingWindows;
use ringcall_rdma::verbs::WorkCompletion;
use ringcall_wire::flag::{ERROR_TAG, FREE, IN_FLIGHT};
use ringcall_wire::header::{HEADER_BYTES, RequestHeader, ResponseHeader};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const SLOTS: u32 = 8;
const BYTES: u32 = 64;
const PEER: RemoteQueuePair = RemoteQueuePair { qp: 7, ip: Ipv4Addr::LOCALHOST };

fn options(role: Role, verb: SendVerb) -> RoceTransceiverOptions {
    let device = "stand-in".to_owned();
    RoceTransceiverOptions {
        device,
        ip: None,
        slots: SLOTS,
        slot_bytes: BYTES,
        frame_bytes: BYTES,
        role,
        verb,
    }
}

/// A connected service and caller of these roles, and the ends of their adapters.
fn pair(service: Role, caller: Role) -> ([Arc<RoceTransceiver>; 2], [Shared; 2]) {
    let [(one, one_end), (other, other_end)] = joined(SLOTS, BYTES);
    let made = |role, verb, adapter: stand_in::StandIn| {
        let transceiver = RoceTransceiver::new(options(role, verb)).expect("a shape");
        assert!(transceiver.connect(PEER, 0).is_err(), "it is not set up");
        assert_eq!(transceiver.side(), None);
        transceiver.setup_over(|_| Ok(Box::new(adapter))).expect("set up once");
        assert_eq!(transceiver.side(), Some((0x11, 0x22)));
        assert!(transceiver.monitor().is_err(), "it is not connected");
        transceiver.connect(PEER, 0x22).expect("connected");
        Arc::new(transceiver)
    };
    let service = made(service, SendVerb::Send, one);
    let caller = made(caller, SendVerb::Write { base: 0 }, other);
    ([service, caller], [one_end, other_end])
}

fn windows(of: &RoceTransceiver) -> RingWindows {
    of.ring().windows()
}

fn address(of: &RoceTransceiver, slot: u32, response: bool) -> u64 {
    let geometry = of.ring().geometry();
    let slot = geometry.slot(slot).expect("a slot");
    if response { geometry.response_address(slot) } else { geometry.request_address(slot) }
}

/// Fills a response slot. A message arrives before the pump frees its slot, so this waits until the slot's last one is gone.
fn put(of: &RoceTransceiver, slot: u32, bytes: &[u8]) {
    let windows = windows(of);
    until("a slot without a message", || {
        matches!(windows.tx_flags.load(slot as usize, Ordering::Acquire), FREE | IN_FLIGHT)
    });
    windows.tx_data.write(slot as usize * BYTES as usize, bytes);
    windows.tx_flags.store(slot as usize, address(of, slot, true), Ordering::Release);
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < Duration::from_secs(20), "never: {what}");
        std::thread::yield_now();
    }
}

fn take(of: &RoceTransceiver, slot: u32) -> Vec<u8> {
    let windows = windows(of);
    until("a message", || windows.rx_flags.load(slot as usize, Ordering::Acquire) != FREE);
    assert_eq!(windows.rx_flags.load(slot as usize, Ordering::Acquire), address(of, slot, false));
    let mut bytes = vec![0; BYTES as usize];
    assert!(windows.rx_data.read(slot as usize * BYTES as usize, &mut bytes));
    windows.rx_flags.store(slot as usize, FREE, Ordering::Release);
    bytes
}

fn request(id: u32) -> Vec<u8> {
    [&RequestHeader::new(1, 8, id, 5).to_bytes()[..], &u64::from(id).to_le_bytes()].concat()
}

/// Runs `body` while each of the transceivers has a thread that moves its slots.
fn monitored(both: &[Arc<RoceTransceiver>], body: impl FnOnce()) {
    let threads: Vec<_> = both
        .iter()
        .map(|one| {
            let one = Arc::clone(one);
            std::thread::spawn(move || one.monitor())
        })
        .collect();
    body();
    both.iter().for_each(|one| one.close());
    for thread in threads {
        thread.join().expect("no panic").expect("it was closed");
    }
}

#[test]
fn requests_are_written_where_they_are_meant_and_answers_come_in_turn() {
    let (both, ends) = pair(Role::Both, Role::Both);
    let [service, caller] = &both;
    monitored(&both, || {
        for id in 0..100 {
            let slot = id % SLOTS;
            put(caller, slot, &request(id));
            let came = take(service, slot);
            assert_eq!((&came[..32], &came[32..]), (&request(id)[..], &[0; 32][..]), "request {id}");
            // The mark of a request in service.
            windows(service).tx_flags.store(slot as usize, IN_FLIGHT, Ordering::Release);
            let header = RequestHeader::from_bytes(&came).expect("a header");
            let reply = ResponseHeader::reply(&header, 0, 8).to_bytes();
            put(service, slot, &[&reply[..], &(!u64::from(id)).to_le_bytes()].concat());
            let answer = take(caller, slot);
            assert_eq!(answer[HEADER_BYTES..HEADER_BYTES + 8], (!u64::from(id)).to_le_bytes());
        }
    });
    let expected = RoceStats { received: 100, sent: 100, ..RoceStats::default() };
    assert_eq!((service.stats(), caller.stats()), (expected, expected));
    assert_eq!(ends.each_ref().map(|end| lock(end).dropped), [0, 0]);
}

#[test]
fn a_message_waits_for_its_slot_and_a_later_write_replaces_it() {
    let (both, _) = pair(Role::Unified, Role::Unified);
    let [service, caller] = &both;
    let send = |id| {
        windows(caller).tx_data.write(0, &request(id));
        caller.tx_publish(0).expect("sent");
    };
    send(1);
    assert_eq!(service.rx_poll(), Ok(Some(0)));
    // The slot is taken until its response flag is 0 again.
    windows(service).tx_flags.store(0, IN_FLIGHT, Ordering::Release);
    send(2);
    assert_eq!(service.rx_poll(), Ok(None));
    send(3);
    assert_eq!(service.rx_poll(), Ok(None));
    windows(service).tx_flags.store(0, FREE, Ordering::Release);
    assert_eq!(service.rx_poll(), Ok(Some(0)));
    let mut came = vec![0; 32];
    assert!(windows(service).rx_data.read(0, &mut came));
    assert_eq!(came, request(3));
    assert_eq!((service.stats().received, service.stats().overwritten), (2, 1));
    assert!(service.tx_publish(SLOTS).is_err(), "no such slot");
    assert_eq!(service.monitor(), Ok(()), "the user moves its slots");
}

#[test]
fn what_comes_is_sent_back_or_received_alone() {
    let (both, _) = pair(Role::Forward, Role::Both);
    let [service, caller] = &both;
    monitored(&both, || {
        for id in 0..20 {
            put(caller, id % SLOTS, &request(id));
            assert_eq!(take(caller, id % SLOTS)[..32], request(id));
        }
    });
    assert_eq!((service.stats().received, service.stats().sent), (20, 20));
    let (both, _) = pair(Role::ReceiveOnly, Role::SendOnly);
    let [service, caller] = &both;
    monitored(&both, || {
        for id in 0..20 {
            // A user of its own for response flags.
            windows(service).tx_flags.store(0, 77, Ordering::Release);
            put(caller, id % SLOTS, &request(id));
            assert_eq!(take(service, id % SLOTS)[..32], request(id));
        }
    });
    assert_eq!((service.stats().sent, caller.stats().sent), (0, 20));
}

#[test]
fn error_marks_and_long_frames_are_cleared_and_counted() {
    let [(one, _), (other, other_end)] = joined(SLOTS, BYTES);
    let short = RoceTransceiverOptions { frame_bytes: 40, ..options(Role::Both, SendVerb::Send) };
    let service = Arc::new(RoceTransceiver::new(short).expect("a shape"));
    service.setup_over(|_| Ok(Box::new(one))).expect("set up");
    service.connect(PEER, 0).expect("connected");
    let caller = Arc::new(RoceTransceiver::new(options(Role::Both, SendVerb::Send)).expect("a shape"));
    caller.setup_over(|_| Ok(Box::new(other))).expect("set up");
    caller.connect(PEER, 0).expect("connected");
    let both = [Arc::clone(&service), caller];
    monitored(&both, || {
        windows(&service).tx_flags.store(1, u64::from(ERROR_TAG) << 48 | 3, Ordering::Release);
        // 24 and 17 bytes, of 40.
        put(&service, 2, &ResponseHeader::reply(&RequestHeader::new(1, 0, 9, 0), 0, 17).to_bytes());
        // No header at all: a frame's bytes.
        put(&service, 3, &[9; 64]);
        let came = take(&both[1], 0);
        assert_eq!((&came[..40], &came[40..]), (&[9; 40][..], &[0; 24][..]));
        until("cleared", || {
            (0..4).all(|slot| windows(&service).tx_flags.load(slot, Ordering::Acquire) == FREE)
        });
    });
    assert_eq!((service.stats().sent, service.stats().unsent), (1, 2));
    assert_eq!(lock(&other_end).dropped, 0);
}

#[test]
fn a_queue_pair_in_error_is_counted_and_connected_again() {
    let (both, ends) = pair(Role::Both, Role::Both);
    let [service, caller] = &both;
    monitored(&both, || {
        for id in 0..5 {
            lock(&ends[0]).fault = Some(PairFault::Error("a packet broke it"));
            until("connected again", || lock(&ends[0]).connections == id + 2);
            put(caller, 3, &request(id));
            assert_eq!(take(service, 3)[..32], request(id));
        }
    });
    assert_eq!((service.stats().broken, service.stats().received), (5, 5));
    assert_eq!(service.fault(), None);
}

#[test]
fn after_an_adapter_is_removed_nothing_moves_and_everything_says_so() {
    let (both, ends) = pair(Role::Both, Role::Unified);
    let [service, caller] = &both;
    let thread = std::thread::spawn({
        let service = Arc::clone(service);
        move || service.monitor()
    });
    lock(&ends[0]).fault = Some(PairFault::DeviceRemoved);
    let said = |outcome: Result<(), Refused>| outcome.expect_err("it is gone").why;
    assert!(said(thread.join().expect("no panic")).contains("removed"));
    assert_eq!(service.fault(), Some(PairFault::DeviceRemoved));
    assert!(said(service.monitor()).contains("removed"));
    // The adapter cannot be connected again, either.
    lock(&ends[1]).refuses_connections = true;
    lock(&ends[1]).fault = Some(PairFault::Error("a packet broke it"));
    assert!(said(caller.rx_poll().map(drop)).contains("error state"));
    assert!(said(caller.tx_publish(0)).contains("error state"));
    both.iter().for_each(|one| one.close());
    assert!(said(caller.rx_poll().map(drop)).contains("not connected"));
    assert!(caller.setup_over(|_| unreachable!("it was closed")).is_err());
}

#[test]
fn shapes_that_cannot_be_are_refused_and_a_device_that_is_not_there_is_named() {
    let good = options(Role::Both, SendVerb::Send);
    for (slots, slot_bytes, frame_bytes) in
        [(0, 64, 64), (6, 64, 64), (8192, 64, 64), (8, 64, 65), (8, 64, 0), (8, 12, 12)]
    {
        let bad = RoceTransceiverOptions { slots, slot_bytes, frame_bytes, ..good.clone() };
        assert!(RoceTransceiver::new(bad).is_err(), "{slots} {slot_bytes} {frame_bytes}");
    }
    let transceiver = RoceTransceiver::new(RoceTransceiverOptions { device: "no-such-0".to_owned(), ..good })
        .expect("a shape");
    transceiver.set_local_ip(Ipv4Addr::LOCALHOST).expect("it is not open");
    let refused = transceiver.setup().expect_err("no device");
    assert!(refused.why.contains("no-such-0") || refused.why.contains("libibverbs"), "{refused:?}");
}

/// A SEND's receive is posted even if a write overwrites the SEND; otherwise a peer could use up all receives.
#[test]
fn a_write_over_a_waiting_send_keeps_its_receive() {
    let (both, [end, _]) = pair(Role::Unified, Role::Unified);
    let [service, _] = &both;
    windows(service).tx_flags.store(0, IN_FLIGHT, Ordering::Release);
    {
        let mut here = lock(&end);
        assert_eq!(here.posted.pop_front(), Some(0));
        here.done.push_back(WorkCompletion::Received { slot: 0, bytes: 32 });
        here.done.push_back(WorkCompletion::Written { immediate: 0, bytes: 32 });
    }
    assert_eq!(service.rx_poll(), Ok(None), "its slot is in use");
    assert_eq!(service.stats().overwritten, 1);
    windows(service).tx_flags.store(0, FREE, Ordering::Release);
    assert_eq!(service.rx_poll(), Ok(Some(0)));
    assert_eq!(lock(&end).posted.len(), SLOTS as usize);
}

/// A user that publishes a slot gets an error if it is not sent.
#[test]
fn what_is_not_sent_is_an_error_to_who_publishes_it() {
    let [(one, _), (_other, _)] = joined(SLOTS, BYTES);
    let short = RoceTransceiverOptions { frame_bytes: 40, ..options(Role::Unified, SendVerb::Send) };
    let service = RoceTransceiver::new(short).expect("a shape");
    service.setup_over(|_| Ok(Box::new(one))).expect("set up");
    service.connect(PEER, 0).expect("connected");
    for payload in [17, 40, 1 << 20] {
        let response = ResponseHeader::reply(&RequestHeader::new(1, 8, 2, 5), 0, payload);
        assert!(windows(&service).tx_data.write(0, &response.to_bytes()));
        assert!(service.tx_publish(0).is_err(), "{payload} bytes");
    }
    assert_eq!((service.stats().sent, service.stats().unsent), (0, 3));
}

#[test]
fn messages_that_wait_together_are_sent_back_in_their_order() {
    let (both, [end, other]) = pair(Role::Forward, Role::Unified);
    let [service, _] = &both;
    {
        let mut here = lock(&end);
        here.posted.clear();
        here.done.extend((0..SLOTS).map(|slot| WorkCompletion::Received { slot, bytes: 32 }));
    }
    monitored(&[Arc::clone(service)], || until("all", || service.stats().sent == u64::from(SLOTS)));
    assert!(lock(&end).posted.iter().copied().eq(0..SLOTS), "receives are posted in the order of the ring");
    assert_eq!(lock(&other).done.len(), SLOTS as usize);
    assert!(both.iter().all(|one| windows(one).rx_flags.load(0, Ordering::Acquire) == FREE));
}

/// A SEND's slot is its receive's, so a user that reads the ring in order reads the SENDs in order.
#[test]
fn sends_wait_for_a_send_whose_slot_is_in_use_and_come_in_the_order_of_the_ring() {
    let (both, [_, end]) = pair(Role::Unified, Role::Unified);
    let [sender, receiver] = &both;
    windows(receiver).tx_flags.store(1, IN_FLIGHT, Ordering::Release);
    for id in 0..4 {
        windows(sender).tx_data.write(0, &request(id));
        sender.tx_publish(0).expect("sent");
    }
    assert_eq!(receiver.rx_poll(), Ok(Some(0)));
    assert_eq!(receiver.rx_poll(), Ok(None), "slot 1 is in use, and slots 2 and 3 come behind it");
    // A write names its slot, and waits for no SEND.
    lock(&end).done.push_back(WorkCompletion::Written { immediate: 6, bytes: 32 });
    assert_eq!(receiver.rx_poll(), Ok(Some(6)));
    windows(receiver).tx_flags.store(1, FREE, Ordering::Release);
    let came: Vec<_> = (0..3).map(|_| receiver.rx_poll()).collect();
    assert_eq!(came, [1, 2, 3].map(|slot| Ok(Some(slot))));
    assert!(
        lock(&end).posted.iter().copied().eq([4, 5, 6, 7, 0, 1, 2, 3]),
        "receives, in the order of the ring"
    );
}

#[test]
fn pages_beyond_the_last_address_are_refused() {
    let base = u64::MAX - 100;
    assert!(RoceTransceiver::new(options(Role::Both, SendVerb::Write { base })).is_err());
}

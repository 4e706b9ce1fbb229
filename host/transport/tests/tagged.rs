//! Frames with tags: a peer with the key is served; a frame of any other peer is counted and not answered.

use ringcall::wire::header::{HEADER_BYTES, RequestHeader};
use ringcall::wire::tag::{FrameKey, TAG_BYTES};
use ringcall::{FunctionId, FunctionTable, HostDispatcher, Ring, RingConfig};
use ringcall_transport::{Caller, CallerOptions, Link, RequestOutcome, Tagged, UnifiedTransport, udp};
use std::net::UdpSocket;
use std::time::{Duration, Instant};

const SLOT_BYTES: u32 = 64;
const FUNCTION: &str = "double";

fn key(seed: u8) -> FrameKey {
    FrameKey::new([seed; FrameKey::BYTES])
}

/// A service that doubles bytes, on the thread of its test.
struct Service {
    link: Link<Tagged<udp::Udp>>,
    dispatcher: HostDispatcher<ringcall::dispatcher::Stepped>,
}

impl Service {
    fn new(key: Option<FrameKey>) -> Self {
        let ring = Ring::allocate(RingConfig { slots: 4, slot_bytes: SLOT_BYTES }).unwrap();
        let table = FunctionTable::builder().host_call(FUNCTION, |bytes: &[u8], out: &mut [u8]| {
            for (out, byte) in out.iter_mut().zip(bytes) {
                *out = byte.wrapping_mul(2);
            }
            Ok(bytes.len())
        });
        let dispatcher = HostDispatcher::builder(&ring, table.build(&ring).unwrap()).build().unwrap();
        let wire = Tagged::new(udp::Udp::bind(&udp::UdpOptions::default()).unwrap(), key);
        Self { link: Link::attach(wire, &ring).unwrap(), dispatcher: dispatcher.into_stepper() }
    }

    fn turn(&mut self) {
        self.link.poll();
        self.dispatcher.step();
        self.link.publish();
    }

    fn caller(&self, key: Option<FrameKey>) -> Caller<Tagged<udp::Udp>> {
        let to = self.link.endpoint().address;
        let options = CallerOptions {
            frame_bytes: SLOT_BYTES as usize,
            deadline: Duration::from_millis(50),
            ..Default::default()
        };
        Caller::new(Tagged::new(udp::Udp::to(to).unwrap(), key), to.into(), &options).unwrap()
    }
}

/// Sends one request; returns its result, or `None` if no answer came.
fn ask(service: &mut Service, caller: &mut Caller<Tagged<udp::Udp>>, payload: &[u8]) -> Option<Vec<u8>> {
    caller.send(FunctionId::of(FUNCTION), 0, payload).unwrap();
    let mut result = None;
    while caller.waiting() > 0 {
        service.turn();
        caller.poll(|ended| {
            if matches!(ended.outcome, RequestOutcome::Answered(..)) {
                result = Some(ended.result().to_vec());
            }
        });
    }
    result
}

#[test]
fn the_key_opens_and_nothing_else_does() {
    let mut service = Service::new(Some(key(1)));
    let mut friend = service.caller(Some(key(1)));
    // The longest payload that a slot takes beside the tag.
    let longest = vec![3; SLOT_BYTES as usize - HEADER_BYTES];
    for payload in [&[][..], &[4], &[1, 2, 3, 4, 5, 6, 7, 8, 9], &longest] {
        let expected: Vec<u8> = payload.iter().map(|byte| byte * 2).collect();
        assert_eq!(ask(&mut service, &mut friend, payload), Some(expected));
    }
    let mut without = service.caller(None);
    let mut other = service.caller(Some(key(2)));
    assert_eq!(ask(&mut service, &mut without, &[4]), None);
    assert_eq!(ask(&mut service, &mut other, &[4]), None);
    // No refusal is sent: its address may be forged.
    assert_eq!((without.stats().lost, other.stats().lost), (1, 1));
    assert_eq!((without.stats().malformed, other.stats().wrong_tag), (0, 0));
    let counts = service.link.watch().stats();
    assert_eq!((counts.received, counts.requests, counts.answered, counts.wrong_tag), (6, 4, 4, 2));
    assert_eq!(counts.balance(), (0, 0));
}

#[test]
fn a_service_without_a_key_is_not_believed() {
    let mut service = Service::new(None);
    let mut caller = service.caller(Some(key(1)));
    // The bytes after a payload are padding to a service without tags, so it answers without a tag.
    assert_eq!(ask(&mut service, &mut caller, &[4]), None);
    assert_eq!((caller.stats().wrong_tag, caller.stats().lost), (1, 1));
}

/// Refusals bear tags as answers do, and reach peers with the key alone.
#[test]
fn a_refusal_is_tagged() {
    let mut service = Service::new(Some(key(1)));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(service.link.endpoint().address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut frame = vec![0; HEADER_BYTES + TAG_BYTES];
    frame[..HEADER_BYTES]
        .copy_from_slice(&RequestHeader { magic: 7, ..RequestHeader::new(1, 0, 5, 0) }.to_bytes());
    key(1).seal(&mut frame, HEADER_BYTES).unwrap();
    socket.send(&frame).unwrap();
    let until = Instant::now() + Duration::from_secs(5);
    while service.link.watch().stats().bad_magic == 0 && Instant::now() < until {
        service.turn();
    }
    service.turn();
    let mut buffer = [0; 256];
    let len = socket.recv(&mut buffer).unwrap();
    assert!(key(1).open(&buffer[..len]).is_some());
    // The service notices every bit that is changed on the way, also in the tag.
    let sent = frame.len() as u64 * 8;
    for bit in 0..frame.len() * 8 {
        let mut damaged = frame.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        socket.send(&damaged).unwrap();
        service.turn();
    }
    while service.link.watch().stats().wrong_tag < sent && Instant::now() < until {
        service.turn();
    }
    assert_eq!(service.link.watch().stats().wrong_tag, sent);
}

//! Wire compatibility with the CUDA-Q reference's UDP transport, both ways. Its peers are simulated here byte by byte: whole
//! slots padded with zeros as datagrams, serial calls, answers to the address of the last datagram, anything shorter than a
//! header or longer than a slot dropped.

mod support;

use ringcall::{FunctionId, Ring, RingConfig};
use ringcall_transport::conformance::Subject;
use ringcall_transport::{CallerOptions, RequestOutcome, udp};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;
use support::{Udp, V4};

const SLOT: usize = 256;
/// FNV-1a of `rpc_increment`, little-endian.
const INCREMENT: [u8; 4] = [0x22, 0x63, 0x1b, 0x19];

/// A request as the reference's caller puts it on the wire: one whole slot.
fn slot_of(id: u32, payload: &[u8]) -> Vec<u8> {
    let mut slot = vec![0; SLOT];
    slot[0..4].copy_from_slice(b"RQUC");
    slot[4..8].copy_from_slice(&INCREMENT);
    slot[8..12].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    slot[12..16].copy_from_slice(&id.to_le_bytes());
    slot[16..24].copy_from_slice(&(u64::from(id) + 7).to_le_bytes());
    slot[24..24 + payload.len()].copy_from_slice(payload);
    slot
}

/// The reference's receiver: it zeroes a slot, then fills it, and drops a datagram that does not fit.
fn received(datagram: &[u8]) -> Option<Vec<u8>> {
    if datagram.len() < 24 || datagram.len() > SLOT {
        return None;
    }
    let mut slot = vec![0; SLOT];
    slot[..datagram.len()].copy_from_slice(datagram);
    Some(slot)
}

fn ring() -> Ring {
    Ring::allocate(RingConfig { slots: 8, slot_bytes: SLOT as u32 }).unwrap()
}

fn incrementer(ring: &Ring) -> ringcall::HostDispatcher {
    let table =
        ringcall::FunctionTable::builder().host_call("rpc_increment", |args: &[u8], out: &mut [u8]| {
            out.iter_mut().zip(args).for_each(|(out, byte)| *out = byte.wrapping_add(1));
            Ok(args.len())
        });
    ringcall::HostDispatcher::builder(ring, table.build(ring).unwrap()).build().unwrap()
}

#[test]
fn its_caller_and_our_service() {
    let ring = ring();
    let service = Udp { one_thread: true, ip: V4 }.start(&ring, None, Some(incrementer(&ring))).unwrap();
    assert_eq!(
        service.endpoint().to_string(),
        format!("transport=udp port={}", service.endpoint().address.port())
    );
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(service.endpoint().address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // There are more calls than either side has slots.
    for id in 1..=40_u32 {
        let payload: Vec<u8> = (0..id as u8 % 33).map(|i| i.wrapping_mul(id as u8)).collect();
        socket.send(&slot_of(id, &payload)).unwrap();
        let mut buffer = [0xAA; 65536];
        let len = socket.recv(&mut buffer).unwrap();
        assert_eq!(len, 24 + payload.len(), "exactly as long as it is");
        let slot = received(&buffer[..len]).expect("its receiver takes it");
        let mut expected = vec![0; SLOT];
        expected[0..4].copy_from_slice(b"SQUC");
        expected[8..12].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        expected[12..16].copy_from_slice(&id.to_le_bytes());
        expected[16..24].copy_from_slice(&(u64::from(id) + 7).to_le_bytes());
        for (out, byte) in expected[24..].iter_mut().zip(&payload) {
            *out = byte.wrapping_add(1);
        }
        assert_eq!(slot, expected);
    }
    assert_eq!(service.stop(Duration::from_secs(5)).stats.answered, 40);
}

/// The reference's service: it takes one slot after the other, and sends each answer as a whole slot to the last sender.
fn reference_service(socket: &UdpSocket, requests: usize) -> Vec<Vec<u8>> {
    let mut seen = Vec::new();
    let mut buffer = [0; 65536];
    while seen.len() < requests {
        let (len, peer): (usize, SocketAddr) = socket.recv_from(&mut buffer).unwrap();
        let Some(slot) = received(&buffer[..len]) else { continue };
        let arg_len = u32::from_le_bytes(slot[8..12].try_into().unwrap()) as usize;
        assert!(slot[0..4] == *b"RQUC" && slot[4..8] == INCREMENT && arg_len <= SLOT - 24);
        let mut answer = vec![0; SLOT];
        answer[0..4].copy_from_slice(b"SQUC");
        answer[8..24].copy_from_slice(&slot[8..24]);
        for (out, byte) in answer[24..24 + arg_len].iter_mut().zip(&slot[24..]) {
            *out = byte.wrapping_add(1);
        }
        socket.send_to(&answer, peer).unwrap();
        seen.push(buffer[..len].to_vec());
    }
    seen
}

#[test]
fn our_caller_and_its_service() {
    for pad_to in [None, Some(SLOT)] {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let address = socket.local_addr().unwrap();
        let service = std::thread::spawn(move || reference_service(&socket, 50));
        let options = CallerOptions {
            frame_bytes: SLOT,
            window: 8,
            deadline: Duration::from_secs(20),
            pad_to,
            ..CallerOptions::default()
        };
        let mut caller = udp::Caller::connect(address, &options).unwrap();
        let (mut sent, mut ended) = (0_u8, 0);
        while ended < 50 {
            while sent < 50 && caller.room() > 0 {
                let id =
                    caller.send(FunctionId::of("rpc_increment"), u64::from(sent) + 8, &[sent; 32]).unwrap();
                assert_eq!(id, u32::from(sent) + 1, "ids count from 1");
                sent += 1;
            }
            ended += caller.poll(|end| {
                let RequestOutcome::Answered(header, result) = end.outcome else { panic!("{end:?}") };
                assert_eq!(header.ptp_timestamp, u64::from(end.id) + 7);
                assert_eq!(result, [end.id as u8; 32], "the padding is not part of the result");
            });
            std::thread::yield_now();
        }
        assert_eq!(caller.stats().answered, 50);
        for (i, datagram) in service.join().unwrap().iter().enumerate() {
            let whole = slot_of(i as u32 + 1, &[i as u8; 32]);
            assert_eq!(*datagram, whole[..pad_to.unwrap_or(24 + 32)]);
        }
    }
}

//! Answers of several packets over a socket that takes them one by one.

use ringcall_roce::opcode::{Part, Verb};
use ringcall_roce::{
    Datagrams, Envelope, Immediate, MAX_OVERHEAD_BYTES, Packet, PathMtu, PortOptions, Psn, Reth, RoceSocket,
};
use ringcall_transport::roce::{Roce, RoceOptions};
use ringcall_transport::{Outbox, Wire};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddrV4;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A network that takes as many packets as the test says.
#[derive(Debug, Default)]
struct Narrow {
    arriving: Mutex<VecDeque<(SocketAddrV4, Vec<u8>)>>,
    left: Mutex<Vec<(SocketAddrV4, Vec<u8>)>>,
    room: Mutex<usize>,
}

impl Datagrams for Narrow {
    fn send(&self, to: SocketAddrV4, datagram: &[u8]) -> io::Result<()> {
        let mut room = self.room.lock().unwrap();
        *room = room.checked_sub(1).ok_or(io::ErrorKind::WouldBlock)?;
        self.left.lock().unwrap().push((to, datagram.to_vec()));
        Ok(())
    }

    fn receive(&self, room: &mut [u8]) -> io::Result<(SocketAddrV4, usize)> {
        let (from, bytes) = self.arriving.lock().unwrap().pop_front().ok_or(io::ErrorKind::WouldBlock)?;
        room[..bytes.len()].copy_from_slice(&bytes);
        Ok((from, bytes.len()))
    }

    fn wait(&self, _: Duration) -> io::Result<bool> {
        Ok(!self.arriving.lock().unwrap().is_empty())
    }

    fn first_psn(&self) -> Psn {
        Psn::new(0)
    }
}

/// The peer loses its entry after the first packet of an answer was sent: the answer is given up, and the next one is sent whole.
#[test]
fn an_answer_that_is_given_up_does_not_cut_the_next_one() {
    let [service, first, second] =
        ["10.0.0.1:4791", "10.0.0.2:4791", "10.0.0.3:4791"].map(|text| text.parse::<SocketAddrV4>().unwrap());
    let port = PortOptions { mtu: PathMtu::B256, ..PortOptions::new(2, 512) };
    let network = Arc::new(Narrow::default());
    let socket = RoceSocket::over(Arc::clone(&network) as _, service);
    let mut wire = Roce::over(socket, &RoceOptions { port, peers: 1 }).unwrap();
    wire.open(512, 512).unwrap();
    let arrive = |wire: &mut Roce, from: SocketAddrV4| {
        let reth = Reth { address: port.base, key: port.key, length: 32 };
        let psn = Psn::new(9);
        let packet = Packet::write_immediate(port.qp, psn, reth, Immediate::new(0, psn), &[7; 32]);
        let mut bytes = vec![0; 32 + MAX_OVERHEAD_BYTES];
        let len = packet.write(&Envelope::v4(from, service), &mut bytes).unwrap();
        bytes.truncate(len);
        network.arriving.lock().unwrap().push_back((from, bytes));
        wire.receive(32, &mut |_| ()).unwrap();
    };
    arrive(&mut wire, first);
    let mut outbox = Outbox::new(4, 512);
    assert!(outbox.add(first, &[1; 400]));
    *network.room.lock().unwrap() = 1;
    let sent = wire.send(&outbox);
    assert_eq!((sent.frames, sent.error.unwrap().kind()), (0, io::ErrorKind::WouldBlock));

    arrive(&mut wire, second);
    *network.room.lock().unwrap() = 100;
    let sent = wire.send(&outbox);
    assert_eq!((sent.frames, sent.error.unwrap().kind()), (0, io::ErrorKind::NotConnected));
    outbox.remove(1);
    assert!(outbox.add(second, &[2; 400]));
    let sent = wire.send(&outbox);
    assert!(sent.frames == 1 && sent.error.is_none(), "{sent:?}");
    let left = network.left.lock().unwrap();
    let parts: Vec<_> = left
        .iter()
        .map(|(to, bytes)| {
            let packet = Packet::parse(bytes).unwrap();
            assert_eq!(packet.bth.opcode.verb(), Verb::Send);
            (*to, packet.bth.opcode.part(), packet.payload.len())
        })
        .collect();
    assert_eq!(parts, [(first, Part::First, 256), (second, Part::First, 256), (second, Part::Last, 144)]);
}

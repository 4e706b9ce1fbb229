//! Destination addresses for a socket bound to every address of this machine (0.0.0.0, ::).
//!
//! Answers of such a socket must leave from their requests' destination address, because a client drops an answer from
//! another one. The system reports that address with each datagram, and the socket passes it back with each answer
//! (`IP_PKTINFO`, `IPV6_PKTINFO`; see ip(7)).

use super::Peer;
use nix::libc;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, cmsg_space, recvmsg, sendmsg, setsockopt,
    sockopt,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;

/// Room for the control message of either family.
const CONTROL_BYTES: usize = cmsg_space::<libc::in6_pktinfo>();

/// Turns the system's reports of each datagram's local address on or off.
pub(super) fn enable(socket: &UdpSocket, v4: bool, on: bool) -> io::Result<()> {
    let set = if v4 {
        setsockopt(socket, sockopt::Ipv4PacketInfo, &on)
    } else {
        setsockopt(socket, sockopt::Ipv6RecvPacketInfo, &on)
    };
    set.map_err(io::Error::from)
}

/// Takes a datagram. Returns its whole length, however much of it fitted, and its peer, if the system names it.
pub(super) fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<(usize, Option<Peer>)> {
    let mut control = [0; CONTROL_BYTES];
    let mut pieces = [IoSliceMut::new(buffer)];
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC;
    let message = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut pieces, Some(&mut control), flags)?;
    let local = message.cmsgs()?.find_map(|control| match control {
        ControlMessageOwned::Ipv4PacketInfo(info) => {
            Some(IpAddr::V4(Ipv4Addr::from_bits(u32::from_be(info.ipi_spec_dst.s_addr))))
        }
        ControlMessageOwned::Ipv6PacketInfo(info) => Some(IpAddr::V6(Ipv6Addr::from(info.ipi6_addr.s6_addr))),
        _ => None,
    });
    let from = message.address.and_then(|address| {
        let v4 = address.as_sockaddr_in().map(|v4| SocketAddr::V4(SocketAddrV4::from(*v4)));
        v4.or_else(|| address.as_sockaddr_in6().map(|v6| SocketAddr::V6(SocketAddrV6::from(*v6))))
    });
    Ok((message.bytes, from.map(|address| Peer { address, local })))
}

/// Sends a datagram from the peer's local address.
pub(super) fn send(socket: &UdpSocket, bytes: &[u8], to: &Peer) -> io::Result<()> {
    let address = SockaddrStorage::from(to.address);
    let pieces = [IoSlice::new(bytes)];
    let send = |control: &[ControlMessage<'_>]| {
        sendmsg(socket.as_raw_fd(), &pieces, control, MsgFlags::MSG_DONTWAIT, Some(&address))
    };
    match to.local {
        Some(IpAddr::V4(local)) => {
            let source = libc::in_addr { s_addr: local.to_bits().to_be() };
            let any = libc::in_addr { s_addr: 0 };
            let info = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: source, ipi_addr: any };
            send(&[ControlMessage::Ipv4PacketInfo(&info)])
        }
        Some(IpAddr::V6(local)) => {
            let source = libc::in6_addr { s6_addr: local.octets() };
            let info = libc::in6_pktinfo { ipi6_addr: source, ipi6_ifindex: 0 };
            send(&[ControlMessage::Ipv6PacketInfo(&info)])
        }
        None => send(&[]),
    }?;
    Ok(())
}

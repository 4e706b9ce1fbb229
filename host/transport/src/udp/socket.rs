//! UDP sockets that receive and send batches of datagrams.

use super::{Peer, wildcard};
use crate::wire::{BATCH, ReceivedFrame, Sent, WireArrival};
use crate::{Outbox, Outgoing};
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrIn, SockaddrIn6, SockaddrLike, recvmmsg};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::addr::SocketAddrArg;
use rustix::net::{MMsgHdr, RecvFlags, SendAncillaryBuffer, SendFlags, recvfrom, sendmmsg, sendto};
use std::cell::RefCell;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

// The headers hold raw pointers, so they cannot move to another thread with a socket: each thread has its own, for each
// address family (the system writes the address's length into them, where it stays).
thread_local! {
    static V4: RefCell<MultiHeaders<SockaddrIn>> = RefCell::new(MultiHeaders::preallocate(BATCH, None));
    static V6: RefCell<MultiHeaders<SockaddrIn6>> = RefCell::new(MultiHeaders::preallocate(BATCH, None));
}

/// Receive buffers, and the number of datagrams to ask for.
#[derive(Debug)]
pub(super) struct Batches {
    buffers: Vec<u8>,
    stride: usize,
    want: usize,
    v4: bool,
}

impl Batches {
    /// Batches for a socket of IPv4, or of IPv6.
    pub(super) fn new(v4: bool) -> Self {
        Self { buffers: Vec::new(), stride: 0, want: 1, v4 }
    }

    pub(super) fn make_room(&mut self, stride: usize) {
        self.stride = stride;
        self.buffers = vec![0; stride * BATCH];
    }

    /// Takes at most `limit` datagrams: one at a time while they come singly, more when more have come.
    #[inline]
    pub(super) fn receive(
        &mut self,
        socket: &UdpSocket,
        limit: usize,
        any_address: bool,
        take: &mut impl FnMut(WireArrival<'_, Peer>),
    ) -> io::Result<()> {
        let ask = self.want.min(limit);
        let outcome = if any_address {
            self.receive_each(socket, limit, take)
        } else if ask == 1 {
            self.receive_one(socket, take)
        } else if self.v4 {
            V4.with_borrow_mut(|headers| {
                self.receive_batch(socket, ask, headers, |a| SocketAddr::V4(SocketAddrV4::from(*a)), take)
            })
        } else {
            V6.with_borrow_mut(|headers| {
                self.receive_batch(socket, ask, headers, |a| SocketAddr::V6(SocketAddrV6::from(*a)), take)
            })
        };
        let got = match outcome {
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => 0,
            other => other?,
        };
        self.want = if got == ask { (ask * 4).min(BATCH) } else { got.max(1) };
        Ok(())
    }

    fn receive_one(
        &mut self,
        socket: &UdpSocket,
        take: &mut impl FnMut(WireArrival<'_, Peer>),
    ) -> io::Result<usize> {
        // With TRUNC the call returns the datagram's whole length, however much of it fitted.
        let (_, len, from) = recvfrom(socket, &mut self.buffers[..self.stride], RecvFlags::TRUNC)?;
        match from.and_then(|from| SocketAddr::try_from(from).ok()) {
            Some(from) => {
                take(WireArrival::Frame(ReceivedFrame {
                    from: from.into(),
                    slot: None,
                    bytes: &self.buffers[..len.min(self.stride)],
                    len,
                }));
            }
            None => take(WireArrival::Malformed),
        }
        Ok(1)
    }

    /// Takes at most `limit` datagrams, one by one, each with its local address.
    fn receive_each(
        &mut self,
        socket: &UdpSocket,
        limit: usize,
        take: &mut impl FnMut(WireArrival<'_, Peer>),
    ) -> io::Result<usize> {
        for count in 0..limit {
            let (len, from) = match wildcard::receive(socket, &mut self.buffers[..self.stride]) {
                Err(error) if count > 0 && error.kind() == io::ErrorKind::WouldBlock => return Ok(count),
                other => other?,
            };
            let bytes = &self.buffers[..len.min(self.stride)];
            match from {
                Some(from) => take(WireArrival::Frame(ReceivedFrame { from, slot: None, bytes, len })),
                None => take(WireArrival::Malformed),
            }
        }
        Ok(limit)
    }

    fn receive_batch<S: SockaddrLike + Copy>(
        &mut self,
        socket: &UdpSocket,
        ask: usize,
        headers: &mut MultiHeaders<S>,
        address: impl Fn(&S) -> SocketAddr,
        take: &mut impl FnMut(WireArrival<'_, Peer>),
    ) -> io::Result<usize> {
        let mut arrived = [(0_usize, None); BATCH];
        let mut count = 0;
        {
            let mut buffers = self.buffers.chunks_exact_mut(self.stride);
            let mut pieces: [[IoSliceMut<'_>; 1]; BATCH] =
                std::array::from_fn(|_| [IoSliceMut::new(buffers.next().unwrap_or_default())]);
            let got = recvmmsg(
                socket.as_raw_fd(),
                headers,
                &mut pieces[..ask],
                MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC,
                None,
            )?;
            for (message, arrival) in got.zip(&mut arrived) {
                *arrival = (message.bytes, message.address.as_ref().map(&address));
                count += 1;
            }
        }
        for (&(len, from), buffer) in arrived[..count].iter().zip(self.buffers.chunks_exact(self.stride)) {
            match from {
                Some(from) => take(WireArrival::Frame(ReceivedFrame {
                    from: Peer::from(from),
                    slot: None,
                    bytes: &buffer[..len.min(self.stride)],
                    len,
                })),
                None => take(WireArrival::Malformed),
            }
        }
        Ok(count)
    }
}

/// Sends the first frames of `outbox`, a batch at most.
#[inline]
pub(super) fn send(socket: &UdpSocket, outbox: &Outbox<Peer>) -> Sent {
    let mut frames = outbox.frames();
    let count = frames.len().min(BATCH);
    let outcome = match (count, frames.next()) {
        (_, None) => Ok(0),
        (1, Some(frame)) => sendto(socket, frame.bytes, SendFlags::DONTWAIT, &frame.to.address).map(|_| 1),
        (_, Some(first)) => send_batch(socket, first, frames, count),
    };
    match outcome {
        Ok(frames) => Sent { frames, error: None },
        Err(error) => Sent { frames: 0, error: Some(error.into()) },
    }
}

/// Sends the first frames of `outbox` one by one, each from its peer's local address.
pub(super) fn send_each(socket: &UdpSocket, outbox: &Outbox<Peer>) -> Sent {
    for (sent, frame) in outbox.frames().take(BATCH).enumerate() {
        if let Err(error) = wildcard::send(socket, frame.bytes, &frame.to) {
            return Sent { frames: sent, error: Some(error) };
        }
    }
    Sent { frames: outbox.frames().len().min(BATCH), error: None }
}

fn send_batch<'a>(
    socket: &UdpSocket,
    first: Outgoing<'a, Peer>,
    mut rest: impl Iterator<Item = Outgoing<'a, Peer>>,
    count: usize,
) -> rustix::io::Result<usize> {
    // Arrays of a fixed length on the stack: elements after the last frame repeat the first one and are not sent.
    let mut frame = Some(first);
    let frames: [_; BATCH] = std::array::from_fn(|_| {
        let this = frame.unwrap_or(first);
        frame = rest.next();
        this
    });
    let addresses = frames.map(|frame| frame.to.address.as_any());
    let pieces = frames.map(|frame| [IoSlice::new(frame.bytes)]);
    let mut control: [SendAncillaryBuffer<'_, '_, '_>; BATCH] = Default::default();
    let mut index = 0;
    let mut messages = control.each_mut().map(|control| {
        let message = MMsgHdr::new_with_addr(&addresses[index], &pieces[index], control);
        index += 1;
        message
    });
    sendmmsg(socket, &mut messages[..count], SendFlags::DONTWAIT)
}

pub(super) fn wait(socket: &UdpSocket, timeout: Duration) -> io::Result<()> {
    let timeout = Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
    match poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

//! Tagged wires: frames are authenticated, and only peers with the key are served.

use crate::wire::{KernelDrops, ReceivedFrame, Sent, Wire, WireArrival};
use crate::{Outbox, TransportAddress};
use ringcall_wire::tag::{FrameKey, TAG_BYTES, VERSION};
use std::io;
use std::time::Duration;

/// A wire whose frames have [tags](ringcall_wire::tag) if there is a key; without a key, it acts as the wire itself.
///
/// A frame without a valid tag is counted ([`wrong_tag`](crate::TransportStats::wrong_tag)) and not answered, so no answer
/// goes to a forged address. The wire's own steps precede the check: a RoCE packet is put into its peer's window before
/// there is a frame with a tag to check.
///
/// A tag does not reveal that a frame was recorded and sent again. The answer to such a frame goes to its source.
///
/// ```
/// use ringcall_transport::{Caller, CallerOptions, Link, Tagged, UnifiedTransport, udp};
/// use ringcall::wire::tag::FrameKey;
/// use ringcall::{FunctionTable, HostDispatcher, Ring, RingConfig};
///
/// let key: FrameKey = "000102030405060708090a0b0c0d0e0f".parse()?;
/// let ring = Ring::allocate(RingConfig { slots: 8, slot_bytes: 64 })?;
/// let table = FunctionTable::builder().host_call("double", |bytes: &[u8], out: &mut [u8]| {
///     out[0] = 2 * bytes[0];
///     Ok(1)
/// });
/// let mut dispatcher = HostDispatcher::builder(&ring, table.build(&ring)?).build()?.into_stepper();
/// let service = udp::Udp::bind(&udp::UdpOptions::default())?;
/// let mut link = Link::attach(Tagged::new(service, Some(key)), &ring)?;
/// assert!(link.endpoint().to_string().ends_with(" tag=2"));
///
/// let mut client = udp::Udp::bind(&udp::UdpOptions::default())?;
/// client.connect(link.endpoint().address)?;
/// let peer = link.endpoint().address.into();
/// let mut caller = Caller::new(Tagged::new(client, Some(key)), peer, &CallerOptions::default())?;
/// caller.send(ringcall::FunctionId::of("double"), 0, &[21])?;
/// let mut answer = Vec::new();
/// while answer.is_empty() {
///     link.poll();
///     dispatcher.step();
///     link.publish();
///     caller.poll(|ended| answer.extend_from_slice(ended.result()));
/// }
/// assert_eq!(answer, [42]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Tagged<W> {
    wire: W,
    key: Option<FrameKey>,
}

impl<W: Wire> Tagged<W> {
    /// Wraps `wire`, with or without a key.
    #[must_use]
    pub const fn new(wire: W, key: Option<FrameKey>) -> Self {
        Self { wire, key }
    }

    /// The inner wire.
    #[must_use]
    pub const fn wire(&self) -> &W {
        &self.wire
    }

    /// Bytes that the tag adds to each frame.
    const fn tag_bytes(&self) -> usize {
        if self.key.is_some() { TAG_BYTES } else { 0 }
    }
}

impl<W: Wire> Wire for Tagged<W> {
    type Peer = W::Peer;
    const NAMES_SLOTS: bool = W::NAMES_SLOTS;

    fn endpoint(&self) -> TransportAddress {
        let mut endpoint = self.wire.endpoint();
        if self.key.is_some() {
            endpoint.details.push(("tag", VERSION.to_string()));
        }
        endpoint
    }

    fn max_frame_bytes(&self) -> usize {
        self.wire.max_frame_bytes().saturating_sub(self.tag_bytes())
    }

    fn open(&mut self, receive_bytes: usize, send_bytes: usize) -> io::Result<()> {
        let tag_bytes = self.tag_bytes();
        self.wire.open(receive_bytes + tag_bytes, send_bytes + tag_bytes)
    }

    fn receive(&mut self, limit: usize, take: &mut impl FnMut(WireArrival<'_, W::Peer>)) -> io::Result<()> {
        let Self { wire, key } = self;
        let Some(key) = key else { return wire.receive(limit, take) };
        wire.receive(limit, &mut |arrival| {
            take(match arrival {
                WireArrival::Frame(frame) => match key.open(frame.bytes) {
                    Some(bytes) => WireArrival::Frame(ReceivedFrame { bytes, len: bytes.len(), ..frame }),
                    None => WireArrival::WrongTag,
                },
                other => other,
            });
        })
    }

    fn send(&mut self, outbox: &Outbox<W::Peer>) -> Sent {
        self.wire.send(outbox)
    }

    fn wait(&self, timeout: Duration) -> io::Result<()> {
        self.wire.wait(timeout)
    }

    fn key(&self) -> Option<FrameKey> {
        self.key
    }

    fn kernel_drops(&self) -> Option<KernelDrops> {
        self.wire.kernel_drops()
    }
}

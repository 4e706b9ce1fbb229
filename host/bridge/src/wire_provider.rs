//! A loaded provider's polled functions as a [`Wire`](ringcall_transport::Wire).

use crate::loader::{Plane, PlanePoll};
use crate::{BridgeError, Provider};
use ringcall_transport::wire::{ReceivedFrame, Sent, WireArrival};
use ringcall_transport::{Outbox, TransportAddress, Wire};
use ringcall_wire::header::{HEADER_BYTES, RESPONSE_MAGIC, RequestHeader};
use std::io;
use std::time::Duration;

/// A provider's data plane as a [`Wire`]: frames are copied out of its slots and answers into them, so any ring can
/// serve them. The provider is connected and launched; it is disconnected when this value is dropped.
///
/// A slot identifies the peer that gets its answer, and returns to the provider when the answer is published. A
/// provider cannot report a frame's length, so the request's header gives it.
#[derive(Debug)]
pub struct WireProvider {
    provider: Provider,
    plane: Plane,
    endpoint: TransportAddress,
    buffer: Vec<u8>,
}

/// The wait for a provider that cannot block, after which an idle thread polls again.
const SLEEP: Duration = Duration::from_micros(50);

impl WireProvider {
    /// Connects and launches a provider that was created for polling.
    ///
    /// # Errors
    /// The provider has no data plane, returns an invalid one, or refuses.
    pub fn launch(provider: Provider) -> Result<Self, BridgeError> {
        let plane = provider.plane()?;
        let endpoint = provider.begin()?;
        Ok(Self { provider, plane, endpoint, buffer: Vec::new() })
    }

    /// The inner provider.
    #[must_use]
    pub fn provider(&self) -> &Provider {
        &self.provider
    }
}

impl Wire for WireProvider {
    type Peer = u32;
    const NAMES_SLOTS: bool = false;

    fn endpoint(&self) -> TransportAddress {
        self.endpoint.clone()
    }

    /// A request may be shorter than a ring's slot; a response may not be longer than the provider's.
    fn max_frame_bytes(&self) -> usize {
        self.plane.tx_stride()
    }

    fn open(&mut self, receive_bytes: usize, _send_bytes: usize) -> io::Result<()> {
        self.buffer = vec![0; receive_bytes.min(self.plane.rx_stride())];
        Ok(())
    }

    fn receive(&mut self, limit: usize, take: &mut impl FnMut(WireArrival<'_, u32>)) -> io::Result<()> {
        for _ in 0..limit {
            let slot = match self.plane.poll() {
                PlanePoll::Empty => break,
                PlanePoll::Ready(slot) => slot,
                PlanePoll::Impossible(_) => {
                    take(WireArrival::Malformed);
                    continue;
                }
                PlanePoll::Unknown(status) => {
                    return Err(io::Error::other(format!("rx_poll returned {status}, which means nothing")));
                }
            };
            let mut header = [0; HEADER_BYTES];
            let alleged = match self.plane.read(slot, &mut header).then(|| RequestHeader::from_bytes(&header))
            {
                Some(Ok(header)) => header,
                // No slot is shorter than a header.
                _ => continue,
            };
            let len = HEADER_BYTES.saturating_add(alleged.arg_len as usize).min(self.plane.rx_stride());
            let seen = len.min(self.buffer.len());
            if !self.plane.read(slot, &mut self.buffer[..seen]) {
                continue;
            }
            // The first bytes must be those that were checked: the provider may write them again.
            self.buffer[..HEADER_BYTES].copy_from_slice(&header);
            if alleged.magic == RESPONSE_MAGIC {
                // The request is not answered, so nothing else would return its slot.
                self.plane.release(slot);
            }
            take(WireArrival::Frame(ReceivedFrame {
                from: slot,
                slot: None,
                bytes: &self.buffer[..seen],
                len,
            }));
        }
        Ok(())
    }

    fn send(&mut self, outbox: &Outbox<u32>) -> Sent {
        for (frames, frame) in outbox.frames().enumerate() {
            let status = self.plane.publish(frame.to, frame.bytes);
            if status != 0 {
                let error = io::Error::other(format!("tx_publish of slot {} returned {status}", frame.to));
                return Sent { frames, error: Some(error) };
            }
        }
        Sent { frames: outbox.len(), error: None }
    }

    fn wait(&self, timeout: Duration) -> io::Result<()> {
        if !self.provider.wait(timeout) {
            std::thread::sleep(SLEEP.min(timeout));
        }
        Ok(())
    }
}

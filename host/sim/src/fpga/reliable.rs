//! The player's end of a reliable connection.

use crate::fpga::config::PlayerConfig;
use crate::fpga::error::EmulatorError;
use crate::fpga::faults::Injector;
use crate::fpga::outgoing::push;
use ringcall_roce::reliable::{Connection, ConnectionOptions, MessagePostError, RequesterOptions};
use ringcall_roce::{
    Envelope, IcrcCheck, Immediate, LocalQueuePair, MessageOperation, NoMemory, Packet, PacketEffect,
    PacketOutbox, PathMtu, Psn, Reason, RoceSocket,
};
use ringcall_wire::HEADER_BYTES;

/// A reliable connection, and how long it lingers: the acknowledgement of the last answer may be lost on its way.
#[derive(Debug)]
pub(crate) struct Reliable {
    pub(crate) connection: Connection,
    /// When a packet came last.
    heard_ns: u64,
    /// When lingering ends at the latest.
    until_ns: Option<u64>,
    silence_ns: u64,
}

/// The longest time to linger, in silences that would end it.
const LONGEST: u64 = 8;

impl Reliable {
    pub(crate) fn new(
        config: &PlayerConfig,
        qp: LocalQueuePair,
        mtu: PathMtu,
    ) -> Result<Self, EmulatorError> {
        let requester = RequesterOptions {
            destination_qp: config.target.qp,
            first: Psn::new(config.first_psn.unwrap_or(0)),
            mtu,
            messages: 2 * config.in_flight as usize,
            message_bytes: config.target.page_bytes as usize,
            ..RequesterOptions::default()
        };
        let gathered_bytes = HEADER_BYTES + config.target.page_bytes as usize;
        let options = ConnectionOptions { requester, gathered_bytes, not_ready_timer: 12 };
        let connection = Connection::new(qp, options)?;
        Ok(Self { connection, heard_ns: 0, until_ns: None, silence_ns: 2 * requester.timeout_ns })
    }

    /// Whether a request can be posted.
    pub(crate) fn has_room(&self, config: &PlayerConfig) -> bool {
        self.connection.requester().waiting() < 2 * config.in_flight as usize
    }

    /// Posts a request for a page.
    pub(crate) fn post(
        &mut self,
        config: &PlayerConfig,
        page: u32,
        window: &[u8],
    ) -> Result<(), EmulatorError> {
        let target = &config.target;
        let address = target.base + u64::from(page) * u64::from(target.page_bytes);
        let psn = self.connection.requester().last_of_next(window.len());
        let immediate = Some(Immediate::new(page, psn).0);
        let posted =
            self.connection.post(MessageOperation::Write { address, key: target.key, immediate }, window);
        posted.map_err(|error| match error {
            MessagePostError::Ended(error) => error.into(),
            MessagePostError::Full(_) => EmulatorError::Stuck,
            MessagePostError::TooLong { bytes, most } => {
                EmulatorError::Window { index: 0, bytes, least: HEADER_BYTES, most: most as u32 }
            }
        })
    }

    /// Takes in a datagram. `None`: an acknowledgement.
    pub(crate) fn receive<'a>(
        &mut self,
        datagram: &'a [u8],
        envelope: &Envelope,
        icrc: IcrcCheck,
        now_ns: u64,
    ) -> Result<Option<PacketEffect<'a>>, Reason> {
        let packet =
            envelope.check(datagram, icrc).and_then(|()| Packet::parse(datagram)).map_err(|error| {
                let reason = Reason::from(error);
                self.connection.count_refusal(reason);
                reason
            })?;
        self.heard_ns = now_ns;
        self.connection.receive(&packet, &mut NoMemory, now_ns)
    }

    /// Puts the packets that are due into the outbox. Returns how many packets that were.
    pub(crate) fn transmit(
        &mut self,
        now_ns: u64,
        (socket, envelope): (&RoceSocket, &Envelope),
        config: &PlayerConfig,
        injector: &mut Injector,
        outbox: &mut PacketOutbox,
        datagram: &mut [u8],
    ) -> Result<usize, EmulatorError> {
        let peer = config.target.peer;
        let mut failed = None;
        let count = self.connection.transmit(now_ns, |packet| {
            let written = packet.write(envelope, datagram).map_err(EmulatorError::from).and_then(|length| {
                injector.pass(&mut datagram[..length], |bytes| push(outbox, socket, peer, bytes))
            });
            failed = written.err();
            failed.is_none()
        });
        match (failed, self.connection.ended()) {
            (Some(error), _) => Err(error),
            (None, Some(error)) => Err(error.into()),
            (None, None) => Ok(count),
        }
    }

    /// Whether the peer has everything, and has been silent for long enough not to miss an acknowledgement.
    pub(crate) fn is_over(&mut self, now_ns: u64) -> bool {
        let until = *self.until_ns.get_or_insert(now_ns.saturating_add(LONGEST * self.silence_ns));
        let silent = now_ns.saturating_sub(self.heard_ns) > self.silence_ns;
        now_ns > until || (silent && self.connection.requester().waiting() == 0)
    }
}

//! The provider over an adapter's queue pair, whose peer is named or introduces itself.

use ringcall::RingConfig;
use ringcall::thread::{StopFlag, Supervised};
use ringcall_bridge::Refused;
use ringcall_bridge::provider::{Args, LinkedWire};
use ringcall_roce::introduced::{Introducer, introductions};
use ringcall_roce::rendezvous::{ConnectionSide, RendezvousService};
use ringcall_transport::verbs::{Connected, PairOptions, RemoteQueuePair, Verbs, VerbsOptions};
use ringcall_transport::wire::{Sent, WireArrival};
use ringcall_transport::{Outbox, TransportAddress, Wire};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

const DEVICE: &str = "mlx5_0";
const REMOTE_QP: u32 = 2;
/// The time between two polls of the rendezvous' socket.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Whether the arguments ask for an adapter.
pub(crate) fn is_wanted(args: &Args) -> bool {
    args.value("--device").is_some() || args.value("--qp_config").is_some()
}

/// The provider's wire.
#[derive(Debug)]
pub(crate) enum Adapter {}

/// A queue pair, with the rendezvous that names its peers.
#[derive(Debug)]
pub(crate) struct AdapterWire {
    verbs: Verbs,
    meeting: Option<Meeting>,
}

/// A rendezvous. Dropping it ends its thread.
#[derive(Debug)]
struct Meeting {
    address: SocketAddr,
    stop: StopFlag,
    thread: Supervised<()>,
}

impl Meeting {
    fn start(
        mut service: RendezvousService,
        here: ConnectionSide,
        introducer: Introducer,
    ) -> io::Result<Self> {
        let address = service.local_addr()?;
        let stop = StopFlag::default();
        let seen = stop.clone();
        let thread = Supervised::start("rendezvous", None, move || {
            while !seen.is_set() {
                let meet = |there| {
                    // A wire that is being dropped no longer takes introductions.
                    introducer.introduce(there);
                    here
                };
                // A caller that sends something else gets no reply.
                service.turn_with(meet, drop);
                std::thread::sleep(POLL_INTERVAL);
            }
        })?;
        Ok(Self { address, stop, thread })
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        self.stop.set();
        // Longer than an introduction takes; afterwards the port is free for the next rendezvous.
        let _ = self.thread.wait(Duration::from_secs(1));
    }
}

impl Wire for AdapterWire {
    type Peer = Connected;
    const NAMES_SLOTS: bool = Verbs::NAMES_SLOTS;

    fn endpoint(&self) -> TransportAddress {
        let mut endpoint = self.verbs.endpoint();
        if let Some(Meeting { address, .. }) = &self.meeting {
            endpoint.details.push(("rendezvous", address.to_string()));
        }
        endpoint
    }

    fn max_frame_bytes(&self) -> usize {
        self.verbs.max_frame_bytes()
    }

    fn open(&mut self, receive_bytes: usize, send_bytes: usize) -> io::Result<()> {
        self.verbs.open(receive_bytes, send_bytes)
    }

    fn receive(&mut self, limit: usize, take: &mut impl FnMut(WireArrival<'_, Connected>)) -> io::Result<()> {
        self.verbs.receive(limit, take)
    }

    fn send(&mut self, outbox: &Outbox<Connected>) -> Sent {
        self.verbs.send(outbox)
    }

    fn wait(&self, timeout: Duration) -> io::Result<()> {
        self.verbs.wait(timeout)
    }
}

/// A number, hexadecimal after `0x`.
fn number(args: &Args, key: &str, default: u32) -> Result<u32, Refused> {
    match args.value(key).and_then(|text| text.strip_prefix("0x")) {
        None => args.number(key, default),
        Some(digits) => u32::from_str_radix(digits, 16)
            .map_err(|error| Refused::invalid(format!("{key}=0x{digits}: {error}"))),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Meets {
    Rendezvous,
    Known(RemoteQueuePair),
}

fn meets(args: &Args) -> Result<Meets, Refused> {
    let named = args.value("--peer-ip").is_some();
    match args.value("--qp_config").unwrap_or(if named { "hsb_fpga" } else { "rendezvous" }) {
        "rendezvous" => Ok(Meets::Rendezvous),
        "hsb_fpga" if named => {
            let ip = args.number("--peer-ip", Ipv4Addr::UNSPECIFIED)?;
            Ok(Meets::Known(RemoteQueuePair { qp: number(args, "--remote-qp", REMOTE_QP)?, ip }))
        }
        "hsb_fpga" => Err(Refused::invalid("--qp_config=hsb_fpga has one peer: give --peer-ip")),
        other => Err(Refused::invalid(format!("--qp_config={other}: give rendezvous or hsb_fpga"))),
    }
}

impl LinkedWire for Adapter {
    const NAME: &'static str = "bridge-roce";
    const SHAPE: RingConfig = crate::SHAPE;
    type Wire = AdapterWire;

    fn bind(
        args: &Args,
        ring: RingConfig,
        before: Option<&TransportAddress>,
    ) -> Result<AdapterWire, Refused> {
        let slot_bytes = args.number("--frame-size", ring.slot_bytes)?;
        if slot_bytes > ring.slot_bytes {
            return Err(Refused::invalid(format!(
                "--frame-size={slot_bytes}: a slot has {}",
                ring.slot_bytes
            )));
        }
        let pair = PairOptions {
            device: args.value("--device").unwrap_or(DEVICE).to_owned(),
            ip: args
                .value("--local-ip")
                .map(|_| args.number("--local-ip", Ipv4Addr::UNSPECIFIED))
                .transpose()?,
            reliable: false,
            slots: ring.slots,
            slot_bytes: ring.slot_bytes,
            mtu: 4096,
            first_psn: 0,
        };
        let meets = meets(args)?;
        let peer = match meets {
            Meets::Known(remote) => Some(remote),
            Meets::Rendezvous => None,
        };
        let verbs = Verbs::open(VerbsOptions { pair, peer })
            .map_err(|error| Refused::unsupported(error.to_string()))?;
        if meets != Meets::Rendezvous {
            return Ok(AdapterWire { verbs, meeting: None });
        }
        let asked = SocketAddr::from((verbs.side().ip, args.number("--port", 0)?));
        let rendezvous = |endpoint: &TransportAddress| {
            endpoint.details.iter().find(|(name, _)| *name == "rendezvous")?.1.parse().ok()
        };
        let address = before.and_then(rendezvous).unwrap_or(asked);
        let failed = |error: io::Error| Refused::internal(format!("no rendezvous at {address}: {error}"));
        let (introducer, heard) = introductions();
        let service = RendezvousService::bind(address).map_err(failed)?;
        let meeting = Meeting::start(service, verbs.side(), introducer).map_err(failed)?;
        Ok(AdapterWire { verbs: verbs.introduced_by(heard), meeting: Some(meeting) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peer_is_named_or_introduces_itself() {
        let of = |args: &[&str]| meets(&Args::new(args.iter().copied()));
        assert_eq!(of(&["--device=rxe0"]), Ok(Meets::Rendezvous));
        let known = |qp| Ok(Meets::Known(RemoteQueuePair { qp, ip: Ipv4Addr::new(10, 0, 0, 1) }));
        assert_eq!(of(&["--peer-ip=10.0.0.1"]), known(2));
        assert_eq!(of(&["--peer-ip=10.0.0.1", "--remote-qp=0x1F", "--qp_config=hsb_fpga"]), known(0x1F));
        assert_eq!(of(&["--peer-ip=10.0.0.1", "--remote-qp=31"]), known(31));
        assert_eq!(of(&["--peer-ip=10.0.0.1", "--qp_config=rendezvous"]), Ok(Meets::Rendezvous));
        for bad in [
            &["--qp_config=hsb_fpga"][..],
            &["--qp_config=other"],
            &["--peer-ip=here"],
            &["--peer-ip=10.0.0.1", "--remote-qp=0xZZ"],
        ] {
            assert!(of(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_adapter_that_is_not_there_is_named() {
        let args = Args::new(["--device=no-such-device", "--frame-size=64"]);
        assert!(is_wanted(&args) && is_wanted(&Args::new(["--qp_config=rendezvous"])));
        assert!(!is_wanted(&Args::new(["--port=4791"])));
        let bind = |slot_bytes| Adapter::bind(&args, RingConfig { slots: 8, slot_bytes }, None).map(drop);
        let why = bind(64).expect_err("no device").why;
        assert!(why.contains("no-such-device") || why.contains("libibverbs"), "{why}");
        assert!(bind(56).expect_err("too long a frame").why.contains("--frame-size"));
    }

    #[test]
    fn a_rendezvous_answers_and_its_port_is_free_afterwards() {
        let here = ConnectionSide { qp: 5, key: 6, ip: Ipv4Addr::LOCALHOST };
        let (introducer, heard) = introductions();
        let service = RendezvousService::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a socket");
        let meeting = Meeting::start(service, here, introducer).expect("a thread");
        let address = meeting.address;
        let wire = std::thread::spawn(move || heard.recv().expect("introduced").side());
        let there = ConnectionSide { qp: 7, key: 8, ip: Ipv4Addr::LOCALHOST };
        let received =
            ringcall_roce::rendezvous::call(address, there, Duration::from_secs(10)).expect("answered");
        assert_eq!((received, wire.join().expect("no panic")), (here, there));
        drop(meeting);
        RendezvousService::bind(address).expect("the port is free");
    }
}

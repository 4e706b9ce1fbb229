//! `--transport hsb --device NAME --dispatcher device`: an mlx5 adapter's queue pair, which a kernel on a GPU works by itself.
//!
//! No adapter was ever served by this code. Each step has its own error.

use super::Args;
use super::check::one_peer;
use super::counters::{self, ReadCounters, ServiceCounters};
use super::device::{Kernels, KernelsArg, LEAST_STOP, context, served};
use super::served::{Outcome, Served};
use anyhow::{Context as _, Result};
use clap::ValueEnum;
use ringcall_launch::queue_pair::{AdapterPair, AdapterShape, QueueMemory};
use ringcall_mlx5::Event;
use ringcall_rdma::command::{Mtu, Path, gid_of};
use ringcall_rdma::devx::Library;
use ringcall_rdma::neighbour::mac_of;
use ringcall_rdma::verbs::address_of;
use ringcall_roce::{PAGE_UNIT_BYTES, PathMtu, ROCE_PORT};
use ringcall_sim::socket_nic::LoopStats;
use ringcall_transport::{TransportAddress, roce};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

/// Where an adapter's queues and slots are, as an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum QueuesArg {
    /// In the GPU's memory, which the adapter reaches by a dmabuf
    Gpu,
    /// In pinned memory of the host, which the GPU maps
    Host,
}

/// How long a peer may take to answer with its Ethernet address.
const ADDRESS_WITHIN: Duration = Duration::from_secs(2);

/// An adapter's queue pair, and the kernel that works it.
pub(super) struct RealAdapter {
    pair: AdapterPair,
    kernels: Kernels,
    endpoint: TransportAddress,
    counts: Arc<dyn LoopStats>,
}

fn mtu(bytes: PathMtu) -> Mtu {
    match bytes {
        PathMtu::B256 => Mtu::B256,
        PathMtu::B512 => Mtu::B512,
        PathMtu::B1024 => Mtu::B1024,
        PathMtu::B2048 => Mtu::B2048,
        PathMtu::B4096 => Mtu::B4096,
    }
}

/// Opens the adapter, makes queues that it and the GPU reach, connects them with the peer and starts the kernel.
///
/// # Errors
/// The first step that does not work: its error names the missing part.
pub(super) fn start(args: &Args, device: &str) -> Result<RealAdapter> {
    let what = || format!("--transport hsb --device {device}");
    let adapter = Library::load().and_then(|library| library.open(Some(device))).with_context(what)?;
    let peer = one_peer(args)?.context("no --peer")?;
    let (gid_index, ip) = address_of(device).with_context(what)?;
    let gpu = context()?;
    let memory = match args.queues {
        None | Some(QueuesArg::Gpu) => QueueMemory::Device,
        Some(QueuesArg::Host) => QueueMemory::Host,
    };
    let stride = args.slot_bytes().next_multiple_of(PAGE_UNIT_BYTES);
    let shape = AdapterShape { slots: args.slots, stride, memory };
    let pair = AdapterPair::create(&gpu, &adapter, &shape).with_context(|| match memory {
        QueueMemory::Device => format!("{} (--queues host needs no dmabuf)", what()),
        QueueMemory::Host => what(),
    })?;
    let path = Path {
        port: 1,
        gid_index,
        mtu: mtu(args.mtu),
        hop_limit: u8::MAX,
        traffic_class: 0,
        // RoCE v2 senders take their ports from this range on.
        udp_port: 0xC000,
        gid: gid_of(*peer.ip()),
        mac: mac_of(*peer.ip(), ADDRESS_WITHIN).with_context(what)?,
        qp: args.remote_qp,
        psn: 0,
    };
    pair.connect(&path).with_context(what)?;
    let (functions, modules) = served(&gpu)?;
    // The queue pair is connected before: until it receives, it drops requests.
    let kernels = Kernels::start(KernelsArg::Unified, pair.pair(), functions, modules)?;
    let (endpoint, counts) = (endpoint(&pair, &shape, ip), kernels.stats());
    Ok(RealAdapter { pair, kernels, endpoint, counts })
}

/// The endpoint that peers see: RoCE.
fn endpoint(pair: &AdapterPair, shape: &AdapterShape, ip: Ipv4Addr) -> TransportAddress {
    let details = vec![
        ("qp", format!("{:#x}", pair.number())),
        ("rkey", format!("{:#x}", pair.key())),
        ("base", "0x0".to_owned()),
        ("pages", shape.slots.to_string()),
        ("page_size", shape.stride.to_string()),
        ("device", "mlx5".to_owned()),
    ];
    TransportAddress {
        transport: roce::NAME,
        address: SocketAddr::V4(SocketAddrV4::new(ip, ROCE_PORT)),
        details,
    }
}

/// Requests that were taken, and neither answered nor given back without a response.
fn unanswered(counts: &dyn LoopStats) -> i128 {
    let event = |event| i128::from(counts.event(event));
    event(Event::RxRequests) - event(Event::TxPosted) - event(Event::RxUnanswered)
}

impl Served for RealAdapter {
    fn endpoint(&self) -> TransportAddress {
        self.endpoint.clone()
    }

    fn counters(&self) -> ReadCounters {
        let counts = Arc::clone(&self.counts);
        Arc::new(move || {
            let events = Event::ALL.iter().map(|&e| (e.name(), e.meaning(), counts.event(e))).collect();
            let counters = counters::dispatcher(&counts.counters());
            ServiceCounters {
                counters: counters::queue_pair(events).chain(counters).collect(),
                ..ServiceCounters::default()
            }
        })
    }

    fn stop(self: Box<Self>, deadline: Duration) -> Outcome {
        let Self { pair, kernels, counts, .. } = *self;
        let ended = kernels.stop(deadline.max(LEAST_STOP));
        let outcome = Outcome::of_adapter(&*counts, ended, unanswered(&*counts));
        drop(pair);
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringcall_protocol::counters::Snapshot;

    #[derive(Debug)]
    struct Fixed([u64; Event::COUNT]);

    impl LoopStats for Fixed {
        fn event(&self, event: Event) -> u64 {
            self.0[event as usize]
        }
        fn counters(&self) -> Snapshot {
            Snapshot::from_counts([0; _])
        }
    }

    #[test]
    fn a_request_is_answered_or_given_back() {
        let mut counts = Fixed([0; _]);
        for (event, count) in [(Event::RxRequests, 9), (Event::TxPosted, 6), (Event::RxUnanswered, 1)] {
            counts.0[event as usize] = count;
        }
        assert_eq!(unanswered(&counts), 2);
        let outcome = Outcome::of_adapter(&counts, Some(ringcall_mlx5::WaitEnd::Dead), 2);
        assert!(outcome.text.contains("error state") && !outcome.stuck, "{}", outcome.text);
        assert_eq!((outcome.balance, &outcome.json["transport"]["rx_requests"]), ((0, 2), &9.into()));
        assert!(Outcome::of_adapter(&counts, None, 2).stuck);
    }

    #[test]
    fn every_path_mtu_is_the_adapter_s() {
        for bytes in PathMtu::ALL {
            assert_eq!(128 << mtu(bytes) as usize, bytes.bytes());
        }
    }
}

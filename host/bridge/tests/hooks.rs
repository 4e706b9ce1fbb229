//! The hooks of a provider made of a wire, used as a loop of anybody's may use them: with its own flags.
#![allow(unsafe_code, clippy::multiple_unsafe_ops_per_block)] // calls of C functions

use core::ffi::CStr;
use core::ptr::null_mut;
use ringcall::RingConfig;
use ringcall_bridge::layout::{CONTEXT_UNIFIED, CpuDataplane, Handle, Interface, UnifiedContext};
use ringcall_bridge::provider::{Args, Linked, LinkedWire, ProviderTransport, interface};
use ringcall_bridge::{Refused, parse_endpoint};
use ringcall_protocol::{RingMemory, SharedRing, SlotIndex};
use ringcall_transport::{TransportAddress, udp};
use ringcall_wire::header::{RequestHeader, ResponseHeader};
use ringcall_wire::status::Status;
use ringcall_wire::{CudaqStatus, flag};
use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

const GRACE: Duration = Duration::from_secs(20);
const SLOTS: u32 = 4;

struct Local;

impl LinkedWire for Local {
    const NAME: &'static str = "local";
    type Wire = udp::Udp;

    fn bind(_: &Args, _: RingConfig, before: Option<&TransportAddress>) -> Result<udp::Udp, Refused> {
        let address = before.map_or(([127, 0, 0, 1], 0).into(), |before| before.address);
        Ok(udp::Udp::bind(&udp::UdpOptions { address, ..Default::default() })?)
    }
}

/// A provider, its only client, and the slots with their user's flags.
struct Rig {
    provider: Linked<Local>,
    client: UdpSocket,
    ring: SharedRing,
}

impl Rig {
    fn launched() -> Self {
        let rig = Self::created();
        rig.launch();
        rig
    }

    fn created() -> Self {
        let args = Args::new(["--unified".to_owned(), format!("--num-slots={SLOTS}")]);
        let provider = Linked::<Local>::create(&args).unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.connect(parse_endpoint(&provider.endpoint_info().unwrap()).address).unwrap();
        client.set_read_timeout(Some(GRACE)).unwrap();
        let ring = provider.dataplane().unwrap();
        Self { provider, client, ring }
    }

    fn launch(&self) {
        self.provider.connect().unwrap();
        self.provider.launch().unwrap();
    }

    fn send(&self, ids: impl IntoIterator<Item = u32>) {
        for id in ids {
            self.client.send(&RequestHeader::new(1, 0, id, 0).to_bytes()).unwrap();
        }
    }

    /// A slot that is given out, marked as in use.
    fn poll(&self) -> Option<SlotIndex> {
        let slot = self.ring.geometry().slot(self.provider.rx_poll()?).unwrap();
        assert_eq!(self.ring.tx(slot), flag::FREE, "a slot in use was given out");
        self.ring.publish_tx(slot, flag::IN_FLIGHT);
        Some(slot)
    }

    fn take(&self) -> SlotIndex {
        let begin = Instant::now();
        loop {
            if let Some(slot) = self.poll() {
                return slot;
            }
            assert!(begin.elapsed() < GRACE, "no slot is given out");
            std::thread::yield_now();
        }
    }

    /// Answers, and leaves the flag as it is.
    fn publish(&self, slot: SlotIndex) {
        let asked = RequestHeader::from_words(self.ring.request_header(slot));
        self.ring.write_response(slot, ResponseHeader::reply(&asked, 0, 0).to_words(), &[]);
        self.provider.tx_publish(slot.get()).unwrap();
    }

    fn clear(&self, slot: SlotIndex) {
        self.ring.publish_tx(slot, flag::FREE);
    }

    /// What the client gets next: which request, and how it ended.
    fn receive(&self) -> (u32, i32) {
        let mut frame = [0; 256];
        let len = self.client.recv(&mut frame).unwrap();
        let header = ResponseHeader::from_bytes(&frame[..len]).unwrap().check_magic().unwrap();
        (header.request_id, header.status)
    }

    fn receive_all(&self, n: usize) -> BTreeSet<(u32, i32)> {
        (0..n).map(|_| self.receive()).collect()
    }
}

fn ended(ids: impl IntoIterator<Item = u32>, status: Status) -> BTreeSet<(u32, i32)> {
    ids.into_iter().map(|id| (id, status.0)).collect()
}

#[test]
fn the_hooks_work_from_the_creation_on() {
    let rig = Rig::created();
    let serve = |id| {
        rig.send([id]);
        let slot = rig.take();
        rig.publish(slot);
        rig.clear(slot);
        assert_eq!(rig.receive(), (id, 0));
    };
    serve(0);
    // A request that is under way when it is launched is answered all the same.
    rig.send([1]);
    let slot = rig.take();
    rig.provider.connect().unwrap();
    rig.provider.launch().unwrap();
    assert!(rig.provider.launch().is_err() && rig.provider.connect().is_err(), "once");
    rig.publish(slot);
    rig.clear(slot);
    assert_eq!(rig.receive(), (1, 0));
    serve(2);
    rig.provider.disconnect().unwrap();
    assert!(rig.provider.launch().is_err(), "not connected");
    rig.provider.connect().unwrap();
    serve(3);
}

#[test]
fn a_unified_provider_leaves_the_loop_to_its_caller() {
    // SAFETY: a table that lives indefinitely.
    let table: Interface = unsafe { *interface::<Linked<Local>>() };
    assert_eq!(table.v2.v1.version, 3);
    let create = |args: &[&CStr]| {
        let mut handle: Handle = null_mut();
        let mut argv: Vec<_> = args.iter().map(|arg| arg.as_ptr().cast_mut()).chain([null_mut()]).collect();
        // SAFETY: an address for the handle, and strings.
        let status =
            unsafe { table.v2.v1.create.unwrap()(&raw mut handle, args.len() as i32, argv.as_mut_ptr()) };
        assert_eq!(status, 0);
        handle
    };
    let unified = |handle| {
        let mut dirty = UnifiedContext { launch_fn: None, transport_ctx: std::ptr::dangling_mut() };
        // SAFETY: an address for a context.
        let status = unsafe {
            table.v2.v1.get_transport_context.unwrap()(handle, CONTEXT_UNIFIED, (&raw mut dirty).cast())
        };
        (status, dirty.launch_fn.is_none(), dirty.transport_ctx.is_null())
    };
    let (driven, filled) = (create(&[c"--unified", c"--num-slots=4"]), create(&[]));
    assert_eq!(unified(driven), (0, true, true));
    assert_eq!(unified(filled).0, CudaqStatus::Unsupported.raw() as i32);
    let mut plane = CpuDataplane::EMPTY;
    // SAFETY: an address for a data plane.
    assert_eq!(unsafe { table.v2.get_cpu_dataplane.unwrap()(driven, &raw mut plane) }, 0);
    let publish = |slot| {
        // SAFETY: the hook with its context.
        unsafe { plane.tx_publish.unwrap()(plane.ctx, slot) }
    };
    // No such slot; a slot without a request.
    assert_eq!([publish(4), publish(0)], [CudaqStatus::Internal.raw() as i32; 2]);
    for handle in [driven, filled] {
        // SAFETY: a live handle.
        assert_eq!(unsafe { table.v2.v1.destroy.unwrap()(handle) }, 0);
    }
}

#[test]
fn a_disconnection_leaves_no_slot_behind() {
    let rig = Rig::launched();
    for round in 0..3 {
        let first = 100 * round;
        rig.send(first..first + SLOTS);
        // Some given out, some taken from the wire, some perhaps not yet; marks of their user stay.
        rig.take();
        rig.provider.disconnect().unwrap();
        assert_eq!(rig.receive_all(SLOTS as usize), ended(first..first + SLOTS, Status::SHUTTING_DOWN));
        assert!(rig.provider.tx_publish(0).is_err() && rig.provider.rx_poll().is_none());

        rig.launch();
        let ids = first + 50..first + 50 + SLOTS;
        rig.send(ids.clone());
        let slots: Vec<_> = (0..SLOTS).map(|_| rig.take()).collect();
        assert_eq!(slots.iter().map(|slot| slot.get()).collect::<BTreeSet<_>>().len(), SLOTS as usize);
        for &slot in &slots {
            rig.publish(slot);
            rig.clear(slot);
        }
        assert_eq!(rig.receive_all(SLOTS as usize), ended(ids, Status::OK));
    }
    let counts = rig.provider.stats().unwrap();
    assert_eq!((counts.unasked, counts.balance()), (0, (0, 0)), "{counts}");
}

#[test]
fn a_flag_that_stands_after_the_answer_stalls_nobody() {
    let rig = Rig::launched();
    rig.send([0]);
    let standing = rig.take();
    rig.publish(standing);
    assert_eq!(rig.receive(), (0, 0));
    // More than once around the ring: no request gets the slot, and none waits for it.
    for id in 1..5 * SLOTS {
        rig.send([id]);
        let slot = rig.take();
        rig.publish(slot);
        rig.clear(slot);
        assert_eq!(rig.receive(), (id, 0));
    }
    // One more than the slots that are left waits in the wire, until the flag is cleared.
    rig.send(100..100 + SLOTS);
    let mut slots: BTreeSet<_> = (1..SLOTS).map(|_| rig.take().get()).collect();
    assert_eq!(rig.poll(), None);
    rig.clear(standing);
    let last = rig.take();
    assert_eq!(last, standing);
    slots.insert(last.get());
    assert!(slots.into_iter().eq(0..SLOTS));
}

#[test]
fn a_request_that_waits_for_a_flag_holds_up_no_other() {
    let rig = Rig::launched();
    // Flags of slots that were not given out: requests get there, and wait.
    let slots: Vec<SlotIndex> = rig.ring.geometry().iter().collect();
    slots[1..].iter().for_each(|&slot| rig.ring.publish_tx(slot, 1));
    rig.send(0..SLOTS);
    let mut answered = BTreeSet::new();
    let mut waiting = SLOTS;
    for id in SLOTS..4 * SLOTS {
        // The one slot that is free goes round, whatever waits beside it.
        let slot = rig.take();
        assert_eq!(slot, slots[0]);
        rig.send([id]);
        waiting += 1;
        rig.publish(slot);
        rig.clear(slot);
        answered.insert(rig.receive());
        waiting -= 1;
    }
    slots[1..].iter().for_each(|&slot| rig.clear(slot));
    for _ in 0..waiting {
        let slot = rig.take();
        rig.publish(slot);
        rig.clear(slot);
        answered.insert(rig.receive());
    }
    assert_eq!(answered, ended(0..4 * SLOTS, Status::OK));
}

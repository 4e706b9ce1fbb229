//! A ring that another dispatcher serves, too: its marks are not taken for one's own.

use super::*;
use ringcall::external::RingCompat;
use ringcall_wire::header::ResponseHeader;

/// One graph worker on a shared ring that was launched for slot 4, as the dispatcher does it.
fn launched_on_a_shared_ring() -> (Ring, GraphWorkers, Words, SlotIndex) {
    let ring = ring();
    let (mut workers, mut mailboxes, _lanes) = workers(&ring, &[0]);
    workers.share();
    let slot = ring.geometry().slot(4).expect("a slot");
    let header = RequestHeader::new(FunctionId::of(NAME).0, 0, 1, 0);
    assert_eq!(workers.claim(slot, &header, 0), ExecutorClaim::Worker(0));
    ring.shared().publish_tx(slot, flag::IN_FLIGHT);
    workers.start(0, slot).expect("launched");
    (ring, workers, mailboxes.remove(0), slot)
}

#[test]
fn another_dispatchers_mark_is_left_alone() {
    let (ring, mut alone, mailbox, slot) = launched_on_a_shared_ring();
    let shared = ring.shared();
    let own = RequestHeader::new(FunctionId::of(NAME).0, 0, 1, 0);
    // The graph answers, the answer is taken, the slot filled again, and another dispatcher takes that request.
    shared.write_response(slot, ResponseHeader::reply(&own, 5, 0).to_words(), &[]);
    shared.publish_tx(slot, flag::FREE);
    shared.publish_tx(slot, flag::IN_FLIGHT);
    Child::new(&mailbox).finish(&DeviceU64::new(0));
    let mut ended = Vec::new();
    alone.service(&mut |status| ended.push(status));
    assert_eq!((ended, alone.is_idle()), (vec![Status(5)], true));
    assert_eq!(shared.tx(slot), flag::IN_FLIGHT, "the other's");
    // The other has graph workers, too: its launch is not taken for its own.
    let (ring, mut one, mailbox, slot) = launched_on_a_shared_ring();
    let shared = ring.shared();
    shared.write_response(slot, ResponseHeader::reply(&own, 0, 0).to_words(), &[]);
    shared.publish_tx(slot, flag::FREE);
    let (mut two, ..) = workers(&ring, &[0, 0]);
    shared.publish_tx(slot, flag::IN_FLIGHT);
    two.start(0, slot).expect("launched");
    Child::new(&mailbox).finish(&DeviceU64::new(0));
    let mut ended = Vec::new();
    one.service(&mut |status| ended.push(status));
    assert_eq!((ended, one.is_idle(), shared.tx(slot)), (vec![Status::OK], true, flag::IN_FLIGHT));
    assert!(two.serves(slot));
}

#[test]
fn on_a_shared_ring_a_graph_that_does_not_answer_is_found_out() {
    let (ring, mut workers, mailbox, slot) = launched_on_a_shared_ring();
    Child::new(&mailbox).finish(&DeviceU64::new(0));
    let mut ended = Vec::new();
    workers.service(&mut |status| ended.push(status));
    assert_eq!((ended, workers.is_idle()), (vec![Status::LAUNCH_FAILED], true));
    assert_eq!(ring.shared().tx(slot), flag::error(UNKNOWN));
}

#[test]
fn a_dispatcher_sets_its_graphs_to_a_shared_ring() {
    for shared_ring in [false, true] {
        let ring = ring();
        let (workers, ..) = workers(&ring, &[0]);
        let shared: Arc<AtomicBool> = Arc::default();
        let table = FunctionTable::builder().external_call(NAME, HandlerSchema::new()).build(&ring);
        let compat = RingCompat { shared_ring, ..RingCompat::default() };
        let executor = Observed { workers, over: Arc::default(), shared: Arc::clone(&shared) };
        let builder = HostDispatcher::builder(&ring, table.expect("a table")).compat(compat);
        let _dispatcher = builder.executor(Box::new(executor)).build().expect("a dispatcher");
        assert_eq!(shared.load(Ordering::Relaxed), shared_ring);
    }
}

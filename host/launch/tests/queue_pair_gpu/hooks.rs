//! The kernel of one thread over transports that are linked in: ours over the queues of a NIC, and one in CUDA C++.

use crate::rig::{Pair, Peer, TIMEOUT, on_device, queues, samples, stop_clean};
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{Context, DeviceBuffer, MappedRegion};
use ringcall_dispatcher::queue_pair::single::Extent;
use ringcall_gpu::shared::{Bytes, Words};
use ringcall_launch::queue_pair::{HookTransport, QueueContext, UnifiedDispatcher, Wired};
use ringcall_launch::ring::{DeviceError, Functions, Modules};
use ringcall_mlx5::Event;
use ringcall_wire::Counter;
use ringcall_wire::header::{HEADER_BYTES, ResponseHeader};
use ringcall_wire::launch::HandlerKind;
use ringcall_wire::status::Status;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Instant;

/// The transport in CUDA C++.
const RING: &str = include_str!("../../../../kernels-cu/ptx/ring_hooks.ptx");
const SLOTS: usize = 4;
const STRIDE: usize = 64;

fn handlers() -> Functions {
    Functions::new().handlers(&samples(&[HandlerKind::Thread], STRIDE as u32))
}

fn modules(context: &Context) -> Modules {
    Modules::new().ptx_for("samples", ringcall_kernels::samples::PTX, context).expect("PTX")
}

/// Requests with what they are answered with.
fn cases() -> Vec<(Vec<u8>, Status, u32)> {
    let good = |id| Peer::frame("rpc_increment", 32, id, &[7; 32]);
    let room = (STRIDE - HEADER_BYTES) as u32;
    let mut bad_magic = good(2);
    bad_magic[1] ^= 4;
    vec![
        (good(1), Status::OK, 32),
        (bad_magic, Status::BAD_MAGIC, 0),
        (Peer::frame("nobody", 4, 3, &[1; 4]), Status::UNKNOWN_FUNCTION, 0),
        (Peer::frame("rpc_increment", room + 1, 4, &[1; 4]), Status::ARG_TOO_LONG, 0),
        (Peer::frame("rpc_mock_decode", 15, 6, &[1; 15]), Status::SCHEMA_MISMATCH, 0),
        (Peer::frame("rpc_overclaim", 0, 7, &[]), Status::RESULT_TOO_LONG, 0),
        (good(10), Status::OK, 32),
    ]
}

fn check(frame: &[u8], header: ResponseHeader, result: &[u8], status: Status, len: u32) {
    assert_eq!((header.status(), header.result_len), (status, len), "{frame:x?}");
    if status.is_ok() {
        assert!(result.iter().zip(&frame[HEADER_BYTES..]).all(|(a, b)| *a == b.wrapping_add(1)));
    }
}

#[test]
fn queues_behind_hooks() {
    on_device("queues_behind_hooks", |context| {
        let (queues, mut rig) = queues(context, Pair::of_depth(16));
        let queue_context = QueueContext::new(queues.pair(), Extent::Received).expect("memory");
        let second = QueueContext::new(queues.pair(), Extent::Received).err();
        assert!(matches!(second, Some(DeviceError::Claimed(_))), "{second:?}");
        let modules = modules(context).queue_transport(context).expect("PTX");
        let mut wired =
            UnifiedDispatcher::with_hooks(queue_context.transport(), handlers(), modules).expect("it links");
        let (mut all, turns) = (0, 20);
        for _ in 0..turns {
            let running = wired.start().expect("started");
            for (frame, status, len) in &cases() {
                rig.peer.send(frame);
                let (header, result) = rig.peer.receive();
                check(frame, header, &result, *status, *len);
                all += 1;
            }
            for id in 0..500_u32 {
                let payload = [id as u8; 32];
                rig.peer.send(&Peer::frame("rpc_increment", 32, id, &payload));
                let (header, result) = rig.peer.receive();
                assert_eq!((header.status(), header.request_id), (Status::OK, id));
                assert_eq!(result, payload.map(|byte| byte.wrapping_add(1)));
                all += 1;
            }
            wired = stop_clean(running);
            assert_eq!((queue_context.unsent(), queue_context.dead()), (0, None));
        }
        let counters = wired.counters();
        assert_eq!((counters.answered(), counters.get(Counter::Received)), (all, all));
        assert_eq!(counters.get(Counter::Completed), turns * 502);
        assert_eq!((queue_context.event(Event::RxRequests), queue_context.event(Event::RxLost)), (all, 0));
        rig.end();
    });
}

/// Two rings of flags and their slots, as `kernels-cu/hooks/ring.cu` is told of them.
struct Ring {
    flags: [Words; 2],
    data: [Bytes; 2],
    transport: HookTransport,
    next: usize,
}

impl Ring {
    fn new(context: &Arc<Context>) -> Self {
        let mapped = |bytes| MappedRegion::zeroed(context, bytes).expect("memory");
        let regions = [mapped(SLOTS * 8), mapped(SLOTS * 8), mapped(SLOTS * STRIDE), mapped(SLOTS * STRIDE)];
        let mut parameters = Vec::new();
        for region in &regions {
            parameters.extend(region.device_address(0).expect("mapped").0.to_le_bytes());
        }
        for number in [SLOTS as u32, STRIDE as u32, STRIDE as u32, 0] {
            parameters.extend(number.to_le_bytes());
        }
        let ctx = DeviceBuffer::zeroed(context, parameters.len()).expect("memory");
        ctx.write_from(0, &parameters).expect("written");
        let words = |region: &MappedRegion| region.words(0, SLOTS).expect("inside");
        let bytes = |region: &MappedRegion| region.bytes(0, SLOTS * STRIDE).expect("inside");
        let (flags, data) =
            ([words(&regions[0]), words(&regions[1])], [bytes(&regions[2]), bytes(&regions[3])]);
        let (address, owner) = (ctx.address().0, Arc::new((regions, ctx)));
        // SAFETY: the ring that is linked takes this context, whose memory the owner keeps; slots are `STRIDE` long.
        #[allow(unsafe_code)]
        let transport = unsafe { HookTransport::from_raw(context, address, [STRIDE as u32; 2], owner) };
        Self { flags, data, transport, next: 0 }
    }

    fn call(&mut self, frame: &[u8]) -> (ResponseHeader, Vec<u8>) {
        let slot = self.next;
        self.next = (slot + 1) % SLOTS;
        assert!(self.data[0].write(slot * STRIDE, frame));
        self.flags[0].store(slot, 1, Release);
        let begin = Instant::now();
        while self.flags[1].load(slot, Acquire) == 0 {
            assert!(begin.elapsed() < TIMEOUT, "not answered");
            std::hint::spin_loop();
        }
        let mut response = vec![0; STRIDE];
        assert!(self.data[1].read(slot * STRIDE, &mut response));
        self.flags[1].store(slot, 0, Relaxed);
        let header = ResponseHeader::from_bytes(&response).expect("a header");
        (header, response[HEADER_BYTES..HEADER_BYTES + header.result_len as usize].to_vec())
    }
}

#[test]
fn a_ring_in_cpp_behind_hooks() {
    on_device("a_ring_in_cpp_behind_hooks", |context| {
        let mut ring = Ring::new(context);
        let modules = modules(context).ptx("a ring in C++", RING);
        let mut wired: UnifiedDispatcher<Wired> =
            UnifiedDispatcher::with_hooks(&ring.transport, handlers(), modules).expect("it links");
        for _ in 0..3 {
            let running = wired.start().expect("started");
            for (frame, status, len) in &cases() {
                let (header, result) = ring.call(frame);
                check(frame, header, &result, *status, *len);
            }
            for id in 0..1000_u32 {
                let (header, result) = ring.call(&Peer::frame("rpc_increment", 32, id, &[id as u8; 32]));
                assert_eq!((header.status(), header.request_id), (Status::OK, id));
                assert_eq!(result, [(id as u8).wrapping_add(1); 32]);
            }
            wired = stop_clean(running);
        }
        assert_eq!(wired.counters().get(Counter::Completed), 3 * 1002);
        assert_eq!(wired.counters().answered(), 3 * (1000 + cases().len() as u64));
    });
}

/// A transport whose `poll` returns the word at its context, once that is not 0; the end, when it is told to.
const CODES: &str = "
.version 8.0
.target sm_80
.address_size 64

.visible .func (.param .b64 session) cudaq_dev_transport_attach(
    .param .b64 storage, .param .b64 ctx, .param .b64 shutdown)
{
    .reg .b64 %rd<4>;
    ld.param.b64 %rd1, [storage];
    ld.param.b64 %rd2, [ctx];
    ld.param.b64 %rd3, [shutdown];
    st.b64 [%rd1], %rd2;
    st.b64 [%rd1+8], %rd3;
    st.param.b64 [session], %rd1;
    ret;
}

.visible .func (.param .b32 code) cudaq_dev_rx_poll(
    .param .b64 session, .param .b64 request, .param .b64 response)
{
    .reg .b64 %rd<4>;
    .reg .b32 %r<3>;
    .reg .pred %p<3>;
    ld.param.b64 %rd1, [session];
    ld.b64 %rd2, [%rd1];
    ld.b64 %rd3, [%rd1+8];
again:
    ld.acquire.sys.b32 %r2, [%rd3];
    ld.acquire.sys.b32 %r1, [%rd2];
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra done;
    setp.eq.u32 %p2, %r2, 0;
    @%p2 bra again;
    mov.b32 %r1, 1;
done:
    st.param.b32 [code], %r1;
    ret;
}

.visible .func cudaq_dev_tx_publish(.param .b64 session, .param .b64 response)
{
    ret;
}
";

/// Its kernel ends at once; the stop says that it had.
#[test]
fn a_transport_that_breaks_its_interface_is_reported() {
    on_device("a_transport_that_breaks_its_interface_is_reported", |context| {
        let region = MappedRegion::zeroed(context, 8).expect("memory");
        let code = region.words(0, 1).expect("inside");
        let address = region.device_address(0).expect("mapped").0;
        // SAFETY: the transport that is linked reads one word there, which the owner keeps, and hands out nothing.
        #[allow(unsafe_code)]
        let transport =
            unsafe { HookTransport::from_raw(context, address, [STRIDE as u32; 2], Arc::new(region)) };
        let modules = modules(context).ptx("a transport that returns anything", CODES);
        let wired = UnifiedDispatcher::with_hooks(&transport, handlers(), modules).expect("it links");
        // An orderly end, first.
        let running = stop_clean(wired.start().expect("started")).start().expect("started again");
        code.store(0, 7, Release);
        // Who sees the stop sees the code that was there before it.
        let stopped = running.stop(TIMEOUT);
        assert_eq!(stopped.report.failed, Some(DeviceError::EndedFailed));
        assert!(!stopped.report.is_clean() && stopped.dispatcher.is_none());
    });
}

/// A transport is one dispatcher's at a time, and free again with its end.
#[test]
fn a_transport_has_one_dispatcher() {
    on_device("a_transport_has_one_dispatcher", |context| {
        let ring = Ring::new(context);
        let wire = || {
            let modules = modules(context).ptx("a ring in C++", RING);
            UnifiedDispatcher::with_hooks(&ring.transport.clone(), handlers(), modules)
        };
        let first = wire().expect("it links");
        assert!(matches!(wire().err(), Some(DeviceError::Claimed(_))));
        let stopped = stop_clean(first.start().expect("started"));
        assert!(matches!(wire().err(), Some(DeviceError::Claimed(_))), "it can be started again");
        drop(stopped);
        drop(wire().expect("nobody has it"));
    });
}

#[test]
fn a_missing_hook_is_named() {
    on_device("a_missing_hook_is_named", |context| {
        let ring = Ring::new(context);
        let why = UnifiedDispatcher::with_hooks(&ring.transport, handlers(), modules(context))
            .expect_err("there is no transport");
        let DeviceError::Cuda(CudaError::Unresolved { symbols, .. }) = &why else { panic!("{why}") };
        for hook in ["cudaq_dev_transport_attach", "cudaq_dev_rx_poll", "cudaq_dev_tx_publish"] {
            assert!(symbols.iter().any(|symbol| symbol == hook), "{hook} is not in {why}");
        }
        // What failed has claimed nothing. One thread is no warp.
        let functions =
            Functions::new().handlers(&samples(&[HandlerKind::Thread, HandlerKind::Warp], STRIDE as u32));
        let linked = modules(context).ptx("a ring in C++", RING);
        let why = UnifiedDispatcher::with_hooks(&ring.transport, functions, linked).expect_err("one thread");
        assert!(why.to_string().contains("no thread handler"), "{why}");
    });
}

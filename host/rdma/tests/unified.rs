//! From a context to a unified loop's queues: what is refused, by which name, and an endpoint over what was taken.

use ringcall_gpu::shared::{Region, Words};
use ringcall_mlx5::endpoint::Windows;
use ringcall_mlx5::layout::cqe::{Cqe, OWNER_WORD, opcode, owner_of_lap};
use ringcall_mlx5::{CompletionQueue, Event, Poll};
use ringcall_rdma::context::{Context, Context48, Context72, ContextError};
use ringcall_rdma::devx::QueuePairLayout;
use ringcall_rdma::doca::{DeviceQp, DocaError, QpLayout};
use ringcall_rdma::unified::{QueuesError, UnifiedQueues, pair_at};
use std::sync::atomic::Ordering::{Relaxed, Release};

const SLOTS: u32 = 16;
const STRIDE: u64 = 128;

/// A queue pair of 16 requests each way, and its slots, in this process's memory.
struct Adapter {
    region: Region,
    layout: QueuePairLayout,
}

impl Adapter {
    fn new() -> Self {
        let layout = QueuePairLayout::of(4, 4).expect("a shape");
        let slots = 2 * SLOTS as usize * STRIDE as usize;
        Self { region: Region::zeroed(layout.bytes + slots + 64).expect("memory"), layout }
    }

    fn words(&self, at: usize, bytes: usize) -> Words {
        self.region.words(at, bytes / 8).expect("inside")
    }

    /// The address of its memory, which the queues' alignment is checked at.
    fn address(&self) -> u64 {
        self.words(0, 8).address().next_multiple_of(64)
    }

    fn skew(&self) -> usize {
        (self.address() - self.words(0, 8).address()) as usize
    }

    fn context(&self) -> Context {
        let rx_data = self.address() + self.layout.bytes as u64;
        let tx_data = rx_data + u64::from(SLOTS) * STRIDE;
        Context {
            qp: 0x1000,
            rx_data,
            rx_stride: STRIDE,
            slots: SLOTS,
            tx_data,
            tx_stride: STRIDE,
            tx_mkey: 7_u32.to_be(),
            frame_bytes: STRIDE,
            ..Context::empty()
        }
    }

    fn queues(&self) -> UnifiedQueues {
        UnifiedQueues::of_devx(&self.context(), &self.layout, self.address(), 0x12, 0x8800).expect("queues")
    }
}

fn pair(of: &UnifiedQueues) -> DeviceQp {
    pair_at(of.config.qpn, &of.addresses)
}

#[test]
fn a_struct_that_was_written_is_read_again_and_makes_the_same_queues() {
    let adapter = Adapter::new();
    let queues = adapter.queues();
    let bytes = QpLayout::SDK.write(&pair(&queues));
    let read = QpLayout::SDK.read(&bytes).expect("a queue pair");
    assert_eq!(read, pair(&queues));
    // By way of every form that can say it.
    let ours = adapter.context();
    for form in [ours.to_bytes().to_vec(), bytes_of(&Context72::try_from(ours).expect("it can"))] {
        let context = Context::of_any_form(&form).expect("a context");
        let again = UnifiedQueues::new(&context, &read).expect("queues");
        assert_eq!(again.addresses, queues.addresses);
        assert_eq!((again.config.tx_lkey, again.config.depth, again.config.slots), (7, 16, SLOTS));
    }
    let open = QpLayout::OPEN_2_0.write(&pair(&queues));
    let sends = QpLayout::OPEN_2_0.read(&open).expect("a queue pair");
    assert_eq!(UnifiedQueues::new(&ours, &sends).err(), Some(QueuesError::NoReceiveQueue(0x12)));
}

fn bytes_of(context: &Context72) -> Vec<u8> {
    let mut out = vec![0; 72];
    let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &context.gpu_dev_qp.to_le_bytes());
    put(8, &context.rx_ring_data.to_le_bytes());
    put(16, &context.rx_ring_stride_sz.to_le_bytes());
    put(24, &context.rx_ring_stride_num.to_le_bytes());
    put(32, &context.tx_ring_data.to_le_bytes());
    put(40, &context.tx_ring_stride_sz.to_le_bytes());
    put(48, &context.tx_ring_mkey.to_le_bytes());
    put(56, &context.frame_size.to_le_bytes());
    put(64, &context.use_bf.to_le_bytes());
    out
}

#[test]
fn a_context_of_wrong_size_or_magic_is_refused_by_name() {
    for bytes in [0, 8, 47, 49, 71, 73, 79] {
        assert_eq!(Context::of_any_form(&vec![1; bytes]), Err(ContextError::Form(bytes)));
    }
    assert!(matches!(Context::of_any_form(&[1; 80]), Err(ContextError::Magic(_))));
    let mut ours = Adapter::new().context().to_bytes();
    ours[8] = 79;
    assert_eq!(Context::of_any_form(&ours), Err(ContextError::Short { have: 79, needed: 80 }));
    // The form of 48 bytes, which answers from the request's slot.
    let theirs = Context48 {
        gpu_dev_qp: 0x1000,
        rx_ring_data: 0x2000,
        rx_ring_stride_sz: STRIDE,
        rx_ring_mkey: 1,
        rx_ring_stride_num: SLOTS,
        frame_size: 64,
        ..Context48::default()
    };
    let mut bytes = vec![0; 48];
    for (at, word) in [(0, theirs.gpu_dev_qp), (8, theirs.rx_ring_data), (16, STRIDE), (32, 64)] {
        bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    bytes[24..32].copy_from_slice(&(1 | u64::from(SLOTS) << 32).to_le_bytes());
    let context = Context::of_any_form(&bytes).expect("a context");
    assert_eq!(Ok(context), Context::try_from(theirs));
    let refused = UnifiedQueues::new(&context, &pair(&Adapter::new().queues()));
    assert_eq!(refused.err(), Some(QueuesError::SharedSlots));
}

#[test]
fn null_pages_and_alignment_are_refused_by_name() {
    let adapter = Adapter::new();
    let pair = pair(&adapter.queues());
    let said = |change: fn(&mut Context)| {
        let mut context = adapter.context();
        change(&mut context);
        UnifiedQueues::new(&context, &pair).expect_err("refused").to_string()
    };
    assert!(said(|context| context.qp = 0).contains("the queue pair is 0x0"));
    assert!(said(|context| context.rx_data = 0).contains("request slot 0 is 0x0"));
    assert!(said(|context| context.tx_data = 0).contains("response slot 0 is 0x0"));
    assert!(said(|context| context.rx_data += 8).contains("request slot 0 is at"));
    assert!(said(|context| context.tx_stride = 136).contains("the response stride is at 0x88"));
    assert!(said(|context| context.slots = 8).contains("8 response slots, where the send queue has 16"));
    assert!(said(|context| context.magic = 5).contains("magic 0x0000000000000005"));
    let broken = |change: fn(&mut DeviceQp)| {
        let mut broken = pair;
        change(&mut broken);
        UnifiedQueues::new(&adapter.context(), &broken).expect_err("refused").to_string()
    };
    assert!(broken(|pair| pair.send += 16).contains("the send queue is at"));
    assert!(broken(|pair| pair.send_record += 4).contains("the send counter is at"));
    assert!(broken(|pair| pair.doorbell += 4).contains("the doorbell register is at 0x8804"));
    assert!(broken(|pair| pair.send_completions.entries = 8).contains("8 completion entries"));
}

#[test]
fn queue_depths_of_zero_and_no_powers_of_two_are_refused_by_name() {
    let whole = QpLayout::SDK.write(&pair(&Adapter::new().queues()));
    for (at, field) in [
        (56, "send requests"),
        (104, "receive requests"),
        (172, "send completions"),
        (228, "receive completions"),
    ] {
        for depth in [0_u16, 3, 48] {
            let mut bytes = whole.clone();
            bytes[at..at + 2].copy_from_slice(&depth.to_le_bytes());
            let DocaError::Field { field: named, value } = QpLayout::SDK.read(&bytes).expect_err("refused")
            else {
                panic!("another error for {field}")
            };
            assert!(named.contains(field) && value == u64::from(depth), "{named}: {value}");
        }
    }
}

#[test]
fn memory_of_another_device_is_refused_by_name() {
    let queues = Adapter::new().queues();
    queues.check_device(1, |_| Some(1)).expect("its own");
    let foreign = queues.check_device(1, |address| Some(u32::from(address != queues.addresses.send)));
    let said = foreign.expect_err("of device 0").to_string();
    assert!(
        said.starts_with("the send queue at") && said.ends_with("is memory of device 0, not of device 1"),
        "{said}"
    );
    let nobody = queues.check_device(1, |_| None).expect_err("no device's").to_string();
    assert!(nobody.contains("is no device's memory"), "{nobody}");
}

#[test]
fn an_endpoint_over_a_context_takes_what_an_adapter_writes() {
    let adapter = Adapter::new();
    let (layout, skew) = (adapter.layout, adapter.skew());
    let register = adapter.words(skew + layout.bytes + 2 * SLOTS as usize * STRIDE as usize - 64, 64);
    let queues =
        UnifiedQueues::of_devx(&adapter.context(), &layout, adapter.address(), 0x12, register.address())
            .expect("queues");
    let bytes =
        |at: usize| adapter.region.bytes(skew + at, SLOTS as usize * STRIDE as usize).expect("inside");
    let own = |words| Region::zeroed(words * 8).and_then(|region| region.words(0, words)).expect("memory");
    let windows = Windows {
        rx_completions: adapter.words(skew + layout.receive_completions, 16 * 64),
        rx_completions_record: None,
        receive: adapter.words(skew + layout.receive, 16 * 16),
        tx_completions: adapter.words(skew + layout.send_completions, 16 * 64),
        tx_completions_record: None,
        send: adapter.words(skew + layout.send, 16 * 64),
        record: adapter.words(skew + layout.record, 8),
        rx_data: bytes(layout.bytes),
        tx_data: bytes(layout.bytes + SLOTS as usize * STRIDE as usize),
        counters: own(Event::COUNT),
        shutdown: own(1),
    };
    CompletionQueue::prepare(&windows.rx_completions);
    CompletionQueue::prepare(&windows.tx_completions);
    let mut endpoint = queues.emulated(&windows, &register).expect("an endpoint");
    assert!(matches!(endpoint.poll(), Poll::Empty));
    // Every receive request is posted: 16 credits, big-endian.
    assert_eq!(windows.record.load(0, Relaxed) as u32, 16_u32.to_be());
    let entry = Cqe::default()
        .with_immediate(3)
        .with_byte_count(8)
        .with_owner(opcode::WRITE_IMM, owner_of_lap(0, 16));
    for (at, &word) in entry.0.iter().enumerate() {
        windows.rx_completions.store(at, word, if at == OWNER_WORD { Release } else { Relaxed });
    }
    let Poll::Arrived(request) = endpoint.poll() else { panic!("no request") };
    assert_eq!((request.slot(), request.bytes()), (3, 8));
    endpoint.release(request);
    // Of another adapter, or of another length.
    let other = Windows { send: own(128), ..windows.clone() };
    let said = queues.emulated(&other, &register).expect_err("another's").to_string();
    assert!(said.starts_with("the send queue at") && said.ends_with("not the emulated adapter's"), "{said}");
    let short = Windows { receive: adapter.words(skew + layout.receive, 8 * 16), ..windows };
    assert!(matches!(queues.emulated(&short, &register), Err(QueuesError::ForeignMemory { .. })));
}

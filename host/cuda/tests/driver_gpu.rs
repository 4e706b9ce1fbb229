//! The driver layer on a real device. Without one, each test is skipped with one line that says why.
#![allow(unsafe_code)] // launches sign the kernels' contracts

mod device;
mod ptx;

use core::sync::atomic::Ordering;
use device::on_device;
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{
    Context, DeviceBuffer, Driver, Graph, HostRegistration, KernelArgs, Launch, Linker, MappedRegion, Module,
    Optimisation, Priority, Stream, StreamState,
};
use ringcall_gpu::shared::Region;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Against hanging; no test asserts that anything is fast.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Every kernel of these tests, linked from two modules.
fn module(context: &Arc<Context>) -> Module {
    let image = Linker::new(context.device().capability())
        .ptx("kernels", ptx::KERNELS)
        .and_then(|linker| linker.ptx("functions", ptx::FUNCTIONS))
        .and_then(|linker| linker.link(context))
        .expect("linked");
    Module::load(context, &image).expect("loaded")
}

fn u64s(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|chunk| u64::from_ne_bytes(chunk.try_into().expect("eight bytes"))).collect()
}

fn contents(buffer: &DeviceBuffer, words: usize) -> Vec<u64> {
    let mut bytes = vec![0xAA; words * 8];
    buffer.read_into(0, &mut bytes).expect("read");
    u64s(&bytes)
}

#[test]
fn devices_describe_themselves() {
    on_device("devices_describe_themselves", |context| {
        let device = context.device();
        assert!(!device.name().expect("a name").is_empty());
        let current = || Driver::load().and_then(Driver::current_device).expect("a device");
        context.make_current().expect("a live context");
        assert_eq!(current(), device.ordinal());
        let elsewhere = std::thread::spawn(current);
        assert_eq!(elsewhere.join().expect("no panic"), 0, "a thread without a context");
        assert!(device.capability() >= (7, 5), "{:?}", device.capability());
        assert!(device.multiprocessors().expect("a number") > 0);
        assert!(device.max_shared_per_block().expect("a number") >= 48 * 1024);
        assert_eq!(device.max_threads_per_block(), Ok(1024));
        assert_eq!(device.maps_host_memory(), Ok(true));
        assert!(device.clock_khz().expect("a number") > 0);
        assert_eq!(device.pci_bus_id().expect("an address").matches(':').count(), 2);
        assert!(device.require((99, 0), "everything").is_err());
        let driver = Driver::load().expect("loaded");
        assert!(driver.version().expect("a version") >= (12, 4));
        let count = driver.devices().expect("a list").len() as u32;
        assert_eq!(driver.device(count).err(), Some(CudaError::NoSuchDevice { ordinal: count, count }));
    });
}

#[test]
fn mapped_memory_is_seen_by_both_sides() {
    on_device("mapped_memory_is_seen_by_both_sides", |context| {
        let region = MappedRegion::zeroed(context, 5000).expect("pinned");
        assert_eq!(region.len(), 8192);
        let all = region.words(0, 1024).expect("inside");
        assert_eq!(all.address() % 4096, 0);
        assert!((0..1024).all(|i| all.load(i, Ordering::Relaxed) == 0));
        assert!(region.words(8, 1024).is_err() && region.bytes(4, 8).is_err());
        assert!(region.device_address(8192).is_ok() && region.device_address(8193).is_err());

        let words = region.words(64, 2).expect("inside");
        words.store(0, 41, Ordering::Release);
        let args = KernelArgs::new().address(region.device_address(64).expect("inside"));
        let stream = Stream::new(context).expect("a stream");
        let kernel = module(context).kernel("successor").expect("there");
        // SAFETY: the kernel reads word 0 and writes word 1 of mapped memory that outlives it.
        unsafe { kernel.launch(&stream, &Launch::linear(1, 1), &args) }.expect("launched");
        drop(region); // the window keeps the memory
        stream.wait(TIMEOUT).expect("done");
        assert_eq!(words.load(1, Ordering::Acquire), 42);
    });
}

#[test]
fn registered_memory_is_seen_by_both_sides() {
    on_device("registered_memory_is_seen_by_both_sides", |context| {
        let region = Region::zeroed(8192).expect("memory");
        let words = region.words(0, 2).expect("inside");
        let base = core::ptr::without_provenance_mut::<u8>(words.address() as usize);
        // SAFETY: the region's pages, which the owner keeps.
        let registration = unsafe { HostRegistration::register(context, base, 8192, Arc::new(region)) };
        let registration = registration.expect("registered");
        words.store(0, 6, Ordering::Release);
        let args = KernelArgs::new().address(registration.device_address(0).expect("inside"));
        let stream = Stream::new(context).expect("a stream");
        let kernel = module(context).kernel("successor").expect("there");
        // SAFETY: as for mapped memory.
        unsafe { kernel.launch(&stream, &Launch::linear(1, 1), &args) }.expect("launched");
        stream.wait(TIMEOUT).expect("done");
        assert_eq!(words.load(1, Ordering::Acquire), 7);
    });
}

#[test]
fn an_address_has_a_device_or_none() {
    on_device("an_address_has_a_device_or_none", |context| {
        let ordinal = context.device().ordinal();
        let buffer = DeviceBuffer::zeroed(context, 64).expect("allocated");
        assert_eq!(context.device_of(buffer.address().0), Some(ordinal));
        let mapped = MappedRegion::zeroed(context, 64).expect("mapped");
        assert_eq!(context.device_of(mapped.device_address(0).expect("inside").0), Some(ordinal));
        let own = Region::zeroed(64).expect("memory").words(0, 1).expect("inside");
        assert_eq!(context.device_of(own.address()), None);
        assert_eq!(context.device_of(8), None);
    });
}

#[test]
fn device_buffers_are_zero_and_copy_both_ways() {
    on_device("device_buffers_are_zero_and_copy_both_ways", |context| {
        let buffer = DeviceBuffer::zeroed(context, 100_000).expect("allocated");
        let mut all = vec![1; 100_000];
        buffer.read_into(0, &mut all).expect("read");
        assert!(all.iter().all(|&byte| byte == 0));
        let data: Vec<u8> = (0..50_000_u32).map(|i| (i * 7) as u8).collect();
        buffer.write_from(1000, &data).expect("written");
        let mut back = vec![0; 50_000];
        buffer.read_into(1000, &mut back).expect("read");
        assert_eq!(back, data);
        buffer.fill(9).expect("filled");
        buffer.read_into(0, &mut all).expect("read");
        assert!(all.iter().all(|&byte| byte == 9));
        assert!(matches!(buffer.write_from(99_999, &[0; 2]), Err(CudaError::OutOfBounds { .. })));
        assert!(matches!(buffer.read_into(usize::MAX, &mut [0; 2]), Err(CudaError::OutOfBounds { .. })));
    });
}

#[test]
fn a_function_of_another_module_is_linked_and_called() {
    on_device("a_function_of_another_module_is_linked_and_called", |context| {
        let module = module(context);
        assert!(module.kernels().iter().any(|name| name == "twice_each"), "{:?}", module.kernels());
        let (address, bytes) = module.global("factor").expect("there");
        assert!(address.0 != 0 && bytes == 8);
        let kernel = module.kernel("twice_each").expect("there");
        assert_eq!(kernel.parameter_sizes(), [8, 4]);
        let attributes = kernel.attributes();
        assert!(attributes.registers > 0 && attributes.max_threads_per_block >= 128, "{attributes:?}");
        let blocks = kernel.occupancy(128, 0).expect("a number");
        assert!((1..=32).contains(&blocks), "{blocks}");
        assert!(kernel.occupancy(128, 40_000).expect("a number") <= blocks);

        let buffer = DeviceBuffer::zeroed(context, 300 * 8).expect("allocated");
        let stream = Stream::with_priority(context, Priority::Highest).expect("a stream");
        let args = KernelArgs::new().address(buffer.address()).u32(299);
        // SAFETY: the kernel writes the first 299 words of the buffer, which outlives it.
        unsafe { kernel.launch(&stream, &Launch::linear(3, 128), &args) }.expect("launched");
        stream.synchronize().expect("done");
        assert_eq!(stream.query(), StreamState::Ready);
        let expected: Vec<u64> = (0..299).map(|i| i * 2 + 5).chain([0]).collect();
        assert_eq!(contents(&buffer, 300), expected);

        buffer.fill(0).expect("filled");
        let launch = Launch::linear(3, 128).cooperative();
        // SAFETY: as above.
        unsafe { kernel.launch(&stream, &launch, &args) }.expect("launched");
        stream.wait(TIMEOUT).expect("done");
        assert_eq!(contents(&buffer, 300), expected);
    });
}

#[test]
fn what_cannot_be_linked_or_found_is_named() {
    on_device("what_cannot_be_linked_or_found_is_named", |context| {
        let linker = || Linker::new(context.device().capability());
        let alone = linker().ptx("kernels", ptx::KERNELS).and_then(|linker| linker.link(context));
        match alone {
            Err(CudaError::Unresolved { symbols, modules }) => {
                assert_eq!(symbols, ["twice"]);
                assert_eq!(modules, ["kernels"]);
            }
            other => panic!("{other:?}"),
        }
        let broken = linker().ptx("broken", ptx::BROKEN).and_then(|linker| linker.link(context));
        let error = broken.expect_err("no such instruction").to_string();
        assert!(error.contains("broken") && !error.contains('\n'), "{error}");
        let doubled = linker()
            .ptx("one", ptx::FUNCTIONS)
            .and_then(|linker| linker.ptx("two", ptx::FUNCTIONS))
            .and_then(|linker| linker.link(context));
        let error = doubled.expect_err("defined twice").to_string();
        assert!(error.contains("twice"), "{error}");

        let options = linker().max_registers(32).optimisation(Optimisation::O1).log_bytes(4096);
        let image = options
            .ptx("kernels", ptx::KERNELS)
            .and_then(|linker| linker.ptx("functions", ptx::FUNCTIONS))
            .and_then(|linker| linker.link(context))
            .expect("linked");
        assert!(image.cubin().starts_with(b"\x7FELF"));
        let module = Module::load(context, &image).expect("loaded");
        assert!(module.kernel("twice_each").expect("there").attributes().registers <= 32);
        let missing = module.kernel("absent").expect_err("absent").to_string();
        assert!(missing.contains("`absent`") && missing.contains("twice_each"), "{missing}");
        assert!(module.global("absent").is_err() && module.kernel("a\0b").is_err());
    });
}

#[test]
fn launches_that_do_not_fit_are_refused_before_they_run() {
    on_device("launches_that_do_not_fit_are_refused_before_they_run", |context| {
        let kernel = module(context).kernel("successor").expect("there");
        let stream = Stream::new(context).expect("a stream");
        let one = KernelArgs::new().u64(0);
        let shape = Launch::linear(1, 1);
        for (launch, args) in [
            (shape, KernelArgs::new()),
            (shape, KernelArgs::new().u32(0)),
            (shape, KernelArgs::new().u64(0).u64(0)),
            (Launch::linear(0, 1), one.clone()),
            (Launch::linear(1, 4096), one.clone()),
        ] {
            // SAFETY: refused, so nothing runs.
            let refused = unsafe { kernel.launch(&stream, &launch, &args) };
            assert!(matches!(refused, Err(CudaError::BadLaunch { .. })), "{launch:?} {args:?}: {refused:?}");
        }
        let most = context.device().max_shared_per_block().expect("a number");
        assert_eq!(kernel.set_dynamic_shared(most), Ok(()));
        assert!(matches!(kernel.set_dynamic_shared(most + 1), Err(CudaError::BadLaunch { .. })));
        // SAFETY: refused, so nothing runs: far more blocks than can be resident.
        let refused = unsafe { kernel.launch(&stream, &Launch::linear(1 << 20, 1).cooperative(), &one) };
        let error = refused.expect_err("too large");
        assert_eq!(error.code().map(|code| code.code), Some(720), "{error}");
        assert!(!error.is_sticky());
    });
}

#[test]
fn graphs_run_their_kernels_in_order() {
    on_device("graphs_run_their_kernels_in_order", |context| {
        let module = module(context);
        let buffer = DeviceBuffer::zeroed(context, 4 * 8).expect("allocated");
        let stream = Stream::new(context).expect("a stream");
        let mut graph = Graph::new(context).expect("a graph");
        assert!(graph.is_empty());
        // The buffer becomes 5, 7, 9, 11; then word 1 = word 0 + 1, and after that word 2 = word 1 + 1.
        let fill = KernelArgs::new().address(buffer.address()).u32(4);
        let twice = module.kernel("twice_each").expect("there");
        let first =
            graph.add_kernel(&twice, &Launch::linear(1, 32).cooperative(), &fill, &[]).expect("added");
        let successor = module.kernel("successor").expect("there");
        let shape = Launch::linear(1, 1);
        let at = |word: u64| KernelArgs::new().address(buffer.address().offset(word * 8));
        let second = graph.add_kernel(&successor, &shape, &at(0), &[first]).expect("added");
        graph.add_kernel(&successor, &shape, &at(1), &[first, second]).expect("added");
        assert_eq!(graph.len(), 3);
        assert!(graph.add_kernel(&successor, &shape, &KernelArgs::new(), &[]).is_err());

        let for_host = graph.instantiate_for_host().expect("executable");
        let for_device = graph.instantiate_for_device_launch().expect("executable");
        for_device.upload(&stream).expect("uploaded");
        assert_ne!(for_device.device_handle(), 0);
        assert_ne!(for_device.device_handle(), for_host.device_handle());
        drop((graph, twice, successor, module)); // the executable graphs keep what they run
        for exec in [&for_host, &for_device] {
            buffer.fill(0).expect("filled");
            // SAFETY: the kernels reach the four words of the buffer, which outlives them.
            unsafe { exec.launch(&stream) }.expect("launched");
            stream.wait(TIMEOUT).expect("done");
            assert_eq!(contents(&buffer, 4), [5, 6, 7, 11]);
        }
    });
}

/// A word in a stream's order says that what was put there before is done; it is waited for no longer than said.
#[test]
fn words_are_waited_for() {
    on_device("words_are_waited_for", |context| {
        let mut pinned = MappedRegion::zeroed(context, 8192).expect("pinned");
        let words = pinned.words(4096, 2).expect("inside");
        let buffer = DeviceBuffer::zeroed(context, 4096).expect("allocated");
        let stream = Stream::new(context).expect("a stream");
        let (host, word) = (pinned.device_address(0), pinned.device_address(4096));
        let (host, word) = (host.expect("inside"), word.expect("inside"));
        for round in 1..=100_u8 {
            buffer.fill(round).expect("filled");
            words.store(0, 0, Ordering::Release);
            // SAFETY: both ends have the bytes and outlive the copy, which is waited for below.
            unsafe { stream.copy(host, buffer.address(), 4096) }.expect("put there");
            // SAFETY: a word of the region, which outlives the write.
            unsafe { stream.write_word_after(word, round.into()) }.expect("put there");
            stream.wait_for_word(&words, 0, TIMEOUT).expect("written");
            assert_eq!(words.load(0, Ordering::Acquire), round.into());
            // SAFETY: the copy, the last to reach these bytes, has ended.
            let copied = unsafe { pinned.exclusive(0, 4096) }.expect("inside");
            assert!(copied.iter().all(|&byte| byte == round));
            copied.fill(0);
        }
        let short = Duration::from_millis(20);
        assert!(
            matches!(stream.wait_for_word(&words, 1, short), Err(CudaError::TimedOut(limit)) if limit == short)
        );
        // SAFETY: nothing reaches the region any more.
        assert!(unsafe { pinned.exclusive(8000, 193) }.is_err());
    });
}

/// What a copy engine has just written into pinned memory, as a slice and word by word: the same bytes. Says what each step
/// takes on this machine.
#[test]
fn staging_is_read_as_a_slice_and_word_by_word() {
    const BYTES: usize = 32 << 10;
    on_device("staging_is_read_as_a_slice_and_word_by_word", |context| {
        let mut pinned = MappedRegion::zeroed(context, BYTES).expect("pinned");
        let window = pinned.bytes(0, BYTES).expect("inside");
        let host = pinned.device_address(0).expect("inside");
        let buffer = DeviceBuffer::zeroed(context, BYTES).expect("allocated");
        let stream = Stream::new(context).expect("a stream");
        let (mut slice, mut words) = (vec![0; BYTES], vec![0; BYTES]);
        let mut times = [const { Vec::new() }; 3];
        for round in 0..200_u8 {
            let sent: Vec<u8> = (0..BYTES).map(|i| (i as u8).wrapping_mul(round)).collect();
            buffer.write_from(0, &sent).expect("written");
            for (which, times) in times.iter_mut().enumerate() {
                let begin = Instant::now();
                match which {
                    0 => {
                        // SAFETY: both ends have the bytes and outlive the copy, which is waited for at once.
                        unsafe { stream.copy(host, buffer.address(), BYTES) }.expect("put there");
                        stream.wait(TIMEOUT).expect("done");
                    }
                    // SAFETY: the copy has ended, and the window is not used meanwhile.
                    1 => slice.copy_from_slice(unsafe { pinned.exclusive(0, BYTES) }.expect("inside")),
                    _ => assert!(window.read(0, &mut words)),
                }
                times.push(begin.elapsed());
            }
            assert!(slice == sent && words == sent, "round {round}");
        }
        let [copied, by_slice, by_words] = times.map(|mut times| {
            times.sort_unstable();
            times[times.len() / 2]
        });
        eprintln!(
            "32 KiB: copied in {copied:?}, read as a slice in {by_slice:?}, word by word in {by_words:?}"
        );
    });
}

/// Copies of device and mapped memory, and what was captured from a stream, as nodes of one graph.
#[test]
fn graphs_hold_copies_and_what_was_captured() {
    on_device("graphs_hold_copies_and_what_was_captured", |context| {
        let module = module(context);
        let (from, to) = (DeviceBuffer::zeroed(context, 64), DeviceBuffer::zeroed(context, 64));
        let (from, to) = (from.expect("allocated"), to.expect("allocated"));
        let mapped = MappedRegion::zeroed(context, 64).expect("pinned");
        let stream = Stream::new(context).expect("a stream");
        let successor = module.kernel("successor").expect("there");
        let (shape, args) = (Launch::linear(1, 1), KernelArgs::new().address(to.address()));
        let captured = stream
            .capture(|| {
                // SAFETY: captured, not run; the graph below runs it on a buffer that outlives it.
                unsafe { successor.launch(&stream, &shape, &args) }
            })
            .expect("captured");

        let mut graph = Graph::new(context).expect("a graph");
        let first = graph.add_copy(to.address(), from.address(), 64, &[]).expect("added");
        let child = graph.add_graph(&captured, &[first]).expect("added");
        let out = mapped.device_address(0).expect("inside");
        graph.add_copy(out, to.address(), 64, &[child]).expect("added");
        assert!(Graph::new(context).expect("a graph").add_copy(out, to.address(), 64, &[child]).is_err());
        drop(captured);
        from.write_from(0, &41_u64.to_le_bytes()).expect("written");
        for exec in [graph.instantiate_for_host(), graph.instantiate_for_device_launch()] {
            let exec = exec.expect("executable");
            exec.upload(&stream).expect("uploaded");
            let words = mapped.words(0, 8).expect("inside");
            words.store(1, 7, Ordering::Release);
            // SAFETY: the nodes reach the buffers above, which outlive them.
            unsafe { exec.launch(&stream) }.expect("launched");
            stream.wait(TIMEOUT).expect("done");
            assert_eq!([0, 1].map(|word| words.load(word, Ordering::Acquire)), [41, 42]);
        }
    });
}

#[test]
fn what_is_put_on_a_stream_is_captured_and_runs_again() {
    on_device("what_is_put_on_a_stream_is_captured_and_runs_again", |context| {
        let module = module(context);
        let stream = Stream::new(context).expect("a stream");
        let buffer = DeviceBuffer::zeroed(context, 16).expect("allocated");
        let pinned = MappedRegion::zeroed(context, 4096).expect("pinned");
        let words = pinned.words(0, 4).expect("inside");
        let (host, device) = (pinned.device_address(0).expect("inside"), buffer.address());
        let successor = module.kernel("successor").expect("there");
        let graph = stream
            .capture(|| {
                // SAFETY: both ends have the bytes, and outlive the graphs.
                unsafe { stream.copy(device, host, 8) }?;
                // SAFETY: the kernel reaches two words of the buffer, which outlives the graphs.
                unsafe {
                    successor.launch(&stream, &Launch::linear(1, 1), &KernelArgs::new().address(device))
                }?;
                // SAFETY: as for the first copy.
                unsafe { stream.copy(host.offset(16), device, 16) }
            })
            .expect("captured");
        assert_eq!((graph.len(), contents(&buffer, 2)), (3, vec![0, 0]), "recorded, not run");
        let for_host = graph.instantiate_for_host().expect("executable");
        let for_device = graph.instantiate_for_device_launch().expect("executable");
        for_device.upload(&stream).expect("uploaded");
        drop(graph);
        for (exec, value) in [(&for_host, 5), (&for_device, 8)] {
            words.store(0, value, Ordering::Release);
            // SAFETY: what was recorded reaches memory that is still there.
            unsafe { exec.launch(&stream) }.expect("launched");
            stream.wait(TIMEOUT).expect("done");
            assert_eq!([2, 3].map(|word| words.load(word, Ordering::Acquire)), [value, value + 1]);
        }

        // A capture that goes wrong is over, and the stream as good as before.
        let failed: Result<_, CudaError> = stream.capture(|| Err(CudaError::Graph("enough".to_owned())));
        assert_eq!(failed.err(), Some(CudaError::Graph("enough".to_owned())));
        assert!(stream.capture(|| stream.synchronize()).is_err(), "a stream that records is not waited for");
        stream.wait(TIMEOUT).expect("usable");
    });
}

#[test]
fn handles_of_one_device_share_their_holds() {
    on_device("handles_of_one_device_share_their_holds", |context| {
        let another =
            Driver::load().and_then(|driver| driver.device(0)?.context()).expect("the first one is there");
        assert!(Arc::ptr_eq(context, &another));
        let image = Linker::new(context.device().capability())
            .ptx("functions", ptx::FUNCTIONS)
            .and_then(|linker| linker.link(context))
            .expect("linked");
        let owned = Arc::new(());
        let hold = context.hold_frees();
        another.discard_later(Arc::clone(&owned));
        assert_eq!(Arc::strong_count(&owned), 2, "freeing would wait for a kernel of the first handle's");
        assert!(matches!(Module::load(&another, &image), Err(CudaError::KernelRuns(_))));
        drop(hold);
        assert_eq!(Arc::strong_count(&owned), 1);
        Module::load(&another, &image).expect("nothing runs");
    });
}

#[test]
fn a_borrowed_stream_keeps_nothing_and_ends_nothing() {
    on_device("a_borrowed_stream_keeps_nothing_and_ends_nothing", |context| {
        let stream = Stream::new(context).expect("a stream");
        let handles = Arc::strong_count(context);
        // SAFETY: the stream lives.
        let borrowed = unsafe { Stream::borrowed(context, stream.as_raw()) };
        borrowed.synchronize().expect("the same stream");
        drop(borrowed);
        assert_eq!(Arc::strong_count(context), handles);
        stream.synchronize().expect("there still");
    });
}

#[test]
fn what_others_own_is_dropped_after_the_last_hold() {
    on_device("what_others_own_is_dropped_after_the_last_hold", |context| {
        let owned = Arc::new(());
        let hold = context.hold_frees();
        context.discard_later(Arc::clone(&owned));
        assert_eq!(Arc::strong_count(&owned), 2, "not while one lives");
        drop(hold);
        assert_eq!(Arc::strong_count(&owned), 1);
        context.discard_later(Arc::clone(&owned));
        assert_eq!(Arc::strong_count(&owned), 1, "at once without");
    });
}

#[test]
fn everything_works_beside_a_persistent_kernel() {
    on_device("everything_works_beside_a_persistent_kernel", |context| {
        let module = module(context);
        let region = MappedRegion::zeroed(context, 4096).expect("pinned");
        let words = region.words(0, 2).expect("inside");
        let persistent = Stream::new(context).expect("a stream");
        let beside = Stream::new(context).expect("a stream");
        let buffer = DeviceBuffer::zeroed(context, 64).expect("allocated");
        let victim = DeviceBuffer::zeroed(context, 64).expect("allocated");
        let pinned = MappedRegion::zeroed(context, 4096).expect("pinned");

        let hold = context.hold_frees();
        let args = KernelArgs::new().address(region.device_address(0).expect("inside"));
        let until = module.kernel("until_told").expect("there");
        // SAFETY: the kernel reads word 0 and writes word 1 of mapped memory that outlives it.
        unsafe { until.launch(&persistent, &Launch::linear(1, 1), &args) }.expect("launched");
        assert_eq!(
            persistent.wait(Duration::from_millis(20)),
            Err(CudaError::TimedOut(Duration::from_millis(20)))
        );
        assert_eq!(persistent.query(), StreamState::Busy);

        buffer.write_from(0, &5_u64.to_ne_bytes()).expect("written");
        let successor = module.kernel("successor").expect("there");
        let args = KernelArgs::new().address(buffer.address());
        // SAFETY: the kernel reaches two words of the buffer, which outlives it.
        unsafe { successor.launch(&beside, &Launch::linear(1, 1), &args) }.expect("launched");
        beside.wait(TIMEOUT).expect("done");
        assert_eq!(contents(&buffer, 2), [5, 6]);
        drop((victim, pinned)); // postponed: freeing now could wait for the kernel
        assert_eq!(persistent.query(), StreamState::Busy, "it runs until it is told");

        words.store(0, 1, Ordering::Release);
        persistent.wait(TIMEOUT).expect("done");
        assert_eq!(
            words.load(1, Ordering::Acquire),
            1,
            "it ended because it was told, not because it gave up"
        );
        drop(hold);
    });
}

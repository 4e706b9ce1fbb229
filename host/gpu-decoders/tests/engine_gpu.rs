//! The engine on a device, against convolutions written out, to the bit. Skipped, with a line, where there is no device.

mod common;

use common::{
    Lines, bytes, committed, engines_of_many_threads_agree, network, network_of, on_device, reference,
    reference_of_halves, run, times, volume,
};
use ringcall_cuda::driver::{Carrier, Lane, LaneKernels, MappedRegion, Stream};
use ringcall_gpu_decoders::predecoder::{GpuError, GpuModel, Network, Share};
use ringcall_infer::conformance::{self, Tolerance};
use ringcall_infer::{Model, TensorSpec};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// On the host alone: a reference that leaves all at one value would prove nothing.
#[test]
fn made_up_networks_use_their_range() {
    for seed in [1, 9] {
        let network = network(seed);
        let logits = reference(&network, &volume(seed, 75), 3, 5);
        let above = logits.iter().filter(|&&logit| logit > 0.25).count();
        assert!((30..270).contains(&above), "{above} of {}", logits.len());
        let mut different: Vec<u32> = logits.iter().map(|logit| logit.to_bits()).collect();
        different.sort_unstable();
        different.dedup();
        assert!(different.len() > 290, "{} values", different.len());
    }
}

#[test]
fn logits_are_those_of_convolutions() {
    on_device("logits_are_those_of_convolutions", |context| {
        // One volume for each shape of the kernel, and odd ones; the largest takes the reference a while.
        for (d, layers) in [(3, 1), (3, 4), (5, 5), (7, 7), (7, 8), (9, 3), (13, 13), (13, 14), (21, 4)] {
            let network = network(u64::from(d * 100 + layers));
            let model = GpuModel::new("made up", &network, context, d, layers).expect("on the device");
            let cells = (d * d * layers) as usize;
            let input = volume(u64::from(d), cells);
            let expected = reference(&network, &input, layers as usize, d as usize);
            conformance::check_case(&model, &[bytes(&input)], &[bytes(&expected)], Tolerance::Exact)
                .unwrap_or_else(|why| panic!("{d} x {d} x {layers}, {:?}: {why}", model.outputs()));
        }
    });
}

/// Networks of other depths and widths: in integers to the bit, narrow ones in the kernel that has all layers as well.
#[test]
fn networks_of_other_shapes_are_convolutions_too() {
    on_device("networks_of_other_shapes_are_convolutions_too", |context| {
        let shapes: [&[usize]; 6] =
            [&[64, 64, 64], &[128, 64, 96], &[128; 5], &[32], &[128; 2], &[200, 40, 200, 130]];
        for widths in shapes {
            // A volume of few positions and one of many have other tilings.
            for (d, layers) in [(3, 2), (7, 8), (13, 14)] {
                let network = network_of(u64::from(d) + widths.len() as u64, widths);
                let model = GpuModel::new("made up", &network, context, d, layers).expect("on the device");
                assert_eq!(model.shape().is_some(), widths.len() == 3);
                let inputs = [1, 2, 3].map(|seed| volume(seed, (d * d * layers) as usize));
                let expected = reference(&network, &inputs[0], layers as usize, d as usize);
                conformance::check_case(&model, &[bytes(&inputs[0])], &[bytes(&expected)], Tolerance::Exact)
                    .unwrap_or_else(|why| panic!("{widths:?}, {d} x {d} x {layers}: {why}"));
                let mut engine = model.instantiate().expect("an engine");
                eprintln!("{widths:?}, d = {d}: {}", times(&mut *engine, &inputs.map(|input| bytes(&input))));
            }
        }
    });
}

/// Of the networks that were trained in floating point: 2^-8 of the largest logit, since each hidden value is rounded to 11 bits.
#[test]
fn halves_are_close_to_double_precision() {
    on_device("halves_are_close_to_double_precision", |context| {
        for name in ["predecoder_3x64", "predecoder_3x128"] {
            let network = Network::from_onnx(&committed(name)).expect("a network");
            for (d, layers) in [(7, 8), (13, 14)] {
                let model = GpuModel::new(name, &network, context, d, layers).expect("on the device");
                let inputs = [1, 2, 3].map(|seed| volume(seed, (d * d * layers) as usize));
                let expected = reference_of_halves(&network, &inputs[0], layers as usize, d as usize);
                let mut engine = model.instantiate().expect("an engine");
                let found = run(&mut *engine, &bytes(&inputs[0]));
                let largest = expected.iter().fold(0.0, |most: f64, logit| most.max(logit.abs()));
                let found = found.as_chunks().0.iter().map(|bytes| f64::from(f32::from_le_bytes(*bytes)));
                let off = found.zip(&expected).fold(0.0, |most: f64, (a, b)| most.max((a - b).abs()));
                let times = times(&mut *engine, &inputs.map(|input| bytes(&input)));
                eprintln!("{name}, d = {d}: {off:.2e} of {largest:.1} off at most; {times}");
                assert!(largest > 1.0 && off <= largest / 256.0, "{name}, d = {d}: {off} of {largest}");
            }
        }
    });
}

/// A lane's answers are an engine's, whichever way the bits cross the bus, on one stream or on several.
#[test]
fn lanes_raise_their_flags_after_their_answers() {
    on_device("lanes_raise_their_flags_after_their_answers", |context| {
        let kernels = LaneKernels::load(context).expect("loaded");
        for widths in [&[128; 3][..], &[64; 5]] {
            let lines = Lines::new(7, 8);
            let (network, wiring) = (network_of(5, widths), lines.wiring(0.5));
            let on = |share| {
                GpuModel::wired_on(share, "made up", &network, context, &wiring).expect("on the device")
            };
            let model = on(Share::WHOLE.one_of(2));
            let mut engine = model.instantiate().expect("an engine");
            let requests: Vec<_> = (0..40).map(|seed| lines.request(seed)).collect();
            let owed: Vec<_> = requests.iter().map(|request| run(&mut *engine, request)).collect();
            let mut alone = on(Share::WHOLE).instantiate().expect("an engine");
            assert!(requests.iter().zip(&owed).all(|(request, owed)| run(&mut *alone, request) == *owed));
            let slots = MappedRegion::zeroed(context, 4096).expect("pinned");
            let ways = [
                None,
                Some([Carrier::Kernel; 2]),
                Some([Carrier::CopyEngine; 2]),
                Some([Carrier::Hook, Carrier::Kernel]),
            ];
            for way in ways {
                let lane = || {
                    let stream = Arc::new(Stream::new(context).expect("a stream"));
                    model.lane(&kernels, &stream, way).expect("a lane").0
                };
                let mut lanes = [lane(), lane()];
                for (requests, owed) in requests.chunks(2).zip(owed.chunks(2)) {
                    for (lane, request) in lanes.iter_mut().zip(requests) {
                        if way.is_some_and(|way| way[0] == Carrier::Hook) {
                            // In turn: both lanes copy from here.
                            assert!(slots.bytes(0, 4096).expect("inside").write(0, request));
                            lane.fetch(0, &slots, 0, request.len()).expect("fetched");
                            lane.stream().wait(Duration::from_secs(5)).expect("copied");
                        } else {
                            assert!(lane.input().write(0, request));
                        }
                        lane.launch(0).expect("launched");
                    }
                    for (lane, owed) in lanes.iter_mut().zip(owed) {
                        let ready = lane.ready().clone();
                        lane.stream().wait_for_word(&ready, 0, Duration::from_secs(5)).expect("raised");
                        let mut answer = vec![0; owed.len()];
                        assert!(lane.output().read(0, &mut answer));
                        assert!(answer == *owed && !GpuModel::gave_up(&answer), "{widths:?}, {way:?}");
                        assert!(!lane.is_running());
                        ready.store(0, 0, Ordering::Release);
                    }
                }
                // More than the input has, and more than there is.
                let most = requests[0].len() + 8;
                assert!(
                    lanes[0].fetch(0, &slots, 0, most).is_err()
                        && lanes[0].fetch(0, &slots, 4090, 7).is_err()
                );
            }
        }
    });
}

/// Several volumes of one network in a lane: each launch takes the graph of its request's length.
#[test]
fn a_lane_has_a_graph_for_each_length() {
    on_device("a_lane_has_a_graph_for_each_length", |context| {
        let kernels = LaneKernels::load(context).expect("loaded");
        for widths in [&[128; 3][..], &[64; 5]] {
            let network = network_of(6, widths);
            let all = [(5, 3), (7, 8), (9, 4), (7, 5)].map(|(d, layers)| Lines::new(d, layers));
            let models = all.each_ref().map(|lines| {
                GpuModel::wired("made up", &network, context, &lines.wiring(0.5)).expect("on the device")
            });
            let largest = |specs: fn(&GpuModel) -> &[TensorSpec]| {
                models.iter().map(|model| specs(model)[0].size_bytes()).max().unwrap_or(0)
            };
            let room = [largest(|model| model.inputs()), largest(|model| model.outputs())];
            let stream = Arc::new(Stream::new(context).expect("a stream"));
            let mut lane = Lane::with_room(&kernels, &stream, room).expect("a lane");
            for model in &models {
                model.add_to_lane(&mut lane, None).expect("a shape");
            }
            for round in 0..100_u64 {
                let which = (round * 7 % 4) as usize;
                let request = all[which].request(round);
                let owed = run(&mut *models[which].instantiate().expect("an engine"), &request);
                assert!(lane.input().write(0, &request));
                let shape = lane.shape_of(request.len()).expect("captured");
                assert_eq!(shape, which);
                lane.launch(shape).expect("launched");
                let ready = lane.ready().clone();
                stream.wait_for_word(&ready, 0, Duration::from_secs(5)).expect("raised");
                let mut answer = vec![0; owed.len()];
                assert!(lane.output().read(0, &mut answer) && answer == owed, "{widths:?}, round {round}");
                ready.store(0, 0, Ordering::Release);
            }
            assert_eq!(lane.shape_of(1), None);
            assert!(lane.launch(4).is_err());
        }
    });
}

#[test]
fn an_engine_like_any_other() {
    on_device("an_engine_like_any_other", |context| {
        let model = GpuModel::new("made up", &network(5), context, 5, 5).expect("on the device");
        conformance::check(&model).expect("the contract");
    });
}

/// By the copy engines or by a kernel: the same logits, to the bit. Says what each takes on this machine.
#[test]
fn tensors_cross_the_bus_either_way() {
    on_device("tensors_cross_the_bus_either_way", |context| {
        let network = network(3);
        for d in [3, 7, 13, 31] {
            let model = || GpuModel::new("made up", &network, context, d, d).expect("on the device");
            let inputs = [1, 2, 3].map(|seed| bytes(&volume(seed, d.pow(3) as usize)));
            let ways = [("by default", model()), ("by copies", model().carried_by_kernels(0))];
            let ways = ways.into_iter().chain([("by kernels", model().carried_by_kernels(usize::MAX))]);
            let mut logits: Vec<Vec<u8>> = Vec::new();
            for (way, model) in ways {
                let mut engine = model.instantiate().expect("an engine");
                let found = inputs.each_ref().map(|input| run(&mut *engine, input));
                assert_ne!(found[0], found[1]);
                if logits.is_empty() {
                    logits = found.to_vec();
                }
                assert!(found == logits[..], "d = {d}, {way}");
                eprintln!("d = {d}, tensors carried {way}: {}", times(&mut *engine, &inputs));
                assert!(run(&mut *engine, &inputs[2]) == logits[2], "d = {d}, {way}, after many runs");
            }
        }
    });
}

#[test]
fn engines_answer_their_own_threads() {
    on_device("engines_answer_their_own_threads", |context| {
        for (d, by_kernels) in [(7, 0), (13, 4096), (13, usize::MAX)] {
            let model = GpuModel::new("made up", &network(4), context, d, d).expect("on the device");
            let inputs = [1, 2, 3, 4, 5].map(|seed| bytes(&volume(seed, d.pow(3) as usize)));
            engines_of_many_threads_agree(&model.carried_by_kernels(by_kernels), &inputs, 300);
        }
    });
}

#[test]
fn a_volume_that_does_not_fit_is_refused() {
    on_device("a_volume_that_does_not_fit_is_refused", |context| {
        let why = GpuModel::new("made up", &network(5), context, 101, 101).expect_err("too large");
        assert!(matches!(why, GpuError::TooLarge { d: 101, .. }), "{why}");
    });
}

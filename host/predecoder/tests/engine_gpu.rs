//! The engine on a device, against convolutions written out, to the bit. Skipped, with a line, where there is no device.

mod common;

use common::{bytes, engines_of_many_threads_agree, network, on_device, reference, run, times, volume};
use ringcall_infer::Model;
use ringcall_infer::conformance::{self, Tolerance};
use ringcall_predecoder::{GpuError, GpuModel};

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

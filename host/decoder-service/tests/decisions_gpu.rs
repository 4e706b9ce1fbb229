//! Decisions on a device beside those of the CPU engine (tract), shot by shot: every logit is the same to the bit, and so is every
//! decision and every answer. Skipped, with a line, without a device. `RINGCALL_DECISION_SHOTS` says how many shots at each
//! distance.

mod common;

use common::{Bound, answer, bytes_of, from_env, logits, on_all_cores, on_device};
use ringcall_gpu_decoders::predecoder::GpuModel;
use ringcall_infer::Model;

#[test]
fn decisions_are_those_of_the_cpu_engine() {
    on_device("decisions_are_those_of_the_cpu_engine", |context| {
        let shots = from_env("RINGCALL_DECISION_SHOTS", 200);
        for distance in [7, 13] {
            let bound = Bound::new(distance, 0.003);
            let Bound { volume, network, threshold, cpu, wiring, .. } = &bound;
            let bits = GpuModel::wired("3x128_int8", network, context, wiring).expect("on the device");
            let plain = GpuModel::new("3x128_int8", network, context, distance, distance + 1);
            let plain = plain.expect("on the device");

            // The device first: it is fast.
            let (mut bits, mut plain) =
                (bits.instantiate().expect("an engine"), plain.instantiate().expect("an engine"));
            let on_device = |shot| {
                let request = bytes_of(shot);
                let mut left = vec![0xFF; wiring.answer_bytes()];
                bits.run(&[&request], &mut [&mut left]).expect("a run");
                let logits = logits(&mut *plain, volume, &request);
                (request, logits, left)
            };
            let found: Vec<_> = bound.shots(shots, 5).iter().map(on_device).collect();

            let engine = || cpu.instantiate().expect("an engine");
            let fired = on_all_cores(&found, engine, |engine, (request, on_device, left)| {
                let on_cpu = logits(&mut **engine, volume, request);
                for (place, (cpu, device)) in on_cpu.iter().zip(on_device).enumerate() {
                    assert_eq!(device.to_bits(), cpu.to_bits(), "logit {place}: {device}, {cpu} on the CPU");
                }
                assert_eq!(on_device.len(), on_cpu.len());
                assert_eq!(*left, answer(volume, &on_cpu, *threshold, request));
                on_cpu.iter().filter(|logit| *logit > threshold).count()
            });
            assert_eq!(fired.len() as u64, shots);
            let decisions = shots * volume.maps().len() as u64;
            let fired: usize = fired.iter().sum();
            assert!(fired > 0, "nothing is decided");
            eprintln!(
                "d = {distance}: {shots} shots, {decisions} decisions, {fired} of them that there is an error: all logits and answers \
                 are the CPU's, to the bit"
            );
        }
    });
}

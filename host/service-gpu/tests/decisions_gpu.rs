//! Decisions on a device beside those of the CPU engine (tract, 32-bit), shot by shot: every decision that differs is counted,
//! and its logit has to be so close to the threshold that rounding to 16 bits explains it. Skipped, with a line, without a
//! device. `RINGCALL_DECISION_SHOTS` says how many shots at each distance.

mod common;

use common::{Bound, ROUNDING, answer, from_env, logits, on_device, outcome};
use ringcall_infer::Model;
use ringcall_infer_gpu::GpuModel;
use ringcall_qec::decode::{DecoderFactory, MatchingFactory};
use ringcall_qec::sample::Sampler;
use std::sync::Mutex;
use std::sync::mpsc;

#[derive(Debug, Default)]
struct Count {
    decisions: u64,
    flips: u64,
    farthest: f32,
    largest_difference: f32,
    residual_bits: u64,
    outcomes: u64,
}

#[test]
fn decisions_are_those_of_the_cpu_engine() {
    on_device("decisions_are_those_of_the_cpu_engine", |context| {
        let shots = from_env("RINGCALL_DECISION_SHOTS", 200);
        for distance in [7, 13] {
            let Bound { volume, model, network, threshold, cpu, wiring } = Bound::new(distance, 0.003);
            let bits = GpuModel::wired("3x128", &network, context, &wiring).expect("on the device");
            let plain =
                GpuModel::new("3x128", &network, context, distance, distance + 1).expect("on the device");
            let decoders = MatchingFactory::from_dem(&model).expect("a matching problem");

            // The device first: it is fast. Its answers must be what its own logits say, to the bit.
            let mut sampler = Sampler::new(&model, 5).expect("a sampler");
            let mut shot = sampler.new_shot();
            let (mut bits, mut plain) =
                (bits.instantiate().expect("an engine"), plain.instantiate().expect("an engine"));
            let mut work = Vec::new();
            for number in 0..shots {
                sampler.sample_into(&mut shot).expect("a shot");
                let request: Vec<u8> = shot.detectors.iter_bytes().collect();
                let mut left = vec![0xFF; wiring.answer_bytes()];
                bits.run(&[&request], &mut [&mut left]).expect("a run");
                let on_device = logits(&mut *plain, &volume, &request);
                assert_eq!(left, answer(&volume, &on_device, threshold, &request), "shot {number}");
                work.push((request, on_device, left));
            }

            let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
            let queue = Mutex::new(work.into_iter());
            let (send, counts) = mpsc::channel();
            std::thread::scope(|scope| {
                for _ in 0..threads {
                    let (queue, volume, send) = (&queue, &volume, send.clone());
                    let mut engine = cpu.instantiate().expect("an engine");
                    let mut decoder = decoders.build().expect("a decoder");
                    scope.spawn(move || {
                        let mut count = Count::default();
                        loop {
                            let next = queue.lock().expect("no panic").next();
                            let Some((request, on_device, left)) = next else { break };
                            let on_cpu = logits(&mut *engine, volume, &request);
                            for (cpu, device) in on_cpu.iter().zip(&on_device) {
                                let difference = (cpu - device).abs();
                                count.largest_difference = count.largest_difference.max(difference);
                                count.decisions += 1;
                                if (*cpu > threshold) != (*device > threshold) {
                                    count.flips += 1;
                                    count.farthest = count.farthest.max((cpu - threshold).abs());
                                }
                            }
                            let owed = answer(volume, &on_cpu, threshold, &request);
                            let differing =
                                owed.iter().zip(&left).map(|(a, b)| u64::from((a ^ b).count_ones()));
                            count.residual_bits += differing.sum::<u64>();
                            let outcomes = [&owed, &left].map(|answer| outcome(&mut *decoder, answer));
                            count.outcomes += u64::from(outcomes[0] != outcomes[1]);
                        }
                        send.send(count).expect("somebody counts");
                    });
                }
            });
            drop(send);
            let all = counts.iter().fold(Count::default(), |all, one| Count {
                decisions: all.decisions + one.decisions,
                flips: all.flips + one.flips,
                farthest: all.farthest.max(one.farthest),
                largest_difference: all.largest_difference.max(one.largest_difference),
                residual_bits: all.residual_bits + one.residual_bits,
                outcomes: all.outcomes + one.outcomes,
            });
            eprintln!(
                "d = {distance}: {shots} shots, {} decisions, {} differ (their logits within {} of the threshold), logits \
                 within {} of each other, {} bits of the answers differ, {} predictions after matching",
                all.decisions,
                all.flips,
                all.farthest,
                all.largest_difference,
                all.residual_bits,
                all.outcomes
            );
            assert_eq!(all.decisions, shots * volume.maps().len() as u64);
            assert!(all.farthest <= ROUNDING, "a decision differs that rounding does not explain");
            assert!(all.flips * 10_000 <= all.decisions, "more than one decision in ten thousand differs");
        }
    });
}

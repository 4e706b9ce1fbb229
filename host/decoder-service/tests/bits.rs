//! The kernel's own functions around the network, compiled for this host, against the volume: the network's input for a syndrome,
//! and the residual after random decisions.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use ringcall_decoder_service::gpu::wiring;
use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
use ringcall_qec::code::Basis;
use ringcall_qec::predecoder::PredecoderVolume;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const HERE: &str = env!("CARGO_MANIFEST_DIR");
const CASES: u32 = 40;

fn compiled(folder: &Path) -> std::path::PathBuf {
    let program = folder.join("bits");
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let mut compile = Command::new(&compiler);
    compile
        .args(["-std=c++17", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined"])
        .arg("-fno-sanitize-recover")
        .arg(format!("-I{HERE}/../../kernels-cu/predecoder"))
        .arg(format!("{HERE}/tests/cpp/bits.cpp"))
        .arg("-o")
        .arg(&program);
    let output = compile.output().unwrap_or_else(|why| panic!("no C++ compiler `{compiler}`: {why}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

fn run(program: &Path, input: &[u8]) -> Vec<u8> {
    let mut child =
        Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("piped");
    let written = std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(input));
        child.wait_with_output().expect("it ends")
    });
    assert!(written.status.success(), "{:?}", written.status);
    written.stdout
}

#[test]
fn the_kernels_functions_do_what_the_volume_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled(folder.path());
    let noise = CircuitNoise::default();
    for (distance, rounds, basis) in
        [(3, 1, Basis::Z), (3, 3, Basis::X), (5, 2, Basis::X), (7, 7, Basis::Z), (13, 13, Basis::Z)]
    {
        let experiment = MemoryExperiment { distance, rounds, basis, noise };
        let volume = PredecoderVolume::new(distance, rounds, basis).expect("in range");
        let threshold = 0.75;
        let wiring = wiring(&experiment, threshold).expect("wired");
        let (bits, elements) = (volume.detectors(), volume.maps().len());
        assert_eq!(wiring.bits() as usize, bits);

        let mut rng = Xoshiro256PlusPlus::seed_from_u64(u64::from(distance * 100 + rounds));
        let mut input = Vec::new();
        input.extend((bits as u32).to_le_bytes());
        input.extend((elements as u32 / 4).to_le_bytes());
        input.extend(threshold.to_le_bytes());
        input.extend(wiring.flips().as_flattened().iter().flat_map(|n| n.to_le_bytes()));
        input.extend(wiring.cell_bits().as_flattened().iter().flat_map(|n| n.to_le_bytes()));
        input.extend(CASES.to_le_bytes());
        let mut expected = Vec::new();
        for case in 0..CASES {
            let mut request = vec![0_u8; bits.div_ceil(8)];
            let mut sees = vec![0_u8; elements / 2];
            for detector in 0..bits {
                let set = rng.random_range(0..5) == 0;
                request[detector / 8] |= u8::from(set) << (detector % 8);
                sees[volume.place(detector)] = u8::from(set);
            }
            // None, few, many, all above; now and then just the threshold, which is not above it.
            let above = [0.0, 0.02, 0.3, 1.0][case as usize % 4];
            let logit = |rng: &mut Xoshiro256PlusPlus| match rng.random::<f64>() {
                draw if draw < above => threshold + rng.random::<f32>() + 1e-3,
                _ if rng.random_range(0..10) == 0 => threshold,
                _ => threshold - rng.random::<f32>() * 9.0,
            };
            let logits: Vec<f32> = (0..elements).map(|_| logit(&mut rng)).collect();
            input.extend(&request);
            input.extend(logits.iter().flat_map(|v| v.to_le_bytes()));
            let frame = volume.apply(&logits, threshold, &mut request);
            expected.extend(sees);
            expected.extend(request);
            expected.push(u8::from(frame));
        }
        let printed = run(&program, &input);
        assert_eq!(printed.len(), expected.len());
        let wrong = (0..printed.len()).find(|&i| printed[i] != expected[i]);
        assert_eq!(wrong, None, "d = {distance}, {rounds} rounds: the first wrong byte of all cases");
    }
}

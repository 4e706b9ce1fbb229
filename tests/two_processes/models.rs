//! Models as services: by themselves, and with matching of what they leave.

use super::*;

fn model(name: &str) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../training/models/");
    format!("{path}{name}.onnx")
}

/// Shapes of one network on one ring: a request's own length chooses, and a length that no shape has is refused.
#[test]
fn a_requests_length_chooses_the_models_shape() {
    let network = model("predecoder_3x64");
    let service = Service::start(
        &[
            &["--service", "decoder", "--model", &network][..],
            &["--sizes", "layers=3,height=5,width=4", "--sizes", "width=3,height=3,layers=4"],
        ]
        .concat(),
    );
    assert_eq!((service.get("model"), service.get("inputs")), ("decoder", "volume"));
    assert_eq!((service.get("request_bytes"), service.get("answer_bytes")), ("576,960", "576,960"));
    let options = CallerOptions { deadline: Duration::from_secs(20), ..CallerOptions::default() };
    let port = service.get("port").parse().expect("a port");
    let mut caller =
        udp::Caller::connect(SocketAddr::from(([127, 0, 0, 1], port)), &options).expect("a socket");
    let mut answers: Vec<Vec<u8>> = Vec::new();
    for bytes in [960, 576, 960, 576, 576, 960] {
        let reply = caller.call("decode_syndrome", &vec![0; bytes]).expect("an answer");
        assert_eq!((reply.status, reply.result.len()), (Status::OK, bytes));
        // The same request has the same answer, whatever came between.
        match answers.iter().find(|answer| answer.len() == bytes) {
            Some(answer) => assert_eq!(*answer, reply.result),
            None => answers.push(reply.result),
        }
        for other in [bytes - 4, bytes + 4] {
            let status = caller.call("decode_syndrome", &vec![0; other]).expect("an answer").status;
            assert_eq!(status, Status::SCHEMA_MISMATCH, "{other} bytes");
        }
    }
    service.stop();
}

/// Measurements as integers through a committed network, its residual and frame to matching, answers to the caller.
#[test]
fn a_network_and_matching_answer_measurements() {
    let network = model("predecoder_3x128_int8_d7_r7_Z.measurements");
    let experiment = ["--distance", "7", "--p", "0.004"];
    let more = ["--service", "predecoder", "--model", &network, "--instances", "2", "--match-workers", "2"];
    let service = Service::start(&[&experiment[..], &more].concat());
    assert_eq!((service.get("model"), service.get("requests")), ("predecoder", "measurements"));
    // After a network, one pass.
    assert_eq!(service.get("matching"), "plain");
    let ask = ["--function", "decode", "--requests", "8", "--timeout-ms", "30000"];
    let report = report_of(&service, &[&experiment[..], &ask].concat());
    assert_eq!((n(&report["correct"]), n(&report["unanswered"])), (8, 0), "{report}");
    let (text, counters) = service.stop();
    assert_eq!(n(&counters["dispatcher"]["completed"]), 8, "{text}");
}

#[test]
fn options_of_models_that_do_not_apply_are_errors() {
    let network = model("predecoder_3x64");
    let decoder = ["serve", "--service", "decoder", "--model", &network];
    let bound = model("predecoder_3x64_d7_r7_Z.detectors");
    for (more, says) in [
        (&["--distance", "7"][..], "--distance does not apply to"),
        (&["--preset", "d7"], "--preset does not apply to"),
        (&["--p", "0.003"], "--p does not apply to"),
        (&["--threshold", "2"], "--threshold does not apply to"),
    ] {
        is_refused(&[&["serve", "--service", "decoder", "--model", &bound], more].concat(), 2, says);
    }
    for (more, says) in [
        (&["--instances", "2"][..], "--instances does not apply to --service decoder"),
        (&["--queue-depth", "2"], "--queue-depth does not apply to --service decoder"),
        (&["--poll-limit", "2"], "--poll-limit does not apply to --service decoder"),
        (&["--match-workers", "2"], "--match-workers does not apply to --service decoder"),
        (&["--slices"], "--slices does not apply to --service decoder"),
        (&["--matching", "plain"], "--matching does not apply to --service decoder"),
        (&["--deadline", "5us"], "--deadline does not apply to --service decoder"),
        (&["--weights", "8"], "--weights does not apply to --service decoder"),
        (
            &["--sizes", "layers=4,height=3,width=3", "--distance", "3"],
            "--distance does not apply to --sizes",
        ),
        (&["--dispatcher", "device"], "leave --dispatcher out"),
        (&["--engine", "gpu"], "runs in `ringcall run`"),
        (&["--engine-save-path", "x.engine"], "is for --engine tensorrt"),
        (&["--sizes", "layers=4"], "dimension"),
        (&["--sizes", "layers=4,height=3,width=3,depth=1"], "`depth` does not apply"),
        (&["--sizes", "layers=4,height=3,width=3", "--threshold", "1"], "leave one of them out"),
        (
            &["--sizes", "layers=4,height=3,width=3", "--sizes", "layers=3,height=4,width=3"],
            "two shapes take requests of 576 bytes",
        ),
    ] {
        is_refused(&[&decoder[..], more].concat(), 2, says);
    }
    for (args, says) in [
        (&["--service", "decoder"][..], "needs --model FILE"),
        (&["--model", &network], "--model does not apply to --service syndromes"),
        (&["--service", "predecoder", "--transport", "nic"], "has workers"),
        (&["--service", "predecoder", "--code", "bb72"], "--service predecoder"),
        (
            &["--service", "predecoder", "--readout", "soft8"],
            "--readout does not apply to --service predecoder",
        ),
        (&["--service", "predecoder", "--weights", "8"], "--weights does not apply to --service predecoder"),
        (
            &["--service", "predecoder", "--model", &bound, "--distance", "7", "--basis", "x"],
            "was exported for basis Z, and the experiment has basis X",
        ),
        (&["--slices", "--weights", "8"], "--weights does not apply to --slices"),
        (&["--decoder", "relay", "--weights", "8"], "weights of a shot are for matching"),
        (&["--stream", "--slices"], "--slices does not apply to --stream"),
        (&["--stream", "--service", "predecoder"], "--service does not apply to --stream"),
        (&["--write-config", "-", "--measurements"], "--measurements does not apply to --write-config"),
        (&["--write-config", "-", "--service", "predecoder"], "--service does not apply to --write-config"),
        (
            &["--service", "predecoder", "--model", &network, "--sizes", "layers=4"],
            "--sizes does not apply to --service predecoder",
        ),
    ] {
        is_refused(&[&["serve"], args].concat(), 2, says);
    }
    for sizes in ["layers", "layers=0", "layers=x", "=3", "layers=3,layers=4", ""] {
        let output =
            ringcall().args(decoder).args(["--sizes", sizes, "--seconds", "1"]).output().expect("ran");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{sizes}: {stderr}");
        assert!(stderr.contains("--sizes"), "{sizes}: {stderr}");
    }
}

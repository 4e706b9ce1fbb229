//! `ringcall serve --config` and its clients as processes over loopback.

#![allow(clippy::print_stdout)] // says what was skipped

use ringcall::FunctionId;
use ringcall::wire::decoding::{EnqueueSyndromes, GetCorrections, reset_decoder};
use ringcall::wire::header::RequestHeader;
use ringcall::wire::names;
use ringcall_roce::RoceSocket;
use ringcall_sim::fpga::{Exchange, Player, PlayerConfig, PlayerTarget};
use ringcall_transport::{CallerOptions, DecodingClient, DecodingError, udp};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

/// The page that says how a server is configured: its first YAML block is served here.
const PAGE: &str = include_str!("../docs/decoding-server.md");

fn ringcall(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ringcall")).args(args).output().expect("ran")
}

/// The text of the page's block number `index` of a language.
fn block(language: &str, index: usize) -> &'static str {
    let mark = format!("```{language}");
    let rest = PAGE.split(&*mark).nth(index + 1).expect("so many blocks");
    let (_, block) = rest.split_once('\n').expect("lines");
    block.split("```").next().expect("a first part")
}

struct Server {
    child: Child,
    out: BufReader<ChildStdout>,
    line: String,
}

impl Server {
    fn start(args: &[&str]) -> Self {
        Self::spawn(args, Stdio::inherit())
    }

    fn spawn(args: &[&str], errors: Stdio) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_ringcall"))
            .arg("serve")
            .args(args)
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .expect("started");
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        out.read_line(&mut line).expect("text");
        assert!(line.starts_with("QEC_DECODING_SERVER_READY port="), "{line}");
        Self { child, out, line: line.trim().to_owned() }
    }

    fn port(&self, decoder: i64) -> u16 {
        let key = format!("ring{decoder}=");
        let word = self.line.split(' ').find_map(|word| word.strip_prefix(&*key)).expect("its port");
        word.parse().expect("a port")
    }

    fn client(&self, decoder: i64, observables: usize) -> DecodingClient<udp::Udp> {
        let options = CallerOptions { window: 32, ..CallerOptions::default() };
        let address = ([127, 0, 0, 1], self.port(decoder)).into();
        let caller = udp::Caller::connect(address, &options).expect("a socket");
        DecodingClient::new(caller, decoder, observables)
    }

    /// Ends it by SIGTERM: what it wrote.
    fn stop(mut self) -> String {
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("it runs");
        let mut text = String::new();
        self.out.read_to_string(&mut text).expect("text");
        let status = self.child.wait().expect("ended");
        assert!(status.success(), "{status}: {text}");
        assert!(text.contains("unaccounted: 0 frames, 0 requests"), "{text}");
        text
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("UTF-8").to_owned()
    }

    fn file(&self, name: &str, text: &str) -> String {
        std::fs::write(self.0.path().join(name), text).expect("written");
        self.path(name)
    }
}

#[test]
fn the_example_of_the_page_is_served() {
    let folder = Folder::new();
    let config = folder.file("decoders.yaml", block("yaml", 0));
    let server = Server::start(&["--config", &config]);
    let words: Vec<&str> = server.line.split(' ').collect();
    assert_eq!(words[1], format!("port={}", server.port(0)), "the first ring's");
    assert!(words.contains(&"transport=udp") && words.contains(&"ip=127.0.0.1"));
    assert_ne!(server.port(0), server.port(1));

    // Three bits in a row, two checks: a flip of the middle bit, told in two parts.
    let mut client = server.client(0, 1);
    let mut corrections = [0xFF];
    client.reset().expect("it is there");
    client.enqueue(1, &[1]).expect("sent");
    client.finish(1, &[1], false, &mut corrections).expect("decoded");
    assert_eq!(corrections, [0]);
    client.finish(2, &[0b01], true, &mut corrections).expect("decoded");
    assert_eq!(corrections, [1]);
    // Refusals come with the corrections, until a reset.
    client.enqueue(3, &[0]).expect("sent");
    let refused = client.corrections(true, &mut corrections).expect_err("too many measurements");
    assert!(matches!(refused, DecodingError::Refused { call: "get_corrections", .. }), "{refused}");
    assert!(refused.to_string().contains("3 (INTERNAL_ERROR)"), "{refused}");
    client.reset().expect("out of it");
    let early = client.corrections(true, &mut corrections).expect_err("nothing was sent");
    assert!(early.to_string().contains("NOT_READY"), "{early}");
    // A decoder that is served, over another's ring; and one that is not.
    let options = CallerOptions::default();
    let mut caller =
        udp::Caller::connect(([127, 0, 0, 1], server.port(0)).into(), &options).expect("a socket");
    for (id, status) in [(1, 0), (9, 1)] {
        assert_eq!(caller.call("reset_decoder", &reset_decoder(id)).expect("answered").status.0, status);
    }
    let unknown = caller.call("rpc_increment", &[1]).expect("answered");
    assert_eq!(
        (unknown.status.name(), FunctionId::of("enqueue_syndromes").0),
        ("UNKNOWN_FUNCTION", 0x7ed8_be82)
    );

    let text = server.stop();
    assert!(text.starts_with("QEC_DECODING_SERVER_RING decoder=0 dispatched="), "{text}");
    assert!(text.contains("\nQEC_DECODING_SERVER_RING decoder=1 dispatched=0\n"), "{text}");
    assert!(text.contains("\nQEC_DECODING_SERVER_DISPATCHED count="), "{text}");
}

#[test]
fn shots_of_four_decoders_are_answered_rightly() {
    let folder = Folder::new();
    let config = folder.path("surface.yaml");
    let written =
        ringcall(&["serve", "--distance", "3", "--p", "0.01", "--write-config", &config, "--decoders", "4"]);
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    for threads in ["one", "own"] {
        let server = Server::start(&["--config", &config, "--threads", threads]);
        let args = ["emulate", "--protocol", "decoding", "--config", &config, "--connect", &server.line];
        let output =
            ringcall(&[&args[..], &["--requests", "2000", "--timeout-ms", "20000", "--json", "-"]].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}{}", String::from_utf8_lossy(&output.stdout));
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(
            (&report["correct"], &report["wrong"], &report["failed"]),
            (&2000.into(), &0.into(), &0.into())
        );
        // By far fewer than shots with errors, and not none: the truth is looked at.
        let logical = report["logical_errors"].as_u64().expect("a count");
        assert!((1..400).contains(&logical), "{report}");
        let text = server.stop();
        for decoder in 0..4 {
            // A reset, and for each of 500 volumes some measurements and the question.
            let mark = format!("QEC_DECODING_SERVER_RING decoder={decoder} dispatched=");
            let line = text.lines().find_map(|line| line.strip_prefix(&*mark)).expect("its line");
            assert!(line.parse::<u64>().expect("a count") > 1000, "{text}");
        }
    }
}

#[test]
fn emulate_finds_a_server_of_other_decoders() {
    let folder = Folder::new();
    let config = folder.file("a.yaml", block("yaml", 0));
    let other =
        folder.file("b.yaml", &block("yaml", 0).replacen("O_sparse: [0, -1]", "O_sparse: [2, -1]", 1));
    let server = Server::start(&["--config", &config]);
    let args =
        ["emulate", "--protocol", "decoding", "--config", &other, "--connect", &server.line, "--json", "-"];
    let output = ringcall(&[&args[..], &["--requests", "200"]].concat());
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(report["wrong"].as_u64().expect("a count") > 0 && report["ok"] == false, "{report}");
    server.stop();
}

/// Our UDP transport as a provider's library, as anybody's: a ring for each decoder, filled by threads of the library.
#[test]
fn a_provider_of_the_file_fills_the_rings() {
    let test = std::env::current_exe().expect("a test knows where it is");
    let library =
        test.ancestors().skip(1).take(2).map(|folder| folder.join("libcudaq_realtime_bridge_udp.so"));
    let library = library.into_iter().find(|path| path.is_file()).expect("built with its package");
    let folder = Folder::new();
    let section =
        format!("transport:\n  provider: {}\n  args: [--num-slots=16, --slot-size=256]\n", library.display());
    let config = folder.file("decoders.yaml", &format!("{section}{}", block("yaml", 0)));
    let server = Server::start(&["--config", &config]);
    let args =
        ["emulate", "--protocol", "decoding", "--config", &config, "--connect", &server.line, "--json", "-"];
    let output =
        ringcall(&[&args[..], &["--requests", "500", "--in-flight", "8", "--timeout-ms", "20000"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&report["correct"], &report["wrong"]), (&500.into(), &0.into()), "{report}");
    server.stop();
}

#[test]
fn a_client_in_c_has_its_corrections() {
    let folder = Folder::new();
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let program = folder.path("client");
    let include = format!("-I{}", root.join("host/c/include").display());
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", &include, "-o", &program])
        .arg(root.join("examples/c/decoding_client.c"))
        .output();
    let Ok(compiled) = compiled else {
        println!("skipped: there is no compiler `cc`");
        return;
    };
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let config = folder.file("decoders.yaml", block("yaml", 0));
    let server = Server::start(&["--config", &config]);
    let ask = |decoder: i64, observables: &str, rounds: &[&str]| {
        let port = server.port(decoder.min(1)).to_string();
        let id = decoder.to_string();
        let output = Command::new(&program)
            .args(["127.0.0.1", &port, &id, observables])
            .args(rounds)
            .output()
            .expect("ran");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        (text(&output.stdout), text(&output.stderr))
    };
    assert_eq!(ask(0, "1", &["1", "0"]).0, "1");
    assert_eq!(ask(0, "1", &["11"]).0, "0");
    assert!(ask(0, "2", &["11"]).1.contains("status 2"));
    assert!(ask(0, "1", &["1"]).1.contains("status 4"));
    assert!(ask(5, "1", &["1"]).1.contains("reset_decoder: status 1"));
    server.stop();
}

#[test]
fn a_file_is_checked_without_serving_it() {
    let folder = Folder::new();
    let config = folder.file("decoders.yaml", block("yaml", 0));
    let output = ringcall(&["serve", "--config", &config, "--check"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        text.contains("decoder 0: matching, 2 measurements, 2 detectors, 3 errors, observables 1"),
        "{text}"
    );
    assert!(text.lines().last().is_some_and(|line| line.starts_with("takes about ")), "{text}");
    let output = ringcall(&["serve", "--config", &config, "--check", "--max-memory", "1MiB"]);
    assert_eq!(output.status.code(), Some(2));

    // Each in one line, with file, line and key; nothing is started.
    let good = block("yaml", 0);
    for (name, text, part) in [
        (
            "key.yaml",
            good.replacen("block_size", "blocksize", 1),
            ":2: decoders[0].block_size: this key is missing",
        ),
        (
            "value.yaml",
            good.replacen("[0, -1]", "[7, -1]", 1),
            "decoders[0].O_sparse[0]: 7 is no column of 3",
        ),
        ("yaml.yaml", "decoders: [".to_owned(), ": this is no YAML"),
        (
            "wire.yaml",
            format!("transport: {{provider: gpu_roce}}\n{good}"),
            ":1: transport.provider: `gpu_roce`",
        ),
        (
            "args.yaml",
            format!("transport: {{args: [--depth=1]}}\n{good}"),
            ":1: transport.args[0]: `--depth` is not known",
        ),
    ] {
        let path = folder.file(name, &text);
        for more in [&["--check"][..], &[]] {
            let output = ringcall(&[&["serve", "--config", &path], more].concat());
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!((output.status.code(), stderr.lines().count()), (Some(2), 1), "{stderr}");
            assert!(stderr.contains(&format!("{path}:")) && stderr.contains(part), "{stderr}");
            assert!(output.stdout.is_empty());
        }
    }
    for path in [folder.path("none.yaml"), Path::new("/dev").display().to_string()] {
        assert_eq!(ringcall(&["serve", "--config", &path]).status.code(), Some(2), "{path}");
    }
}

#[test]
fn options_that_do_not_apply_are_refused() {
    let folder = Folder::new();
    let config = folder.file("decoders.yaml", block("yaml", 0));
    let named = folder.file(
        "named.yaml",
        &format!("transport: {{provider: udp, args: [--slot-size=256]}}\n{}", block("yaml", 0)),
    );
    let refused = |args: &[&str], part: &str| {
        let output = ringcall(args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(part), "{args:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{args:?}");
    };
    let serve = |more: &[&'static str]| [&["serve", "--config", &*config], more].concat();
    for (more, part) in [
        (&["--distance", "3"][..], "--distance does not apply to --config"),
        (&["--matching", "plain"], "does not apply to --config"),
        (&["--dispatcher", "device"], "leave --dispatcher out"),
        (&["--service", "decoder"], "--service does not apply to --config"),
        (&["--transport", "nic"], "--transport nic does not apply"),
        (&["--rendezvous", "127.0.0.1:0"], "--rendezvous does not apply"),
        (&["--qp", "3"], "--qp does not apply to --transport udp"),
        (&["--check", "--seconds", "1"], "--duration does not apply to --check"),
        (&["--decoders", "2"], "--write-config"),
        (&["--bind", "127.0.0.1:65535"], "end above 65535"),
    ] {
        refused(&serve(more), part);
    }
    refused(&["serve", "--config", &named, "--transport", "roce"], "names the transport in line 1");
    refused(&["serve", "--config", &named, "--slot-bytes", "512"], "whose file has --slot-size");
    for more in [&["--check"][..], &["--frame", "running"]] {
        refused(&[&["serve"], more].concat(), "--config");
    }
    let emulate = |more: &[&'static str]| [&["emulate", "--connect", "127.0.0.1:1"], more].concat();
    refused(&emulate(&["--protocol", "decoding"]), "needs --config");
    refused(&emulate(&["--parts", "2"]), "--parts does not apply to --protocol rpc");
    let line = "QEC_DECODING_SERVER_READY port=1 transport=udp ip=127.0.0.1";
    refused(&["emulate", "--connect", line, "--function", "decode"], "--protocol decoding --config FILE");
    for option in
        [&["--loss", "0.1"][..], &["--payload", "3"], &["--distance", "3"], &["--function", "decode"]]
    {
        let more = [&["--protocol", "decoding"], option].concat();
        refused(&emulate(&more), "does not apply to --protocol decoding");
    }
}

/// Options that a decoding server uses, or that another test refuses with it.
const USED: [&str; 24] = [
    "bind",
    "check",
    "config",
    "dispatcher",
    "duration",
    "frame",
    "help",
    "icrc",
    "json",
    "log-format",
    "max-memory",
    "metrics",
    "mtu",
    "no-sandbox",
    "peer",
    "peers",
    "qp",
    "remote-qp",
    "rkey",
    "slot-bytes",
    "slots",
    "stop-timeout",
    "tag-key",
    "threads",
];

/// Options that it would ignore, each with a value.
const IGNORED: [(&str, &str); 39] = [
    ("basis", "x"),
    ("circuit", "none"),
    ("code", "surface"),
    ("confidence", ""),
    ("deadline", "5us"),
    ("decoder", "matching"),
    ("decoder-config", "none"),
    ("decoders", "2"),
    ("dem", "none"),
    ("detectors", "memory"),
    ("device", "rxe0"),
    ("distance", "3"),
    ("engine", "cpu"),
    ("instances", "2"),
    ("kernels", "three"),
    ("match-workers", "2"),
    ("matching", "plain"),
    ("measurements", ""),
    ("model", "none"),
    ("p", "0.01"),
    ("poll-limit", "2"),
    ("preset", "d7"),
    ("psn", "1"),
    ("qp-type", "uc"),
    ("queue-depth", "2"),
    ("queues", "gpu"),
    ("readout", "soft4"),
    ("relay-iterations", "5"),
    ("relay-osd", "0"),
    ("relay-solutions", "2"),
    ("rendezvous", "127.0.0.1:0"),
    ("rounds", "3"),
    ("service", "decoder"),
    ("slices", ""),
    ("stream", ""),
    ("threshold", "1"),
    ("transport", "hsb"),
    ("weights", "3"),
    ("write-config", "none"),
];

/// The long options that the help of `serve` names at the begin of a line.
fn options_of_serve() -> Vec<String> {
    let output = ringcall(&["serve", "--help"]);
    let help = String::from_utf8(output.stdout).expect("text");
    let option = |line: &str| {
        let line = line.trim_start();
        let long = line.strip_prefix("--").or_else(|| line.get(4..)?.strip_prefix("--"))?;
        let name: String = long.chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect();
        (!name.is_empty()).then_some(name)
    };
    help.lines().filter_map(option).collect()
}

#[test]
fn an_option_is_used_with_a_configuration_or_refused_by_name() {
    let folder = Folder::new();
    let config = folder.file("decoders.yaml", block("yaml", 0));
    let options = options_of_serve();
    for option in &options {
        // Options that another one requires, and one that changes the report alone.
        let known = ["cores", "engine-save-path", "sizes", "verbose", "version"].into_iter();
        let known = known.chain(USED).chain(IGNORED.map(|(name, _)| name));
        assert!(
            known.into_iter().any(|name| name == option),
            "--{option}: say whether it is used or refused"
        );
    }
    for (name, value) in IGNORED {
        assert!(options.iter().any(|option| option == name), "--{name} is no option");
        let option = format!("--{name}");
        let mut args = vec!["serve", "--config", &config, &option];
        args.extend((!value.is_empty()).then_some(value));
        let output = ringcall(&args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{option}: {stderr}");
        assert!(
            stderr.contains(&option) && stderr.contains("does not apply to --config"),
            "{option}: {stderr}"
        );
    }
}

/// An FPGA's requests by RoCE, one after the other: this one takes pages in the order of answers, which is not always the ring's.
#[test]
fn calls_come_by_roce_too() {
    let folder = Folder::new();
    let config = folder.file("decoders.yaml", block("yaml", 0));
    let server = Server::start(&["--config", &config, "--transport", "roce"]);
    let number = |key: &str| {
        let text = server.line.split(' ').find_map(|word| word.strip_prefix(key)).expect("a key");
        match text.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16).expect("a number"),
            None => text.parse().expect("a number"),
        }
    };
    let target = PlayerTarget {
        peer: SocketAddrV4::new(Ipv4Addr::LOCALHOST, server.port(0)),
        qp: number("qp="),
        key: number("rkey="),
        base: 0,
        page_bytes: number("page_size="),
        pages: number("pages="),
    };
    let socket = RoceSocket::bind(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let options =
        PlayerConfig { in_flight: 1, timeout: Duration::from_secs(20), ..PlayerConfig::new(target) };
    // Both measurements of each of the four syndromes, one at a time, and the question.
    let mut requests: Vec<(&str, Vec<u8>)> = vec![(names::RESET_DECODER, reset_decoder(0).to_vec())];
    for volume in 0..100_u8 {
        for bit in 0..2 {
            let mut payload = vec![0; EnqueueSyndromes::bytes(1)];
            let round =
                EnqueueSyndromes { decoder_id: 0, counter: 0, num_syndromes: 1, bits: &[volume >> bit & 1] };
            assert_eq!(round.write(&mut payload), Some(33));
            requests.push((names::ENQUEUE_SYNDROMES, payload));
        }
        let question = GetCorrections { decoder_id: 0, return_size: 1, reset: true };
        requests.push((names::GET_CORRECTIONS, question.to_bytes().to_vec()));
    }
    let sent = requests.len() as u64;
    let mut left = requests.into_iter();
    let mut windows = |window: &mut Vec<u8>| {
        let Some((function, payload)) = left.next() else { return false };
        let header = RequestHeader::new(FunctionId::of(function).0, payload.len() as u32, 0, 0);
        window.clear();
        window.extend_from_slice(&header.to_bytes());
        window.extend_from_slice(&payload);
        true
    };
    let (mut answers, mut refused) = (Vec::new(), Vec::new());
    let mut check = |exchange: &Exchange<'_>| {
        if exchange.request.function_id == FunctionId::of(names::GET_CORRECTIONS).0 {
            answers.push((exchange.request.request_id, exchange.result.to_vec()));
        }
        let status = exchange.response.status();
        if !status.is_ok() {
            refused.push((exchange.request, status));
        }
        status.is_ok()
    };
    let report = Player::new(socket, options).expect("a player").run(&mut windows, &mut check, &|| false);
    let report = report.expect("played");
    assert_eq!((report.sent, report.correct, refused), (sent, sent, Vec::new()), "{report:?}");
    answers.sort();
    let expected = (0..100_u8).map(|volume| vec![u8::from(volume % 4 == 1)]);
    assert!(answers.into_iter().map(|(_, result)| result).eq(expected));
    server.stop();
}

/// Reads standard error on its own thread; lines are waited for.
struct Log(std::sync::mpsc::Receiver<String>);

impl Log {
    fn of(child: &mut Child) -> Self {
        let (tell, told) = std::sync::mpsc::channel();
        let lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| tell.send(line)));
        Self(told)
    }

    /// The next line that has `part`.
    fn wait(&self, part: &str) -> String {
        loop {
            let line = self.0.recv_timeout(Duration::from_secs(60)).unwrap_or_else(|_| panic!("no `{part}`"));
            if line.contains(part) {
                return line;
            }
        }
    }
}

/// A file is read again by SIGHUP, under load: the volume that is under way ends with the old decoder, the next one has the new one, a file
/// that is wrong changes nothing, and every call of every volume is answered.
#[test]
fn a_hang_up_reads_the_file_again() {
    /// A bit or its complement: the observable is that of the first error, or of none.
    fn file(observable: &str) -> String {
        format!(
            "decoders:\n- {{id: 0, type: pymatching, block_size: 3, syndrome_size: 2, H_sparse: [0, 1, -1, 1, 2, -1], \
             O_sparse: [{observable}, -1], D_sparse: [0, -1, 1, -1]}}\n"
        )
    }
    let folder = Folder::new();
    let config = folder.file("decoders.yaml", &file("0"));
    let mut server = Server::spawn(&["--config", &config], Stdio::piped());
    let log = Log::of(&mut server.child);
    let hang_up = |server: &Server| {
        kill_process(Pid::from_child(&server.child), Signal::HUP).expect("it runs");
    };
    // The client's last correction, or 0xFF before the first.
    let (stop, last) = (AtomicBool::new(false), AtomicU8::new(0xFF));
    /// Ends the client also where a check fails.
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let decided = |correction: u8| {
        let begin = Instant::now();
        while last.load(Ordering::Relaxed) != correction {
            assert!(begin.elapsed() < Duration::from_secs(60), "no correction {correction}");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    std::thread::scope(|scope| {
        let running = Stop(&stop);
        // The first error alone explains the first detector; the new decoder has another observable, which it does not flip.
        let load = scope.spawn(|| {
            let (mut client, mut seen) = (server.client(0, 1), Vec::new());
            client.reset().expect("it is there");
            while !stop.load(Ordering::Relaxed) {
                let mut corrections = [0xFF];
                client.enqueue(1, &[1]).expect("sent");
                client.finish(1, &[0], true, &mut corrections).expect("every volume is answered");
                if seen.last() != Some(&corrections[0]) {
                    seen.push(corrections[0]);
                }
                last.store(corrections[0], Ordering::Relaxed);
            }
            seen
        });
        decided(1);
        hang_up(&server);
        log.wait("the configuration is as before");
        for (text, said) in [
            (file("2"), "was read again"),
            ("decoders:\n- {id: 0, type: pymatching, block_size: 3}\n".to_owned(), "goes on as before"),
            (file("2").replace("id: 0", "id: 5"), "decoder 5 is new: that takes a start"),
            (file("2").replace("id: 0", "id: 0, nonsense"), "goes on as before"),
            (file("0"), "was read again"),
        ] {
            folder.file("decoders.yaml", &text);
            hang_up(&server);
            let line = log.wait("SIGHUP");
            assert!(line.contains(said) && line.contains("decoders.yaml"), "{line}");
            // Volumes of the new decoder, if there is one.
            if said == "was read again" {
                decided(u8::from(text == file("0")));
            }
        }
        std::fs::remove_file(&config).expect("removed");
        hang_up(&server);
        assert!(log.wait("SIGHUP").contains("goes on as before"));
        drop(running);
        assert_eq!(load.join().expect("the client"), [1, 0, 1]);
    });
    server.stop();
    // A service without a file goes on, too.
    let mut server = Server::spawn(&["--stream", "--distance", "3"], Stdio::piped());
    let log = Log::of(&mut server.child);
    hang_up(&server);
    log.wait("--stream has no file to read again");
    server.client(0, 1).reset().expect("it is there");
    server.stop();
}

/// Two patches whose runs are longer than the one that describes them, a message a round; every answer is that of our own decoder.
#[test]
fn runs_of_any_length_are_streamed() {
    let folder = Folder::new();
    let config = folder.path("decoders.yaml");
    for (decoders, matching) in [("2", "plain"), ("1", "correlated")] {
        let experiment =
            ["--stream", "--distance", "3", "--p", "0.004", "--decoders", decoders, "--matching", matching];
        let written = ringcall(&[&["serve", "--write-config", &config], &experiment[..]].concat());
        assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
        // Of the options, and of the file.
        for server in [Server::start(&experiment), Server::start(&["--config", &config])] {
            let args = ["emulate", "--protocol", "decoding", "--config", &config, "--connect", &server.line];
            let more = ["--run-rounds", "150", "--requests", "6", "--timeout-ms", "20000", "--json", "-"];
            let output = ringcall(&[&args[..], &more].concat());
            let (out, errors) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert!(output.status.success(), "{out}{errors}");
            let report: Value = serde_json::from_str(&out).expect("JSON");
            assert_eq!((&report["correct"], &report["calls"]), (&6.into(), &912.into()), "{report}");
            server.stop();
        }
    }
    // Two cores share each run: their answers are those of one core, and no join is forced.
    for matching in ["plain", "correlated"] {
        let experiment = ["--stream", "--distance", "3", "--p", "0.004", "--matching", matching];
        let written = ringcall(&[&["serve", "--write-config", &config], &experiment[..]].concat());
        assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
        let json = folder.path("shared.json");
        let server = Server::start(&[&experiment[..], &["--cores", "2", "--json", &json]].concat());
        let args = ["emulate", "--protocol", "decoding", "--config", &config, "--connect", &server.line];
        let output =
            ringcall(&[&args[..], &["--run-rounds", "200", "--requests", "8", "--json", "-"]].concat());
        let out = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{out}{}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!(report["correct"], 8, "{matching}: {report}");
        let text = server.stop();
        assert!(text.contains("runs: 8, forced decisions 0, lost threads 0\n"), "{matching}: {text}");
        let text = std::fs::read_to_string(&json).expect("the report");
        let report: Value = serde_json::from_str(&text).expect("JSON");
        let decoder = &report["decoders"][0];
        assert_eq!([&decoder["decodes"], &decoder["forced"], &decoder["lost_helpers"]], [8, 0, 0], "{text}");
    }
    // Several cores are a matter of streams.
    let refused = ringcall(&["serve", "--distance", "3", "--cores", "2"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && said.contains("--stream"), "{said}");
    // A run that is too short has no corrections.
    let server = Server::start(&["--stream", "--distance", "3"]);
    let mut client = server.client(0, 1);
    client.reset().expect("it is there");
    client.enqueue(4, &[0]).expect("sent");
    let early = client.finish(4, &[0], true, &mut [0]).expect_err("two rounds");
    assert!(early.to_string().contains("NOT_READY"), "{early}");
    server.stop();
}

/// Decoders of Relay-BP whose decode of one defect never converges: the one has a deadline, and the other is cut off by the stop.
#[test]
fn belief_propagation_ends_by_a_deadline_or_a_stop() {
    let decoder = |id: i64, more: &str| {
        format!(
            "- {{id: {id}, type: nv-qldpc-decoder, block_size: 3, syndrome_size: 3, H_sparse: [0, 1, -1, 1, 2, -1, 2, 0, -1], \
             O_sparse: [0, -1], D_sparse: [0, -1, 1, -1, 2, -1], decoder_custom_args: {{error_rate: 0.1, bp_method: 3, composition: 1, \
             gamma_dist: [-0.25, 0.5], max_iterations: 1000000, srelay_config: {{pre_iter: 80, num_sets: 100000}}{more}}}}}\n"
        )
    };
    let text = format!("decoders:\n{}{}", decoder(0, ", deadline_us: 500, use_osd: true"), decoder(1, ""));
    let folder = Folder::new();
    let config = folder.file("relay.yaml", &text);
    let checked = ringcall(&["serve", "--config", &config, "--check"]);
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(said.contains("observables 1, ordered statistics 0, deadline 500 us\n"), "{said}");

    let json = folder.path("counts.json");
    let server = Server::start(&["--config", &config, "--json", &json, "--metrics", "127.0.0.1:0"]);
    let mut client = server.client(0, 1);
    let mut corrections = [0xFF];
    for _ in 0..3 {
        client.finish(3, &[0b001], true, &mut corrections).expect("a guess, at least");
    }
    client.finish(3, &[0b011], true, &mut corrections).expect("decoded");
    let metrics = server.line.split(' ').find_map(|word| word.strip_prefix("metrics=")).expect("its address");
    let count = |name: &str| -> u64 {
        let mut stream = TcpStream::connect(metrics).expect("it answers");
        stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n").expect("sent");
        let mut page = String::new();
        stream.read_to_string(&mut page).expect("text");
        let line = page.lines().find_map(|line| line.strip_prefix(&format!("{name} "))).expect("its line");
        line.trim().parse().expect("a count")
    };
    assert_eq!(["answers", "late"].map(|name| count(&format!("ringcall_decode_{name}_total"))), [4, 3]);
    assert_eq!(count("ringcall_decode_unconverged_total"), 0);

    let mut other = server.client(1, 1);
    other.enqueue(3, &[0b001]).expect("sent");
    let begin = Instant::now();
    while count("ringcall_transport_under_way") == 0 {
        assert!(begin.elapsed() < Duration::from_secs(60), "the request does not arrive");
        std::thread::sleep(Duration::from_millis(5));
    }
    let text = server.stop();
    assert!(text.contains("decodes: 4, unconverged 0, late 3\n"), "{text}");
    assert!(text.contains("decodes: 1, unconverged 0, late 1\n"), "{text}");
    let counts: Value = serde_json::from_slice(&std::fs::read(&json).expect("written")).expect("JSON");
    let of = |decoder: usize, key: &str| counts["decoders"][decoder][key].as_u64().expect("a count");
    assert_eq!([of(0, "decodes"), of(0, "late"), of(1, "decodes"), of(1, "late")], [4, 3, 1, 1]);
}

//! Configurations of a decoding server: accepted ones, and refusals with line and key.

use ringcall_decoder_service::decoding_server::{Config, ConfigError, Frame, Sessions};
use ringcall_qec::decode::OrderedStatistics;
use std::time::Duration;

const HEAD: &str = "transport:
  provider: udp
  args: [--slot-size=256]
decoders:
  - id: 0
    type: pymatching
    block_size: 3
    syndrome_size: 2
    H_sparse: [0, 1, -1, 1, 2, -1]
    O_sparse: [0, -1]
    D_sparse: [0, -1, 0, 1, -1]
    cuda_device_id: 0
    dispatch: host
";

fn parse(text: &str) -> Result<Config, ConfigError> {
    text.parse()
}

/// The configuration above with one line of it replaced, or with lines appended.
fn with(line: &str, by: &str) -> String {
    assert!(HEAD.contains(line), "{line}");
    HEAD.replacen(line, by, 1)
}

#[test]
fn a_file_of_the_reference_is_read_as_it_is() {
    let config = parse(HEAD).expect("valid");
    assert_eq!(config.transport.provider.as_deref(), Some("udp"));
    assert_eq!(config.transport.args, ["--slot-size=256"]);
    let decoder = &config.decoders[0];
    assert_eq!((decoder.id(), decoder.method(), decoder.errors()), (0, "matching", 3));
    assert_eq!((decoder.detectors(), decoder.measurements(), decoder.observables()), (2, 2, 1));
    assert_eq!(decoder.unused(), ["decoders[0].cuda_device_id"]);
    assert_eq!(decoder.model().mechanisms[1].detectors, [0, 1]);
}

#[test]
fn syndrome_size_is_of_detectors_or_of_measurements() {
    // More measurements than detectors: by CUDA-Q's files 2, the rows of H; as a number of measurements 4 and more.
    let d = with("D_sparse: [0, -1, 0, 1, -1]", "D_sparse: [0, -1, 3, 1, -1]");
    let measurements = |size: &str| {
        let text = d.replacen("syndrome_size: 2", &format!("syndrome_size: {size}"), 1);
        parse(&text).map(|config| config.decoders[0].measurements())
    };
    assert_eq!((measurements("2"), measurements("4"), measurements("7")), (Ok(4), Ok(4), Ok(7)));
    let error = measurements("3").expect_err("neither");
    assert_eq!((error.line, &*error.key), (8, "decoders[0].syndrome_size"));
}

#[test]
fn bad_files_are_refused_with_line_and_key() {
    let path = |key: &str| format!("decoders[0].{key}");
    for (text, line, key, part) in [
        (with("id: 0", "id: -1"), 5, path("id"), "-1 is not from 0"),
        (with("id: 0", "id: '0'"), 5, path("id"), "no whole number"),
        (with("block_size: 3", "block_size: 0"), 7, path("block_size"), "0 is not from 1"),
        (with("block_size: 3", "blocksize: 3"), 5, path("block_size"), "missing"),
        (with("    dispatch: host", "    dispatch: device_graph"), 13, path("dispatch"), "not served"),
        (with("    dispatch: host", "    transport: cpu_roce"), 13, path("transport"), "not known"),
        (with("type: pymatching", "type: trt_decoder"), 6, path("type"), "pymatching, sliding_window"),
        (with("H_sparse: [0, 1, -1,", "H_sparse: [0, 3, -1,"), 9, path("H_sparse[1]"), "3 is no column of 3"),
        (with("H_sparse: [0, 1, -1,", "H_sparse: [0, -2, -1,"), 9, path("H_sparse[1]"), "-2 is no column"),
        (
            with("H_sparse: [0, 1, -1,", "H_sparse: [.nan, 1, -1,"),
            9,
            path("H_sparse[0]"),
            "`.nan` is no whole number",
        ),
        (with("H_sparse: [0, 1, -1,", "H_sparse: [1, 1, -1,"), 9, path("H_sparse[2]"), "column 1 twice"),
        (with("O_sparse: [0, -1]", "O_sparse: [0]"), 10, path("O_sparse"), "no -1 after it"),
        (with("O_sparse: [0, -1]", "O_sparse: []"), 10, path("O_sparse"), "0 rows"),
        (with("O_sparse: [0, -1]", "O_sparse: 0"), 10, path("O_sparse"), "`0` is no list"),
        (with("[0, -1, 0, 1, -1]", "[0, -1]"), 11, path("D_sparse"), "1 rows, and H_sparse has 2"),
        (with("[0, -1, 0, 1, -1]", "[-1, -1]"), 11, path("D_sparse"), "no detector has a measurement"),
        (with("[0, -1, 0, 1, -1]", "[99999999, -1, -1]"), 11, path("D_sparse[0]"), "99999999 is no column"),
        (with("  provider: udp", "  providers: udp"), 2, "transport.providers".into(), "not known"),
        (with("  provider: udp", "  device_graph: {}"), 2, "transport.device_graph".into(), "not served"),
        (format!("{HEAD}    id: 1\n"), 14, "id".into(), "given before, in line 5"),
        (format!("{HEAD}  - {{}}\n"), 14, "decoders[1].id".into(), "missing"),
        (format!("{HEAD}extra: 1\n"), 14, "extra".into(), "known are decoders, transport"),
        ("decoders: []".into(), 1, "decoders".into(), "0 decoders"),
        ("- 1".into(), 1, String::new(), "no mapping"),
    ] {
        let error = parse(&text).expect_err(&text);
        assert_eq!((error.line, &error.key), (line, &key), "{error}: {text}");
        assert!(error.reason.contains(part), "{error}");
        assert_eq!(error.to_string().lines().count(), 1);
    }
}

#[test]
fn ids_are_their_decoders_own() {
    let second = HEAD.split_once("decoders:\n").expect("there").1;
    let error = parse(&format!("{HEAD}{second}")).expect_err("the same id");
    assert_eq!((error.line, &*error.key), (14, "decoders[1].id"));
    let config = parse(&format!("{HEAD}{}", second.replacen("id: 0", "id: 5", 1))).expect("another");
    assert_eq!(config.decoders[1].id(), 5);
}

#[test]
fn custom_arguments_are_checked() {
    let of = |kind: &str, arguments: &str| {
        let text = with("type: pymatching", &format!("type: {kind}"));
        parse(&format!("{text}    decoder_custom_args: {{{arguments}}}\n"))
    };
    for (arguments, key, part) in [
        ("merge_stratgey: replace", "merge_stratgey", "not known"),
        ("merge_strategy: best", "merge_strategy", "smallest_weight"),
        ("error_rate_vec: [0.1, 0.1]", "error_rate_vec", "2 probabilities for 3"),
        ("error_rate_vec: [0.1, 0, 0.1]", "error_rate_vec[1]", "0 is no probability"),
        ("error_rate_vec: [0.1, 0.6, 0.1]", "error_rate_vec[1]", "0.6 is no probability"),
        ("error_rate_vec: [0.1, nan, 0.1]", "error_rate_vec[1]", "no finite number"),
        ("error_rate_vec: [0.1, .inf, 0.1]", "error_rate_vec[1]", "no finite number"),
        ("enable_correlations: true, merge_strategy: replace", "merge_strategy", "independent"),
    ] {
        let error = of("pymatching", arguments).expect_err(arguments);
        let key = format!("decoders[0].decoder_custom_args.{key}");
        assert!(error.line == 14 && error.key == key && error.reason.contains(part), "{error}");
    }
    let relay = "error_rate: 0.1, max_iterations: 9, bp_method: 3, composition: 1, gamma0: 0.5, gamma_dist: [-0.25, 0.5], \
                 srelay_config: {pre_iter: 4, num_sets: 2, stopping_criterion: All}";
    let config = of("nv-qldpc-decoder", &format!("{relay}, use_sparsity: true")).expect("Relay-BP");
    assert_eq!(config.decoders[0].method(), "relay");
    assert!(config.decoders[0].unused().contains(&"decoders[0].decoder_custom_args.use_sparsity".to_owned()));
    let limited = |arguments: &str| {
        let config = of("nv-qldpc-decoder", &format!("{relay}, {arguments}")).expect("Relay-BP");
        (config.decoders[0].deadline(), config.decoders[0].ordered_statistics())
    };
    for (arguments, deadline_ns, ordered) in [
        ("use_osd: false, osd_method: 0", None, None),
        ("use_osd: true", None, Some(OrderedStatistics::Zero)),
        ("use_osd: 1, osd_method: 1, osd_order: 0", None, Some(OrderedStatistics::Zero)),
        ("use_osd: true, osd_method: 3, osd_order: 7", None, Some(OrderedStatistics::CombinationSweep(7))),
        ("deadline_us: 250", Some(250_000), None),
        ("deadline_us: 0.5, use_osd: true", Some(500), Some(OrderedStatistics::Zero)),
    ] {
        let expected = (deadline_ns.map(Duration::from_nanos), ordered);
        assert_eq!(limited(arguments), expected, "{arguments}");
    }
    let error = of("pymatching", "deadline_us: 5").expect_err("for belief propagation");
    assert!(error.key.ends_with("deadline_us") && error.reason.contains("not known"), "{error}");
    for (from, to, part) in [
        ("error_rate: 0.1, ", "", "needs error_rate_vec or error_rate"),
        ("error_rate: 0.1", "error_rate: 0.7", "no probability"),
        ("bp_method: 3", "bp_method: 0", "not served"),
        ("gamma_dist: [-0.25, 0.5], ", "", "missing"),
        ("[-0.25, 0.5]", "[0.5, -0.25]", "lesser"),
        ("[-0.25, 0.5]", "[-0.25, 5]", "no memory strength"),
        ("stopping_criterion: All", "stopping_criterion: NConv", "missing"),
        ("stopping_criterion: All", "stop: All", "not known"),
        ("pre_iter: 4", "pre_iter: 0", "not from 1"),
        ("max_iterations: 9", "use_osd: 2", "not from 0 to 1"),
        ("max_iterations: 9", "osd_method: 1", "no effect without `use_osd: true`"),
        ("max_iterations: 9", "use_osd: false, osd_order: 3", "no effect without `use_osd: true`"),
        ("max_iterations: 9", "use_osd: true, osd_method: 0", "served are 1"),
        ("max_iterations: 9", "use_osd: true, osd_method: 2", "served are 1"),
        ("max_iterations: 9", "use_osd: true, osd_order: 3", "only a combination sweep"),
        ("max_iterations: 9", "use_osd: true, osd_method: 3, osd_order: 1001", "not from 0 to 1000"),
        ("max_iterations: 9", "deadline_us: 0", "no time from 0.001 us"),
        ("max_iterations: 9", "deadline_us: -5", "no time from 0.001 us"),
        ("max_iterations: 9", "deadline_us: 1e12", "no time from 0.001 us"),
        ("max_iterations: 9", "deadline_us: soon", "finite number"),
        ("max_iterations: 9", "deadline: 5", "not known"),
        ("max_iterations: 9", "explicit_gammas: [[1]]", "not served"),
        ("max_iterations: 9", "scale_factor: 0.8", "not scaled"),
    ] {
        assert!(relay.contains(from), "{from}");
        let error = of("nv-qldpc-decoder", &relay.replacen(from, to, 1)).expect_err(to);
        assert!(error.reason.contains(part), "{to}: {error}");
    }
    let sliding = "window_size: 2, step_size: 1, num_syndromes_per_round: 1, inner_decoder_name: pymatching";
    assert!(of("sliding_window", sliding).is_ok());
    for (from, to, part) in [
        ("window_size: 2, ", "", "missing"),
        ("step_size: 1", "step_size: 0", "not from 1"),
        ("num_syndromes_per_round: 1", "num_syndromes_per_round: 2", "no whole rounds"),
        ("pymatching", "multi_error_lut", "pymatching` alone"),
        ("window_size: 2", "window_size: 2, straddle_end_round: false", "only `true`"),
    ] {
        let error = of("sliding_window", &sliding.replacen(from, to, 1)).expect_err(to);
        assert!(error.reason.contains(part), "{to}: {error}");
    }
}

#[test]
fn matrices_that_no_decoder_takes_are_refused_when_it_is_built() {
    let build = |text: &str| Sessions::new(&parse(text).expect("it reads"), Frame::Volume).map(drop);
    let three = with("syndrome_size: 2", "syndrome_size: 3")
        .replacen("[0, 1, -1, 1, 2, -1]", "[0, 1, -1, 1, 2, -1, 1, -1]", 1)
        .replacen("[0, -1, 0, 1, -1]", "[0, -1, 1, -1, 2, -1]", 1);
    let error = build(&three).expect_err("a column in three rows");
    assert_eq!((error.line, &*error.key), (5, "decoders[0].H_sparse"));
    assert!(error.reason.contains("column 1"), "{error}");
    let none = with("H_sparse: [0, 1, -1, 1, 2, -1]", "H_sparse: [0, -1, 2, -1]");
    assert!(build(&none).expect_err("a column in no row").reason.contains("column 1"));
    // Split for correlated matching, the column of three is an edge and the end of another.
    let split = format!("{three}    decoder_custom_args: {{enable_correlations: true}}\n");
    assert!(build(&split).expect_err("no such edges").reason.contains("column 1 is no combination"));
    // Windows need rounds that repeat.
    let sliding = with("type: pymatching", "type: sliding_window");
    let arguments =
        "window_size: 2, step_size: 1, num_syndromes_per_round: 1, inner_decoder_name: pymatching";
    let text = format!("{sliding}    decoder_custom_args: {{{arguments}}}\n");
    assert_eq!(build(&text).expect_err("two rounds").key, "decoders[0].decoder_custom_args");
}

//! Options that a service, or its peer, would ignore.

use super::is_refused;

#[test]
fn options_that_do_not_apply_are_errors() {
    let udp = "does not apply to --transport udp";
    for (option, value) in [
        ("--qp", "3"),
        ("--rkey", "3"),
        ("--remote-qp", "3"),
        ("--icrc", "zero"),
        ("--mtu", "256"),
        ("--qp-type", "uc"),
        ("--psn", "3"),
        ("--peers", "3"),
        ("--device", "rxe0"),
        ("--rendezvous", "127.0.0.1:0"),
    ] {
        is_refused(&["serve", option, value], 2, &format!("{option} {udp}"));
    }
    for option in ["--slots", "--slot-bytes"] {
        let args = ["serve", "--preset", "d7", option, "64"];
        is_refused(&args, 2, &format!("{option} does not apply to --preset"));
    }
    // More slots than what serves them can tell apart.
    for (args, slots) in [
        (&["--dispatcher", "device"][..], "4097"),
        (&["--transport", "nic", "--dispatcher", "device"], "4097"),
        (&["--transport", "roce"], "4097"),
        (&["--transport", "nic"], "4097"),
        (&["--transport", "hsb", "--device", "emulated"], "8192"),
        (&["--transport", "verbs", "--device", "rxe0", "--peer", "127.0.0.2", "--remote-qp", "3"], "4097"),
    ] {
        is_refused(&[&["serve", "--slots", slots], args].concat(), 2, "4096");
    }
    let rc = ["serve", "--transport", "roce", "--qp-type", "rc"];
    let verbs = ["serve", "--transport", "verbs", "--device", "rxe0"];
    let hsb = ["serve", "--transport", "hsb", "--device", "mlx5_77"];
    let kernel = ["--dispatcher", "device"];
    // An adapter that is not there, or no rdma-core.
    is_refused(&[&hsb[..], &kernel, &["--peer", "127.0.0.2", "--remote-qp", "3"]].concat(), 1, "mlx5_77");
    for (args, says) in [
        (&[&rc[..], &[]].concat()[..], "give --peer or --rendezvous"),
        (
            &[&rc[..], &["--peer", "127.0.0.2", "--peers", "3"]].concat(),
            "--peers does not apply to --qp-type rc",
        ),
        (&["serve", "--transport", "roce", "--psn", "3"], "--psn does not apply to --qp-type uc"),
        (&["serve", "--transport", "nic", "--qp-type", "rc", "--peer", "127.0.0.2"], "give --transport roce"),
        (
            &["serve", "--transport", "roce", "--device", "rxe0"],
            "--device does not apply to --transport roce",
        ),
        (&["serve", "--transport", "verbs"], "needs --device"),
        (&["serve", "--transport", "hsb"], "needs --device"),
        (
            &["serve", "--transport", "hsb", "--device", "emulated", "--slots", "48"],
            "a power of two of --slots",
        ),
        (
            &["serve", "--transport", "hsb", "--device", "emulated", "--qp-type", "rc"],
            "give --transport roce",
        ),
        (
            &["serve", "--transport", "hsb", "--device", "emulated", "--dispatcher", "host"],
            "leave --dispatcher out",
        ),
        (
            &["serve", "--transport", "hsb", "--device", "emulated", "--queues", "host"],
            "--queues does not apply to a service without an adapter",
        ),
        (&hsb, "give --dispatcher device"),
        (&[&hsb[..], &kernel].concat(), "give --peer with --remote-qp"),
        (&[&hsb[..], &kernel, &["--kernels", "three"]].concat(), "give --kernels unified"),
        (&[&hsb[..], &kernel, &["--slots", "2"]].concat(), "4 --slots at least"),
        (
            &[&hsb[..], &kernel, &["--bind", "127.0.0.1:0"]].concat(),
            "--bind does not apply to --transport hsb with an adapter",
        ),
        (&verbs, "give --peer with --remote-qp, or --rendezvous"),
        (&[&verbs[..], &["--peer", "127.0.0.2", "--rendezvous", "127.0.0.1:0"]].concat(), "give --peer or"),
        (&[&verbs[..], &["--bind", "127.0.0.1:0"]].concat(), "--bind does not apply to --transport verbs"),
        (&[&verbs[..], &["--rkey", "3"]].concat(), "--rkey does not apply to --transport verbs"),
        (&[&verbs[..], &["--dispatcher", "device"]].concat(), "leave --dispatcher out"),
    ] {
        is_refused(args, 2, says);
    }
    // A value that is the default's was given all the same.
    is_refused(&["serve", "--transport", "udp", "--qp", "18"], 2, "--qp does not apply");
    for (option, value) in [
        ("--bind", "127.0.0.1:0"),
        ("--slots", "64"),
        ("--slot-bytes", "64"),
        ("--peer", "127.0.0.1:1"),
        ("--qp", "3"),
        ("--rkey", "3"),
        ("--remote-qp", "3"),
        ("--peers", "3"),
        ("--rendezvous", "127.0.0.1:0"),
    ] {
        let args = ["serve", "--transport", "plugin:nowhere.so", option, value];
        is_refused(&args, 2, &format!("{option} does not apply to a plug-in"));
    }
    for (args, says) in [
        (&["serve", "--dispatcher", "unified"][..], "serves --transport nic"),
        (&["serve", "--transport", "nic", "--dispatcher", "host"], "leave --dispatcher out"),
        (&["serve", "--transport", "nic", "--kernels", "three"], "--kernels is of --dispatcher device"),
        (
            &["serve", "--transport", "udp", "--dispatcher", "device", "--kernels", "three"],
            "--kernels is of --dispatcher device with --transport nic",
        ),
        (&["serve", "--transport", "plugin:nowhere.so", "--dispatcher", "device"], "leave --dispatcher out"),
        (
            &["serve", "--dispatcher", "device", "--distance", "5"],
            "--distance does not apply to --dispatcher device",
        ),
        (
            &["serve", "--dispatcher", "device", "--matching", "plain"],
            "--matching does not apply to --dispatcher device",
        ),
        (&["serve", "--dispatcher", "device", "--p", "0.1"], "--p does not apply to --dispatcher device"),
        (&["serve", "--dispatcher", "device", "--threads", "one"], "--threads does not apply"),
        (&["serve", "--", "--port=0"], "are for a plug-in"),
        (&["serve", "--transport", "roce", "--peer", "[::1]:9"], "one IPv4 address"),
        (&["serve", "--transport", "nic", "--peer", "127.0.0.1:1,127.0.0.1:2"], "without ports"),
    ] {
        is_refused(args, 2, says);
    }
    let emulate = ["emulate", "--connect", "127.0.0.1:9"];
    for (args, says) in [
        (&["--metadata"][..], "--metadata does not apply to --transport udp"),
        (&["--rendezvous", "127.0.0.1:1"], "--rendezvous does not apply to --transport udp"),
        (&["--qp", "3"], "--qp does not apply to --transport udp"),
        (&["--bind", "127.0.0.1:0"], "--bind does not apply to --transport udp"),
        (&["--icrc", "zero"], "--icrc does not apply to --transport udp"),
        (&["--mtu", "256"], "--mtu does not apply to --transport udp"),
        (&["--qp-type", "rc"], "--qp-type does not apply to --transport udp"),
        (&["--psn", "3"], "--psn does not apply to --transport udp"),
        (&["--device", "rxe0"], "--device does not apply to --transport udp"),
        (&["--transport", "verbs"], "needs --device"),
        (&["--transport", "verbs", "--device", "rxe0"], "needs --rendezvous"),
        (&["--transport", "verbs", "--device", "rxe0", "--reorder", "0.1"], "--reorder does not apply"),
        (&["--distance", "3"], "--distance does not apply to --function increment"),
        (&["--rounds", "3"], "--rounds does not apply to --function increment"),
        (&["--function", "decode", "--payload", "3"], "--payload does not apply to --function decode"),
    ] {
        is_refused(&[&emulate[..], args].concat(), 2, says);
    }
}

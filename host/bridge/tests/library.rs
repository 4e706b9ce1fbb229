//! Libraries that are none, providers that break the interface, and calls in the wrong order: each a clear error.

mod support;

use ringcall::{Ring, RingConfig};
use ringcall_bridge::loader::ProviderLibrary;
use ringcall_bridge::{BridgeError, PolledProvider, Provider, RingProvider};
use ringcall_transport::{RingFilling, UnifiedTransport};
use ringcall_wire::CudaqStatus;
use std::time::Duration;
use support::Shop;

fn opened(path: &str) -> String {
    ProviderLibrary::open(path).map(drop).expect_err("it must not open").to_string()
}

#[test]
fn what_is_no_provider_is_refused() {
    let shop = Shop::new();
    let text = shop.path("text.so");
    std::fs::write(&text, "no ELF").unwrap();
    assert!(opened(&text).starts_with("cannot load `"), "{}", opened(&text));
    let nowhere = opened(&shop.path("nowhere.so"));
    assert!(nowhere.contains("No such file or directory"), "{nowhere}");
    assert!(opened("").contains("it has no name"));
    assert!(opened("a\0b").contains("NUL"));
    for (define, why) in [
        ("-DNO_SYMBOL", "it has no cudaq_realtime_get_bridge_interface"),
        ("-DNULL_INTERFACE", "it returned no interface"),
        ("-DWILD_INTERFACE", "said to be at 0x1000, where nothing can be"),
        ("-DUNEVEN_INTERFACE", "where nothing can be"),
        ("-DVERSION=0", "has version 0; versions 1 to 3 work"),
        ("-DVERSION=4", "has version 4;"),
        ("-DVERSION=-1", "has version -1;"),
        ("-DNULL_CREATE", "its create is null"),
        ("-DNULL_DESTROY", "its destroy is null"),
        ("-DWILD_SET_TABLE", "its set_function_table is said to be at 0x1230, where no code is"),
        ("-DWILD_CREATE", "its create is said to be at 0x1230, where no code is"),
    ] {
        // Not kept: the second attempt says the same.
        let path = shop.odd(&[define, "-Wno-unused"]);
        for _ in 0..2 {
            assert!(opened(&path).contains(why), "{define}: {}", opened(&path));
        }
    }
}

#[test]
fn members_that_are_null_are_not_supported() {
    let shop = Shop::new();
    let provider = Provider::load(&shop.odd(&["-DNULL_OTHERS", "-Wno-unused"]), &[""; 0]).unwrap();
    let unsupported = |outcome: Result<(), BridgeError>| {
        let error = outcome.unwrap_err();
        assert!(matches!(error, BridgeError::Unsupported { .. }), "{error}");
        assert_eq!(error.status(), CudaqStatus::Unsupported);
    };
    unsupported(provider.connect());
    unsupported(provider.launch());
    unsupported(provider.disconnect());
    unsupported(provider.ring().map(drop));
    unsupported(provider.ring_of(4).map(drop));
    unsupported(provider.plane().map(drop));
    unsupported(provider.endpoint_info().map(drop));
    unsupported(provider.unified_context().map(drop));
    assert!(provider.stats().is_none());
}

#[test]
fn who_cannot_connect_need_not() {
    let shop = Shop::new();
    let (library, log) = (shop.odd(&["-DNULL_CONNECT", "-Wno-unused"]), shop.path("log"));
    let provider = Provider::load(&library, &[format!("--log={log}")]).unwrap();
    let ring = provider.ring().unwrap();
    // Twice: after a disconnection there is nothing to connect either.
    for _ in 0..2 {
        let filled = RingProvider::launch(provider.clone(), &ring).unwrap();
        assert!(!Box::new(filled).stop(Duration::ZERO).stuck);
    }
    drop(PolledProvider::attach(provider.clone(), &ring).unwrap());
    drop((provider, ring));
    assert_eq!(calls(&log), "clxlxlxd");
    // One that can, and fails, is not launched.
    let provider = Provider::load(&shop.odd(&[]), &["--odd=no-peer"]).unwrap();
    let ring = provider.ring().unwrap();
    assert!(matches!(RingProvider::launch(provider, &ring), Err(BridgeError::Refused { status: 2, .. })));
}

#[test]
fn an_extension_is_checked_as_the_interface_is() {
    let shop = Shop::new();
    const WHOLE: &str = "-DEXTENSION=&extension";
    let odd = |defines: &[&str]| shop.odd(&[&["-Wno-unused"], defines].concat());
    let provider = Provider::load(&odd(&[WHOLE]), &[""; 0]).unwrap();
    assert!(provider.library().has_extension() && !provider.wait(Duration::ZERO));
    let counts = provider.stats().unwrap();
    assert_eq!((counts.received, counts.answered), (7, 5));
    provider.connect().unwrap();
    assert!(provider.stop(Duration::ZERO).unwrap(), "it knows deadlines");
    let error = Provider::load(&odd(&[WHOLE]), &["--odd=status1"]).unwrap_err();
    assert!(error.to_string().contains("odd"), "{error}");
    // None, or one of another time.
    for defines in [&["-DEXTENSION=NULL"][..], &[WHOLE, "-DEXTENSION_SIZE=40"]] {
        let provider = Provider::load(&odd(defines), &[""; 0]).unwrap();
        assert!(!provider.library().has_extension() && provider.stats().is_none(), "{defines:?}");
    }
    for (defines, why) in [
        (&["-DEXTENSION=(void*)0x1000"][..], "its extension is said to be at 0x1000, where nothing can be"),
        (&["-DEXTENSION=(char*)&extension+4"], "where nothing can be"),
        (&[WHOLE, "-DEXTENSION_STOP=NULL"], "its extension's stop is null"),
        (&[WHOLE, "-DEXTENSION_STOP=(void*)&extension"], "where no code is"),
    ] {
        let path = odd(defines);
        assert!(opened(&path).contains(why), "{defines:?}: {}", opened(&path));
    }
}

#[test]
fn a_table_of_version_1_ends_early() {
    let shop = Shop::new();
    let provider =
        Provider::load(&shop.odd(&["-DV1_SIZE", "-Wno-unused", "-Wno-pedantic"]), &[""; 0]).unwrap();
    assert_eq!(provider.library().version(), 1);
    // What lies after its end is taken for no member.
    assert!(matches!(provider.ring_geometry(), Err(BridgeError::Unsupported { .. })));
    let ring = provider.ring_of(4).unwrap();
    assert_eq!((ring.geometry().slots(), ring.geometry().rx_stride()), (4, 64));
    let filled = RingProvider::launch(provider, &ring).unwrap();
    assert_eq!(filled.endpoint().transport, "plugin");
    assert!(!Box::new(filled).stop(Duration::ZERO).stuck);
}

#[test]
fn a_table_of_version_2_ends_before_the_function_table() {
    let shop = Shop::new();
    // What lies where version 3 has its member is no code: it is not looked at.
    let provider =
        Provider::load(&shop.odd(&["-DVERSION=2", "-DWILD_SET_TABLE", "-Wno-unused"]), &[""; 0]).unwrap();
    assert_eq!((provider.library().version(), provider.ring_geometry().unwrap()), (2, (4, 64)));
    let provider = Provider::load(&shop.odd(&[]), &[""; 0]).unwrap();
    assert_eq!(provider.library().version(), 3);
}

#[test]
fn garbage_is_recognised() {
    let shop = Shop::new();
    let library = shop.odd(&[]);
    let make = |odd: &str| Provider::load(&library, &[format!("--odd={odd}")]);
    let garbage = |odd: &str, outcome: Result<(), BridgeError>, why: &str| {
        let error = outcome.expect_err(odd);
        assert!(matches!(error, BridgeError::Garbage { .. }), "{odd}: {error}");
        assert_eq!(error.status(), CudaqStatus::Internal);
        assert!(error.to_string().contains(why), "{odd}: {error}");
    };
    assert!(make("").unwrap().ring().is_ok() && make("").unwrap().plane().is_ok());
    garbage("null-handle", make("null-handle").map(drop), "a null handle");
    for (odd, why) in [
        ("null-ring", "rx_flags is null, for the device and for the host"),
        ("zero-strides", "rx_stride_sz: a slot is a multiple of 8 bytes"),
        ("short-stride", "tx_stride_sz: a slot is a multiple of 8 bytes, at least 24"),
        ("uneven-stride", "not 28 bytes"),
        ("huge-stride", "rx_stride_sz is 18446744073709551608"),
        ("misaligned", "is not aligned to 8 bytes"),
        ("unmapped", "tx_data_host is said to be 256 bytes at 0x10, which cannot be written"),
        ("read-only", "which cannot be written"),
        ("overlap", "tx_flags_host and rx_data_host overlap"),
        ("overlap-data", "rx_data_host and tx_data_host overlap"),
        ("in-place-uneven", "rx_data_host and tx_data_host overlap"),
        ("device-only", "rx_flags_host is null"),
        ("no-slots", "a ring has 1 to 1048576 slots, not 0"),
        ("many-slots", "a ring has 1 to 1048576 slots"),
        ("more-slots", "which cannot be written"),
    ] {
        garbage(odd, make(odd).unwrap().ring().map(drop), why);
    }
    // Responses may lie in their requests' slots.
    assert!(make("in-place").unwrap().ring().is_ok() && make("in-place").unwrap().plane().is_ok());
    // A device may see what this host does not.
    assert!(make("device-only").unwrap().ring_buffer().is_ok());
    for (odd, why) in [
        ("empty-plane", "rx_poll is null"),
        ("half-plane", "tx_publish is null"),
        ("zero-strides", "rx_stride_sz"),
        ("device-only", "rx_data_host is null"),
        ("unmapped", "cannot be written"),
        ("overlap", "rx_data_host and tx_flags_host overlap"),
        ("overlap-data", "rx_data_host and tx_data_host overlap"),
        ("in-place-uneven", "rx_data_host and tx_data_host overlap"),
        ("no-slots", "a ring has 1 to"),
    ] {
        garbage(odd, make(odd).unwrap().plane().map(drop), why);
    }
    for (odd, why) in [
        ("no-nul", "no NUL in 1024 bytes"),
        ("overrun", "more than the 1024 bytes that it was given"),
        ("two-lines", "no single line"),
        ("no-text", "no UTF-8"),
    ] {
        garbage(odd, make(odd).unwrap().endpoint_info().map(drop), why);
    }
    // The loop is the caller's.
    let unified = make("").unwrap().unified_context().unwrap();
    assert!(unified.launch_fn.is_none() && unified.transport_ctx.is_null());
}

#[test]
fn statuses_are_passed_on() {
    let shop = Shop::new();
    let library = shop.odd(&[]);
    for (raw, status) in [
        (1, CudaqStatus::InvalidArg),
        (2, CudaqStatus::Internal),
        (3, CudaqStatus::Cuda),
        (4, CudaqStatus::Unsupported),
        (99, CudaqStatus::Internal),
        (-7, CudaqStatus::Internal),
    ] {
        let error = Provider::load(&library, &[format!("--odd=status{raw}")]).unwrap_err();
        assert_eq!(error.status(), status, "{error}");
        assert!(matches!(error, BridgeError::Refused { status, .. } if status == raw));
    }
    assert!(matches!(Provider::load(&library, &["a\0b"]), Err(BridgeError::Nul(_))));
}

#[test]
fn a_provider_that_breaks_its_word_while_it_runs_is_counted_and_stalls_nobody() {
    let shop = Shop::new();
    let library = shop.odd(&[]);
    let ring = Ring::allocate(RingConfig { slots: 8, slot_bytes: 64 }).unwrap();
    let run = |odd: &str| {
        let provider = Provider::load(&library, &[format!("--odd={odd}")]).unwrap();
        let mut driven = PolledProvider::attach(provider, &ring).unwrap();
        for _ in 0..3 {
            driven.poll();
            driven.publish();
        }
        let counts = driven.stop(Duration::ZERO, &mut || ()).stats;
        assert_eq!(counts.balance(), (0, 0), "{odd}: {counts}");
        counts
    };
    assert!(run("wild-slot").malformed > 0);
    // The first one is a frame without a magic, whose refusal the provider does not send; the others are impossible.
    let same = run("same-slot");
    assert!(same.bad_magic > 0 && same.malformed > 0 && same.errors > 0, "{same}");
    assert!(run("wild-poll").errors >= 3);
    assert_eq!(run("").received, 0);
}

/// What the library was asked, in order.
fn calls(log: &str) -> String {
    std::fs::read_to_string(log).unwrap_or_default()
}

#[test]
fn the_order_of_calls_is_kept() {
    let shop = Shop::new();
    let (library, log) = (shop.odd(&[]), shop.path("log"));
    let provider = Provider::load(&library, &[format!("--log={log}")]).unwrap();
    let wrong = |outcome: Result<(), BridgeError>, state: &str| {
        let error = outcome.unwrap_err();
        assert!(matches!(error, BridgeError::Order { .. }) && error.to_string().contains(state), "{error}");
        assert_eq!(error.status(), CudaqStatus::InvalidArg);
    };
    wrong(provider.disconnect(), "not connected yet");
    provider.connect().unwrap();
    wrong(provider.connect(), "connected, not launched");
    provider.launch().unwrap();
    wrong(provider.launch(), "launched");
    wrong(provider.connect(), "launched");
    provider.disconnect().unwrap();
    wrong(provider.disconnect(), "disconnected");
    provider.connect().unwrap();
    provider.launch().unwrap();
    // What is launched is disconnected before it is destroyed.
    drop(provider);
    assert_eq!(calls(&log), "cnlxnlxd");

    // A launch without connect is the provider's to take, or to refuse.
    let log = shop.path("at-once");
    let provider = Provider::load(&library, &[format!("--log={log}")]).unwrap();
    provider.launch().unwrap();
    wrong(provider.connect(), "launched");
    provider.disconnect().unwrap();
    provider.launch().unwrap();
    drop(provider);
    assert_eq!(calls(&log), "clxlxd");

    let log = shop.path("refused");
    let provider = Provider::load(&library, &[format!("--log={log}"), "--odd=no-peer".to_owned()]).unwrap();
    assert!(matches!(provider.connect(), Err(BridgeError::Refused { status: 2, .. })));
    wrong(provider.disconnect(), "not connected yet");
    provider.destroy().unwrap();
    assert_eq!(calls(&log), "cnd");
}

#[test]
fn a_ring_outlives_its_provider_and_keeps_it() {
    let shop = Shop::new();
    let (library, log) = (shop.odd(&[]), shop.path("log"));
    let provider = Provider::load(&library, &[format!("--log={log}")]).unwrap();
    let (ring, plane) = (provider.ring().unwrap(), provider.plane().unwrap());
    provider.destroy().unwrap();
    assert_eq!(calls(&log), "c");
    drop(ring);
    assert_eq!(calls(&log), "c");
    drop(plane);
    assert_eq!(calls(&log), "cd");
}

#[test]
fn many_threads_load_one_library_once() {
    let shop = Shop::new();
    let library = shop.odd(&[]);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let provider = Provider::load(&library, &["--odd="]).unwrap();
                assert_eq!(provider.endpoint_info().unwrap(), "transport=odd port=1");
            });
        }
    });
    // The file is gone, the library is there.
    std::fs::remove_file(&library).unwrap();
    assert!(Provider::load(&library, &[""; 0]).is_ok());
}

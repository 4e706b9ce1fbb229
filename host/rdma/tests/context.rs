//! Contexts: what is refused, what is said again in another form, and what C sees.

use proptest::prelude::*;
use ringcall_rdma::context::{C_HEADER, Context, Context48, Context72, ContextError, MAGIC};
use std::process::Command;

fn ours() -> Context {
    Context {
        qp: 0x1000,
        rx_data: 0x2000,
        rx_stride: 512,
        slots: 64,
        rx_mkey: 0x1122_3344,
        tx_data: 0x9000,
        tx_stride: 128,
        tx_mkey: 0x5566_7788,
        blue_flame: 1,
        frame_bytes: 56,
        ..Context::empty()
    }
}

#[test]
fn each_field_is_checked() {
    assert!(ours().check().is_ok());
    let cases: [fn(&mut Context); 12] = [
        |c| c.qp = 0,
        |c| c.rx_data = 4,
        |c| c.tx_data = 0,
        |c| c.rx_stride = 0,
        |c| c.rx_stride = 12,
        |c| c.tx_stride = 1 << 31,
        |c| c.slots = 0,
        |c| c.slots = 4097,
        |c| c.frame_bytes = 23,
        |c| c.frame_bytes = 129,
        |c| c.blue_flame = 2,
        |c| c.bytes = 79,
    ];
    for (index, break_it) in cases.into_iter().enumerate() {
        let mut context = ours();
        break_it(&mut context);
        assert!(context.check().is_err(), "case {index}");
    }
    assert_eq!(Context { version: 2, ..ours() }.check(), Err(ContextError::Version(2)));
    assert_eq!(Context { magic: 7, ..ours() }.check(), Err(ContextError::Magic(7)));
    assert_eq!(MAGIC.to_le_bytes(), *b"RCTXUNI1");
}

#[test]
fn the_forms_say_the_same_where_they_can() {
    let later = Context72::try_from(ours()).expect("it can");
    assert_eq!((later.tx_ring_mkey, later.rx_ring_stride_num), (0x5566_7788, 64));
    // The later form does not know the request slots' key.
    assert_eq!(Context::try_from(later), Ok(Context { rx_mkey: 0, ..ours() }));
    assert_eq!(Context48::try_from(ours()), Err(ContextError::OwnResponses));
    let shared = Context { tx_data: 0x2000, tx_stride: 512, tx_mkey: 0x1122_3344, ..ours() };
    let first = Context48::try_from(shared).expect("it can");
    assert_eq!(Context::try_from(first), Ok(shared));
    assert!(Context::try_from(Context48::default()).is_err());
    assert!(Context::try_from(Context72::default()).is_err());
}

#[test]
fn the_reference_s_forms_are_not_taken_for_ours() {
    let mut bytes = [0x10; 80];
    assert!(matches!(Context::from_bytes(&bytes), Err(ContextError::Magic(_))));
    bytes[..8].copy_from_slice(b"RCTXUNI1");
    assert!(Context::from_bytes(&bytes).is_err());
    let bytes = ours().to_bytes();
    for len in 0..80 {
        assert!(matches!(Context::from_bytes(&bytes[..len]), Err(ContextError::Short { .. })), "{len}");
    }
    // A later maker's is longer, and begins the same.
    let longer = Context { bytes: 96, ..ours() };
    assert_eq!(Context::from_bytes(&[&longer.to_bytes()[..], &[1; 16]].concat()), Ok(longer));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..100), ours: bool) {
        if ours && bytes.len() >= 8 {
            bytes[..8].copy_from_slice(b"RCTXUNI1");
        }
        if let Ok(context) = Context::from_bytes(&bytes) {
            prop_assert_eq!(&context.to_bytes()[..], &bytes[..80]);
        }
    }
}

/// What a C compiler makes of the header, if there is one.
#[test]
fn c_sees_the_same_layouts() {
    let offsets = [
        ("ringcall_context48", "sizeof", 48),
        ("HSB_doca_transport_ctx", "rx_ring_stride_num", 28),
        ("ringcall_context48", "rx_ring_mkey", 24),
        ("ringcall_context48", "rx_ring_stride_num", 28),
        ("ringcall_context48", "frame_size", 32),
        ("ringcall_context48", "use_bf", 40),
        ("ringcall_context72", "sizeof", 72),
        ("ringcall_context72", "rx_ring_stride_num", 24),
        ("ringcall_context72", "tx_ring_data", 32),
        ("ringcall_context72", "tx_ring_mkey", 48),
        ("ringcall_context72", "frame_size", 56),
        ("ringcall_context72", "use_bf", 64),
        ("ringcall_context", "sizeof", 80),
        ("ringcall_context", "qp", 16),
        ("ringcall_context", "slots", 40),
        ("ringcall_context", "tx_mkey", 64),
        ("ringcall_context", "frame_bytes", 72),
    ];
    let mut text = format!("#include <stddef.h>\n{C_HEADER}\n");
    for (name, field, value) in offsets {
        let expression = match field {
            "sizeof" => format!("sizeof({name})"),
            field => format!("offsetof({name}, {field})"),
        };
        text += &format!("_Static_assert({expression} == {value}, \"{name}.{field}\");\n");
    }
    text += &format!("_Static_assert(RINGCALL_CONTEXT_MAGIC == {MAGIC}ull, \"magic\");\n");
    let file = std::env::temp_dir().join(format!("ringcall_hsb_{}.c", std::process::id()));
    std::fs::write(&file, text).expect("written");
    let compiled = Command::new("cc").args(["-fsyntax-only", "-Wall", "-Werror"]).arg(&file).output();
    std::fs::remove_file(&file).expect("it was there");
    match compiled {
        Err(why) => eprintln!("skipped: no C compiler: {why}"),
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
    }
}

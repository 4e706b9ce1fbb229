//! The committed bindings are what bindgen makes of `shim/shim.h`. `cargo xtask tensorrt` runs this; with `RINGCALL_BLESS`
//! it writes them.

use std::fs;
use std::path::Path;

const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bindings/tensorrt_shim.rs");

#[test]
fn the_bindings_are_what_the_header_gives() {
    let header = concat!(env!("CARGO_MANIFEST_DIR"), "/shim/shim.h");
    let made = std::panic::catch_unwind(|| {
        bindgen::Builder::default()
            .header(header)
            .dynamic_library_name("Shim")
            .dynamic_link_require_all(true)
            .allowlist_function("ringcall_trt_.*")
            .allowlist_type("ringcall_trt_.*")
            .allowlist_var("RINGCALL_TRT_.*")
            .rust_edition(bindgen::RustEdition::Edition2024)
            .rust_target(bindgen::RustTarget::stable(85, 0).expect("a release"))
            .wrap_unsafe_ops(true)
            .layout_tests(false)
            .formatter(bindgen::Formatter::Prettyplease)
            .default_enum_style(bindgen::EnumVariation::Consts)
            .prepend_enum_name(false)
            .generate()
    });
    let made = match made {
        Ok(made) => made.expect("the header is C").to_string(),
        // bindgen panics where it finds no libclang.
        Err(_) => {
            let why = "no libclang (LIBCLANG_PATH)";
            assert!(std::env::var_os("RINGCALL_TENSORRT_REQUIRED").is_none(), "must run: {why}");
            eprintln!("skipped: the_bindings_are_what_the_header_gives: {why}");
            return;
        }
    };
    // bindgen writes for an older libloading, whose argument was any path.
    let made = made.replace("::libloading::Library::new(path)", "::libloading::Library::new(path.as_ref())");
    if std::env::var_os("RINGCALL_BLESS").is_some() {
        fs::write(COMMITTED, &made).expect("written");
    }
    let committed = fs::read_to_string(Path::new(COMMITTED)).expect("committed");
    let differs = committed.lines().zip(made.lines()).position(|(one, other)| one != other);
    assert!(
        committed == made,
        "{COMMITTED} differs from line {:?} on: run with RINGCALL_BLESS=1",
        differs.map(|n| n + 1)
    );
}

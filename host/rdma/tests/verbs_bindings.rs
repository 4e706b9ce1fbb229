//! The committed bindings are what bindgen makes of libibverbs' header. `RINGCALL_VERBS_INCLUDE` names the folder that has
//! `infiniband/verbs.h` (`cargo xtask rdma` unpacks it to `target/rdma/headers/usr/include`), `LIBCLANG_PATH` a libclang's. With
//! `RINGCALL_BLESS` it writes them.

use std::fs;
use std::path::{Path, PathBuf};

const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bindings/ibverbs.rs");

/// What is called. Posting, polling and arming are inline functions in C: they call through `ibv_context_ops`.
const FUNCTIONS: &[&str] = &[
    "ibv_get_device_list",
    "ibv_free_device_list",
    "ibv_get_device_name",
    "ibv_open_device",
    "ibv_close_device",
    "ibv_alloc_pd",
    "ibv_dealloc_pd",
    "ibv_reg_mr_iova2",
    "ibv_dereg_mr",
    "ibv_create_comp_channel",
    "ibv_destroy_comp_channel",
    "ibv_create_cq",
    "ibv_destroy_cq",
    "ibv_get_cq_event",
    "ibv_ack_cq_events",
    "ibv_create_qp",
    "ibv_destroy_qp",
    "ibv_modify_qp",
    "ibv_query_gid",
    "ibv_get_async_event",
    "ibv_ack_async_event",
    "ibv_wc_status_str",
    "ibv_event_type_str",
];

#[test]
fn the_bindings_are_what_the_header_gives() {
    let Some(include) = std::env::var_os("RINGCALL_VERBS_INCLUDE").map(PathBuf::from) else {
        eprintln!("skipped: the_bindings_are_what_the_header_gives: RINGCALL_VERBS_INCLUDE is not set");
        return;
    };
    let header = include.join("infiniband/verbs.h");
    assert!(header.is_file(), "{} is no file", header.display());
    let made = std::panic::catch_unwind(|| {
        let builder = bindgen::Builder::default()
            .header(header.display().to_string())
            .clang_arg(format!("-I{}", include.display()))
            .dynamic_library_name("Ibverbs")
            .dynamic_link_require_all(true)
            .rust_edition(bindgen::RustEdition::Edition2024)
            .rust_target(bindgen::RustTarget::stable(85, 0).expect("a release"))
            .wrap_unsafe_ops(true)
            .layout_tests(false)
            .generate_comments(false)
            .formatter(bindgen::Formatter::Prettyplease)
            .default_enum_style(bindgen::EnumVariation::Consts)
            .prepend_enum_name(false)
            .allowlist_type("ibv_(wc|qp_attr_mask|access_flags|send_flags)");
        FUNCTIONS.iter().fold(builder, |builder, name| builder.allowlist_function(name)).generate()
    });
    let made = match made {
        Ok(made) => made.expect("the header is C").to_string(),
        // bindgen panics where it finds no libclang.
        Err(_) => {
            eprintln!("skipped: the_bindings_are_what_the_header_gives: no libclang (LIBCLANG_PATH)");
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

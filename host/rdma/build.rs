//! Build script: with feature `doca`, reads the offsets of the SDK's queue pair from its headers, if installed.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(doca_headers)");
    println!("cargo::rerun-if-env-changed=RINGCALL_DOCA_INCLUDE");
    match headers() {
        Ok(()) => println!("cargo::rustc-cfg=doca_headers"),
        Err(why) => println!("cargo::rustc-env=RINGCALL_DOCA_WHY={}", why.replace('\n', "; ")),
    }
}

#[cfg(not(feature = "doca"))]
fn headers() -> Result<(), String> {
    Err("feature `doca` of ringcall-rdma is off".to_owned())
}

#[cfg(feature = "doca")]
fn headers() -> Result<(), String> {
    use std::fmt::Write;
    use std::path::PathBuf;

    const NAMES: [&str; 2] = ["doca_gpunetio_dev_verbs_def.h", "doca_gpunetio/doca_gpunetio_dev_verbs_def.h"];
    let mut folders: Vec<PathBuf> =
        std::env::var_os("RINGCALL_DOCA_INCLUDE").iter().flat_map(std::env::split_paths).collect();
    if folders.is_empty() {
        let found = pkg_config::Config::new().cargo_metadata(false).probe("doca-gpunetio");
        folders = found
            .map_err(|_| "no RINGCALL_DOCA_INCLUDE, and pkg-config knows no doca-gpunetio")?
            .include_paths;
    }
    let header = folders
        .iter()
        .flat_map(|folder| NAMES.map(|name| folder.join(name)))
        .find(|path| path.is_file())
        .ok_or_else(|| format!("none of {folders:?} has {}", NAMES[0]))?;
    println!("cargo::rerun-if-changed={}", header.display());
    let mut builder = bindgen::Builder::default()
        .header(header.display().to_string())
        .allowlist_type("doca_gpu_dev_verbs_qp")
        .allowlist_type("doca_gpu_dev_verbs_cq")
        .layout_tests(true);
    for folder in &folders {
        builder = builder.clang_arg(format!("-I{}", folder.display()));
    }
    // bindgen panics if it finds no libclang.
    let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| builder.generate()));
    let made = made.map_err(|_| "bindgen found no libclang (LIBCLANG_PATH)".to_owned())?;
    let mut text = made.map_err(|why| format!("bindgen: {why}"))?.to_string();
    // Some generations have no receive queue.
    let receive = text.contains("pub rq_wqe_daddr");
    let qp = |field: &str| format!("std::mem::offset_of!(doca_gpu_dev_verbs_qp, {field})");
    let (receive, cq_rq) = if receive {
        let offsets = ["rq_wqe_num", "rq_wqe_daddr", "rq_dbrec"].map(|name| format!("{name}: {}", qp(name)));
        let layout = format!("Some(crate::doca::ReceiveLayout {{ {} }})", offsets.join(", "));
        (layout, format!("Some({})", qp("cq_rq")))
    } else {
        ("None".to_owned(), "None".to_owned())
    };
    let sends = ["sq_num", "sq_wqe_num", "sq_wqe_daddr", "sq_dbrec", "sq_db", "cq_sq"];
    let sends = sends.map(|name| format!("{name}: {}", qp(name))).join(", ");
    let _ = write!(
        text,
        "\npub const LAYOUT: Result<crate::doca::QpLayout, &str> = Ok(crate::doca::QpLayout {{ \
         bytes: std::mem::size_of::<doca_gpu_dev_verbs_qp>(), {sends}, receive: {receive}, cq_rq: {cq_rq} }});\n\
         const _: () = assert!(std::mem::offset_of!(doca_gpu_dev_verbs_cq, cqe_daddr) == 0 \
         && std::mem::offset_of!(doca_gpu_dev_verbs_cq, cqe_num) == 12);\n"
    );
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("no OUT_DIR")?).join("doca.rs");
    std::fs::write(&out, text).map_err(|why| format!("{}: {why}", out.display()))
}

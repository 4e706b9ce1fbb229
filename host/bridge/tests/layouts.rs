//! The headers say in C and in C++ what `layout` says in Rust.

mod support;

use core::mem::{offset_of, size_of};
use ringcall_bridge::layout::{
    CONTEXT_RING_BUFFER, CONTEXT_UNIFIED, CpuDataplane, CudaqFunctionTable, INTERFACE_VERSION, Interface,
    InterfaceV1, InterfaceV2, PROVIDER_EXTERNAL, PROVIDER_GPU_ROCE, RX_EMPTY, RX_READY, RingBuffer,
    UnifiedContext,
};
use ringcall_wire::CudaqStatus;
use std::process::Command;
use support::{Shop, root};

macro_rules! lines {
    ($out:ident, $c:literal, $type:ty: $($field:ident),*) => {
        $out += &format!("{} {}\n", $c, size_of::<$type>());
        $($out += &format!("{}.{} {}\n", $c, stringify!($field), offset_of!($type, $field));)*
    };
}

fn in_rust() -> String {
    let mut out = String::new();
    lines!(out, "cudaq_ringbuffer_t", RingBuffer: rx_flags, tx_flags, rx_data, tx_data, rx_stride_sz, tx_stride_sz,
        rx_flags_host, tx_flags_host, rx_data_host, tx_data_host);
    lines!(out, "cudaq_unified_dispatch_ctx_t", UnifiedContext: launch_fn, transport_ctx);
    lines!(out, "cudaq_cpu_dataplane_t", CpuDataplane: ctx, ring, rx_poll, tx_publish);
    let mut v1 = String::new();
    lines!(v1, "cudaq_realtime_bridge_interface_t", InterfaceV1: version, create, destroy, get_transport_context,
        connect, launch, disconnect);
    let mut v2 = String::new();
    lines!(v2, "cudaq_realtime_bridge_interface_t", InterfaceV2: get_cpu_dataplane, get_endpoint_info, get_ring_geometry);
    let mut v3 = String::new();
    lines!(v3, "cudaq_realtime_bridge_interface_t", Interface: set_function_table);
    let members = |lines: &str| lines.split_once('\n').unwrap().1.to_owned();
    let size = v3.lines().next().unwrap();
    out += &format!("{size}\n{}{}{}", members(&v1), members(&v2), members(&v3));
    lines!(out, "cudaq_function_table_t", CudaqFunctionTable: entries, count);
    out += "cudaq_status_t 4\n";
    for (name, value) in [
        ("CUDAQ_OK", CudaqStatus::Ok.raw() as i32),
        ("CUDAQ_ERR_INVALID_ARG", CudaqStatus::InvalidArg.raw() as i32),
        ("CUDAQ_ERR_INTERNAL", CudaqStatus::Internal.raw() as i32),
        ("CUDAQ_ERR_CUDA", CudaqStatus::Cuda.raw() as i32),
        ("CUDAQ_ERR_UNSUPPORTED", CudaqStatus::Unsupported.raw() as i32),
        ("CUDAQ_PROVIDER_GPU_ROCE", PROVIDER_GPU_ROCE),
        ("CUDAQ_PROVIDER_EXTERNAL", PROVIDER_EXTERNAL),
        ("RING_BUFFER", CONTEXT_RING_BUFFER),
        ("UNIFIED", CONTEXT_UNIFIED),
        ("CUDAQ_RX_READY", RX_READY),
        ("CUDAQ_RX_EMPTY", RX_EMPTY),
        ("CUDAQ_REALTIME_BRIDGE_INTERFACE_VERSION", INTERFACE_VERSION),
    ] {
        out += &format!("{name} {value}\n");
    }
    out
}

fn compiled(compiler: &str, flags: &[&str]) -> Option<String> {
    let shop = Shop::new();
    let program = shop.path("layouts");
    let built = Command::new(compiler)
        .args(flags)
        .args(["-Wall", "-Wextra", "-pedantic", "-Werror", "-I"])
        .arg(root().join("host/bridge/include"))
        .arg("-o")
        .arg(&program)
        .arg(root().join("host/bridge/tests/layouts.c"))
        .status()
        .ok()?;
    assert!(built.success(), "{compiler}");
    Some(String::from_utf8(Command::new(&program).output().unwrap().stdout).unwrap())
}

#[test]
fn c_has_the_same_layouts() {
    assert_eq!(compiled("cc", &["-std=c11"]).expect("a C compiler"), in_rust());
}

#[test]
fn cpp_has_the_same_layouts() {
    match compiled("c++", &["-x", "c++", "-std=c++11"]) {
        Some(lines) => assert_eq!(lines, in_rust()),
        None => eprintln!("skipped: no C++ compiler"),
    }
}

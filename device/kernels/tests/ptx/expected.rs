//! Every probe, and the instructions that it has to be. In its own lists, so that a probe that was forgotten
//! is missed.
//!
//! Operands are shown as in [`crate::text`]; `_` stands for any.

use std::collections::BTreeMap;

type Table = BTreeMap<String, Vec<String>>;

const SCOPES: [&str; 3] = ["sys", "gpu", "cta"];
/// Across the bus nothing but loads and stores (and the claim).
const SAME_SIDE: [&str; 2] = ["gpu", "cta"];
const LOADS: [&str; 3] = ["relaxed", "acquire", "seq_cst"];
const STORES: [&str; 3] = ["relaxed", "release", "seq_cst"];
const ORDERS: [&str; 5] = ["relaxed", "acquire", "release", "acq_rel", "seq_cst"];
/// The name in a probe's, and the operation with its type.
const OPERATIONS: [(&str, &str); 4] =
    [("add", "add.u64"), ("or", "or.b64"), ("and", "and.b64"), ("swap", "exch.b64")];

fn put(table: &mut Table, name: &str, lines: &[&str]) {
    let lines = lines.iter().map(|&line| line.to_owned()).collect();
    assert!(table.insert(format!("probe_{name}"), lines).is_none(), "{name} is there twice");
}

/// An access, with the fence before it that makes it sequentially consistent where that is asked for: in the mapping of
/// C++ to PTX a load is then an acquiring one, a read-modify-write both, and for a store the fence does all.
fn put_ordered(
    table: &mut Table,
    name: &str,
    order: &str,
    scope: &str,
    consistent: &str,
    access: impl Fn(&str) -> Vec<String>,
) {
    let (fence, order) =
        if order == "seq_cst" { (Some(format!("fence.sc.{scope}")), consistent) } else { (None, order) };
    let lines: Vec<_> = fence.into_iter().chain(access(order)).collect();
    put(table, name, &lines.iter().map(String::as_str).collect::<Vec<_>>());
}

/// All of them.
pub(crate) fn primitives(arch: &str) -> Table {
    let mut table = Table::new();
    loads_and_stores(&mut table);
    read_modify_writes(&mut table);
    exchanges(&mut table);
    windows(&mut table, arch);
    barriers(&mut table, arch);
    collectives(&mut table);
    machine(&mut table);
    table
}

fn loads_and_stores(table: &mut Table) {
    for scope in SCOPES {
        for order in LOADS {
            put_ordered(table, &format!("load_{order}_{scope}"), order, scope, "acquire", |order| {
                vec![format!("ld.{order}.{scope}.u64 v0, [arg0]"), "return v0".to_owned()]
            });
        }
        for order in STORES {
            put_ordered(table, &format!("store_{order}_{scope}"), order, scope, "relaxed", |order| {
                vec![format!("st.{order}.{scope}.u64 [arg0], arg1")]
            });
        }
    }
}

fn read_modify_writes(table: &mut Table) {
    for scope in SAME_SIDE {
        for (name, operation) in OPERATIONS {
            for order in ORDERS {
                put_ordered(table, &format!("{name}_{order}_{scope}"), order, scope, "acq_rel", |order| {
                    vec![format!("atom.{order}.{scope}.{operation} v0, [arg0], arg1"), "return v0".to_owned()]
                });
            }
        }
    }
}

/// One instruction has one order: at least that of success, and at least that of failure.
fn exchanges(table: &mut Table) {
    put(table, "claim", &["atom.acquire.sys.cas.b64 v0, [arg0], arg1, arg2", "return v1"]);
    for scope in SAME_SIDE {
        for success in ORDERS {
            for failure in LOADS {
                let order = match (success, failure) {
                    ("seq_cst", _) | (_, "seq_cst") => "seq_cst",
                    ("relaxed", "acquire") => "acquire",
                    ("release", "acquire") => "acq_rel",
                    _ => success,
                };
                let name = format!("exchange_{success}_{failure}_{scope}");
                put_ordered(table, &name, order, scope, "acq_rel", |order| {
                    vec![
                        format!("atom.{order}.{scope}.cas.b64 v0, [arg0], arg1, arg2"),
                        "return v0".to_owned(),
                    ]
                });
            }
        }
    }
}

fn windows(table: &mut Table, arch: &str) {
    const LOAD_PEER: &str = "ld.relaxed.sys.global.v2.u64";
    const STORE_PEER: &str = "st.relaxed.sys.global.v2.u64";
    const LOAD: &str = "ld.relaxed.sys.u64";
    const STORE: &str = "st.relaxed.sys.u64";

    put(table, "words_load", &["ld.acquire.sys.u64 v0, [arg0+24]", "return v0"]);
    put(table, "words_store", &["st.release.sys.u64 [arg0+24], arg1"]);
    let mut group: Vec<_> = (0..8).map(|i| format!("{LOAD} v{i}, [arg0+{}]", 64 + 8 * i)).collect();
    group.push("return v0, v1, v2, v3, v4, v5, v6, v7".to_owned());
    put(table, "words_load_group", &group.iter().map(String::as_str).collect::<Vec<_>>());

    put(table, "words_load_pair", &[&format!("{LOAD_PEER} {{v0, v1}}, [arg0+16]"), "return v0, v1"]);
    put(table, "words_store_pair", &[&format!("{STORE_PEER} [arg0+16], {{arg1, arg2}}")]);
    let two_loads = [&format!("{LOAD} v0, [arg0+8]"), &format!("{LOAD} v1, [arg0+16]"), "return v0, v1"];
    let two_stores = [&*format!("{STORE} [arg0+8], arg1"), &*format!("{STORE} [arg0+16], arg2")];
    put(table, "words_load_pair_between", &two_loads);
    put(table, "words_store_pair_between", &two_stores);
    put(table, "bytes_read_words", &two_loads);
    put(table, "bytes_write_words", &two_stores);

    put(table, "wide_load_peer", &[&format!("{LOAD_PEER} {{v0, v1}}, [arg0]"), "return v0, v1"]);
    put(table, "wide_store_peer", &[&format!("{STORE_PEER} [arg0], {{arg1, arg2}}")]);
    put(table, "wide_load_own", &["ld.v2.u64 {v0, v1}, [arg0]", "return v0, v1"]);
    put(table, "wide_store_own", &["st.v2.u64 [arg0], {arg1, arg2}"]);
    for (name, word) in [("wide_load_burst", "arg3"), ("words_load_burst", "arg2+24")] {
        let burst = [
            &*format!("@p {LOAD_PEER} {{v0, v1}}, [x]"),
            &*format!("@q {LOAD_PEER} {{v2, v3}}, [y]"),
            &*format!("@r ld.relaxed.sys.global.u64 v4, [{word}]"),
            "return v0, v1, v2, v3, v4",
        ];
        put(table, name, &burst);
    }

    let two = [
        &*format!("@p {LOAD_PEER} {{v0, v1}}, [arg0]"),
        &*format!("@q {LOAD_PEER} {{v2, v3}}, [arg1]"),
        "return v0, v1, v2, v3",
    ];
    put(table, "wide_load_two", &two);
    // A store that is neither combined nor repeated has its own instruction from Hopper on.
    let register =
        if arch == "sm_80" { "st.relaxed.sys.global.u64" } else { "st.mmio.relaxed.sys.global.u64" };
    put(table, "wide_store_register", &[&format!("{register} [arg0], arg1")]);

    put(table, "stage_word", &["ld.b64 v0, [arg0+24]", "return v0"]);
    put(table, "stage_set_word", &["st.b64 [arg0+24], arg1"]);
    put(table, "stage_pair", &["ld.v2.u64 {v0, v1}, [arg0+16]", "return v0, v1"]);
    put(table, "stage_set_pair", &["st.v2.u64 [arg0+16], {arg1, arg2}"]);
    put(table, "result_store_1", &["st.relaxed.sys.b8 [arg0+3], arg1"]);
    put(table, "result_store_4", &["st.relaxed.sys.b32 [arg0+4], arg1"]);
    put(table, "result_store_8", &["st.relaxed.sys.b64 [arg0+8], arg1"]);
}

fn barriers(table: &mut Table, arch: &str) {
    // Only loads have to be waited for; the fence that says so is there from Hopper on.
    let observe = if arch == "sm_80" { "fence.acq_rel.sys" } else { "fence.acquire.sys" };
    put(table, "observe_from_peer", &[observe]);
    put(table, "publish_to_peer", &["fence.acq_rel.sys"]);
    put(table, "publish_to_grid", &["fence.acq_rel.gpu"]);
    for name in ["warp_sync", "team_warp_sync"] {
        put(table, name, &["bar.warp.sync 0xffffffff"]);
    }
    for name in ["block_sync", "team_block_sync"] {
        put(table, name, &["barrier.sync 0"]);
    }
    let grid = [
        "barrier.sync 0",
        "mov.u32 v0, %tid.x",
        "ld.relaxed.gpu.u64 v1, [ringcall_grid_barrier+8]",
        "atom.acq_rel.gpu.add.u64 v2, [ringcall_grid_barrier], 1",
        "mov.u32 v3, %nctaid.x",
        // The last block to arrive opens the next turn …
        "st.relaxed.gpu.u64 [ringcall_grid_barrier], 0",
        "st.release.gpu.u64 [ringcall_grid_barrier+8], v4",
        // … which the others wait for.
        "ld.acquire.gpu.u64 v5, [ringcall_grid_barrier+8]",
        "barrier.sync 0",
    ];
    put(table, "grid_sync", &grid);
}

fn collectives(table: &mut Table) {
    const SHUFFLE: &str = "shfl.sync.idx.b32";
    const SHUFFLE_XOR: &str = "shfl.sync.bfly.b32";
    /// The farthest lane of a segment (all of a warp), and the lanes that take part.
    const ALL: &str = "31, 0xffffffff";

    put(table, "shuffle_idx_u32", &[&format!("{SHUFFLE} v0, arg0, arg1, {ALL}"), "return v0"]);
    put(table, "shuffle_xor_u32", &[&format!("{SHUFFLE_XOR} v0, arg0, arg1, {ALL}"), "return v0"]);
    put(table, "team_warp_shuffle", &[&format!("{SHUFFLE} v0, arg0, 5, {ALL}"), "return v0"]);
    put(table, "team_warp_shuffle_xor", &[&format!("{SHUFFLE_XOR} v0, arg0, 5, {ALL}"), "return v0"]);
    let half = format!("{SHUFFLE} _, _, 5, {ALL}");
    put(table, "team_warp_shuffle_u64", &[&half, &half, "return _"]);
    for name in ["ballot", "team_warp_ballot"] {
        put(table, name, &["vote.sync.ballot.b32 v0, p, 0xffffffff", "return v0"]);
    }
    let exchange = |distance: u32| format!("{SHUFFLE_XOR} _, _, {distance}, {ALL}");
    for (name, halves) in [("team_warp_sum", 1), ("team_warp_max", 1), ("team_warp_sum_u64", 2)] {
        let mut lines = Vec::new();
        for distance in [16, 8, 4, 2, 1] {
            lines.extend((0..halves).map(|_| exchange(distance)));
        }
        lines.push("return _".to_owned());
        put(table, name, &lines.iter().map(String::as_str).collect::<Vec<_>>());
    }
    put(table, "team_warp_lanes", &["return 32"]);
}

fn machine(table: &mut Table) {
    const REGISTERS: [(&str, &str); 17] = [
        ("lane_id", "u32 %laneid"),
        ("thread_id", "u32 %tid.x"),
        ("block_threads", "u32 %ntid.x"),
        ("block_id", "u32 %ctaid.x"),
        ("grid_blocks", "u32 %nctaid.x"),
        ("dynamic_shared_bytes", "u32 %dynamic_smem_size"),
        ("team_warp_lane", "u32 %laneid"),
        ("team_block_thread", "u32 %tid.x"),
        ("team_block_threads", "u32 %ntid.x"),
        ("team_grid_block", "u32 %ctaid.x"),
        ("team_grid_blocks", "u32 %nctaid.x"),
        ("team_grid_thread", "u32 %tid.x"),
        ("team_grid_threads", "u32 %ntid.x"),
        ("global_timer_ns", "u64 %globaltimer"),
        ("clock_cycles", "u64 %clock64"),
        ("clock_now_ns", "u64 %globaltimer"),
        ("clock_ticks", "u64 %clock64"),
    ];
    for (name, register) in REGISTERS {
        put_register(table, name, register);
    }
    put(table, "clock_ticks_twice", &["mov.u64 v0, %clock64", "mov.u64 v1, %clock64", "return v2"]);
    put(table, "nanosleep", &["nanosleep.u32 arg0"]);
    put(table, "hint_spin", &[]);
    put(table, "trap", &["trap"]);
    // The length that the handler says goes through this thread's own stack.
    let call = [
        "st.local.b32 [stack], 0",
        "call arg0, (arg1, arg2, arg3, arg4, stack)",
        "ld.local.b32 v0, [stack]",
        "st.b32 [arg5], v0",
        "return called",
    ];
    put(table, "call", &call);
}

/// `register` with its type before it.
fn put_register(table: &mut Table, name: &str, register: &str) {
    let (ty, register) = register.split_once(' ').expect("a type and a register");
    put(table, name, &[&format!("mov.{ty} v0, {register}"), "return v0"]);
}

/// Those that need the device runtime.
pub(crate) fn launches() -> Table {
    let mut table = Table::new();
    put_register(&mut table, "graph_current", "u64 %current_graph_exec");
    // The streams of `cuda_device_runtime_api.h`.
    for (name, stream) in
        [("graph_fire_and_forget", 0x0200_0000_0000_0000_u64), ("graph_tail_launch", 0x0100_0000_0000_0000)]
    {
        let call = format!("call.uni cudaGraphLaunch, (arg0, {stream})");
        put(&mut table, name, &["fence.acq_rel.gpu", &call, "return called"]);
    }
    table
}

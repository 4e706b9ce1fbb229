//! Barriers, collectives, identity, clocks and calls.

use ringcall_gpu::team::{Block, Grid, Warp};
use ringcall_gpu::{barrier, clock, hint, ptx};

probe!(["observe_from_peer"] () { barrier::observe_from_peer() });
probe!(["publish_to_peer"] () { barrier::publish_to_peer() });
probe!(["publish_to_grid"] () { barrier::publish_to_grid() });

probe!(["warp_sync"] () { ptx::warp_sync() });
probe!(["shuffle_idx_u32"] (value: u32, from: u32) -> u32 { ptx::shuffle_idx_u32(value, from) });
probe!(["shuffle_xor_u32"] (value: u32, mask: u32) -> u32 { ptx::shuffle_xor_u32(value, mask) });
probe!(["ballot"] (condition: bool) -> u32 { ptx::ballot(condition) });
probe!(["block_sync"] () { ptx::block_sync() });
probe!(["grid_sync"] () { ptx::grid_sync() });

probe!(["team_warp_sync"] () { Warp::current().sync() });
probe!(["team_warp_lane"] () -> u32 { Warp::current().lane() });
probe!(["team_warp_lanes"] () -> u32 { Warp::current().lanes() });
probe!(["team_warp_shuffle"] (value: u32) -> u32 { Warp::current().shuffle(value, 5) });
probe!(["team_warp_shuffle_u64"] (value: u64) -> u64 { Warp::current().shuffle_u64(value, 5) });
probe!(["team_warp_shuffle_xor"] (value: u32) -> u32 { Warp::current().shuffle_xor(value, 5) });
probe!(["team_warp_ballot"] (vote: bool) -> u32 { Warp::current().ballot(vote) });
probe!(["team_warp_sum"] (value: u32) -> u32 { Warp::current().sum(value) });
probe!(["team_warp_sum_u64"] (value: u64) -> u64 { Warp::current().sum_u64(value) });
probe!(["team_warp_max"] (value: u32) -> u32 { Warp::current().max(value) });
probe!(["team_block_sync"] () { Block::current().sync() });
probe!(["team_block_thread"] () -> u32 { Block::current().thread() });
probe!(["team_block_threads"] () -> u32 { Block::current().threads() });
probe!(["team_grid_block"] () -> u32 { Grid::current().block() });
probe!(["team_grid_blocks"] () -> u32 { Grid::current().blocks() });
probe!(["team_grid_thread"] () -> u32 { Grid::current().thread() });
probe!(["team_grid_threads"] () -> u32 { Grid::current().threads() });

probe!(["lane_id"] () -> u32 { ptx::lane_id() });
probe!(["thread_id"] () -> u32 { ptx::thread_id() });
probe!(["block_threads"] () -> u32 { ptx::block_threads() });
probe!(["block_id"] () -> u32 { ptx::block_id() });
probe!(["grid_blocks"] () -> u32 { ptx::grid_blocks() });
probe!(["dynamic_shared_bytes"] () -> u32 { ptx::dynamic_shared_bytes() });

probe!(["global_timer_ns"] () -> u64 { ptx::global_timer_ns() });
probe!(["clock_cycles"] () -> u64 { ptx::clock_cycles() });
probe!(["clock_now_ns"] () -> u64 { clock::now_ns() });
probe!(["clock_ticks"] () -> u64 { clock::ticks() });
// A clock that is read twice is read twice.
probe!(["clock_ticks_twice"] () -> u64 {
    let before = clock::ticks();
    clock::ticks().wrapping_sub(before)
});
probe!(["nanosleep"] (ns: u32) { ptx::nanosleep(ns) });
probe!(["hint_spin"] () { hint::spin() });

probe!(["trap"] () { ptx::trap() });
probe!(["call"] (address: u64, input: u64, output: u64, arg_len: u32, capacity: u32, len: &mut u32) -> i32 {
    // SAFETY: a probe is never called.
    let returned = unsafe { ptx::call::call(address, input, output, arg_len, capacity) };
    *len = returned.len;
    returned.status
});

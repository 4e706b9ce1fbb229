//! Teams of threads on a CPU do what a device's do.
#![cfg(not(loom))]

use ringcall_gpu::team::{self, Block, Broken, Grid, OutBytes, SpinBarrier, Warp};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

/// What a panic says.
fn message(run: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(run)).expect_err("it panics");
    match panic.downcast_ref::<String>() {
        Some(text) => text.clone(),
        None => (*panic.downcast_ref::<&str>().expect("a text")).to_owned(),
    }
}

#[test]
fn lanes_know_their_indices() {
    for lanes in [1, 2, 5, 31, 32] {
        let seen = team::run_warp(lanes, |warp| (warp.lane(), warp.lanes()));
        assert!(seen.into_iter().eq((0..lanes).map(|lane| (lane, lanes))), "{lanes}");
    }
}

#[test]
fn shuffles_move_values_between_lanes() {
    for lanes in [2, 7, 32] {
        let moved = team::run_warp(lanes, |warp| {
            let (lane, value) = (warp.lane(), 100 + warp.lane());
            let wide = u64::from(value) << 32 | 1;
            [
                warp.shuffle(value, lane + 1),
                (warp.shuffle_u64(wide, lane + lanes - 1) >> 32) as u32,
                warp.shuffle_xor(value, 1),
                warp.shuffle_xor(value, 33),
                warp.shuffle(value, 0),
            ]
        });
        for (lane, moved) in (0..lanes).zip(moved) {
            let buddy = if lane ^ 1 < lanes { lane ^ 1 } else { lane };
            let (next, last) = ((lane + 1) % lanes, (lane + lanes - 1) % lanes);
            assert_eq!(moved, [next, last, buddy, buddy, 0].map(|lane| lane + 100), "lane {lane} of {lanes}");
        }
    }
}

#[test]
fn votes_and_sums_are_the_same_on_all_lanes() {
    for lanes in [1, 3, 32] {
        let all = if lanes == 32 { u32::MAX } else { (1 << lanes) - 1 };
        let outcomes = team::run_warp(lanes, |warp| {
            let lane = warp.lane();
            // The last lane's values overflow.
            let value = if lane + 1 == lanes { u32::MAX } else { lane };
            (
                warp.ballot(lane % 3 == 0),
                [warp.any(lane == 0), warp.any(false), warp.all(true), warp.all(lane != 0)],
                [warp.sum(value), warp.max(lane * 2)],
                warp.sum_u64(u64::from(lane) << 40),
            )
        });
        let expected = (
            0x4924_9249 & all,
            [true, false, true, false],
            [(0..lanes - 1).sum::<u32>().wrapping_sub(1), (lanes - 1) * 2],
            (0..u64::from(lanes)).sum::<u64>() << 40,
        );
        assert!(outcomes.into_iter().all(|outcome| outcome == expected), "{lanes}");
    }
}

/// Rounds follow each other without mixing: a slow lane never sees the next round's values.
#[test]
fn collectives_in_a_row_do_not_mix() {
    let rounds = 200;
    let sums = team::run_warp(8, |warp| {
        (0..rounds).filter(|round| warp.sum(round + warp.lane()) != 8 * round + 28).count()
    });
    assert_eq!(sums, [0; 8]);
}

#[test]
fn strides_share_a_range_without_gaps_or_overlaps() {
    for (blocks, threads, len) in [(1, 1, 5), (2, 3, 17), (3, 40, 100), (2, 4, 0), (1, 8, 3)] {
        let shares = team::run_grid(blocks, threads, |grid| grid.stride(len).collect::<Vec<_>>());
        for (rank, share) in shares.iter().enumerate() {
            assert_eq!(share.first(), Some(&rank).filter(|&&rank| rank < len));
        }
        let mut all = shares.concat();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..len), "{blocks} x {threads}, {len}");
    }
}

#[test]
fn threads_of_a_grid_know_their_positions() {
    let positions = team::run_grid(2, 40, |grid| {
        let (block, warp) = (grid.as_block(), grid.as_block().warp());
        assert_eq!((grid.blocks(), grid.threads(), grid.size()), (2, 40, 80));
        assert_eq!((block.thread(), block.threads()), (grid.thread(), 40));
        assert_eq!(warp.lanes(), if grid.thread() < 32 { 32 } else { 8 });
        assert_eq!(block.stride(41).next(), Some(block.thread() as usize));
        // Lanes of different warps and blocks do not mix.
        let first = warp.shuffle(grid.rank(), 0);
        (grid.rank(), grid.block(), grid.thread(), warp.lane(), first)
    });
    for (rank, position) in (0..80).zip(positions) {
        let (block, thread) = (rank / 40, rank % 40);
        assert_eq!(position, (rank, block, thread, thread % 32, block * 40 + thread / 32 * 32));
    }
}

/// After each barrier every thread sees what all the others wrote before it.
#[test]
fn barriers_of_a_grid_order_what_was_written() {
    let bytes = Mutex::new(vec![0_u32; 12]);
    team::run_grid(3, 4, |grid| {
        for round in 1..20 {
            bytes.lock().expect("no panic")[grid.rank() as usize] = round;
            grid.sync();
            assert!(bytes.lock().expect("no panic").iter().all(|&seen| seen == round));
            grid.as_block().sync();
            grid.as_block().warp().sync();
            grid.sync();
        }
    });
}

#[test]
fn a_team_of_one_waits_for_nobody() {
    let (warp, block, grid) = (Warp::single(), Block::single(), Grid::single());
    assert_eq!((warp.lane(), warp.lanes(), block.threads(), grid.size(), grid.rank()), (0, 1, 1, 1, 0));
    warp.sync();
    block.sync();
    grid.sync();
    assert_eq!((warp.shuffle(7, 3), warp.shuffle_xor(7, 1), warp.shuffle_u64(7, 9)), (7, 7, 7));
    assert_eq!((warp.ballot(true), warp.sum(5), warp.sum_u64(5), warp.max(5)), (1, 5, 5, 5));
    assert!(warp.any(true) && !warp.all(false));
    assert!(grid.stride(4).eq(0..4));
    assert_eq!(block.warp().lanes(), 1);
    assert_eq!(grid.as_block().thread(), 0);
}

#[test]
fn a_panic_ends_the_whole_team_and_is_the_one_reported() {
    let text = message(|| {
        team::run_warp(8, |warp| {
            warp.sync();
            assert_ne!(warp.lane(), 5, "lane 5 has had enough");
            warp.sync();
        });
    });
    assert!(text.contains("lane 5 has had enough"), "{text}");
    let text = message(|| {
        team::run_grid(2, 3, |grid| {
            assert_ne!(grid.rank(), 4, "rank 4 has had enough");
            grid.as_block().sync();
            grid.sync();
        });
    });
    assert!(text.contains("rank 4 has had enough"), "{text}");
}

#[test]
fn a_thread_that_does_not_come_is_said_so() {
    let text = message(|| {
        team::run_warp(4, |warp| {
            if warp.lane() != 2 {
                warp.sync();
            }
        });
    });
    assert!(text.contains("returned while others wait"), "{text}");
}

/// A thread that leaves right after a barrier does not break it for those that are still on their way out of it.
#[test]
fn leaving_after_the_last_barrier_is_no_breach() {
    for _ in 0..200 {
        team::run_warp(4, |warp| warp.sync());
    }
}

#[test]
fn a_broken_barrier_stays_broken() {
    let barrier = SpinBarrier::new(2);
    barrier.leave(false);
    assert_eq!([barrier.wait(), barrier.wait(), barrier.wait()], [Err(Broken::Left); 3]);
    barrier.leave(true);
    assert_eq!(barrier.wait(), Err(Broken::Panicked));
}

#[test]
fn impossible_teams_are_refused() {
    for run in [
        (|| drop(team::run_warp(0, |_| ()))) as fn(),
        || drop(team::run_warp(33, |_| ())),
        || drop(team::run_grid(0, 1, |_| ())),
        || drop(team::run_grid(1, 0, |_| ())),
        || drop(team::run_grid(1, 1025, |_| ())),
        || drop(team::run_grid(u32::MAX, 1024, |_| ())),
    ] {
        let text = message(run);
        assert!(text.contains(" has 1 to "), "{text}");
    }
}

#[test]
fn a_team_writes_one_buffer() {
    let mut bytes = [0; 40];
    let (head, tail) = OutBytes::new(&mut bytes).split_at(5).expect("inside");
    team::run_warp(5, |warp| {
        let lane = warp.lane();
        assert!(head.store(lane as usize, [lane as u8 + 1]));
        assert!(tail.store(lane as usize * 4, (lane + 1000).to_le_bytes()));
        // After the end: nothing is written, in part or whole.
        assert!(!head.store(4, [9; 2]) && !head.store(usize::MAX, [9]) && !tail.store(33, [9; 4]));
    });
    assert!(tail.store(27, 0x0102_0304_0506_0708_u64.to_le_bytes()));
    assert!(tail.split_at(36).is_none() && tail.len() == 35 && !tail.is_empty());
    assert_eq!(bytes[..5], [1, 2, 3, 4, 5]);
    let words = (1000..1005_u32).flat_map(u32::to_le_bytes);
    assert!(bytes[5..25].iter().copied().eq(words));
    assert_eq!(bytes[25..], [0, 0, 0, 0, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1]);
}

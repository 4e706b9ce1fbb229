// Bounded waits, and positions in rings.
#pragma once

#include "shape.cuh"

namespace predecoder {

struct Guard {
    volatile u32* dead;
    u32* failed;
    long long limit;

    __device__ __forceinline__ bool over(long long start, u32 code) const
    {
        if (*dead)
            return true;
        if (clock64() - start <= limit)
            return false;
        *dead = 1;
        *failed = code;
        return true;
    }
    // Whether the phase ended. `CLUSTER`: which others of the cluster end.
    template <bool CLUSTER = false>
    __device__ __forceinline__ bool wait(u32 bar, u32 parity, u32 code) const
    {
        const auto ended = [&] { return CLUSTER ? barrier_try_cluster(bar, parity) : barrier_try(bar, parity); };
        if (ended())
            return true;
        const long long start = clock64();
        while (!ended())
            if (over(start, code))
                return false;
        return true;
    }
    // By a whole warp: whether the counters of the tiles `low ..= high`, at most 32 (plan.rs sees to that), have come to `target`.
    __device__ __forceinline__ bool reach(const u32* counters, int low, int high, u32 target, u32 code) const
    {
        const int lane = threadIdx.x % 32;
        const u32* const mine = counters + min(low + lane, high) * SECTOR;
        const long long start = clock64();
        for (;;) {
            const bool there = static_cast<int>(load_acquire(mine) - target) >= 0;
            if (__all_sync(~0u, there)) {
                __syncwarp(); // what each lane acquired is there for all
                return true;
            }
            if (__any_sync(~0u, over(start, code)))
                return false;
        }
    }
};

struct Ring {
    u32 index, phase, size;
    __device__ __forceinline__ Ring(u32 passed, u32 size) : index(passed % size), phase(passed / size & 1), size(size) {}
    __device__ __forceinline__ void next()
    {
        if (++index == size) {
            index = 0;
            phase ^= 1;
        }
    }
};

} // namespace predecoder

// The two warps that fetch: weights, and activations of the layer before.
#pragma once

#include "run.cuh"

namespace predecoder {

template <class S>
__device__ __forceinline__ void Run<S>::weights(bool ahead) const
{
    if (lane == 0) {
        constexpr u32 EACH = 2 * S::STAGES_LAYER;
        const u32 begin = request == 0 ? 0 : request * EACH + p.stages;
        const u32 end = (request + 1) * EACH + (ahead ? p.stages : 0);
        Ring ring(begin, p.stages);
        for (u32 i = begin; i < end; ++i) {
            // Warps of a block that gave up are through with what has not even come.
            if (i >= (u32)p.stages && (!guard.wait(w_empty + 8 * ring.index, ring.phase ^ 1, 1) || dead()))
                break;
            const int s = i % EACH, layer = s / S::STAGES_LAYER, r = s % S::STAGES_LAYER;
            const int slab = r / (3 / S::LINES), dy = r % (3 / S::LINES) * S::LINES, dz = slab / S::QS, q = ks * S::QN + slab % S::QS * QW;
            const u32 full = w_full + 8 * ring.index, to = base + p.off_ring + ring.index * S::STAGE;
            barrier_expect(full, S::STAGE);
#pragma unroll
            for (int m = 0; m < S::WGM; ++m)
#pragma unroll
                for (int n = 0; n < QW; ++n)
                    bulk_copy(to + (m * QW + n) * S::LINES * PIECE, p.wmid + ((((layer * 2 + (S::CS == 2 ? cs : m)) * 3 + dz) * 4 + q + n) * 3 + dy) * PIECE,
                              S::LINES * PIECE, full);
            ring.next();
        }
        // None may be on its way when the block ends, unless a wait ran out, after which it stays for longer than a copy takes.
        for (u32 i = end - min(end, (u32)p.stages); i < end; ++i) {
            const Ring last(i, p.stages);
            if (!guard.wait(w_full + 8 * last.index, last.phase, 8))
                break;
        }
    }
    __syncwarp();
}

template <class S>
__device__ __forceinline__ void Run<S>::slabs() const
{
    group_sync(2, S::THREADS + 32);
    if (!await_free_to_write() || __any_sync(~0u, dead()))
        return;
    const u32 target = this->target();
    u32 i = request * (S::FUSED ? 1 : 2) * S::SLABS_LAYER;
    Ring ring(i, p.slabs);
    for (int layer = S::FUSED ? 1 : 0; layer < 2; ++layer) {
        const u8* const act = layer == 0 ? p.act1 : p.act2;
        // The answer is begun before this block's flips, which come after the first slab. Where all wait for all it is anyway.
        if (!S::FUSED && layer == 1 && !guard.reach(counters(0), 0, 0, target, 9))
            return;
        for (int slab = 0; slab < S::SLABS_LAYER; ++slab, ++i) {
            const int dz = slab / S::QS, group = (ks * S::QN + slab % S::QS * QW) * 2;
            const int from = first + (dz - 1) * p.plane - p.width - 1;
            // The whole grid's counter is asked for once.
            if (S::FUSED ? slab == 0 : slab % S::QS == 0) {
                // With the first, this tile itself: what lay where the slabs go is not needed any more.
                if (!await(layer, target, from, dz == 0 ? max(from + (int)p.slab_rows, first + S::N) - 1 : from + (int)p.slab_rows - 1, 2))
                    return;
                // In shared memory, too, where ordinary accesses were to what the slabs lie over.
                if (S::FUSED)
                    proxy_fence_global();
                else
                    proxy_fence();
                if (layer == 1)
                    HOLD_UP(HELD_FETCH);
            }
            if (!S::FUSED && i >= (u32)p.slabs && (!guard.wait(s_empty + 8 * ring.index, ring.phase ^ 1, 3) || __any_sync(~0u, dead())))
                return;
            const u32 full = s_full + 8 * ring.index, to = base + p.off_slabs + ring.index * p.slab_bytes;
            if (lane == 0) {
                barrier_expect(full, 2 * QW * p.slab_rows * 16);
#pragma unroll
                for (int c = 0; c < 2 * QW; ++c)
                    bulk_copy(to + c * p.group_rows * 16, act + ((group + c) * (long long)p.rows + p.pad + from) * 16, p.slab_rows * 16, full);
            }
            __syncwarp();
            ring.next();
        }
    }
    if (blockIdx.x == 0 && lane == 0) {
        fence_sc();
        if (load_relaxed(p.sync + DEAD))
            mark_answer();
    }
    __syncwarp();
}

} // namespace predecoder

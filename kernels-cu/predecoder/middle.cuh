// The two middle layers: 128 channels to 128 channels, in bytes, sums in 32-bit integers.
#pragma once

#include "run.cuh"

namespace predecoder {

// This block's sums of a layer, by the warps that multiply: 64 output channels and a tile's positions for each group of four.
template <class S>
__device__ __forceinline__ void Run<S>::multiply(int layer, u32& passed_weights, u32& passed_slabs, int (&acc)[S::COLUMNS][4]) const
{
    Ring weights(passed_weights, p.stages), slabs(passed_slabs, p.slabs);
    int more[S::SUMS][S::COLUMNS][4]; // the first is not used
#pragma unroll
    for (int i = 0; i < S::COLUMNS; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            acc[i][j] = 0;
#pragma unroll
            for (int n = 1; n < S::SUMS; ++n)
                more[n][i][j] = 0;
        }
    u32 held = ~0u, held_slab = ~0u;
    const bool in_place = S::FUSED && layer == 0;
    if (S::FUSED)
        slabs.index = 0;
#pragma unroll 1
    for (int slab = 0; slab < S::SLABS_LAYER; ++slab) {
        if (!in_place)
            guard.wait(s_full + 8 * slabs.index, slabs.phase, 4);
        if (slab == 0 && layer == 1)
            STAMP(7);
#pragma unroll 1
        for (int dy = 0; dy < 3; dy += S::LINES) {
            guard.wait(w_full + 8 * weights.index, weights.phase, 5);
            const Matrix taps(base + p.off_ring + weights.index * S::STAGE + wg * S::BLOCK_STAGE, 1024);
            const Matrix rows(base + p.off_slabs + slabs.index * p.slab_bytes + dy * p.width * 16, p.group_rows * 16);
            wgmma_begin();
#pragma unroll
            for (int i = 0; i < QW * S::LINES * 3; ++i) {
                const int dx = i % 3, line = i / 3 % S::LINES, q = i / 3 / S::LINES;
                const u64 a = taps.at(i * TAP_BYTES), b = rows.at((line * p.width + dx + q * 2 * p.group_rows) * 16);
                if (i % S::SUMS == 0)
                    BytesProduct<S::N>::add(reinterpret_cast<int(&)[S::N / 2]>(acc), a, b);
                else
                    BytesProduct<S::N>::add(reinterpret_cast<int(&)[S::N / 2]>(more[i % S::SUMS]), a, b);
            }
            wgmma_commit();
            wgmma_wait<1>();
            if (lane == 0) {
                if (held != ~0u)
                    barrier_arrive(w_empty + 8 * held);
                if (!S::FUSED && held_slab != ~0u)
                    barrier_arrive(s_empty + 8 * held_slab);
            }
            held = weights.index;
            held_slab = ~0u;
            weights.next();
        }
        held_slab = slabs.index;
        if (in_place)
            ++slabs.index;
        else
            slabs.next();
    }
    wgmma_wait<0>();
    if (lane == 0) {
        barrier_arrive(w_empty + 8 * held);
        if (!S::FUSED)
            barrier_arrive(s_empty + 8 * held_slab);
    }
#pragma unroll
    for (int n = 1; n < S::SUMS; ++n)
#pragma unroll
        for (int i = 0; i < S::COLUMNS; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j)
                acc[i][j] += more[n][i][j];
    passed_weights += S::STAGES_LAYER;
    if (!in_place)
        passed_slabs += S::SLABS_LAYER;
}

// The sums of the columns that this block finishes. Of two blocks that have sums of half the input channels each, each gets the
// other's of its columns: straight from registers to its shared memory, and from there to the registers of the same thread.
template <class S>
__device__ __forceinline__ void Run<S>::exchange(u32 phase, const int (&acc)[S::COLUMNS][4], int (&own)[S::MOST][4]) const
{
    if constexpr (S::KS == 1) {
#pragma unroll
        for (int nb = 0; nb < S::COLUMNS; ++nb)
#pragma unroll
            for (int j = 0; j < 4; ++j)
                own[nb][j] = acc[nb][j];
    } else {
        const bool sends = !dead();
        const u32 offset = p.off_received + tid * 16, to = peer_address(base + offset, rank ^ S::CS), full = peer_address(peers, rank ^ S::CS);
        // The first block may have a column less to finish: of the other's it sends one more than it keeps.
#pragma unroll
        for (int n = 0; n < S::MOST; ++n) {
            int others[4];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const int low = acc[min(n, S::LOW - 1)][j], high = acc[S::LOW + n][j];
                others[j] = ks == 0 ? high : low;
                own[n][j] = ks == 0 ? low : high;
            }
            if (sends && (n < S::LOW || ks == 0))
                send_async4(to + n * 2048, others, full);
        }
        if (tid == 0 && sends)
            barrier_expect(peers, own_count() * 2048);
        HOLD_UP(phase == 0 ? HELD_READ : HELD_READ_LAST);
        guard.template wait<true>(peers, phase, 6);
        const u8* const here = smem + offset;
#pragma unroll
        for (int n = 0; n < S::MOST; ++n) {
            const int4 v = *reinterpret_cast<const int4*>(here + n * 2048);
            own[n][0] += v.x, own[n][1] += v.y, own[n][2] += v.z, own[n][3] += v.w;
        }
    }
}

// What sums become: bytes for the next layer, where all blocks read them; or halves for the last one's products, here.
template <class S>
__device__ __forceinline__ void Run<S>::hand_on(int layer, const Scale& scale, const int (&own)[S::MOST][4]) const
{
    const int block16 = wg * 4 + wrow; // 16 channels of this block's
    const int pos = own_begin() * 8 + lane / 4;
    const u8* const here = valid + pos;
    u8* const far = p.act2 + (((S::CS == 2 ? cs * 4 : 0) + block16) * (long long)p.rows + p.pad + first + pos) * 16 + lane % 4 * 4;
    u8* const near = smem + p.off_input + (block16 * 2 * S::PFP + lane / 4) * 16 + lane % 4 * 4;
    // All of them are under way before the first is stored.
    bool ok[S::MOST];
    u32 low[S::MOST], high[S::MOST];
    const bool stores = layer != 0 || !dead();
#pragma unroll
    for (int n = 0; n < S::MOST; ++n) {
        ok[n] = (n < S::LOW || ks == S::KS - 1) && here[n * 8];
        u32 v[4];
#pragma unroll
        for (int j = 0; j < 4; ++j)
            v[j] = scale.byte(static_cast<float>(own[n][j]), j / 2);
        if (layer == 0)
            low[n] = transposed(bytes(v[0], v[2], v[1], v[3]));
        else
            low[n] = transposed(halves(v[0], v[1])), high[n] = transposed(halves(v[2], v[3]));
    }
#pragma unroll
    for (int n = 0; n < S::MOST; ++n) {
        if (layer == 0) {
            if (ok[n] && stores)
                __stcg(reinterpret_cast<u32*>(far + n * 128), low[n]);
        } else {
            *reinterpret_cast<u32*>(near + n * 128) = ok[n] ? low[n] : 0;
            *reinterpret_cast<u32*>(near + n * 128 + S::PFP * 16) = ok[n] ? high[n] : 0;
        }
    }
}

template <class S>
__device__ __forceinline__ void Run<S>::middle_layers() const
{
    u32 passed_weights = request * 2 * S::STAGES_LAYER, passed_slabs = request * (S::FUSED ? 1 : 2) * S::SLABS_LAYER;
    LastWeights last;
#pragma unroll 1
    for (int layer = 0; layer < 2; ++layer) {
        if (S::KS == 2 && request == 0 && layer == 0)
            cluster_wait();
        if (wg < S::WGM) {
            const Scale scale(layer == 0 ? p.scales2 : p.scales3, (S::CS == 2 ? cs * 64 : 0) + (wg * 4 + wrow) * 16 + lane / 4);
            int acc[S::COLUMNS][4], own[S::MOST][4];
            multiply(layer, passed_weights, passed_slabs, acc);
            STAMP(layer == 0 ? 4 : 8);
            // While others are waited for.
            if (S::CS == 2 && layer == 1)
                last = last_weights();
            if (layer == 0)
                free_to_write();
            HOLD_UP(layer == 0 ? HELD_SEND : HELD_SEND_LAST);
            exchange(layer, acc, own);
            STAMP(layer == 0 ? 5 : 9);
            // What the last layer reads lies over the slabs, which all must be through with.
            if (S::WGM == 2 && layer == 1)
                group_sync(3, S::MULTIPLY);
            hand_on(layer, scale, own);
        } else if (layer == 1) {
            last = last_weights();
        }
        if (layer == 0) {
            STAMP(6);
            arrive(1);
        }
    }
    everyone();
    // This block is through with what others wrote for it. By a warp without products.
    if (tid == 7 * 32 && !dead())
        add_release(own_counter(2), 1);
    STAMP(10);
    if (S::CS == 1)
        last = last_weights(); // registers are needed for sums until now
    last_products(last);
    STAMP(11);
}

} // namespace predecoder

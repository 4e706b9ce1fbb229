// The first layer: 4 channels in, 108 products a sum, in halves, whose sums single precision holds exactly.
//
// A row of its input has 16 bytes, the four channels of a position and of the next: with the row two further on, the four taps of
// a line, the last of them with weights of zero. So rows shifted by any number of positions are operands as they lie.
#pragma once

#include "request.cuh"
#include "run.cuh"

namespace predecoder {

// What the products read, and after that for each row whether it is a cell, and the request. Weights and scale, of 16 channels from
// `channel` on, are asked for on the way.
template <class S>
__device__ __forceinline__ typename Run<S>::Scale Run<S>::rows_of_request(int start, int rows, int channel, uint4 (&weights)[9]) const
{
    u8* const input = smem + p.off_input;
    u8* const there = input + rows * 16;
    // The request and the entries of the first cells are under way together.
    CopyIn<S::THREADS> bits(io.bits, io.bits ? answer_bytes(p.bit_count) - 1 : 0, tid);
    constexpr int BATCH = 4;
    uint4 cell[BATCH];
    const auto fetch = [&](int i0) {
#pragma unroll
        for (int n = 0; n < BATCH; ++n) {
            const int i = i0 + n * S::THREADS, at = start + i;
            cell[n] = i < rows && at < p.count ? __ldg(p.cells + at + 2 * p.pad) : make_uint4(~0u, 0, NO_BIT, NO_BIT);
        }
    };
    fetch(tid);
#pragma unroll
    for (int k = 0; k < 9; ++k)
        weights[k] = __ldg(p.w1 + (channel / 16 * 9 + k) * 32 + lane);
    const Scale scale(p.scales1, channel + lane / 4);
    const int volume = p.layers * p.d * p.d;
    // The whole request, of which a cell's bits may be anywhere: no second trip to memory once cells are known.
    u8* const request_at = there + (rows + 15) / 16 * 16;
    if (io.bits) {
        bits.finish(request_at);
        everyone();
        // For all blocks: they wait for this one before they flip.
        if (blockIdx.x == 0 && io.left)
            begin_answer<S::THREADS>(io.left, request_at, p.bit_count, tid);
    }
    const auto bit_bytes = [&](u32 i) { return request_at[i]; };
#pragma unroll 1
    for (int i0 = tid; i0 < rows; i0 += BATCH * S::THREADS) {
        if (i0 != tid)
            fetch(i0);
        uint2 row[BATCH];
        if (io.bits) {
#pragma unroll
            for (int n = 0; n < BATCH; ++n)
                row[n] = make_uint2((bit_of(bit_bytes, cell[n].z) ? 0x3c00 : 0) | (bit_of(bit_bytes, cell[n].w) ? 0x3c000000 : 0), cell[n].y);
        } else {
            unsigned short v[BATCH][4];
#pragma unroll
            for (int n = 0; n < BATCH; ++n) {
                const unsigned short* h = reinterpret_cast<const unsigned short*>(io.in) + max(static_cast<int>(cell[n].x), 0);
#pragma unroll
                for (int k = 0; k < 4; ++k)
                    v[n][k] = __ldcg(h + k * volume);
            }
#pragma unroll
            for (int n = 0; n < BATCH; ++n)
                row[n] = make_uint2(v[n][0] | (u32)v[n][1] << 16, v[n][2] | (u32)v[n][3] << 16);
        }
#pragma unroll
        for (int n = 0; n < BATCH; ++n) {
            const int i = i0 + n * S::THREADS;
            const bool ok = static_cast<int>(cell[n].x) >= 0;
            if (i < rows) {
                const uint2 v = ok ? row[n] : make_uint2(0, 0);
                *reinterpret_cast<uint2*>(input + i * 16) = v;
                if (i > 0)
                    *reinterpret_cast<uint2*>(input + i * 16 - 8) = v;
                there[i] = ok;
            }
        }
    }
    return scale;
}

// Bytes of 16 channels a warp, to where the next layer looks: the slabs of this block, or those that all blocks read.
// `group`: of the first 16 of the 64 channels.
template <class S>
__device__ __forceinline__ void Run<S>::first_bytes(const Scale& scale, int group, int row0, int outs, const float (&acc)[S::CHUNK / 8][4]) const
{
    const u8* const there = smem + p.off_input + (outs + 2 * span + 1) * 16 + span;
    u8* const near = smem + p.off_slabs + wrow * p.group_rows * 16 + lane % 4 * 4;
    u8* const far = p.act1 + ((group + wrow) * (long long)p.rows + p.pad + first) * 16 + lane % 4 * 4;
    const bool stores = S::FUSED || !dead();
    // All of them are under way before the first is stored.
    bool ok[S::CHUNK / 8];
    u32 v[S::CHUNK / 8];
#pragma unroll
    for (int nb = 0; nb < S::CHUNK / 8; ++nb) {
        ok[nb] = there[min(row0 + nb * 8 + lane / 4, outs - 1)];
        v[nb] = transposed(bytes(scale.byte(acc[nb][0], 0), scale.byte(acc[nb][2], 1), scale.byte(acc[nb][1], 0), scale.byte(acc[nb][3], 1)));
    }
#pragma unroll
    for (int nb = 0; nb < S::CHUNK / 8; ++nb) {
        const int row = row0 + nb * 8 + lane / 4;
        if (row < outs && stores && (S::FUSED || ok[nb])) {
            if (S::FUSED)
                *reinterpret_cast<u32*>(near + row * 16) = ok[nb] ? v[nb] : 0;
            else
                __stcg(reinterpret_cast<u32*>(far + row * 16), v[nb]);
        }
    }
}

template <class S>
__device__ __forceinline__ void Run<S>::first_layer() const
{
    STAMP(1);
    const u32 before = this->before();
    const int group = S::FUSED ? ks * 4 : S::CS == 2 ? cs * 4 : wg * 4; // of 16 channels
    const int outs = S::FUSED ? S::N + 2 * span : S::N;
    // Asked for after what is needed first.
    uint4 weights[9];
    const Scale scale = rows_of_request(first - span - (S::FUSED ? span : 0), outs + 2 * span + 1, (group + wrow) * 16, weights);
    proxy_fence_shared();
    everyone();
    STAMP(2);
    // Between the windows of three layers of time nothing is needed.
    const int each = ((int)p.slab_rows + S::CHUNK - 1) / S::CHUNK, all = (outs + S::CHUNK - 1) / S::CHUNK;
    const bool apart = S::FUSED && 3 * each < all;
    const int count = apart ? 3 * each : all;
    const auto row_of = [&](int i) {
        const int window = apart ? (i >= each) + (i >= 2 * each) : 0;
        return window * p.plane + (i - window * each) * S::CHUNK;
    };
    // Both groups of four warps have the same channels and take turns, or each has its own. One's sums become bytes while the tensor
    // cores work for the other.
    constexpr int TURNS = S::WGM == 1 ? 2 : 1;
#pragma unroll 1
    for (int i = TURNS == 2 ? wg : 0; i < count; i += TURNS) {
        const int row = row_of(i);
        float acc[S::CHUNK / 8][4];
        const Matrix rows(base + p.off_input + row * 16, 32);
        wgmma_begin();
        auto& sums = reinterpret_cast<float(&)[S::CHUNK / 2]>(acc);
        HalvesProduct<S::CHUNK>::begin(sums, weights[0], rows.at(0));
#pragma unroll
        for (int k = 1; k < 9; ++k)
            HalvesProduct<S::CHUNK>::add(sums, weights[k], rows.at((k / 3 * p.plane + k % 3 * p.width) * 16));
        wgmma_commit();
        wgmma_wait<0>();
        waited_for(acc);
        first_bytes(scale, group, row, outs, acc);
    }
    STAMP(3);
    tell(before);
    group_arrive(2, S::THREADS + 32);
    if (S::FUSED) {
        proxy_fence_shared();
        everyone();
    } else {
        arrive(0);
    }
}

} // namespace predecoder

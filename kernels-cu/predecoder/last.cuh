// The last layer, turned around: a product of 108 rows (27 taps x 4 channels) at every position, then a sum over shifted
// positions, and what it decides.
#pragma once

#include "request.cuh"
#include "run.cuh"

namespace predecoder {

// Lane `c` of four that are 4 lanes apart has `row[0 .. 4]`; afterwards it has element `c` of each lane's row.
__device__ __forceinline__ void transpose4(const float (&row)[4], int c, float4& column)
{
    // Lanes 1 apart swap odd and even elements, lanes 2 apart halves.
    const bool odd = c & 1, high = c & 2;
    const float s0 = __shfl_xor_sync(~0u, odd ? row[0] : row[1], 4), s1 = __shfl_xor_sync(~0u, odd ? row[2] : row[3], 4);
    const float a0 = odd ? s0 : row[0], a1 = odd ? row[1] : s0; // element c % 2 of lanes c & ~1, c | 1
    const float b0 = odd ? s1 : row[2], b1 = odd ? row[3] : s1; // element c % 2 + 2 of the same
    const float t0 = __shfl_xor_sync(~0u, high ? a0 : b0, 8), t1 = __shfl_xor_sync(~0u, high ? a1 : b1, 8);
    column = high ? make_float4(t0, t1, b0, b1) : make_float4(a0, a1, t0, t1);
}

template <class S>
__device__ __forceinline__ typename Run<S>::LastWeights Run<S>::last_weights() const
{
    constexpr int STEPS = 8 / S::CS; // of 16 channels
    LastWeights weights;
#pragma unroll
    for (int k = 0; k < STEPS; ++k)
        weights.of[k] = __ldg(p.w4 + (min(warp, 6) * 8 + (S::CS == 2 ? cs * STEPS : 0) + k) * 32 + lane);
    return weights;
}

// Of this block's channels, at the positions that it finished; another block's of the same cluster has the others.
template <class S>
__device__ __forceinline__ void Run<S>::last_products(const LastWeights& weights) const
{
    constexpr int STEPS = 8 / S::CS, COLUMNS = S::PFP / 8;
    constexpr int WIDE = COLUMNS < 4 ? COLUMNS : COLUMNS % 3 == 0 ? 3 : 4;
    const u32 input = base + p.off_input;
    const int count = own_count() * 8;
    float4* const sums = p.sums + (long long)(S::CS == 2 ? cs * 27 : 0) * p.rows + p.pad + first + own_begin() * 8;
    if (warp >= 7 || __any_sync(~0u, dead()))
        return;
#pragma unroll 1
    for (int nb0 = 0; nb0 < COLUMNS; nb0 += WIDE) {
        float sum[WIDE][4];
#pragma unroll
        for (int n = 0; n < WIDE; ++n)
#pragma unroll
            for (int j = 0; j < 4; ++j)
                sum[n][j] = 0;
#pragma unroll
        for (int k = 0; k < STEPS; k += 2)
#pragma unroll
            for (int n = 0; n < WIDE; ++n) {
                const int nb = min(nb0 + n, COLUMNS - 1);
                const uint4 v = load_matrix4(input + ((k * 2 + lane / 8) * S::PFP + nb * 8 + lane % 8) * 16);
                mma(sum[n], weights.of[k], v.x, v.y);
                mma(sum[n], weights.of[k + 1], v.z, v.w);
            }
        // Four lanes that are 4 apart have the four channels of a tap; after the exchange each has all four of one of their
        // positions: low or high tap, first or second position.
        const int c = lane / 4 % 4;
#pragma unroll
        for (int n = 0; n < WIDE; ++n) {
            float4 v;
            transpose4(sum[n], c, v);
            const int q = (nb0 + n) * 8 + lane % 4 * 2 + c % 2;
            const int tap = warp * 4 + lane / 16 + c / 2 * 2;
            if (q < count && tap < 27)
                store_relaxed4(sums + (long long)tap * p.rows + q, make_uint4(__float_as_uint(v.x), __float_as_uint(v.y), __float_as_uint(v.z), __float_as_uint(v.w)));
        }
    }
}

// Four sums are there when none of them is `ABSENT` any more: no flag, and no barrier after which they would be there.
__device__ __forceinline__ bool absent(const uint4& v) { return v.x == ABSENT || v.y == ABSENT || v.z == ABSENT || v.w == ABSENT; }

template <class S>
__device__ __forceinline__ void Run<S>::sums() const
{
    // Four lanes a position and share of the channels. What is known of it before its products are: its cell, or -1, and what its
    // decision flips.
    constexpr int LANES = 4 * S::CS;
    const int channel = lane % 4, share = lane % LANES / 4;
    const auto position = [&](int i) { return rank * S::PF + i / LANES; };
    const auto cell_of = [&](int i) {
        const int pos = position(i), at = first + pos, r = at % p.plane;
        return i / LANES < S::PF && pos < S::N && valid[pos] ? (at / p.plane * p.d + r / p.width) * p.d + r % p.width : -1;
    };
    const auto flips_of = [&](int cell) {
        const uint2 none = make_uint2(NONE, NONE);
        return io.left && share == 0 && cell >= 0 ? __ldg(reinterpret_cast<const uint2*>(p.flips) + cell * 4 + channel) : none;
    };
    int cell = cell_of(tid);
    uint2 flips = flips_of(cell);
    HOLD_UP(HELD_SUMS);
    const float factor = __ldg(p.scales4 + channel), offset = __ldg(p.scales4 + 4 + channel);
    // A lane's taps, worked out before there is anything to load; the last lane's last is none.
    constexpr int TAPS = 7;
    const auto shift = [&](int k) {
        const int tap = k * 4 + channel;
        return (tap / 9 - 1) * p.plane + (tap / 3 % 3 - 1) * p.width + tap % 3 - 1;
    };
    float4* from[TAPS];
#pragma unroll
    for (int k = 0; k < TAPS; ++k) {
        from[k] = p.sums + (share * 27 + k * 4 + channel) * (long long)p.rows + p.pad + shift(k);
        here(from[k]);
    }
    constexpr int ALL = (S::PF * LANES + 31) / 32 * 32, TURNS = (ALL + S::THREADS - 1) / S::THREADS;
#pragma unroll 1
    for (int turn = 0; turn < TURNS; ++turn) {
        const int i = tid + turn * S::THREADS;
        if (i >= ALL)
            break;
        if (turn != 0) {
            cell = cell_of(i);
            flips = flips_of(cell);
        }
        const bool ok = cell >= 0;
        const int at = first + position(i);
        // Before the first tile and after the last is nothing to wait for.
        u32 wanted = 0;
        uint4 part[TAPS];
#pragma unroll
        for (int k = 0; k < TAPS; ++k) {
            part[k] = make_uint4(0, 0, 0, 0);
            if (ok && k * 4 + channel < 27 && static_cast<u32>(at + shift(k)) < static_cast<u32>(p.tiles * S::N))
                wanted |= 1u << k;
        }
        const long long start = clock64();
        u32 missing = wanted;
        do {
            // All of them are under way before the first is looked at.
#pragma unroll
            for (int k = 0; k < TAPS; ++k)
                if (missing >> k & 1)
                    part[k] = load_relaxed4(from[k] + at);
            missing = 0;
#pragma unroll
            for (int k = 0; k < TAPS; ++k)
                missing |= static_cast<u32>(absent(part[k])) << k;
        } while (missing != 0 && !guard.over(start, 7));
        __syncwarp();
        STAMP(12);
        float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
        for (int k = 0; k < TAPS; ++k) {
            sum.x += __uint_as_float(part[k].x), sum.y += __uint_as_float(part[k].y);
            sum.z += __uint_as_float(part[k].z), sum.w += __uint_as_float(part[k].w);
            // Nobody else reads it, and who writes it next waits for this block before.
            if (wanted >> k & 1)
                store_relaxed4(from[k] + at, make_uint4(ABSENT, ABSENT, ABSENT, ABSENT));
        }
#pragma unroll
        for (int m = 1; m < LANES; m *= 2) {
            sum.x += __shfl_xor_sync(~0u, sum.x, m), sum.y += __shfl_xor_sync(~0u, sum.y, m);
            sum.z += __shfl_xor_sync(~0u, sum.z, m), sum.w += __shfl_xor_sync(~0u, sum.w, m);
        }
        if (ok && share == 0) {
            const float logit = scaled(channel == 0 ? sum.x : channel == 1 ? sum.y : channel == 2 ? sum.z : sum.w, factor, offset);
            if (io.out)
                io.out[channel * p.layers * p.d * p.d + cell] = logit;
            if (io.left && logit > p.threshold)
                flip_all(Flips{flips.x, flips.y}, p.bit_count, [&](u32 bit) { flip_global(io.left + bit / 32, 1u << bit % 32); });
        }
    }
    if (dead())
        give_up();
    STAMP(13);
}

} // namespace predecoder

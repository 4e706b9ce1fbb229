// The predecoder network, 4 -> 128 -> 128 -> 128 -> 4 channels of 3x3x3 convolutions, in one kernel.
//
// Positions are numbered through a padded grid of (d + 1) x (d + 1) x layers, so that a tap of the convolution is a
// shift of the number: the column and the row that are added are zero and serve as the border on both sides.
// Activations lie as [16 groups of 8 channels][position][8 channels], so that rows of 16 bytes, shifted by any number of
// positions, are what the tensor cores read without a swizzle.
//
// A cluster of CS x KS blocks computes one tile of P positions: CS shares of the output channels, KS shares of the input
// channels. Weights stream through a ring in shared memory, ahead of the barriers between layers. The last layer is
// turned around: a product of 108 rows (27 taps x 4 channels) at every position, then a sum over shifted positions.
#pragma once

#include "shape.cuh"
#include "wgmma_shapes.cuh"

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
    // Whether the phase ended.
    __device__ __forceinline__ bool wait(u32 bar, u32 parity, u32 code) const
    {
        if (barrier_try(bar, parity))
            return true;
        const long long start = clock64();
        while (!barrier_try(bar, parity))
            if (over(start, code))
                return false;
        return true;
    }
    // By a whole warp: whether the counters of the tiles `low ..= high`, at most 32, have come to `target`.
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

// Whether words of 4 bytes may be read or written there.
__device__ __forceinline__ bool in_words(const void* at) { return reinterpret_cast<u64>(at) % 4 == 0; }

// `bytes` bytes on their way to shared memory, aligned to words, by `THREADS` threads, nothing behind them touched. As far as
// possible in words, several of a thread under way together from the beginning on; what is left by the last threads, who have the
// fewest of them.
template <int THREADS>
class CopyIn {
    static constexpr int WORDS = 4;
    const u8* const from;
    const u32 bytes, tid, words;
    u32 word[WORDS];

    __device__ __forceinline__ void load(u32 i0)
    {
#pragma unroll
        for (int n = 0; n < WORDS; ++n)
            word[n] = i0 + n * THREADS < words ? __ldcg(reinterpret_cast<const u32*>(from) + i0 + n * THREADS) : 0;
    }

public:
    __device__ __forceinline__ CopyIn(const u8* from, u32 bytes, u32 tid)
        : from(from), bytes(bytes), tid(tid), words(in_words(from) ? bytes / 4 : 0)
    {
        load(tid);
    }
    __device__ __forceinline__ void finish(u8* to)
    {
#pragma unroll 1
        for (u32 i0 = tid; i0 < words; i0 += WORDS * THREADS) {
            if (i0 != tid)
                load(i0);
#pragma unroll
            for (int n = 0; n < WORDS; ++n)
                if (i0 + n * THREADS < words)
                    reinterpret_cast<u32*>(to)[i0 + n * THREADS] = word[n];
        }
#pragma unroll 1
        for (u32 i = words * 4 + THREADS - 1 - tid; i < bytes; i += THREADS)
            to[i] = __ldcg(from + i);
    }
};

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

// What is left of a request, by `THREADS` threads of one block, whole warps, all flips being in; which are taken back for the
// next run, each by the warp that read it, and nobody else does.
template <int THREADS>
__device__ __forceinline__ void answer(const Params& p, const Io& io, u32* flipped, u32 tid)
{
    constexpr int WORDS = 4;
    const u32 words = in_words(io.bits) && in_words(io.left) ? answer_words(p.bit_count) : 0;
#pragma unroll 1
    for (u32 i0 = tid; i0 < words; i0 += WORDS * THREADS) {
        u32 request[WORDS], flips[WORDS];
#pragma unroll
        for (int n = 0; n < WORDS; ++n) {
            const u32 i = i0 + n * THREADS;
            request[n] = i < words ? __ldcg(reinterpret_cast<const u32*>(io.bits) + i) : 0;
            flips[n] = i < words ? __ldcg(flipped + i) : 0;
        }
#pragma unroll
        for (int n = 0; n < WORDS; ++n) {
            const u32 i = i0 + n * THREADS;
            if (i < words) {
                reinterpret_cast<u32*>(io.left)[i] = answer_word(request[n], flips[n]);
                __stcg(flipped + i, 0u);
            }
        }
    }
    // The bytes behind them, at most 4 of an answer in words: by the last warp, which has the fewest.
    if (tid >= THREADS - 32) {
        const u32 lane = tid % 32;
#pragma unroll 1
        for (u32 i = words * 4 + lane; i < answer_bytes(p.bit_count); i += 32)
            io.left[i] = answer_byte([&](u32 at) { return __ldcg(io.bits + at); }, [&](u32 at) { return __ldcg(flipped + at); },
                                     p.bit_count, i);
        __syncwarp();
#pragma unroll 1
        for (u32 i = words + lane; i < flip_words(p.bit_count); i += 32)
            __stcg(flipped + i, 0u);
    }
}

// Once before the first `forward`, by all threads of a block. `smem` begins the shared memory that `Params` divides.
template <class S>
__device__ __forceinline__ void open(const Params& p, u8* smem)
{
    Head& head = *reinterpret_cast<Head*>(smem);
    const int tid = threadIdx.x;
    if (tid < p.stages) {
        barrier_init(shared_address(head.w_full + tid), 1);
        barrier_init(shared_address(head.w_empty + tid), S::WARPS);
    } else if (tid >= 32 && tid - 32 < p.slabs) {
        barrier_init(shared_address(head.s_full + tid - 32), 1);
        barrier_init(shared_address(head.s_empty + tid - 32), S::WARPS);
    } else if (tid == 64) {
        barrier_init(shared_address(&head.peers), S::KS > 1 ? 1 : S::C);
        head.dead = 0;
    }
    if (tid < 96)
        barrier_init_fence();
    if (S::FUSED) {
        const int row = cluster_rank() / S::CS * 2;
        for (int i = tid; i < 2 * 7 * 32; i += S::BLOCK)
            reinterpret_cast<uint4*>(smem + p.off_first)[i] = __ldg(p.w1 + row * 7 * 32 + i);
        if (tid < 32)
            reinterpret_cast<float*>(smem + p.off_first + 2 * 7 * 32 * 16)[tid] = __ldg(p.b1 + row * 16 + tid);
    }
    const int first = blockIdx.x / S::C * S::P;
    for (int i = threadIdx.x; i < S::P; i += S::BLOCK)
        smem[VALID_AT + i] = first + i < p.count && static_cast<int>(__ldg(p.cells + first + i + 2 * p.pad).x) >= 0;
    for (int i = threadIdx.x; i < 256; i += S::BLOCK)
        reinterpret_cast<float*>(smem + BIAS_AT)[i] = i < 128 ? __ldg(p.b2 + i) : __ldg(p.b3 + i - 128);
    // Waited for before the first exchange.
    if (S::C > 1)
        cluster_arrive();
    __syncthreads();
}

// One run of the network as one block sees it, the `request`th after `open`: what its warps do, in phases. `forward` and the
// handler put them together.
template <class S>
struct Run {
    const Params& p;
    const Io& io;
    u8* const smem;
    const u32 request;
    Head& head = *reinterpret_cast<Head*>(smem);
    const u32 base = shared_address(smem);
    const u32 w_full = shared_address(head.w_full), w_empty = shared_address(head.w_empty), s_full = shared_address(head.s_full),
              s_empty = shared_address(head.s_empty), peers = shared_address(&head.peers);
    const u8* const valid = smem + VALID_AT;
    const int tid, warp = tid / 32, lane = tid % 32;
    const u32 rank = S::C > 1 ? cluster_rank() : 0;
    const int cs = rank % S::CS, ks = rank / S::CS;
    const int tile = blockIdx.x / S::C, first = tile * S::P;
    const Guard guard{&head.dead, p.failed, p.limit};
    const int span = p.plane + p.width + 1;
    // Of a warp that computes.
    const int wg = warp / 4, wm = wg % S::WGM, wn = wg / S::WGM, wrow = warp % 4;

    __device__ __forceinline__ Run(const Params& p, const Io& io, u8* smem, u32 request, int tid = threadIdx.x)
        : p(p), io(io), smem(smem), request(request), tid(tid)
    {
    }

    // A tile's counter, or the only one.
    __device__ __forceinline__ u32* counters(int which) const { return p.sync + ARRIVED + which * MAX_TILES * SECTOR; }
    __device__ __forceinline__ u32* own_counter(int which) const { return counters(which) + (p.whole ? 0 : tile) * SECTOR; }

    // What the counters come to in this run. All arrivals of the last run are in, and none at the last barrier of this one: it
    // needs this block's at the first, which comes after this. The block's first thread asks, and tells all before that.
    __device__ __forceinline__ u32 before() const { return tid == 0 ? *(volatile u32*)own_counter(2) : 0; }
    __device__ __forceinline__ void tell(u32 before) const
    {
        if (tid == 0)
            head.base = before;
    }
    __device__ __forceinline__ u32 target() const { return *(volatile u32*)&head.base + (p.whole ? p.tiles * S::C : S::C); }

    // By a whole warp: until the blocks of all tiles that have one of the positions `low ..= high` have arrived.
    __device__ __forceinline__ bool await(int which, u32 target, int low, int high, u32 code) const
    {
        return p.whole ? guard.reach(counters(which), 0, 0, target, code)
                       : guard.reach(counters(which), max(low, 0) / S::P, max(min(high, p.count - 1), 0) / S::P, target, code);
    }
    // All warps that compute.
    __device__ __forceinline__ void everyone() const { group_sync(1, S::THREADS); }
    __device__ __forceinline__ void arrive(int which) const
    {
        everyone();
        if (tid == 0)
            add_release(own_counter(which), 1);
    }

    // Warp `S::WARPS`: weights, ahead of everything. With `ahead`, those of the next run are on their way when others return
    // from this one, and another run must follow or the block end later than they arrive: they have arrived when this returns.
    __device__ __forceinline__ void weights(bool ahead) const
    {
        if (lane == 0) {
            constexpr u32 EACH = 2 * S::STAGES_LAYER;
            const u32 begin = request == 0 ? 0 : request * EACH + p.stages;
            const u32 end = (request + 1) * EACH + (ahead ? p.stages : 0);
            Ring ring(begin, p.stages);
            for (u32 i = begin; i < end; ++i) {
                if (i >= (u32)p.stages && !guard.wait(w_empty + 8 * ring.index, ring.phase ^ 1, 1))
                    break;
                const int s = i % EACH, layer = s / S::STAGES_LAYER, r = s % S::STAGES_LAYER;
                const int slab = r / 3, dy = r % 3, dz = slab / S::QN, q = ks * S::QN + slab % S::QN;
                const u8* from = p.wmid + ((((layer * 3 + dz) * 4 + q) * 3 + dy) * 2 + (S::CS == 2 ? cs : 0)) * BLOCK_STAGE;
                barrier_expect(w_full + 8 * ring.index, S::STAGE);
                bulk_copy(base + p.off_ring + ring.index * S::STAGE, from, S::STAGE, w_full + 8 * ring.index);
                ring.next();
            }
            // None may be on its way when the block ends.
            for (u32 i = end - min(end, (u32)p.stages); i < end; ++i) {
                const Ring last(i, p.stages);
                if (!guard.wait(w_full + 8 * last.index, last.phase, 8))
                    break;
            }
        }
        __syncwarp();
    }

    // Warp `S::WARPS + 1`: activations, after each barrier.
    __device__ __forceinline__ void slabs() const
    {
        group_sync(2, S::THREADS + 32);
        const u32 target = this->target();
        u32 i = request * (S::FUSED ? 1 : 2) * S::SLABS_LAYER;
        Ring ring(i, p.slabs);
        for (int layer = S::FUSED ? 1 : 0; layer < 2; ++layer) {
            const u8* const act = layer == 0 ? p.act1 : p.act2;
            for (int slab = 0; slab < S::SLABS_LAYER; ++slab, ++i) {
                const int dz = slab / S::QN, q = ks * S::QN + slab % S::QN;
                const int from = first + (dz - 1) * p.plane - p.width - 1;
                if (slab % S::QN == 0) {
                    // With the first, this tile itself: what lay where the slabs go is not needed any more.
                    if (!await(layer, target, from, dz == 0 ? max(from + (int)p.slab_rows, first + S::P) - 1 : from + (int)p.slab_rows - 1, 2))
                        return;
                    proxy_fence();
                }
                if (!S::FUSED && i >= (u32)p.slabs && !guard.wait(s_empty + 8 * ring.index, ring.phase ^ 1, 3))
                    return;
                const u32 full = s_full + 8 * ring.index, to = base + p.off_slabs + ring.index * p.slab_bytes;
                if (lane == 0) {
                    barrier_expect(full, 4 * p.slab_rows * 16);
#pragma unroll
                    for (int c = 0; c < 4; ++c)
                        bulk_copy(to + c * p.group_rows * 16, act + ((q * 4 + c) * (long long)p.rows + p.pad + from) * 16,
                                  p.slab_rows * 16, full);
                }
                __syncwarp();
                ring.next();
            }
        }
    }

    // What the first layer computes: so many rows, the first of them at a position; its input, whether each of its rows is a cell,
    // and how far from a row a lane finds a tap.
    struct FirstRows {
        const int outs, start;
        const u8 *const input, *const there;
        const int (&shift)[14];
    };
    __device__ __forceinline__ u32 tap_of(const FirstRows& f, int row, int k) const
    {
        return *reinterpret_cast<const u32*>(f.input + row * 8 + (lane & 1) * 4 + f.shift[k]);
    }
    // The halves of 8 rows of 16 channels, as activations lie.
    __device__ __forceinline__ static uint2 activations(const float (&acc)[4])
    {
        return make_uint2(transposed(packed(fmaxf(acc[0], 0), fmaxf(acc[1], 0))), transposed(packed(fmaxf(acc[2], 0), fmaxf(acc[3], 0))));
    }

    // The rows that this block's taps reach, where its slabs are: 8 at a time, and many at once, so that no sum is waited for, with
    // weights from shared memory. Between the windows of three layers of time nothing is needed; what is too many is the last again.
    __device__ __forceinline__ void near_rows(const FirstRows& f) const
    {
        constexpr int WIDE = 7;
        const int blocks = (f.outs + 7) / 8, window = ((int)p.slab_rows + 14) / 8;
        const bool apart = 3 * window < blocks;
        const int count = apart ? 3 * window : blocks;
        const uint4* const weights = reinterpret_cast<const uint4*>(smem + p.off_first) + lane;
        const float* const bias = reinterpret_cast<const float*>(smem + p.off_first + 2 * 7 * 32 * 16) + lane / 4;
#pragma unroll 1
        for (int i0 = warp; i0 < count; i0 += WIDE * S::WARPS) {
            int row[WIDE];
            float acc[WIDE][2][4];
#pragma unroll
            for (int n = 0; n < WIDE; ++n) {
                const int i = min(i0 + n * S::WARPS, count - 1), w = apart ? (i >= window) + (i >= 2 * window) : 0;
                row[n] = min(w * p.plane / 8 + i - w * window, blocks - 1) * 8 + lane / 4;
#pragma unroll
                for (int m = 0; m < 2; ++m)
                    acc[n][m][0] = acc[n][m][1] = bias[m * 16], acc[n][m][2] = acc[n][m][3] = bias[m * 16 + 8];
            }
#pragma unroll
            for (int k = 0; k < 7; ++k) {
                const uint4 low = weights[k * 32], high = weights[(7 + k) * 32];
#pragma unroll
                for (int n = 0; n < WIDE; ++n) {
                    const u32 b0 = tap_of(f, row[n], 2 * k), b1 = tap_of(f, row[n], 2 * k + 1);
                    mma(acc[n][0], low, b0, b1);
                    mma(acc[n][1], high, b0, b1);
                }
            }
#pragma unroll
            for (int n = 0; n < WIDE; ++n) {
                const bool ok = f.there[row[n] + span];
#pragma unroll
                for (int m = 0; m < 2; ++m) {
                    const uint2 v = activations(acc[n][m]);
                    if (row[n] < f.outs) {
                        u8* const to = smem + p.off_slabs + (m * 2 * p.group_rows + row[n]) * 16 + (lane % 4) * 4;
                        *reinterpret_cast<u32*>(to) = ok ? v.x : 0;
                        *reinterpret_cast<u32*>(to + p.group_rows * 16) = ok ? v.y : 0;
                    }
                }
            }
        }
    }

    // A share of the tile's rows, to where all blocks read them: two blocks of 16 channels a warp.
    __device__ __forceinline__ void far_rows(const FirstRows& f) const
    {
        constexpr int PAIRS = 2 * S::WGM;
        const int row16 = (S::CS == 2 ? cs * 4 : 0) + warp % PAIRS * 2;
        uint4 a[2][7];
        float bias[2][2];
#pragma unroll
        for (int m = 0; m < 2; ++m) {
#pragma unroll
            for (int k = 0; k < 7; ++k)
                a[m][k] = __ldg(p.w1 + ((row16 + m) * 7 + k) * 32 + lane);
            bias[m][0] = __ldg(p.b1 + (row16 + m) * 16 + lane / 4), bias[m][1] = __ldg(p.b1 + (row16 + m) * 16 + 8 + lane / 4);
        }
        const int blocks = (f.outs + 7) / 8;
#pragma unroll 2
        for (int nb = warp / PAIRS; nb < blocks; nb += S::WARPS / PAIRS) {
            const int row = nb * 8 + lane / 4;
            float acc[2][4];
#pragma unroll
            for (int m = 0; m < 2; ++m)
                acc[m][0] = acc[m][1] = bias[m][0], acc[m][2] = acc[m][3] = bias[m][1];
#pragma unroll
            for (int k = 0; k < 7; ++k) {
                const u32 b0 = tap_of(f, row, 2 * k), b1 = tap_of(f, row, 2 * k + 1);
#pragma unroll
                for (int m = 0; m < 2; ++m)
                    mma(acc[m], a[m][k], b0, b1);
            }
            const bool ok = f.there[row + span];
#pragma unroll
            for (int m = 0; m < 2; ++m) {
                const uint2 v = activations(acc[m]);
                if (!ok)
                    continue;
                u8* const to = p.act1 + (((row16 + m) * 2) * (long long)p.rows + p.pad + f.start + span + row) * 16 + (lane % 4) * 4;
                __stcg(reinterpret_cast<u32*>(to), v.x);
                __stcg(reinterpret_cast<u32*>(to + (long long)p.rows * 16), v.y);
            }
        }
    }

    // The warps that compute. The first layer: a share of the tile's positions for all, or all that this block's taps reach.
    __device__ __forceinline__ void first_layer() const
    {
        STAMP(1);
        const u32 before = this->before();
        const int outs = S::FUSED ? S::P + 2 * span : S::SHARE1;
        const int start = (S::FUSED ? first - span : first + ks * (S::P / S::KS)) - span;
        const int rows = (outs + 7) / 8 * 8 + 2 * span;
        u8* const input = smem + p.off_input;
        u8* const there = input + rows * 8;
        // The request and the places of the first cells are under way together.
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
        const int volume = p.layers * p.d * p.d;
        // The whole request, of which a cell's bits may be anywhere: no second trip to memory once cells are known.
        u8* const request_at = there + (rows + 15) / 16 * 16;
        if (io.bits) {
            bits.finish(request_at);
            everyone();
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
                    *reinterpret_cast<uint2*>(input + i * 8) = ok ? row[n] : make_uint2(0, 0);
                    there[i] = ok;
                }
            }
        }
        int shift[14];
#pragma unroll
        for (int k = 0; k < 14; ++k) {
            const int tap = (k / 2) * 4 + (k % 2) * 2 + (lane % 4) / 2;
            shift[k] = tap < 27 ? ((tap / 9) * p.plane + (tap / 3 % 3) * p.width + tap % 3) * 8 : 0;
        }
        everyone();
        const FirstRows rows_of{outs, start, input, there, shift};
        if constexpr (S::FUSED)
            near_rows(rows_of);
        else
            far_rows(rows_of);
        STAMP(2);
        tell(before);
        group_arrive(2, S::THREADS + 32);
        if (S::FUSED) {
            proxy_fence_shared();
            everyone();
        } else {
            arrive(0);
        }
    }

    // The two middle layers, and the last one's products.
    __device__ __forceinline__ void middle_layers() const
    {
        Ring weights(request * 2 * S::STAGES_LAYER, p.stages), slabs(request * (S::FUSED ? 1 : 2) * S::SLABS_LAYER, p.slabs);
        u32 peer_phase = S::KS > 1 ? 0 : request & 1;
#pragma unroll 1
        for (int layer = 0; layer < 2; ++layer) {
            float acc[S::N / 8][4], more[S::SUMS][S::N / 8][4]; // the first of `more` is not used
#pragma unroll
            for (int i = 0; i < S::N / 8; ++i)
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
                if (slab == 0)
                    STAMP(layer == 0 ? 3 : 7);
                const u32 rows_at = base + p.off_slabs + slabs.index * p.slab_bytes + wn * S::N * 16;
#pragma unroll 1
                for (int dy = 0; dy < 3; ++dy) {
                    guard.wait(w_full + 8 * weights.index, weights.phase, 5);
                    __syncwarp();
                    const u32 stage = base + p.off_ring + weights.index * S::STAGE + wm * BLOCK_STAGE;
                    wgmma_begin();
#pragma unroll
                    for (int i = 0; i < 6; ++i) {
                        const u32 b = rows_at + (dy * p.width + i / 2) * 16 + (i % 2) * 2 * p.group_rows * 16;
                        const u64 ma = matrix(stage + i * TAP_BYTES, 1024, 128), mb = matrix(b, p.group_rows * 16, 128);
                        if (i % S::SUMS == 0)
                            Wgmma<S::N>::mma(reinterpret_cast<float(&)[S::N / 2]>(acc), ma, mb);
                        else
                            Wgmma<S::N>::mma(reinterpret_cast<float(&)[S::N / 2]>(more[i % S::SUMS]), ma, mb);
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
                for (int i = 0; i < S::N / 8; ++i)
#pragma unroll
                    for (int j = 0; j < 4; ++j)
                        acc[i][j] += more[n][i][j];
            STAMP(layer == 0 ? 4 : 8);

            const float* const bias = reinterpret_cast<const float*>(smem + BIAS_AT) + layer * 128;
            u8* const final_tile = smem + (S::KS == 1 && S::C == 1 ? p.off_exchange : p.off_final);
            if constexpr (S::KS == 1) {
                // All input channels were here: straight to halves.
                if (layer == 1)
                    everyone(); // the exchange lies over the slabs
#pragma unroll
                for (int h = 0; h < 2; ++h) {
                    const int group = wm * 8 + wrow * 2 + h; // of this block
                    const int channel = (S::CS == 2 ? cs * 64 : 0) + group * 8 + lane / 4;
                    const float b = bias[channel];
                    const int column = wn * S::N + lane / 4;
                    const u8* const here = valid + column;
                    u8* const far = p.act2 + (((S::CS == 2 ? cs * 8 : 0) + group) * (long long)p.rows + p.pad + first + column) * 16 + (lane % 4) * 4;
                    u8* const near = smem + p.off_exchange + (group * S::P + column) * 16 + (lane % 4) * 4;
#pragma unroll
                    for (int nb = 0; nb < S::N / 8; ++nb) {
                        const u32 v = transposed(packed(fmaxf(acc[nb][2 * h] + b, 0), fmaxf(acc[nb][2 * h + 1] + b, 0)));
                        if (layer == 1)
                            *reinterpret_cast<u32*>(near + nb * 128) = here[nb * 8] ? v : 0;
                        else if (here[nb * 8])
                            __stcg(reinterpret_cast<u32*>(far + nb * 128), v);
                    }
                }
            } else {
                // Each block of the cluster gets its positions: [block][group][position][8].
                u8* const mine = smem + p.off_exchange + (wm * 8 + wrow * 2) * S::PF * 16 + (lane % 4) * 4;
#pragma unroll
                for (int nb = 0; nb < S::N / 8; ++nb) {
                    const int pos = wn * S::N + nb * 8 + lane / 4, block = S::PF % 8 == 0 ? (wn * S::N + nb * 8) / S::PF : pos / S::PF;
                    u8* const to = mine + block * S::PIECE + (pos - block * S::PF) * 16;
                    *reinterpret_cast<u32*>(to) = transposed(packed(acc[nb][0], acc[nb][1]));
                    *reinterpret_cast<u32*>(to + S::PF * 16) = transposed(packed(acc[nb][2], acc[nb][3]));
                }
            }
            // The last layer's weights, while others are waited for.
            uint4 last[8];
            if (layer == 1 && warp < 7)
#pragma unroll
                for (int k = 0; k < 8; ++k)
                    last[k] = __ldg(p.w4 + (warp * 8 + k) * 32 + lane);
            if (S::C > 1 && request == 0 && layer == (S::KS > 1 ? 0 : 1))
                cluster_wait();
            if constexpr (S::KS > 1) {
                proxy_fence_shared();
                everyone();
                const u32 received = base + p.off_received;
                if (tid == 0)
                    barrier_expect(peers, S::RECEIVED);
                if (tid < S::C)
                    bulk_copy_peer(peer_address(received + (ks * GROUPS + (S::CS == 2 ? cs * 8 : 0)) * S::PF * 16, tid),
                                   base + p.off_exchange + tid * S::PIECE, S::PIECE, peer_address(peers, tid));
                guard.wait(peers, peer_phase, 6);
                peer_phase ^= 1;
                STAMP(layer == 0 ? 5 : 9);
                for (int i = tid; i < GROUPS * S::PF; i += S::THREADS) {
                    const int g = i / S::PF, q = i % S::PF, pos = rank * S::PF + q;
                    const u8* const at = smem + p.off_received + (g * S::PF + q) * 16;
                    float4 x = reinterpret_cast<const float4*>(bias)[g * 2], y = reinterpret_cast<const float4*>(bias)[g * 2 + 1];
#pragma unroll
                    for (int k = 0; k < S::KS; ++k) {
                        const uint4 part = *reinterpret_cast<const uint4*>(at + k * (GROUPS * S::PF * 16));
                        const float2 f0 = unpacked(part.x), f1 = unpacked(part.y), f2 = unpacked(part.z), f3 = unpacked(part.w);
                        x.x += f0.x, x.y += f0.y, x.z += f1.x, x.w += f1.y;
                        y.x += f2.x, y.y += f2.y, y.z += f3.x, y.w += f3.y;
                    }
                    uint4 v;
                    v.x = packed(fmaxf(x.x, 0), fmaxf(x.y, 0));
                    v.y = packed(fmaxf(x.z, 0), fmaxf(x.w, 0));
                    v.z = packed(fmaxf(y.x, 0), fmaxf(y.y, 0));
                    v.w = packed(fmaxf(y.z, 0), fmaxf(y.w, 0));
                    const bool ok = pos < S::P && valid[pos];
                    if (layer == 1)
                        *reinterpret_cast<uint4*>(final_tile + (g * S::PFP + q) * 16) = ok ? v : make_uint4(0, 0, 0, 0);
                    else if (ok)
                        __stcg(reinterpret_cast<uint4*>(p.act2 + (g * (long long)p.rows + p.pad + first + pos) * 16), v);
                }
            } else if (S::C > 1 && layer == 1) {
                everyone();
                if (tid < S::C)
                    barrier_arrive_peer(peer_address(peers, tid));
                guard.wait(peers, peer_phase, 6);
                peer_phase ^= 1;
                STAMP(9);
                for (int i = tid; i < GROUPS * S::PF; i += S::THREADS) {
                    const int g = i / S::PF, q = i % S::PF, pos = rank * S::PF + q;
                    const u32 at = base + p.off_exchange + (g % (8 * S::WGM) * S::P + pos) * 16;
                    const float4 f = peer_load4(peer_address(at, g / (8 * S::WGM)));
                    *reinterpret_cast<float4*>(final_tile + (g * S::PFP + q) * 16) = f;
                }
            }
            if (layer == 0) {
                STAMP(6);
                arrive(1);
                continue;
            }

            // ---- the last layer's products ----
            everyone();
            STAMP(10);
            const u32 tile_at = shared_address(final_tile);
            for (int mt = warp; mt < 7; mt += S::WARPS) {
                if (mt != warp)
#pragma unroll
                    for (int k = 0; k < 8; ++k)
                        last[k] = __ldg(p.w4 + (mt * 8 + k) * 32 + lane);
                constexpr int WIDE = S::PFP / 8 < 4 ? S::PFP / 8 : 4;
                for (int nb0 = 0; nb0 < S::PFP / 8; nb0 += WIDE) {
                    float sum[WIDE][4];
#pragma unroll
                    for (int n = 0; n < WIDE; ++n)
#pragma unroll
                        for (int j = 0; j < 4; ++j)
                            sum[n][j] = 0;
#pragma unroll
                    for (int k = 0; k < 8; k += 2)
#pragma unroll
                        for (int n = 0; n < WIDE; ++n) {
                            const int nb = min(nb0 + n, S::PFP / 8 - 1);
                            const uint4 v = load_matrix4(tile_at + ((k * 2 + lane / 8) * S::PFP + nb * 8 + lane % 8) * 16);
                            mma(sum[n], last[k], v.x, v.y);
                            mma(sum[n], last[k + 1], v.z, v.w);
                        }
                    // Four lanes that are 4 apart have the four channels of a tap; after the exchange each has all four of
                    // one of their positions: low or high tap, first or second position.
                    const int c = lane / 4 % 4;
#pragma unroll
                    for (int n = 0; n < WIDE; ++n) {
                        float4 v;
                        transpose4(sum[n], c, v);
                        const int q = (nb0 + n) * 8 + (lane % 4) * 2 + c % 2, pos = rank * S::PF + q;
                        const int tap = mt * 4 + lane / 16 + (c / 2) * 2;
                        if (nb0 + n < S::PFP / 8 && q < S::PF && pos < S::P && tap < 27)
                            __stcg(p.sums + (long long)tap * p.rows + p.pad + first + pos, v);
                    }
                }
            }
            STAMP(11);
            arrive(2);
        }
    }

    // The last layer's sums, and what they decide.
    __device__ __forceinline__ void sums() const
    {
        // A block may be here in the next run already while the last one's answer is being written.
        u32* const flipped = p.flipped + request % 2 * flip_words(p.bit_count);
        // Four lanes a position. What is known of it before its products are: its cell, or -1, and what its decision flips.
        const int channel = lane % 4;
        const auto position = [&](int i) { return rank * S::PF + i / 4; };
        const auto cell_of = [&](int i) {
            const int pos = position(i), at = first + pos, r = at % p.plane;
            return i / 4 < S::PF && pos < S::P && valid[pos] ? (at / p.plane * p.d + r / p.width) * p.d + r % p.width : -1;
        };
        const auto flips_of = [&](int cell) {
            const uint2 none = make_uint2(NONE, NONE);
            return io.left && cell >= 0 ? __ldg(reinterpret_cast<const uint2*>(p.flips) + cell * 4 + channel) : none;
        };
        int cell = cell_of(tid);
        uint2 flips = flips_of(cell);
        const float bias = __ldg(p.b4 + channel);
        // A lane's taps, worked out before there is anything to load.
        const float4* from[7];
#pragma unroll
        for (int k = 0; k < 7; ++k) {
            const int tap = k * 4 + channel;
            from[k] = p.sums + (long long)tap * p.rows + p.pad + (tap / 9 - 1) * p.plane + (tap / 3 % 3 - 1) * p.width + tap % 3 - 1;
            here(from[k]);
        }
        // One warp asks: counters that all blocks wait for are read one after the other.
        if (warp == 0)
            await(2, target(), first - span, first + S::P - 1 + span, 7);
        everyone();
        STAMP(12);
        constexpr int LANES = (S::PF * 4 + 31) / 32 * 32, TURNS = (LANES + S::THREADS - 1) / S::THREADS;
#pragma unroll 1
        for (int turn = 0; turn < TURNS; ++turn) {
            const int i = tid + turn * S::THREADS;
            if (i >= LANES)
                break;
            if (turn != 0) {
                cell = cell_of(i);
                flips = flips_of(cell);
            }
            const bool ok = cell >= 0;
            const int at = first + position(i);
            // All of them are under way before the first is added.
            float4 part[7], sum = make_float4(0, 0, 0, 0);
#pragma unroll
            for (int k = 0; k < 7; ++k)
                part[k] = ok && k * 4 + channel < 27 ? __ldcg(from[k] + at) : sum;
#pragma unroll
            for (int k = 0; k < 7; ++k)
                sum.x += part[k].x, sum.y += part[k].y, sum.z += part[k].z, sum.w += part[k].w;
#pragma unroll
            for (int m = 1; m < 4; m *= 2) {
                sum.x += __shfl_xor_sync(~0u, sum.x, m), sum.y += __shfl_xor_sync(~0u, sum.y, m);
                sum.z += __shfl_xor_sync(~0u, sum.z, m), sum.w += __shfl_xor_sync(~0u, sum.w, m);
            }
            if (ok) {
                const float logit = (channel == 0 ? sum.x : channel == 1 ? sum.y : channel == 2 ? sum.z : sum.w) + bias;
                if (io.out)
                    io.out[channel * p.layers * p.d * p.d + cell] = logit;
                if (io.left && logit > p.threshold)
                    flip_all(Flips{flips.x, flips.y}, p.bit_count, [&](u32 bit) { flip_global(flipped + bit / 32, 1u << bit % 32); });
            }
        }
        if (io.left) {
            u32* const over = p.sync + OVER + request % 2;
            // Decisions are few and their bits anywhere: the block that is last writes what is left.
            everyone();
            bool last = false;
            if (tid == 0) {
                if (*(volatile u32*)&head.dead)
                    set_global(flipped + flip_words(p.bit_count) - 1, GAVE_UP);
                last = add_acq_rel(over, 1) == p.tiles * S::C - 1;
            }
            if (group_any(1, S::THREADS, last)) {
                if (tid == 0) {
                    *over = 0; // nobody is left in this run
                    STAMP_LAST();
                }
                answer<S::THREADS>(p, io, flipped, tid);
            }
        }
        STAMP(13);
    }
};

// One run of the network, by all threads of all blocks of the grid; the `request`th after `open`. All threads of the block
// are past the last run. `ahead`: see `Run::weights`.
template <class S>
__device__ __forceinline__ void forward(const Params& p, const Io& io, u8* smem, u32 request, bool ahead)
{
    const Run<S> run(p, io, smem, request);
    if (run.warp == S::WARPS)
        return run.weights(ahead);
    if (run.warp > S::WARPS)
        return run.slabs();
    run.first_layer();
    run.middle_layers();
    run.sums();
}

// The network as a kernel: one run.
template <class S>
__device__ __forceinline__ void once(const Params& p)
{
    extern __shared__ __align__(1024) u8 smem[];
    STAMP(0);
    open<S>(p, smem);
    forward<S>(p, p.io, smem, 0, false);
}

} // namespace predecoder

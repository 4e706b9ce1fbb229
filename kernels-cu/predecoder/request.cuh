// A request's bits on their way in, and an answer's on their way out.
#pragma once

#include "shape.cuh"

namespace predecoder {

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

} // namespace predecoder

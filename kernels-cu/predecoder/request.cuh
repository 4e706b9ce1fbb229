// A request's bits on their way in, and to where the answer is made of them.
#pragma once

#include "shape.cuh"

namespace predecoder {

// `bytes` bytes on their way to shared memory, aligned to words, by `THREADS` threads, nothing past them touched. As far as
// possible in words, several of a thread under way together from the beginning on; what is left with them by the last threads, who
// have the fewest.
template <int THREADS>
class CopyIn {
    static constexpr int WORDS = 4;
    const u8* const from;
    const u32 bytes, tid, words, rest;
    u32 word[WORDS];
    u8 byte;

    __device__ __forceinline__ void load(u32 i0)
    {
#pragma unroll
        for (int n = 0; n < WORDS; ++n)
            word[n] = i0 + n * THREADS < words ? __ldcg(reinterpret_cast<const u32*>(from) + i0 + n * THREADS) : 0;
    }

public:
    __device__ __forceinline__ CopyIn(const u8* from, u32 bytes, u32 tid)
        : from(from), bytes(bytes), tid(tid), words(reinterpret_cast<u64>(from) % 4 == 0 ? bytes / 4 : 0), rest(words * 4 + THREADS - 1 - tid)
    {
        load(tid);
        byte = rest < bytes ? __ldcg(from + rest) : 0;
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
        if (rest < bytes)
            to[rest] = byte;
#pragma unroll 1
        for (u32 i = rest + THREADS; i < bytes; i += THREADS)
            to[i] = __ldcg(from + i);
    }
};

// The answer before anything is flipped, of a request in shared memory, aligned to words, by `THREADS` threads.
template <int THREADS>
__device__ __forceinline__ void begin_answer(u32* left, const u8* request, u32 bits, u32 tid)
{
#pragma unroll 1
    for (u32 i = tid; i < answer_words(bits); i += THREADS)
        __stcg(left + i, answer_word(reinterpret_cast<const u32*>(request)[i], bits, i));
}

} // namespace predecoder

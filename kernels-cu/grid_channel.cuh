// How blocks are called that run a grid's handlers for a block that serves: the other side of `GridChannel` in
// device/dispatcher/src/ring/grid.rs, for a function in which they wait for calls, one after the other, to the end.
//
// Such a function has a handler's signature, `int f(const void* channel, void* input, unsigned stage_bytes, unsigned, unsigned*)`,
// and is entered by all threads of all blocks of the grid. In each block one thread waits for the next call and tells the block;
// all run it; that thread reports, in block 0, what came of it, and arrives. At the end all return.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ringcall {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

struct alignas(128) Line {
    u64 word;
};

struct GridChannel {
    Line turns[2], done[2];
    u64 handler, capacity, returned[32];
};
static_assert(offsetof(GridChannel, done) == 256 && offsetof(GridChannel, capacity) == 520 && offsetof(GridChannel, returned) == 528, "as in Rust");

// A call's word: payload bytes in the low half, whether handler or capacity are new, the number of the stages, the turn.
constexpr u64 CHANGED = 1ull << 32, END = ~0ull;
constexpr u32 STAGE_SHIFT = 33;

// The number of the stages that a call's request and result lie in.
__device__ __forceinline__ u32 stage_of(u64 word) { return word >> STAGE_SHIFT & 0xff; }

// A block's thread that waits.
class Participant {
    GridChannel* channel;
    u64 calls = 0, last[2] = {0, 0};

    __device__ __forceinline__ static u64 acquire(const u64* at)
    {
        u64 v;
        asm volatile("ld.acquire.gpu.u64 %0, [%1];" : "=l"(v) : "l"(at) : "memory");
        return v;
    }
    __device__ __forceinline__ static u64 load(const u64* at)
    {
        u64 v;
        asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(v) : "l"(at) : "memory");
        return v;
    }

public:
    u32 capacity = 0; // of the call that `poll` found

    __device__ __forceinline__ explicit Participant(const void* channel) : channel(static_cast<GridChannel*>(const_cast<void*>(channel))) {}

    // The word of the next call, or END; 0 if there is none yet. The next call may be there before this one has arrived.
    __device__ __forceinline__ u64 poll()
    {
        const u64 word = acquire(&channel->turns[calls % 2].word);
        if (word == last[0])
            return 0;
        if (word != END && (word & CHANGED))
            capacity = load(&channel->capacity);
        last[0] = last[1], last[1] = word;
        ++calls;
        return word;
    }

    // The block has done its part of call number `call`. Everything that its threads did before its last barrier is visible to
    // who waits for that.
    __device__ __forceinline__ void arrive(u64 call) const
    {
        asm volatile("red.release.gpu.add.u64 [%0], 1;" ::"l"(&channel->done[call % 2].word) : "memory");
    }

    // By block 0, before it arrives: what the request is answered with.
    __device__ __forceinline__ void report(u64 word, int status, u32 len) const
    {
        const u64 returned = static_cast<u64>(len) << 32 | static_cast<u32>(status);
        asm volatile("st.relaxed.gpu.u64 [%0], %1;" ::"l"(&channel->returned[stage_of(word) % 32]), "l"(returned) : "memory");
    }
};

} // namespace ringcall

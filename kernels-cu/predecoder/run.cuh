// One run of the network as one block sees it: where it is, what it waits for, and the phases that its warps go through.
#pragma once

#include "waits.cuh"

namespace predecoder {

// The `request`th run after `open`. The phases are in fetch.cuh, first.cuh, middle.cuh and last.cuh; `forward` and the handler
// put them together.
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
    const int tile = blockIdx.x / S::C, first = tile * S::N;
    const Guard guard{&head.dead, p.failed, p.limit};
    const int span = p.plane + p.width + 1;
    // Of a warp that computes: its group of four, and in that its 16 of 64 rows of a product.
    const int wg = __shfl_sync(~0u, warp / 4, 0), wrow = warp % 4;

    __device__ __forceinline__ Run(const Params& p, const Io& io, u8* smem, u32 request, int tid = threadIdx.x)
        : p(p), io(io), smem(smem), request(request), tid(tid)
    {
    }

    // A wait of this block ran out, in this run or in one before. What others read is from then on neither written nor sent, and nobody is
    // told that this block has arrived: whom it did not wait for may still be reading what it wrote in the last run, and who counts
    // its arrival would take theirs for granted. It gives up the answer, and so do, each after a wait of its own, those that wait for it.
    // What lets a block write is said to a warp before it asks here, or that warp has seen the wait run out.
    __device__ __forceinline__ bool dead() const { return *guard.dead != 0; }

    // A tile's counter, or the only one.
    __device__ __forceinline__ u32* counters(int which) const { return p.sync + ARRIVED + which * MAX_TILES * SECTOR; }
    __device__ __forceinline__ u32* own_counter(int which) const { return counters(which) + (S::FUSED ? 0 : tile) * SECTOR; }

    // What the counters were before this run: in a kernel's first what the third is. All arrivals of the last kernel are in, and there
    // none of this run: they come after waits for this block, which come after this. The block's first thread asks, and tells all
    // before that.
    __device__ __forceinline__ u32 before() const { return tid != 0 ? 0 : request == 0 ? load_relaxed(own_counter(2)) : target(); }
    __device__ __forceinline__ void tell(u32 before) const
    {
        if (tid == 0)
            *(volatile u32*)&head.base = before;
    }
    __device__ __forceinline__ u32 told() const { return *(volatile u32*)&head.base; }
    __device__ __forceinline__ u32 target() const { return told() + (S::FUSED ? p.tiles * S::C : S::C); }

    // Where the whole grid is waited for once a run, a block may be through with the last run while others are still reading what it
    // wrote for them: it writes that anew, and sends to its partner, when all have said that they are through with it. Asked
    // for by the warp that fetches slabs, which has nothing else to do by then. All warps that multiply, and that one; whatever comes
    // of the wait, which `dead` says after it.
    __device__ __forceinline__ void free_to_write() const
    {
        if (S::FUSED && request != 0)
            group_sync(4, S::MULTIPLY + 32);
    }
    __device__ __forceinline__ bool await_free_to_write() const
    {
        if (!S::FUSED || request == 0)
            return true;
        const bool free = await(2, told(), 0, 0, 10);
        group_arrive(4, S::MULTIPLY + 32);
        return free;
    }

    // By a whole warp: until the blocks of all tiles that have one of the positions `low ..= high` have arrived.
    __device__ __forceinline__ bool await(int which, u32 target, int low, int high, u32 code) const
    {
        return S::FUSED ? guard.reach(counters(which), 0, 0, target, code)
                       : guard.reach(counters(which), max(low, 0) / S::N, max(min(high, p.count - 1), 0) / S::N, target, code);
    }
    // All warps that compute.
    __device__ __forceinline__ void everyone() const { group_sync(1, S::THREADS); }
    __device__ __forceinline__ void arrive(int which) const
    {
        everyone();
        if (tid == 0 && !dead())
            add_release(own_counter(which), 1);
    }

    // A wait ran out: the answer, if it is one, is worth nothing, and nor is what comes after it. The first block begins the answer;
    // if it does so after this, it reads that word after that, between fences: see `slabs`.
    __device__ __forceinline__ void give_up() const
    {
        store_relaxed(p.sync + DEAD, 1);
        fence_sc();
        mark_answer();
    }
    __device__ __forceinline__ void mark_answer() const
    {
        const u32 frame = frame_bit(p.bit_count);
        if (io.left)
            set_global(io.left + frame / 32, GAVE_UP << frame % 32);
    }

    // Factors of two of a hidden layer's channels, 8 apart, and what is added. They are asked for before they are needed.
    struct Scale {
        float factor[2], offset[2];
        __device__ __forceinline__ Scale(const float* scales, int channel)
            : factor{__ldg(scales + channel), __ldg(scales + channel + 8)}, offset{__ldg(scales + 128 + channel), __ldg(scales + 136 + channel)}
        {
        }
        __device__ __forceinline__ u32 byte(float sum, int which) const { return byte_of(sum, factor[which] * (1.f / 256), offset[which] * (1.f / 256)); }
    };

    // The columns of 8 positions that this block finishes: the first of them, and how many.
    __device__ __forceinline__ int own_begin() const { return ks * S::LOW; }
    __device__ __forceinline__ int own_count() const { return ks == S::KS - 1 ? S::MOST : S::LOW; }

    // Warp `S::WARPS`: weights, ahead of everything. With `ahead`, those of the next run are on their way when others return
    // from this one, and another run must follow or the block end later than they arrive: they have arrived when this returns.
    __device__ void weights(bool ahead) const;
    // Warp `S::WARPS + 1`: activations, after each barrier.
    __device__ void slabs() const;
    // The warps that compute, one after the other: the first layer, a tile's positions for all, or all that this block's taps
    // reach; the two middle layers; the last layer's products are in those; its sums, and what they decide. All blocks' decisions
    // are the answer.
    __device__ void first_layer() const;
    __device__ void middle_layers() const;
    __device__ void sums() const;

private:
    // Of the last layer, a warp's taps, of this block's channels.
    struct LastWeights {
        uint4 of[8 / S::CS];
    };
    __device__ Scale rows_of_request(int start, int rows, int channel, uint4 (&weights)[9]) const;
    __device__ void first_bytes(const Scale& scale, int group, int row0, int outs, const float (&acc)[S::CHUNK / 8][4]) const;
    __device__ void multiply(int layer, u32& passed_weights, u32& passed_slabs, int (&acc)[S::COLUMNS][4]) const;
    __device__ void exchange(u32 phase, const int (&acc)[S::COLUMNS][4], int (&own)[S::MOST][4]) const;
    __device__ void hand_on(int layer, const Scale& scale, const int (&own)[S::MOST][4]) const;
    __device__ LastWeights last_weights() const;
    __device__ void last_products(const LastWeights& weights) const;
};

} // namespace predecoder

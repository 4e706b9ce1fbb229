// The predecoder network, 4 -> 128 -> 128 -> 128 -> 4 channels of 3x3x3 convolutions in integers, in one kernel.
//
// Positions are numbered through a padded grid of (d + 1) x (d + 1) x layers, so that a tap of the convolution is a
// shift of the number: the column and the row that are added are zero and serve as the border on both sides.
// Activations are bytes and lie as [8 groups of 16 channels][position][16 channels], so that rows of 16 bytes, shifted by any
// number of positions, are what the tensor cores read without a swizzle. Of a group's channels the first eight and the others
// take turns, as the tensor cores' sums lie in registers; weights are packed to match.
//
// A cluster of CS x KS blocks computes one tile of N positions: CS shares of the output channels, KS shares of the input
// channels. Weights stream through a ring in shared memory, ahead of the barriers between layers.
//
// What a layer does to a sum is said in training/predecoder/integers.py: the same bits come out of everything that does it.
#pragma once

#include "fetch.cuh"
#include "first.cuh"
#include "last.cuh"
#include "middle.cuh"

namespace predecoder {

// Once before the first `forward`, by all threads of a block. `smem` begins the shared memory that `Params` divides.
template <class S>
__device__ __forceinline__ void open(const Params& p, u8* smem)
{
    Head& head = *reinterpret_cast<Head*>(smem);
    const int tid = threadIdx.x;
    if (tid < p.stages) {
        barrier_init(shared_address(head.w_full + tid), 1);
        barrier_init(shared_address(head.w_empty + tid), S::MULTIPLY / 32);
    } else if (tid >= 32 && tid - 32 < p.slabs) {
        barrier_init(shared_address(head.s_full + tid - 32), 1);
        barrier_init(shared_address(head.s_empty + tid - 32), S::MULTIPLY / 32);
    } else if (tid == 64) {
        barrier_init(shared_address(&head.peers), 1);
        head.dead = 0;
    }
    if (tid < 96)
        barrier_init_fence();
    static_assert(S::N <= S::BLOCK, "a thread has one of them");
    if (tid < S::N) {
        const int at = blockIdx.x / S::C * S::N + tid, r = at % p.plane;
        smem[VALID_AT + tid] = at < p.count && r / p.width < p.d && r % p.width < p.d;
    }
    // Waited for before the first exchange.
    if (S::KS == 2)
        cluster_arrive();
    __syncthreads();
}

// One run of the network, by all threads of all blocks of the grid; the `request`th after `open`. All threads of the block
// are past the last run. `ahead`: see `Run::weights`. What comes of it is there when all blocks have ended it.
template <class S>
__device__ __forceinline__ void forward(const Params& p, const Io& io, u8* smem, u32 request, bool ahead)
{
    const Run<S> run(p, io, smem, request);
    if (run.warp < S::WARPS) {
        run.first_layer();
        run.middle_layers();
        run.sums();
    } else if (run.warp == S::WARPS) {
        run.weights(ahead);
    } else {
        run.slabs();
    }
}

// Last of all in a kernel that ends after its last run, by all threads of a block. Copies may be on their way to a block that gave
// up, for which nobody waits, and another of the cluster about to send to it: it stays for far longer than copies take, and until the
// others have ended, or stay as well.
template <class S>
__device__ __forceinline__ void close(u8* smem)
{
    if (__any_sync(~0u, *(volatile u32*)&reinterpret_cast<Head*>(smem)->dead != 0)) {
        for (const long long start = clock64(); clock64() - start < 100000;) {
        }
        if (S::KS == 2) {
            if (threadIdx.x >= S::THREADS)
                cluster_wait();
            cluster_arrive();
            cluster_wait();
        }
    }
}

// The network as a kernel: one run.
template <class S>
__device__ __forceinline__ void once(const Params& p)
{
    extern __shared__ __align__(1024) u8 smem[];
    STAMP(0);
    open<S>(p, smem);
    forward<S>(p, p.io, smem, 0, false);
    close<S>(smem);
}

} // namespace predecoder

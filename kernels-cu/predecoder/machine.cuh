// The machine: barriers in shared memory, bulk copies, clusters, tensor cores.
#pragma once

#include <cstdint>
#include <cuda_fp16.h>

namespace machine {

using u8 = std::uint8_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

__device__ __forceinline__ u32 shared_address(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }

// Has a pointer worked out here, not where it is used.
template <class T>
__device__ __forceinline__ void here(T*& p)
{
    asm volatile("" : "+l"(p));
}

// ---- barriers in shared memory ----
__device__ __forceinline__ void barrier_init(u32 bar, u32 count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}
__device__ __forceinline__ void barrier_init_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void barrier_expect(u32 bar, u32 bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_arrive(u32 bar)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
__device__ __forceinline__ u32 peer_address(u32 address, u32 rank)
{
    u32 r;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(address), "r"(rank));
    return r;
}
// What the copy engine brings is seen, and what threads of this block did.
__device__ __forceinline__ bool barrier_try(u32 bar, u32 parity)
{
    u32 ok;
    asm volatile("{\n .reg .pred p;\n mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, p;\n}"
                 : "=r"(ok)
                 : "r"(bar), "r"(parity)
                 : "memory");
    return ok != 0;
}
// And what other blocks of the cluster did, which costs the first cache.
__device__ __forceinline__ bool barrier_try_cluster(u32 bar, u32 parity)
{
    u32 ok;
    asm volatile(
        "{\n .reg .pred p;\n mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, p;\n}"
        : "=r"(ok)
        : "r"(bar), "r"(parity)
        : "memory");
    return ok != 0;
}
__device__ __forceinline__ void group_sync(u32 id, u32 threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// For `group_sync` by others, without waiting for them.
__device__ __forceinline__ void group_arrive(u32 id, u32 threads)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// ---- clusters ----
__device__ __forceinline__ u32 cluster_rank()
{
    u32 r;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}
// All threads of a cluster arrive that have not ended; who waits sees barriers that were made before (`barrier_init_fence`).
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }
// To shared memory of a block of the cluster; its barrier counts the 16 bytes once they are there.
__device__ __forceinline__ void send_async4(u32 peer, const int (&v)[4], u32 peer_bar)
{
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.s32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(peer), "r"(v[0]),
                 "r"(v[1]), "r"(v[2]), "r"(v[3]), "r"(peer_bar)
                 : "memory");
}

// ---- the copy engine ----
__device__ __forceinline__ void bulk_copy(u32 to, const void* from, u32 bytes, u32 bar)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(bar)
                 : "memory");
}
// Between ordinary accesses and the copy engine's or the tensor cores', in either order.
__device__ __forceinline__ void proxy_fence() { asm volatile("fence.proxy.async;" ::: "memory"); }
__device__ __forceinline__ void proxy_fence_global() { asm volatile("fence.proxy.async.global;" ::: "memory"); }
__device__ __forceinline__ void proxy_fence_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- global memory ----
__device__ __forceinline__ u32 load_acquire(const u32* p)
{
    u32 v;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
__device__ __forceinline__ u32 load_relaxed(const u32* p)
{
    u32 v;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
__device__ __forceinline__ void store_relaxed(u32* p, u32 v)
{
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
// Four words, each by itself.
__device__ __forceinline__ uint4 load_relaxed4(const void* p)
{
    uint4 v;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p) : "memory");
    return v;
}
__device__ __forceinline__ void store_relaxed4(void* p, const uint4& v)
{
    asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
__device__ __forceinline__ void fence_sc() { asm volatile("fence.sc.gpu;" ::: "memory"); }
__device__ __forceinline__ void add_release(u32* p, u32 v)
{
    asm volatile("red.add.release.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
__device__ __forceinline__ void flip_global(u32* p, u32 bits)
{
    asm volatile("red.relaxed.gpu.global.xor.b32 [%0], %1;" ::"l"(p), "r"(bits) : "memory");
}
__device__ __forceinline__ void set_global(u32* p, u32 bits)
{
    asm volatile("red.relaxed.gpu.global.or.b32 [%0], %1;" ::"l"(p), "r"(bits) : "memory");
}

// ---- tensor cores ----
// A matrix in shared memory without swizzle: 8 rows of 16 bytes make a unit; `k` bytes to the next 8 columns' unit,
// 128 bytes to the next 8 rows' unit. What is made of the address is the same in all lanes: the compiler keeps it where the
// instruction wants it, and adds to it there; else each instruction would wait for the one before to have read its own.
// (An address has its block's rank in the cluster above these bits.)
struct Matrix {
    u32 low;
    __device__ __forceinline__ Matrix(u32 address, u32 k) : low(__shfl_sync(~0u, (address & 0x3ffff) >> 4 | k >> 4 << 16, 0)) {}
    // So many bytes further.
    __device__ __forceinline__ u64 at(u32 bytes) const { return static_cast<u64>(128 >> 4) << 32 | (low + (bytes >> 4)); }
};
__device__ __forceinline__ void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING>
__device__ __forceinline__ void wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}
// Sums that were waited for: nothing is made of them before.
template <int N>
__device__ __forceinline__ void waited_for(float (&sums)[N][4])
{
#pragma unroll
    for (int i = 0; i < N; ++i)
        asm volatile("" : "+f"(sums[i][0]), "+f"(sums[i][1]), "+f"(sums[i][2]), "+f"(sums[i][3]));
}
__device__ __forceinline__ void mma(float (&d)[4], const uint4& a, u32 b0, u32 b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}
__device__ __forceinline__ uint4 load_matrix4(u32 address)
{
    uint4 v;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(address)
                 : "memory");
    return v;
}
// From rows by columns to columns by rows: 8 x 8 halves, two to a lane.
__device__ __forceinline__ u32 transposed(u32 v)
{
    u32 r;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(v));
    return r;
}
// A logit of a sum that single precision holds exactly: each operation rounded by itself, so that everything that computes the
// network leaves the same bits.
__device__ __forceinline__ float scaled(float sum, float factor, float offset) { return __fadd_rn(__fmul_rn(sum, factor), offset); }
// A byte of a hidden layer in the same way, but for its top: 0..256 in the lower half of a word whose upper half is anything.
// `factor` and `offset` are 256th of what they are said to be, which changes no rounding; so saturation is at 0 and 256. Among
// numbers as large as the last steps are of 1/256: the addition rounds, ties to the even.
__device__ __forceinline__ u32 byte_of(float sum, float factor, float offset)
{
    return __float_as_uint(__fadd_rn(__saturatef(scaled(sum, factor, offset)), 49152.f));
}
// Two of them, at most 255.
__device__ __forceinline__ u32 topped(u32 low, u32 high) { return __vminu2(__byte_perm(low, high, 0x5410), 0x00ff00ff); }
// Four of them as bytes.
__device__ __forceinline__ u32 bytes(u32 a, u32 b, u32 c, u32 d) { return __byte_perm(topped(a, b), topped(c, d), 0x6420); }
// Two of them as halves: among halves of 1024 and more steps are of 1, too.
__device__ __forceinline__ u32 halves(u32 low, u32 high)
{
    const u32 v = topped(low, high) | 0x64006400, begin = 0x64006400;
    const __half2 h = __hsub2(*reinterpret_cast<const __half2*>(&v), *reinterpret_cast<const __half2*>(&begin));
    return *reinterpret_cast<const u32*>(&h);
}

} // namespace machine

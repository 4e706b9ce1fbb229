// The two ends of the graph that a worker of a host dispatcher is: its input out of mapped memory, and its output into it with the words
// that say so. Each is a node of the graph; what lies between is the caller's.

namespace {

using u64 = unsigned long long;

// One burst of loads from mapped memory; what one thread needs is all under way before it stores.
__device__ __forceinline__ void carry(const uint4* from, uint4* to, unsigned pieces, unsigned first, unsigned step)
{
    for (unsigned i = first; i < pieces; i += step)
        to[i] = from[i];
}

} // namespace

extern "C" {

// From mapped memory to where the graph's kernels read it, in pieces of 16 bytes.
__global__ void ringcall_lane_begin(const uint4* from, uint4* to, unsigned pieces)
{
    carry(from, to, pieces, blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x);
}

// By one block: the output to mapped memory, in pieces of 16 bytes, or none where copy engines did that; then how many runs have
// ended; then the worker's ready flag: who sees it sees the output, and the count.
__global__ void ringcall_lane_end(const uint4* from, uint4* to, unsigned pieces, u64* runs, u64* ended, u64* ready)
{
    carry(from, to, pieces, threadIdx.x, blockDim.x);
    __syncthreads();
    if (threadIdx.x == 0) {
        const u64 run = *runs + 1;
        *runs = run;
        asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(ended), "l"(run) : "memory");
        asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(ready), "l"(1ull) : "memory");
    }
}

} // extern "C"

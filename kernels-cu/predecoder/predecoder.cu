// The predecoder network as a kernel for a graph and as a handler for the cooperative dispatcher. One shape a text:
// compile with -DPREDECODER_CS, _KS, _WGN and _N set: see net.cuh. Needs sm_90a.
#include "net.cuh"

namespace {

using namespace predecoder;
using Chosen = Shape<PREDECODER_CS, PREDECODER_KS, PREDECODER_WGN, PREDECODER_N>;

// Statuses of the wire protocol: ringcall_wire::status.
constexpr int SCHEMA_MISMATCH = -6;
constexpr int ENGINE_FAILED = -15;

// What a handler keeps in shared memory, behind the head, between calls.
struct Kept {
    u64 key;
    u32 request;
};
constexpr u32 KEPT_AT = 960;
static_assert(sizeof(Head) <= KEPT_AT && KEPT_AT + sizeof(Kept) <= 1024, "in the head's kilobyte");

} // namespace

extern "C" {

// The parameters of the handler: written by the host once the module is loaded.
__constant__ Params ringcall_predecoder_params;

__global__ void __cluster_dims__(Chosen::C, 1, 1) __launch_bounds__(Chosen::BLOCK, 1)
    ringcall_predecoder(const __grid_constant__ Params p)
{
    once<Chosen>(p);
}

// From host memory, read once, to where all blocks read it.
__global__ void ringcall_predecoder_stage(const uint4* from, uint4* to, unsigned count)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        to[i] = from[i];
}

// Called by all threads of a cooperative grid of clusters. Argument: a string of bits; result: what the network's decisions
// leave of it, and the frame.
__device__ int ringcall_predecoder_grid(const void* input, void* output, unsigned arg_len, unsigned max_result_len,
                                        unsigned* result_len)
{
    extern __shared__ __align__(128) u8 dynamic[];
    const Params& p = ringcall_predecoder_params;
    const unsigned answer = answer_bytes(p.bit_count);
    *result_len = 0;
    if (arg_len != answer - 1 || max_result_len < answer)
        return SCHEMA_MISMATCH;
    *result_len = answer;
    if (blockIdx.x >= p.tiles * Chosen::C)
        return 0;
    u32 bytes;
    u64 grid;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
    asm("mov.u64 %0, %%gridid;" : "=l"(grid));
    u8* const smem = dynamic + (bytes - p.smem) / 128 * 128;
    Kept& kept = *reinterpret_cast<Kept*>(smem + KEPT_AT);
    // Shared memory comes as the last kernel left it.
    const u64 key = grid ^ 0x7072656465636f64ull;
    const bool fresh = kept.key != key;
    u32 request = fresh ? 0 : kept.request;
    // No barrier here: `open` writes nothing of what was read, and has one behind it.
    if (fresh)
        open<Chosen>(p, smem);
    const Io io{nullptr, static_cast<const u8*>(input), nullptr, static_cast<u8*>(output)};
    forward<Chosen>(p, io, smem, request, true);
    __syncthreads();
    // The rings are where they were after a whole number of laps.
    const u32 period = 2 * p.stages * p.slabs;
    if (++request == 2 * period)
        request = period;
    // Read in the next call, between which and this one the dispatcher's barrier of the block lies.
    if (threadIdx.x == 0) {
        kept.key = key;
        kept.request = request;
    }
    const bool failed = reinterpret_cast<Head*>(smem)->dead != 0;
    return failed ? ENGINE_FAILED : 0;
}

} // extern "C"

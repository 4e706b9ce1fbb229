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

// The handler's phases, functions of their own. A function begins with saving to memory what it will use of the half of the
// registers that are its caller's, and ends with getting that back, in each warp: of the layers tens of kilobytes a block,
// which come back while the other blocks are waited for. The other phases, and warps, keep to the other half.
static __device__ __noinline__ void open_phase(u8* smem) { open<Chosen>(ringcall_predecoder_params, smem); }

static __device__ __noinline__ void layers_phase(u8* smem, const void* input, u32 request)
{
    __builtin_assume(input != nullptr);
    const Io io{nullptr, static_cast<const u8*>(input), nullptr, nullptr};
    const Run<Chosen> run(ringcall_predecoder_params, io, smem, request);
    run.first_layer();
    run.middle_layers();
}

static __device__ __noinline__ void sums_phase(u8* smem, const void* input, void* output, u32 request)
{
    __builtin_assume(output != nullptr);
    const Io io{nullptr, static_cast<const u8*>(input), nullptr, static_cast<u8*>(output)};
    Run<Chosen>(ringcall_predecoder_params, io, smem, request).sums();
}

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
        open_phase(smem);
    const int warp = threadIdx.x / 32;
    if (warp < Chosen::WARPS) {
        layers_phase(smem, input, request);
        sums_phase(smem, input, output, request);
    } else {
        const Io io{};
        const Run<Chosen> run(p, io, smem, request);
        if (warp == Chosen::WARPS)
            run.weights(true);
        else
            run.slabs();
    }
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

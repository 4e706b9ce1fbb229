// The predecoder network as a kernel for a graph and as a handler for the cooperative dispatcher. One shape a text:
// compile with -DPREDECODER_CS, _KS and _N set: see shape.cuh. Needs sm_90a.
#include "../grid_channel.cuh"
#include "net.cuh"

namespace {

using namespace predecoder;
using Chosen = Shape<PREDECODER_CS, PREDECODER_KS, PREDECODER_N>;

// Statuses of the wire protocol: ringcall_wire::status.
constexpr int SCHEMA_MISMATCH = -6;
constexpr int ENGINE_FAILED = -15;

// What a handler keeps in shared memory, after the head, between calls.
struct Kept {
    u64 key;
    u32 request;
};
// What a participant's block is told there: the words of even and of odd calls, and whether they were there before the last call was
// over; and how many calls the warps that compute are through with.
struct Told {
    u64 word[2];
    u32 early[2], capacity, finished;
};
constexpr u32 KEPT_AT = 960;
static_assert(sizeof(Head) <= KEPT_AT && KEPT_AT + sizeof(Kept) <= 1024 && KEPT_AT + sizeof(Told) <= 1024, "in the head's kilobyte");

// After what others have of the block's shared memory.
__device__ __forceinline__ u8* own_shared(u8* dynamic, const Params& p)
{
    u32 bytes;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
    return dynamic + (bytes - p.smem) / 128 * 128;
}

// The number of the next run: rings are where they were after a whole number of laps.
__device__ __forceinline__ u32 after(const Params& p, u32 request)
{
    const u32 period = 2 * p.stages * p.slabs;
    return request + 1 == 2 * period ? period : request + 1;
}

} // namespace

extern "C" {

// The parameters of the handler: written by the host once the module is loaded.
__constant__ Params ringcall_predecoder_params;

// The handler's phases, functions of their own. A function begins with saving to memory what it will use of the half of the
// registers that are its caller's, and ends with getting that back, in each warp: of the layers tens of kilobytes a block,
// which come back while the other blocks are waited for. The other phases, and warps, keep to the other half.
static __device__ __noinline__ void open_phase(u8* smem) { open<Chosen>(ringcall_predecoder_params, smem); }

static __device__ __noinline__ void layers_phase(u8* smem, const void* input, void* output, u32 request)
{
    __builtin_assume(input != nullptr);
    __builtin_assume(output != nullptr);
    const Io io{nullptr, static_cast<const u8*>(input), nullptr, static_cast<u32*>(output)};
    const Run<Chosen> run(ringcall_predecoder_params, io, smem, request);
    run.first_layer();
    run.middle_layers();
}

static __device__ __noinline__ void sums_phase(u8* smem, const void* input, void* output, u32 request)
{
    __builtin_assume(output != nullptr);
    const Io io{nullptr, static_cast<const u8*>(input), nullptr, static_cast<u32*>(output)};
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
// leave of it, and the frame. The result's address is aligned to words, with room for whole ones.
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
    u64 grid;
    asm("mov.u64 %0, %%gridid;" : "=l"(grid));
    u8* const smem = own_shared(dynamic, p);
    Kept& kept = *reinterpret_cast<Kept*>(smem + KEPT_AT);
    // Shared memory comes as the last kernel left it.
    const u64 key = grid ^ 0x7072656465636f64ull;
    const bool fresh = kept.key != key;
    const u32 request = fresh ? 0 : kept.request;
    // No barrier here: `open` writes nothing of what was read, and has one after that.
    if (fresh)
        open_phase(smem);
    const int warp = threadIdx.x / 32;
    if (warp < Chosen::WARPS) {
        layers_phase(smem, input, output, request);
        sums_phase(smem, input, output, request);
    } else {
        const Io io{nullptr, nullptr, nullptr, static_cast<u32*>(output)};
        const Run<Chosen> run(p, io, smem, request);
        if (warp == Chosen::WARPS)
            run.weights(true);
        else
            run.slabs();
    }
    __syncthreads();
    // Read in the next call, between which and this one the dispatcher's barrier of the block lies.
    if (threadIdx.x == 0) {
        kept.key = key;
        kept.request = after(p, request);
    }
    const bool failed = reinterpret_cast<Head*>(smem)->dead != 0;
    return failed ? ENGINE_FAILED : 0;
}

// The same for a grid that a block of its own serves: entered once (../grid_channel.cuh). Nothing is saved from call to call but in
// registers, and a block goes on to the next call while others are in this one: see `Run::free_to_write`.
__device__ int ringcall_predecoder_follow(const void* channel, void* inputs, unsigned stage_bytes, unsigned, unsigned*)
{
    extern __shared__ __align__(128) u8 dynamic[];
    const Params& p = ringcall_predecoder_params;
    const u32 answer = answer_bytes(p.bit_count);
    u8* const smem = own_shared(dynamic, p);
    volatile Told& told = *reinterpret_cast<Told*>(smem + KEPT_AT);
    const int warp = threadIdx.x / 32;
    const bool waits = threadIdx.x == Chosen::THREADS + 32; // of the warp that has the least to do
    ringcall::Participant participant(channel);
    if (waits)
        told.early[0] = 0, told.finished = 0;
    open<Chosen>(p, smem);
    u32 request = 0;
    for (u32 call = 0;; ++call) {
        // Worked out anew in each call what hangs on it: it would not fit into the registers all the time.
        int tid = threadIdx.x;
        asm volatile("" : "+r"(tid));
        if (!told.early[call % 2]) {
            if (waits) {
                u64 word;
                while ((word = participant.poll()) == 0) {
                }
                told.word[call % 2] = word;
                told.capacity = participant.capacity;
            }
            __syncthreads();
        }
        const u64 word = told.word[call % 2];
        if (word == ringcall::END)
            return 0;
        const bool fits = static_cast<u32>(word) == answer - 1 && told.capacity >= answer;
        if (fits) {
            u8* const input = static_cast<u8*>(inputs) + 2ull * ringcall::stage_of(word) * stage_bytes;
            __builtin_assume(input != nullptr);
            const Io io{nullptr, input, nullptr, reinterpret_cast<u32*>(input + stage_bytes)};
            const Run<Chosen> run(p, io, smem, request, tid);
            if (warp < Chosen::WARPS) {
                run.first_layer();
                run.middle_layers();
                run.sums();
                if (threadIdx.x == 0)
                    told.finished = call + 1;
            } else if (warp == Chosen::WARPS) {
                run.weights(true);
            } else {
                run.slabs();
            }
            request = after(p, request);
        }
        if (waits) {
            u64 next = 0;
            while (fits && next == 0 && told.finished != call + 1)
                next = participant.poll();
            if (next != 0) {
                told.word[(call + 1) % 2] = next;
                told.capacity = participant.capacity;
            }
            told.early[(call + 1) % 2] = next != 0;
        }
        __syncthreads();
        if (waits) {
            const bool failed = *static_cast<volatile u32*>(&reinterpret_cast<Head*>(smem)->dead) != 0;
            const int status = !fits ? SCHEMA_MISMATCH : failed ? ENGINE_FAILED : 0;
            if (blockIdx.x == 0)
                participant.report(word, status, fits ? answer : 0);
            participant.arrive(call);
        }
    }
}

} // extern "C"

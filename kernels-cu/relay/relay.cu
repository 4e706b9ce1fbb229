// Relay-BP as a kernel for a graph and as a handler for the cooperative dispatcher. One shape a text: compile with -DRELAY_SHAPE=NAME, a name in
// shapes.h. Needs sm_90: clusters, `st.async`.
#include "../grid_channel.cuh"
#include "decode.cuh"
#include "shapes.h"

namespace {

using namespace relay;

namespace shapes {
#define SHAPE(name, blocks, threads, split, positions, ...) \
  using name = Decoder<blocks, threads, split, positions, Passes<__VA_ARGS__>>;
RELAY_SHAPES(SHAPE)
}  // namespace shapes
using Chosen = shapes::RELAY_SHAPE;

// Statuses of the wire protocol: ringcall_wire::status.
constexpr int BAD_PAYLOAD = -16, SCHEMA_MISMATCH = -6, ENGINE_FAILED = -15;

// As host/gpu-decoders/src/relay_bp/params.rs lays it out.
struct Params {
  const uint32_t *tables;
  Race *races;  // two, for calls in turns
  const uint32_t *cancel;  // the low half of a word of 64 bits
  const uint8_t *request;  // of a graph
  uint8_t *answer;         // likewise
  uint64_t deadline_ns;    // from the start of a decode; 0 for none
  Settings settings;
  uint32_t lanes, shared_bytes, request_bytes, answer_bytes, observables, reserved;
};
static_assert(sizeof(Params) == 112, "as in Rust");

__device__ __forceinline__ Limits limits_of(const Params &p) {
  return {p.deadline_ns ? global_ns() + p.deadline_ns : 0, p.cancel};
}

// By all blocks of all lanes. Whether the request was malformed: then there is no answer.
__device__ __forceinline__ bool decode(Chosen &decoder, const Params &p, Race *race, const uint8_t *request, uint8_t *to) {
  const uint32_t lane = blockIdx.x / Chosen::CLUSTER;
  const bool races = p.lanes > 1;
  const long long begun = clock64();
  Answer answer;
  bool malformed;
  const bool lost = decoder.solve(p.settings, request, limits_of(p), races ? &race->best : nullptr, lane, answer, malformed);
  if (decoder.thread < 32 && decoder.rank == 0) {
    // A malformed request ends in each lane, and none has an answer.
    bool last = !lost;
    if (races && decoder.thread == 0) last = finish_race(race, p.lanes, lane, p.settings, lost, answer);
    answer.cycles = uint32_t(clock64() - begun);
    if (__shfl_sync(~0u, last, 0) && !malformed) write_answer(to, p.answer_bytes, p.observables, answer);
  }
  return malformed;
}

}  // namespace

extern "C" {

// The parameters of the handler: written by the host once the module is loaded.
__constant__ Params ringcall_relay_params;

__global__ void __launch_bounds__(Chosen::WARPS * 32, 1) ringcall_relay(const __grid_constant__ Params p) {
  extern __shared__ __align__(16) uint32_t memory[];
  Chosen decoder;
  decoder.set_up(p.tables, memory);
  if (decode(decoder, p, p.races, p.request, p.answer) && blockIdx.x == 0 && threadIdx.x == 0) {
    // No answer ends so.
    for (uint32_t i = 0; i < p.answer_bytes; ++i) p.answer[i] = 0xff;
  }
  decoder.cluster_sync();
}

// From host memory, read once, to where all blocks read it.
__global__ void ringcall_relay_stage(const uint4 *from, uint4 *to, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] = from[i];
}

// The handler's name in a table of functions. The grid is entered once, below, by dispatchers in a block of their own; others are not for it.
__device__ int ringcall_relay_grid(const void *, void *, unsigned, unsigned, unsigned *result_len) {
  *result_len = 0;
  return ENGINE_FAILED;
}

// A grid that a block of its own serves (../grid_channel.cuh): `lanes` clusters, which stay. The tables are read once.
__device__ int ringcall_relay_participate(const void *channel, void *inputs, unsigned stage_bytes, unsigned, unsigned *) {
  extern __shared__ __align__(16) uint32_t memory[];
  const Params &p = ringcall_relay_params;
  // After what others have of the block's shared memory.
  uint32_t all;
  asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(all));
  Chosen decoder;
  decoder.set_up(p.tables, memory + (all - p.shared_bytes) / 128 * 32);
  ringcall::Participant participant(channel);
  volatile auto *told = decoder.shared;
  for (uint64_t call = 0;; ++call) {
    if (threadIdx.x < 32) {
      uint64_t word = 0;
      // Ends as the dispatcher does, which the host stops. The whole warp goes round, so that no thread stays apart from its
      // warp in what follows.
      do {
        if (threadIdx.x == 0) word = participant.poll();
        word = __shfl_sync(~0u, word, 0);
      } while (word == 0);
      if (threadIdx.x == 0) {
        told->word = word;
        told->capacity = participant.capacity;
      }
      __syncwarp();
    }
    __syncthreads();
    const uint64_t word = told->word;
    if (word == ringcall::END) break;
    const bool fits = uint32_t(word) == p.request_bytes && told->capacity >= p.answer_bytes;
    bool malformed = false;
    if (fits) {
      uint8_t *const input = static_cast<uint8_t *>(inputs) + 2ull * ringcall::stage_of(word) * stage_bytes;
      malformed = decode(decoder, p, p.races + call % 2, input, input + stage_bytes);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      const int status = !fits ? SCHEMA_MISMATCH : malformed ? BAD_PAYLOAD : 0;
      if (blockIdx.x == 0) participant.report(word, status, status ? 0 : p.answer_bytes);
      participant.arrive(call);
    }
  }
  // No block ends while another one of its cluster writes to it.
  decoder.cluster_sync();
  return 0;
}

}  // extern "C"

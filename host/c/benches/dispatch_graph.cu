/* A dispatch graph through the C interface: what its making and its launch take of the host's time, calls of a graph that the device
 * launches and that answers, and calls of a handler that triggers a graph.
 *   dispatch_graph [SECONDS [SERVER_CORE CLIENT_CORE]]
 * Latency of one request under way, and throughput with every slot in use; the next request after a triggered graph waits until that has
 * ended, so its latency is that of requests back to back. Needs compute capability 9.0. To be compared with `ringcall bench
 * graph-launch/32`, whose graph has three kernels. */
#include "bench.cuh"

namespace {

using cudaq::realtime::GraphIOContext;

/* One warp: each lane a word of the slot, in one load. The request's header becomes the response's: length, id and time stamp have the same
 * offsets in both. */
__global__ void answer(const GraphIOContext *context) {
  constexpr unsigned WORDS = SLOT / 8;
  const unsigned lane = threadIdx.x;
  const auto *in = reinterpret_cast<const volatile std::uint64_t *>(context->rx_slot);
  auto *out = reinterpret_cast<volatile std::uint64_t *>(context->tx_slot);
  std::uint64_t word = lane < WORDS ? in[lane] : 0;
  const auto len = std::uint32_t(__shfl_sync(0xffffffff, word, 1));
  if (lane == 0)
    word = cudaq::realtime::RPC_MAGIC_RESPONSE;
  else if (lane > 2)
    word = std::uint64_t(__vadd4(unsigned(word >> 32), 0x01010101)) << 32 | __vadd4(unsigned(word), 0x01010101);
  if (lane < 3 || (lane < WORDS && (lane - 3) * 8 < len))
    out[lane] = word;
  __syncwarp();
  if (lane == 0) {
    __threadfence_system();
    *context->tx_flag = context->tx_flag_value;
  }
}

__device__ unsigned triggered;

__global__ void count() { ++triggered; }

__device__ int trigger(const void *input, void *output, std::uint32_t arg_len, std::uint32_t max_result_len,
                       std::uint32_t *result_len) {
  *result_len = increment_bytes(input, output, arg_len, max_result_len);
  return CUDAQ_DISPATCH_STATUS_TRIGGER_GRAPH;
}

__global__ void init_trigger(cudaq_function_entry_t *entry) {
  entry->handler.device_fn_ptr = reinterpret_cast<void *>(&trigger);
}

template <typename Work> cudaGraphExec_t graph_of(Work work) {
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  work(stream);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiateWithFlags(&exec, graph, cudaGraphInstantiateFlagDeviceLaunch));
  CHECK(cudaGraphUpload(exec, stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaStreamDestroy(stream));
  return exec;
}

/* A dispatch graph from its making to its end, and `ask` in between; what making and launching took, in ns. */
template <typename Ask>
std::uint32_t dispatch(MappedRing &ring, const cudaq_function_table_t &table, GraphIOContext *io, cudaGraphExec_t triggered_graph,
                       std::uint32_t threads, Ask ask) {
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudaq_dispatch_graph_context *context = nullptr;
  *ring.shutdown.host = 0;
  const std::uint64_t begin = now();
  CHECK(cudaq_create_dispatch_graph_regular(ring.rx_flags.device, ring.tx_flags.device, ring.rx_data.device,
                                            ring.tx_data.device, SLOT, SLOT, table.entries, table.count, io,
                                            ring.shutdown.device, ring.stats.device, SLOTS, 1, threads, triggered_graph,
                                            stream, &context));
  CHECK(cudaq_launch_dispatch_graph(context, stream));
  const auto took = std::uint32_t(now() - begin);
  ask();
  *static_cast<volatile int *>(ring.shutdown.host) = 1;
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaq_destroy_dispatch_graph(context));
  CHECK(cudaStreamDestroy(stream));
  return took;
}

/* The first, which loads the dispatcher, and the median of those that follow. */
void times(MappedRing &ring, const cudaq_function_table_t &table, GraphIOContext *io) {
  constexpr int ROUNDS = 21;
  std::uint32_t took[ROUNDS];
  const std::uint32_t first = dispatch(ring, table, io, nullptr, 32, [] {});
  for (std::uint32_t &one : took)
    one = dispatch(ring, table, io, nullptr, 32, [] {});
  std::qsort(took, ROUNDS, sizeof *took, compare);
  std::printf("dispatch graph made and launched: %.3f ms, the first %.3f ms\n", took[ROUNDS / 2] * 1e-6, first * 1e-6);
}

} // namespace

int main(int argc, char **argv) {
  if (!have_device())
    return 0;
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, 0));
  if (properties.major < 9) {
    std::puts("skipped: graphs are launched from devices of compute capability 9.0 or later");
    return 0;
  }
  const Plan plan = plan_of(argc, argv);
  MappedRing ring;
  GraphIOContext *io = nullptr;
  CHECK(cudaMalloc(&io, sizeof *io));
  cudaq_function_entry_t entry{};
  entry.function_id = FUNCTION;
  entry.dispatch_mode = CUDAQ_DISPATCH_GRAPH_LAUNCH;
  entry.handler.graph_exec = graph_of([&](cudaStream_t stream) { answer<<<1, 32, 0, stream>>>(io); });
  const cudaq_function_table_t answering = device_table(entry, [](auto *) {});
  entry.dispatch_mode = CUDAQ_DISPATCH_DEVICE_CALL;
  const cudaq_function_table_t triggering = device_table(entry, [](auto *at) { init_trigger<<<1, 1>>>(at); });
  const cudaGraphExec_t counting = graph_of([](cudaStream_t stream) { count<<<1, 1, 0, stream>>>(); });

  times(ring, answering, io);
  for (const std::uint32_t threads : {32u, 256u}) {
    char name[64];
    std::snprintf(name, sizeof name, "dispatch-graph/%d C, %u threads", int(PAYLOAD), threads);
    dispatch(ring, answering, io, nullptr, threads, [&] { measure(name, &ring.views, plan, 2000); });
    std::snprintf(name, sizeof name, "trigger-graph/%d C, %u threads", int(PAYLOAD), threads);
    dispatch(ring, triggering, nullptr, counting, threads, [&] { measure(name, &ring.views, plan, 2000); });
  }
  return 0;
}

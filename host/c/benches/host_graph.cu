/* host-graph/32 through the C interface: a graph of one kernel that the host path launches for each request, eight workers.
 *   host_graph [SECONDS [SERVER_CORE CLIENT_CORE]]
 * The kernel finds its request by its mailbox and answers in the ring, as any graph for this interface does: latency of one
 * request under way, and throughput with every slot in use, once as it is by default, and once with the word that the graph's
 * answer is the last it does (ringcall_dispatcher_set_answer_last). To be compared with `ringcall bench host-graph/32`, whose
 * kernel does the same with a mailbox that holds the request: three loads from host memory that wait for each other here
 * (mailbox, context, request), one there. Last comes what single CUDA calls take of the host's time. */
#include "bench.cuh"
#include <cstddef>
#include <cuda.h>

namespace {

using cudaq::realtime::GraphIOContext;

static_assert(offsetof(GraphIOContext, tx_slot) == 8 && offsetof(GraphIOContext, tx_flag) == 16 &&
              offsetof(GraphIOContext, tx_flag_value) == 24);
constexpr unsigned WORKERS = 8, WORDS = SLOT / 8, ALL = 0xffffffff;

/* One warp: each lane a word of the context, then of the slot, in one load (loads of one sector of host memory wait for each
 * other). The request's header becomes the response's: length, id and time stamp have the same offsets in both. */
__global__ void increment(GraphIOContext *const volatile *mailbox) {
  const unsigned lane = threadIdx.x;
  const auto *context = reinterpret_cast<const volatile std::uint64_t *>(*mailbox);
  const std::uint64_t field = lane < sizeof(GraphIOContext) / 8 ? context[lane] : 0;
  const auto *in = reinterpret_cast<const volatile std::uint64_t *>(__shfl_sync(ALL, field, 0));
  auto *out = reinterpret_cast<volatile std::uint64_t *>(__shfl_sync(ALL, field, 1));
  auto *flag = reinterpret_cast<volatile std::uint64_t *>(__shfl_sync(ALL, field, 2));
  const std::uint64_t value = __shfl_sync(ALL, field, 3);
  std::uint64_t word = lane < WORDS ? in[lane] : 0;
  const auto len = std::uint32_t(__shfl_sync(ALL, word, 1));
  if (lane == 0)
    word = cudaq::realtime::RPC_MAGIC_RESPONSE;
  else if (lane > 2)
    word = std::uint64_t(__vadd4(unsigned(word >> 32), 0x01010101)) << 32 | __vadd4(unsigned(word), 0x01010101);
  if (lane < 3 || (lane < WORDS && (lane - 3) * 8 < len))
    out[lane] = word;
  __syncwarp();
  if (lane == 0) {
    __threadfence_system();
    *flag = value;
  }
}

cudaGraphExec_t graph_for(GraphIOContext **mailbox) {
  cudaGraph_t graph;
  cudaGraphNode_t node;
  cudaGraphExec_t exec;
  void *arguments[] = {&mailbox};
  cudaKernelNodeParams kernel{};
  kernel.func = reinterpret_cast<void *>(&increment);
  kernel.gridDim = dim3(1);
  kernel.blockDim = dim3(32);
  kernel.kernelParams = arguments;
  CHECK(cudaGraphCreate(&graph, 0));
  CHECK(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &kernel));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK(cudaGraphDestroy(graph));
  return exec;
}

/* A dispatcher of its own on rings and graphs of its own, measured and stopped. */
void run(const char *name, Plan plan, bool answer_last) {
  MappedRing ring;
  Mapped<GraphIOContext *> mailbox(WORKERS);
  cudaq_function_entry_t entries[WORKERS] = {};
  for (unsigned worker = 0; worker < WORKERS; ++worker) {
    entries[worker].handler.graph_exec = graph_for(mailbox.device + worker);
    entries[worker].function_id = FUNCTION;
    entries[worker].dispatch_mode = CUDAQ_DISPATCH_GRAPH_LAUNCH;
  }
  cudaq_function_table_t table{};
  table.entries = entries;
  table.count = WORKERS;
  cudaq_dispatcher_config_t config{};
  config.num_slots = SLOTS;
  config.slot_size = SLOT;
  config.dispatch_mode = CUDAQ_DISPATCH_GRAPH_LAUNCH;
  config.dispatch_path = CUDAQ_DISPATCH_PATH_HOST;

  cudaq_dispatch_manager_t *manager = nullptr;
  cudaq_dispatcher_t *dispatcher = nullptr;
  CHECK(cudaq_dispatch_manager_create(&manager));
  CHECK(cudaq_dispatcher_create(manager, &config, &dispatcher));
  CHECK(cudaq_dispatcher_set_ringbuffer(dispatcher, &ring.views));
  CHECK(cudaq_dispatcher_set_function_table(dispatcher, &table));
  CHECK(cudaq_dispatcher_set_control(dispatcher, ring.shutdown.host, ring.stats.host));
  CHECK(cudaq_dispatcher_set_mailbox(dispatcher, reinterpret_cast<void **>(mailbox.host)));
  CHECK(ringcall_dispatcher_set_answer_last(dispatcher, answer_last));
  pin(plan.server);
  CHECK(cudaq_dispatcher_start(dispatcher));

  measure(name, &ring.views, plan, 2000);

  CHECK(cudaq_dispatcher_stop(dispatcher));
  CHECK(cudaq_dispatcher_destroy(dispatcher));
  CHECK(cudaq_dispatch_manager_destroy(manager));
  for (const auto &entry : entries)
    CHECK(cudaGraphExecDestroy(entry.handler.graph_exec));
}

using WriteValue = CUresult (*)(CUstream, CUdeviceptr, cuuint64_t, unsigned);

/* The median of what `call` takes of the host's time, on a stream that is idle before. */
template <typename Call> unsigned median(cudaStream_t stream, Call call) {
  constexpr int ROUNDS = 2000;
  static std::uint32_t times[ROUNDS];
  for (int round = 0; round < 2 * ROUNDS; ++round) {
    CHECK(cudaStreamSynchronize(stream));
    const std::uint64_t begin = now();
    call();
    times[round % ROUNDS] = std::uint32_t(now() - begin);
  }
  CHECK(cudaStreamSynchronize(stream));
  std::qsort(times, ROUNDS, sizeof *times, compare);
  return times[ROUNDS / 2];
}

/* What the host path's calls take, one at a time: the launch, the flag after it, and what could stand in for that. */
void calls(Plan plan) {
  pin(plan.server);
  Mapped<GraphIOContext *> mailbox(1);
  Mapped<GraphIOContext> io(1);
  Mapped<std::uint64_t> rx(WORDS), tx(WORDS), flag(2);
  io.host->rx_slot = rx.device;
  io.host->tx_slot = reinterpret_cast<std::uint8_t *>(tx.device);
  io.host->tx_flag = flag.device;
  io.host->tx_flag_value = 1;
  *mailbox.host = io.device;
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudaGraphExec_t exec = graph_for(mailbox.device);
  void *symbol = nullptr;
  cudaDriverEntryPointQueryResult found;
  CHECK(cudaGetDriverEntryPointByVersion("cuStreamWriteValue64", &symbol, 12000, cudaEnableDefault, &found));
  const auto write = reinterpret_cast<WriteValue>(symbol);
  const auto at = reinterpret_cast<CUdeviceptr>(flag.device + 1);
  const unsigned launch = median(stream, [&] { CHECK(cudaGraphLaunch(exec, stream)); });
  const unsigned query = median(stream, [&] { CHECK(cudaStreamQuery(stream)); });
  const unsigned after = write == nullptr ? 0 : median(stream, [&] {
    if (write(stream, at, 1, 0) != CUDA_SUCCESS)
      std::exit(1);
  });
  std::printf("host time of CUDA calls: graph launch %u ns, write after it %u ns, query of an idle stream %u ns\n",
              launch, after, query);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaStreamDestroy(stream));
}

} // namespace

int main(int argc, char **argv) {
  if (!have_device())
    return 0;
  const Plan plan = plan_of(argc, argv);
  // Before anything is pinned: the driver's own threads inherit it.
  CHECK(cudaFree(nullptr));
  run("host-graph/32 C", plan, false);
  run("host-graph/32 C, answer last", plan, true);
  calls(plan);
  return 0;
}

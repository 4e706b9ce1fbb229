// Graphs that the dispatch kernel launches for requests, and one that a handler triggers: the specification's graph dispatch
// mode, whole. Built with nvcc -rdc=true and the device archive; needs compute capability 9.0.
#include "device.h"

using cudaq::realtime::GraphIOContext;

namespace {

constexpr std::uint32_t DECODE_FUNCTION_ID = cudaq::realtime::fnv1a_hash("mock_decode");
constexpr std::uint32_t SUM_FUNCTION_ID = cudaq::realtime::fnv1a_hash("sum");
constexpr std::uint32_t SILENT_FUNCTION_ID = cudaq::realtime::fnv1a_hash("silent");
constexpr std::uint32_t ENQUEUE_FUNCTION_ID = cudaq::realtime::fnv1a_hash("enqueue");
constexpr std::uint32_t TOTAL_FUNCTION_ID = cudaq::realtime::fnv1a_hash("total");

[[noreturn]] void fail(const char *what, std::uint64_t number) {
  std::fprintf(stderr, "%s: %llu\n", what, static_cast<unsigned long long>(number));
  std::exit(1);
}

} // namespace

// ---- Kernels of the graphs. They find request and response through the context. ----

__device__ void answer(const GraphIOContext *io, const void *result, std::uint32_t bytes) {
  const auto *request = static_cast<const cudaq::realtime::RPCHeader *>(io->rx_slot);
  auto *response = reinterpret_cast<cudaq::realtime::RPCResponse *>(io->tx_slot);
  for (std::uint32_t i = 0; i < bytes; ++i)
    io->tx_slot[sizeof *response + i] = static_cast<const std::uint8_t *>(result)[i];
  response->magic = cudaq::realtime::RPC_MAGIC_RESPONSE;
  response->status = 0;
  response->result_len = bytes;
  response->request_id = request->request_id;
  response->ptp_timestamp = request->ptp_timestamp;
  __threadfence_system();
  *io->tx_flag = io->tx_flag_value;
}

// The parity of the measurements' bytes.
__global__ void decode_kernel(const GraphIOContext *io) {
  const auto *request = static_cast<const cudaq::realtime::RPCHeader *>(io->rx_slot);
  const auto *measurements = reinterpret_cast<const std::uint8_t *>(request + 1);
  std::uint8_t parity = 0;
  for (std::uint32_t i = 0; i < request->arg_len; ++i)
    parity ^= measurements[i];
  answer(io, &parity, 1);
}

// The sum of the bytes, by two kernels: the first adds, the second answers.
__global__ void add_kernel(const GraphIOContext *io, std::uint32_t *sum) {
  const auto *request = static_cast<const cudaq::realtime::RPCHeader *>(io->rx_slot);
  if (threadIdx.x == 0)
    *sum = 0;
  __syncthreads();
  for (std::uint32_t i = threadIdx.x; i < request->arg_len; i += blockDim.x)
    atomicAdd(sum, reinterpret_cast<const std::uint8_t *>(request + 1)[i]);
}
__global__ void answer_kernel(const GraphIOContext *io, const std::uint32_t *sum) { answer(io, sum, sizeof *sum); }

// Ends without an answer.
__global__ void silent_kernel(const GraphIOContext *) {}

// What `enqueue` adds up is taken over by the trigger graph, which takes its time, and more of it while the gate is closed: some
// ten seconds at most.
__device__ std::uint32_t pending, taken_over;
__global__ void take_over_kernel(const volatile int *closed) {
  const long long begin = clock64();
  while (clock64() - begin < 200000) {
  }
  while (*closed != 0 && clock64() - begin < 20000000000) {
  }
  taken_over += pending;
  pending = 0;
}

// ---- Handlers ----

__device__ int enqueue(const void *input, void *, std::uint32_t arg_len, std::uint32_t, std::uint32_t *result_len) {
  for (std::uint32_t i = 0; i < arg_len; ++i)
    pending += static_cast<const std::uint8_t *>(input)[i];
  *result_len = 0;
  return CUDAQ_DISPATCH_STATUS_TRIGGER_GRAPH;
}

__device__ int total(const void *, void *output, std::uint32_t, std::uint32_t max_result_len,
                     std::uint32_t *result_len) {
  if (max_result_len < sizeof taken_over)
    return 1;
  *static_cast<std::uint32_t *>(output) = *static_cast<volatile std::uint32_t *>(&taken_over);
  *result_len = sizeof taken_over;
  return 0;
}

__global__ void init_handlers(cudaq_function_entry_t *entries) {
  entries[0].handler.device_fn_ptr = reinterpret_cast<void *>(&enqueue);
  entries[1].handler.device_fn_ptr = reinterpret_cast<void *>(&total);
}

namespace {

// A graph of what `work` puts on a stream, ready for launches from the device.
template <typename Work> cudaGraphExec_t graph_of(Work work) {
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  work(stream);
  CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
  CHECK_CUDA(cudaGraphInstantiateWithFlags(&exec, graph, cudaGraphInstantiateFlagDeviceLaunch));
  CHECK_CUDA(cudaGraphUpload(exec, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  CHECK_CUDA(cudaGraphDestroy(graph));
  CHECK_CUDA(cudaStreamDestroy(stream));
  return exec;
}

cudaq_function_entry_t entry_of(std::uint32_t function_id, cudaq_dispatch_mode_t mode, cudaGraphExec_t exec) {
  cudaq_function_entry_t entry{};
  entry.handler.graph_exec = exec;
  entry.function_id = function_id;
  entry.dispatch_mode = static_cast<std::uint8_t>(mode);
  return entry;
}

void send(const Ring &ring, std::uint32_t slot, std::uint32_t function_id, const std::uint8_t *bytes, std::uint32_t count,
          std::uint32_t id) {
  // The request flag is given back a moment after the answer.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!cudaq_host_ringbuffer_slot_available(&ring.views, slot))
    if (std::chrono::steady_clock::now() > end)
      fail("not given back: slot", slot);
  CHECK(cudaq_host_ringbuffer_write_rpc_request(&ring.views, slot, function_id, bytes, count, id, 1000 + id));
  cudaq_host_ringbuffer_signal_slot(&ring.views, slot);
}

// Waits for the answer to request `id` in a slot, checks its header, and gives its first result bytes.
std::uint32_t take(const Ring &ring, std::uint32_t slot, std::uint32_t id, std::int32_t status = 0) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (cudaq_host_ringbuffer_poll_tx_flag(&ring.views, slot, nullptr) != CUDAQ_TX_READY)
    if (std::chrono::steady_clock::now() > end)
      fail("no answer to request", id);
  const std::uint8_t *response = ring.tx_data.host + slot * Ring::slot_size;
  cudaq::realtime::RPCResponse header;
  std::uint32_t result = 0;
  std::memcpy(&header, response, sizeof header);
  std::memcpy(&result, response + sizeof header, header.result_len < 4 ? header.result_len : 4);
  if (header.magic != cudaq::realtime::RPC_MAGIC_RESPONSE || header.status != status || header.request_id != id ||
      header.ptp_timestamp != 1000 + id) {
    std::fprintf(stderr, "request %u: status %d, id %u\n", id, header.status, header.request_id);
    std::exit(1);
  }
  cudaq_host_ringbuffer_clear_slot(&ring.views, slot);
  return result;
}

struct Figures {
  int rc;
  unsigned long long fires, tails;
};

// What the library says of trigger graphs: it is asked beside the running kernel.
Figures figures() {
  Figures now{};
  CHECK_CUDA(cudaq_dispatch_get_trigger_debug(&now.rc, &now.fires, &now.tails));
  return now;
}

void expect_figures(Figures now, int rc, unsigned long long fires, unsigned long long tails) {
  if (now.rc == rc && now.fires == fires && now.tails == tails)
    return;
  std::fprintf(stderr, "rc %d, %llu fires, %llu relaunches; expected %d, %llu, %llu\n", now.rc, now.fires, now.tails, rc,
               fires, tails);
  std::exit(1);
}

// A dispatch graph from its making to its end, with `ask` in between; how many requests it dispatched.
template <typename Ask>
std::uint64_t dispatch(const Ring &ring, const cudaq_function_entry_t *entries, std::size_t count, GraphIOContext *io,
                       cudaGraphExec_t trigger, Ask ask) {
  cudaq_dispatch_graph_context *context = nullptr;
  cudaStream_t stream;
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudaq_function_entry_t *table = nullptr;
  CHECK_CUDA(cudaMalloc(&table, count * sizeof *table));
  CHECK_CUDA(cudaMemcpy(table, entries, count * sizeof *table, cudaMemcpyHostToDevice));
  *ring.shutdown_flag.host = 0;
  *ring.stats.host = 0;
  const auto create = [&](GraphIOContext *with) {
    return cudaq_create_dispatch_graph_regular(
        ring.rx_flags.device, ring.tx_flags.device, ring.rx_data.device, ring.tx_data.device, Ring::slot_size,
        Ring::slot_size, table, count, with, ring.shutdown_flag.device, ring.stats.device, Ring::num_slots, 1, 256, trigger,
        stream, &context);
  };
  // Graphs that answer need a context.
  if (io != nullptr && create(nullptr) != cudaErrorInvalidValue)
    fail("made without a context", 0);
  if (create(io) != cudaSuccess) {
    std::fprintf(stderr, "no dispatch graph: %s\n", ringcall_last_error());
    std::exit(1);
  }
  CHECK_CUDA(cudaq_launch_dispatch_graph(context, stream));
  if (cudaq_launch_dispatch_graph(context, stream) == cudaSuccess || cudaq_destroy_dispatch_graph(context) == cudaSuccess)
    fail("launched twice, or destroyed while it runs", 0);
  ask();
  *static_cast<volatile int *>(ring.shutdown_flag.host) = 1;
  CHECK_CUDA(cudaStreamSynchronize(stream));
  CHECK_CUDA(cudaq_destroy_dispatch_graph(context));
  if (cudaq_launch_dispatch_graph(context, stream) == cudaSuccess)
    fail("launched after it was destroyed", 0);
  CHECK_CUDA(cudaFree(table));
  CHECK_CUDA(cudaStreamDestroy(stream));
  return *ring.stats.host;
}

} // namespace

int main() {
  if (!have_device())
    return 0;
  cudaDeviceProp properties;
  CHECK_CUDA(cudaGetDeviceProperties(&properties, 0));
  if (properties.major < 9) {
    std::puts("skipped: graphs are launched from devices of compute capability 9.0 or later");
    return 0;
  }
  Ring ring;
  GraphIOContext *io = nullptr;
  std::uint32_t *sum = nullptr;
  CHECK_CUDA(cudaMalloc(&io, sizeof *io));
  CHECK_CUDA(cudaMalloc(&sum, sizeof *sum));
  cudaq_function_entry_t *handlers = nullptr;
  CHECK_CUDA(cudaMalloc(&handlers, 2 * sizeof *handlers));
  cudaq_function_entry_t entries[] = {
      entry_of(ENQUEUE_FUNCTION_ID, CUDAQ_DISPATCH_DEVICE_CALL, nullptr),
      entry_of(TOTAL_FUNCTION_ID, CUDAQ_DISPATCH_DEVICE_CALL, nullptr),
      entry_of(DECODE_FUNCTION_ID, CUDAQ_DISPATCH_GRAPH_LAUNCH,
               graph_of([&](cudaStream_t stream) { decode_kernel<<<1, 1, 0, stream>>>(io); })),
      entry_of(SUM_FUNCTION_ID, CUDAQ_DISPATCH_GRAPH_LAUNCH, graph_of([&](cudaStream_t stream) {
                 add_kernel<<<1, 64, 0, stream>>>(io, sum);
                 answer_kernel<<<1, 1, 0, stream>>>(io, sum);
               })),
      entry_of(SILENT_FUNCTION_ID, CUDAQ_DISPATCH_GRAPH_LAUNCH,
               graph_of([&](cudaStream_t stream) { silent_kernel<<<1, 1, 0, stream>>>(io); })),
  };
  Mapped<int> closed{1};
  const cudaGraphExec_t trigger =
      graph_of([&](cudaStream_t stream) { take_over_kernel<<<1, 1, 0, stream>>>(closed.device); });
  CHECK_CUDA(cudaMemcpy(handlers, entries, 2 * sizeof *handlers, cudaMemcpyHostToDevice));
  init_handlers<<<1, 1>>>(handlers);
  CHECK_CUDA(cudaMemcpy(entries, handlers, 2 * sizeof *handlers, cudaMemcpyDeviceToHost));

  // Graphs answer: one at a time, then bursts for two graphs, whose requests wait for each other. More than the 120 launches
  // that one execution of a graph can make.
  expect_figures(figures(), RINGCALL_TRIGGER_NEVER_FIRED, 0, 0);
  const std::uint64_t graphs = dispatch(ring, entries + 2, 3, io, nullptr, [&] {
    ring.ask_for_parities(DECODE_FUNCTION_ID);
    std::uint32_t id = 5000;
    for (int burst = 0; burst < 50; ++burst) {
      for (std::uint32_t slot = 0; slot < Ring::num_slots; ++slot) {
        const std::uint8_t bytes[3] = {static_cast<std::uint8_t>(id), static_cast<std::uint8_t>(slot), 200};
        send(ring, slot, slot % 2 == 0 ? SUM_FUNCTION_ID : DECODE_FUNCTION_ID, bytes, sizeof bytes, id + slot);
      }
      for (std::uint32_t slot = 0; slot < Ring::num_slots; ++slot) {
        const std::uint32_t first = id & 0xFF;
        const std::uint32_t expected = slot % 2 == 0 ? first + slot + 200 : first ^ slot ^ 200;
        if (take(ring, slot, id + slot) != expected)
          fail("a wrong answer to request", id + slot);
      }
      id += Ring::num_slots;
    }
    // A graph that does not answer is answered for, and the next is served.
    send(ring, 0, SILENT_FUNCTION_ID, nullptr, 0, 1);
    take(ring, 0, 1, RINGCALL_STATUS_LAUNCH_FAILED);
    const std::uint8_t bytes[1] = {7};
    send(ring, 0, SUM_FUNCTION_ID, bytes, 1, 2);
    if (take(ring, 0, 2) != 7)
      fail("a wrong sum after a silent graph", 2);
  });
  // These were no trigger graphs; the kernel has relaunched itself all the same.
  const Figures before = figures();
  if (before.tails == 0)
    fail("no relaunch", before.tails);
  expect_figures(before, RINGCALL_TRIGGER_NEVER_FIRED, 0, before.tails);
  if (graphs != 1000 + 50 * Ring::num_slots + 2)
    fail("not every graph was counted", graphs);

  // A handler triggers a graph; the next call finds its work done.
  constexpr std::uint32_t TRIGGERS = 300;
  const std::uint64_t triggered = dispatch(ring, entries, 2, nullptr, trigger, [&] {
    std::uint32_t expected = 0;
    for (std::uint32_t id = 0; id < TRIGGERS; ++id) {
      const std::uint8_t bytes[2] = {static_cast<std::uint8_t>(id), 1};
      send(ring, id % Ring::num_slots, ENQUEUE_FUNCTION_ID, bytes, sizeof bytes, id);
      take(ring, id % Ring::num_slots, id);
      expected += bytes[0] + bytes[1];
      send(ring, (id + 1) % Ring::num_slots, TOTAL_FUNCTION_ID, nullptr, 0, id);
      if (take(ring, (id + 1) % Ring::num_slots, id) != expected)
        fail("the trigger graph had not ended at request", id);
      expect_figures(figures(), cudaSuccess, id + 1, before.tails + id + 1);
    }
    // A trigger graph that goes on and on: nothing is served, and the figures can be read.
    *static_cast<volatile int *>(closed.host) = 1;
    send(ring, 0, ENQUEUE_FUNCTION_ID, nullptr, 0, TRIGGERS);
    take(ring, 0, TRIGGERS);
    send(ring, 1, TOTAL_FUNCTION_ID, nullptr, 0, TRIGGERS);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (figures().tails != before.tails + TRIGGERS + 1)
      if (std::chrono::steady_clock::now() > end)
        fail("no relaunch after the graph that runs", figures().tails);
    expect_figures(figures(), cudaSuccess, TRIGGERS + 1, before.tails + TRIGGERS + 1);
    if (cudaq_host_ringbuffer_poll_tx_flag(&ring.views, 1, nullptr) == CUDAQ_TX_READY)
      fail("answered beside the trigger graph", 1);
    *static_cast<volatile int *>(closed.host) = 0;
    if (take(ring, 1, TRIGGERS) != expected)
      fail("a wrong sum after the graph that was waited for", TRIGGERS);
  });
  if (triggered != 2 * (TRIGGERS + 1))
    fail("not every call was counted", triggered);
  // They outlive the dispatch graph.
  expect_figures(figures(), cudaSuccess, TRIGGERS + 1, before.tails + TRIGGERS + 1);

  for (int i = 2; i < 5; ++i)
    CHECK_CUDA(cudaGraphExecDestroy(entries[i].handler.graph_exec));
  CHECK_CUDA(cudaGraphExecDestroy(trigger));
  CHECK_CUDA(cudaFree(handlers));
  CHECK_CUDA(cudaFree(sum));
  CHECK_CUDA(cudaFree(io));
  std::printf("ran: ringcall %s, %llu requests answered by graphs, %u graphs triggered\n", ringcall_version(),
              static_cast<unsigned long long>(graphs), TRIGGERS + 1);
  return 0;
}

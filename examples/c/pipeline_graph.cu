// The real-time pipeline with CUDA graphs: the dispatcher copies a request to its worker's memory, launches the worker's graph, and
// the CPU stage finishes what the graph has computed; then the same without a CPU stage, where the graph writes the response itself.
#include "device.h"

#include <cudaq/qec/realtime/pipeline.h>

#include <atomic>
#include <memory>
#include <vector>

namespace realtime = cudaq::qec::realtime::experimental;
using cudaq::realtime::RPC_MAGIC_RESPONSE;
using cudaq::realtime::RPCHeader;
using cudaq::realtime::RPCResponse;

namespace {

constexpr std::size_t SLOT = 512;
constexpr std::size_t VALUES = 100;
constexpr std::uint32_t FUNCTION_ID = cudaq::realtime::fnv1a_hash("infer");

// ---- The graph's kernels: "inference" doubles each value. ----

__global__ void infer_kernel(const std::uint8_t *slot, std::uint32_t *output) {
  const auto *values = reinterpret_cast<const std::uint32_t *>(slot + sizeof(RPCHeader));
  output[threadIdx.x] = 2 * values[threadIdx.x];
}

// The output is there: 0 -> 1. The CPU stage takes it, 1 -> 2, and gives it back, 2 -> 0.
__global__ void ready_kernel(int *ready) {
  __threadfence_system();
  *static_cast<volatile int *>(ready) = 1;
}

// Without a CPU stage: the response over the request, in its slot, whose address the hook has left in the mailbox.
__global__ void respond_kernel(std::uint8_t *const *mailbox, const std::uint32_t *output) {
  std::uint8_t *slot = *static_cast<std::uint8_t *const volatile *>(mailbox);
  auto *response = reinterpret_cast<RPCResponse *>(slot);
  reinterpret_cast<std::uint32_t *>(slot + sizeof(RPCResponse))[threadIdx.x] = output[threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0) {
    response->status = 0;
    response->result_len = VALUES * sizeof(std::uint32_t);
    response->magic = RPC_MAGIC_RESPONSE;
    __threadfence_system();
  }
}

// ---- A worker: a stream, a graph, and what they work on. ----

struct Worker {
  cudaStream_t stream = nullptr;
  cudaGraphExec_t graph = nullptr;
  std::uint8_t *input = nullptr; // on the device
  Mapped<std::uint32_t> output{VALUES};
  Mapped<int> ready{1};
  Mapped<std::uint8_t *> mailbox{1};

  explicit Worker(bool with_cpu_stage) {
    CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK_CUDA(cudaMalloc(&input, SLOT));
    cudaGraph_t captured = nullptr;
    CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    infer_kernel<<<1, VALUES, 0, stream>>>(input, output.device);
    if (with_cpu_stage)
      ready_kernel<<<1, 1, 0, stream>>>(ready.device);
    else
      respond_kernel<<<1, VALUES, 0, stream>>>(mailbox.device, output.device);
    CHECK_CUDA(cudaStreamEndCapture(stream, &captured));
    CHECK_CUDA(cudaGraphInstantiate(&graph, captured, 0));
    CHECK_CUDA(cudaGraphDestroy(captured));
  }
  ~Worker() {
    cudaGraphExecDestroy(graph);
    cudaFree(input);
    cudaStreamDestroy(stream);
  }

  // Before each launch: the copy engine brings the request.
  static void before_launch(void *user, void *slot, cudaStream_t stream) {
    auto &worker = *static_cast<Worker *>(user);
    *static_cast<std::uint8_t *volatile *>(worker.mailbox.host) = static_cast<std::uint8_t *>(slot);
    CHECK_CUDA(cudaMemcpyAsync(worker.input, slot, SLOT, cudaMemcpyDefault, stream));
  }
};

std::uint32_t value(int request, std::size_t i) { return static_cast<std::uint32_t>(request) * 7 + static_cast<std::uint32_t>(i); }

int run(bool with_cpu_stage, int requests) {
  constexpr int WORKERS = 4;
  std::vector<std::unique_ptr<Worker>> workers;
  for (int i = 0; i < WORKERS; ++i)
    workers.push_back(std::make_unique<Worker>(with_cpu_stage));
  std::atomic<int> right{0}, wrong{0}, failed{0};
  realtime::pipeline_stage_config config;
  config.num_workers = WORKERS;
  config.slot_size = SLOT;
  realtime::realtime_pipeline pipeline(config);
  pipeline.set_gpu_stage([&](int i) {
    Worker &worker = *workers.at(static_cast<std::size_t>(i));
    realtime::gpu_worker_resources made;
    made.graph_exec = worker.graph;
    made.stream = worker.stream;
    made.pre_launch_fn = Worker::before_launch;
    made.pre_launch_data = made.user_context = &worker;
    made.function_id = FUNCTION_ID;
    return made;
  });
  if (with_cpu_stage)
    pipeline.set_cpu_stage([](const realtime::cpu_stage_context &c) -> std::size_t {
      auto &worker = *static_cast<Worker *>(c.user_context);
      int raised = 1;
      if (!__atomic_compare_exchange_n(worker.ready.host, &raised, 2, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return 0; // not there yet
      const RPCResponse response = {RPC_MAGIC_RESPONSE, 0, VALUES * sizeof(std::uint32_t), 0, 0};
      std::memcpy(c.response_buffer, &response, sizeof response);
      std::memcpy(static_cast<std::uint8_t *>(c.response_buffer) + sizeof response, worker.output.host, VALUES * 4);
      __atomic_store_n(worker.ready.host, 0, __ATOMIC_RELEASE);
      return sizeof response + VALUES * sizeof(std::uint32_t);
    });
  pipeline.set_completion_handler([&](const realtime::completion &c) {
    if (!c.success || c.result_size != VALUES * sizeof(std::uint32_t)) {
      ++failed;
      return;
    }
    const auto *result = static_cast<const std::uint32_t *>(c.result);
    bool same = true;
    for (std::size_t i = 0; i < VALUES; ++i)
      same &= result[i] == 2 * value(static_cast<int>(c.request_id), i);
    ++(same ? right : wrong);
  });
  pipeline.start();
  auto injector = pipeline.create_injector();
  std::vector<std::uint32_t> values(VALUES);
  const auto begin = std::chrono::steady_clock::now();
  for (int request = 0; request < requests; ++request) {
    for (std::size_t i = 0; i < VALUES; ++i)
      values[i] = value(request, i);
    injector.submit(FUNCTION_ID, values.data(), VALUES * sizeof(std::uint32_t), static_cast<std::uint64_t>(request));
  }
  pipeline.stop();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::printf("%s: %d requests, %d right, %d wrong, %d failed, %.0f a second\n",
              with_cpu_stage ? "graph and CPU stage" : "graph alone", requests, right.load(), wrong.load(), failed.load(),
              requests / took.count());
  return right == requests ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) {
  if (!have_device())
    return 0;
  const int requests = argc > 1 ? std::atoi(argv[1]) : 20000;
  return run(true, requests) | run(false, requests);
}

// The kernel's shapes against the answers of `ringcall-bp`, to the bit, and their times, as lines of JSON.
//
//   nvcc -std=c++17 -O3 --expt-relaxed-constexpr -gencode=arch=compute_90,code=sm_90 bench.cu -o bench && ./bench SHAPE FILE
//
// FILE is what `cargo run --release -p ringcall-bp --example export` wrote. One shot "inside" is from the syndrome's load to the
// answer's store, by the clock of the multiprocessor, one shot after another on one cluster; "graph" is from the launch of a graph of one
// kernel, which sets its tables up anew, to the answer in mapped memory, by the host's clock.
#include <chrono>
#include <cuda_runtime.h>

#include "batch.cuh"
#include "problem.h"
#include "shapes.h"

using namespace relay;

#define CHECK(call) \
  do { \
    const cudaError_t code = (call); \
    if (code != cudaSuccess) throw std::runtime_error(std::string(#call ": ") + cudaGetErrorString(code)); \
  } while (0)

template <class T> T *upload(const std::vector<T> &items) {
  T *at = nullptr;
  CHECK(cudaMalloc(&at, std::max<size_t>(items.size(), 1) * sizeof(T)));
  CHECK(cudaMemcpy(at, items.data(), items.size() * sizeof(T), cudaMemcpyHostToDevice));
  return at;
}

static double rank_of(const std::vector<double> &sorted, double share) { return sorted[size_t((sorted.size() - 1) * share)]; }

static std::string summary(std::vector<double> us) {
  std::sort(us.begin(), us.end());
  const double mean = std::accumulate(us.begin(), us.end(), 0.0) / us.size();
  char text[256];
  std::snprintf(text, sizeof text, "{\"p50\": %.2f, \"mean\": %.2f, \"p99\": %.2f, \"p999\": %.2f, \"p9999\": %.2f, \"max\": %.2f}",
                rank_of(us, 0.5), mean, rank_of(us, 0.99), rank_of(us, 0.999), rank_of(us, 0.9999), us.back());
  return text;
}

static int lanes_of(const Problem &problem) { return int(problem.config.lanes); }

template <int BLOCKS, int THREADS, int SPLIT, int POSITIONS, class P>
int run(const char *name, const Problem &problem) {
  problem.check(BLOCKS, THREADS, SPLIT, POSITIONS);
  const Tables tables = problem.tables();
  const uint32_t shots = uint32_t(problem.defects.size()), repeated = lanes_of(problem) > 1 ? shots : shots * 16, bytes_each = (problem.checks + 7) / 8;
  std::vector<uint8_t> requests(size_t(shots) * bytes_each, 0);
  for (uint32_t s = 0; s < shots; ++s)
    for (uint32_t d : problem.defects[s]) requests[size_t(s) * bytes_each + d / 8] |= 1u << d % 8;
  const Config &c = problem.config;
  Launch launch{};
  launch.tables = upload(problem.words);
  launch.settings = {c.first_memory, c.low, c.high - c.low + 1, c.first_iterations, c.leg_iterations,
                     c.legs, c.solutions, c.max_iterations, c.seed, c.lane_delay};
  launch.lanes = c.lanes;
  const Race before{~0u, 0, {}, {}};
  launch.races = c.lanes > 1 ? upload(std::vector<Race>(repeated, before)) : nullptr;
  launch.request_bytes = bytes_each;
  launch.shots = launch.distinct = shots;
  launch.requests = upload(requests);
  launch.never = upload(std::vector<uint32_t>(1));
  CHECK(cudaMalloc(&launch.answers, repeated * sizeof(Answer)));
  CHECK(cudaMalloc(&launch.done, repeated * 4));
  CHECK(cudaMalloc(&launch.decisions, size_t(shots) * BLOCKS * THREADS * 4));
  CHECK(cudaMalloc(&launch.next, 4));

  auto kernel = relay_shots<BLOCKS, THREADS, SPLIT, POSITIONS, P>;
  const size_t bytes = shared_bytes<BLOCKS, THREADS, SPLIT, POSITIONS, P>(tables.head().rows);
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)));
  if (BLOCKS > 8) CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  cudaFuncAttributes attributes;
  CHECK(cudaFuncGetAttributes(&attributes, kernel));
  cudaDeviceProp device;
  CHECK(cudaGetDeviceProperties(&device, 0));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  cudaLaunchAttribute cluster[1];
  cluster[0].id = cudaLaunchAttributeClusterDimension;
  cluster[0].val.clusterDim = {unsigned(BLOCKS), 1, 1};
  auto configuration = [&](int blocks) {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(THREADS);
    config.dynamicSmemBytes = bytes;
    config.stream = stream;
    config.attrs = cluster;
    config.numAttrs = BLOCKS > 1 ? 1 : 0;
    return config;
  };
  int per_device = device.multiProcessorCount, clusters = per_device;
  int residents = 1;
  if (BLOCKS > 1) {
    cudaLaunchConfig_t config = configuration(BLOCKS);
    CHECK(cudaOccupancyMaxActiveClusters(&clusters, kernel, &config));
  } else {
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&residents, kernel, THREADS, bytes));
    clusters *= residents;
  }
  const int lanes = lanes_of(problem);
  if (lanes > clusters) throw std::runtime_error(std::to_string(lanes) + " lanes, and the device has " + std::to_string(clusters) + " clusters");
  clusters = clusters / lanes * lanes;
  if (lanes > 1) launch.next = nullptr, launch.decisions = nullptr;
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  std::vector<Answer> answers(repeated);
  std::vector<uint32_t> done(repeated);
  std::vector<uint32_t> decisions(size_t(shots) * BLOCKS * THREADS);
  auto launch_on = [&](int blocks, Launch &l) {
    cudaLaunchConfig_t config = configuration(blocks);
    if (l.next) CHECK(cudaMemsetAsync(l.next, 0, 4, stream));
    CHECK(cudaMemsetAsync(l.done, 0, l.shots * 4, stream));
    CHECK(cudaEventRecord(begin, stream));
    CHECK(cudaLaunchKernelEx(&config, kernel, l));
    CHECK(cudaEventRecord(end, stream));
    CHECK(cudaStreamSynchronize(stream));
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, begin, end));
    CHECK(cudaMemcpy(answers.data(), l.answers, l.shots * sizeof(Answer), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(done.data(), l.done, l.shots * 4, cudaMemcpyDeviceToHost));
    return double(ms);
  };
  auto differing = [&](uint32_t n, bool errors) {
    uint32_t wrong = 0;
    for (uint32_t s = 0; s < n; ++s) {
      const Answer &a = answers[s];
      const Expected &e = problem.expected[s % shots];
      bool equal = done[s] && (a.ended == CONVERGED) == bool(e.converged) && a.solutions == e.solutions && a.iterations == e.iterations &&
                   a.weight == e.weight && a.observables == e.observables;
      if (errors && equal) {
        std::vector<uint32_t> error;
        for (int b = 0; b < BLOCKS; ++b)
          for (int i = 0; i < THREADS; ++i)
            for (uint32_t rest = decisions[(size_t(s) * BLOCKS + b) * THREADS + i]; rest; rest &= rest - 1)
              error.push_back(problem.words[tables.block(b).columns + __builtin_ctz(rest) * THREADS + i]);
        std::sort(error.begin(), error.end());
        equal = error == e.error;
      }
      if (!equal && wrong++ < 2)
        std::fprintf(stderr, "%s shot %u: done %u, solutions %u %u, iterations %u %u, weight %u %u, observables %x %x\n", name, s, done[s],
                     a.solutions, e.solutions, a.iterations, e.iterations, a.weight, e.weight, a.observables, e.observables);
    }
    return wrong;
  };

  // Answers and errors of every shot, by all multiprocessors.
  launch_on(clusters * BLOCKS, launch);
  if (launch.decisions) CHECK(cudaMemcpy(decisions.data(), launch.decisions, decisions.size() * 4, cudaMemcpyDeviceToHost));
  const uint32_t wrong = differing(shots, launch.decisions);

  // All shots at once.
  Launch timed = launch;
  timed.decisions = nullptr;
  timed.shots = repeated;
  double best = 1e30;
  for (int i = 0; i < 3; ++i) best = std::min(best, launch_on(clusters * BLOCKS, timed));
  uint32_t wrong_timed = differing(repeated, false);

  // One shot after another, on one cluster.
  Launch one = timed;
  one.next = nullptr;
  one.lockstep = lanes > 1;
  one.shots = std::min<uint32_t>(shots, 10000);
  launch_on(BLOCKS * lanes, one);
  const double ms = launch_on(BLOCKS * lanes, one);
  wrong_timed += differing(one.shots, false);
  double cycles = 0, iterations = 0;
  for (uint32_t s = 0; s < one.shots; ++s) cycles += answers[s].cycles, iterations += answers[s].iterations;
  int khz = 0;
  CHECK(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, 0));
  std::vector<double> inside;
  for (uint32_t s = 0; s < one.shots; ++s) inside.push_back(answers[s].cycles * 1e3 / khz);

  // Launch to answer.
  Answer *answer;
  uint32_t *finished;
  uint8_t *asked;
  CHECK(cudaHostAlloc(&answer, sizeof(Answer), cudaHostAllocMapped));
  CHECK(cudaHostAlloc(&finished, 4, cudaHostAllocMapped));
  CHECK(cudaHostAlloc(&asked, bytes_each, cudaHostAllocMapped));
  Launch graphed = timed;
  graphed.shots = 1;
  graphed.next = nullptr;
  CHECK(cudaHostGetDevicePointer((void **)&graphed.answers, answer, 0));
  CHECK(cudaHostGetDevicePointer((void **)&graphed.done, finished, 0));
  CHECK(cudaHostGetDevicePointer((void **)&graphed.requests, asked, 0));
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  cudaLaunchConfig_t config = configuration(BLOCKS * lanes);
  CHECK(cudaLaunchKernelEx(&config, kernel, graphed));
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  std::vector<double> launched;
  uint32_t wrong_graph = 0;
  for (uint32_t s = 0; s < std::min<uint32_t>(shots, 3000); ++s) {
    std::memcpy(asked, &requests[size_t(s) * bytes_each], bytes_each);
    *(volatile uint32_t *)finished = 0;
    const auto start = std::chrono::steady_clock::now();
    CHECK(cudaGraphLaunch(executable, stream));
    const auto limit = start + std::chrono::seconds(2);
    while (!*(volatile uint32_t *)finished && std::chrono::steady_clock::now() < limit) {}
    launched.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
    CHECK(cudaStreamSynchronize(stream));
    wrong_graph += answer->observables != problem.expected[s].observables || answer->iterations != problem.expected[s].iterations;
  }

  std::printf(
      "{\"shape\": \"%s\", \"device\": \"%s\", \"checks\": %u, \"columns\": %u, \"solutions\": %u, \"lanes\": %d, \"blocks\": %d, \"threads\": %d, "
      "\"registers\": %d, \"local_bytes\": %zu, \"shared_bytes\": %zu, \"clusters\": %d, \"shots\": %u, \"batch\": %u, \"differing\": %u, "
      "\"differing_timed\": %u, \"differing_graph\": %u, \"shots_per_s\": %.0f, \"mhz\": %.0f, \"us_per_iteration\": %.3f, "
      "\"inside_us\": %s, \"sequential_us_mean\": %.2f, \"graph_us\": %s}\n",
      name, device.name, problem.checks, problem.columns, c.solutions, lanes, BLOCKS, THREADS, attributes.numRegs,
      attributes.localSizeBytes, bytes, clusters, shots, repeated, wrong, wrong_timed, wrong_graph, repeated / best * 1e3, khz / 1e3,
      cycles * 1e3 / khz / iterations, summary(inside).c_str(), ms * 1e3 / one.shots, summary(launched).c_str());
  std::fflush(stdout);
  return wrong || wrong_timed || wrong_graph;
}

int main(int argc, char **argv) try {
  if (argc != 3) throw std::runtime_error("usage: bench SHAPE FILE");
  const std::string shape = argv[1];
  const Problem problem(argv[2]);
#define RUN(name, blocks, threads, split, positions, ...) \
  if (shape == #name) return run<blocks, threads, split, positions, Passes<__VA_ARGS__>>(#name, problem);
  RELAY_SHAPES(RUN)
  throw std::runtime_error("no such shape");
} catch (const std::exception &e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 2;
}

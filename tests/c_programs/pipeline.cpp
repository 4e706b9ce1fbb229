// The real-time pipeline as a C++ program uses it: stages, completions, deferred answers, exceptions, external rings, threads.
// Workers have no graphs here: the GPU's part is played by a hook that copies the request, as a copy to the device would.
#include <cudaq/qec/realtime/pipeline.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace cudaq::qec::realtime::experimental;
using cudaq::realtime::RPC_MAGIC_RESPONSE;
using cudaq::realtime::RPCHeader;
using cudaq::realtime::RPCResponse;

#define EXPECT(condition)                                                                                              \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                             \
      std::exit(1);                                                                                                    \
    }                                                                                                                  \
  } while (0)

#define EXPECT_THROWS(type, expression)                                                                                \
  do {                                                                                                                 \
    bool thrown = false;                                                                                               \
    try {                                                                                                              \
      expression;                                                                                                      \
    } catch (const type &) {                                                                                           \
      thrown = true;                                                                                                   \
    }                                                                                                                  \
    EXPECT(thrown);                                                                                                    \
  } while (0)

namespace {

constexpr uint32_t DECODE = 0x1234;
constexpr size_t SLOT = 256;

// A worker's device memory: the hook copies the request there.
struct Device {
  uint8_t input[SLOT];
};

void copy_in(void *user, void *slot, cudaStream_t) { std::memcpy(static_cast<Device *>(user)->input, slot, SLOT); }

// Writes a response with the sum of the payload's bytes and the worker's copy of its first word.
size_t answer(void *slot, const void *input) {
  RPCHeader header;
  std::memcpy(&header, input, sizeof header);
  const uint8_t *payload = static_cast<const uint8_t *>(input) + sizeof header;
  uint64_t sum = 0;
  for (uint32_t i = 0; i < header.arg_len; ++i)
    sum += payload[i];
  const RPCResponse response = {RPC_MAGIC_RESPONSE, 0, sizeof sum, 0, 0};
  std::memcpy(slot, &response, sizeof response);
  std::memcpy(static_cast<uint8_t *>(slot) + sizeof response, &sum, sizeof sum);
  return sizeof response + sizeof sum;
}

pipeline_stage_config shape(int workers, int slots) {
  pipeline_stage_config config;
  config.num_workers = workers;
  config.num_slots = slots;
  config.slot_size = SLOT;
  return config;
}

gpu_stage_factory workers(std::vector<Device> &devices) {
  return [&devices](int worker) {
    gpu_worker_resources made;
    made.pre_launch_fn = copy_in;
    made.pre_launch_data = made.user_context = &devices.at(static_cast<size_t>(worker));
    made.function_id = DECODE;
    return made;
  };
}

// Every request has one completion, with its 64-bit id, and the stage has seen its own payload.
void many_requests(uint64_t requests) {
  std::vector<Device> devices(4);
  std::vector<std::atomic<int>> seen(requests);
  std::atomic<uint64_t> wrong{0}, sums{0};
  realtime_pipeline pipeline(shape(4, 32));
  pipeline.set_gpu_stage(workers(devices));
  pipeline.set_cpu_stage([&](const cpu_stage_context &c) -> size_t {
    if (c.gpu_output != nullptr || c.max_response_size != SLOT)
      ++wrong;
    uint64_t number = 0;
    std::memcpy(&number, static_cast<Device *>(c.user_context)->input + sizeof(RPCHeader), sizeof number);
    sums += number;
    return answer(c.response_buffer, static_cast<Device *>(c.user_context)->input);
  });
  const uint64_t high = uint64_t{7} << 32;
  pipeline.set_completion_handler([&](const completion &c) {
    uint64_t sum = 0, expected = 0;
    if (c.result_size == sizeof sum)
      std::memcpy(&sum, c.result, sizeof sum);
    for (uint64_t rest = c.request_id - high; rest > 0; rest >>= 8)
      expected += rest & 255;
    if (c.success && c.cuda_error == 0 && c.slot >= 0 && c.slot < 32 && c.request_id >= high && sum == expected)
      ++seen.at(c.request_id - high);
    else
      ++wrong;
  });
  pipeline.start();
  pipeline.start(); // it runs already
  EXPECT_THROWS(std::invalid_argument, pipeline.set_cpu_stage(nullptr));
  const auto bases = pipeline.ringbuffer_bases();
  EXPECT(bases.rx_data_host != nullptr && bases.rx_data_dev != nullptr);
  ring_buffer_injector first = pipeline.create_injector();
  // Two producers.
  auto produce = [&](ring_buffer_injector injector, uint64_t from) {
    for (uint64_t i = from; i < requests; i += 2)
      injector.submit(DECODE, &i, sizeof i, high + i);
  };
  std::thread other(produce, pipeline.create_injector(), 1);
  produce(std::move(first), 0);
  other.join();
  pipeline.stop();
  pipeline.stop();
  for (auto &count : seen)
    EXPECT(count == 1);
  EXPECT(wrong == 0 && sums == requests * (requests - 1) / 2);
  const auto stats = pipeline.stats();
  EXPECT(stats.submitted == requests && stats.completed == requests && stats.dispatched == requests);
  EXPECT(pipeline.callback_failures() == 0);
}

// Answers come from another thread, before the CPU stage has returned or long after.
void deferred(uint64_t requests) {
  std::vector<Device> devices(2);
  std::atomic<uint64_t> good{0}, bad{0};
  std::mutex mutex;
  std::condition_variable wake;
  std::deque<std::pair<int, void *>> todo;
  bool over = false;
  realtime_pipeline pipeline(shape(2, 8));
  std::thread decoder([&] {
    for (;;) {
      std::pair<int, void *> job;
      {
        std::unique_lock<std::mutex> lock(mutex);
        wake.wait(lock, [&] { return over || !todo.empty(); });
        if (todo.empty())
          return;
        job = todo.front();
        todo.pop_front();
      }
      std::vector<uint8_t> request(SLOT);
      std::memcpy(request.data(), job.second, SLOT);
      answer(job.second, request.data());
      pipeline.complete_deferred(job.first);
    }
  });
  uint64_t calls = 0;
  pipeline.set_gpu_stage(workers(devices));
  pipeline.set_cpu_stage([&](const cpu_stage_context &c) -> size_t {
    bool now = false;
    {
      std::lock_guard<std::mutex> lock(mutex);
      now = ++calls % 2 == 0;
      if (!now)
        todo.emplace_back(c.origin_slot, c.response_buffer);
    }
    if (now) {
      std::vector<uint8_t> request(SLOT);
      std::memcpy(request.data(), c.response_buffer, SLOT);
      answer(c.response_buffer, request.data());
      pipeline.complete_deferred(c.origin_slot); // before this returns
    } else {
      wake.notify_one();
    }
    return DEFERRED_COMPLETION;
  });
  pipeline.set_completion_handler([&](const completion &c) { ++(c.success ? good : bad); });
  pipeline.start();
  ring_buffer_injector injector = pipeline.create_injector();
  for (uint64_t i = 0; i < requests; ++i)
    injector.submit(DECODE, &i, sizeof i, i);
  pipeline.stop();
  {
    std::lock_guard<std::mutex> lock(mutex);
    over = true;
  }
  wake.notify_one();
  decoder.join();
  EXPECT(good == requests && bad == 0);
  pipeline.complete_deferred(3); // nothing is deferred there: nothing happens
  pipeline.complete_deferred(-1);
}

// What a program does wrong is thrown, or that one request's failure.
void mistakes() {
  std::vector<Device> devices(1);
  {
    realtime_pipeline pipeline(shape(1, 4));
    EXPECT_THROWS(std::logic_error, pipeline.start());
    pipeline.set_gpu_stage(workers(devices));
    EXPECT_THROWS(std::invalid_argument, pipeline.start()); // neither graph nor CPU stage
    ring_buffer_injector injector = pipeline.create_injector();
    uint64_t payload = 1;
    EXPECT(!injector.try_submit(DECODE, &payload, sizeof payload, 1));
    EXPECT_THROWS(std::logic_error, injector.submit(DECODE, &payload, sizeof payload, 1));
    pipeline.set_gpu_stage([](int) -> gpu_worker_resources { throw std::domain_error("no such device"); });
    pipeline.set_cpu_stage([](const cpu_stage_context &) -> size_t { return 1; });
    EXPECT_THROWS(std::domain_error, pipeline.start());
  }
  std::atomic<int> good{0}, bad{0}, polled{0};
  realtime_pipeline pipeline(shape(1, 4));
  pipeline.set_gpu_stage(workers(devices));
  pipeline.set_cpu_stage([&](const cpu_stage_context &c) -> size_t {
    uint64_t kind = 0;
    std::memcpy(&kind, static_cast<uint8_t *>(c.response_buffer) + sizeof(RPCHeader), sizeof kind);
    if (kind == 0)
      throw std::runtime_error("on purpose");
    if (kind == 1)
      return 5; // and no response
    if (kind == 2 && ++polled < 1000)
      return 0; // not yet
    EXPECT_THROWS(std::invalid_argument, pipeline.stop()); // from a callback
    std::vector<uint8_t> request(SLOT);
    std::memcpy(request.data(), c.response_buffer, SLOT);
    return answer(c.response_buffer, request.data());
  });
  pipeline.set_completion_handler([&](const completion &c) {
    ++(c.success ? good : bad);
    if (c.request_id == 3)
      throw std::runtime_error("on purpose");
  });
  pipeline.start();
  ring_buffer_injector injector = pipeline.create_injector();
  const std::vector<uint8_t> long_payload(SLOT);
  EXPECT_THROWS(std::invalid_argument, injector.try_submit(DECODE, long_payload.data(), long_payload.size(), 1));
  for (uint64_t kind = 0; kind < 4; ++kind)
    injector.submit(DECODE, &kind, sizeof kind, kind);
  injector.submit(DECODE + 1, &good, 4, 9); // an unknown function
  pipeline.stop();
  EXPECT(good == 2 && bad == 3 && polled == 1000 && pipeline.callback_failures() == 2);
  pipeline.start(); // again, over the same ring
  uint64_t kind = 3;
  pipeline.create_injector().submit(DECODE, &kind, sizeof kind, 4);
  pipeline.stop();
  EXPECT(good == 3 && pipeline.stats().submitted == 6 && pipeline.stats().completed == 6);
}

// A ring whose producer and consumer are elsewhere.
void external_ring() {
  constexpr uint32_t SLOTS = 8;
  std::vector<uint64_t> flags(2 * SLOTS), data(2 * SLOTS * SLOT / 8);
  cudaq_ringbuffer_t ring = {};
  ring.rx_flags = ring.rx_flags_host = flags.data();
  ring.tx_flags = ring.tx_flags_host = flags.data() + SLOTS;
  ring.rx_data = ring.rx_data_host = reinterpret_cast<uint8_t *>(data.data());
  ring.tx_data = ring.tx_data_host = ring.rx_data + SLOTS * SLOT;
  ring.rx_stride_sz = ring.tx_stride_sz = SLOT;
  std::vector<Device> devices(2);
  std::atomic<uint64_t> completed{0};
  pipeline_stage_config config = shape(2, SLOTS);
  config.external_ringbuffer = &ring;
  realtime_pipeline pipeline(config);
  EXPECT(pipeline.ringbuffer_bases().rx_data_host == ring.rx_data_host);
  EXPECT_THROWS(std::logic_error, pipeline.create_injector());
  pipeline.set_gpu_stage(workers(devices));
  EXPECT_THROWS(std::logic_error, pipeline.start());
  pipeline.set_cpu_stage([&](const cpu_stage_context &c) {
    return answer(c.response_buffer, static_cast<Device *>(c.user_context)->input);
  });
  pipeline.set_completion_handler([&](const completion &c) { completed += c.success && c.result == nullptr; });
  pipeline.start();
  for (uint32_t i = 0; i < 1000; ++i) {
    const uint32_t slot = i % SLOTS;
    while (!cudaq_host_ringbuffer_slot_available(&ring, slot))
      std::this_thread::yield();
    const uint8_t payload[3] = {1, 2, static_cast<uint8_t>(i)};
    EXPECT(cudaq_host_ringbuffer_write_rpc_request(&ring, slot, DECODE, payload, 3, i, i + 5) == CUDAQ_OK);
    cudaq_host_ringbuffer_signal_slot(&ring, slot);
    while (cudaq_host_ringbuffer_poll_tx_flag(&ring, slot, nullptr) != CUDAQ_TX_READY)
      std::this_thread::yield();
    RPCResponse response;
    uint64_t sum = 0;
    std::memcpy(&response, ring.tx_data + slot * SLOT, sizeof response);
    std::memcpy(&sum, ring.tx_data + slot * SLOT + sizeof response, sizeof sum);
    EXPECT(response.magic == RPC_MAGIC_RESPONSE && response.status == 0 && response.request_id == i);
    EXPECT(response.ptp_timestamp == i + 5 && sum == 3u + static_cast<uint8_t>(i));
    cudaq_host_ringbuffer_clear_slot(&ring, slot);
  }
  pipeline.stop();
  EXPECT(completed == 1000);
}

// A stage that never completes what it deferred: a stop answers it.
int count_failed(void *user, const ringcall_completion_t *completion) {
  static_cast<std::atomic<int> *>(user)->fetch_add(completion->status == RINGCALL_STATUS_SHUTTING_DOWN);
  return 0;
}

int make_worker(void *, int, cudaq_host_dispatch_worker_t *out) {
  out->function_id = DECODE;
  return 0;
}

size_t defer(void *, const ringcall_cpu_stage_context_t *) { return RINGCALL_STAGE_DEFERRED; }

void never_completed() {
  ringcall_pipeline_config_t config = RINGCALL_PIPELINE_CONFIG;
  config.stop_ms = 100;
  config.slot_size = SLOT;
  ringcall_pipeline_t *pipeline = nullptr;
  std::atomic<int> failed{0};
  EXPECT(ringcall_pipeline_create(&config, nullptr) == CUDAQ_ERR_INVALID_ARG);
  config.num_workers = 65;
  EXPECT(ringcall_pipeline_create(&config, &pipeline) == CUDAQ_ERR_INVALID_ARG);
  config.num_workers = 2;
  config.dispatcher_core = -2;
  EXPECT(ringcall_pipeline_create(&config, &pipeline) == CUDAQ_ERR_INVALID_ARG);
  config.dispatcher_core = -1;
  config.slot_size = 20;
  EXPECT(ringcall_pipeline_create(&config, &pipeline) == CUDAQ_ERR_INVALID_ARG && pipeline == nullptr);
  config.slot_size = SLOT;
  EXPECT(ringcall_pipeline_create(&config, &pipeline) == CUDAQ_OK);
  EXPECT(ringcall_pipeline_set_gpu_stage(pipeline, nullptr, nullptr) == CUDAQ_ERR_INVALID_ARG);
  EXPECT(ringcall_pipeline_set_gpu_stage(pipeline, make_worker, nullptr) == CUDAQ_OK);
  EXPECT(ringcall_pipeline_set_cpu_stage(pipeline, defer, nullptr) == CUDAQ_OK);
  EXPECT(ringcall_pipeline_set_completion_handler(pipeline, count_failed, &failed) == CUDAQ_OK);
  EXPECT(ringcall_pipeline_start(pipeline) == CUDAQ_OK);
  int submitted = 0;
  EXPECT(ringcall_pipeline_try_submit(pipeline, DECODE, nullptr, 8, 1, &submitted) == CUDAQ_ERR_INVALID_ARG);
  for (uint64_t i = 0; i < 5; ++i)
    EXPECT(ringcall_pipeline_submit(pipeline, DECODE, &i, sizeof i, i, &submitted) == CUDAQ_OK && submitted == 1);
  EXPECT(ringcall_pipeline_stop(pipeline) == CUDAQ_OK);
  EXPECT(failed == 5);
  EXPECT(ringcall_pipeline_complete_deferred(pipeline, 0) == CUDAQ_ERR_INVALID_ARG);
  EXPECT(ringcall_pipeline_destroy(pipeline) == CUDAQ_OK);
  EXPECT(ringcall_pipeline_destroy(pipeline) == CUDAQ_ERR_INVALID_ARG);
  EXPECT(ringcall_pipeline_start(pipeline) == CUDAQ_ERR_INVALID_ARG);
}

} // namespace

int main(int argc, char **argv) {
  const uint64_t requests = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 20000;
  many_requests(requests);
  deferred(requests / 10);
  mistakes();
  external_ring();
  never_completed();
  return 0;
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The real-time pipeline for C++17: CUDA-Q QEC's names over ringcall_pipeline.h. Header only; link libringcall.
//
// Where it differs from the reference:
//   - response_buffer is the request's slot, and not null; a response begins with an RPCResponse, as the reference's own programs
//     write it there. One without the magic is answered with the status `abandoned`, and its completion is no success.
//   - The CPU stage is called for a request that is under way, and not while a worker has nothing to do.
//   - Responses are copied from the request's slot to the response's, with the request's id and time stamp.
//   - Every request that was accepted has one completion: a stop completes what is left after five seconds, without success.
//   - submit() and try_submit() may be called from any thread; submit() throws std::logic_error before start(), and returns without
//     submitting while the pipeline stops. A payload that does not fit a slot throws std::invalid_argument.
//   - An exception of a CPU stage is that request's failure; one of a completion handler is counted (callback_failures()).
//     One of the GPU stage comes out of start().
//   - A worker without a graph_exec is for tests without a GPU: hooks and CPU stage are called, nothing is launched.
//   - Errors of CUDA are thrown as std::runtime_error, and never abort.
#ifndef RINGCALL_CUDAQ_QEC_REALTIME_PIPELINE_H
#define RINGCALL_CUDAQ_QEC_REALTIME_PIPELINE_H

#include "ringcall_pipeline.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

// ThreadSanitizer does not see what orders the library's threads: it is told.
#if defined(__SANITIZE_THREAD__)
#define RINGCALL_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RINGCALL_THREAD_SANITIZER 1
#endif
#endif
#ifdef RINGCALL_THREAD_SANITIZER
extern "C" void __tsan_acquire(void *address);
extern "C" void __tsan_release(void *address);
#endif

namespace cudaq::qec::realtime::experimental {

/// Cores of a pipeline's threads; -1 leaves a thread where the system puts it.
struct core_pinning {
  int dispatcher = -1;
  int consumer = -1;
  int worker_base = -1; ///< Worker i is pinned to this core + i.
};

/// The shape of a pipeline.
struct pipeline_stage_config {
  int num_workers = 8; ///< At most 64.
  int num_slots = 32;
  size_t slot_size = 16384; ///< Bytes, header included: a multiple of 8.
  core_pinning cores;
  /// A cudaq_ringbuffer_t of the caller's, whose producer is elsewhere; null for a ring of the pipeline's own.
  void *external_ringbuffer = nullptr;
};

/// What a worker owns. It stays valid until the pipeline has stopped.
struct gpu_worker_resources {
  cudaGraphExec_t graph_exec = nullptr;
  cudaStream_t stream = nullptr;
  void (*pre_launch_fn)(void *user_data, void *slot_dev, cudaStream_t stream) = nullptr;
  void *pre_launch_data = nullptr;
  void (*post_launch_fn)(void *user_data, void *slot_dev, cudaStream_t stream) = nullptr;
  void *post_launch_data = nullptr;
  uint32_t function_id = 0;
  void *user_context = nullptr;
};

/// Makes worker `worker_id`; called once for each by start().
using gpu_stage_factory = std::function<gpu_worker_resources(int worker_id)>;

/// What the CPU stage is given.
struct cpu_stage_context {
  int worker_id;
  int origin_slot;
  const void *gpu_output; ///< Null: the stage knows where its output is.
  size_t gpu_output_size;
  void *response_buffer; ///< The request's slot, which the response is written over, header first.
  size_t max_response_size;
  void *user_context;
};

/// Returns the bytes written, 0 if there is no output yet (it is called again), or DEFERRED_COMPLETION.
using cpu_stage_callback = std::function<size_t(const cpu_stage_context &context)>;

/// The worker is free at once; the request is completed by complete_deferred().
static constexpr size_t DEFERRED_COMPLETION = SIZE_MAX;

/// One request that is over.
struct completion {
  uint64_t request_id;
  int slot;
  bool success;   ///< Answered with status 0, and no error of CUDA's.
  int cuda_error; ///< Of the graph's launch; 0 for none.
  // The reference has neither of these.
  const void *result = nullptr; ///< The result, until the handler returns; null on an external ring.
  size_t result_size = 0;
};

/// Called once for each request that is over, by one thread.
using completion_callback = std::function<void(const completion &c)>;

class ring_buffer_injector;

/// A ring, its dispatcher, workers with a graph and a CPU stage each, and the consumer of their answers.
class realtime_pipeline {
public:
  struct Stats {
    uint64_t submitted;
    uint64_t completed;
    uint64_t dispatched;
    uint64_t backpressure_stalls;
  };

  struct ring_buffer_bases {
    uint8_t *rx_data_host;
    uint8_t *rx_data_dev;
  };

  /// Makes the ring, or binds the caller's.
  explicit realtime_pipeline(const pipeline_stage_config &config) : parts_(std::make_unique<Parts>()) {
    if (config.num_workers < 1 || config.num_slots < 1)
      throw std::invalid_argument("a pipeline has at least one worker and one slot");
    ringcall_pipeline_config_t c = RINGCALL_PIPELINE_CONFIG;
    c.num_workers = static_cast<uint32_t>(config.num_workers);
    c.num_slots = static_cast<uint32_t>(config.num_slots);
    c.slot_size = config.slot_size;
    c.dispatcher_core = config.cores.dispatcher;
    c.consumer_core = config.cores.consumer;
    c.worker_base_core = config.cores.worker_base;
    c.external_ring = static_cast<const cudaq_ringbuffer_t *>(config.external_ringbuffer);
    parts_->external = config.external_ringbuffer != nullptr;
    parts_->contexts.resize(static_cast<size_t>(config.num_workers));
    check(ringcall_pipeline_create(&c, &parts_->handle));
  }

  /// Stops it, if it runs.
  ~realtime_pipeline() {
    // What a callback that never returns uses stays in use.
    if (ringcall_pipeline_destroy(parts_->handle) == CUDAQ_ERR_INTERNAL)
      static_cast<void>(parts_.release());
    else
      parts_->acquire();
  }

  realtime_pipeline(const realtime_pipeline &) = delete;
  realtime_pipeline &operator=(const realtime_pipeline &) = delete;

  /// Before start().
  void set_gpu_stage(gpu_stage_factory factory) {
    check(ringcall_pipeline_set_gpu_stage(parts_->handle, factory ? Parts::make_worker : refuse_worker, parts_.get()));
    parts_->gpu = std::move(factory);
  }

  /// Before start(). Without one, a graph's own response is the answer.
  void set_cpu_stage(cpu_stage_callback callback) {
    check(ringcall_pipeline_set_cpu_stage(parts_->handle, callback ? Parts::run_stage : nullptr, parts_.get()));
    parts_->cpu = std::move(callback);
  }

  /// Before start().
  void set_completion_handler(completion_callback handler) {
    check(ringcall_pipeline_set_completion_handler(parts_->handle, handler ? Parts::complete : nullptr, parts_.get()));
    parts_->completed = std::move(handler);
  }

  /// Calls the GPU stage for each worker and starts the threads; nothing happens if it runs.
  /// \throws std::logic_error without a GPU stage, or on an external ring without a CPU stage.
  void start() {
    if (!parts_->gpu)
      throw std::logic_error("no GPU stage: call set_gpu_stage() before start()");
    if (parts_->external && !parts_->cpu)
      throw std::logic_error("an external ring needs a CPU stage");
    parts_->thrown = nullptr;
    parts_->release();
    const cudaq_status_t status = ringcall_pipeline_start(parts_->handle);
    if (status != CUDAQ_OK && parts_->thrown)
      std::rethrow_exception(std::exchange(parts_->thrown, nullptr));
    check(status);
    parts_->started = true;
  }

  /// Waits for requests in flight, five seconds at most, and ends all threads. It may be called again, and started again.
  void stop() {
    check(ringcall_pipeline_stop(parts_->handle));
    parts_->acquire();
  }

  /// \throws std::logic_error on an external ring, which has its own producer.
  ring_buffer_injector create_injector();

  Stats stats() const {
    const ringcall_pipeline_stats_t s = all_stats();
    return {s.submitted, s.completed, s.dispatched, s.backpressure_stalls};
  }

  /// Callbacks that threw; the reference has no such count.
  uint64_t callback_failures() const { return all_stats().callback_failures; }

  /// The response of a request whose completion was deferred is in its slot. Any thread. A request that a timeout or a stop has
  /// answered meanwhile stays as it is.
  void complete_deferred(int slot) {
    parts_->release();
    static_cast<void>(ringcall_pipeline_complete_deferred(parts_->handle, slot));
  }

  ring_buffer_bases ringbuffer_bases() const {
    cudaq_ringbuffer_t ring = {};
    check(ringcall_pipeline_get_ring(parts_->handle, &ring));
    return {ring.rx_data_host, ring.rx_data};
  }

private:
  friend class ring_buffer_injector;

  // What callbacks are given: it stays where it is.
  struct Parts {
    ringcall_pipeline_t *handle = nullptr;
    bool external = false;
    gpu_stage_factory gpu;
    cpu_stage_callback cpu;
    completion_callback completed;
    std::vector<void *> contexts;
    std::exception_ptr thrown;
    std::atomic<bool> started{false}; // at least once

#ifdef RINGCALL_THREAD_SANITIZER
    void acquire() { __tsan_acquire(this); }
    void release() { __tsan_release(this); }
#else
    void acquire() {}
    void release() {}
#endif

    static int make_worker(void *user, int worker, cudaq_host_dispatch_worker_t *out) noexcept {
      Parts &parts = *static_cast<Parts *>(user);
      try {
        const gpu_worker_resources made = parts.gpu(worker);
        out->graph_exec = made.graph_exec;
        out->stream = made.stream;
        out->function_id = made.function_id;
        out->pre_launch_fn = made.pre_launch_fn;
        out->pre_launch_data = made.pre_launch_data;
        out->post_launch_fn = made.post_launch_fn;
        out->post_launch_data = made.post_launch_data;
        parts.contexts.at(static_cast<size_t>(worker)) = made.user_context;
        parts.release();
        return 0;
      } catch (...) {
        parts.thrown = std::current_exception();
        return 1;
      }
    }

    static size_t run_stage(void *user, const ringcall_cpu_stage_context_t *c) noexcept {
      Parts &parts = *static_cast<Parts *>(user);
      parts.acquire();
      size_t written = RINGCALL_STAGE_FAILED;
      try {
        written = parts.cpu({c->worker_id, c->origin_slot, nullptr, 0, c->response_buffer, c->max_response_size,
                             parts.contexts[static_cast<size_t>(c->worker_id)]});
      } catch (...) {
        // Answered as a failure, and counted.
      }
      parts.release();
      return written;
    }

    static int complete(void *user, const ringcall_completion_t *c) noexcept {
      Parts &parts = *static_cast<Parts *>(user);
      parts.acquire();
      int failed = 0;
      try {
        parts.completed({c->request_id, c->slot, c->success != 0, c->cuda_error, c->result, c->result_size});
      } catch (...) {
        failed = 1;
      }
      parts.release();
      return failed;
    }
  };

  static int refuse_worker(void *, int, cudaq_host_dispatch_worker_t *) noexcept { return 1; }

  static void check(cudaq_status_t status) {
    if (status == CUDAQ_OK)
      return;
    const std::string why = ringcall_last_error();
    if (status == CUDAQ_ERR_INVALID_ARG)
      throw std::invalid_argument(why);
    throw std::runtime_error(why);
  }

  ringcall_pipeline_stats_t all_stats() const {
    ringcall_pipeline_stats_t s = {};
    check(ringcall_pipeline_get_stats(parts_->handle, &s));
    return s;
  }

  std::unique_ptr<Parts> parts_;
};

/// Writes requests into a pipeline's ring, as an FPGA does. The pipeline outlives it.
class ring_buffer_injector {
public:
  ring_buffer_injector(ring_buffer_injector &&other) noexcept : parts_(std::exchange(other.parts_, nullptr)) {}
  ring_buffer_injector &operator=(ring_buffer_injector &&other) noexcept {
    parts_ = std::exchange(other.parts_, nullptr);
    return *this;
  }
  ring_buffer_injector(const ring_buffer_injector &) = delete;
  ring_buffer_injector &operator=(const ring_buffer_injector &) = delete;
  ~ring_buffer_injector() = default;

  /// Submits a request if a slot is free; false if none is, or the pipeline does not run.
  bool try_submit(uint32_t function_id, const void *payload, size_t payload_size, uint64_t request_id) {
    int submitted = 0;
    parts_->release();
    realtime_pipeline::check(
        ringcall_pipeline_try_submit(parts_->handle, function_id, payload, payload_size, request_id, &submitted));
    return submitted == RINGCALL_SUBMITTED;
  }

  /// Submits a request, waiting for a slot. Returns without submitting if the pipeline stops meanwhile.
  /// \throws std::logic_error if the pipeline was not started.
  void submit(uint32_t function_id, const void *payload, size_t payload_size, uint64_t request_id) {
    int submitted = 0;
    parts_->release();
    realtime_pipeline::check(
        ringcall_pipeline_submit(parts_->handle, function_id, payload, payload_size, request_id, &submitted));
    if (submitted == RINGCALL_NOT_RUNNING && !parts_->started)
      throw std::logic_error("submit() before start()");
  }

  /// How often a submission found no slot.
  uint64_t backpressure_stalls() const { return stats().backpressure_stalls; }

private:
  friend class realtime_pipeline;
  explicit ring_buffer_injector(realtime_pipeline::Parts *parts) : parts_(parts) {}

  ringcall_pipeline_stats_t stats() const {
    ringcall_pipeline_stats_t s = {};
    realtime_pipeline::check(ringcall_pipeline_get_stats(parts_->handle, &s));
    return s;
  }

  realtime_pipeline::Parts *parts_;
};

inline ring_buffer_injector realtime_pipeline::create_injector() {
  if (parts_->external)
    throw std::logic_error("an external ring has its own producer: there is no injector");
  return ring_buffer_injector(parts_.get());
}

} // namespace cudaq::qec::realtime::experimental

#endif

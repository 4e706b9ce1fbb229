// What the examples on a device share: checks, and memory that both sides see.
#pragma once
#include "cudaq/realtime/daemon/dispatcher/dispatch_kernel.cuh"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define CHECK_CUDA(call)                                                                                     \
  do {                                                                                                       \
    cudaError_t error_ = (call);                                                                             \
    if (error_ != cudaSuccess) {                                                                             \
      std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error_));                                   \
      std::exit(1);                                                                                          \
    }                                                                                                        \
  } while (0)
#define CHECK(call)                                                                                          \
  do {                                                                                                       \
    cudaq_status_t status_ = (call);                                                                         \
    if (status_ != CUDAQ_OK) {                                                                               \
      std::fprintf(stderr, "%s: status %d: %s\n", #call, int(status_), ringcall_last_error());               \
      std::exit(1);                                                                                          \
    }                                                                                                        \
  } while (0)

// Mapped host memory, as the host and as the device sees it.
template <typename T> struct Mapped {
  T *host = nullptr, *device = nullptr;

  explicit Mapped(std::size_t count) {
    CHECK_CUDA(cudaHostAlloc(reinterpret_cast<void **>(&host), count * sizeof(T), cudaHostAllocMapped));
    CHECK_CUDA(cudaHostGetDevicePointer(reinterpret_cast<void **>(&device), host, 0));
    std::memset(host, 0, count * sizeof(T));
  }
  ~Mapped() { cudaFreeHost(host); }
};

// Whether there is a device; says so if not.
inline bool have_device() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0)
    return true;
  std::puts("skipped: no CUDA device here");
  return false;
}

// A ring in mapped host memory, wired into a dispatcher with its control words.
struct Ring {
  static constexpr std::size_t num_slots = 16, slot_size = 256;

  Mapped<std::uint64_t> rx_flags{num_slots}, tx_flags{num_slots}, stats{1};
  Mapped<std::uint8_t> rx_data{num_slots * slot_size}, tx_data{num_slots * slot_size};
  Mapped<int> shutdown_flag{1};
  cudaq_ringbuffer_t views{};

  Ring() {
    views.rx_flags = rx_flags.device;
    views.tx_flags = tx_flags.device;
    views.rx_data = rx_data.device;
    views.tx_data = tx_data.device;
    views.rx_stride_sz = slot_size;
    views.tx_stride_sz = slot_size;
    // For the ring helpers.
    views.rx_flags_host = rx_flags.host;
    views.tx_flags_host = tx_flags.host;
    views.rx_data_host = rx_data.host;
    views.tx_data_host = tx_data.host;
  }

  void wire(cudaq_dispatcher_t *dispatcher) const {
    CHECK(cudaq_dispatcher_set_ringbuffer(dispatcher, &views));
    CHECK(cudaq_dispatcher_set_control(dispatcher, shutdown_flag.device, stats.device));
  }

  // 1000 requests, one at a time, whose answers must be their measurements' parity.
  void ask_for_parities(std::uint32_t function_id) const {
    for (std::uint32_t id = 0; id < 1000; ++id) {
      const std::uint32_t slot = id % num_slots;
      std::uint8_t measurements[16] = {};
      measurements[id % 16] = static_cast<std::uint8_t>(id);
      CHECK(cudaq_host_ringbuffer_write_rpc_request(&views, slot, function_id, measurements, sizeof measurements, id,
                                                    0));
      cudaq_host_ringbuffer_signal_slot(&views, slot);
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      while (cudaq_host_ringbuffer_poll_tx_flag(&views, slot, nullptr) != CUDAQ_TX_READY) {
        if (std::chrono::steady_clock::now() > end) {
          std::fprintf(stderr, "request %u: no answer\n", id);
          std::exit(1);
        }
      }
      const std::uint8_t *response = tx_data.host + slot * slot_size;
      cudaq::realtime::RPCResponse header;
      std::memcpy(&header, response, sizeof header);
      if (header.status != 0 || header.request_id != id || response[sizeof header] != static_cast<std::uint8_t>(id)) {
        std::fprintf(stderr, "request %u: status %d, parity %u\n", id, header.status, response[sizeof header]);
        std::exit(1);
      }
      cudaq_host_ringbuffer_clear_slot(&views, slot);
    }
  }
};

// A configuration for it: one block of the regular kernel.
inline cudaq_dispatcher_config_t device_config() {
  cudaq_dispatcher_config_t config{};
  config.device_id = 0;
  config.num_blocks = 1;
  config.threads_per_block = 256;
  config.num_slots = Ring::num_slots;
  config.slot_size = Ring::slot_size;
  config.kernel_type = CUDAQ_KERNEL_REGULAR;
  config.dispatch_mode = CUDAQ_DISPATCH_DEVICE_CALL;
  return config;
}

/* What the benchmarks on a device share beside bench.h: checks, and a ring in memory that both sides see. */
#pragma once
#include "bench.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>

inline void check(cudaError_t error, const char *what) {
  if (error != cudaSuccess) {
    std::fprintf(stderr, "%s: %s: %s\n", what, cudaGetErrorString(error), ringcall_last_error());
    std::exit(1);
  }
}

inline void check(cudaq_status_t status, const char *what) {
  if (status != CUDAQ_OK) {
    std::fprintf(stderr, "%s: status %d: %s\n", what, int(status), ringcall_last_error());
    std::exit(1);
  }
}
#define CHECK(call) check((call), #call)

inline bool have_device() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0)
    return true;
  std::puts("skipped: no CUDA device here");
  return false;
}

/* Mapped host memory as both sides see it; the program's, to its end. */
template <typename T> struct Mapped {
  T *host = nullptr, *device = nullptr;

  explicit Mapped(std::size_t count) {
    CHECK(cudaHostAlloc(reinterpret_cast<void **>(&host), count * sizeof(T), cudaHostAllocMapped));
    CHECK(cudaHostGetDevicePointer(reinterpret_cast<void **>(&device), host, 0));
    std::memset(static_cast<void *>(host), 0, count * sizeof(T));
  }
};

/* A ring of SLOTS slots with its control words. */
struct MappedRing {
  Mapped<std::uint64_t> rx_flags{SLOTS}, tx_flags{SLOTS}, stats{1};
  Mapped<std::uint8_t> rx_data{SLOTS * SLOT}, tx_data{SLOTS * SLOT};
  Mapped<int> shutdown{1};
  cudaq_ringbuffer_t views{};

  MappedRing() {
    views.rx_flags = rx_flags.device;
    views.tx_flags = tx_flags.device;
    views.rx_data = rx_data.device;
    views.tx_data = tx_data.device;
    views.rx_flags_host = rx_flags.host;
    views.tx_flags_host = tx_flags.host;
    views.rx_data_host = rx_data.host;
    views.tx_data_host = tx_data.host;
    views.rx_stride_sz = views.tx_stride_sz = SLOT;
  }
};

/* A table of one function in device memory, which `init` completes there. */
template <typename Init> cudaq_function_table_t device_table(const cudaq_function_entry_t &entry, Init init) {
  cudaq_function_table_t table{};
  table.count = 1;
  CHECK(cudaMalloc(&table.entries, sizeof entry));
  CHECK(cudaMemcpy(table.entries, &entry, sizeof entry, cudaMemcpyHostToDevice));
  init(table.entries);
  CHECK(cudaDeviceSynchronize());
  return table;
}

/* The bytes one after the other, by one thread. */
__device__ inline std::uint32_t increment_bytes(const void *input, void *output, std::uint32_t arg_len,
                                                std::uint32_t max_result_len) {
  const std::uint32_t len = arg_len < max_result_len ? arg_len : max_result_len;
  for (std::uint32_t i = 0; i < len; ++i)
    static_cast<std::uint8_t *>(output)[i] = std::uint8_t(static_cast<const std::uint8_t *>(input)[i] + 1);
  return len;
}

// A handler in CUDA C++, called by the dispatch kernel for each request in a ring of mapped host memory: the
// specification's wiring example, whole. Built with nvcc -rdc=true and the device archive.
#include "cudaq/realtime/daemon/dispatcher/cudaq_realtime.h"

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

namespace {

constexpr std::size_t num_slots = 16, slot_size = 256;
constexpr std::uint32_t func_count = 1;
constexpr std::uint32_t MOCK_DECODE_FUNCTION_ID = cudaq::realtime::fnv1a_hash("mock_decode");

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

} // namespace

// The parity of the measurements' bytes.
__device__ int mock_decode_rpc(const void *input, void *output, std::uint32_t arg_len, std::uint32_t max_result_len,
                               std::uint32_t *result_len) {
  if (max_result_len < 1)
    return 1;
  std::uint8_t parity = 0;
  for (std::uint32_t i = 0; i < arg_len; ++i)
    parity ^= static_cast<const std::uint8_t *>(input)[i];
  *static_cast<std::uint8_t *>(output) = parity;
  *result_len = 1;
  return 0;
}

__global__ void init_function_table(cudaq_function_entry_t *entries) {
  if (threadIdx.x == 0 && blockIdx.x == 0) {
    entries[0].handler.device_fn_ptr = reinterpret_cast<void *>(&mock_decode_rpc);
    entries[0].function_id = MOCK_DECODE_FUNCTION_ID;
    entries[0].dispatch_mode = CUDAQ_DISPATCH_DEVICE_CALL;
    entries[0].schema.num_args = 1;
    entries[0].schema.args[0] = {CUDAQ_TYPE_BIT_PACKED, {0}, 16, 128}; // 128 bits
    entries[0].schema.num_results = 1;
    entries[0].schema.results[0] = {CUDAQ_TYPE_UINT8, {0}, 1, 1};
  }
}

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("skipped: no CUDA device here");
    return 0;
  }
  Mapped<std::uint64_t> rx_flags(num_slots), tx_flags(num_slots), stats(1);
  Mapped<std::uint8_t> rx_data(num_slots * slot_size), tx_data(num_slots * slot_size);
  Mapped<int> shutdown_flag(1);

  int blocks_per_multiprocessor = 0;
  CHECK_CUDA(cudaq_dispatch_kernel_query_occupancy(&blocks_per_multiprocessor, 32));

  cudaq_dispatch_manager_t *manager = nullptr;
  cudaq_dispatcher_t *dispatcher = nullptr;
  CHECK(cudaq_dispatch_manager_create(&manager));
  cudaq_dispatcher_config_t config{};
  config.device_id = 0;
  config.num_blocks = 1;
  config.threads_per_block = 256;
  config.num_slots = num_slots;
  config.slot_size = slot_size;
  config.kernel_type = CUDAQ_KERNEL_REGULAR;
  config.dispatch_mode = CUDAQ_DISPATCH_DEVICE_CALL;
  CHECK(cudaq_dispatcher_create(manager, &config, &dispatcher));

  cudaq_ringbuffer_t ringbuffer{};
  ringbuffer.rx_flags = rx_flags.device;
  ringbuffer.tx_flags = tx_flags.device;
  ringbuffer.rx_data = rx_data.device;
  ringbuffer.tx_data = tx_data.device;
  ringbuffer.rx_stride_sz = slot_size;
  ringbuffer.tx_stride_sz = slot_size;
  // For the ring helpers below.
  ringbuffer.rx_flags_host = rx_flags.host;
  ringbuffer.tx_flags_host = tx_flags.host;
  ringbuffer.rx_data_host = rx_data.host;
  ringbuffer.tx_data_host = tx_data.host;
  CHECK(cudaq_dispatcher_set_ringbuffer(dispatcher, &ringbuffer));

  cudaq_function_entry_t *d_entries = nullptr;
  CHECK_CUDA(cudaMalloc(&d_entries, func_count * sizeof(cudaq_function_entry_t)));
  init_function_table<<<1, 1>>>(d_entries);
  CHECK_CUDA(cudaDeviceSynchronize());
  cudaq_function_table_t table{};
  table.entries = d_entries;
  table.count = func_count;
  CHECK(cudaq_dispatcher_set_function_table(dispatcher, &table));
  CHECK(cudaq_dispatcher_set_control(dispatcher, shutdown_flag.device, stats.device));
  CHECK(cudaq_dispatcher_set_launch_fn(dispatcher, &cudaq_launch_dispatch_kernel_regular));
  CHECK(cudaq_dispatcher_start(dispatcher));

  for (std::uint32_t id = 0; id < 1000; ++id) {
    const std::uint32_t slot = id % num_slots;
    std::uint8_t measurements[16] = {};
    measurements[id % 16] = static_cast<std::uint8_t>(id);
    CHECK(cudaq_host_ringbuffer_write_rpc_request(&ringbuffer, slot, MOCK_DECODE_FUNCTION_ID, measurements,
                                                  sizeof measurements, id, 0));
    cudaq_host_ringbuffer_signal_slot(&ringbuffer, slot);
    while (cudaq_host_ringbuffer_poll_tx_flag(&ringbuffer, slot, nullptr) != CUDAQ_TX_READY) {
    }
    const std::uint8_t *response = tx_data.host + slot * slot_size;
    cudaq::realtime::RPCResponse header;
    std::memcpy(&header, response, sizeof header);
    if (header.status != 0 || header.request_id != id || response[sizeof header] != static_cast<std::uint8_t>(id)) {
      std::fprintf(stderr, "request %u: status %d, parity %u\n", id, header.status, response[sizeof header]);
      return 1;
    }
    cudaq_host_ringbuffer_clear_slot(&ringbuffer, slot);
  }

  CHECK(cudaq_dispatcher_stop(dispatcher));
  std::uint64_t processed = 0;
  CHECK(cudaq_dispatcher_get_processed(dispatcher, &processed));
  CHECK(cudaq_dispatcher_destroy(dispatcher));
  CHECK(cudaq_dispatch_manager_destroy(manager));
  CHECK_CUDA(cudaFree(d_entries));
  std::printf("ran: ringcall %s, %llu requests answered on the device\n", ringcall_version(),
              static_cast<unsigned long long>(processed));
  return 0;
}

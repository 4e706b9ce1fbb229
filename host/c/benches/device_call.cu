/* device-call through the C interface: a dispatch kernel of one block, as the reference's own example configures it (32 threads),
 * and of 256 threads, whose handler loops over the payload's bytes.
 *   device_call [SECONDS [SERVER_CORE CLIENT_CORE]]
 * Latency of one request under way, and throughput with every slot in use: by default, and with handlers that are called one at a
 * time (ringcall_dispatcher_set_serial_handlers). Payloads have
 * BENCH_PAYLOAD bytes. To be compared with `ringcall bench device-call`, whose dispatcher is the same. */
#include "bench.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>

namespace {

void check(cudaError_t error, const char *what) {
  if (error != cudaSuccess) {
    std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
    std::exit(1);
  }
}
#define CHECK(call) check((call), #call)

void check(cudaq_status_t status, const char *what) {
  if (status != CUDAQ_OK) {
    std::fprintf(stderr, "%s: status %d: %s\n", what, int(status), ringcall_last_error());
    std::exit(1);
  }
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

/* One byte after the other, by one thread. */
__device__ int increment(const void *input, void *output, std::uint32_t arg_len, std::uint32_t max_result_len,
                         std::uint32_t *result_len) {
  const std::uint32_t len = arg_len < max_result_len ? arg_len : max_result_len;
  for (std::uint32_t i = 0; i < len; ++i)
    static_cast<std::uint8_t *>(output)[i] = std::uint8_t(static_cast<const std::uint8_t *>(input)[i] + 1);
  *result_len = len;
  return 0;
}

__global__ void init_function_table(cudaq_function_entry_t *entry) {
  entry->handler.device_fn_ptr = reinterpret_cast<void *>(&increment);
  entry->function_id = FUNCTION;
  entry->dispatch_mode = CUDAQ_DISPATCH_DEVICE_CALL;
}

/* A dispatcher of its own on a ring of its own, measured and stopped. */
void run(Plan plan, std::uint32_t threads, bool serial) {
  Mapped<std::uint64_t> rx_flags(SLOTS), tx_flags(SLOTS), stats(1);
  Mapped<std::uint8_t> rx_data(SLOTS * SLOT), tx_data(SLOTS * SLOT);
  Mapped<int> shutdown(1);
  cudaq_ringbuffer_t ring{};
  ring.rx_flags = rx_flags.device;
  ring.tx_flags = tx_flags.device;
  ring.rx_data = rx_data.device;
  ring.tx_data = tx_data.device;
  ring.rx_flags_host = rx_flags.host;
  ring.tx_flags_host = tx_flags.host;
  ring.rx_data_host = rx_data.host;
  ring.tx_data_host = tx_data.host;
  ring.rx_stride_sz = ring.tx_stride_sz = SLOT;
  cudaq_function_entry_t *entry = nullptr;
  CHECK(cudaMalloc(&entry, sizeof *entry));
  CHECK(cudaMemset(entry, 0, sizeof *entry));
  init_function_table<<<1, 1>>>(entry);
  CHECK(cudaDeviceSynchronize());
  cudaq_function_table_t table{};
  table.entries = entry;
  table.count = 1;
  cudaq_dispatcher_config_t config{};
  config.num_blocks = 1;
  config.threads_per_block = threads;
  config.num_slots = SLOTS;
  config.slot_size = SLOT;
  config.kernel_type = CUDAQ_KERNEL_REGULAR;
  config.dispatch_mode = CUDAQ_DISPATCH_DEVICE_CALL;

  cudaq_dispatch_manager_t *manager = nullptr;
  cudaq_dispatcher_t *dispatcher = nullptr;
  CHECK(cudaq_dispatch_manager_create(&manager));
  CHECK(cudaq_dispatcher_create(manager, &config, &dispatcher));
  CHECK(cudaq_dispatcher_set_ringbuffer(dispatcher, &ring));
  CHECK(cudaq_dispatcher_set_function_table(dispatcher, &table));
  CHECK(cudaq_dispatcher_set_control(dispatcher, shutdown.device, stats.device));
  CHECK(cudaq_dispatcher_set_launch_fn(dispatcher, &cudaq_launch_dispatch_kernel_regular));
  CHECK(ringcall_dispatcher_set_serial_handlers(dispatcher, serial));
  CHECK(cudaq_dispatcher_start(dispatcher));

  char name[64];
  std::snprintf(name, sizeof name, "device-call-bytes/%d C, %u threads%s", int(PAYLOAD), threads,
                serial ? ", serial" : "");
  measure(name, &ring, plan, 2000);

  CHECK(cudaq_dispatcher_stop(dispatcher));
  CHECK(cudaq_dispatcher_destroy(dispatcher));
  CHECK(cudaq_dispatch_manager_destroy(manager));
  CHECK(cudaFree(entry));
}

} // namespace

int main(int argc, char **argv) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("skipped: no CUDA device here");
    return 0;
  }
  const Plan plan = plan_of(argc, argv);
  // Before anything is pinned: the driver's own threads inherit it.
  CHECK(cudaFree(nullptr));
  for (const bool serial : {false, true})
    run(plan, 32, serial);
  run(plan, 256, false);
  return 0;
}

// Handlers in CUDA C++, called by the dispatch kernels for each request in a ring of mapped host memory: the specification's
// wiring example, whole, for the regular kernel and for the cooperative one. Built with nvcc -rdc=true and the device archive.
#include "device.h"

namespace {

constexpr std::uint32_t func_count = 1;
constexpr std::uint32_t MOCK_DECODE_FUNCTION_ID = cudaq::realtime::fnv1a_hash("mock_decode");

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

// The same by every thread of the grid: the first warp's lanes take a byte each, and the first lane writes the answer.
__device__ int mock_decode_by_the_grid(const void *input, void *output, std::uint32_t arg_len,
                                       std::uint32_t max_result_len, std::uint32_t *result_len) {
  if (max_result_len < 1)
    return 1;
  if (blockIdx.x == 0 && threadIdx.x < 32) {
    unsigned parity = 0;
    for (std::uint32_t i = threadIdx.x; i < arg_len; i += 32)
      parity ^= static_cast<const std::uint8_t *>(input)[i];
    parity = __reduce_xor_sync(~0u, parity);
    if (threadIdx.x == 0)
      *static_cast<std::uint8_t *>(output) = static_cast<std::uint8_t>(parity);
  }
  *result_len = 1;
  return 0;
}

__global__ void init_function_table(cudaq_function_entry_t *entries, bool cooperative) {
  if (threadIdx.x == 0 && blockIdx.x == 0) {
    entries[0].handler.device_fn_ptr = cooperative ? reinterpret_cast<void *>(&mock_decode_by_the_grid)
                                                   : reinterpret_cast<void *>(&mock_decode_rpc);
    entries[0].function_id = MOCK_DECODE_FUNCTION_ID;
    entries[0].dispatch_mode = CUDAQ_DISPATCH_DEVICE_CALL;
    entries[0].schema.num_args = 1;
    entries[0].schema.args[0] = {CUDAQ_TYPE_BIT_PACKED, {0}, 16, 128}; // 128 bits
    entries[0].schema.num_results = 1;
    entries[0].schema.results[0] = {CUDAQ_TYPE_UINT8, {0}, 1, 1};
  }
}

// 1000 requests to a kernel of this kind.
static std::uint64_t serve(cudaq_kernel_type_t kernel, std::uint32_t blocks) {
  const bool cooperative = kernel == CUDAQ_KERNEL_COOPERATIVE;
  Ring ring;

  int blocks_per_multiprocessor = 0;
  CHECK_CUDA(cooperative ? cudaq_dispatch_kernel_cooperative_query_occupancy(&blocks_per_multiprocessor, 256)
                         : cudaq_dispatch_kernel_query_occupancy(&blocks_per_multiprocessor, 32));

  cudaq_dispatch_manager_t *manager = nullptr;
  cudaq_dispatcher_t *dispatcher = nullptr;
  cudaq_dispatcher_config_t config = device_config();
  config.kernel_type = kernel;
  config.num_blocks = blocks;
  CHECK(cudaq_dispatch_manager_create(&manager));
  CHECK(cudaq_dispatcher_create(manager, &config, &dispatcher));
  ring.wire(dispatcher);

  cudaq_function_entry_t *d_entries = nullptr;
  CHECK_CUDA(cudaMalloc(&d_entries, func_count * sizeof(cudaq_function_entry_t)));
  init_function_table<<<1, 1>>>(d_entries, cooperative);
  CHECK_CUDA(cudaDeviceSynchronize());
  cudaq_function_table_t table{};
  table.entries = d_entries;
  table.count = func_count;
  CHECK(cudaq_dispatcher_set_function_table(dispatcher, &table));
  CHECK(cudaq_dispatcher_set_launch_fn(dispatcher, cooperative ? &cudaq_launch_dispatch_kernel_cooperative
                                                               : &cudaq_launch_dispatch_kernel_regular));
  CHECK(cudaq_dispatcher_start(dispatcher));

  ring.ask_for_parities(MOCK_DECODE_FUNCTION_ID);

  CHECK(cudaq_dispatcher_stop(dispatcher));
  std::uint64_t processed = 0;
  CHECK(cudaq_dispatcher_get_processed(dispatcher, &processed));
  CHECK(cudaq_dispatcher_destroy(dispatcher));
  CHECK(cudaq_dispatch_manager_destroy(manager));
  CHECK_CUDA(cudaFree(d_entries));
  return processed;
}

int main() {
  if (!have_device())
    return 0;
  const unsigned long long regular = serve(CUDAQ_KERNEL_REGULAR, 1), grid = serve(CUDAQ_KERNEL_COOPERATIVE, 4);
  std::printf("ran: ringcall %s, %llu requests answered on the device by threads, %llu by a grid\n", ringcall_version(),
              regular, grid);
  return regular == 1000 && grid == 1000 ? 0 : 1;
}

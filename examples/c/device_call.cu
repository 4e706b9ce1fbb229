// A handler in CUDA C++, called by the dispatch kernel for each request in a ring of mapped host memory: the
// specification's wiring example, whole. Built with nvcc -rdc=true and the device archive.
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
  if (!have_device())
    return 0;
  Ring ring;

  int blocks_per_multiprocessor = 0;
  CHECK_CUDA(cudaq_dispatch_kernel_query_occupancy(&blocks_per_multiprocessor, 32));

  cudaq_dispatch_manager_t *manager = nullptr;
  cudaq_dispatcher_t *dispatcher = nullptr;
  const cudaq_dispatcher_config_t config = device_config();
  CHECK(cudaq_dispatch_manager_create(&manager));
  CHECK(cudaq_dispatcher_create(manager, &config, &dispatcher));
  ring.wire(dispatcher);

  cudaq_function_entry_t *d_entries = nullptr;
  CHECK_CUDA(cudaMalloc(&d_entries, func_count * sizeof(cudaq_function_entry_t)));
  init_function_table<<<1, 1>>>(d_entries);
  CHECK_CUDA(cudaDeviceSynchronize());
  cudaq_function_table_t table{};
  table.entries = d_entries;
  table.count = func_count;
  CHECK(cudaq_dispatcher_set_function_table(dispatcher, &table));
  CHECK(cudaq_dispatcher_set_launch_fn(dispatcher, &cudaq_launch_dispatch_kernel_regular));
  CHECK(cudaq_dispatcher_start(dispatcher));

  ring.ask_for_parities(MOCK_DECODE_FUNCTION_ID);

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

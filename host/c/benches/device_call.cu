/* device-call through the C interface: a dispatch kernel of one block, as the reference's own example configures it (32 threads),
 * alone and with the library told to take 8 warps (ringcall_dispatcher_set_warps). Its handler loops over the payload's bytes.
 *   device_call [SECONDS [SERVER_CORE CLIENT_CORE]]
 * Latency of one request under way, and throughput with every slot in use: by default, and with handlers that are called one at a
 * time (ringcall_dispatcher_set_serial_handlers). Payloads have
 * BENCH_PAYLOAD bytes. To be compared with `ringcall bench device-call`, whose dispatcher is the same. */
#include "bench.cuh"

namespace {

__device__ int increment(const void *input, void *output, std::uint32_t arg_len, std::uint32_t max_result_len,
                         std::uint32_t *result_len) {
  *result_len = increment_bytes(input, output, arg_len, max_result_len);
  return 0;
}

__global__ void init_function_table(cudaq_function_entry_t *entry) {
  entry->handler.device_fn_ptr = reinterpret_cast<void *>(&increment);
}

/* A dispatcher of its own on a ring of its own, measured and stopped. */
void run(Plan plan, std::uint32_t warps, bool serial) {
  MappedRing ring;
  cudaq_function_entry_t entry{};
  entry.function_id = FUNCTION;
  entry.dispatch_mode = CUDAQ_DISPATCH_DEVICE_CALL;
  cudaq_function_table_t table = device_table(entry, [](auto *at) { init_function_table<<<1, 1>>>(at); });
  cudaq_dispatcher_config_t config{};
  config.num_blocks = 1;
  config.threads_per_block = 32;
  config.num_slots = SLOTS;
  config.slot_size = SLOT;
  config.kernel_type = CUDAQ_KERNEL_REGULAR;
  config.dispatch_mode = CUDAQ_DISPATCH_DEVICE_CALL;

  cudaq_dispatch_manager_t *manager = nullptr;
  cudaq_dispatcher_t *dispatcher = nullptr;
  CHECK(cudaq_dispatch_manager_create(&manager));
  CHECK(cudaq_dispatcher_create(manager, &config, &dispatcher));
  CHECK(cudaq_dispatcher_set_ringbuffer(dispatcher, &ring.views));
  CHECK(cudaq_dispatcher_set_function_table(dispatcher, &table));
  CHECK(cudaq_dispatcher_set_control(dispatcher, ring.shutdown.device, ring.stats.device));
  CHECK(cudaq_dispatcher_set_launch_fn(dispatcher, &cudaq_launch_dispatch_kernel_regular));
  CHECK(ringcall_dispatcher_set_serial_handlers(dispatcher, serial));
  CHECK(ringcall_dispatcher_set_warps(dispatcher, warps));
  CHECK(cudaq_dispatcher_start(dispatcher));

  char name[64];
  std::snprintf(name, sizeof name, "device-call-bytes/%d C, %u warps%s", int(PAYLOAD), warps,
                serial ? ", serial" : "");
  measure(name, &ring.views, plan, 2000);

  CHECK(cudaq_dispatcher_stop(dispatcher));
  CHECK(cudaq_dispatcher_destroy(dispatcher));
  CHECK(cudaq_dispatch_manager_destroy(manager));
  CHECK(cudaFree(table.entries));
}

} // namespace

int main(int argc, char **argv) {
  if (!have_device())
    return 0;
  const Plan plan = plan_of(argc, argv);
  // Before anything is pinned: the driver's own threads inherit it.
  CHECK(cudaFree(nullptr));
  for (const bool serial : {false, true})
    run(plan, 1, serial);
  run(plan, 8, false);
  return 0;
}

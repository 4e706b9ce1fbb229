/* host-call/32 through the C interface: latency of one request under way, and throughput with every slot in use.
 *   host_call [SECONDS [SERVER_CORE CLIENT_CORE]]
 * Pinned like `ringcall bench host-call/32`, with which it is compared: to the first two cores that it may use. */
#define _GNU_SOURCE
#include "bench.h"

static void increment(const void *rx_slot, void *tx_slot, size_t slot_size) {
  const RPCHeader *request = rx_slot;
  RPCResponse *response = tx_slot;
  const uint8_t *in = (const uint8_t *)rx_slot + sizeof *request;
  uint8_t *out = (uint8_t *)tx_slot + sizeof *response;
  /* Once: for all that the compiler knows, a byte of the result might be one of the request's header. */
  const uint32_t length = request->arg_len;
  (void)slot_size;
  for (uint32_t i = 0; i < length; ++i)
    out[i] = (uint8_t)(in[i] + 1);
  response->magic = RPC_MAGIC_RESPONSE;
  response->status = 0;
  response->result_len = length;
  response->request_id = request->request_id;
}

int main(int argc, char **argv) {
  const Plan plan = plan_of(argc, argv);
  cudaq_ringbuffer_t ring = {0};
  ring.rx_flags_host = aligned_alloc(4096, 4096);
  ring.tx_flags_host = aligned_alloc(4096, 4096);
  ring.rx_data_host = aligned_alloc(4096, SLOTS * SLOT);
  ring.tx_data_host = aligned_alloc(4096, SLOTS * SLOT);
  memset((void *)ring.rx_flags_host, 0, 4096);
  memset((void *)ring.tx_flags_host, 0, 4096);
  memset(ring.rx_data_host, 0, SLOTS * SLOT);
  memset(ring.tx_data_host, 0, SLOTS * SLOT);
  ring.rx_stride_sz = ring.tx_stride_sz = SLOT;
  cudaq_function_entry_t entry = {0};
  entry.handler.host_fn = increment;
  entry.function_id = FUNCTION;
  entry.dispatch_mode = CUDAQ_DISPATCH_HOST_CALL;
  cudaq_function_table_t table = {&entry, 1};
  cudaq_dispatcher_config_t config = {0};
  config.num_slots = SLOTS;
  config.slot_size = SLOT;
  config.dispatch_path = CUDAQ_DISPATCH_PATH_HOST;
  /* What the dispatcher's thread reads every turn and writes every request: in lines of their own, away from the client's. */
  static _Alignas(128) volatile int shutdown;
  static _Alignas(128) uint64_t stats[16];
  cudaq_dispatch_manager_t *manager;
  cudaq_dispatcher_t *dispatcher;
  pin(plan.server);
  if (cudaq_dispatch_manager_create(&manager) || cudaq_dispatcher_create(manager, &config, &dispatcher) ||
      cudaq_dispatcher_set_ringbuffer(dispatcher, &ring) ||
      cudaq_dispatcher_set_function_table(dispatcher, &table) ||
      cudaq_dispatcher_set_control(dispatcher, &shutdown, stats) || cudaq_dispatcher_start(dispatcher)) {
    fprintf(stderr, "%s\n", ringcall_last_error());
    return 2;
  }

  measure("host-call/32 C", &ring, plan, 100000);
  return cudaq_dispatcher_stop(dispatcher) != CUDAQ_OK;
}

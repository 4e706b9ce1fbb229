/* A function in C, called for each request that is put into a ring: the host path, without CUDA. */
#include "cudaq/realtime/daemon/dispatcher/cudaq_realtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call)                                                                                          \
  do {                                                                                                       \
    cudaq_status_t status_ = (call);                                                                         \
    if (status_ != CUDAQ_OK) {                                                                               \
      fprintf(stderr, "%s: status %d: %s\n", #call, (int)status_, ringcall_last_error());                    \
      return 1;                                                                                              \
    }                                                                                                        \
  } while (0)

enum { SLOTS = 8, SLOT_BYTES = 256 };

/* The 32-bit FNV-1a of a name: its function id. */
static uint32_t function_id(const char *name) {
  uint32_t hash = 2166136261u;
  for (; *name; ++name)
    hash = (hash ^ (uint8_t)*name) * 16777619u;
  return hash;
}

/* Answers with the parity of the request's bytes. */
static void parity(const void *rx_slot, void *tx_slot, size_t slot_size) {
  const RPCHeader *request = rx_slot;
  const uint8_t *bytes = (const uint8_t *)rx_slot + sizeof *request;
  RPCResponse *response = tx_slot;
  uint8_t *result = (uint8_t *)tx_slot + sizeof *response;
  (void)slot_size;
  *result = 0;
  for (uint32_t i = 0; i < request->arg_len; ++i)
    *result ^= bytes[i];
  response->magic = RPC_MAGIC_RESPONSE;
  response->status = 0;
  response->result_len = 1;
}

int main(void) {
  /* A ring: flags, and slots for requests and responses. A transport would bring its own. */
  cudaq_ringbuffer_t ring = {0};
  ring.rx_flags_host = calloc(SLOTS, sizeof(uint64_t));
  ring.tx_flags_host = calloc(SLOTS, sizeof(uint64_t));
  ring.rx_data_host = calloc(SLOTS, SLOT_BYTES);
  ring.tx_data_host = calloc(SLOTS, SLOT_BYTES);
  ring.rx_stride_sz = ring.tx_stride_sz = SLOT_BYTES;

  cudaq_function_entry_t entry = {0};
  entry.handler.host_fn = parity;
  entry.function_id = function_id("parity");
  entry.dispatch_mode = CUDAQ_DISPATCH_HOST_CALL;
  cudaq_function_table_t table = {&entry, 1};

  cudaq_dispatcher_config_t config = {0};
  config.num_slots = SLOTS;
  config.slot_size = SLOT_BYTES;
  config.dispatch_mode = CUDAQ_DISPATCH_HOST_CALL;
  config.dispatch_path = CUDAQ_DISPATCH_PATH_HOST;

  volatile int shutdown = 0;
  uint64_t stats = 0;
  cudaq_dispatch_manager_t *manager;
  cudaq_dispatcher_t *dispatcher;
  CHECK(cudaq_dispatch_manager_create(&manager));
  CHECK(cudaq_dispatcher_create(manager, &config, &dispatcher));
  CHECK(cudaq_dispatcher_set_ringbuffer(dispatcher, &ring));
  CHECK(cudaq_dispatcher_set_function_table(dispatcher, &table));
  CHECK(cudaq_dispatcher_set_control(dispatcher, &shutdown, &stats));
  CHECK(cudaq_dispatcher_start(dispatcher));

  for (uint32_t id = 0; id < 100; ++id) {
    const uint32_t slot = id % SLOTS;
    const uint8_t bits[4] = {(uint8_t)id, 1, 2, 4};
    CHECK(cudaq_host_ringbuffer_write_rpc_request(&ring, slot, entry.function_id, bits, sizeof bits, id, 0));
    cudaq_host_ringbuffer_signal_slot(&ring, slot);
    while (cudaq_host_ringbuffer_poll_tx_flag(&ring, slot, NULL) != CUDAQ_TX_READY) {
    }
    const uint8_t *response = ring.tx_data_host + slot * SLOT_BYTES;
    if (response[sizeof(RPCResponse)] != (uint8_t)(id ^ 7)) {
      fprintf(stderr, "request %u: wrong parity\n", id);
      return 1;
    }
    cudaq_host_ringbuffer_clear_slot(&ring, slot);
  }

  uint64_t processed;
  CHECK(cudaq_dispatcher_get_processed(dispatcher, &processed));
  CHECK(cudaq_dispatcher_stop(dispatcher));
  CHECK(cudaq_dispatcher_destroy(dispatcher));
  CHECK(cudaq_dispatch_manager_destroy(manager));
  printf("ringcall %s: %llu requests answered\n", ringcall_version(), (unsigned long long)processed);
  free((void *)ring.rx_flags_host);
  free((void *)ring.tx_flags_host);
  free(ring.rx_data_host);
  free(ring.tx_data_host);
  return 0;
}

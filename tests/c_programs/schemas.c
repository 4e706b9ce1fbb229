/* Schemas of a table: not looked at unless a dispatcher is told to check them. */
#include "cudaq/realtime/daemon/dispatcher/graph_launch_engine.h"
#include "program.h"

enum { SLOTS = 2, SLOT = 64, FUNCTIONS = 4 };

/* Payloads of 0 to all the bytes that a slot takes, to one function. */
static void ask_every_length(const cudaq_ringbuffer_t *ring, uint32_t function) {
  uint8_t payload[SLOT - 24];
  memset(payload, 7, sizeof payload);
  for (uint32_t len = 0; len <= sizeof payload; ++len)
    EXPECT(ask(ring, len % SLOTS, function, payload, len, len + 1) == 0);
}

static void array_of_bytes(cudaq_type_desc_t *desc, uint32_t bytes) {
  memset(desc, 0, sizeof *desc);
  desc->type_id = CUDAQ_TYPE_ARRAY_UINT8;
  desc->size_bytes = desc->num_elements = bytes;
}

int main(void) {
  cudaq_ringbuffer_t ring = make_ring(SLOTS, SLOT);
  cudaq_function_entry_t entries[FUNCTIONS];
  for (uint32_t i = 0; i < FUNCTIONS; ++i) {
    increment_entry(&entries[i]);
    entries[i].function_id = INCREMENT + i;
  }
  /* Any length; 16 bytes; more than a slot takes; never written. */
  entries[0].schema.num_args = entries[0].schema.num_results = 1;
  array_of_bytes(&entries[0].schema.args[0], 0);
  array_of_bytes(&entries[0].schema.results[0], 0);
  entries[1].schema.num_args = 1;
  array_of_bytes(&entries[1].schema.args[0], 16);
  entries[2].schema.num_results = 1;
  array_of_bytes(&entries[2].schema.results[0], 1u << 20);
  memset(&entries[3].schema, 0xA5, sizeof entries[3].schema);
  cudaq_function_table_t table = {entries, FUNCTIONS};
  cudaq_dispatch_manager_t *manager;
  cudaq_dispatcher_t *dispatcher;
  cudaq_dispatcher_config_t config = host_config(SLOTS, SLOT);
  volatile int shutdown = 0;
  uint64_t stats = 0;
  EXPECT_OK(cudaq_dispatch_manager_create(&manager));
  EXPECT_OK(cudaq_dispatcher_create(manager, &config, &dispatcher));
  EXPECT_OK(cudaq_dispatcher_set_ringbuffer(dispatcher, &ring));
  EXPECT_OK(cudaq_dispatcher_set_function_table(dispatcher, &table));
  EXPECT_OK(cudaq_dispatcher_set_control(dispatcher, &shutdown, &stats));
  EXPECT_OK(cudaq_dispatcher_start(dispatcher));
  for (uint32_t i = 0; i < FUNCTIONS; ++i)
    ask_every_length(&ring, INCREMENT + i);
  EXPECT_OK(cudaq_dispatcher_stop(dispatcher));

  /* The calls without a dispatcher. */
  shutdown = 0;
  cudaq_host_dispatcher_handle_t *handle =
      cudaq_host_dispatcher_start_thread(&ring, &table, &config, &shutdown, &stats, NULL);
  EXPECT(handle != NULL);
  for (uint32_t i = 0; i < FUNCTIONS; ++i)
    ask_every_length(&ring, INCREMENT + i);
  cudaq_host_dispatcher_stop(handle);

  /* Checked: the start refuses a bad schema and one that fits no slot, a request must have the arguments' length. */
  shutdown = 0;
  EXPECT_OK(ringcall_dispatcher_set_check_schemas(dispatcher, 1));
  EXPECT_INVALID(cudaq_dispatcher_start(dispatcher));
  memset(&entries[3].schema, 0, sizeof entries[3].schema);
  EXPECT_INVALID(cudaq_dispatcher_start(dispatcher));
  memset(&entries[2].schema, 0, sizeof entries[2].schema);
  EXPECT_OK(cudaq_dispatcher_start(dispatcher));
  EXPECT_INVALID(ringcall_dispatcher_set_check_schemas(dispatcher, 0)); /* it runs */
  EXPECT(ask(&ring, 0, INCREMENT + 1, "0123456789abcde", 15, 1) == RINGCALL_STATUS_SCHEMA_MISMATCH);
  EXPECT(ask(&ring, 1, INCREMENT + 1, "0123456789abcdef", 16, 2) == 0);
  ask_every_length(&ring, INCREMENT); /* one ARRAY_UINT8 of 0 bytes is any length */
  ask_every_length(&ring, INCREMENT + 2);
  EXPECT_OK(cudaq_dispatcher_destroy(dispatcher));
  EXPECT_OK(cudaq_dispatch_manager_destroy(manager));
  free_ring(&ring);
  puts("ok");
  return 0;
}

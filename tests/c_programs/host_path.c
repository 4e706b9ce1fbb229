/* The host path: many requests, garbage, handlers that misbehave, stop and restart, without CUDA. */
#include "program.h"

enum { SLOTS = 8, SLOT = 128 };

static void silent(const void *rx, void *tx, size_t size) { (void)rx, (void)tx, (void)size; }

static void boastful(const void *rx, void *tx, size_t size) {
  RPCResponse response = {RPC_MAGIC_RESPONSE, 0, 1u << 20, 0, 0};
  (void)rx, (void)size;
  memcpy(tx, &response, sizeof response);
}

static void failing(const void *rx, void *tx, size_t size) {
  RPCResponse response = {RPC_MAGIC_RESPONSE, 42, 3, 0, 0};
  (void)rx, (void)size;
  memcpy(tx, &response, sizeof response);
  memcpy((uint8_t *)tx + sizeof response, "why", 3);
}

static uint32_t id_of(uint32_t number) { return 0x1000u + number; }

int main(void) {
  cudaq_ringbuffer_t ring = make_ring(SLOTS, SLOT);
  cudaq_function_entry_t entries[6];
  memset(entries, 0, sizeof entries);
  increment_entry(&entries[0]);
  cudaq_host_rpc_fn_t odd[3] = {silent, boastful, failing};
  for (uint32_t i = 0; i < 3; ++i) {
    entries[1 + i].handler.host_fn = odd[i];
    entries[1 + i].function_id = id_of(i);
    entries[1 + i].dispatch_mode = CUDAQ_DISPATCH_HOST_CALL;
  }
  /* For a device: not run here. */
  entries[4].handler.device_fn_ptr = &ring;
  entries[4].function_id = id_of(3);
  entries[4].dispatch_mode = CUDAQ_DISPATCH_DEVICE_CALL;
  /* With a schema. */
  increment_entry(&entries[5]);
  entries[5].function_id = id_of(4);
  entries[5].schema.num_args = 1;
  entries[5].schema.args[0].type_id = CUDAQ_TYPE_ARRAY_UINT8;
  entries[5].schema.args[0].size_bytes = entries[5].schema.args[0].num_elements = 16;

  cudaq_dispatch_manager_t *manager = NULL;
  cudaq_dispatcher_t *dispatcher = NULL;
  cudaq_dispatcher_config_t config = host_config(SLOTS, SLOT);
  cudaq_function_table_t table = {entries, 6};
  volatile int shutdown = 0;
  uint64_t stats = ~0ull, processed = 77; /* whatever is there: counted from the start */
  EXPECT_OK(cudaq_dispatch_manager_create(&manager));
  EXPECT_OK(cudaq_dispatcher_create(manager, &config, &dispatcher));
  EXPECT_OK(cudaq_dispatcher_set_ringbuffer(dispatcher, &ring));
  EXPECT_OK(cudaq_dispatcher_set_function_table(dispatcher, &table));
  EXPECT_OK(cudaq_dispatcher_set_control(dispatcher, &shutdown, &stats));
  EXPECT_OK(ringcall_dispatcher_set_check_schemas(dispatcher, 1));
  EXPECT_OK(cudaq_dispatcher_get_processed(dispatcher, &processed));
  EXPECT(processed == 0);
  EXPECT_OK(cudaq_dispatcher_start(dispatcher));
  EXPECT_INVALID(cudaq_dispatcher_start(dispatcher));
  EXPECT_INVALID(cudaq_dispatcher_set_ringbuffer(dispatcher, &ring));
  EXPECT_INVALID(cudaq_dispatch_manager_destroy(manager));
  /* A table is read at the start: later changes are not seen. */
  entries[0].handler.host_fn = silent;

  uint8_t payload[SLOT - 24];
  uint32_t id = 0;
  for (uint32_t round = 0; round < 1000; ++round) {
    uint32_t slot = round % SLOTS, len = round % (sizeof payload + 1);
    for (uint32_t i = 0; i < len; ++i)
      payload[i] = (uint8_t)(round + i);
    EXPECT(ask(&ring, slot, INCREMENT, payload, len, ++id) == 0);
    EXPECT(response_of(&ring, slot).result_len == len);
    for (uint32_t i = 0; i < len; ++i)
      EXPECT(ring.tx_data_host[slot * SLOT + 24 + i] == (uint8_t)(payload[i] + 1));
  }
  EXPECT_OK(cudaq_dispatcher_get_processed(dispatcher, &processed));
  EXPECT(processed == 1000 && stats == 1000);

  EXPECT(ask(&ring, 1, id_of(0), NULL, 0, ++id) == RINGCALL_STATUS_ABANDONED);
  EXPECT(ask(&ring, 1, id_of(1), NULL, 0, ++id) == RINGCALL_STATUS_RESULT_TOO_LONG);
  EXPECT(response_of(&ring, 1).result_len == SLOT - 24);
  EXPECT(ask(&ring, 1, id_of(2), NULL, 0, ++id) == 42);
  EXPECT(response_of(&ring, 1).result_len == 3 && memcmp(ring.tx_data_host + SLOT + 24, "why", 3) == 0);
  EXPECT(ask(&ring, 1, id_of(3), NULL, 0, ++id) == RINGCALL_STATUS_WRONG_MODE);
  EXPECT(ask(&ring, 1, id_of(4), payload, 15, ++id) == RINGCALL_STATUS_SCHEMA_MISMATCH);
  EXPECT(ask(&ring, 1, id_of(4), payload, 16, ++id) == 0);
  EXPECT(ask(&ring, 1, 0xdeadbeef, NULL, 0, ++id) == RINGCALL_STATUS_UNKNOWN_FUNCTION);

  /* Headers that lie. Any flag but 0 says that a request is there; none is followed. */
  RPCHeader request = {0x12345678, INCREMENT, 0, 9, 9};
  memcpy(ring.rx_data_host, &request, sizeof request);
  __atomic_store_n((uint64_t *)ring.rx_flags_host, 1, __ATOMIC_RELEASE);
  EXPECT(await_response(&ring, 0, NULL) == CUDAQ_TX_READY);
  EXPECT(response_of(&ring, 0).status == RINGCALL_STATUS_BAD_MAGIC);
  cudaq_host_ringbuffer_clear_slot(&ring, 0);
  request.magic = RPC_MAGIC_REQUEST;
  request.arg_len = 0xFFFFFFFF;
  memcpy(ring.rx_data_host, &request, sizeof request);
  __atomic_store_n((uint64_t *)ring.rx_flags_host, ~0ull, __ATOMIC_RELEASE);
  EXPECT(await_response(&ring, 0, NULL) == CUDAQ_TX_READY);
  EXPECT(response_of(&ring, 0).status == RINGCALL_STATUS_ARG_TOO_LONG);
  cudaq_host_ringbuffer_clear_slot(&ring, 0);

  /* An answer that nobody takes holds up its own slot alone. */
  EXPECT_OK(cudaq_host_ringbuffer_write_rpc_request(&ring, 2, INCREMENT, payload, 4, 5, 0));
  cudaq_host_ringbuffer_signal_slot(&ring, 2);
  EXPECT(await_response(&ring, 2, NULL) == CUDAQ_TX_READY);
  EXPECT(cudaq_host_ringbuffer_slot_available(&ring, 2) == 0);
  EXPECT(ask(&ring, 3, INCREMENT, payload, 4, ++id) == 0);
  cudaq_host_ringbuffer_clear_slot(&ring, 2);

  EXPECT_OK(cudaq_dispatcher_stop(dispatcher));
  EXPECT(shutdown == 1);
  EXPECT_OK(cudaq_dispatcher_stop(dispatcher));
  /* The flag stands: a start would end at once. */
  EXPECT_INVALID(cudaq_dispatcher_start(dispatcher));
  shutdown = 0;
  increment_entry(&entries[0]);
  /* By the specification: an unknown function is cleared. */
  EXPECT_OK(ringcall_dispatcher_set_clear_unknown(dispatcher, 1));
  EXPECT_OK(ringcall_dispatcher_set_answer_last(dispatcher, 1)); /* says nothing of host calls */
  EXPECT_OK(cudaq_dispatcher_start(dispatcher));
  EXPECT_OK(cudaq_host_ringbuffer_write_rpc_request(&ring, 6, 0xdeadbeef, NULL, 0, 1, 0));
  cudaq_host_ringbuffer_signal_slot(&ring, 6);
  for (time_t end = time(NULL) + 10; !cudaq_host_ringbuffer_slot_available(&ring, 6);)
    EXPECT(time(NULL) < end);
  EXPECT(ask(&ring, 0, INCREMENT, payload, 4, ++id) == 0);
  EXPECT_OK(cudaq_dispatcher_get_processed(dispatcher, &processed));
  EXPECT(processed == 1 && stats == 1);
  /* The caller's flag ends it too. */
  shutdown = 1;
  EXPECT_OK(cudaq_dispatcher_destroy(dispatcher));
  EXPECT_INVALID(cudaq_dispatcher_destroy(dispatcher));
  EXPECT_OK(cudaq_dispatch_manager_destroy(manager));
  EXPECT_INVALID(cudaq_dispatch_manager_destroy(manager));
  free_ring(&ring);
  puts("ok");
  return 0;
}

/* Bad requests are answered, or dropped where a dispatcher or the environment asks for it. */
#include "cudaq/realtime/daemon/dispatcher/graph_launch_engine.h"
#include "program.h"

enum { SLOTS = 4, SLOT = 64, OTHER = INCREMENT + 1, FOR_DEVICES = INCREMENT + 2 };

/* An unknown function, one of another mode, a wrong magic: each with its status, or dropped. Then a good one. */
static void ask_badly(const cudaq_ringbuffer_t *ring, int dropped) {
  const uint32_t functions[3] = {OTHER, FOR_DEVICES, INCREMENT};
  const int32_t statuses[3] = {RINGCALL_STATUS_UNKNOWN_FUNCTION, RINGCALL_STATUS_WRONG_MODE,
                               RINGCALL_STATUS_BAD_MAGIC};
  for (uint32_t i = 0; i < 3; ++i) {
    uint32_t slot = i + 1;
    EXPECT_OK(cudaq_host_ringbuffer_write_rpc_request(ring, slot, functions[i], "abcd", 4, slot, 0));
    if (i == 2)
      ring->rx_data_host[slot * SLOT] ^= 0xFF;
    cudaq_host_ringbuffer_signal_slot(ring, slot);
    if (!dropped) {
      EXPECT(await_response(ring, slot, NULL) == CUDAQ_TX_READY);
      EXPECT(response_of(ring, slot).status == statuses[i]);
      cudaq_host_ringbuffer_clear_slot(ring, slot);
    }
    for (time_t end = time(NULL) + 10; !cudaq_host_ringbuffer_slot_available(ring, slot);)
      EXPECT(time(NULL) < end);
  }
  EXPECT(ask(ring, 0, INCREMENT, "abcd", 4, 9) == 0);
}

int main(void) {
  cudaq_ringbuffer_t ring = make_ring(SLOTS, SLOT);
  cudaq_function_entry_t entries[2];
  increment_entry(&entries[0]);
  increment_entry(&entries[1]);
  entries[1].function_id = FOR_DEVICES;
  entries[1].dispatch_mode = CUDAQ_DISPATCH_DEVICE_CALL;
  cudaq_function_table_t table = {entries, 2};
  cudaq_dispatcher_config_t config = host_config(SLOTS, SLOT);
  volatile int shutdown = 0;
  uint64_t stats = 0;
  cudaq_dispatch_manager_t *manager;
  cudaq_dispatcher_t *dispatcher;
  EXPECT_OK(cudaq_dispatch_manager_create(&manager));
  EXPECT_OK(cudaq_dispatcher_create(manager, &config, &dispatcher));
  EXPECT_OK(cudaq_dispatcher_set_ringbuffer(dispatcher, &ring));
  EXPECT_OK(cudaq_dispatcher_set_function_table(dispatcher, &table));
  EXPECT_OK(cudaq_dispatcher_set_control(dispatcher, &shutdown, &stats));
  EXPECT_INVALID(ringcall_dispatcher_set_bad_requests(dispatcher, (ringcall_bad_requests_t)2));
  /* What the environment says, and then a call, which the environment does not change. */
  const char *const said[4] = {NULL, "drop", "answer", "drop"};
  for (int i = 0; i < 6; ++i) {
    if (i < 4 && said[i] == NULL)
      unsetenv("RINGCALL_BAD_REQUESTS");
    else if (i < 4)
      setenv("RINGCALL_BAD_REQUESTS", said[i], 1);
    else
      EXPECT_OK(ringcall_dispatcher_set_bad_requests(dispatcher, i == 4 ? RINGCALL_BAD_REQUESTS_ANSWER
                                                                       : RINGCALL_BAD_REQUESTS_DROP));
    if (i == 5)
      unsetenv("RINGCALL_BAD_REQUESTS");
    shutdown = 0;
    EXPECT_OK(cudaq_dispatcher_start(dispatcher));
    ask_badly(&ring, i == 1 || i == 3 || i == 5);
    EXPECT_OK(cudaq_dispatcher_stop(dispatcher));
  }
  EXPECT_OK(cudaq_dispatcher_destroy(dispatcher));

  /* Loops that no dispatcher starts have the environment alone. */
  for (int drop = 0; drop < 2; ++drop) {
    setenv("RINGCALL_BAD_REQUESTS", drop ? "drop" : "answer", 1);
    shutdown = 0;
    cudaq_host_dispatcher_handle_t *handle =
        cudaq_host_dispatcher_start_thread(&ring, &table, &config, &shutdown, &stats, NULL);
    EXPECT(handle != NULL);
    ask_badly(&ring, drop);
    cudaq_host_dispatcher_stop(handle);
  }
  setenv("RINGCALL_BAD_REQUESTS", "sometimes", 1);
  shutdown = 0;
  EXPECT(cudaq_host_dispatcher_start_thread(&ring, &table, &config, &shutdown, &stats, NULL) == NULL);
  EXPECT(strstr(ringcall_last_error(), "take `answer` or `drop`") != NULL);
  EXPECT_OK(cudaq_dispatch_manager_destroy(manager));
  free_ring(&ring);
  puts("ok");
  return 0;
}

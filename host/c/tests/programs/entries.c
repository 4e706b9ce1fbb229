/* Tables of each layout: compiled three times. Two entries, so that a wrong stride is seen. */
#include "program.h"

int main(void) {
  enum { SLOTS = 2, SLOT = 64 };
  cudaq_ringbuffer_t ring = make_ring(SLOTS, SLOT);
  cudaq_function_entry_t entries[3];
  for (uint32_t i = 0; i < 3; ++i) {
    increment_entry(&entries[i]);
    entries[i].function_id = INCREMENT + i;
  }
#if CUDAQ_REALTIME_ENTRY_BYTES == 176
  entries[1].routing_key = 0x5555555555555555; /* alone under its id: not looked at */
#elif CUDAQ_REALTIME_ENTRY_BYTES == 192
  entries[1].mailbox_idx = 3;
  entries[1].d_queue_idx = (int *)0x1000;
#endif
  cudaq_function_table_t table = {entries, 3};
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
  for (uint32_t i = 0; i < 3; ++i)
    EXPECT(ask(&ring, i % SLOTS, INCREMENT + i, "abcd", 4, i) == 0);
  EXPECT_OK(cudaq_dispatcher_destroy(dispatcher));
  EXPECT_OK(cudaq_dispatch_manager_destroy(manager));
  free_ring(&ring);
  puts("ok");
  return 0;
}

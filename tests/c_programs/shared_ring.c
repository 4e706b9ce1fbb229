/* Two dispatchers on one ring, each with functions of its own. */
#include "cudaq/realtime/daemon/dispatcher/graph_launch_engine.h"
#include "program.h"

enum { SLOTS = 8, SLOT = 64, OTHER = 0x77 };

int main(void) {
  cudaq_ringbuffer_t ring = make_ring(SLOTS, SLOT);
  cudaq_function_entry_t entries[2];
  cudaq_dispatch_manager_t *manager;
  cudaq_dispatcher_t *dispatchers[2];
  volatile int shutdown[2] = {0, 0};
  uint64_t stats[2] = {0, 0};
  EXPECT_OK(cudaq_dispatch_manager_create(&manager));
  for (int i = 0; i < 2; ++i) {
    increment_entry(&entries[i]);
    entries[i].function_id = i == 0 ? INCREMENT : OTHER;
    cudaq_function_table_t table = {&entries[i], 1};
    cudaq_dispatcher_config_t config = host_config(SLOTS, SLOT);
    config.shared_ring_mode = 1;
    EXPECT_OK(cudaq_dispatcher_create(manager, &config, &dispatchers[i]));
    EXPECT_OK(cudaq_dispatcher_set_ringbuffer(dispatchers[i], &ring));
    EXPECT_OK(cudaq_dispatcher_set_function_table(dispatchers[i], &table));
    EXPECT_OK(cudaq_dispatcher_set_control(dispatchers[i], &shutdown[i], &stats[i]));
    EXPECT_OK(cudaq_dispatcher_start(dispatchers[i]));
  }
  for (uint32_t round = 0; round < 300; ++round)
    EXPECT(ask(&ring, round % SLOTS, round % 3 ? INCREMENT : OTHER, "abcd", 4, round) == 0);
  /* A function that another dispatcher of the ring serves is refused by its id, with the others of the table, while that one
   * runs. */
  cudaq_dispatcher_config_t config = host_config(SLOTS, SLOT);
  cudaq_function_entry_t both[2] = {entries[1], entries[1]};
  both[0].function_id = 0x99;
  cudaq_function_table_t table = {both, 2};
  config.shared_ring_mode = 1;
  cudaq_dispatcher_t *third;
  volatile int ended = 0;
  uint64_t count = 0;
  EXPECT_OK(cudaq_dispatcher_create(manager, &config, &third));
  EXPECT_OK(cudaq_dispatcher_set_ringbuffer(third, &ring));
  EXPECT_OK(cudaq_dispatcher_set_function_table(third, &table));
  EXPECT_OK(cudaq_dispatcher_set_control(third, &ended, &count));
  EXPECT_INVALID(cudaq_dispatcher_start(third));
  EXPECT(strstr(ringcall_last_error(), "function 0x00000077 is served on this ring") != NULL);
  EXPECT(cudaq_host_dispatcher_start_thread(&ring, &table, &config, &ended, &count, NULL) == NULL);
  EXPECT_OK(cudaq_dispatcher_stop(dispatchers[1]));
  EXPECT_OK(cudaq_dispatcher_start(third));
  EXPECT(ask(&ring, 2, 0x99, "abcd", 4, 7) == 0 && ask(&ring, 3, OTHER, "abcd", 4, 8) == 0);
  EXPECT_OK(cudaq_dispatcher_destroy(third));
  shutdown[1] = 0;
  stats[1] = 0;
  EXPECT_OK(cudaq_dispatcher_start(dispatchers[1]));
  /* For nobody: it stays. */
  EXPECT_OK(cudaq_host_ringbuffer_write_rpc_request(&ring, 0, 0x78, NULL, 0, 1, 1));
  cudaq_host_ringbuffer_signal_slot(&ring, 0);
  EXPECT(ask(&ring, 1, OTHER, "abcd", 4, 3000) == 0);
  for (int i = 0; i < 2; ++i)
    EXPECT_OK(cudaq_dispatcher_destroy(dispatchers[i]));
  EXPECT(stats[0] == 200 && stats[1] == 1);
  EXPECT(cudaq_host_ringbuffer_slot_available(&ring, 0) == 0);
  EXPECT(cudaq_host_ringbuffer_poll_tx_flag(&ring, 0, NULL) == CUDAQ_TX_EMPTY);
  EXPECT_OK(cudaq_dispatch_manager_destroy(manager));
  free_ring(&ring);
  puts("ok");
  return 0;
}

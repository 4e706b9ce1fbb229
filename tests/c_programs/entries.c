/* Tables of each layout: compiled three times. Two entries, so that a wrong stride is seen. */
#include "cudaq/realtime/daemon/bridge/cpu_dataplane.h"
#include "cudaq/realtime/daemon/dispatcher/graph_launch_engine.h"
#include "program.h"

enum { SLOTS = 2, SLOT = 64 };

/* A transport with one request for the last entry. */
typedef struct {
  cudaq_ringbuffer_t *ring;
  int asked, answered;
} transport_t;

static cudaq_rx_status_t poll_once(void *ctx, uint32_t *out_slot) {
  transport_t *transport = (transport_t *)ctx;
  if (transport->asked++)
    return CUDAQ_RX_EMPTY;
  EXPECT_OK(cudaq_host_ringbuffer_write_rpc_request(transport->ring, 1, INCREMENT + 2, "abcd", 4, 1, 0));
  *out_slot = 1;
  return CUDAQ_RX_READY;
}

static cudaq_status_t publish_once(void *ctx, uint32_t slot) {
  transport_t *transport = (transport_t *)ctx;
  transport->answered += slot == 1 && response_of(transport->ring, slot).status == 0;
  return CUDAQ_OK;
}

int main(void) {
  cudaq_ringbuffer_t ring = make_ring(SLOTS, SLOT);
  cudaq_function_entry_t entries[3];
  for (uint32_t i = 0; i < 3; ++i) {
    increment_entry(&entries[i]);
    entries[i].function_id = INCREMENT + i;
  }
#if CUDAQ_REALTIME_ENTRY_BYTES == 176
  entries[1].routing_key = 0x5555555555555555; /* alone under its id: not looked at */
#elif CUDAQ_REALTIME_ENTRY_BYTES == 192
  entries[1].mailbox_idx = 3; /* no graph: these are not looked at */
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

  /* The calls without a dispatcher. */
  shutdown = 0;
  cudaq_host_dispatcher_handle_t *handle =
      cudaq_host_dispatcher_start_thread(&ring, &table, &config, &shutdown, &stats, NULL);
  EXPECT(handle != NULL);
  for (uint32_t i = 0; i < 3; ++i)
    EXPECT(ask(&ring, i % SLOTS, INCREMENT + i, "abcd", 4, i) == 0);
  cudaq_host_dispatcher_stop(handle);
  EXPECT(shutdown == 1);
  EXPECT_OK(cudaq_host_ringbuffer_write_rpc_request(&ring, 0, INCREMENT + 2, "abcd", 4, 1, 0));
  cudaq_host_ringbuffer_signal_slot(&ring, 0);
  cudaq_host_ring_dispatch_loop(&ring, &table, &config, NULL, &shutdown, &stats);
  EXPECT(await_response(&ring, 0, NULL) == CUDAQ_TX_READY && response_of(&ring, 0).status == 0);
  cudaq_host_ringbuffer_clear_slot(&ring, 0);
  transport_t transport = {&ring, 0, 0};
  cudaq_cpu_dataplane_t plane;
  memset(&plane, 0, sizeof plane);
  plane.ctx = &transport;
  plane.ring = ring;
  plane.rx_poll = poll_once;
  plane.tx_publish = publish_once;
  cudaq_host_unified_loop(&plane, &table, NULL, &shutdown, &stats);
  EXPECT(transport.answered == 1);
  cudaq_status_t engine = CUDAQ_ERR_INTERNAL;
  EXPECT(cudaq_graph_launch_engine_create_v1(&ring, &table, &config, NULL, &engine) == NULL);
  EXPECT_OK(engine); /* all entries were read, and none is a graph */
  EXPECT(cudaq_graph_launch_engine_create(&ring, &table, 0, NULL, &engine) == NULL);
  EXPECT_OK(engine);
  EXPECT(cudaq_graph_launch_engine_create_v2(&ring, &table, 0, NULL, &engine) == NULL);
  EXPECT_OK(engine);
#if CUDAQ_REALTIME_ENTRY_BYTES == 192
  /* A graph's back-pressure fields would have to be kept: a table with one of them set is refused, with its name. */
  static int word;
  const char *const fields[4] = {"d_queue_idx", "d_ready_flags", "d_inflight_flag", "mailbox_idx"};
  for (uint32_t i = 0; i < 4; ++i) {
    increment_entry(&entries[0]);
    entries[0].handler.graph_exec = (cudaGraphExec_t)0x1000;
    entries[0].dispatch_mode = CUDAQ_DISPATCH_GRAPH_LAUNCH;
    entries[0].d_queue_idx = i == 0 ? &word : NULL;
    entries[0].d_ready_flags = i == 1 ? &word : NULL;
    entries[0].d_inflight_flag = i == 2 ? &word : NULL;
    entries[0].mailbox_idx = i == 3;
    EXPECT(cudaq_graph_launch_engine_create_v1(&ring, &table, &config, NULL, &engine) == NULL);
    EXPECT(engine == CUDAQ_ERR_UNSUPPORTED && strstr(ringcall_last_error(), fields[i]) != NULL);
  }
#endif
  EXPECT_OK(cudaq_dispatch_manager_destroy(manager));
  free_ring(&ring);
  puts("ok");
  return 0;
}

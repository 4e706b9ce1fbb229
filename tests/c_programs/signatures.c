/* The functions that have two signatures, by their plain names: today's, or the specification's with
 * CUDAQ_REALTIME_API_VERSION=1. */
#include "cudaq/realtime/daemon/dispatcher/graph_launch_engine.h"
#include "program.h"

int main(void) {
  cudaq_ringbuffer_t ring = make_ring(2, 64);
  cudaq_function_entry_t entry;
  increment_entry(&entry);
  cudaq_function_table_t table = {&entry, 1};
  cudaq_status_t status = CUDAQ_ERR_INTERNAL;
  cudaq_dispatch_graph_context *context;
#if defined(CUDAQ_REALTIME_API_VERSION) && CUDAQ_REALTIME_API_VERSION == 1
  cudaq_dispatcher_config_t config = host_config(2, 64);
  EXPECT(cudaq_graph_launch_engine_create(&ring, &table, &config, NULL, &status) == NULL);
  EXPECT(cudaq_graph_launch_engine_acquire(NULL, 1, NULL, INCREMENT, 0) == -1);
  EXPECT(cudaq_create_dispatch_graph_regular(NULL, NULL, NULL, NULL, 0, 0, NULL, 0, NULL, NULL, NULL, 0, 1, 32, NULL,
                                             &context) != 0);
#else
  EXPECT(cudaq_graph_launch_engine_create(&ring, &table, 0, NULL, &status) == NULL);
  EXPECT(cudaq_graph_launch_engine_acquire(NULL, INCREMENT, 0) == -1);
  EXPECT(cudaq_create_dispatch_graph_regular(NULL, NULL, NULL, NULL, 0, 0, NULL, 0, NULL, NULL, NULL, 0, 1, 32, NULL,
                                             NULL, &context) != 0);
#endif
  EXPECT_OK(status); /* no graphs in the table: no engine is needed */
  free_ring(&ring);
  puts("ok");
  return 0;
}

/* Every way to get an argument wrong: a status, never a crash. */
#include "cudaq/realtime/daemon/bridge/cpu_dataplane.h"
#include "cudaq/realtime/daemon/dispatcher/graph_launch_engine.h"
#include "program.h"
#include <dlfcn.h>

enum { SLOTS = 4, SLOT = 64 };

static cudaq_dispatch_manager_t *manager;
static void *const NONSENSE = (void *)0x1234567;

static cudaq_status_t create(cudaq_dispatcher_config_t config) {
  cudaq_dispatcher_t *dispatcher = NULL;
  cudaq_status_t status = cudaq_dispatcher_create(manager, &config, &dispatcher);
  EXPECT((status == CUDAQ_OK) == (dispatcher != NULL));
  if (dispatcher)
    EXPECT_OK(cudaq_dispatcher_destroy(dispatcher));
  else
    EXPECT(ringcall_last_error()[0] != 0);
  return status;
}

#define CONFIG_WITH(field, value)                                                                            \
  do {                                                                                                       \
    cudaq_dispatcher_config_t config = host_config(SLOTS, SLOT);                                             \
    config.field = value;                                                                                    \
    EXPECT_INVALID(create(config));                                                                          \
  } while (0)
#define RING_WITH(field, value)                                                                              \
  do {                                                                                                       \
    cudaq_ringbuffer_t wrong = ring;                                                                         \
    wrong.field = value;                                                                                     \
    EXPECT_INVALID(cudaq_dispatcher_set_ringbuffer(dispatcher, &wrong));                                     \
  } while (0)

static void a_launch(volatile uint64_t *a, volatile uint64_t *b, uint8_t *c, uint8_t *d, size_t e, size_t f,
                     cudaq_function_entry_t *g, size_t h, volatile int *i, uint64_t *j, size_t k, uint32_t l,
                     uint32_t m, cudaStream_t n) {
  (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h, (void)i, (void)j, (void)k, (void)l;
  (void)m, (void)n;
}
static void a_unified(void *a, cudaq_function_entry_t *b, size_t c, volatile int *d, uint64_t *e, cudaStream_t f) {
  (void)a, (void)b, (void)c, (void)d, (void)e, (void)f;
}

static cudaq_status_t start_with(cudaq_dispatcher_t *dispatcher, cudaq_function_entry_t *entries, uint32_t count) {
  cudaq_function_table_t table = {entries, count};
  EXPECT_OK(cudaq_dispatcher_set_function_table(dispatcher, &table));
  return cudaq_dispatcher_start(dispatcher);
}

/* What the device archive calls for a dispatch graph. */
cudaError_t ringcall_linked_graph_create(int device, void *function, volatile uint64_t *rx_flags,
                                         volatile uint64_t *tx_flags, uint8_t *rx_data, uint8_t *tx_data,
                                         size_t rx_stride_sz, size_t tx_stride_sz,
                                         cudaq_function_entry_t *function_table, size_t func_count, void *graph_io_ctx,
                                         volatile int *shutdown_flag, uint64_t *stats, size_t num_slots,
                                         uint32_t num_blocks, uint32_t threads_per_block, cudaGraphExec_t trigger_graph,
                                         cudaStream_t stream, cudaq_dispatch_graph_context **out_context);

static cudaError_t a_graph(uint64_t *flags, uint8_t *data, void *graph_io_ctx, cudaq_dispatch_graph_context **out) {
  cudaq_function_entry_t entry;
  memset(&entry, 0, sizeof entry);
  int shutdown = 0;
  uint64_t stats = 0;
  return ringcall_linked_graph_create(0, NULL, flags, flags ? flags + SLOTS : NULL, data, data, SLOT, SLOT, &entry, 1, graph_io_ctx, &shutdown,
                                      &stats, SLOTS, 1, 32, NULL, NULL, out);
}

static void dispatch_graphs(void) {
  static uint64_t flags[2 * SLOTS], data[SLOTS * SLOT / 8], io[5];
  cudaq_dispatch_graph_context *context = NULL;
  EXPECT(a_graph(flags, (uint8_t *)data, io, NULL) == 1);
  EXPECT(a_graph(NULL, (uint8_t *)data, io, &context) == 1);
  EXPECT(a_graph(flags, (uint8_t *)data, (uint8_t *)io + 4, &context) == 1);
  EXPECT(strstr(ringcall_last_error(), "graph_io_ctx") != NULL);
  /* No kernel; without CUDA that is found first. */
  EXPECT(a_graph(flags, (uint8_t *)data, io, &context) != 0 && context == NULL);
  EXPECT(cudaq_launch_dispatch_graph(context, NULL) != 0);
  EXPECT(cudaq_destroy_dispatch_graph(context) != 0);
}

/* As callers that may meet a library without it look it up. */
static void trigger_figures(void) {
  cudaError_t (*get)(int *, unsigned long long *, unsigned long long *) = NULL;
  void *symbol = dlsym(RTLD_DEFAULT, "cudaq_dispatch_get_trigger_debug");
  EXPECT(symbol != NULL);
  memcpy(&get, &symbol, sizeof get);
  int rc = 7;
  unsigned long long fires = 8, tails = 9;
  cudaError_t error = get(&rc, &fires, &tails);
  if (getenv("RINGCALL_TEST_NO_CUDA")) {
    EXPECT(error == 100 && strstr(ringcall_last_error(), "CUDA") != NULL);
    EXPECT(rc == 7 && fires == 8 && tails == 9);
  } else {
    EXPECT(error == 0 && rc == RINGCALL_TRIGGER_NEVER_FIRED && fires == 0 && tails == 0);
  }
  EXPECT(cudaq_dispatch_get_trigger_debug(NULL, NULL, NULL) == error);
}

int main(void) {
  cudaq_ringbuffer_t ring = make_ring(SLOTS, SLOT);
  cudaq_dispatcher_t *dispatcher = NULL;
  cudaq_dispatcher_config_t config = host_config(SLOTS, SLOT);
  volatile int shutdown = 0;
  uint64_t stats = 0, packets = 0;

  /* Managers. */
  EXPECT_INVALID(cudaq_dispatch_manager_create(NULL));
  EXPECT_INVALID(cudaq_dispatch_manager_destroy(NULL));
  EXPECT_INVALID(cudaq_dispatch_manager_destroy((cudaq_dispatch_manager_t *)NONSENSE));
  EXPECT_OK(cudaq_dispatch_manager_create(&manager));

  /* Configurations. */
  EXPECT_INVALID(cudaq_dispatcher_create(NULL, &config, &dispatcher));
  EXPECT_INVALID(cudaq_dispatcher_create((cudaq_dispatch_manager_t *)NONSENSE, &config, &dispatcher));
  EXPECT_INVALID(cudaq_dispatcher_create(manager, NULL, &dispatcher));
  EXPECT_INVALID(cudaq_dispatcher_create(manager, &config, NULL));
  EXPECT(dispatcher == NULL);
  CONFIG_WITH(device_id, -1);
  CONFIG_WITH(threads_per_block, 1025);
  CONFIG_WITH(num_slots, 0);
  CONFIG_WITH(num_slots, 0xFFFFFFFF);
  CONFIG_WITH(slot_size, 0);
  CONFIG_WITH(slot_size, 16);
  CONFIG_WITH(slot_size, 23);
  CONFIG_WITH(slot_size, 100);
  CONFIG_WITH(slot_size, 0xFFFFFFF8);
  CONFIG_WITH(kernel_type, (cudaq_kernel_type_t)3);
  CONFIG_WITH(kernel_type, (cudaq_kernel_type_t)-1);
  CONFIG_WITH(dispatch_mode, (cudaq_dispatch_mode_t)3);
  CONFIG_WITH(dispatch_path, (cudaq_dispatch_path_t)2);
  /* HOST_CALL is not for the device; the unified kernel launches no graphs. */
  CONFIG_WITH(dispatch_path, CUDAQ_DISPATCH_PATH_DEVICE);
  config.dispatch_path = CUDAQ_DISPATCH_PATH_DEVICE;
  config.kernel_type = CUDAQ_KERNEL_UNIFIED;
  config.dispatch_mode = CUDAQ_DISPATCH_GRAPH_LAUNCH;
  EXPECT_INVALID(create(config));
  /* Unified: slots and slot size may be zero. */
  config.dispatch_mode = CUDAQ_DISPATCH_DEVICE_CALL;
  config.num_slots = config.slot_size = 0;
  EXPECT_OK(create(config));

  /* Handles that are none. */
  cudaq_dispatcher_t *const bad[] = {NULL, (cudaq_dispatcher_t *)NONSENSE, (cudaq_dispatcher_t *)manager};
  cudaq_function_entry_t entries[3];
  cudaq_function_table_t table = {entries, 1};
  memset(entries, 0, sizeof entries);
  for (int i = 0; i < 3; ++i) {
    EXPECT_INVALID(cudaq_dispatcher_destroy(bad[i]));
    EXPECT_INVALID(cudaq_dispatcher_set_ringbuffer(bad[i], &ring));
    EXPECT_INVALID(cudaq_dispatcher_set_function_table(bad[i], &table));
    EXPECT_INVALID(cudaq_dispatcher_set_control(bad[i], &shutdown, &stats));
    EXPECT_INVALID(cudaq_dispatcher_set_launch_fn(bad[i], a_launch));
    EXPECT_INVALID(ringcall_dispatcher_set_answer_last(bad[i], 1));
    EXPECT_INVALID(cudaq_dispatcher_set_unified_launch(bad[i], a_unified, &ring));
    EXPECT_INVALID(cudaq_dispatcher_set_mailbox(bad[i], (void **)&ring));
    EXPECT_INVALID(cudaq_dispatcher_set_cpu_dataplane(bad[i], &ring));
    EXPECT_INVALID(cudaq_dispatcher_start(bad[i]));
    EXPECT_INVALID(cudaq_dispatcher_stop(bad[i]));
    EXPECT_INVALID(cudaq_dispatcher_get_processed(bad[i], &packets));
    EXPECT_INVALID(cudaq_host_release_worker(bad[i], 0));
    EXPECT_INVALID(ringcall_dispatcher_set_entry_bytes(bad[i], 176));
  }

  /* Rings. */
  config = host_config(SLOTS, SLOT);
  EXPECT_OK(cudaq_dispatcher_create(manager, &config, &dispatcher));
  EXPECT_INVALID(cudaq_dispatcher_set_ringbuffer(dispatcher, NULL));
  RING_WITH(rx_flags_host, NULL);
  RING_WITH(tx_flags_host, NULL);
  RING_WITH(rx_data_host, NULL);
  RING_WITH(tx_data_host, NULL);
  RING_WITH(rx_flags_host, (volatile uint64_t *)((uintptr_t)ring.rx_flags_host + 4));
  RING_WITH(rx_data_host, ring.rx_data_host + 1);
  RING_WITH(rx_stride_sz, 0);
  RING_WITH(rx_stride_sz, 16);
  RING_WITH(rx_stride_sz, SLOT - 8); /* shorter than the slots */
  RING_WITH(tx_stride_sz, SLOT + 4);
  RING_WITH(tx_stride_sz, (size_t)-8);
  RING_WITH(rx_flags_host, ring.tx_flags_host);
  RING_WITH(tx_flags_host, (volatile uint64_t *)ring.rx_data_host);
  RING_WITH(tx_data_host, ring.rx_data_host + SLOT);
  RING_WITH(rx_data_host, (uint8_t *)(uintptr_t)-64);

  /* Tables and control. */
  EXPECT_INVALID(cudaq_dispatcher_set_function_table(dispatcher, NULL));
  table.count = 0;
  EXPECT_INVALID(cudaq_dispatcher_set_function_table(dispatcher, &table));
  table.count = 0xFFFFFFFF;
  EXPECT_INVALID(cudaq_dispatcher_set_function_table(dispatcher, &table));
  table.count = 1;
  table.entries = NULL;
  EXPECT_INVALID(cudaq_dispatcher_set_function_table(dispatcher, &table));
  table.entries = (cudaq_function_entry_t *)((uintptr_t)entries + 1);
  EXPECT_INVALID(cudaq_dispatcher_set_function_table(dispatcher, &table));
  EXPECT_INVALID(cudaq_dispatcher_set_control(dispatcher, NULL, &stats));
  EXPECT_INVALID(cudaq_dispatcher_set_control(dispatcher, &shutdown, NULL));
  EXPECT_INVALID(cudaq_dispatcher_set_control(dispatcher, (volatile int *)((uintptr_t)&shutdown + 1), &stats));
  EXPECT_INVALID(cudaq_dispatcher_set_control(dispatcher, &shutdown, (uint64_t *)((uintptr_t)&stats + 4)));
  EXPECT_INVALID(cudaq_dispatcher_set_launch_fn(dispatcher, a_launch)); /* the host path has none */
  EXPECT_INVALID(cudaq_dispatcher_set_mailbox(dispatcher, NULL));
  EXPECT_INVALID(cudaq_dispatcher_set_unified_launch(dispatcher, a_unified, &ring));
  EXPECT_INVALID(cudaq_dispatcher_set_cpu_dataplane(dispatcher, NULL));
  EXPECT_INVALID(ringcall_dispatcher_set_entry_bytes(dispatcher, 170));
  EXPECT_INVALID(ringcall_dispatcher_set_stop_ms(dispatcher, 0));
  EXPECT_INVALID(ringcall_dispatcher_set_warps(dispatcher, 9));
  EXPECT_INVALID(cudaq_dispatcher_get_processed(dispatcher, NULL));

  /* Order. */
  EXPECT_INVALID(cudaq_dispatcher_start(dispatcher));
  EXPECT_OK(cudaq_dispatcher_set_control(dispatcher, &shutdown, &stats));
  EXPECT_INVALID(cudaq_dispatcher_start(dispatcher));
  increment_entry(&entries[0]);
  EXPECT_INVALID(start_with(dispatcher, entries, 1)); /* no ring yet */
  EXPECT_OK(cudaq_dispatcher_stop(dispatcher));
  EXPECT_OK(cudaq_dispatcher_set_ringbuffer(dispatcher, &ring));
  EXPECT_INVALID(cudaq_host_release_worker(dispatcher, 0));

  /* Entries. */
  entries[0].dispatch_mode = 3;
  EXPECT_INVALID(start_with(dispatcher, entries, 1));
  increment_entry(&entries[0]);
  entries[0].handler.host_fn = NULL;
  EXPECT_INVALID(start_with(dispatcher, entries, 1));
  EXPECT_OK(ringcall_dispatcher_set_check_schemas(dispatcher, 1));
  increment_entry(&entries[0]);
  entries[0].schema.num_args = 9;
  EXPECT_INVALID(start_with(dispatcher, entries, 1));
  increment_entry(&entries[0]);
  entries[0].schema.num_args = 1;
  entries[0].schema.args[0].type_id = 0x77;
  EXPECT_INVALID(start_with(dispatcher, entries, 1));
  entries[0].schema.args[0].type_id = CUDAQ_TYPE_ARRAY_UINT8;
  entries[0].schema.args[0].size_bytes = entries[0].schema.args[0].num_elements = SLOT; /* header and all */
  EXPECT_INVALID(start_with(dispatcher, entries, 1));
  increment_entry(&entries[0]);
  increment_entry(&entries[1]); /* twice the same id */
  EXPECT_INVALID(start_with(dispatcher, entries, 2));

  /* 64 graphs need CUDA; 65 are too many, with or without. */
  cudaq_function_entry_t *many = (cudaq_function_entry_t *)calloc(65, sizeof *many);
  for (uint32_t i = 0; i < 65; ++i) {
    many[i].handler.graph_exec = (cudaGraphExec_t)NONSENSE;
    many[i].function_id = i;
    many[i].dispatch_mode = CUDAQ_DISPATCH_GRAPH_LAUNCH;
  }
  EXPECT_INVALID(start_with(dispatcher, many, 65));
  cudaq_function_table_t graphs = {many, 65};
  cudaq_status_t status = CUDAQ_OK;
  EXPECT(cudaq_graph_launch_engine_create_v1(&ring, &graphs, &config, NULL, &status) == NULL);
  EXPECT_INVALID(status);
  if (getenv("RINGCALL_TEST_NO_CUDA")) {
    EXPECT(start_with(dispatcher, many, 64) == CUDAQ_ERR_CUDA);
    graphs.count = 64;
    EXPECT(cudaq_graph_launch_engine_create_v1(&ring, &graphs, &config, NULL, &status) == NULL);
    EXPECT(status == CUDAQ_ERR_CUDA);
    EXPECT(cudaq_graph_launch_engine_create(&ring, &graphs, 0, NULL, &status) == NULL);
    EXPECT(status == CUDAQ_ERR_CUDA);
  }
  free(many);
  EXPECT_OK(start_with(dispatcher, entries, 1));
  EXPECT_OK(cudaq_dispatcher_destroy(dispatcher));
  EXPECT_INVALID(cudaq_dispatcher_start(dispatcher));
  shutdown = 0;

  /* Engines. */
  table.entries = entries;
  status = CUDAQ_ERR_INTERNAL;
  EXPECT(cudaq_graph_launch_engine_create_v1(&ring, &table, &config, NULL, &status) == NULL);
  EXPECT_OK(status); /* no graph: no engine */
  EXPECT(cudaq_graph_launch_engine_create_v1(NULL, &table, &config, NULL, &status) == NULL);
  EXPECT_INVALID(status);
  EXPECT(cudaq_graph_launch_engine_create_v1(&ring, &table, NULL, NULL, NULL) == NULL);
  cudaq_graph_launch_engine_t forged;
  memset(&forged, 0xFF, sizeof forged);
  EXPECT(cudaq_graph_launch_engine_acquire_v1(&forged, 1, NULL, 1, 0) == -1);
  EXPECT(cudaq_graph_launch_engine_acquire(&forged, 1, 0) == -1);
  EXPECT(cudaq_graph_launch_engine_acquire_v2(NULL, 1, 0) == -1);
  cudaq_graph_launch_engine_launch(&forged, 0, NULL, 0);
  cudaq_graph_launch_engine_sweep(&forged);
  cudaq_graph_launch_engine_drain(NULL);
  cudaq_graph_launch_engine_publish_ready(&forged, NULL, NULL);
  EXPECT_INVALID(cudaq_graph_launch_engine_release_worker(&forged, 0));
  cudaq_graph_launch_engine_destroy(&forged);
  cudaq_graph_launch_engine_destroy(NULL);

  EXPECT(ringcall_graph_launch_engine_create(&ring, &table, 170, &config, NULL, &status) == NULL);
  EXPECT_INVALID(status);

  /* Loops. */
  EXPECT(ringcall_host_dispatcher_start_thread(&ring, &table, 0, &config, &shutdown, &stats, NULL) == NULL);
  ringcall_host_ring_dispatch_loop(&ring, &table, 8, &config, NULL, &shutdown, &stats);
  ringcall_host_unified_loop(NULL, &table, 176, NULL, &shutdown, &stats);
  cudaq_host_ring_dispatch_loop(NULL, &table, &config, NULL, &shutdown, &stats);
  cudaq_host_ring_dispatch_loop(&ring, &table, &config, NULL, NULL, &stats);
  cudaq_host_ring_dispatch_loop(&ring, &table, &config, &forged, &shutdown, &stats);
  cudaq_host_unified_loop(NULL, &table, NULL, &shutdown, &stats);
  cudaq_cpu_dataplane_t plane;
  memset(&plane, 0, sizeof plane);
  cudaq_host_unified_loop(&plane, &table, NULL, &shutdown, &stats);
  EXPECT(cudaq_host_dispatcher_start_thread(&ring, NULL, &config, &shutdown, &stats, NULL) == NULL);
  cudaq_host_dispatcher_stop((cudaq_host_dispatcher_handle_t *)NONSENSE);
  cudaq_host_dispatcher_stop(NULL);
  EXPECT_INVALID(cudaq_host_dispatcher_release_worker(NULL, 0));

  /* The device path. */
  memset(&config, 0, sizeof config);
  config.num_slots = SLOTS;
  config.slot_size = SLOT;
  EXPECT_OK(cudaq_dispatcher_create(manager, &config, &dispatcher));
  EXPECT_INVALID(cudaq_dispatcher_set_launch_fn(dispatcher, NULL));
  EXPECT_INVALID(ringcall_dispatcher_set_answer_last(dispatcher, 1)); /* no graph is launched by the host here */
  EXPECT_OK(cudaq_dispatcher_set_ringbuffer(dispatcher, &ring));
  EXPECT_OK(cudaq_dispatcher_set_function_table(dispatcher, &table));
  EXPECT_OK(cudaq_dispatcher_set_control(dispatcher, &shutdown, &stats));
  EXPECT_INVALID(cudaq_dispatcher_start(dispatcher)); /* no launch function */
  EXPECT_OK(cudaq_dispatcher_set_launch_fn(dispatcher, &cudaq_launch_dispatch_kernel_regular));
  if (getenv("RINGCALL_TEST_NO_CUDA")) {
    EXPECT(cudaq_dispatcher_start(dispatcher) == CUDAQ_ERR_CUDA);
    EXPECT(strstr(ringcall_last_error(), "CUDA") != NULL);
  }
  EXPECT_OK(cudaq_dispatcher_destroy(dispatcher));
  int blocks = 7;
  EXPECT(cudaq_dispatch_kernel_query_occupancy(NULL, 32) != 0);
  EXPECT(cudaq_dispatch_kernel_query_occupancy(&blocks, 0) != 0 && blocks == 0);
  EXPECT(cudaq_dispatch_kernel_cooperative_query_occupancy(&blocks, 4096) != 0);
  blocks = 7;
  EXPECT(ringcall_dispatch_graph_query_occupancy(&blocks, 64) != 0 && blocks == 0);
  EXPECT(cudaq_launch_dispatch_graph(NULL, NULL) != 0);
  EXPECT(cudaq_destroy_dispatch_graph((cudaq_dispatch_graph_context *)NONSENSE) != 0);
  /* Seventeen arguments, as objects compiled against the reference's headers pass them: the last one is looked at. */
  cudaq_dispatch_graph_context *made;
  EXPECT(cudaq_create_dispatch_graph_regular(NULL, NULL, NULL, NULL, 0, 0, NULL, 0, NULL, NULL, NULL, 0, 0, 0, NULL,
                                             NULL, NULL) == 1);
  EXPECT(cudaq_create_dispatch_graph_regular(NULL, NULL, NULL, NULL, 0, 0, NULL, 0, NULL, NULL, NULL, 0, 0, 0, NULL,
                                             NULL, &made) != 1);
  EXPECT(cudaq_create_dispatch_graph_regular_v1(NULL, NULL, NULL, NULL, 0, 0, NULL, 0, NULL, NULL, NULL, 0, 0, 0, NULL,
                                                NULL) == 1);
  dispatch_graphs();
  trigger_figures();

  /* Ring helpers. */
  uint8_t payload[SLOT];
  memset(payload, 1, sizeof payload);
  EXPECT_INVALID(cudaq_host_ringbuffer_write_rpc_request(NULL, 0, 1, payload, 8, 1, 1));
  EXPECT_INVALID(cudaq_host_ringbuffer_write_rpc_request(&ring, 0, 1, NULL, 8, 1, 1));
  EXPECT_INVALID(cudaq_host_ringbuffer_write_rpc_request(&ring, 0, 1, payload, SLOT - 23, 1, 1));
  EXPECT_INVALID(cudaq_host_ringbuffer_write_rpc_request(&ring, 0, 1, payload, 0xFFFFFFFF, 1, 1));
  EXPECT_OK(cudaq_host_ringbuffer_write_rpc_request(&ring, 0, 1, payload, SLOT - 24, 1, 1));
  EXPECT_OK(cudaq_host_ringbuffer_write_rpc_request(&ring, SLOTS - 1, 1, NULL, 0, 1, 1));
  cudaq_ringbuffer_t wrong = ring;
  wrong.rx_stride_sz = 20;
  EXPECT_INVALID(cudaq_host_ringbuffer_write_rpc_request(&wrong, 0, 1, payload, 0, 1, 1));
  memset(&wrong, 0, sizeof wrong);
  EXPECT_INVALID(cudaq_host_ringbuffer_write_rpc_request(&wrong, 0, 1, payload, 0, 1, 1));
  cudaq_host_ringbuffer_signal_slot(&wrong, 0);
  cudaq_host_ringbuffer_signal_slot(NULL, 0);
  cudaq_host_ringbuffer_clear_slot(&wrong, 0);
  cudaq_host_ringbuffer_clear_slot(NULL, 0);
  EXPECT(cudaq_host_ringbuffer_poll_tx_flag(NULL, 0, NULL) == CUDAQ_TX_EMPTY);
  EXPECT(cudaq_host_ringbuffer_poll_tx_flag(&wrong, 0, NULL) == CUDAQ_TX_EMPTY);
  EXPECT(cudaq_host_ringbuffer_slot_available(&wrong, 0) == 0);
  EXPECT(cudaq_host_ringbuffer_slot_available(NULL, 0) == 0);

  EXPECT_OK(cudaq_dispatch_manager_destroy(manager));
  free_ring(&ring);
  puts("ok");
  return 0;
}

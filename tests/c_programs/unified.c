/* A transport that the dispatcher drives: through a dispatcher, and through the loop on a thread of the program's. */
#include "cudaq/realtime/daemon/bridge/cpu_dataplane.h"
#include "cudaq/realtime/daemon/dispatcher/graph_launch_engine.h"
#include "program.h"
#include <pthread.h>

enum { SLOTS = 4, SLOT = 64, REQUESTS = 500 };

/* Requests are made in rx_poll and checked in tx_publish: both on the dispatcher's thread. */
typedef struct {
  cudaq_ringbuffer_t ring;
  uint32_t asked, nonsense;
  uint32_t named, refuse_every; /* nonsense slots; which publish fails, if not 0 */
  uint32_t refused;
  uint32_t answered; /* atomic: the main thread waits for it */
  int busy[SLOTS];
} transport_t;

static cudaq_rx_status_t poll_one(void *ctx, uint32_t *out_slot) {
  transport_t *transport = (transport_t *)ctx;
  uint32_t slot = transport->asked % SLOTS;
  if (++transport->nonsense % 5 == 0) {
    ++transport->named;
    *out_slot = transport->nonsense % 2 ? 0xFFFFFFFF : 1u << 20; /* no such slot */
    return CUDAQ_RX_READY;
  }
  if (transport->asked == REQUESTS || transport->busy[slot])
    return CUDAQ_RX_EMPTY;
  uint32_t payload = transport->asked;
  EXPECT_OK(cudaq_host_ringbuffer_write_rpc_request(&transport->ring, slot,
                                                    transport->asked % 10 == 9 ? 0xbad : INCREMENT, &payload,
                                                    sizeof payload, transport->asked, 0));
  transport->busy[slot] = 1;
  ++transport->asked;
  *out_slot = slot;
  return CUDAQ_RX_READY;
}

static cudaq_status_t publish_one(void *ctx, uint32_t slot) {
  transport_t *transport = (transport_t *)ctx;
  EXPECT(slot < SLOTS && transport->busy[slot]);
  RPCResponse response = response_of(&transport->ring, slot);
  EXPECT(response.magic == RPC_MAGIC_RESPONSE && response.request_id < REQUESTS);
  int bad = response.request_id % 10 == 9;
  EXPECT(response.status == (bad ? RINGCALL_STATUS_UNKNOWN_FUNCTION : 0));
  EXPECT(response.result_len == (bad ? 0 : 4));
  if (!bad)
    EXPECT(transport->ring.tx_data_host[slot * SLOT + 24] == (uint8_t)((response.request_id & 0xFF) + 1));
  transport->busy[slot] = 0;
  uint32_t answered = __atomic_add_fetch(&transport->answered, 1, __ATOMIC_RELEASE);
  if (transport->refuse_every && answered % transport->refuse_every == 0) {
    ++transport->refused;
    return CUDAQ_ERR_INTERNAL;
  }
  return CUDAQ_OK;
}

/* What was there before the end is told: all of it is answered, by the loop's last turns. */
static cudaq_rx_status_t poll_burst(void *ctx, uint32_t *out_slot) {
  transport_t *transport = (transport_t *)ctx;
  return transport->asked == SLOTS ? CUDAQ_RX_EMPTY : (transport->nonsense = 0, poll_one(ctx, out_slot));
}

static void await_all(transport_t *transport) {
  for (time_t end = time(NULL) + 20; __atomic_load_n(&transport->answered, __ATOMIC_ACQUIRE) < REQUESTS;)
    EXPECT(time(NULL) < end);
}

typedef struct {
  cudaq_cpu_dataplane_t plane;
  cudaq_function_table_t table;
  volatile int shutdown;
  uint64_t stats;
} loop_t;

static void *run_loop(void *argument) {
  loop_t *loop = (loop_t *)argument;
  cudaq_host_unified_loop(&loop->plane, &loop->table, NULL, &loop->shutdown, &loop->stats);
  return NULL;
}

int main(void) {
  cudaq_function_entry_t entry;
  increment_entry(&entry);
  transport_t transport;
  memset(&transport, 0, sizeof transport);
  transport.ring = make_ring(SLOTS, SLOT);
  loop_t loop;
  memset(&loop, 0, sizeof loop);
  loop.plane.ctx = &transport;
  loop.plane.ring = transport.ring;
  loop.plane.rx_poll = poll_one;
  loop.plane.tx_publish = publish_one;
  loop.table.entries = &entry;
  loop.table.count = 1;

  cudaq_dispatch_manager_t *manager;
  cudaq_dispatcher_t *dispatcher;
  cudaq_dispatcher_config_t config = host_config(SLOTS, SLOT);
  config.kernel_type = CUDAQ_KERNEL_UNIFIED;
  EXPECT_OK(cudaq_dispatch_manager_create(&manager));
  EXPECT_OK(cudaq_dispatcher_create(manager, &config, &dispatcher));
  EXPECT_OK(cudaq_dispatcher_set_function_table(dispatcher, &loop.table));
  EXPECT_OK(cudaq_dispatcher_set_control(dispatcher, &loop.shutdown, &loop.stats));
  EXPECT_INVALID(cudaq_dispatcher_start(dispatcher));
  EXPECT_OK(cudaq_dispatcher_set_cpu_dataplane(dispatcher, &loop.plane));
  uint64_t refused = 7, failed = 7;
  EXPECT_INVALID(ringcall_dispatcher_get_transport_errors(dispatcher, &refused, &failed));
  transport.refuse_every = 50;
  loop.stats = ~0ull; /* whatever is there: counted from the start */
  EXPECT_OK(cudaq_dispatcher_start(dispatcher));
  await_all(&transport);
  EXPECT_OK(cudaq_dispatcher_stop(dispatcher));
  EXPECT(loop.stats == REQUESTS / 10 * 9);
  EXPECT_INVALID(ringcall_dispatcher_get_transport_errors(dispatcher, NULL, &failed));
  EXPECT_OK(ringcall_dispatcher_get_transport_errors(dispatcher, &refused, &failed));
  EXPECT(transport.named > 0 && refused == transport.named);
  EXPECT(transport.refused == REQUESTS / 50 && failed == transport.refused);
  EXPECT_OK(cudaq_dispatcher_destroy(dispatcher));
  EXPECT_OK(cudaq_dispatch_manager_destroy(manager));

  /* The loop alone. It knows no slot count, so no slot below 4096 is nonsense: none is named. */
  transport.asked = transport.answered = 0;
  loop.shutdown = 0;
  loop.stats = 5;
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, run_loop, &loop) == 0);
  await_all(&transport);
  __atomic_store_n((int *)&loop.shutdown, 1, __ATOMIC_RELEASE);
  EXPECT(pthread_join(thread, NULL) == 0);
  EXPECT(loop.stats == 5 + REQUESTS / 10 * 9);

  /* Told to end before its first turn: what the transport has is taken all the same. */
  transport.asked = transport.answered = transport.refuse_every = 0;
  loop.plane.rx_poll = poll_burst;
  loop.stats = 0;
  cudaq_host_unified_loop(&loop.plane, &loop.table, NULL, &loop.shutdown, &loop.stats);
  EXPECT(transport.asked == SLOTS && transport.answered == SLOTS && loop.stats == SLOTS);
  /* What is lost is said. */
  transport.asked = transport.answered = 0;
  transport.refuse_every = 2;
  cudaq_host_unified_loop(&loop.plane, &loop.table, NULL, &loop.shutdown, &loop.stats);
  EXPECT(strstr(ringcall_last_error(), "failed to send 2 answers") != NULL);

  /* The ring's loop likewise. */
  cudaq_ringbuffer_t ring = make_ring(SLOTS, SLOT);
  cudaq_dispatcher_config_t ring_config = host_config(SLOTS, SLOT);
  loop.shutdown = 0;
  cudaq_host_dispatcher_handle_t *handle =
      cudaq_host_dispatcher_start_thread(&ring, &loop.table, &ring_config, &loop.shutdown, &loop.stats, NULL);
  EXPECT(handle != NULL);
  EXPECT_INVALID(cudaq_host_dispatcher_release_worker(handle, 0));
  EXPECT(ask(&ring, 2, INCREMENT, "abc", 3, 11) == 0);
  EXPECT(memcmp(ring.tx_data_host + 2 * SLOT + 24, "bcd", 3) == 0);
  cudaq_host_dispatcher_stop(handle);
  cudaq_host_dispatcher_stop(handle);
  EXPECT(loop.shutdown == 1);
  free_ring(&ring);
  free_ring(&transport.ring);
  puts("ok");
  return 0;
}

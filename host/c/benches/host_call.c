/* host-call/32 through the C interface: latency of one request under way, and throughput with every slot in use.
 *   host_call [SECONDS [SERVER_CORE CLIENT_CORE]]
 * Pinned like `ringcall bench host-call/32`, with which it is compared: to the first two cores that it may use. */
#define _GNU_SOURCE
#include "cudaq/realtime/daemon/dispatcher/cudaq_realtime.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SLOTS = 64, SLOT = 64, PAYLOAD = 32, MOST = 1 << 22 };

static void increment(const void *rx_slot, void *tx_slot, size_t slot_size) {
  const RPCHeader *request = rx_slot;
  RPCResponse *response = tx_slot;
  const uint8_t *in = (const uint8_t *)rx_slot + sizeof *request;
  uint8_t *out = (uint8_t *)tx_slot + sizeof *response;
  (void)slot_size;
  for (uint32_t i = 0; i < request->arg_len; ++i)
    out[i] = (uint8_t)(in[i] + 1);
  response->magic = RPC_MAGIC_RESPONSE;
  response->status = 0;
  response->result_len = request->arg_len;
}

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static int compare(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

/* The first core after `after` that this process may use; -1 for none. */
static int next_core(const cpu_set_t *allowed, int after) {
  for (int core = after + 1; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, allowed))
      return core;
  return -1;
}

/* Threads that start from here on inherit it. */
static void pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (core >= 0)
    CPU_SET(core, &set);
  if (core < 0 || sched_setaffinity(0, sizeof set, &set) != 0) {
    fprintf(stderr, "cannot run on core %d: this takes two cores\n", core);
    exit(2);
  }
}

static int send(const cudaq_ringbuffer_t *ring, uint32_t slot, uint32_t id) {
  static const uint8_t payload[PAYLOAD] = {1, 2, 3};
  /* A response may be there a moment before its request's flag is cleared. */
  if (!cudaq_host_ringbuffer_slot_available(ring, slot))
    return 0;
  cudaq_host_ringbuffer_write_rpc_request(ring, slot, 1, payload, sizeof payload, id, 0);
  cudaq_host_ringbuffer_signal_slot(ring, slot);
  return 1;
}

static int take(const cudaq_ringbuffer_t *ring, uint32_t slot) {
  if (cudaq_host_ringbuffer_poll_tx_flag(ring, slot, NULL) != CUDAQ_TX_READY)
    return 0;
  uint8_t result[PAYLOAD];
  memcpy(result, ring->tx_data_host + slot * SLOT + sizeof(RPCResponse), sizeof result);
  if (result[0] != 2)
    exit(3);
  cudaq_host_ringbuffer_clear_slot(ring, slot);
  return 1;
}

int main(int argc, char **argv) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);
  const int first = next_core(&allowed, -1);
  const int server = argc > 3 ? atoi(argv[2]) : first, client = argc > 3 ? atoi(argv[3]) : next_core(&allowed, first);
  const uint64_t span = (uint64_t)((argc > 1 ? atof(argv[1]) : 2.0) * 1e9);
  cudaq_ringbuffer_t ring = {0};
  ring.rx_flags_host = aligned_alloc(4096, 4096);
  ring.tx_flags_host = aligned_alloc(4096, 4096);
  ring.rx_data_host = aligned_alloc(4096, SLOTS * SLOT);
  ring.tx_data_host = aligned_alloc(4096, SLOTS * SLOT);
  memset((void *)ring.rx_flags_host, 0, 4096);
  memset((void *)ring.tx_flags_host, 0, 4096);
  memset(ring.rx_data_host, 0, SLOTS * SLOT);
  memset(ring.tx_data_host, 0, SLOTS * SLOT);
  ring.rx_stride_sz = ring.tx_stride_sz = SLOT;
  cudaq_function_entry_t entry = {0};
  entry.handler.host_fn = increment;
  entry.function_id = 1;
  entry.dispatch_mode = CUDAQ_DISPATCH_HOST_CALL;
  cudaq_function_table_t table = {&entry, 1};
  cudaq_dispatcher_config_t config = {0};
  config.num_slots = SLOTS;
  config.slot_size = SLOT;
  config.dispatch_path = CUDAQ_DISPATCH_PATH_HOST;
  volatile int shutdown = 0;
  uint64_t stats = 0;
  cudaq_dispatch_manager_t *manager;
  cudaq_dispatcher_t *dispatcher;
  pin(server);
  if (cudaq_dispatch_manager_create(&manager) || cudaq_dispatcher_create(manager, &config, &dispatcher) ||
      cudaq_dispatcher_set_ringbuffer(dispatcher, &ring) ||
      cudaq_dispatcher_set_function_table(dispatcher, &table) ||
      cudaq_dispatcher_set_control(dispatcher, &shutdown, &stats) || cudaq_dispatcher_start(dispatcher)) {
    fprintf(stderr, "%s\n", ringcall_last_error());
    return 2;
  }

  pin(client);

  uint32_t *times = malloc(MOST * sizeof *times), count = 0, id = 0;
  const uint32_t warm_up = 100000;
  uint64_t begin = now();
  for (uint64_t last = begin; last - begin < span && count < MOST; ++id) {
    const uint64_t sent = last;
    while (!send(&ring, id % SLOTS, id)) {
    }
    while (!take(&ring, id % SLOTS)) {
    }
    last = now();
    if (id >= warm_up)
      times[count++] = (uint32_t)(last - sent);
  }
  if (count == 0) {
    fprintf(stderr, "not even the warm-up of %u requests fits into the time\n", warm_up);
    return 2;
  }
  qsort(times, count, sizeof *times, compare);
  printf("host-call/32 C: p50 %u ns, p99 %u ns, %u requests, cores %d and %d\n", times[count / 2],
         times[(uint64_t)count * 99 / 100], count, server, client);

  /* Whatever is there is taken, whatever is free is filled; the order does not matter. */
  uint64_t sent = 0, done = 0;
  uint8_t busy[SLOTS] = {0};
  begin = now();
  for (int more = 1; more || done < sent;) {
    for (uint32_t slot = 0; slot < SLOTS; ++slot) {
      if (busy[slot] && take(&ring, slot)) {
        busy[slot] = 0;
        ++done;
      }
      if (more && !busy[slot] && send(&ring, slot, (uint32_t)sent)) {
        busy[slot] = 1;
        ++sent;
      }
    }
    more = more && now() - begin < span;
  }
  printf("host-call/32 C: %.2f M requests/s with %d slots\n", (double)done / (double)(now() - begin) * 1e3, SLOTS);
  return cudaq_dispatcher_stop(dispatcher) != CUDAQ_OK;
}

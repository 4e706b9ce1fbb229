/* host-call/32 through the C interface: latency of one request under way, and throughput with every slot in use.
 *   host_call [SECONDS] */
#include "cudaq/realtime/daemon/dispatcher/cudaq_realtime.h"
#include <pthread.h>
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

static void send(const cudaq_ringbuffer_t *ring, uint32_t slot, uint32_t id) {
  static const uint8_t payload[PAYLOAD] = {1, 2, 3};
  /* A response may be there a moment before its request's flag is cleared. */
  while (!cudaq_host_ringbuffer_slot_available(ring, slot)) {
  }
  cudaq_host_ringbuffer_write_rpc_request(ring, slot, 1, payload, sizeof payload, id, 0);
  cudaq_host_ringbuffer_signal_slot(ring, slot);
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
  if (cudaq_dispatch_manager_create(&manager) || cudaq_dispatcher_create(manager, &config, &dispatcher) ||
      cudaq_dispatcher_set_ringbuffer(dispatcher, &ring) ||
      cudaq_dispatcher_set_function_table(dispatcher, &table) ||
      cudaq_dispatcher_set_control(dispatcher, &shutdown, &stats) || cudaq_dispatcher_start(dispatcher)) {
    fprintf(stderr, "%s\n", ringcall_last_error());
    return 2;
  }

  uint32_t *times = malloc(MOST * sizeof *times), count = 0, id = 0;
  for (uint64_t begin = now(), last = begin; last - begin < span && count < MOST; ++id) {
    const uint64_t sent = now();
    send(&ring, id % SLOTS, id);
    while (!take(&ring, id % SLOTS)) {
    }
    last = now();
    times[count++] = (uint32_t)(last - sent);
  }
  qsort(times, count, sizeof *times, compare);
  printf("host-call/32 C: p50 %u ns, p99 %u ns, %u requests\n", times[count / 2], times[count / 100 * 99], count);

  uint64_t done = 0, begin = now();
  for (uint32_t slot = 0; slot < SLOTS; ++slot)
    send(&ring, slot, slot);
  for (uint32_t slot = 0; (done & 1023) || now() - begin < span; slot = (slot + 1) % SLOTS) {
    while (!take(&ring, slot)) {
    }
    ++done;
    send(&ring, slot, slot);
  }
  printf("host-call/32 C: %.2f M requests/s with %d slots\n", (double)done / (double)(now() - begin) * 1e3, SLOTS);
  for (uint32_t slot = 0; slot < SLOTS; ++slot)
    while (!take(&ring, slot)) {
    }
  return cudaq_dispatcher_stop(dispatcher) != CUDAQ_OK;
}

/* What the benchmarks share: cores, a client of a ring whose function adds 1 to every byte, the figures. C and C++. */
#ifndef RINGCALL_BENCH_H
#define RINGCALL_BENCH_H
#include "cudaq/realtime/daemon/dispatcher/cudaq_realtime.h"
#include "cudaq/realtime/daemon/dispatcher/dispatch_kernel_launch.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef __cplusplus
using cudaq::realtime::RPCResponse;
#endif

#ifndef BENCH_PAYLOAD
#define BENCH_PAYLOAD 32
#endif

/* SLOT: header and payload, in whole cache lines. LINE: flags of one cache line. */
enum { SLOTS = 64, PAYLOAD = BENCH_PAYLOAD, SLOT = (24 + PAYLOAD + 63) / 64 * 64, MOST = 1 << 22, FUNCTION = 1, LINE = 8 };

static inline uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static inline int compare(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

/* The first core after `after` that this process may use; -1 for none. */
static inline int next_core(const cpu_set_t *allowed, int after) {
  for (int core = after + 1; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, allowed))
      return core;
  return -1;
}

/* Threads that start from here on inherit it. */
static inline void pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (core >= 0)
    CPU_SET(core, &set);
  if (core < 0 || sched_setaffinity(0, sizeof set, &set) != 0) {
    fprintf(stderr, "cannot run on core %d: this takes two cores\n", core);
    exit(2);
  }
}

/* How long to measure, and where: [SECONDS [SERVER_CORE CLIENT_CORE]], by default 2 s on the first two cores allowed. */
typedef struct {
  uint64_t span;
  int server, client;
} Plan;

static inline Plan plan_of(int argc, char **argv) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);
  const int first = next_core(&allowed, -1);
  Plan plan;
  plan.server = argc > 3 ? atoi(argv[2]) : first;
  plan.client = argc > 3 ? atoi(argv[3]) : next_core(&allowed, first);
  plan.span = (uint64_t)((argc > 1 ? atof(argv[1]) : 2.0) * 1e9);
  return plan;
}

/* Bytes 1, 2, 3 and so on. */
static inline const uint8_t *payload(int more) {
  static uint8_t bytes[PAYLOAD + 1];
  if (bytes[0] == 0)
    for (int i = 0; i <= PAYLOAD; ++i)
      bytes[i] = (uint8_t)(i + 1);
  return bytes + more;
}

static inline int send(const cudaq_ringbuffer_t *ring, uint32_t slot, uint32_t id) {
  /* A response may be there a moment before its request's flag is cleared. */
  if (!cudaq_host_ringbuffer_slot_available(ring, slot))
    return 0;
  cudaq_host_ringbuffer_write_rpc_request(ring, slot, FUNCTION, payload(0), PAYLOAD, id, 0);
  cudaq_host_ringbuffer_signal_slot(ring, slot);
  return 1;
}

/* Takes the response to request `id`, if it is there. Ends the program if it is not the right one. */
static inline int take(const cudaq_ringbuffer_t *ring, uint32_t slot, uint32_t id) {
  const cudaq_tx_status_t status = cudaq_host_ringbuffer_poll_tx_flag(ring, slot, NULL);
  if (status != CUDAQ_TX_READY && status != CUDAQ_TX_ERROR)
    return 0;
  const uint8_t *at = ring->tx_data_host + slot * SLOT;
  RPCResponse response;
  memcpy(&response, at, sizeof response);
  if (status != CUDAQ_TX_READY || response.status != 0 || response.request_id != id ||
      response.result_len != PAYLOAD || memcmp(at + sizeof response, payload(1), PAYLOAD) != 0) {
    fprintf(stderr, "request %u is answered wrongly: flag %d, status %d\n", id, (int)status, (int)response.status);
    exit(3);
  }
  cudaq_host_ringbuffer_clear_slot(ring, slot);
  return 1;
}

/* Ends the program if nothing has moved for 5 s; `turns` counts those without. */
static inline void wait_turn(uint32_t *turns, uint64_t *since) {
  if (++*turns % (1u << 16) != 0)
    return;
  if (*turns == 1u << 16)
    *since = now();
  else if (now() - *since > 5000000000u) {
    fprintf(stderr, "no answer within 5 s\n");
    exit(4);
  }
}

/* Latency of one request under way after `warm_up` of them, and throughput with every slot in use, from the plan's client
 * core; prints a line each. */
static inline void measure(const char *name, const cudaq_ringbuffer_t *ring, Plan plan, uint32_t warm_up) {
  pin(plan.client);
  uint32_t *times = (uint32_t *)malloc(MOST * sizeof *times), count = 0, id = 0, turns;
  uint64_t since = 0, begin = now();
  if (times == NULL)
    exit(2);
  for (uint64_t last = begin; last - begin < plan.span && count < MOST; ++id) {
    const uint64_t sent = last;
    for (turns = 0; !send(ring, id % SLOTS, id);)
      wait_turn(&turns, &since);
    for (turns = 0; !take(ring, id % SLOTS, id);)
      wait_turn(&turns, &since);
    last = now();
    if (id >= warm_up)
      times[count++] = (uint32_t)(last - sent);
  }
  if (count == 0) {
    fprintf(stderr, "not even the warm-up of %u requests fits into the time\n", warm_up);
    exit(2);
  }
  qsort(times, count, sizeof *times, compare);
  printf("%s: p50 %u ns, p99 %u ns, %u requests, cores %d and %d\n", name, times[count / 2],
         times[(uint64_t)count * 99 / 100], count, plan.server, plan.client);
  free(times);

  /* Whatever is there is taken, whatever is free is filled; the order does not matter. As the client does that
   * `ringcall bench` measures: flags of a cache line together, and their responses on the way before the first is read. */
  uint64_t sent = 0, done = 0;
  uint8_t busy[SLOTS] = {0};
  uint32_t ids[SLOTS] = {0};
  begin = now();
  turns = 0;
  for (int more = 1; more || done < sent;) {
    const uint64_t before = sent + done;
    for (uint32_t slot = 0; more && slot < SLOTS; ++slot)
      if (!busy[slot] && send(ring, slot, (uint32_t)sent)) {
        busy[slot] = 1;
        ids[slot] = (uint32_t)sent++;
      }
    for (uint32_t first = 0; first < SLOTS; first += LINE) {
      uint8_t there[LINE];
      /* At once, before the dispatcher takes the line back. */
      for (uint32_t i = 0; i < LINE; ++i) {
        const uint64_t flag = ring->tx_flags_host[first + i];
        there[i] = flag != 0 && flag != CUDAQ_TX_FLAG_IN_FLIGHT;
      }
      for (uint32_t i = 0; i < LINE; ++i)
        if (there[i])
          __builtin_prefetch(ring->tx_data_host + (first + i) * SLOT);
      for (uint32_t i = 0; i < LINE; ++i)
        if (there[i] && take(ring, first + i, ids[first + i])) {
          busy[first + i] = 0;
          ++done;
        }
    }
    if (sent + done != before)
      turns = 0;
    else
      wait_turn(&turns, &since);
    more = more && now() - begin < plan.span;
  }
  printf("%s: %.2f M requests/s with %d slots\n", name, (double)done / (double)(now() - begin) * 1e3, (int)SLOTS);
}
#endif

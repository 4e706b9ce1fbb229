/* The RoCE transceiver: what is refused without a device; and with one (`roce DEVICE IP`), two of them that talk to each other over it.
 * `roce DEVICE IP SECONDS` moves requests until the device is gone, and says why nothing moves any more. */
#include "program.h"

#include "cudaq/realtime/cpu_transport/roce_wrapper.h"
#include "cudaq/realtime/daemon/bridge/bridge_interface.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { pages = 16, page = 256 };

static const char *device, *ip;
static atomic_int stop;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static cpu_roce_transceiver_t create(int forward, int unified, cpu_roce_tx_mode_t mode) {
  cpu_roce_transceiver_t made =
      cpu_roce_create_transceiver(device, 1, 0, page, page, pages, "", forward, 0, 0, unified, mode, 0, 0);
  EXPECT(made != NULL);
  EXPECT(cpu_roce_get_page_size(made) == page && cpu_roce_get_num_pages(made) == pages);
  EXPECT(cpu_roce_get_rx_ring_flag_addr(made) != NULL && cpu_roce_get_tx_ring_data_addr(made) != NULL);
  return made;
}

static void refused(void) {
  static const struct {
    int port, forward, rx_only, mode;
    unsigned pages;
    size_t page, frame;
    const char *device, *peer;
  } bad[] = {
      {2, 0, 0, 0, 8, 256, 256, "x", ""},  {1, 1, 1, 0, 8, 256, 256, "x", ""}, {1, 0, 0, 2, 8, 256, 256, "x", ""},
      {1, 0, 0, 0, 9, 256, 256, "x", ""},  {1, 0, 0, 0, 0, 256, 256, "x", ""}, {1, 0, 0, 0, 8, 20, 20, "x", ""},
      {1, 0, 0, 0, 8, 256, 257, "x", ""},  {1, 0, 0, 0, 8, 256, 0, "x", ""},   {1, 0, 0, 0, 8, 256, 256, NULL, ""},
      {1, 0, 0, 0, 8, 256, 256, "x", "y"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
    EXPECT(cpu_roce_create_transceiver(bad[i].device, bad[i].port, 0, bad[i].frame, bad[i].page, bad[i].pages,
                                      bad[i].peer, bad[i].forward, bad[i].rx_only, 0, 0,
                                      (cpu_roce_tx_mode_t)bad[i].mode, 0, 0) == NULL);
    EXPECT(*ringcall_bridge_last_error() != 0);
  }
  device = "no-such-device";
  cpu_roce_transceiver_t made = create(0, 1, CPU_ROCE_TX_MODE_RDMA_SEND);
  uint32_t slot = 0;
  cpu_roce_set_local_ip(made, "10.0.0.2");
  EXPECT(cpu_roce_get_qp_number(made) == 0 && cpu_roce_get_rkey(made) == 0 && cpu_roce_get_buffer_addr(made) == 0);
  EXPECT(cpu_roce_start(made) == 0 && strstr(ringcall_bridge_last_error(), "peer_ip") != NULL);
  EXPECT(cpu_roce_setup(made) == 0);
  EXPECT(strstr(ringcall_bridge_last_error(), "no-such-device") != NULL || strstr(ringcall_bridge_last_error(), "libibverbs") != NULL);
  EXPECT(cpu_roce_connect(made, 1, "10.0.0.2", 0) == 0);
  EXPECT(cpu_roce_rx_poll(made, &slot) == 0 && cpu_roce_rx_poll(made, NULL) == 0 && cpu_roce_tx_publish(made, 0) == 0);
  cpu_roce_blocking_monitor(made);
  cpu_roce_close(made);
  cpu_roce_destroy_transceiver(made);
  EXPECT(cpu_roce_setup(made) == 0 && cpu_roce_get_rx_ring_data_addr(made) == NULL);
}

/* Set up, connected to each other, and each moved by a thread. */
struct joined {
  cpu_roce_transceiver_t service, caller;
  pthread_t moves[2];
};

static void *moves(void *transceiver) {
  cpu_roce_blocking_monitor(transceiver);
  if (!atomic_load(&stop))
    printf("moved no more: %s\n", ringcall_bridge_last_error());
  return NULL;
}

static struct joined join(int forward, int unified) {
  struct joined joined = {.service = create(forward, unified, CPU_ROCE_TX_MODE_RDMA_SEND),
                          .caller = create(0, 0, CPU_ROCE_TX_MODE_RDMA_WRITE_WITH_IMM)};
  cpu_roce_transceiver_t both[] = {joined.service, joined.caller};
  atomic_store(&stop, 0);
  for (int i = 0; i < 2; ++i) {
    cpu_roce_set_local_ip(both[i], ip);
    if (cpu_roce_setup(both[i]) != 1) {
      fprintf(stderr, "%s\n", ringcall_bridge_last_error());
      exit(1);
    }
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT(cpu_roce_connect(both[i], cpu_roce_get_qp_number(both[1 - i]), ip, cpu_roce_get_rkey(both[1 - i])) == 1);
    EXPECT(pthread_create(&joined.moves[i], NULL, moves, both[i]) == 0);
  }
  return joined;
}

static void part(struct joined *joined) {
  atomic_store(&stop, 1);
  cpu_roce_close(joined->service);
  cpu_roce_close(joined->caller);
  for (int i = 0; i < 2; ++i)
    EXPECT(pthread_join(joined->moves[i], NULL) == 0);
  cpu_roce_destroy_transceiver(joined->service);
  cpu_roce_destroy_transceiver(joined->caller);
}

static void answer(cpu_roce_transceiver_t service, unsigned slot) {
  const uint8_t *request = (const uint8_t *)cpu_roce_get_rx_ring_data_addr(service) + slot * page;
  uint8_t *response = (uint8_t *)cpu_roce_get_tx_ring_data_addr(service) + slot * page;
  memcpy(response, request, page);
  for (int i = 0; i < page; ++i)
    response[i] ^= 0xFF;
}

static void *serves(void *service) {
  uint64_t *rx = cpu_roce_get_rx_ring_flag_addr(service), *tx = cpu_roce_get_tx_ring_flag_addr(service);
  uint8_t *responses = cpu_roce_get_tx_ring_data_addr(service);
  while (!atomic_load(&stop)) {
    for (unsigned slot = 0; slot < pages; ++slot) {
      if (__atomic_load_n(&rx[slot], __ATOMIC_ACQUIRE) == 0 || __atomic_load_n(&tx[slot], __ATOMIC_ACQUIRE) != 0)
        continue;
      answer(service, slot);
      __atomic_store_n(&tx[slot], (uint64_t)(uintptr_t)(responses + slot * page), __ATOMIC_RELEASE);
      __atomic_store_n(&rx[slot], 0, __ATOMIC_RELEASE);
    }
    sched_yield();
  }
  return NULL;
}

static void *polls(void *service) {
  uint32_t slot = 0;
  while (!atomic_load(&stop)) {
    if (cpu_roce_rx_poll(service, &slot) == 1) {
      answer(service, slot);
      EXPECT(cpu_roce_tx_publish(service, slot) == 1);
    } else {
      sched_yield();
    }
  }
  return NULL;
}

/* Eight requests at a time; `flip` is what an answer's bytes differ by. Whether all were answered, until `seconds` have passed. */
static int ask_all(cpu_roce_transceiver_t caller, unsigned count, uint8_t flip, double seconds) {
  uint64_t *rx = cpu_roce_get_rx_ring_flag_addr(caller), *tx = cpu_roce_get_tx_ring_flag_addr(caller);
  uint8_t *requests = cpu_roce_get_tx_ring_data_addr(caller), *answers = cpu_roce_get_rx_ring_data_addr(caller);
  double end = now() + seconds;
  unsigned seen = 0;
  for (unsigned begin = 0; begin < count; begin += 8) {
    for (unsigned i = 0; i < 8; ++i) {
      unsigned slot = (begin + i) % pages;
      while (__atomic_load_n(&tx[slot], __ATOMIC_ACQUIRE) != 0)
        if (now() > end)
          return 0;
      memset(requests + slot * page, (int)(begin + i), page);
      __atomic_store_n(&tx[slot], (uint64_t)(uintptr_t)(requests + slot * page), __ATOMIC_RELEASE);
    }
    /* Answers are SENDs: they come in the order of the receives, each of them once. */
    unsigned char wanted[256] = {0};
    for (unsigned i = 0; i < 8; ++i)
      wanted[(uint8_t)((begin + i) ^ flip)] += 1;
    for (unsigned i = 0; i < 8; ++i, ++seen) {
      unsigned slot = seen % pages;
      while (__atomic_load_n(&rx[slot], __ATOMIC_ACQUIRE) == 0) {
        if (now() > end)
          return 0;
        sched_yield();
      }
      uint8_t first = answers[slot * page];
      EXPECT(wanted[first] == 1);
      wanted[first] = 0;
      for (int at = 0; at < page; ++at)
        EXPECT(answers[slot * page + at] == first);
      __atomic_store_n(&rx[slot], 0, __ATOMIC_RELEASE);
    }
  }
  return 1;
}

int main(int argc, char **argv) {
  if (argc < 3) {
    refused();
    puts("ok");
    return 0;
  }
  device = argv[1];
  ip = argv[2];
  pthread_t thread;
  if (argc > 3) {
    struct joined joined = join(0, 0);
    EXPECT(pthread_create(&thread, NULL, serves, joined.service) == 0);
    EXPECT(ask_all(joined.caller, 400, 0xFF, 60) == 1);
    puts("asked");
    fflush(stdout);
    printf("asked again: %d\n", ask_all(joined.caller, 1u << 30, 0xFF, atof(argv[3])));
    part(&joined);
    pthread_join(thread, NULL);
    return 0;
  }
  struct joined joined = join(0, 0);
  EXPECT(pthread_create(&thread, NULL, serves, joined.service) == 0);
  EXPECT(ask_all(joined.caller, 2000, 0xFF, 100) == 1);
  part(&joined);
  pthread_join(thread, NULL);
  joined = join(0, 1);
  EXPECT(pthread_create(&thread, NULL, polls, joined.service) == 0);
  EXPECT(ask_all(joined.caller, 2000, 0xFF, 100) == 1);
  atomic_store(&stop, 1);
  pthread_join(thread, NULL);
  part(&joined);
  joined = join(1, 0);
  EXPECT(ask_all(joined.caller, 2000, 0, 100) == 1);
  part(&joined);
  puts("ok: 6000 requests");
  return 0;
}

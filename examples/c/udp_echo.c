/* Two ends of the UDP transport in one program: a caller's datagram, and its answer. Needs neither a dispatcher nor CUDA. */
#include "cudaq/realtime/cpu_transport/udp_wrapper.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { SLOTS = 8, SLOT_BYTES = 64 };

/* Polls a slot of an end in unified mode for two seconds at most. */
static int poll(cpu_udp_transceiver_t end, uint32_t *slot) {
  struct timespec now, begin;
  timespec_get(&begin, TIME_UTC);
  do {
    if (cpu_udp_rx_poll(end, slot))
      return 1;
    timespec_get(&now, TIME_UTC);
  } while (now.tv_sec - begin.tv_sec < 2);
  return 0;
}

static char *data(uint64_t ring, uint32_t slot) { return (char *)(uintptr_t)ring + (size_t)slot * SLOT_BYTES; }

int main(void) {
  cpu_udp_transceiver_t service = cpu_udp_create_transceiver(SLOT_BYTES, SLOTS);
  cpu_udp_transceiver_t caller = cpu_udp_create_transceiver(SLOT_BYTES, SLOTS);
  if (!cpu_udp_set_unified(service, 1) || !cpu_udp_set_unified(caller, 1) || !cpu_udp_bind(service, 0) ||
      !cpu_udp_connect(caller, "127.0.0.1", cpu_udp_get_port(service)) || !cpu_udp_start(service) ||
      !cpu_udp_start(caller)) {
    fprintf(stderr, "no UDP on this machine's loopback interface\n");
    return 1;
  }

  uint32_t slot = 0;
  strcpy(data(cpu_udp_get_tx_ring_data_addr(caller), 0), "a syndrome");
  if (!cpu_udp_tx_publish(caller, 0) || !poll(service, &slot)) {
    fprintf(stderr, "the request did not arrive\n");
    return 1;
  }
  const char *request = data(cpu_udp_get_rx_ring_data_addr(service), slot);
  char *response = data(cpu_udp_get_tx_ring_data_addr(service), slot);
  snprintf(response, SLOT_BYTES, "an answer to %s", request);
  if (!cpu_udp_tx_publish(service, slot) || !poll(caller, &slot)) {
    fprintf(stderr, "the answer did not arrive\n");
    return 1;
  }
  printf("%s\n", data(cpu_udp_get_rx_ring_data_addr(caller), slot));

  cpu_udp_destroy_transceiver(caller);
  cpu_udp_destroy_transceiver(service);
  return 0;
}

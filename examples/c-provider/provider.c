/* A transport of one's own as a shared library, in C: requests over Unix datagram sockets.
 *
 * One datagram is one request: 24 bytes of header, then the payload. The answer goes back to the socket that the request
 * came from, which must have a name. Build it with `make`, load it with `ringcall serve --transport plugin:./libprovider.so`.
 *
 * Arguments: --path=PATH (needed), --num-slots=N (8), --slot-size=BYTES (256), --unified (the user polls and publishes).
 *
 * What to take from it:
 * - a ring is four arrays; a request's flag is set (release) after its bytes, a response's is read (acquire) before them;
 * - a slot is filled only while both of its flags are 0, and whatever was asked in it is answered to whoever asked;
 * - no slot waits for another one; every wait has an end, so that disconnect returns.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "cudaq/realtime/daemon/bridge/bridge_interface.h"

enum { HEADER_BYTES = 24, RESULT_LEN_OFFSET = 8, POLL_MS = 1 };
static const uint64_t IN_FLIGHT = 0xEEEEEEEEEEEEEEEEULL;

struct peer {
  struct sockaddr_un address;
  socklen_t length; /* 0: nobody */
};

struct provider {
  struct sockaddr_un address;
  int socket; /* -1: closed */
  int unified;
  int launched;
  uint32_t slots, slot_size, next;
  _Atomic uint64_t *rx_flags, *tx_flags;
  uint8_t *rx_data, *tx_data, *staging;
  struct peer *peers;
  pthread_t thread;
  atomic_int stop;
};

static uint64_t request_address(const struct provider *p, uint32_t slot) {
  return (uint64_t)(uintptr_t)(p->rx_data + (size_t)slot * p->slot_size);
}

static uint64_t response_address(const struct provider *p, uint32_t slot) {
  return (uint64_t)(uintptr_t)(p->tx_data + (size_t)slot * p->slot_size);
}

/* Takes one datagram into a free slot, if there are both; the slot, or -1. */
static int64_t receive_one(struct provider *p) {
  for (uint32_t step = 0; step < p->slots; step++) {
    uint32_t slot = (p->next + step) % p->slots;
    /* rx first: a dispatcher sets tx before it clears rx. */
    if (atomic_load_explicit(&p->rx_flags[slot], memory_order_acquire) != 0 ||
        atomic_load_explicit(&p->tx_flags[slot], memory_order_acquire) != 0)
      continue;
    struct peer from = {.length = sizeof from.address};
    ssize_t length = recvfrom(p->socket, p->staging, p->slot_size, MSG_DONTWAIT | MSG_TRUNC,
                              (struct sockaddr *)&from.address, &from.length);
    if (length < HEADER_BYTES || (size_t)length > p->slot_size)
      return -1; /* nothing, or what cannot be a request */
    uint32_t arg_len;
    memcpy(&arg_len, p->staging + RESULT_LEN_OFFSET, sizeof arg_len);
    if (arg_len > (size_t)length - HEADER_BYTES)
      return -1; /* shorter than it says */
    memcpy(p->rx_data + (size_t)slot * p->slot_size, p->staging, (size_t)length);
    p->peers[slot] = from;
    p->next = (slot + 1) % p->slots;
    return slot;
  }
  return -1;
}

static cudaq_status_t send_one(struct provider *p, uint32_t slot) {
  const uint8_t *response = p->tx_data + (size_t)slot * p->slot_size;
  uint32_t result_len;
  memcpy(&result_len, response + RESULT_LEN_OFFSET, sizeof result_len);
  if (result_len > p->slot_size - HEADER_BYTES)
    result_len = p->slot_size - HEADER_BYTES;
  struct peer to = p->peers[slot];
  p->peers[slot].length = 0;
  if (to.length == 0)
    return CUDAQ_ERR_INVALID_ARG; /* nobody asked */
  ssize_t sent = sendto(p->socket, response, HEADER_BYTES + (size_t)result_len, MSG_DONTWAIT,
                        (const struct sockaddr *)&to.address, to.length);
  return sent < 0 ? CUDAQ_ERR_INTERNAL : CUDAQ_OK;
}

static void *run(void *argument) {
  struct provider *p = argument;
  int idle = 0;
  while (!atomic_load_explicit(&p->stop, memory_order_acquire)) {
    int moved = 0;
    int64_t slot = receive_one(p);
    if (slot >= 0) {
      atomic_store_explicit(&p->rx_flags[slot], request_address(p, (uint32_t)slot), memory_order_release);
      moved = 1;
    }
    for (uint32_t i = 0; i < p->slots; i++) {
      uint64_t flag = atomic_load_explicit(&p->tx_flags[i], memory_order_acquire);
      if (flag == 0 || flag == IN_FLIGHT)
        continue;
      if (flag == response_address(p, i))
        send_one(p, i);
      atomic_store_explicit(&p->tx_flags[i], 0, memory_order_release);
      moved = 1;
    }
    if (moved)
      idle = 0;
    else if (++idle > 1000) {
      struct pollfd wait = {.fd = p->socket, .events = POLLIN};
      poll(&wait, 1, POLL_MS);
    }
  }
  return NULL;
}

static void release(struct provider *p) {
  if (p->socket >= 0) {
    close(p->socket);
    unlink(p->address.sun_path);
  }
  free((void *)p->rx_flags);
  free((void *)p->tx_flags);
  free(p->rx_data);
  free(p->tx_data);
  free(p->staging);
  free(p->peers);
  free(p);
}

static const char *value_of(const char *argument, const char *key) {
  size_t length = strlen(key);
  return strncmp(argument, key, length) == 0 && argument[length] == '=' ? argument + length + 1 : NULL;
}

static int number(const char *text, uint32_t *out) {
  char *end;
  errno = 0;
  unsigned long value = strtoul(text, &end, 10);
  if (errno != 0 || end == text || *end != 0 || value > UINT32_MAX)
    return 0;
  *out = (uint32_t)value;
  return 1;
}

static cudaq_status_t create(cudaq_realtime_bridge_handle_t *handle, int argc, char **argv) {
  const char *path = NULL;
  if (handle == NULL || argc < 0 || (argc > 0 && argv == NULL))
    return CUDAQ_ERR_INVALID_ARG;
  struct provider *p = calloc(1, sizeof *p);
  if (p == NULL)
    return CUDAQ_ERR_INTERNAL;
  p->socket = -1;
  p->slots = 8;
  p->slot_size = 256;
  for (int i = 0; i < argc; i++) {
    const char *value;
    int good = 1;
    if ((value = value_of(argv[i], "--path")) != NULL)
      path = value;
    else if ((value = value_of(argv[i], "--num-slots")) != NULL)
      good = number(value, &p->slots);
    else if ((value = value_of(argv[i], "--slot-size")) != NULL)
      good = number(value, &p->slot_size);
    else if (strcmp(argv[i], "--unified") == 0)
      p->unified = 1;
    if (!good) {
      release(p);
      return CUDAQ_ERR_INVALID_ARG;
    }
  }
  p->address.sun_family = AF_UNIX;
  if (path == NULL || strlen(path) >= sizeof p->address.sun_path || p->slots == 0 || p->slots > 4096 ||
      p->slot_size < HEADER_BYTES || p->slot_size % 8 != 0 || p->slot_size > 65536) {
    release(p);
    return CUDAQ_ERR_INVALID_ARG;
  }
  strcpy(p->address.sun_path, path);
  size_t flags = p->slots * sizeof(uint64_t), data = (size_t)p->slots * p->slot_size;
  p->rx_flags = calloc(1, flags);
  p->tx_flags = calloc(1, flags);
  p->rx_data = calloc(1, data);
  p->tx_data = calloc(1, data);
  p->staging = calloc(1, p->slot_size);
  p->peers = calloc(p->slots, sizeof *p->peers);
  int opened = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (!p->rx_flags || !p->tx_flags || !p->rx_data || !p->tx_data || !p->staging || !p->peers || opened < 0 ||
      bind(opened, (const struct sockaddr *)&p->address, sizeof p->address) != 0) {
    if (opened >= 0)
      close(opened);
    release(p);
    return CUDAQ_ERR_INTERNAL;
  }
  p->socket = opened;
  *handle = p;
  return CUDAQ_OK;
}

static void stop(struct provider *p) {
  if (p->launched && !p->unified) {
    atomic_store_explicit(&p->stop, 1, memory_order_release);
    pthread_join(p->thread, NULL);
  }
  p->launched = 0;
}

static cudaq_status_t destroy(cudaq_realtime_bridge_handle_t handle) {
  if (handle == NULL)
    return CUDAQ_ERR_INVALID_ARG;
  stop(handle);
  release(handle);
  return CUDAQ_OK;
}

static void fill(const struct provider *p, cudaq_ringbuffer_t *ring) {
  /* Host memory: both views are the same. */
  ring->rx_flags = ring->rx_flags_host = (volatile uint64_t *)p->rx_flags;
  ring->tx_flags = ring->tx_flags_host = (volatile uint64_t *)p->tx_flags;
  ring->rx_data = ring->rx_data_host = p->rx_data;
  ring->tx_data = ring->tx_data_host = p->tx_data;
  ring->rx_stride_sz = ring->tx_stride_sz = p->slot_size;
}

static cudaq_status_t get_transport_context(cudaq_realtime_bridge_handle_t handle,
                                            cudaq_realtime_transport_context_t kind, void *out) {
  struct provider *p = handle;
  if (p == NULL || out == NULL)
    return CUDAQ_ERR_INVALID_ARG;
  if (kind != RING_BUFFER || p->unified)
    return CUDAQ_ERR_UNSUPPORTED;
  fill(p, out);
  return CUDAQ_OK;
}

static cudaq_status_t nothing(cudaq_realtime_bridge_handle_t handle) {
  return handle == NULL ? CUDAQ_ERR_INVALID_ARG : CUDAQ_OK;
}

static cudaq_status_t launch(cudaq_realtime_bridge_handle_t handle) {
  struct provider *p = handle;
  if (p == NULL || p->launched)
    return CUDAQ_ERR_INVALID_ARG;
  atomic_store(&p->stop, 0);
  for (uint32_t slot = 0; p->unified && slot < p->slots; slot++) {
    p->peers[slot].length = 0;
    atomic_store(&p->tx_flags[slot], 0); /* marks of an earlier launch's user */
  }
  if (!p->unified && pthread_create(&p->thread, NULL, run, p) != 0)
    return CUDAQ_ERR_INTERNAL;
  p->launched = 1;
  return CUDAQ_OK;
}

static cudaq_status_t disconnect(cudaq_realtime_bridge_handle_t handle) {
  if (handle == NULL)
    return CUDAQ_ERR_INVALID_ARG;
  stop(handle);
  return CUDAQ_OK;
}

static cudaq_rx_status_t rx_poll(void *context, uint32_t *slot) {
  int64_t found = receive_one(context);
  if (found < 0)
    return CUDAQ_RX_EMPTY;
  *slot = (uint32_t)found;
  return CUDAQ_RX_READY;
}

static cudaq_status_t tx_publish(void *context, uint32_t slot) {
  struct provider *p = context;
  return slot < p->slots ? send_one(p, slot) : CUDAQ_ERR_INVALID_ARG;
}

static cudaq_status_t get_cpu_dataplane(cudaq_realtime_bridge_handle_t handle, cudaq_cpu_dataplane_t *out) {
  struct provider *p = handle;
  if (p == NULL || out == NULL)
    return CUDAQ_ERR_INVALID_ARG;
  if (!p->unified)
    return CUDAQ_ERR_UNSUPPORTED;
  out->ctx = p;
  fill(p, &out->ring);
  out->rx_poll = rx_poll;
  out->tx_publish = tx_publish;
  return CUDAQ_OK;
}

static cudaq_status_t get_endpoint_info(cudaq_realtime_bridge_handle_t handle, char *out, size_t length) {
  struct provider *p = handle;
  if (p == NULL || out == NULL)
    return CUDAQ_ERR_INVALID_ARG;
  int written = snprintf(out, length, "transport=unix path=%s", p->address.sun_path);
  return written > 0 && (size_t)written < length ? CUDAQ_OK : CUDAQ_ERR_INVALID_ARG;
}

static cudaq_status_t get_ring_geometry(cudaq_realtime_bridge_handle_t handle, uint32_t *slots,
                                        uint32_t *slot_size) {
  struct provider *p = handle;
  if (p == NULL || slots == NULL || slot_size == NULL)
    return CUDAQ_ERR_INVALID_ARG;
  *slots = p->slots;
  *slot_size = p->slot_size;
  return CUDAQ_OK;
}

cudaq_realtime_bridge_interface_t *cudaq_realtime_get_bridge_interface(void) {
  static cudaq_realtime_bridge_interface_t interface = {
      .version = CUDAQ_REALTIME_BRIDGE_INTERFACE_VERSION,
      .create = create,
      .destroy = destroy,
      .get_transport_context = get_transport_context,
      .connect = nothing,
      .launch = launch,
      .disconnect = disconnect,
      .get_cpu_dataplane = get_cpu_dataplane,
      .get_endpoint_info = get_endpoint_info,
      .get_ring_geometry = get_ring_geometry,
  };
  return &interface;
}

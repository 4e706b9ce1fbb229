/* A transport of one's own as a shared library, in C: requests over Unix datagram sockets.
 *
 * One datagram is one request: 24 bytes of header, then the payload. The answer goes back to the socket that the request
 * came from, which must have a name. Build it with `make`, load it with `ringcall serve --transport plugin:./libprovider.so`.
 *
 * Arguments: --path=PATH (needed), --num-slots=N (8), --slot-size=BYTES (256), --unified (the user polls and publishes),
 * --send-ms=MS (1000): how long an answer waits for a peer that reads nothing before it is given up.
 *
 * What to take from it:
 * - a ring is four arrays; a request's flag is set (release) after its bytes, a response's is read (acquire) before them;
 * - a slot is filled only while both of its flags are 0, and whatever was asked in it is answered to whoever asked;
 * - what a slot holds is checked before it is sent: it may be of an earlier request, or not be there at all;
 * - no slot waits for another one; every wait has an end, so that disconnect returns;
 * - every request is answered; what cannot be sent is counted, and destroy says how much that was.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "cudaq/realtime/daemon/bridge/bridge_interface.h"

enum { HEADER_BYTES = 24, POLL_MS = 1 };
static const uint64_t IN_FLIGHT = 0xEEEEEEEEEEEEEEEEULL, ERROR_TAG = 0xDEAD; /* the tag: in the upper 16 bits */
static const uint32_t RESPONSE_MAGIC = 0x43555153;
enum { LAUNCH_FAILED = -9, SHUTTING_DOWN = -11, ABANDONED = -12, RESULT_TOO_LONG = -7 };

/* Of a request and of a response. */
struct header {
  uint32_t magic;
  int32_t status; /* a request: its function */
  uint32_t length; /* bytes after the header */
  uint32_t request_id;
  uint64_t time;
};
_Static_assert(sizeof(struct header) == HEADER_BYTES, "header");

/* Who asked in a slot. */
struct peer {
  struct sockaddr_un address;
  socklen_t length;     /* 0: nobody */
  struct header header; /* what he asked; while it waits to be sent, what he is answered */
  uint64_t since;       /* ms: since when that waits; 0: it does not */
};

struct provider {
  struct sockaddr_un address;
  int socket; /* -1: closed */
  int unified;
  int launched;
  uint32_t slots, slot_size, send_ms, next;
  uint64_t unsent, ignored; /* answers; datagrams that are no requests */
  _Atomic uint64_t *rx_flags, *tx_flags;
  uint8_t *rx_data, *tx_data, *staging;
  struct peer *peers;
  pthread_t thread;
  atomic_int stop;
};

static uint64_t request_address(const struct provider *p, uint32_t slot) {
  return (uint64_t)(uintptr_t)(p->rx_data + (size_t)slot * p->slot_size);
}

static uint64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000 + 1;
}

static struct header refusal(const struct header *asked, int32_t status) {
  return (struct header){RESPONSE_MAGIC, status, 0, asked->request_id, asked->time};
}

/* What to answer with what a slot holds: an allegation. Where there is a mark in place of an answer, a dispatcher may have
 * left a response that says what failed, and may not. */
static struct header answer_in(const struct provider *p, uint32_t slot, uint64_t flag) {
  const struct header *asked = &p->peers[slot].header;
  int failed = flag >> 48 == ERROR_TAG;
  struct header header;
  memcpy(&header, p->tx_data + (size_t)slot * p->slot_size, sizeof header);
  if (header.magic != RESPONSE_MAGIC || header.request_id != asked->request_id || (failed && header.status >= 0))
    return refusal(asked, failed ? LAUNCH_FAILED : ABANDONED);
  if (failed)
    header.length = 0;
  if (header.length > p->slot_size - HEADER_BYTES) {
    header.length = p->slot_size - HEADER_BYTES;
    header.status = header.status == 0 ? RESULT_TOO_LONG : header.status;
  }
  return header;
}

enum outcome { SENT, LATER, LOST };

/* Sends peer->header and the result after it. LATER: the peer takes nothing now; the slot stays his, try again. */
static enum outcome deliver(struct provider *p, uint32_t slot) {
  struct peer *to = &p->peers[slot];
  struct iovec parts[2] = {
      {&to->header, HEADER_BYTES},
      {p->tx_data + (size_t)slot * p->slot_size + HEADER_BYTES, to->header.length},
  };
  struct msghdr message = {.msg_name = &to->address, .msg_namelen = to->length, .msg_iov = parts, .msg_iovlen = 2};
  ssize_t sent = sendmsg(p->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == EINTR)) {
    uint64_t now = now_ms();
    if (to->since == 0)
      to->since = now;
    if (now - to->since < p->send_ms)
      return LATER;
  }
  p->unsent += sent < 0;
  to->length = 0;
  to->since = 0;
  return sent < 0 ? LOST : SENT;
}

/* A slot both of whose flags are 0: if somebody waits for it, his answer could not be sent yet, or his request was
 * dropped. */
static void vacate(struct provider *p, uint32_t slot) {
  struct peer *peer = &p->peers[slot];
  if (peer->length == 0)
    return;
  if (peer->since == 0)
    peer->header = refusal(&peer->header, ABANDONED);
  deliver(p, slot);
}

/* Tells whoever still waits that nothing comes. */
static void give_up(struct provider *p) {
  for (uint32_t slot = 0; slot < p->slots; slot++) {
    struct peer *peer = &p->peers[slot];
    if (peer->length == 0)
      continue;
    if (peer->since == 0)
      peer->header = refusal(&peer->header, SHUTTING_DOWN);
    if (deliver(p, slot) == LATER) {
      p->unsent++;
      peer->length = 0;
      peer->since = 0;
    }
  }
}

/* Takes one datagram into a free slot, if there are both; the slot, or -1. */
static int64_t receive_one(struct provider *p) {
  for (uint32_t step = 0; step < p->slots; step++) {
    uint32_t slot = (p->next + step) % p->slots;
    /* rx first: a dispatcher sets tx before it clears rx. */
    if (atomic_load_explicit(&p->rx_flags[slot], memory_order_acquire) != 0 ||
        atomic_load_explicit(&p->tx_flags[slot], memory_order_acquire) != 0 || p->peers[slot].length != 0)
      continue;
    struct peer from = {.length = sizeof from.address};
    ssize_t length = recvfrom(p->socket, p->staging, p->slot_size, MSG_DONTWAIT | MSG_TRUNC,
                              (struct sockaddr *)&from.address, &from.length);
    if (length < 0)
      return -1; /* nothing */
    if (length >= HEADER_BYTES)
      memcpy(&from.header, p->staging, HEADER_BYTES);
    /* Shorter than a header, longer than a slot, shorter than it says, or of nobody who could be answered. */
    if (length < HEADER_BYTES || (size_t)length > p->slot_size ||
        from.header.length > (size_t)length - HEADER_BYTES || from.length <= sizeof(sa_family_t)) {
      p->ignored++;
      return -1;
    }
    memcpy(p->rx_data + (size_t)slot * p->slot_size, p->staging, (size_t)length);
    p->peers[slot] = from;
    p->next = (slot + 1) % p->slots;
    return slot;
  }
  return -1;
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
      uint64_t asked = atomic_load_explicit(&p->rx_flags[i], memory_order_acquire);
      uint64_t flag = atomic_load_explicit(&p->tx_flags[i], memory_order_acquire);
      if (asked == 0 && flag == 0)
        vacate(p, i);
      if (flag == 0 || flag == IN_FLIGHT)
        continue;
      if (p->peers[i].length != 0) {
        if (p->peers[i].since == 0)
          p->peers[i].header = answer_in(p, i, flag);
        if (deliver(p, i) == LATER)
          continue; /* the flag keeps the slot */
      }
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
  p->send_ms = 1000;
  for (int i = 0; i < argc; i++) {
    const char *value;
    int good = 1;
    if ((value = value_of(argv[i], "--path")) != NULL)
      path = value;
    else if ((value = value_of(argv[i], "--num-slots")) != NULL)
      good = number(value, &p->slots);
    else if ((value = value_of(argv[i], "--slot-size")) != NULL)
      good = number(value, &p->slot_size);
    else if ((value = value_of(argv[i], "--send-ms")) != NULL)
      good = number(value, &p->send_ms);
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
  if (p->unified) {
    give_up(p); /* nobody polls any more; a ring's dispatcher goes on, and another launch sends what it answers */
    for (uint32_t slot = 0; slot < p->slots; slot++)
      atomic_store(&p->tx_flags[slot], 0); /* its user's marks */
  }
  p->launched = 0;
}

static cudaq_status_t destroy(cudaq_realtime_bridge_handle_t handle) {
  if (handle == NULL)
    return CUDAQ_ERR_INVALID_ARG;
  struct provider *p = handle;
  stop(p);
  give_up(p);
  if (p->unsent != 0 || p->ignored != 0)
    fprintf(stderr, "%s: %" PRIu64 " answers not sent, %" PRIu64 " datagrams that are no requests\n",
            p->address.sun_path, p->unsent, p->ignored);
  release(p);
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
  if (kind == UNIFIED && p->unified) {
    memset(out, 0, sizeof(cudaq_unified_dispatch_ctx_t)); /* no launch_fn: the loop is the caller's */
    return CUDAQ_OK;
  }
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
  struct provider *p = context;
  for (uint32_t i = 0; i < p->slots; i++)
    if (atomic_load_explicit(&p->tx_flags[i], memory_order_acquire) == 0)
      vacate(p, i);
  int64_t found = receive_one(p);
  if (found < 0)
    return CUDAQ_RX_EMPTY;
  *slot = (uint32_t)found;
  return CUDAQ_RX_READY;
}

/* An answer that its peer does not take now is sent by later polls: its slot is not given out before. */
static cudaq_status_t tx_publish(void *context, uint32_t slot) {
  struct provider *p = context;
  if (slot >= p->slots || p->peers[slot].length == 0 || p->peers[slot].since != 0)
    return CUDAQ_ERR_INTERNAL; /* nobody asked, or he has an answer */
  uint64_t flag = atomic_load_explicit(&p->tx_flags[slot], memory_order_acquire);
  p->peers[slot].header = answer_in(p, slot, flag);
  return deliver(p, slot) == LOST ? CUDAQ_ERR_INTERNAL : CUDAQ_OK;
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

/* A provider that does what it must not. What is wrong with its table is chosen when it is compiled, what is wrong with
 * what it hands out by its argument --odd=NAME. It counts its calls in the file --log=PATH, a letter each. */
#define _POSIX_C_SOURCE 200809L
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cudaq/realtime/daemon/bridge/bridge_interface.h"

#ifndef VERSION
#define VERSION CUDAQ_REALTIME_BRIDGE_INTERFACE_VERSION
#endif

enum { SLOTS = 4, STRIDE = 64 };

static const char CONSTANT[1024] = "in read-only memory";

struct odd {
  char name[32];
  char log[256];
  atomic_int disconnected;
  _Alignas(64) uint64_t rx_flags[SLOTS], tx_flags[SLOTS];
  _Alignas(64) uint8_t rx_data[SLOTS * STRIDE], tx_data[SLOTS * STRIDE];
};

static int is(const struct odd *o, const char *name) { return strcmp(o->name, name) == 0; }

static void say(const struct odd *o, char letter) {
  FILE *log = o->log[0] ? fopen(o->log, "a") : NULL;
  if (log) {
    fputc(letter, log);
    fclose(log);
  }
}

static cudaq_status_t create(cudaq_realtime_bridge_handle_t *handle, int argc, char **argv) {
  struct odd *o = calloc(1, sizeof *o);
  if (argv[argc] != NULL)
    return CUDAQ_ERR_INVALID_ARG; /* as in main, the list ends in a null */
  for (int i = 0; i < argc; i++) {
    if (strncmp(argv[i], "--odd=", 6) == 0)
      snprintf(o->name, sizeof o->name, "%s", argv[i] + 6);
    if (strncmp(argv[i], "--log=", 6) == 0)
      snprintf(o->log, sizeof o->log, "%s", argv[i] + 6);
  }
  int status = 0;
  if (sscanf(o->name, "status%d", &status) == 1 && status != 0) {
    free(o);
    return (cudaq_status_t)status;
  }
  say(o, 'c');
  *handle = is(o, "null-handle") ? NULL : o;
  return CUDAQ_OK;
}

static cudaq_status_t destroy(cudaq_realtime_bridge_handle_t handle) {
  say(handle, 'd');
  free(handle);
  return CUDAQ_OK;
}

static void fill(struct odd *o, cudaq_ringbuffer_t *ring) {
  ring->rx_flags_host = o->rx_flags;
  ring->tx_flags_host = o->tx_flags;
  ring->rx_data_host = o->rx_data;
  ring->tx_data_host = o->tx_data;
  ring->rx_stride_sz = ring->tx_stride_sz = STRIDE;
  if (is(o, "null-ring"))
    memset(ring, 0, sizeof *ring), ring->rx_stride_sz = ring->tx_stride_sz = STRIDE;
  if (is(o, "zero-strides"))
    ring->rx_stride_sz = ring->tx_stride_sz = 0;
  if (is(o, "short-stride"))
    ring->tx_stride_sz = 16;
  if (is(o, "uneven-stride"))
    ring->rx_stride_sz = 28;
  if (is(o, "huge-stride"))
    ring->rx_stride_sz = (size_t)-8;
  if (is(o, "misaligned"))
    ring->rx_data_host = o->rx_data + 4;
  if (is(o, "unmapped"))
    ring->tx_data_host = (uint8_t *)0x10;
  if (is(o, "read-only"))
    ring->tx_data_host = (uint8_t *)((uintptr_t)CONSTANT & ~(uintptr_t)7);
  if (is(o, "overlap"))
    ring->tx_flags_host = (uint64_t *)(void *)o->rx_data;
  if (is(o, "in-place"))
    ring->tx_data_host = o->rx_data;
  if (is(o, "in-place-uneven"))
    ring->tx_data_host = o->rx_data, ring->tx_stride_sz = STRIDE / 2;
  if (is(o, "overlap-data"))
    ring->tx_data_host = o->rx_data + STRIDE;
  if (is(o, "device-only")) {
    memset(ring, 0, sizeof *ring);
    ring->rx_flags = o->rx_flags;
    ring->tx_flags = o->tx_flags;
    ring->rx_data = o->rx_data;
    ring->tx_data = o->tx_data;
    ring->rx_stride_sz = ring->tx_stride_sz = STRIDE;
  }
}

static cudaq_status_t get_transport_context(cudaq_realtime_bridge_handle_t handle,
                                            cudaq_realtime_transport_context_t kind, void *out) {
  if (kind == RING_BUFFER)
    fill(handle, out);
  return CUDAQ_OK; /* the unified context: "success", and nothing */
}

static cudaq_status_t connect_(cudaq_realtime_bridge_handle_t handle) {
  struct odd *o = handle;
  say(o, 'n');
  if (is(o, "waits")) {
    /* For its peer, who never comes: until it is disconnected, or 20 s. */
    for (int ms = 0; ms < 20000 && !atomic_load(&o->disconnected); ms++)
      nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return CUDAQ_ERR_INTERNAL;
  }
  return is(handle, "no-peer") ? CUDAQ_ERR_INTERNAL : CUDAQ_OK;
}

static cudaq_status_t launch(cudaq_realtime_bridge_handle_t handle) {
  say(handle, 'l');
  return CUDAQ_OK;
}

static cudaq_status_t disconnect(cudaq_realtime_bridge_handle_t handle) {
  say(handle, 'x');
  atomic_store(&((struct odd *)handle)->disconnected, 1);
  return CUDAQ_OK;
}

static cudaq_rx_status_t rx_poll(void *ctx, uint32_t *slot) {
  struct odd *o = ctx;
  if (is(o, "wild-slot")) {
    *slot = 1000;
    return CUDAQ_RX_READY;
  }
  if (is(o, "same-slot")) {
    *slot = 1;
    return CUDAQ_RX_READY;
  }
  return is(o, "wild-poll") ? (cudaq_rx_status_t)77 : CUDAQ_RX_EMPTY;
}

static cudaq_status_t tx_publish(void *ctx, uint32_t slot) {
  (void)slot;
  return is(ctx, "same-slot") ? CUDAQ_ERR_INTERNAL : CUDAQ_OK;
}

static cudaq_status_t get_cpu_dataplane(cudaq_realtime_bridge_handle_t handle, cudaq_cpu_dataplane_t *out) {
  struct odd *o = handle;
  if (is(o, "empty-plane"))
    return CUDAQ_OK;
  out->ctx = o;
  fill(o, &out->ring);
  out->rx_poll = rx_poll;
  out->tx_publish = is(o, "half-plane") ? NULL : tx_publish;
  return CUDAQ_OK;
}

static cudaq_status_t get_endpoint_info(cudaq_realtime_bridge_handle_t handle, char *out, size_t length) {
  struct odd *o = handle;
  if (is(o, "no-nul"))
    memset(out, 'x', length);
  else if (is(o, "overrun"))
    memset(out, 'x', length + 8);
  else if (is(o, "two-lines"))
    snprintf(out, length, "transport=odd\nport=1");
  else if (is(o, "no-text"))
    snprintf(out, length, "transport=\xff\xfe");
  else
    snprintf(out, length, "transport=odd port=1");
  return CUDAQ_OK;
}

static cudaq_status_t get_ring_geometry(cudaq_realtime_bridge_handle_t handle, uint32_t *slots, uint32_t *slot_size) {
  *slots = is(handle, "no-slots") ? 0 : is(handle, "many-slots") ? 0xFFFFFFFF : is(handle, "more-slots") ? 1000000 : SLOTS;
  *slot_size = STRIDE;
  return CUDAQ_OK;
}

static cudaq_status_t set_function_table(cudaq_realtime_bridge_handle_t handle, cudaq_function_entry_t *entries,
                                         size_t count) {
  say(handle, 't');
  return entries != NULL && count == 3 ? CUDAQ_OK : CUDAQ_ERR_CUDA;
}

#ifdef V1_SIZE
/* As a provider of version 1 has it: what follows the table is no member. */
static struct {
  int version;
  void *members[6];
  uint64_t after[3];
} table = {1,
           {(void *)create, (void *)destroy, (void *)get_transport_context, (void *)connect_, (void *)launch,
            (void *)disconnect},
           {0x10, 0x10, 0x10}};
#else
static cudaq_realtime_bridge_interface_t table = {
    .version = VERSION,
#ifdef WILD_CREATE
    .create = (cudaq_status_t (*)(cudaq_realtime_bridge_handle_t *, int, char **))0x1230,
#elif !defined(NULL_CREATE)
    .create = create,
#endif
#ifndef NULL_DESTROY
    .destroy = destroy,
#endif
#ifndef NULL_OTHERS
    .get_transport_context = get_transport_context,
#ifndef NULL_CONNECT
    .connect = connect_,
#endif
    .launch = launch,
    .disconnect = disconnect,
    .get_cpu_dataplane = get_cpu_dataplane,
    .get_endpoint_info = get_endpoint_info,
    .get_ring_geometry = get_ring_geometry,
#ifdef WILD_SET_TABLE
    .set_function_table = (cudaq_status_t (*)(cudaq_realtime_bridge_handle_t, cudaq_function_entry_t *, size_t))0x1230,
#elif !defined(NULL_SET_TABLE)
    .set_function_table = set_function_table,
#endif
#endif
};
#endif

#ifndef NO_SYMBOL
cudaq_realtime_bridge_interface_t *cudaq_realtime_get_bridge_interface(void) {
#if defined(NULL_INTERFACE)
  return NULL;
#elif defined(WILD_INTERFACE)
  return (cudaq_realtime_bridge_interface_t *)0x1000;
#elif defined(UNEVEN_INTERFACE)
  return (cudaq_realtime_bridge_interface_t *)((char *)&table + 2);
#else
  return (cudaq_realtime_bridge_interface_t *)(void *)&table;
#endif
}
#endif

#ifdef EXTENSION
/* The extension that Ringcall's own providers have, with one member replaced, or of another size. */
#ifndef EXTENSION_SIZE
#define EXTENSION_SIZE sizeof extension
#endif
#ifndef EXTENSION_STOP
#define EXTENSION_STOP stop
#endif

static int stop(void *handle, uint64_t ns) {
  (void)ns;
  return disconnect(handle);
}
static int wait_(void *handle, uint64_t ns) {
  (void)handle, (void)ns;
  return CUDAQ_ERR_UNSUPPORTED;
}
static int last_error(char *out, size_t length) {
  snprintf(out, length, "odd");
  return CUDAQ_OK;
}
static int statistics(void *handle, char *out, size_t length) {
  (void)handle;
  snprintf(out, length, "received=7 answered=5 whatever=1");
  return CUDAQ_OK;
}

static struct {
  size_t size;
  int (*last_error)(char *, size_t);
  int (*statistics)(void *, char *, size_t);
  cudaq_status_t (*close)(void *);
  int (*stop)(void *, uint64_t);
  int (*wait)(void *, uint64_t);
} extension;

void *ringcall_bridge_get_extension(void) {
  extension.size = EXTENSION_SIZE;
  extension.last_error = last_error;
  extension.statistics = statistics;
  extension.close = disconnect;
  extension.stop = EXTENSION_STOP;
  extension.wait = wait_;
  return EXTENSION;
}
#endif

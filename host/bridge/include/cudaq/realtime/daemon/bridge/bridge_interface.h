/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The bridge interface of CUDA-Q Realtime: transports in shared libraries. Source of names and layouts: the CUDA-Q
 * Realtime host API. For C11 and C++11.
 *
 * A library that provides a transport exports cudaq_realtime_get_bridge_interface(). A program that uses one calls the
 * functions cudaq_bridge_* below.
 *
 * What holds for every function of this file, on either side:
 * - It returns a status; nothing is thrown across, and a handle that is null, unknown or already destroyed is
 *   CUDAQ_ERR_INVALID_ARG.
 * - The order of calls is create, connect, launch, disconnect, destroy; after disconnect, connect may follow. A launch
 *   without connect is passed on: whether it may be is the provider's to say. Another order is CUDAQ_ERR_INVALID_ARG.
 * - It may be called from any thread. connect alone may block: until its peer is there.
 */
#ifndef CUDAQ_REALTIME_BRIDGE_INTERFACE_H
#define CUDAQ_REALTIME_BRIDGE_INTERFACE_H

#include <stddef.h>
#include <stdint.h>

#include "cudaq/realtime/daemon/bridge/cpu_dataplane.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void *cudaq_realtime_bridge_handle_t;

typedef enum {
  CUDAQ_PROVIDER_GPU_ROCE = 0, /* libcudaq-realtime-bridge-gpu-roce.so */
  CUDAQ_PROVIDER_EXTERNAL = 1  /* the library that CUDAQ_REALTIME_BRIDGE_LIB names */
} cudaq_realtime_transport_provider_t;

typedef enum {
  RING_BUFFER = 0, /* cudaq_ringbuffer_t */
  UNIFIED = 1      /* cudaq_unified_dispatch_ctx_t */
} cudaq_realtime_transport_context_t;

#define CUDAQ_REALTIME_BRIDGE_INTERFACE_VERSION 3

/* What a library provides. Version 1 ends after disconnect, version 2 after get_ring_geometry. Members of version 2 and 3 may
 * be null: not supported. */
typedef struct {
  int version;
  /* Ready to be reached when it returns. Arguments that it does not know are ignored. */
  cudaq_status_t (*create)(cudaq_realtime_bridge_handle_t *handle, int argc, char **argv);
  cudaq_status_t (*destroy)(cudaq_realtime_bridge_handle_t handle);
  cudaq_status_t (*get_transport_context)(cudaq_realtime_bridge_handle_t handle,
                                          cudaq_realtime_transport_context_t kind, void *out);
  cudaq_status_t (*connect)(cudaq_realtime_bridge_handle_t handle); /* null: launch alone is enough */
  cudaq_status_t (*launch)(cudaq_realtime_bridge_handle_t handle);
  cudaq_status_t (*disconnect)(cudaq_realtime_bridge_handle_t handle);
  /* version 2 */
  cudaq_status_t (*get_cpu_dataplane)(cudaq_realtime_bridge_handle_t handle, cudaq_cpu_dataplane_t *out);
  /* One line of key=value pairs, with its NUL in len bytes; valid as soon as create has returned. */
  cudaq_status_t (*get_endpoint_info)(cudaq_realtime_bridge_handle_t handle, char *out, size_t len);
  cudaq_status_t (*get_ring_geometry)(cudaq_realtime_bridge_handle_t handle, uint32_t *num_slots,
                                      uint32_t *slot_size);
  /* version 3 */
  /* The dispatcher's functions, for a transport that wants to know them; the dispatcher calls them as ever. */
  cudaq_status_t (*set_function_table)(cudaq_realtime_bridge_handle_t handle, cudaq_function_entry_t *entries,
                                       size_t count);
} cudaq_realtime_bridge_interface_t;

/* Exported by a provider's library: a structure that lives as long as the library. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
cudaq_realtime_bridge_interface_t *cudaq_realtime_get_bridge_interface(void);

/* Loads a library (a path, or a name that the dynamic linker looks up) and makes an instance of its transport.
 * Libraries are loaded once for each string and stay loaded. *handle is set on success alone.
 * CUDAQ_ERR_INVALID_ARG: a null argument, a negative argc. CUDAQ_ERR_INTERNAL: the library cannot be loaded, lacks the
 * function, has a version other than 1 to 3, lacks create or destroy, or has a table of addresses where no code is. Else
 * what its create returned. */
cudaq_status_t cudaq_bridge_create_from_library(cudaq_realtime_bridge_handle_t *handle, const char *library, int argc,
                                                char **argv);

/* The same, with the library that `provider` stands for. CUDAQ_ERR_INVALID_ARG if that is EXTERNAL and the environment
 * names none. */
cudaq_status_t cudaq_bridge_create(cudaq_realtime_bridge_handle_t *handle, cudaq_realtime_transport_provider_t provider,
                                   int argc, char **argv);

/* Disconnects if need be, and frees everything: rings and data planes are gone. A connect that waits in another thread
 * is ended by that; what a call in another thread still uses is freed at that call's end. */
cudaq_status_t cudaq_bridge_destroy(cudaq_realtime_bridge_handle_t handle);

/* Fills *out (which is zeroed before). CUDAQ_ERR_INTERNAL if the provider hands out what cannot be a ring: an array with
 * neither a device's nor a host's address, or a stride below 24. UNIFIED with a null launch_fn: the loop is the caller's, over
 * the provider's data plane. */
cudaq_status_t cudaq_bridge_get_transport_context(cudaq_realtime_bridge_handle_t handle,
                                                  cudaq_realtime_transport_context_t kind, void *out);

cudaq_status_t cudaq_bridge_connect(cudaq_realtime_bridge_handle_t handle);
cudaq_status_t cudaq_bridge_launch(cudaq_realtime_bridge_handle_t handle);
cudaq_status_t cudaq_bridge_disconnect(cudaq_realtime_bridge_handle_t handle);

/* CUDAQ_ERR_UNSUPPORTED: the provider has version 1, or leaves the member null. CUDAQ_ERR_INTERNAL: it hands out hooks
 * or host addresses that are null. */
cudaq_status_t cudaq_bridge_get_cpu_dataplane(cudaq_realtime_bridge_handle_t handle, cudaq_cpu_dataplane_t *out);

/* The line and its NUL; CUDAQ_ERR_INVALID_ARG if it does not fit. */
cudaq_status_t cudaq_bridge_get_endpoint_info(cudaq_realtime_bridge_handle_t handle, char *out, size_t len);

cudaq_status_t cudaq_bridge_get_ring_geometry(cudaq_realtime_bridge_handle_t handle, uint32_t *num_slots,
                                              uint32_t *slot_size);

/* Hands on the dispatcher's function table, which must stay until the provider is destroyed. CUDAQ_OK, too, where the
 * provider does not take it: none of ours needs it. CUDAQ_ERR_INVALID_ARG: a null table or one without entries. */
cudaq_status_t cudaq_bridge_set_function_table(cudaq_realtime_bridge_handle_t handle,
                                               const cudaq_function_table_t *table);

/* An extension: why the last call of this thread to one of the functions above failed, as text; "" if it did not.
 * Valid until the thread's next call. Never null. */
const char *ringcall_bridge_last_error(void);

#ifdef __cplusplus
}
#define CUDAQ_BRIDGE_ASSERT static_assert
#else
#define CUDAQ_BRIDGE_ASSERT _Static_assert
#endif

CUDAQ_BRIDGE_ASSERT(sizeof(cudaq_status_t) == 4, "status");
CUDAQ_BRIDGE_ASSERT(sizeof(cudaq_ringbuffer_t) == 80, "ring buffer");
CUDAQ_BRIDGE_ASSERT(offsetof(cudaq_ringbuffer_t, rx_stride_sz) == 32, "ring buffer: stride");
CUDAQ_BRIDGE_ASSERT(offsetof(cudaq_ringbuffer_t, rx_flags_host) == 48, "ring buffer: host addresses");
CUDAQ_BRIDGE_ASSERT(sizeof(cudaq_unified_dispatch_ctx_t) == 16, "unified context");
CUDAQ_BRIDGE_ASSERT(sizeof(cudaq_cpu_dataplane_t) == 104, "data plane");
CUDAQ_BRIDGE_ASSERT(offsetof(cudaq_cpu_dataplane_t, ring) == 8, "data plane: ring");
CUDAQ_BRIDGE_ASSERT(offsetof(cudaq_cpu_dataplane_t, rx_poll) == 88, "data plane: rx_poll");
CUDAQ_BRIDGE_ASSERT(offsetof(cudaq_cpu_dataplane_t, tx_publish) == 96, "data plane: tx_publish");
CUDAQ_BRIDGE_ASSERT(sizeof(cudaq_function_table_t) == 16, "function table");
CUDAQ_BRIDGE_ASSERT(sizeof(cudaq_realtime_bridge_interface_t) == 88, "interface");
CUDAQ_BRIDGE_ASSERT(offsetof(cudaq_realtime_bridge_interface_t, create) == 8, "interface: create");
CUDAQ_BRIDGE_ASSERT(offsetof(cudaq_realtime_bridge_interface_t, get_transport_context) == 24, "interface: context");
CUDAQ_BRIDGE_ASSERT(offsetof(cudaq_realtime_bridge_interface_t, get_cpu_dataplane) == 56, "interface: version 1's size");
CUDAQ_BRIDGE_ASSERT(offsetof(cudaq_realtime_bridge_interface_t, get_ring_geometry) == 72, "interface: geometry");
CUDAQ_BRIDGE_ASSERT(offsetof(cudaq_realtime_bridge_interface_t, set_function_table) == 80, "interface: version 2's size");

#undef CUDAQ_BRIDGE_ASSERT

#endif

/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * What a transport gives a dispatcher that drives it from one thread of the host. Source of names and layouts: the CUDA-Q
 * Realtime host API. For C11 and C++11.
 */
#ifndef CUDAQ_REALTIME_CPU_DATAPLANE_H
#define CUDAQ_REALTIME_CPU_DATAPLANE_H

#include <stddef.h>
#include <stdint.h>

/* The types that are shared with the dispatcher's header come from there, where it is installed. */
#if defined(__has_include)
#if __has_include("cudaq/realtime/daemon/dispatcher/cudaq_realtime.h")
#include "cudaq/realtime/daemon/dispatcher/cudaq_realtime.h"
#define CUDAQ_REALTIME_BRIDGE_SHARED_TYPES
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

#ifndef CUDAQ_REALTIME_BRIDGE_SHARED_TYPES
#define CUDAQ_REALTIME_BRIDGE_SHARED_TYPES

typedef enum {
  CUDAQ_OK = 0,
  CUDAQ_ERR_INVALID_ARG = 1,
  CUDAQ_ERR_INTERNAL = 2,
  CUDAQ_ERR_CUDA = 3,
  CUDAQ_ERR_UNSUPPORTED = 4
} cudaq_status_t;

/* Flags: 0, or the address of the slot that is full. The fields without _host are the device's addresses. */
typedef struct {
  volatile uint64_t *rx_flags;
  volatile uint64_t *tx_flags;
  uint8_t *rx_data;
  uint8_t *tx_data;
  size_t rx_stride_sz; /* bytes from one slot to the next, at least 24 */
  size_t tx_stride_sz;
  volatile uint64_t *rx_flags_host;
  volatile uint64_t *tx_flags_host;
  uint8_t *rx_data_host;
  uint8_t *tx_data_host;
} cudaq_ringbuffer_t;

typedef struct {
  void (*launch_fn)(void); /* cast to the launch function's type */
  void *transport_ctx;
} cudaq_unified_dispatch_ctx_t;

typedef struct cudaq_function_entry_t cudaq_function_entry_t;

typedef struct {
  cudaq_function_entry_t *entries;
  uint32_t count;
} cudaq_function_table_t;

#endif

typedef enum { CUDAQ_RX_READY = 0, CUDAQ_RX_EMPTY = 1 } cudaq_rx_status_t;

/* Takes a request: CUDAQ_RX_READY and its slot, whose bytes are visible; or CUDAQ_RX_EMPTY, and *slot is left alone.
 * Never blocks. */
typedef cudaq_rx_status_t (*cudaq_cpu_rx_poll_fn_t)(void *ctx, uint32_t *slot);

/* Sends the response that was written into a slot. Slots may be published in any order. CUDAQ_ERR_INTERNAL: the slot was
 * not given out, or there is nobody to send to. */
typedef cudaq_status_t (*cudaq_cpu_tx_publish_fn_t)(void *ctx, uint32_t slot);

/* A transport that one thread of its user's drives: 104 bytes. Request flags are not used. Response flags are the user's
 * (they may be null): while one is not 0 its slot is not given out again; a slot that was given out, not published, and
 * whose flag is 0 at the next rx_poll was dropped by its user. What is under way at disconnect is gone: publishing it is
 * an error, and the next connect and launch set every flag to 0. Of our providers the hooks work as soon as create has
 * returned. */
typedef struct {
  void *ctx;
  cudaq_ringbuffer_t ring; /* host addresses and strides are set; device addresses too where graphs are launched */
  cudaq_cpu_rx_poll_fn_t rx_poll;
  cudaq_cpu_tx_publish_fn_t tx_publish;
} cudaq_cpu_dataplane_t;

#ifdef __cplusplus
}
#endif
#endif

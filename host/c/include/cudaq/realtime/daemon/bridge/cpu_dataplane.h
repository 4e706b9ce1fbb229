/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What a transport gives a dispatcher that drives it from one thread of the host. */
#ifndef CUDAQ_REALTIME_CPU_DATAPLANE_H
#define CUDAQ_REALTIME_CPU_DATAPLANE_H

#include "cudaq/realtime/daemon/dispatcher/cudaq_realtime.h"

#ifndef CUDAQ_CPU_DATAPLANE_DEFINED
#define CUDAQ_CPU_DATAPLANE_DEFINED

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  CUDAQ_RX_READY = 0, /* a request is in the slot that was named */
  CUDAQ_RX_EMPTY = 1  /* nothing */
} cudaq_rx_status_t;

/* Names the next request's slot. Must not block. What it names is read from the ring at once. */
typedef cudaq_rx_status_t (*cudaq_cpu_rx_poll_fn_t)(void *ctx, uint32_t *out_slot);
/* Sends the response in `slot`. Slots come in any order. Called on the dispatcher's thread alone. */
typedef cudaq_status_t (*cudaq_cpu_tx_publish_fn_t)(void *ctx, uint32_t slot);

/* 104 bytes. `ring` has its host views and strides set; its device views too where graphs are launched. */
typedef struct cudaq_cpu_dataplane_t {
  void *ctx;
  cudaq_ringbuffer_t ring;
  cudaq_cpu_rx_poll_fn_t rx_poll;
  cudaq_cpu_tx_publish_fn_t tx_publish;
} cudaq_cpu_dataplane_t;

#ifdef __cplusplus
}
#endif
#endif
#endif

/* What the programs share: a ring on the heap, a handler, and checks that say where they failed. */
#ifndef PROGRAM_H
#define PROGRAM_H
#include "cudaq/realtime/daemon/dispatcher/cudaq_realtime.h"
#include "cudaq/realtime/daemon/dispatcher/dispatch_kernel_launch.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef __cplusplus
using namespace cudaq::realtime;
#endif

#define EXPECT(condition)                                                                                    \
  do {                                                                                                       \
    if (!(condition)) {                                                                                      \
      fprintf(stderr, "%s:%d: %s (last error: %s)\n", __FILE__, __LINE__, #condition, ringcall_last_error()); \
      exit(1);                                                                                               \
    }                                                                                                        \
  } while (0)
#define EXPECT_OK(call) EXPECT((call) == CUDAQ_OK)
#define EXPECT_INVALID(call) EXPECT((call) == CUDAQ_ERR_INVALID_ARG)

/* FNV-1a of "rpc_increment". */
#define INCREMENT 0x191b6322u

static inline void *zeroed(size_t bytes) {
  void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
  EXPECT(memory != NULL);
  return memset(memory, 0, bytes);
}

static inline cudaq_ringbuffer_t make_ring(uint32_t slots, size_t slot) {
  cudaq_ringbuffer_t ring;
  memset(&ring, 0, sizeof ring);
  ring.rx_flags_host = (volatile uint64_t *)zeroed(slots * 8);
  ring.tx_flags_host = (volatile uint64_t *)zeroed(slots * 8);
  ring.rx_data_host = (uint8_t *)zeroed(slots * slot);
  ring.tx_data_host = (uint8_t *)zeroed(slots * slot);
  ring.rx_flags = ring.rx_flags_host;
  ring.tx_flags = ring.tx_flags_host;
  ring.rx_data = ring.rx_data_host;
  ring.tx_data = ring.tx_data_host;
  ring.rx_stride_sz = ring.tx_stride_sz = slot;
  return ring;
}

static inline void free_ring(cudaq_ringbuffer_t *ring) {
  free((void *)ring->rx_flags_host);
  free((void *)ring->tx_flags_host);
  free(ring->rx_data_host);
  free(ring->tx_data_host);
}

/* Adds one to each byte. */
static inline void increment(const void *rx_slot, void *tx_slot, size_t slot_size) {
  RPCHeader request;
  RPCResponse response;
  memcpy(&request, rx_slot, sizeof request);
  EXPECT(request.arg_len <= slot_size - sizeof request);
  memset(&response, 0, sizeof response);
  response.magic = RPC_MAGIC_RESPONSE;
  response.result_len = request.arg_len;
  response.request_id = request.request_id;
  response.ptp_timestamp = request.ptp_timestamp;
  const uint8_t *in = (const uint8_t *)rx_slot + sizeof request;
  uint8_t *out = (uint8_t *)tx_slot + sizeof response;
  for (uint32_t i = 0; i < request.arg_len; ++i)
    out[i] = (uint8_t)(in[i] + 1);
  memcpy(tx_slot, &response, sizeof response);
}

static inline void increment_entry(cudaq_function_entry_t *entry) {
  memset(entry, 0, sizeof *entry);
  entry->handler.host_fn = &increment;
  entry->function_id = INCREMENT;
  entry->dispatch_mode = CUDAQ_DISPATCH_HOST_CALL;
}

static inline cudaq_dispatcher_config_t host_config(uint32_t slots, uint32_t slot) {
  cudaq_dispatcher_config_t config;
  memset(&config, 0, sizeof config);
  config.num_slots = slots;
  config.slot_size = slot;
  config.dispatch_mode = CUDAQ_DISPATCH_HOST_CALL;
  config.dispatch_path = CUDAQ_DISPATCH_PATH_HOST;
  return config;
}

/* Waits for a response, ten seconds at most: against hanging, not to measure. */
static inline cudaq_tx_status_t await_response(const cudaq_ringbuffer_t *ring, uint32_t slot, int *error) {
  for (time_t end = time(NULL) + 10; time(NULL) < end;) {
    cudaq_tx_status_t status = cudaq_host_ringbuffer_poll_tx_flag(ring, slot, error);
    if (status == CUDAQ_TX_READY || status == CUDAQ_TX_ERROR)
      return status;
  }
  return CUDAQ_TX_EMPTY;
}

static inline RPCResponse response_of(const cudaq_ringbuffer_t *ring, uint32_t slot) {
  RPCResponse response;
  memcpy(&response, ring->tx_data_host + slot * ring->tx_stride_sz, sizeof response);
  return response;
}

/* One request, its answer checked for the frame, the slot freed; its status. */
static inline int32_t ask(const cudaq_ringbuffer_t *ring, uint32_t slot, uint32_t function, const void *payload,
                          uint32_t len, uint32_t id) {
  EXPECT(cudaq_host_ringbuffer_slot_available(ring, slot) == 1);
  EXPECT_OK(cudaq_host_ringbuffer_write_rpc_request(ring, slot, function, payload, len, id, id * 1000u));
  cudaq_host_ringbuffer_signal_slot(ring, slot);
  EXPECT(await_response(ring, slot, NULL) == CUDAQ_TX_READY);
  RPCResponse response = response_of(ring, slot);
  EXPECT(response.magic == RPC_MAGIC_RESPONSE && response.request_id == id && response.ptp_timestamp == id * 1000u);
  cudaq_host_ringbuffer_clear_slot(ring, slot);
  return response.status;
}
#endif

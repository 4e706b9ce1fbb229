/* The wiring example of unified dispatch, over an adapter without hardware: its peer writes requests into pages, a thread answers them from
 * the queues. With a GPU the same is hsb_device.cu. */
#include "ringcall_hsb.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call)                                                                                          \
  do {                                                                                                       \
    cudaq_status_t status_ = (call);                                                                         \
    if (status_ != CUDAQ_OK) {                                                                               \
      fprintf(stderr, "%s: status %d: %s\n", #call, (int)status_, ringcall_last_error());                    \
      exit(1);                                                                                               \
    }                                                                                                        \
  } while (0)

enum { PAGES = 64, PAGE_BYTES = 256, PARITY = 0x70617269 };

/* The parity of a syndrome's bytes. */
static void parity(const void *rx_slot, void *tx_slot, size_t slot_size) {
  RPCHeader request;
  memcpy(&request, rx_slot, sizeof request);
  const uint8_t *syndrome = (const uint8_t *)rx_slot + sizeof request;
  uint8_t sum = 0;
  for (uint32_t i = 0; i < request.arg_len && sizeof request + i < slot_size; ++i)
    sum ^= syndrome[i];
  RPCResponse response = {RPC_MAGIC_RESPONSE, 0, 1, request.request_id, request.ptp_timestamp};
  memcpy(tx_slot, &response, sizeof response);
  ((uint8_t *)tx_slot)[sizeof response] = sum;
}

int main(int argc, char **argv) {
  const uint32_t requests = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 20000;
  ringcall_hsb_t transceiver = NULL;
  CHECK(ringcall_hsb_create(PAGE_BYTES, PAGES, -1, &transceiver));

  HSB_doca_transport_ctx ctx = {0};
  ctx.gpu_dev_qp = HSB_get_gpu_dev_qp(transceiver);
  ctx.rx_ring_data = HSB_get_rx_ring_data_addr(transceiver);
  ctx.rx_ring_stride_sz = HSB_get_page_size(transceiver);
  ctx.rx_ring_mkey = htonl(HSB_get_rkey(transceiver));
  ctx.rx_ring_stride_num = HSB_get_num_pages(transceiver);
  ctx.frame_size = PAGE_BYTES;

  cudaq_dispatcher_config_t config;
  memset(&config, 0, sizeof config);
  config.kernel_type = CUDAQ_KERNEL_UNIFIED;
  config.dispatch_path = CUDAQ_DISPATCH_PATH_HOST;
  config.dispatch_mode = CUDAQ_DISPATCH_HOST_CALL;

  cudaq_function_entry_t entry;
  memset(&entry, 0, sizeof entry);
  entry.handler.host_fn = parity;
  entry.function_id = PARITY;
  entry.dispatch_mode = CUDAQ_DISPATCH_HOST_CALL;
  cudaq_function_table_t table = {&entry, 1};

  volatile int shutdown_flag = 0;
  uint64_t stats = 0;
  cudaq_dispatch_manager_t *manager = NULL;
  cudaq_dispatcher_t *dispatcher = NULL;
  CHECK(cudaq_dispatch_manager_create(&manager));
  CHECK(cudaq_dispatcher_create(manager, &config, &dispatcher));
  CHECK(cudaq_dispatcher_set_unified_launch(dispatcher, &HSB_launch_unified_dispatch, &ctx));
  CHECK(cudaq_dispatcher_set_function_table(dispatcher, &table));
  CHECK(cudaq_dispatcher_set_control(dispatcher, &shutdown_flag, &stats));
  CHECK(cudaq_dispatcher_start(dispatcher));

  /* The peer: as many requests under way as there are pages. Answers may come in another order:
   * `first` is the oldest request without an answer, and a page is written again when all older requests have one. */
  uint8_t frame[PAGE_BYTES];
  bool has_answer[PAGES] = {false};
  uint32_t sent = 0, first = 0;
  while (first < requests) {
    for (; sent < requests && sent - first < PAGES; ++sent) {
      RPCHeader header = {RPC_MAGIC_REQUEST, PARITY, 16, sent, 0};
      memset(frame, 0, sizeof header + 16);
      memcpy(frame, &header, sizeof header);
      frame[sizeof header + sent % 16] = (uint8_t)sent;
      CHECK(ringcall_hsb_write(transceiver, sent % PAGES, frame, sizeof header + 16));
    }
    size_t bytes = 0;
    CHECK(ringcall_hsb_receive(transceiver, frame, sizeof frame, 30000, &bytes));
    RPCResponse response;
    memcpy(&response, frame, sizeof response);
    const uint32_t id = response.request_id;
    if (bytes != sizeof response + 1 || response.status != 0 || id - first >= sent - first ||
        has_answer[id % PAGES] || frame[sizeof response] != (uint8_t)id) {
      fprintf(stderr, "requests %u to %u: %zu bytes, status %d, request %u\n", first, sent, bytes,
              response.status, id);
      return 1;
    }
    has_answer[id % PAGES] = true;
    for (; first < sent && has_answer[first % PAGES]; ++first)
      has_answer[first % PAGES] = false;
  }

  CHECK(cudaq_dispatcher_stop(dispatcher));
  uint64_t processed = 0;
  CHECK(cudaq_dispatcher_get_processed(dispatcher, &processed));
  CHECK(cudaq_dispatcher_destroy(dispatcher));
  CHECK(cudaq_dispatch_manager_destroy(manager));
  CHECK(ringcall_hsb_destroy(transceiver));
  printf("%llu requests answered from the adapter's queues\n", (unsigned long long)processed);
  return processed == requests ? 0 : 1;
}

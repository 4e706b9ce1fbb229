/* Unified loops on the host over the queues of an adapter without hardware: all forms of contexts, launches one after the other, contexts
 * that are refused, and loops that end by themselves. */
#include "ringcall_hsb.h"
#include "program.h"
#include <arpa/inet.h>

enum { PAGES = 8, PAGE = 128, REQUESTS = 400 };

typedef struct {
  cudaq_dispatch_manager_t *manager;
  cudaq_dispatcher_t *dispatcher;
  cudaq_function_entry_t entries[1];
  cudaq_function_table_t table;
  volatile int shutdown;
  uint64_t stats;
} service_t;

static void make_service(service_t *service) {
  memset(service, 0, sizeof *service);
  increment_entry(&service->entries[0]);
  service->table.entries = service->entries;
  service->table.count = 1;
  cudaq_dispatcher_config_t config;
  memset(&config, 0, sizeof config);
  config.kernel_type = CUDAQ_KERNEL_UNIFIED;
  config.dispatch_path = CUDAQ_DISPATCH_PATH_HOST;
  config.dispatch_mode = CUDAQ_DISPATCH_HOST_CALL;
  EXPECT_OK(cudaq_dispatch_manager_create(&service->manager));
  EXPECT_OK(cudaq_dispatcher_create(service->manager, &config, &service->dispatcher));
  EXPECT_OK(cudaq_dispatcher_set_function_table(service->dispatcher, &service->table));
  EXPECT_OK(cudaq_dispatcher_set_control(service->dispatcher, &service->shutdown, &service->stats));
  EXPECT_OK(ringcall_dispatcher_set_stop_ms(service->dispatcher, 60000));
}

static void end_service(service_t *service) {
  EXPECT_OK(cudaq_dispatcher_destroy(service->dispatcher));
  EXPECT_OK(cudaq_dispatch_manager_destroy(service->manager));
}

static cudaq_status_t start(service_t *service) {
  service->shutdown = 0;
  return cudaq_dispatcher_start(service->dispatcher);
}

/* A request into a page; the function is `increment`, or another. */
static void request(ringcall_hsb_t adapter, uint32_t id, uint32_t function) {
  uint8_t frame[PAGE];
  RPCHeader header;
  memset(&header, 0, sizeof header);
  header.magic = RPC_MAGIC_REQUEST;
  header.function_id = function;
  header.arg_len = 4;
  header.request_id = id;
  memcpy(frame, &header, sizeof header);
  memcpy(frame + sizeof header, &id, sizeof id);
  EXPECT_OK(ringcall_hsb_write(adapter, id % PAGES, frame, sizeof header + sizeof id));
}

static RPCResponse answer(ringcall_hsb_t adapter, uint8_t *result, size_t *len) {
  uint8_t frame[PAGE];
  RPCResponse response;
  size_t bytes = 0;
  EXPECT_OK(ringcall_hsb_receive(adapter, frame, sizeof frame, 60000, &bytes));
  EXPECT(bytes >= sizeof response && bytes <= PAGE);
  memcpy(&response, frame, sizeof response);
  *len = bytes - sizeof response;
  memcpy(result, frame + sizeof response, *len);
  EXPECT(response.magic == RPC_MAGIC_RESPONSE && response.result_len == *len);
  return response;
}

/* As many under way as there are pages, one in eight for a function that is not there. */
static void ask_and_check(ringcall_hsb_t adapter, uint32_t count) {
  uint32_t sent = 0;
  for (uint32_t id = 0; id < count; ++id) {
    for (; sent < count && sent - id < PAGES; ++sent)
      request(adapter, sent, sent % 8 == 7 ? 0xbad : INCREMENT);
    uint8_t result[PAGE];
    size_t len = 0;
    RPCResponse response = answer(adapter, result, &len);
    EXPECT(response.request_id == id);
    if (id % 8 == 7) {
      EXPECT(response.status == RINGCALL_STATUS_UNKNOWN_FUNCTION && len == 0);
    } else {
      EXPECT(response.status == 0 && len == 4 && result[0] == (uint8_t)(id + 1));
    }
  }
}

static HSB_doca_transport_ctx wired(ringcall_hsb_t adapter) {
  HSB_doca_transport_ctx ctx;
  memset(&ctx, 0, sizeof ctx);
  ctx.gpu_dev_qp = HSB_get_gpu_dev_qp(adapter);
  ctx.rx_ring_data = HSB_get_rx_ring_data_addr(adapter);
  ctx.rx_ring_stride_sz = HSB_get_page_size(adapter);
  ctx.rx_ring_mkey = htonl(HSB_get_rkey(adapter));
  ctx.rx_ring_stride_num = HSB_get_num_pages(adapter);
  ctx.frame_size = PAGE;
  return ctx;
}

static ringcall_context72 wired72(ringcall_hsb_t adapter) {
  ringcall_context own;
  EXPECT_OK(ringcall_hsb_get_context(adapter, &own));
  ringcall_context72 ctx;
  memset(&ctx, 0, sizeof ctx);
  ctx.gpu_dev_qp = HSB_get_gpu_dev_qp(adapter);
  ctx.rx_ring_data = HSB_get_rx_ring_data_addr(adapter);
  ctx.rx_ring_stride_sz = own.rx_stride;
  ctx.rx_ring_stride_num = own.slots;
  ctx.tx_ring_data = (uint8_t *)(uintptr_t)own.tx_data;
  ctx.tx_ring_stride_sz = own.tx_stride;
  ctx.tx_ring_mkey = own.tx_mkey;
  ctx.frame_size = own.frame_bytes;
  return ctx;
}

/* Three launches over one adapter, each with another form: each goes on in the queues where the one before has ended. */
static void check_forms(void) {
  service_t service;
  ringcall_hsb_t adapter = NULL;
  EXPECT_OK(ringcall_hsb_create(PAGE, PAGES, -1, &adapter));
  make_service(&service);
  HSB_doca_transport_ctx ctx48 = wired(adapter);
  ringcall_context72 ctx72 = wired72(adapter);
  ringcall_context own;
  EXPECT_OK(ringcall_hsb_get_context(adapter, &own));
  EXPECT(own.magic == RINGCALL_CONTEXT_MAGIC && own.bytes == sizeof own && own.slots == PAGES);
  for (int form = 0; form < 4; ++form) {
    if (form == 0)
      EXPECT_OK(cudaq_dispatcher_set_unified_launch(service.dispatcher, &HSB_launch_unified_dispatch, &ctx48));
    else if (form == 1)
      EXPECT_OK(cudaq_dispatcher_set_unified_launch_v2(service.dispatcher, &HSB_launch_unified_dispatch_v2, &ctx72));
    else if (form == 2)
      EXPECT_OK(cudaq_dispatcher_set_unified_launch(service.dispatcher, &HSB_launch_unified_dispatch, &own));
    else
      EXPECT_OK(cudaq_dispatcher_set_unified_launch_v2(service.dispatcher, &HSB_launch_unified_dispatch_v2, &own));
    EXPECT_OK(start(&service));
    EXPECT_INVALID(ringcall_hsb_destroy(adapter)); /* it is worked */
    ask_and_check(adapter, REQUESTS);
    EXPECT_OK(cudaq_dispatcher_stop(service.dispatcher));
    uint64_t processed = 0;
    EXPECT_OK(cudaq_dispatcher_get_processed(service.dispatcher, &processed));
    EXPECT(processed == REQUESTS - REQUESTS / 8 && service.stats == processed);
  }
  /* What comes between two launches is answered by the second. */
  request(adapter, 0, INCREMENT);
  EXPECT_OK(start(&service));
  uint8_t result[PAGE];
  size_t len = 0;
  EXPECT(answer(adapter, result, &len).request_id == 0 && len == 4);
  end_service(&service); /* which stops it */
  EXPECT_OK(ringcall_hsb_destroy(adapter));
  EXPECT_INVALID(ringcall_hsb_destroy(adapter));
  EXPECT(HSB_get_gpu_dev_qp(adapter) == NULL && HSB_get_num_pages(adapter) == 0);
}

/* A start is refused, and says `word`. */
static void refused(service_t *service, const char *word) {
  EXPECT(start(service) != CUDAQ_OK);
  EXPECT(strstr(ringcall_last_error(), word) != NULL);
}

#define CONTEXT_WITH(field, value, word)                                                                     \
  do {                                                                                                       \
    HSB_doca_transport_ctx ctx = wired(adapter);                                                             \
    ctx.field = (value);                                                                                     \
    EXPECT_OK(cudaq_dispatcher_set_unified_launch(service.dispatcher, &HSB_launch_unified_dispatch, &ctx)); \
    refused(&service, word);                                                                                 \
  } while (0)

static void foreign_launch(void *ctx, cudaq_function_entry_t *table, size_t count, volatile int *shutdown,
                           uint64_t *stats, cudaStream_t stream) {
  (void)ctx, (void)table, (void)count, (void)shutdown, (void)stats, (void)stream;
}

static void check_refusals(void) {
  service_t service;
  ringcall_hsb_t adapter = NULL, other = NULL;
  EXPECT_OK(ringcall_hsb_create(PAGE, PAGES, -1, &adapter));
  EXPECT_OK(ringcall_hsb_create(PAGE, PAGES, -1, &other));
  make_service(&service);
  CONTEXT_WITH(gpu_dev_qp, NULL, "not of an adapter");
  CONTEXT_WITH(gpu_dev_qp, &service, "not of an adapter");
  CONTEXT_WITH(rx_ring_data, NULL, "request slot 0");
  CONTEXT_WITH(rx_ring_data, HSB_get_rx_ring_data_addr(other), "request slot 0");
  CONTEXT_WITH(rx_ring_stride_sz, PAGE * 2, "the request stride");
  CONTEXT_WITH(rx_ring_stride_num, PAGES * 2, "the number of slots");
  CONTEXT_WITH(rx_ring_mkey, HSB_get_rkey(adapter), "key"); /* not in the network's order */
  CONTEXT_WITH(frame_size, 8, "a response's bytes");
  CONTEXT_WITH(frame_size, PAGE + 16, "a response's bytes");
  ringcall_context72 ctx72 = wired72(adapter);
  ctx72.tx_ring_data = ctx72.rx_ring_data;
  EXPECT_OK(cudaq_dispatcher_set_unified_launch_v2(service.dispatcher, &HSB_launch_unified_dispatch_v2, &ctx72));
  refused(&service, "response slot 0");
  ringcall_context own;
  EXPECT_OK(ringcall_hsb_get_context(adapter, &own));
  own.version = 9;
  EXPECT_OK(cudaq_dispatcher_set_unified_launch(service.dispatcher, &HSB_launch_unified_dispatch, &own));
  refused(&service, "version 9");
  HSB_doca_transport_ctx good = wired(adapter);
  EXPECT_OK(cudaq_dispatcher_set_unified_launch(service.dispatcher, &HSB_launch_unified_dispatch,
                                                   (char *)&good + 4));
  refused(&service, "aligned");
  EXPECT_OK(cudaq_dispatcher_set_unified_launch(service.dispatcher, &foreign_launch, &good));
  refused(&service, "no loop on the host");
  /* Functions of a device are not for a thread. */
  EXPECT_OK(cudaq_dispatcher_set_unified_launch(service.dispatcher, &HSB_launch_unified_dispatch, &good));
  service.entries[0].dispatch_mode = CUDAQ_DISPATCH_DEVICE_CALL;
  refused(&service, "HOST_CALL");
  service.entries[0].dispatch_mode = CUDAQ_DISPATCH_HOST_CALL;
  /* One loop at a time. */
  service_t second;
  make_service(&second);
  EXPECT_OK(cudaq_dispatcher_set_unified_launch(second.dispatcher, &HSB_launch_unified_dispatch, &good));
  EXPECT_OK(start(&service));
  refused(&second, "worked already");
  ask_and_check(adapter, 16);
  EXPECT_OK(cudaq_dispatcher_stop(service.dispatcher));
  EXPECT_OK(start(&second));
  ask_and_check(adapter, 16);
  end_service(&second);

  EXPECT_INVALID(ringcall_hsb_create(PAGE + 8, PAGES, -1, &other));
  EXPECT_INVALID(ringcall_hsb_create(PAGE, 3, -1, &other));
  EXPECT_INVALID(ringcall_hsb_create(PAGE, 0, -1, &other));
  EXPECT_INVALID(ringcall_hsb_create(PAGE, PAGES, -2, &other));
  EXPECT_INVALID(ringcall_hsb_create(PAGE, PAGES, -1, NULL));
  uint8_t frame[PAGE + 1] = {0};
  size_t bytes = 1;
  EXPECT_INVALID(ringcall_hsb_write(adapter, PAGES, frame, 1));
  EXPECT_INVALID(ringcall_hsb_write(adapter, 0, frame, sizeof frame));
  EXPECT_INVALID(ringcall_hsb_write(adapter, 0, NULL, 1));
  EXPECT_INVALID(ringcall_hsb_receive(adapter, NULL, 0, 0, &bytes));
  EXPECT_INVALID(ringcall_hsb_receive(adapter, frame, sizeof frame, 0, NULL));
  EXPECT_OK(ringcall_hsb_receive(adapter, frame, sizeof frame, 0, &bytes));
  EXPECT(bytes == 0);
  EXPECT_INVALID(ringcall_hsb_write(NULL, 0, frame, 1));
  EXPECT_INVALID(ringcall_hsb_get_context(adapter, NULL));
  end_service(&service);
  EXPECT_OK(ringcall_hsb_destroy(adapter));
  EXPECT_OK(ringcall_hsb_destroy(other));
}

/* Three kernels are for a device and for an adapter of their own. */
static void check_three(void) {
  ringcall_hsb_t adapter = NULL, three = NULL;
  EXPECT_INVALID(ringcall_hsb_create_for_three(PAGE, PAGES, -1, &three));
  EXPECT(strstr(ringcall_last_error(), "three kernels run on a device") != NULL);
  EXPECT_INVALID(ringcall_hsb_create_for_three(PAGE + 8, PAGES, 0, &three));
  EXPECT_INVALID(ringcall_hsb_create_for_three(PAGE, 0, 0, &three));
  EXPECT(strstr(ringcall_last_error(), "0 pages") != NULL);
  EXPECT_INVALID(ringcall_hsb_create_for_three(PAGE, 3, 0, &three));
  EXPECT(strstr(ringcall_last_error(), "a power of two") != NULL);
  EXPECT_INVALID(ringcall_hsb_create_for_three(PAGE, PAGES, 0, NULL));
  EXPECT(three == NULL);
  service_t service;
  EXPECT_OK(ringcall_hsb_create(PAGE, PAGES, -1, &adapter));
  make_service(&service);
  HSB_doca_transport_ctx ctx = wired(adapter);
  EXPECT_OK(cudaq_dispatcher_set_unified_launch(service.dispatcher, &ringcall_hsb_launch_three_dispatch, &ctx));
  refused(&service, "three kernels run on a device");
  end_service(&service);
  EXPECT_OK(ringcall_hsb_destroy(adapter));
}

/* The queue pair breaks: the calls notice that the loop has ended, the stop says why, and the adapter can be ended. */
static void check_breaks(void) {
  service_t service;
  ringcall_hsb_t adapter = NULL;
  EXPECT_OK(ringcall_hsb_create(PAGE, PAGES, -1, &adapter));
  make_service(&service);
  HSB_doca_transport_ctx ctx = wired(adapter);
  EXPECT_OK(cudaq_dispatcher_set_unified_launch(service.dispatcher, &HSB_launch_unified_dispatch, &ctx));
  EXPECT_OK(start(&service));
  ask_and_check(adapter, 32);
  EXPECT_OK(ringcall_hsb_break(adapter));
  uint8_t frame[PAGE];
  size_t bytes = 0;
  EXPECT(ringcall_hsb_receive(adapter, frame, sizeof frame, 60000, &bytes) == CUDAQ_ERR_INTERNAL);
  EXPECT(strstr(ringcall_last_error(), "error state") != NULL);
  EXPECT(ringcall_hsb_write(adapter, 0, frame, 24) == CUDAQ_ERR_INTERNAL);
  uint64_t processed = 0;
  time_t end = time(NULL) + 60;
  while (cudaq_dispatcher_get_processed(service.dispatcher, &processed) == CUDAQ_OK)
    EXPECT(time(NULL) < end);
  EXPECT(strstr(ringcall_last_error(), "error state") != NULL);
  EXPECT(cudaq_dispatcher_stop(service.dispatcher) == CUDAQ_ERR_INTERNAL);
  EXPECT(strstr(ringcall_last_error(), "error state") != NULL);
  EXPECT_OK(cudaq_dispatcher_stop(service.dispatcher)); /* it does not run */
  EXPECT_OK(cudaq_dispatcher_get_processed(service.dispatcher, &processed));
  EXPECT(processed == 28);
  refused(&service, "cannot be worked any more");
  end_service(&service);
  EXPECT_OK(ringcall_hsb_destroy(adapter));
}

int main(void) {
  check_forms();
  check_refusals();
  check_three();
  check_breaks();
  return 0;
}

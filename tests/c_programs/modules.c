/* Device code handed over as data: what is refused, and when. */
#include "program.h"

enum { SLOTS = 4, SLOT = 64 };

static const char PTX[] = ".version 8.0\n.target sm_80\n.address_size 64\n";
static const unsigned char CUBIN[8] = {0x7F, 'E', 'L', 'F'}, FATBIN[8] = {0x50, 0xED, 0x55, 0xBA};

static cudaq_dispatcher_t *create(cudaq_dispatch_manager_t *manager, cudaq_dispatch_path_t path,
                                  cudaq_kernel_type_t kernel, cudaq_dispatch_mode_t mode) {
  cudaq_dispatcher_t *dispatcher = NULL;
  cudaq_dispatcher_config_t config = host_config(SLOTS, SLOT);
  config.dispatch_path = path;
  config.kernel_type = kernel;
  config.dispatch_mode = mode;
  EXPECT_OK(cudaq_dispatcher_create(manager, &config, &dispatcher));
  return dispatcher;
}

static void a_launch(volatile uint64_t *a, volatile uint64_t *b, uint8_t *c, uint8_t *d, size_t e, size_t f,
                     cudaq_function_entry_t *g, size_t h, volatile int *i, uint64_t *j, size_t k, uint32_t l,
                     uint32_t m, cudaStream_t n) {
  (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h, (void)i, (void)j, (void)k, (void)l;
  (void)m, (void)n;
}

int main(void) {
  cudaq_dispatch_manager_t *manager;
  EXPECT_OK(cudaq_dispatch_manager_create(&manager));
  const ringcall_module_kind_t ptx = RINGCALL_MODULE_PTX;

  /* Dispatchers that have no such thing. */
  cudaq_dispatcher_t *others[] = {
      create(manager, CUDAQ_DISPATCH_PATH_HOST, CUDAQ_KERNEL_REGULAR, CUDAQ_DISPATCH_HOST_CALL),
      create(manager, CUDAQ_DISPATCH_PATH_DEVICE, CUDAQ_KERNEL_UNIFIED, CUDAQ_DISPATCH_DEVICE_CALL),
      create(manager, CUDAQ_DISPATCH_PATH_DEVICE, CUDAQ_KERNEL_REGULAR, CUDAQ_DISPATCH_GRAPH_LAUNCH),
  };
  for (int i = 0; i < 3; ++i) {
    EXPECT_INVALID(ringcall_dispatcher_add_module(others[i], ptx, PTX, sizeof PTX));
    EXPECT_INVALID(ringcall_dispatcher_add_function(others[i], 1, "f", NULL));
    EXPECT_OK(cudaq_dispatcher_destroy(others[i]));
    EXPECT_INVALID(ringcall_dispatcher_add_module(others[i], ptx, PTX, sizeof PTX));
  }
  EXPECT_INVALID(ringcall_dispatcher_add_module(NULL, ptx, PTX, sizeof PTX));
  EXPECT_INVALID(ringcall_dispatcher_add_function(NULL, 1, "f", NULL));

  cudaq_dispatcher_t *dispatcher =
      create(manager, CUDAQ_DISPATCH_PATH_DEVICE, CUDAQ_KERNEL_REGULAR, CUDAQ_DISPATCH_DEVICE_CALL);
  cudaq_ringbuffer_t ring = make_ring(SLOTS, SLOT);
  volatile int shutdown = 0;
  uint64_t stats = 0;
  EXPECT_OK(cudaq_dispatcher_set_ringbuffer(dispatcher, &ring));
  EXPECT_OK(cudaq_dispatcher_set_control(dispatcher, &shutdown, &stats));

  /* Modules. */
  EXPECT_INVALID(ringcall_dispatcher_add_module(dispatcher, ptx, NULL, 8));
  EXPECT_INVALID(ringcall_dispatcher_add_module(dispatcher, ptx, PTX, 0));
  EXPECT_INVALID(ringcall_dispatcher_add_module(dispatcher, ptx, PTX, SIZE_MAX));
  EXPECT_INVALID(ringcall_dispatcher_add_module(dispatcher, (ringcall_module_kind_t)0, PTX, sizeof PTX));
  EXPECT_INVALID(ringcall_dispatcher_add_module(dispatcher, (ringcall_module_kind_t)4, PTX, sizeof PTX));
  EXPECT_INVALID(ringcall_dispatcher_add_module(dispatcher, ptx, "no target", 9));
  EXPECT_INVALID(ringcall_dispatcher_add_module(dispatcher, ptx, "\xFF\xFE", 2));
  EXPECT_INVALID(ringcall_dispatcher_add_module(dispatcher, ptx, ".target sm_80\0.func", 19));
  EXPECT_INVALID(ringcall_dispatcher_add_module(dispatcher, RINGCALL_MODULE_CUBIN, PTX, sizeof PTX));
  EXPECT_INVALID(ringcall_dispatcher_add_module(dispatcher, RINGCALL_MODULE_CUBIN, CUBIN, 2));
  EXPECT_INVALID(ringcall_dispatcher_add_module(dispatcher, RINGCALL_MODULE_FATBIN, CUBIN, sizeof CUBIN));

  /* Functions. */
  cudaq_handler_schema_t schema;
  memset(&schema, 0, sizeof schema);
  EXPECT_INVALID(ringcall_dispatcher_add_function(dispatcher, 1, NULL, NULL));
  EXPECT_INVALID(ringcall_dispatcher_add_function(dispatcher, 1, "", NULL));
  EXPECT_INVALID(ringcall_dispatcher_add_function(dispatcher, 1, "9f", NULL));
  EXPECT_INVALID(ringcall_dispatcher_add_function(dispatcher, 1, "f; .func g", NULL));
  schema.num_args = 200;
  EXPECT_INVALID(ringcall_dispatcher_add_function(dispatcher, 1, "f", &schema));
  schema.num_args = 1;
  schema.args[0].type_id = CUDAQ_TYPE_UINT8;
  schema.args[0].size_bytes = schema.args[0].num_elements = 1;
  EXPECT_OK(ringcall_dispatcher_add_function(dispatcher, 1, "_Z1fPKvPvjjPj", &schema));
  EXPECT_INVALID(ringcall_dispatcher_add_function(dispatcher, 1, "g", NULL));

  /* Half of it is not enough, and a table beside it too much. */
  EXPECT_INVALID(cudaq_dispatcher_start(dispatcher));
  EXPECT(strstr(ringcall_last_error(), "ringcall_dispatcher_add_module") != NULL);
  EXPECT_OK(ringcall_dispatcher_add_module(dispatcher, ptx, PTX, sizeof PTX));
  EXPECT_OK(ringcall_dispatcher_add_module(dispatcher, ptx, PTX, sizeof PTX - 1));
  EXPECT_OK(ringcall_dispatcher_add_module(dispatcher, RINGCALL_MODULE_CUBIN, CUBIN, sizeof CUBIN));
  EXPECT_OK(ringcall_dispatcher_add_module(dispatcher, RINGCALL_MODULE_FATBIN, FATBIN, sizeof FATBIN));
  if (getenv("RINGCALL_TEST_NO_CUDA")) {
    EXPECT(cudaq_dispatcher_start(dispatcher) == CUDAQ_ERR_CUDA);
    EXPECT(ringcall_last_error()[0] != 0);
  }
  EXPECT_OK(cudaq_dispatcher_set_launch_fn(dispatcher, a_launch));
  EXPECT_INVALID(cudaq_dispatcher_start(dispatcher));

  EXPECT_OK(cudaq_dispatcher_destroy(dispatcher));
  EXPECT_OK(cudaq_dispatch_manager_destroy(manager));
  free_ring(&ring);
  puts("ok");
  return 0;
}

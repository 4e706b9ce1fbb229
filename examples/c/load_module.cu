// Handlers that are data: a module of device code is read from a file and linked with the dispatch kernel when the dispatcher
// starts. No device archive, no -rdc: this program has no device code of its own.
//   load_module FILE.ptx|FILE.cubin|FILE.fatbin
#include "device.h"

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

int main(int argc, char **argv) {
  const std::string file = argc == 2 ? argv[1] : "";
  const std::string ending = file.substr(file.rfind('.') + 1);
  ringcall_module_kind_t kind = RINGCALL_MODULE_PTX;
  if (ending == "cubin")
    kind = RINGCALL_MODULE_CUBIN;
  else if (ending == "fatbin")
    kind = RINGCALL_MODULE_FATBIN;
  else if (ending != "ptx") {
    std::fprintf(stderr, "usage: load_module FILE.ptx|FILE.cubin|FILE.fatbin\n");
    return 2;
  }
  std::ifstream stream(file, std::ios::binary);
  const std::vector<char> module{std::istreambuf_iterator<char>(stream), {}};
  if (!have_device())
    return 0;

  Ring ring;
  cudaq_dispatch_manager_t *manager = nullptr;
  cudaq_dispatcher_t *dispatcher = nullptr;
  const cudaq_dispatcher_config_t config = device_config();
  CHECK(cudaq_dispatch_manager_create(&manager));
  CHECK(cudaq_dispatcher_create(manager, &config, &dispatcher));
  ring.wire(dispatcher);
  const std::uint32_t mock_decode = cudaq::realtime::fnv1a_hash("mock_decode");
  CHECK(ringcall_dispatcher_add_module(dispatcher, kind, module.data(), module.size()));
  CHECK(ringcall_dispatcher_add_function(dispatcher, mock_decode, "mock_decode", nullptr));
  CHECK(cudaq_dispatcher_start(dispatcher));
  ring.ask_for_parities(mock_decode);
  CHECK(cudaq_dispatcher_stop(dispatcher));
  CHECK(cudaq_dispatcher_destroy(dispatcher));

  // A symbol that is not there is the linker's to name.
  *ring.shutdown_flag.host = 0;
  CHECK(cudaq_dispatcher_create(manager, &config, &dispatcher));
  ring.wire(dispatcher);
  CHECK(ringcall_dispatcher_add_module(dispatcher, kind, module.data(), module.size()));
  CHECK(ringcall_dispatcher_add_function(dispatcher, mock_decode, "no_such_handler", nullptr));
  if (cudaq_dispatcher_start(dispatcher) != CUDAQ_ERR_CUDA || !std::strstr(ringcall_last_error(), "no_such_handler")) {
    std::fprintf(stderr, "a missing symbol: %s\n", ringcall_last_error());
    return 1;
  }
  CHECK(cudaq_dispatcher_destroy(dispatcher));
  CHECK(cudaq_dispatch_manager_destroy(manager));
  std::printf("ran: 1000 requests answered on the device by a handler of %s\n", file.c_str());
  return 0;
}

// A handler in CUDA C++, asked over UDP: the bridge provider's thread moves datagrams between the network and a ring of pinned
// memory (--pinned-rings), which the dispatch kernel polls. Built with nvcc -rdc=true and the device archive.
#include "parity.cuh"

#include "cudaq/realtime/cpu_transport/udp_wrapper.h"
#include "cudaq/realtime/daemon/bridge/bridge_interface.h"

namespace {

constexpr std::uint32_t slots = 8, slot_bytes = 256;

// Waits for the flag of the caller's next answer, for two seconds at most.
bool answered(cpu_udp_transceiver_t caller, std::uint32_t *slot) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (!cpu_udp_rx_poll(caller, slot))
    if (std::chrono::steady_clock::now() > end)
      return false;
  return true;
}

} // namespace

int main(int argc, char **argv) {
  if (!have_device())
    return 0;
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s PATH-OF-libcudaq-realtime-bridge-udp.so\n", argv[0]);
    return 2;
  }
  cudaq_realtime_bridge_handle_t bridge = nullptr;
  char program[] = "udp_device", pinned[] = "--pinned-rings", number[] = "--num-slots=8", size[] = "--slot-size=256";
  char *arguments[] = {program, pinned, number, size};
  CHECK(cudaq_bridge_create_from_library(&bridge, argv[1], 4, arguments));
  cudaq_ringbuffer_t ring{};
  CHECK(cudaq_bridge_get_transport_context(bridge, RING_BUFFER, &ring));
  char endpoint[256] = {};
  CHECK(cudaq_bridge_get_endpoint_info(bridge, endpoint, sizeof endpoint));

  Mapped<int> shutdown_flag{1};
  Mapped<std::uint64_t> stats{1};
  cudaq_dispatch_manager_t *manager = nullptr;
  cudaq_dispatcher_t *dispatcher = nullptr;
  cudaq_dispatcher_config_t config = device_config();
  config.num_slots = slots;
  config.slot_size = slot_bytes;
  CHECK(cudaq_dispatch_manager_create(&manager));
  CHECK(cudaq_dispatcher_create(manager, &config, &dispatcher));
  CHECK(cudaq_dispatcher_set_ringbuffer(dispatcher, &ring));
  CHECK(cudaq_dispatcher_set_control(dispatcher, shutdown_flag.device, stats.device));
  ParityTable table;
  CHECK(cudaq_dispatcher_set_function_table(dispatcher, &table));
  CHECK(cudaq_dispatcher_set_launch_fn(dispatcher, &cudaq_launch_dispatch_kernel_regular));
  CHECK(cudaq_dispatcher_start(dispatcher));
  CHECK(cudaq_bridge_connect(bridge));
  CHECK(cudaq_bridge_launch(bridge));

  // `transport=udp port=N`.
  const char *at = std::strstr(endpoint, " port=");
  const auto port = static_cast<std::uint16_t>(at ? std::atoi(at + std::strlen(" port=")) : 0);
  cpu_udp_transceiver_t caller = cpu_udp_create_transceiver(slot_bytes, slots);
  if (!cpu_udp_set_unified(caller, 1) || !cpu_udp_connect(caller, "127.0.0.1", port) || !cpu_udp_start(caller)) {
    std::fprintf(stderr, "no caller for %s\n", endpoint);
    std::_Exit(1);
  }
  auto *requests = reinterpret_cast<std::uint8_t *>(cpu_udp_get_tx_ring_data_addr(caller));
  auto *answers = reinterpret_cast<std::uint8_t *>(cpu_udp_get_rx_ring_data_addr(caller));
  for (std::uint32_t id = 0; id < 1000; ++id) {
    write_parity_request(requests + id % slots * slot_bytes, slot_bytes, id);
    std::uint32_t slot = 0;
    if (!cpu_udp_tx_publish(caller, id % slots) || !answered(caller, &slot)) {
      std::fprintf(stderr, "request %u: no answer\n", id);
      std::_Exit(1); // not exit, which would wait for the kernel
    }
    check_parity_answer(answers + slot * slot_bytes, id);
  }

  cpu_udp_destroy_transceiver(caller);
  CHECK(cudaq_bridge_disconnect(bridge));
  CHECK(cudaq_dispatcher_stop(dispatcher));
  CHECK(cudaq_dispatcher_destroy(dispatcher));
  CHECK(cudaq_dispatch_manager_destroy(manager));
  CHECK(cudaq_bridge_destroy(bridge));
  std::printf("ran: 1000 requests over UDP (%s) answered on the device\n", endpoint);
  return 0;
}

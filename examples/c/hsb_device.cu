// The wiring example of unified dispatch on a GPU, over an adapter without hardware whose queues the device maps: its peer writes requests
// into pages, and the unified kernel answers them from the queues with a handler in CUDA C++. Built with nvcc -rdc=true and the device
// archive.
#include "hsb_queues.cuh"

int main(int argc, char **argv) {
  if (!have_device())
    return 0;
  const std::uint32_t requests = requests_of(argc, argv);
  ringcall_hsb_t transceiver = nullptr;
  CHECK(ringcall_hsb_create(page_bytes, pages, 0, &transceiver));
  serve_queues(transceiver, &HSB_launch_unified_dispatch, requests);
  CHECK(ringcall_hsb_destroy(transceiver));
  std::printf("ran: %u requests answered on the device from the adapter's queues\n", requests);
  return 0;
}

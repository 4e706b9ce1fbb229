// The same with three kernels in the place of one: a receiver fills a ring from the queues, a dispatcher serves it with a handler in CUDA
// C++, and a sender takes the answers to the adapter. Built with nvcc -rdc=true and the device archive.
#include "hsb_queues.cuh"

int main(int argc, char **argv) {
  if (!have_device())
    return 0;
  const std::uint32_t requests = requests_of(argc, argv);
  ringcall_hsb_t transceiver = nullptr;
  CHECK(ringcall_hsb_create_for_three(page_bytes, pages, 0, &transceiver));
  serve_queues(transceiver, &ringcall_hsb_launch_three_dispatch, requests);
  CHECK(ringcall_hsb_destroy(transceiver));
  std::printf("ran: %u requests answered on the device by three kernels\n", requests);
  return 0;
}

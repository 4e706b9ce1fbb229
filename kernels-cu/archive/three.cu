// The launch function of a receiver, a dispatcher and a sender for programs that link their handlers with the dispatcher: an object of its
// own, so that the kernels are linked only into programs that name it.

#include <cuda_runtime.h>

#include "ringcall_hsb.h"

// ringcall_wire::launch::DispatchParams, and ringcall_wire::unified::RelayParams.
struct alignas(8) DispatchParams {
  unsigned char bytes[128];
};
struct alignas(8) RelayParams {
  unsigned char bytes[272];
};
extern "C" __global__ void ringcall_relay_receive(RelayParams);
extern "C" __global__ void ringcall_dispatch(DispatchParams);
extern "C" __global__ void ringcall_relay_send(RelayParams);

// libringcall's side (host/c/src/hsb/api.rs).
extern "C" int ringcall_linked_three(int device, cudaFunction_t receive, cudaFunction_t dispatch, cudaFunction_t send,
                                     void *transport_ctx, cudaq_function_entry_t *function_table, size_t func_count,
                                     volatile int *shutdown_flag, uint64_t *stats);

namespace {

// Null without the kernel on the current device: the library says what is wrong.
cudaFunction_t function_of(const void *kernel) {
  cudaFunction_t function = nullptr;
  return cudaGetFuncBySymbol(&function, kernel) == cudaSuccess ? function : nullptr;
}

} // namespace

extern "C" void ringcall_hsb_launch_three_dispatch(void *transport_ctx, cudaq_function_entry_t *function_table,
                                                   size_t func_count, volatile int *shutdown_flag, uint64_t *stats,
                                                   cudaStream_t) {
  int device = -1;
  if (cudaGetDevice(&device) != cudaSuccess)
    device = -1;
  ringcall_linked_three(device, function_of(reinterpret_cast<const void *>(&ringcall_relay_receive)),
                        function_of(reinterpret_cast<const void *>(&ringcall_dispatch)),
                        function_of(reinterpret_cast<const void *>(&ringcall_relay_send)), transport_ctx,
                        function_table, func_count, shutdown_flag, stats);
}

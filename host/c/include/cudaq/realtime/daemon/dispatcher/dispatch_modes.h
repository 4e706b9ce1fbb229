/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The dispatch modes: the enumeration is in cudaq_realtime.h; for CUDA C++ the two ways in which a kernel runs a handler. The
 * library's own kernels do not use them: they are for kernels of a program's own that are written in these terms. */
#ifndef CUDAQ_REALTIME_DISPATCH_MODES_H
#define CUDAQ_REALTIME_DISPATCH_MODES_H
#include "cudaq/realtime/daemon/dispatcher/cudaq_realtime.h"

#ifdef __CUDACC__

namespace cudaq {
namespace realtime {

/// The kernel calls the handler, a device function that takes a context first.
struct DeviceCallMode {
  template <typename Handler, typename Context, typename... Arguments>
  static __device__ void dispatch(Handler handler, Context &context, Arguments... arguments) {
    handler(context, arguments...);
  }
};

/// The kernel launches a graph: `context` has a `graph_exec`, instantiated for launches from the device, and a `stream`, one of
/// the device's named streams. A null `graph_exec`, or an architecture before sm_90, launches nothing.
struct GraphLaunchMode {
  template <typename Context> static __device__ void dispatch(Context &context) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    if (context.graph_exec != nullptr)
      cudaGraphLaunch(context.graph_exec, context.stream);
#else
    (void)context;
#endif
  }
};

} // namespace realtime
} // namespace cudaq
#endif
#endif

/* Sizes, offsets and numbers as C and C++ have them, a line each: for a comparison with Rust. Both headers are read. */
#include <stdio.h>

#include "cudaq/realtime/cpu_transport/udp_wrapper.h"
#include "cudaq/realtime/daemon/bridge/bridge_interface.h"

#define SIZE(type) printf("%s %zu\n", #type, sizeof(type))
#define AT(type, member) printf("%s.%s %zu\n", #type, #member, offsetof(type, member))
#define NUMBER(name) printf("%s %d\n", #name, (int)name)

int main(void) {
  SIZE(cudaq_ringbuffer_t);
  AT(cudaq_ringbuffer_t, rx_flags);
  AT(cudaq_ringbuffer_t, tx_flags);
  AT(cudaq_ringbuffer_t, rx_data);
  AT(cudaq_ringbuffer_t, tx_data);
  AT(cudaq_ringbuffer_t, rx_stride_sz);
  AT(cudaq_ringbuffer_t, tx_stride_sz);
  AT(cudaq_ringbuffer_t, rx_flags_host);
  AT(cudaq_ringbuffer_t, tx_flags_host);
  AT(cudaq_ringbuffer_t, rx_data_host);
  AT(cudaq_ringbuffer_t, tx_data_host);
  SIZE(cudaq_unified_dispatch_ctx_t);
  AT(cudaq_unified_dispatch_ctx_t, launch_fn);
  AT(cudaq_unified_dispatch_ctx_t, transport_ctx);
  SIZE(cudaq_cpu_dataplane_t);
  AT(cudaq_cpu_dataplane_t, ctx);
  AT(cudaq_cpu_dataplane_t, ring);
  AT(cudaq_cpu_dataplane_t, rx_poll);
  AT(cudaq_cpu_dataplane_t, tx_publish);
  SIZE(cudaq_realtime_bridge_interface_t);
  AT(cudaq_realtime_bridge_interface_t, version);
  AT(cudaq_realtime_bridge_interface_t, create);
  AT(cudaq_realtime_bridge_interface_t, destroy);
  AT(cudaq_realtime_bridge_interface_t, get_transport_context);
  AT(cudaq_realtime_bridge_interface_t, connect);
  AT(cudaq_realtime_bridge_interface_t, launch);
  AT(cudaq_realtime_bridge_interface_t, disconnect);
  AT(cudaq_realtime_bridge_interface_t, get_cpu_dataplane);
  AT(cudaq_realtime_bridge_interface_t, get_endpoint_info);
  AT(cudaq_realtime_bridge_interface_t, get_ring_geometry);
  AT(cudaq_realtime_bridge_interface_t, set_function_table);
  SIZE(cudaq_function_table_t);
  AT(cudaq_function_table_t, entries);
  AT(cudaq_function_table_t, count);
  SIZE(cudaq_status_t);
  NUMBER(CUDAQ_OK);
  NUMBER(CUDAQ_ERR_INVALID_ARG);
  NUMBER(CUDAQ_ERR_INTERNAL);
  NUMBER(CUDAQ_ERR_CUDA);
  NUMBER(CUDAQ_ERR_UNSUPPORTED);
  NUMBER(CUDAQ_PROVIDER_GPU_ROCE);
  NUMBER(CUDAQ_PROVIDER_EXTERNAL);
  NUMBER(RING_BUFFER);
  NUMBER(UNIFIED);
  NUMBER(CUDAQ_RX_READY);
  NUMBER(CUDAQ_RX_EMPTY);
  NUMBER(CUDAQ_REALTIME_BRIDGE_INTERFACE_VERSION);
  return 0;
}

#include "layout.h"

// Every header that a C++ program may name compiles, also without CUDA.
#include "cudaq/realtime/cpu_transport/roce_wrapper.h"
#include "cudaq/realtime/daemon/dispatcher/dispatch_kernel.cuh"

using namespace cudaq::realtime;

CHECK(sizeof(RPCHeader) == 24 && alignof(RPCHeader) == 1);
CHECK(sizeof(RPCResponse) == 24 && alignof(RPCResponse) == 1);
AT(RPCHeader, arg_len, 8);
AT(RPCHeader, request_id, 12);
AT(RPCHeader, ptp_timestamp, 16);
AT(RPCResponse, result_len, 8);
CHECK(sizeof(GraphIOContext) == 40);
AT(GraphIOContext, tx_slot, 8);
AT(GraphIOContext, tx_flag, 16);
AT(GraphIOContext, tx_flag_value, 24);
AT(GraphIOContext, tx_stride_sz, 32);
// The packed twins.
CHECK(sizeof(cudaq::realtime::cudaq_type_desc_t) == 12 && alignof(cudaq::realtime::cudaq_type_desc_t) == 1);
CHECK(sizeof(cudaq::realtime::cudaq_handler_schema_t) == 148);
AT(cudaq::realtime::cudaq_handler_schema_t, results, 100);
// Published check values.
CHECK(fnv1a_hash("rpc_increment") == 0x191b6322 && fnv1a_hash("mock_decode") == 0x6c45a6d6);
CHECK(int(TYPE_BIT_PACKED) == int(CUDAQ_TYPE_BIT_PACKED));
CHECK(int(TYPE_ARRAY_FLOAT64) == int(CUDAQ_TYPE_ARRAY_FLOAT64));
CHECK(int(TYPE_UINT32) == int(CUDAQ_TYPE_UINT32) && int(TYPE_UINT32) == 0x11);

int main() { return 0; }

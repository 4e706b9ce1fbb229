/* Sizes and offsets, for C and C++: the numbers of host/c/src/layout.rs and of ringcall-wire. */
#include "cudaq/realtime/daemon/bridge/cpu_dataplane.h"
#include "cudaq/realtime/daemon/dispatcher/graph_launch_engine.h"

#ifdef __cplusplus
#define CHECK(condition) static_assert(condition, #condition)
#else
#define CHECK(condition) _Static_assert(condition, #condition)
#endif
#define AT(type, field, offset) CHECK(offsetof(type, field) == offset)

CHECK(sizeof(cudaq_status_t) == 4);
CHECK(sizeof(cudaq_dispatch_path_t) == 4 && sizeof(cudaq_kernel_type_t) == 4);
CHECK(CUDAQ_OK == 0 && CUDAQ_ERR_INVALID_ARG == 1 && CUDAQ_ERR_INTERNAL == 2 && CUDAQ_ERR_CUDA == 3);
CHECK(CUDAQ_ERR_UNSUPPORTED == 4);
CHECK(CUDAQ_DISPATCH_PATH_DEVICE == 0 && CUDAQ_DISPATCH_PATH_HOST == 1);
CHECK(CUDAQ_KERNEL_REGULAR == 0 && CUDAQ_KERNEL_COOPERATIVE == 1 && CUDAQ_KERNEL_UNIFIED == 2);
CHECK(CUDAQ_DISPATCH_DEVICE_CALL == 0 && CUDAQ_DISPATCH_GRAPH_LAUNCH == 1 && CUDAQ_DISPATCH_HOST_CALL == 2);
CHECK(CUDAQ_TX_EMPTY == 0 && CUDAQ_TX_IN_FLIGHT == 1 && CUDAQ_TX_ERROR == 2 && CUDAQ_TX_READY == 3);
CHECK(CUDAQ_RX_READY == 0 && CUDAQ_RX_EMPTY == 1);

CHECK(sizeof(cudaq_type_desc_t) == 12);
AT(cudaq_type_desc_t, type_id, 0);
AT(cudaq_type_desc_t, size_bytes, 4);
AT(cudaq_type_desc_t, num_elements, 8);

CHECK(sizeof(cudaq_handler_schema_t) == 148);
AT(cudaq_handler_schema_t, num_args, 0);
AT(cudaq_handler_schema_t, num_results, 1);
AT(cudaq_handler_schema_t, reserved, 2);
AT(cudaq_handler_schema_t, args, 4);
AT(cudaq_handler_schema_t, results, 100);

CHECK(sizeof(cudaq_function_entry_t) == CUDAQ_REALTIME_ENTRY_BYTES);
AT(cudaq_function_entry_t, handler, 0);
AT(cudaq_function_entry_t, function_id, 8);
AT(cudaq_function_entry_t, dispatch_mode, 12);
AT(cudaq_function_entry_t, reserved, 13);
AT(cudaq_function_entry_t, schema, 16);
#if CUDAQ_REALTIME_ENTRY_BYTES == 176
AT(cudaq_function_entry_t, routing_key, 168);
#elif CUDAQ_REALTIME_ENTRY_BYTES == 192
AT(cudaq_function_entry_t, mailbox_idx, 164);
AT(cudaq_function_entry_t, d_queue_idx, 168);
AT(cudaq_function_entry_t, d_ready_flags, 176);
AT(cudaq_function_entry_t, d_inflight_flag, 184);
#endif

CHECK(sizeof(cudaq_function_table_t) == 16);
AT(cudaq_function_table_t, entries, 0);
AT(cudaq_function_table_t, count, 8);

CHECK(sizeof(cudaq_dispatcher_config_t) == 44);
AT(cudaq_dispatcher_config_t, device_id, 0);
AT(cudaq_dispatcher_config_t, num_blocks, 4);
AT(cudaq_dispatcher_config_t, threads_per_block, 8);
AT(cudaq_dispatcher_config_t, num_slots, 12);
AT(cudaq_dispatcher_config_t, slot_size, 16);
AT(cudaq_dispatcher_config_t, vp_id, 20);
AT(cudaq_dispatcher_config_t, kernel_type, 24);
AT(cudaq_dispatcher_config_t, dispatch_mode, 28);
AT(cudaq_dispatcher_config_t, dispatch_path, 32);
AT(cudaq_dispatcher_config_t, backend, 32);
AT(cudaq_dispatcher_config_t, skip_tx_markers, 36);
AT(cudaq_dispatcher_config_t, shared_ring_mode, 40);

CHECK(sizeof(cudaq_ringbuffer_t) == 80);
AT(cudaq_ringbuffer_t, rx_flags, 0);
AT(cudaq_ringbuffer_t, tx_flags, 8);
AT(cudaq_ringbuffer_t, rx_data, 16);
AT(cudaq_ringbuffer_t, tx_data, 24);
AT(cudaq_ringbuffer_t, rx_stride_sz, 32);
AT(cudaq_ringbuffer_t, tx_stride_sz, 40);
AT(cudaq_ringbuffer_t, rx_flags_host, 48);
AT(cudaq_ringbuffer_t, tx_flags_host, 56);
AT(cudaq_ringbuffer_t, rx_data_host, 64);
AT(cudaq_ringbuffer_t, tx_data_host, 72);

CHECK(sizeof(cudaq_unified_dispatch_ctx_t) == 16);
AT(cudaq_unified_dispatch_ctx_t, transport_ctx, 8);

CHECK(sizeof(cudaq_host_dispatch_worker_t) == 64);
AT(cudaq_host_dispatch_worker_t, graph_exec, 0);
AT(cudaq_host_dispatch_worker_t, stream, 8);
AT(cudaq_host_dispatch_worker_t, function_id, 16);
AT(cudaq_host_dispatch_worker_t, pre_launch_fn, 24);
AT(cudaq_host_dispatch_worker_t, pre_launch_data, 32);
AT(cudaq_host_dispatch_worker_t, post_launch_fn, 40);
AT(cudaq_host_dispatch_worker_t, post_launch_data, 48);
AT(cudaq_host_dispatch_worker_t, routing_key, 56);

CHECK(sizeof(cudaq_graph_launch_engine_t) == 152);
AT(cudaq_graph_launch_engine_t, workers, 80);
AT(cudaq_graph_launch_engine_t, num_workers, 88);
AT(cudaq_graph_launch_engine_t, worker_mask, 96);
AT(cudaq_graph_launch_engine_t, idle_mask, 104);
AT(cudaq_graph_launch_engine_t, inflight_slot_tags, 112);
AT(cudaq_graph_launch_engine_t, h_mailbox_bank, 120);
AT(cudaq_graph_launch_engine_t, io_ctxs_host, 128);
AT(cudaq_graph_launch_engine_t, io_ctxs_dev, 136);
AT(cudaq_graph_launch_engine_t, skip_tx_markers, 144);
AT(cudaq_graph_launch_engine_t, owns_mailbox, 148);

CHECK(sizeof(cudaq_cpu_dataplane_t) == 104);
AT(cudaq_cpu_dataplane_t, ring, 8);
AT(cudaq_cpu_dataplane_t, rx_poll, 88);
AT(cudaq_cpu_dataplane_t, tx_publish, 96);

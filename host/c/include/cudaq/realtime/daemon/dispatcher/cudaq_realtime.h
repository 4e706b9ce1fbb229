/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The C interface of Ringcall: the CUDA-Q Realtime host API.
 *
 * Rules that hold for every call
 *   Ownership   Structs passed in are copied. Memory that they point to (rings, tables, flags, mailboxes) stays the
 *               caller's, and stays valid and mapped from cudaq_dispatcher_start until cudaq_dispatcher_stop has returned
 *               CUDAQ_OK. Handles are names, not addresses: a null, foreign or destroyed one gives
 *               CUDAQ_ERR_INVALID_ARG, also the second time.
 *   Threads     Any thread may call anything; calls on one dispatcher are serialised, but for
 *               cudaq_dispatcher_get_processed, which never waits. (The reference wants one thread.)
 *   Errors      CUDAQ_ERR_INVALID_ARG for pointers, numbers and order of calls; CUDAQ_ERR_CUDA when CUDA is missing or a
 *               call of it failed; CUDAQ_ERR_UNSUPPORTED for what this machine or build cannot do; CUDAQ_ERR_INTERNAL for
 *               faults of the library, and for a stop that ran out of time. ringcall_last_error() says more. A call that
 *               fails has changed nothing, and its out parameters are as they were.
 *   Blocking    Only where it says so, and then with a bound.
 *
 * Versions: see "Which generation of the API" below.
 */
#ifndef CUDAQ_REALTIME_H
#define CUDAQ_REALTIME_H

#include <stddef.h>
#include <stdint.h>

#include "cudaq/realtime/daemon/dispatcher/rpc_wire_format.h"

/*
 * CUDA's types. With CUDA's headers on the include path they come from there; elsewhere (or with RINGCALL_NO_CUDA_HEADERS)
 * they are declared here: opaque pointers, and an int in the place of the error enumeration.
 */
#if !defined(RINGCALL_NO_CUDA_HEADERS) && defined(__has_include)
#if __has_include(<cuda_runtime.h>)
#include <cuda_runtime.h>
#define RINGCALL_HAS_CUDA_HEADERS 1
#endif
#endif
#ifndef RINGCALL_HAS_CUDA_HEADERS
typedef struct CUstream_st *cudaStream_t;
typedef struct CUgraphExec_st *cudaGraphExec_t;
typedef int cudaError_t;
#endif

/*
 * Which generation of the API. Define CUDAQ_REALTIME_ENTRY_BYTES before including this header:
 *   176  the default: entries with a routing key
 *   168  entries without one (the published specification)
 *   192  entries with a mailbox index and three backpressure pointers (the oldest)
 * The headers then tell the library with each dispatcher, engine or loop that is made. Programs that are relinked without being compiled
 * again against this header have 176-byte entries, or call ringcall_dispatcher_set_entry_bytes.
 *
 * Four functions came to have other signatures under the same names. C++ selects by overload, so source code of either
 * generation compiles as it is. What the exported symbols are, and what C calls by the plain name:
 *   cudaq_create_dispatch_graph_regular, and cudaq_graph_launch_engine_create and _acquire of graph_launch_engine.h: the
 *     reference's signature of today, so that objects compiled against its headers are not misread; the specification's
 *     has the suffix _v1. C code for the latter calls that name, or defines CUDAQ_REALTIME_API_VERSION as 1. (The suffix
 *     _v2, which today's signature had in earlier versions of this library, stays.)
 *   cudaq_dispatcher_set_unified_launch: the specification's signature; the later one has the suffix _v2. C code for the
 *     latter calls that name, or defines CUDAQ_REALTIME_API_VERSION as 2.
 */
#ifndef CUDAQ_REALTIME_ENTRY_BYTES
#define CUDAQ_REALTIME_ENTRY_BYTES 176
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Handles, statuses, enumerations. Enumerations are 4-byte ints. ---- */

typedef struct cudaq_dispatch_manager_t cudaq_dispatch_manager_t;
typedef struct cudaq_dispatcher_t cudaq_dispatcher_t;
typedef struct cudaq_dispatch_graph_context cudaq_dispatch_graph_context;

typedef enum {
  CUDAQ_OK = 0,
  CUDAQ_ERR_INVALID_ARG = 1,
  CUDAQ_ERR_INTERNAL = 2,
  CUDAQ_ERR_CUDA = 3,
  CUDAQ_ERR_UNSUPPORTED = 4
} cudaq_status_t;

typedef enum { CUDAQ_DISPATCH_PATH_DEVICE = 0, CUDAQ_DISPATCH_PATH_HOST = 1 } cudaq_dispatch_path_t;

/* The dispatch path under its earlier name. */
typedef cudaq_dispatch_path_t cudaq_backend_t;
#define CUDAQ_BACKEND_DEVICE_KERNEL CUDAQ_DISPATCH_PATH_DEVICE
#define CUDAQ_BACKEND_HOST_LOOP CUDAQ_DISPATCH_PATH_HOST

typedef enum {
  CUDAQ_KERNEL_REGULAR = 0,
  CUDAQ_KERNEL_COOPERATIVE = 1,
  CUDAQ_KERNEL_UNIFIED = 2
} cudaq_kernel_type_t;

typedef enum {
  CUDAQ_DISPATCH_DEVICE_CALL = 0,
  CUDAQ_DISPATCH_GRAPH_LAUNCH = 1,
  CUDAQ_DISPATCH_HOST_CALL = 2
} cudaq_dispatch_mode_t;

typedef enum {
  CUDAQ_TX_EMPTY = 0,     /* no response yet */
  CUDAQ_TX_IN_FLIGHT = 1, /* accepted, response to come */
  CUDAQ_TX_ERROR = 2,     /* failed */
  CUDAQ_TX_READY = 3      /* response there */
} cudaq_tx_status_t;

typedef enum {
  CUDAQ_TYPE_UINT8 = 0x10,
  CUDAQ_TYPE_INT32 = 0x11,
  CUDAQ_TYPE_INT64 = 0x12,
  CUDAQ_TYPE_FLOAT32 = 0x13,
  CUDAQ_TYPE_FLOAT64 = 0x14,
  CUDAQ_TYPE_ARRAY_UINT8 = 0x20,
  CUDAQ_TYPE_ARRAY_INT32 = 0x21,
  CUDAQ_TYPE_ARRAY_FLOAT32 = 0x22,
  CUDAQ_TYPE_ARRAY_FLOAT64 = 0x23,
  CUDAQ_TYPE_BIT_PACKED = 0x30
} cudaq_payload_type_t;

/* The Messaging Protocol's examples name TYPE_UINT32 for a count and give it no number: four bytes, little-endian, as INT32. */
#define CUDAQ_TYPE_UINT32 CUDAQ_TYPE_INT32

/* ---- Structs. Sizes and offsets are asserted in C, C++ and Rust. ---- */

/* One argument or result: 12 bytes. */
typedef struct cudaq_type_desc_t {
  uint8_t type_id; /* cudaq_payload_type_t */
  uint8_t reserved[3];
  uint32_t size_bytes;
  uint32_t num_elements; /* 1 for scalars, elements of arrays, bits of BIT_PACKED */
} cudaq_type_desc_t;

/* Arguments and results: 148 bytes. A table's schemas are not looked at, and may be left unwritten, unless the dispatcher is told
 * to check them: see ringcall_dispatcher_set_check_schemas. */
typedef struct cudaq_handler_schema_t {
  uint8_t num_args;
  uint8_t num_results;
  uint16_t reserved;
  cudaq_type_desc_t args[8];
  cudaq_type_desc_t results[4];
} cudaq_handler_schema_t;

/*
 * A function on the host. Reads header and payload at `rx_slot`, writes a response header and the result at `tx_slot`;
 * both are 8-byte aligned, do not overlap, and are valid for the call. `slot_size` is the smaller of the two slots.
 * Runs on the dispatcher's thread, must return soon, and must not throw or unwind.
 *
 * Compatibility: the slots are private copies, so nothing the transport does can change a request under the handler.
 * request_id and ptp_timestamp of the response are the request's, whatever the handler wrote. A handler that writes no
 * response magic is answered with status RINGCALL_STATUS_ABANDONED; a result_len beyond the slot is cut and reported as
 * RINGCALL_STATUS_RESULT_TOO_LONG.
 */
typedef void (*cudaq_host_rpc_fn_t)(const void *rx_slot, void *tx_slot, size_t slot_size);

/* One function of a table. Zero it before filling it. */
typedef struct cudaq_function_entry_t {
  union {
    void *device_fn_ptr;         /* CUDAQ_DISPATCH_DEVICE_CALL */
    cudaGraphExec_t graph_exec;  /* CUDAQ_DISPATCH_GRAPH_LAUNCH */
    cudaq_host_rpc_fn_t host_fn; /* CUDAQ_DISPATCH_HOST_CALL */
  } handler;
  uint32_t function_id;  /* FNV-1a of the name */
  uint8_t dispatch_mode; /* cudaq_dispatch_mode_t */
  uint8_t reserved[3];
  cudaq_handler_schema_t schema;
#if CUDAQ_REALTIME_ENTRY_BYTES == 176
  /* Which of several GRAPH_LAUNCH entries of one function: the request's first eight payload bytes. 0: any request.
   * Only looked at where several entries have one function_id. */
  uint64_t routing_key;
#elif CUDAQ_REALTIME_ENTRY_BYTES == 192
  /* Of a GRAPH_LAUNCH; not looked at in others. The n-th graph's mailbox is the n-th of the bank, from 0: another index but 0 is
   * refused, and so is a table with one of the pointers set (CUDAQ_ERR_UNSUPPORTED). */
  uint32_t mailbox_idx;
  int *d_queue_idx;
  volatile int *d_ready_flags;
  int *d_inflight_flag;
#elif CUDAQ_REALTIME_ENTRY_BYTES != 168
#error "CUDAQ_REALTIME_ENTRY_BYTES is 168, 176 or 192"
#endif
} cudaq_function_entry_t;

/* A table: 16 bytes. `entries` is a host address on the host path, a device-visible one on the device path. */
typedef struct cudaq_function_table_t {
  cudaq_function_entry_t *entries;
  uint32_t count;
} cudaq_function_table_t;

/* 44 bytes. Zero it before filling it: zero means the default. */
typedef struct cudaq_dispatcher_config_t {
  int device_id;              /* default 0; negative is refused */
  uint32_t num_blocks;        /* 0: 1 */
  uint32_t threads_per_block; /* 0: 32; at most 1024 */
  uint32_t num_slots;         /* required (not for UNIFIED, where it helps); on the host at most 2^20, our kernels 4096 */
  uint32_t slot_size;         /* required (not for UNIFIED): a multiple of 8, at least 24 */
  uint32_t vp_id;             /* a label; not looked at */
  cudaq_kernel_type_t kernel_type;
  cudaq_dispatch_mode_t dispatch_mode;
  __extension__ union {
    cudaq_dispatch_path_t dispatch_path;
    cudaq_backend_t backend; /* the earlier name */
  };
  int skip_tx_markers;  /* not 0: no in-flight mark in response flags */
  /* Not 0: other dispatchers serve this ring too (nobody does UNIFIED's on the host: not looked at). Their tables must have no
   * function in common that both would serve: the second of two in one process is refused at its start. */
  int shared_ring_mode;
} cudaq_dispatcher_config_t;

/*
 * A ring: 80 bytes. Zero it before filling it. The device path uses the first six fields; the host path the four _host
 * fields (the same memory as this process sees it) and the strides, and the device fields where graphs are launched.
 * rx_data may be tx_data: responses then take their requests' places.
 */
typedef struct cudaq_ringbuffer_t {
  volatile uint64_t *rx_flags; /* num_slots words, 8-byte aligned; not 0: a request is there */
  volatile uint64_t *tx_flags; /* num_slots words, 8-byte aligned; not 0: see cudaq_tx_status_t */
  uint8_t *rx_data;            /* num_slots * rx_stride_sz bytes, 8-byte aligned */
  uint8_t *tx_data;            /* num_slots * tx_stride_sz bytes, 8-byte aligned */
  size_t rx_stride_sz;         /* bytes of a request slot: a multiple of 8, at least slot_size */
  size_t tx_stride_sz;         /* bytes of a response slot: likewise */
  volatile uint64_t *rx_flags_host;
  volatile uint64_t *tx_flags_host;
  uint8_t *rx_data_host;
  uint8_t *tx_data_host;
} cudaq_ringbuffer_t;

/* Launches a dispatch kernel on `stream` and returns. What cudaq_dispatcher_start calls on the device path. */
typedef void (*cudaq_dispatch_launch_fn_t)(volatile uint64_t *rx_flags, volatile uint64_t *tx_flags,
                                           uint8_t *rx_data, uint8_t *tx_data, size_t rx_stride_sz,
                                           size_t tx_stride_sz, cudaq_function_entry_t *function_table,
                                           size_t func_count, volatile int *shutdown_flag, uint64_t *stats,
                                           size_t num_slots, uint32_t num_blocks, uint32_t threads_per_block,
                                           cudaStream_t stream);

/* Launches a transport's unified kernel: the specification's signature, and the later one. */
typedef void (*cudaq_unified_launch_fn_v1_t)(void *transport_ctx, cudaq_function_entry_t *function_table,
                                             size_t func_count, volatile int *shutdown_flag, uint64_t *stats,
                                             cudaStream_t stream);
typedef void (*cudaq_unified_launch_fn_v2_t)(void *transport_ctx, size_t tx_stride_sz,
                                             cudaq_function_entry_t *function_table, size_t func_count,
                                             volatile int *shutdown_flag, uint64_t *stats, cudaStream_t stream);
#if defined(CUDAQ_REALTIME_API_VERSION) && CUDAQ_REALTIME_API_VERSION >= 2
typedef cudaq_unified_launch_fn_v2_t cudaq_unified_launch_fn_t;
#else
typedef cudaq_unified_launch_fn_v1_t cudaq_unified_launch_fn_t;
#endif

/* What a transport offers to a unified dispatcher: 16 bytes. */
typedef struct cudaq_unified_dispatch_ctx_t {
  cudaq_unified_launch_fn_t launch_fn;
  void *transport_ctx;
} cudaq_unified_dispatch_ctx_t;

/* ---- Manager ---- */

/* Makes the owner of dispatchers. Does not touch CUDA. */
cudaq_status_t cudaq_dispatch_manager_create(cudaq_dispatch_manager_t **out_mgr);

/* Ends it. CUDAQ_ERR_INVALID_ARG while it has dispatchers. (The reference leaves those behind.) */
cudaq_status_t cudaq_dispatch_manager_destroy(cudaq_dispatch_manager_t *mgr);

/* ---- Dispatcher ---- */

/*
 * Makes a dispatcher and checks the configuration. Does not touch CUDA.
 * Compatibility: the reference checks nothing here, and takes slot sizes that are no multiple of 8; flags and headers of
 * such slots would be torn, so they are refused.
 */
cudaq_status_t cudaq_dispatcher_create(cudaq_dispatch_manager_t *mgr, const cudaq_dispatcher_config_t *config,
                                       cudaq_dispatcher_t **out_dispatcher);

/* Ends it; a running one is stopped first, as by cudaq_dispatcher_stop, whose error is returned. The handle is gone either
 * way, and nothing is started with it any more. After an error what runs cannot be stopped any more, and all that it was given
 * stays in use: whoever wants to try again calls cudaq_dispatcher_stop before this. */
cudaq_status_t cudaq_dispatcher_destroy(cudaq_dispatcher_t *dispatcher);

/* Wiring. Before cudaq_dispatcher_start, in any order; a second call replaces the first. CUDAQ_ERR_INVALID_ARG while it
 * runs. */
cudaq_status_t cudaq_dispatcher_set_ringbuffer(cudaq_dispatcher_t *dispatcher, const cudaq_ringbuffer_t *ringbuffer);

/*
 * The table's entries are read at cudaq_dispatcher_start, not later; a table on the host path is checked there: modes,
 * handlers, ids that occur twice, and schemas where ringcall_dispatcher_set_check_schemas asks for it.
 */
cudaq_status_t cudaq_dispatcher_set_function_table(cudaq_dispatcher_t *dispatcher,
                                                   const cudaq_function_table_t *table);

/*
 * `shutdown_flag`: 0 at start. Setting it to anything else ends the dispatcher; cudaq_dispatcher_stop sets it to 1.
 * `stats`: 8 bytes, 8-byte aligned; requests dispatched since the start, which sets it to 0, kept up to date by the dispatcher.
 * Host path: host memory, which the dispatcher's thread reads every turn and writes every request: both cost it least in cache
 * lines that no other thread works with (a stack is another thread's). Device path: memory that the device sees.
 */
cudaq_status_t cudaq_dispatcher_set_control(cudaq_dispatcher_t *dispatcher, volatile int *shutdown_flag,
                                            uint64_t *stats);

/* Device path, REGULAR and COOPERATIVE. NULL is refused; so is the host path. */
cudaq_status_t cudaq_dispatcher_set_launch_fn(cudaq_dispatcher_t *dispatcher, cudaq_dispatch_launch_fn_t launch_fn);

/* UNIFIED. `transport_ctx` is passed on as it is. On the host path the launch function starts a thread, as those of ringcall_hsb.h do, and
 * `stream` is null; it and a data plane replace each other. */
cudaq_status_t cudaq_dispatcher_set_unified_launch(cudaq_dispatcher_t *dispatcher,
                                                   cudaq_unified_launch_fn_v1_t unified_launch_fn,
                                                   void *transport_ctx);
/* The later signature. The ring's tx_stride_sz is passed on, or slot_size where no ring is set. */
cudaq_status_t cudaq_dispatcher_set_unified_launch_v2(cudaq_dispatcher_t *dispatcher,
                                                      cudaq_unified_launch_fn_v2_t unified_launch_fn,
                                                      void *transport_ctx);

/* UNIFIED on the host path: a cudaq_cpu_dataplane_t (cudaq/realtime/daemon/bridge/cpu_dataplane.h), copied. */
cudaq_status_t cudaq_dispatcher_set_cpu_dataplane(cudaq_dispatcher_t *dispatcher, void *cpu_dataplane);

/* Host path, optional: a mailbox for GRAPH_LAUNCH workers: pinned, mapped, one pointer for each. Stays the caller's. */
cudaq_status_t cudaq_dispatcher_set_mailbox(cudaq_dispatcher_t *dispatcher, void **h_mailbox_bank);

/*
 * Starts. CUDAQ_ERR_INVALID_ARG if something is not wired, the wiring does not fit, the shutdown flag is set, or it runs.
 * Host path: a thread is there when this returns; CUDA is needed only for GRAPH_LAUNCH entries. Device path: calls the
 * launch function on a new stream; blocks as long as that does.
 * Compatibility: the reference says CUDAQ_OK to a second start.
 */
cudaq_status_t cudaq_dispatcher_start(cudaq_dispatcher_t *dispatcher);

/*
 * Sets the shutdown flag and waits for the end: at most the stop time (2 s; ringcall_dispatcher_set_stop_ms), then
 * CUDAQ_ERR_INTERNAL. Host path: what is in the ring is answered first, and what cannot be within the time is answered
 * RINGCALL_STATUS_SHUTTING_DOWN; UNIFIED first takes what the transport has, until rx_poll says for the first time that there is
 * nothing. CUDAQ_OK for one that does not run.
 *
 * CUDAQ_OK says that nothing of the caller's is touched any more: ring, shutdown flag and stats may be freed. After
 * CUDAQ_ERR_INTERNAL a handler, a kernel or a graph still runs and may write: the call is made again until it says CUDAQ_OK.
 * Meanwhile a graph's slot is left to the graph, and new requests are answered RINGCALL_STATUS_SHUTTING_DOWN; that goes on for
 * ten minutes.
 * Compatibility: the reference waits without bound, and on the device path may wait for ever for its own copy.
 */
cudaq_status_t cudaq_dispatcher_stop(cudaq_dispatcher_t *dispatcher);

/* Requests dispatched: handlers called, graphs launched. Never blocks on the host path; on the device path reads *stats
 * past the running kernel (the reference waits for that kernel), and after a stop says what that has found. 0 before the first
 * start. */
cudaq_status_t cudaq_dispatcher_get_processed(cudaq_dispatcher_t *dispatcher, uint64_t *out_packets);

/* The consumer's word that worker `worker_id` has been taken care of. Host path with graphs, while it runs. */
cudaq_status_t cudaq_host_release_worker(cudaq_dispatcher_t *dispatcher, int worker_id);

/* ---- Kernels. cudaSuccess or CUDA's error number; 100 (cudaErrorNoDevice) without a GPU. ---- */

/*
 * The dispatch kernels, for cudaq_dispatcher_set_launch_fn. They call handlers of the program's own module, so the program
 * is linked with the device archive (nvcc -rdc=true ... -lringcall_device -lringcall). Without it they launch nothing, and
 * cudaq_dispatcher_start returns CUDAQ_ERR_UNSUPPORTED: a handler of another module is never called by address. (Handlers
 * that are linked when the program runs: ringcall_dispatcher_add_module.)
 *
 * A request flag must hold its slot's address, as the device or as the host sees it; others are answered
 * RINGCALL_STATUS_BAD_FLAG. The table is read once, at the launch. Blocks have whole warps and 256 threads at most: the
 * regular kernel rounds threads_per_block, the cooperative one refuses others. Handlers of the regular kernel are called by
 * one thread, several at once; those of the cooperative kernel by every thread of the grid. A thread of the library carries
 * shutdown_flag and stats between the caller and the kernel, within about a millisecond, so both may lie in host or device
 * memory. GRAPH_LAUNCH entries give CUDAQ_ERR_UNSUPPORTED (a dispatch graph, below, serves them), unless the ring is shared: then
 * they are another dispatcher's.
 */
void cudaq_launch_dispatch_kernel_regular(volatile uint64_t *rx_flags, volatile uint64_t *tx_flags, uint8_t *rx_data,
                                          uint8_t *tx_data, size_t rx_stride_sz, size_t tx_stride_sz,
                                          cudaq_function_entry_t *function_table, size_t func_count,
                                          volatile int *shutdown_flag, uint64_t *stats, size_t num_slots,
                                          uint32_t num_blocks, uint32_t threads_per_block, cudaStream_t stream);
void cudaq_launch_dispatch_kernel_cooperative(volatile uint64_t *rx_flags, volatile uint64_t *tx_flags,
                                              uint8_t *rx_data, uint8_t *tx_data, size_t rx_stride_sz,
                                              size_t tx_stride_sz, cudaq_function_entry_t *function_table,
                                              size_t func_count, volatile int *shutdown_flag, uint64_t *stats,
                                              size_t num_slots, uint32_t num_blocks, uint32_t threads_per_block,
                                              cudaStream_t stream);

/* Blocks of a dispatch kernel that fit one multiprocessor (0 on an error), on the current device; loads the kernel. Without
 * the device archive cudaErrorNotSupported. */
cudaError_t cudaq_dispatch_kernel_query_occupancy(int *out_blocks, uint32_t threads_per_block);
cudaError_t cudaq_dispatch_kernel_cooperative_query_occupancy(int *out_blocks, uint32_t threads_per_block);
/* The same of the kernel of a dispatch graph, below. */
cudaError_t ringcall_dispatch_graph_query_occupancy(int *out_blocks, uint32_t threads_per_block);

/* Whether dispatch kernels launched from now on leave requests of other dispatchers alone. Not 0: they do. */
cudaError_t cudaq_dispatch_kernel_set_shared_ring_mode(uint32_t enabled);

/*
 * A dispatch kernel in a graph of its own, which launches graphs (compute capability 9.0). Needs the device archive; one block.
 * DEVICE_CALL and GRAPH_LAUNCH entries are served (on a shared ring the latter are another dispatcher's). Requests for
 * graphs are answered through `graph_io_ctx`: a GraphIOContext in memory that the device can write, which stays until the
 * graph was destroyed; NULL where there are no such entries.
 *
 * A graph of an entry is instantiated with cudaGraphInstantiateFlagDeviceLaunch and uploaded before the first launch, and is
 * launched by nobody else. Its kernels read *graph_io_ctx, write the response (header and result) to tx_slot, then, behind a
 * system-wide fence, tx_flag_value to *tx_flag; from then on they leave the context alone. All graphs share the context, so
 * one at a time runs between launch and answer, and other requests for graphs wait in the ring; DEVICE_CALL entries are
 * served meanwhile. Response flags of such requests hold the in-flight mark until the answer (skip_tx_markers is refused).
 * There are launches without limit: the kernel relaunches itself. A graph should answer last; while one goes on after its
 * answer, the next launch of it waits until all have ended.
 *
 * Answered RINGCALL_STATUS_LAUNCH_FAILED: a request whose graph CUDA does not launch, and one whose graph has ended without an
 * answer. The latter is looked for when a graph has not answered for a second: from then until it has ended nothing else
 * is served. RINGCALL_STATUS_NO_WORKER: none of a function's graphs has the request's routing key.
 *
 * cudaErrorInvalidValue for a null graph, a graph that was not instantiated for device launch, GRAPH_LAUNCH entries without a
 * context, an entry of unknown mode; cudaErrorNotSupported for HOST_CALL entries. ringcall_last_error says which. A handle that
 * is no graph cannot be told from one.
 *
 * Compatibility: as in the reference all graphs read one context; a second launch never overwrites it before the first has
 * answered. A launch that fails is answered. The shutdown flag ends the kernel when the graph that runs has answered or ended;
 * requests for graphs that still wait in the ring then stay there.
 */
/*
 * `trigger_graph` (NULL for none) is a graph as above that is launched when a handler of a DEVICE_CALL entry returns
 * CUDAQ_DISPATCH_STATUS_TRIGGER_GRAPH. The request is answered with status 0 and the handler's result; no later
 * request is served before the graph has ended, so whoever has seen that answer finds its work done. It gets no context. With a
 * trigger graph handlers are called one after the other. If CUDA does not launch it, the status is
 * RINGCALL_STATUS_LAUNCH_FAILED; without one, it is that for every handler that asks.
 */
cudaError_t cudaq_create_dispatch_graph_regular(volatile uint64_t *rx_flags, volatile uint64_t *tx_flags,
                                                uint8_t *rx_data, uint8_t *tx_data, size_t rx_stride_sz,
                                                size_t tx_stride_sz, cudaq_function_entry_t *function_table,
                                                size_t func_count, void *graph_io_ctx, volatile int *shutdown_flag,
                                                uint64_t *stats, size_t num_slots, uint32_t num_blocks,
                                                uint32_t threads_per_block, cudaGraphExec_t trigger_graph,
                                                cudaStream_t stream, cudaq_dispatch_graph_context **out_context);
cudaError_t cudaq_create_dispatch_graph_regular_v2(volatile uint64_t *rx_flags, volatile uint64_t *tx_flags,
                                                   uint8_t *rx_data, uint8_t *tx_data, size_t rx_stride_sz,
                                                   size_t tx_stride_sz, cudaq_function_entry_t *function_table,
                                                   size_t func_count, void *graph_io_ctx, volatile int *shutdown_flag,
                                                   uint64_t *stats, size_t num_slots, uint32_t num_blocks,
                                                   uint32_t threads_per_block, cudaGraphExec_t trigger_graph,
                                                   cudaStream_t stream, cudaq_dispatch_graph_context **out_context);
/* The specification's signature: without a trigger graph. */
cudaError_t cudaq_create_dispatch_graph_regular_v1(volatile uint64_t *rx_flags, volatile uint64_t *tx_flags,
                                                   uint8_t *rx_data, uint8_t *tx_data, size_t rx_stride_sz,
                                                   size_t tx_stride_sz, cudaq_function_entry_t *function_table,
                                                   size_t func_count, void *graph_io_ctx, volatile int *shutdown_flag,
                                                   uint64_t *stats, size_t num_slots, uint32_t num_blocks,
                                                   uint32_t threads_per_block, cudaStream_t stream,
                                                   cudaq_dispatch_graph_context **out_context);
/* Launches and returns. cudaErrorInvalidValue while it runs or another thread launches it, and once it was destroyed. When its
 * stream has been waited for it runs no more; this call and the next then wait for the library's thread beside it, a second at
 * most. That thread is there before the kernel: where the system gives none, nothing is launched (cudaErrorUnknown). */
cudaError_t cudaq_launch_dispatch_graph(cudaq_dispatch_graph_context *context, cudaStream_t stream);
/* After the kernel has ended; cudaErrorInvalidValue while it runs, and the context is there as before. Any thread may call this
 * and the call above at any time, at once too: a launch under way is waited for, a second at most, and what it has launched
 * runs; after this call has succeeded nothing is launched. */
cudaError_t cudaq_destroy_dispatch_graph(cudaq_dispatch_graph_context *context);

/* *trigger_rc while no trigger graph was ever launched. */
#define RINGCALL_TRIGGER_NEVER_FIRED (-1000)
/*
 * What the dispatch graphs of the current device have launched by themselves in this process, those that were destroyed
 * included: for a look at a kernel that hangs, and at any other time.
 *   trigger_rc       CUDA's error code of the last launch of a trigger graph, 0 if it succeeded
 *   fires            launches of trigger graphs, failed ones too; not those of GRAPH_LAUNCH entries
 *   tail_relaunches  how often dispatch graphs have launched themselves again, one that fails and ends its kernel included
 * Each may be NULL, is the caller's, and is written at once. The device is that of the calling thread's current context, 0 where
 * it has none (cudaGetDevice). Any thread may call this at any time; it waits for nothing that runs on the device and touches
 * no stream, whether a kernel runs, hangs or has ended; but not after cudaDeviceReset while a context is not destroyed, whose
 * memory that has taken. A launch is in the figures when the request that asked for it is answered, or before; they never go
 * back, and fires and trigger_rc of a dispatch graph are read of one launch, while it goes on launching, too (unless the device
 * dies in the microsecond in which a launch is told of). cudaErrorNoDevice without a GPU or its driver, and nothing is written.
 * Compatibility: the reference copies from the device, and keeps one set of figures for all kernels of a device's module. Here
 * they are sums over its dispatch graphs, and trigger_rc is that of the one whose launch was the latest. The symbol is the shared
 * library's, so dlsym(RTLD_DEFAULT, ...) finds it where a program is linked with that.
 */
cudaError_t cudaq_dispatch_get_trigger_debug(int *trigger_rc, unsigned long long *fires,
                                             unsigned long long *tail_relaunches);

/* ---- Ring-buffer helpers: the producer's and the consumer's side, on the host views. Never block. ----
 * A ring has no slot count here: slot_idx must be a slot of the ring. A null ring, null views, or a stride that is no
 * multiple of 8 or shorter than a header give CUDAQ_ERR_INVALID_ARG, CUDAQ_TX_EMPTY or 0, or do nothing. */

/* Writes a request into a slot, whole. `payload` may be NULL if payload_len is 0. Does not signal it. */
cudaq_status_t cudaq_host_ringbuffer_write_rpc_request(const cudaq_ringbuffer_t *rb, uint32_t slot_idx,
                                                       uint32_t function_id, const void *payload,
                                                       uint32_t payload_len, uint32_t request_id,
                                                       uint64_t ptp_timestamp);
/* Sets the request flag: to the slot's host address, with release order. */
void cudaq_host_ringbuffer_signal_slot(const cudaq_ringbuffer_t *rb, uint32_t slot_idx);
/* How the response stands, with acquire order. *out_cuda_error (may be NULL) is set for CUDAQ_TX_ERROR. */
cudaq_tx_status_t cudaq_host_ringbuffer_poll_tx_flag(const cudaq_ringbuffer_t *rb, uint32_t slot_idx,
                                                     int *out_cuda_error);
/* 1 if the slot can take a request: both flags are 0. The request flag is read first: the other order may take a slot with
 * a response in it for a free one. */
int cudaq_host_ringbuffer_slot_available(const cudaq_ringbuffer_t *rb, uint32_t slot_idx);
/* Frees the slot after its response was read. */
void cudaq_host_ringbuffer_clear_slot(const cudaq_ringbuffer_t *rb, uint32_t slot_idx);

/* ---- Ringcall's own ---- */

/* Why the last call of this thread failed, in words; "" if none has. Valid until the thread's next failing call. */
const char *ringcall_last_error(void);
/* The library's version, as "0.2.0". */
const char *ringcall_version(void);
/* 168, 176 or 192: the layout of this dispatcher's tables. */
cudaq_status_t ringcall_dispatcher_set_entry_bytes(cudaq_dispatcher_t *dispatcher, size_t bytes);
/* Not 0: schemas of the function table are checked. One that is not valid or does not fit a slot makes cudaq_dispatcher_start
 * fail. A request whose arg_len is not the sum of its function's arguments is answered RINGCALL_STATUS_SCHEMA_MISMATCH; a
 * schema that is all zero takes any length, and so does one whose only argument is a CUDAQ_TYPE_ARRAY_UINT8 with size_bytes
 * and num_elements 0. By default schemas are not looked at, and handlers check arg_len themselves. */
cudaq_status_t ringcall_dispatcher_set_check_schemas(cudaq_dispatcher_t *dispatcher, int check);
/* How long a stop may take, in ms; 500 to 600000. */
cudaq_status_t ringcall_dispatcher_set_stop_ms(cudaq_dispatcher_t *dispatcher, uint32_t stop_ms);
/* What becomes of bad requests: wrong magic, unknown function, a function of another mode. They are counted in any case. */
typedef enum {
  RINGCALL_BAD_REQUESTS_ANSWER = 0, /* each is answered with its status: nobody waits in vain */
  RINGCALL_BAD_REQUESTS_DROP = 1    /* each is taken out of its slot without an answer, as the reference does */
} ringcall_bad_requests_t;
/* For this dispatcher, on the host or on a device. Not called: what the environment's RINGCALL_BAD_REQUESTS says, `answer` (the
 * default) or `drop`; another value makes the start fail. The environment is also for the loops and kernels that no dispatcher
 * starts (cudaq_host_ring_dispatch_loop, cudaq_host_unified_loop, cudaq_launch_dispatch_kernel_*, dispatch graphs), and for
 * this library's bridge providers, which then drop datagrams with a wrong magic or a wrong length. The kernel that calls a linked
 * transport's functions, and those of queue pairs, answer always. */
cudaq_status_t ringcall_dispatcher_set_bad_requests(cudaq_dispatcher_t *dispatcher, ringcall_bad_requests_t bad_requests);
/* Not 0: a warp of a device's dispatcher calls handlers one at a time, in the order of the slots: for handlers that keep state
 * which calls share. By default a warp that sees several requests calls up to 32 handlers side by side, a thread each, which takes
 * a tenth of the time. Warps and blocks call handlers at the same time in either case: with one warp (32 threads, one block) no
 * two calls overlap. Not called: what the environment's RINGCALL_SERIAL_HANDLERS says, 0 (the default) or 1. The environment is
 * also for kernels that no dispatcher starts. Device path. */
cudaq_status_t ringcall_dispatcher_set_serial_handlers(cudaq_dispatcher_t *dispatcher, int serial);
/* The fewest warps of a block, 1 to 8, where threads_per_block asks for fewer: the next request is polled for while one is served. 0: as
 * many as threads_per_block asks for. Handlers of different warps run at the same time. Kernels with a trigger graph and cooperative
 * kernels stay as they are. Not called: what the environment's RINGCALL_WARPS says, 0 by default; it is also for kernels that no
 * dispatcher starts. Device path. */
cudaq_status_t ringcall_dispatcher_set_warps(cudaq_dispatcher_t *dispatcher, uint32_t warps);
/* Not 0: requests for unknown functions are cleared without a response, as the specification says and the reference does.
 * By default they are answered RINGCALL_STATUS_UNKNOWN_FUNCTION, so that nobody waits in vain. Host path. */
cudaq_status_t ringcall_dispatcher_set_clear_unknown(cudaq_dispatcher_t *dispatcher, int clear);
/* Not 0: the caller's word that a graph does nothing after it has set the response flag, and its hooks put nothing behind it: no
 * kernel of it reads its GraphIOContext any more. Its worker is then idle as soon as the request is answered, and a launch is
 * one CUDA call less: nothing is put behind the graph. By default a worker is idle when its graph has ended. A consumer
 * then must not clear the flag of a slot in flight: its worker would be launched again under the running graph. Without effect
 * with skip_tx_markers; only for the host path. */
cudaq_status_t ringcall_dispatcher_set_answer_last(cudaq_dispatcher_t *dispatcher, int last);

/*
 * UNIFIED on the host path: what the transport did wrong since the last start. `out_refused_slots`: requests that rx_poll named
 * in slots that the ring does not have, or that were under way; nobody could be answered. `out_failed_sends`: answers that
 * tx_publish did not take, and which are lost. Both are right after a stop, too. CUDAQ_ERR_INVALID_ARG where no transport was
 * driven.
 */
cudaq_status_t ringcall_dispatcher_get_transport_errors(cudaq_dispatcher_t *dispatcher, uint64_t *out_refused_slots,
                                                        uint64_t *out_failed_sends);

/*
 * Handlers that are data: device code is handed over, and cudaq_dispatcher_start links the dispatch kernel with it. Such a
 * dispatcher is REGULAR or COOPERATIVE, DEVICE_CALL, on the device path; it has ring and control words like every other, and
 * neither launch function nor function table. The program needs no device archive, and no nvcc where it runs. Code is loaded
 * by the start: CUDA would wait with that until no kernel of this library's runs on the device, so the start returns
 * CUDAQ_ERR_CUDA while one does. (Others, whose code is the program's own, start beside it.)
 *
 * A handler is `extern "C" __device__ int name(const void *input, void *output, uint32_t arg_len, uint32_t max_result_len,
 * uint32_t *result_len)`; how it is called stands above, with the dispatch kernels, and so does what holds for shutdown_flag
 * and stats.
 */
typedef enum {
  RINGCALL_MODULE_PTX = 1,   /* text; a NUL at its end may be counted: nvcc -ptx -rdc=true */
  RINGCALL_MODULE_CUBIN = 2, /* relocatable, of the device's architecture: nvcc -cubin -rdc=true */
  RINGCALL_MODULE_FATBIN = 3 /* several of either: nvcc -fatbin -rdc=true */
} ringcall_module_kind_t;

/* Adds a module: `size` bytes (256 MiB at most) at `data`, copied. May be called again for more. CUDAQ_ERR_INVALID_ARG if
 * it does not begin as its kind does; does not touch CUDA, so the rest is found by cudaq_dispatcher_start. */
cudaq_status_t ringcall_dispatcher_add_module(cudaq_dispatcher_t *dispatcher, ringcall_module_kind_t kind,
                                              const void *data, size_t size);
/* Enters the function of a symbol under an id. `schema` is copied, and always checked; NULL for payloads of any length.
 * CUDAQ_ERR_INVALID_ARG for an id that was entered before, and for what cannot be a symbol. One that no module defines makes
 * cudaq_dispatcher_start return CUDAQ_ERR_CUDA, and ringcall_last_error names it; without a GPU that is CUDAQ_ERR_CUDA,
 * too. */
cudaq_status_t ringcall_dispatcher_add_function(cudaq_dispatcher_t *dispatcher, uint32_t function_id,
                                                const char *symbol, const cudaq_handler_schema_t *schema);

#ifdef __cplusplus
}
#endif

#if CUDAQ_REALTIME_ENTRY_BYTES != 176
/* Tells the library of the other layout whenever a dispatcher is created. */
static inline cudaq_status_t ringcall_create_with_entries(cudaq_dispatch_manager_t *mgr,
                                                          const cudaq_dispatcher_config_t *config,
                                                          cudaq_dispatcher_t **out_dispatcher) {
  cudaq_status_t status = cudaq_dispatcher_create(mgr, config, out_dispatcher);
  if (status == CUDAQ_OK)
    status = ringcall_dispatcher_set_entry_bytes(*out_dispatcher, CUDAQ_REALTIME_ENTRY_BYTES);
  return status;
}
#define cudaq_dispatcher_create ringcall_create_with_entries
#endif

#ifdef __cplusplus
#include "cudaq/realtime/daemon/dispatcher/dispatch_kernel_launch.h"

inline cudaq_status_t cudaq_dispatcher_set_unified_launch(cudaq_dispatcher_t *dispatcher,
                                                          cudaq_unified_launch_fn_v2_t unified_launch_fn,
                                                          void *transport_ctx) {
  return cudaq_dispatcher_set_unified_launch_v2(dispatcher, unified_launch_fn, transport_ctx);
}
inline cudaError_t cudaq_create_dispatch_graph_regular(
    volatile uint64_t *rx_flags, volatile uint64_t *tx_flags, uint8_t *rx_data, uint8_t *tx_data, size_t rx_stride_sz,
    size_t tx_stride_sz, cudaq_function_entry_t *function_table, size_t func_count, void *graph_io_ctx,
    volatile int *shutdown_flag, uint64_t *stats, size_t num_slots, uint32_t num_blocks, uint32_t threads_per_block,
    cudaStream_t stream, cudaq_dispatch_graph_context **out_context) {
  return cudaq_create_dispatch_graph_regular_v1(rx_flags, tx_flags, rx_data, tx_data, rx_stride_sz, tx_stride_sz,
                                                function_table, func_count, graph_io_ctx, shutdown_flag, stats,
                                                num_slots, num_blocks, threads_per_block, stream, out_context);
}
#elif defined(CUDAQ_REALTIME_API_VERSION) && CUDAQ_REALTIME_API_VERSION >= 2
#define cudaq_dispatcher_set_unified_launch cudaq_dispatcher_set_unified_launch_v2
#elif defined(CUDAQ_REALTIME_API_VERSION)
#define cudaq_create_dispatch_graph_regular cudaq_create_dispatch_graph_regular_v1
#endif

#endif

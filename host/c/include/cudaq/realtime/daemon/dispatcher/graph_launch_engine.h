/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Graphs that the host launches for requests (CUDAQ_DISPATCH_GRAPH_LAUNCH on the host path), and the loops that drive
 * them. cudaq_dispatcher_start does all of this by itself; these calls are for programs with a loop of their own.
 */
#ifndef CUDAQ_REALTIME_GRAPH_LAUNCH_ENGINE_H
#define CUDAQ_REALTIME_GRAPH_LAUNCH_ENGINE_H

#include <string.h>

#include "cudaq/realtime/daemon/dispatcher/cudaq_realtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Workers of one engine at most: their idle bits are one 64-bit word. */
#define CUDAQ_GRAPH_LAUNCH_MAX_WORKERS 64

/* A worker: an executable graph and a stream of its own. 64 bytes. The hooks run on the launching thread. */
typedef struct {
  cudaGraphExec_t graph_exec;
  cudaStream_t stream;
  uint32_t function_id;
  void (*pre_launch_fn)(void *user_data, void *slot_dev, cudaStream_t stream);
  void *pre_launch_data;
  void (*post_launch_fn)(void *user_data, void *slot_dev, cudaStream_t stream);
  void *post_launch_data;
  uint64_t routing_key; /* which of several workers of one function; 0: any request of it */
} cudaq_host_dispatch_worker_t;

/*
 * An engine. 152 bytes. Fields are for reading; `workers[i]` hooks may be set between create and the first launch.
 *
 * Any thread may call anything, hooks and callbacks of publish_ready included; within one of these, its own worker counts as
 * busy, so a drain runs into its bound there. But while a loop below drives the engine, launches and ends are the loop's: launch,
 * sweep and publish_ready do nothing then, and ringcall_last_error says so; a drain waits for what the loop finds; a second loop
 * is refused.
 *
 * `idle_mask` points to one naturally aligned 64-bit atomic: bit i is set while worker i is idle. `inflight_slot_tags[i]`
 * is the slot that worker i serves, or last served.
 */
typedef struct {
  cudaq_ringbuffer_t ringbuffer;
  cudaq_host_dispatch_worker_t *workers;
  size_t num_workers;
  uint64_t worker_mask;
  void *idle_mask;
  int *inflight_slot_tags;
  void **h_mailbox_bank;
  void *io_ctxs_host;
  void *io_ctxs_dev;
  int skip_tx_markers;
  int owns_mailbox;
} cudaq_graph_launch_engine_t;

/*
 * Makes an engine of the table's GRAPH_LAUNCH entries, in their order.
 *
 * Returns NULL with *out_status
 *   CUDAQ_OK               the table has no such entry: no engine is needed
 *   CUDAQ_ERR_INVALID_ARG  more than 64 of them, a null graph, or a ring without what graphs need: device and host views
 *   CUDAQ_ERR_CUDA         no CUDA, or a CUDA call failed
 * `out_status` may be NULL. `external_mailbox` (pinned, mapped, one pointer a worker) stays the caller's; NULL: the engine
 * allocates one. Engines take slots up to 4096. The specification's signature, _v1, has a configuration instead of
 * skip_tx_markers, which gives device_id, num_slots and skip_tx_markers (C++ selects it by overload).
 *
 * What a graph finds in its mailbox: a GraphIOContext where requests and responses lie apart, the request slot's device
 * address where rx_data == tx_data.
 *
 * Compatibility: a mailbox that the engine owns is pinned memory (the reference takes it from the heap, where no graph can
 * read it). Completion is a flag that the worker's stream writes behind its graph, never a stream query (a look now and then
 * for streams that have failed apart); where the response flag says the same, it is that: in place with in-flight marks, and
 * after ringcall_dispatcher_set_answer_last; a consumer that clears the flag of a slot in flight breaks both. In place
 * (rx_data == tx_data) the response flag is set when the graph has ended (the reference sets it at the launch).
 *
 * A launch writes 8 bytes of its own, of which the first four are 0xEE, where the response slot begins (not in place): as long
 * as they stand, its graph has not answered. With skip_tx_markers a graph that ends without an answer is so told from one whose
 * answer was taken. On a ring that other dispatchers serve, too (shared_ring_mode of the configuration, or of the loop that the
 * engine serves), a mark on its slot may by then be another dispatcher's, which is left alone. In both cases a graph that writes
 * there, but never sets the response flag, is taken for one that has answered. In place every graph that ends has answered,
 * unless its stream has failed.
 */
cudaq_graph_launch_engine_t *cudaq_graph_launch_engine_create(const cudaq_ringbuffer_t *ringbuffer,
                                                              const cudaq_function_table_t *table, int skip_tx_markers,
                                                              void **external_mailbox, cudaq_status_t *out_status);
cudaq_graph_launch_engine_t *cudaq_graph_launch_engine_create_v1(const cudaq_ringbuffer_t *ringbuffer,
                                                                 const cudaq_function_table_t *table,
                                                                 const cudaq_dispatcher_config_t *config,
                                                                 void **external_mailbox,
                                                                 cudaq_status_t *out_status);
cudaq_graph_launch_engine_t *cudaq_graph_launch_engine_create_v2(const cudaq_ringbuffer_t *ringbuffer,
                                                                 const cudaq_function_table_t *table,
                                                                 int skip_tx_markers, void **external_mailbox,
                                                                 cudaq_status_t *out_status);

/* Waits for a loop that drives the engine to return, then for what runs (at most a second each), and frees the engine. While one
 * drives it, or a graph still runs, nothing is freed: the engine is there as before, ringcall_last_error says so, and the call may be made again; the ring must stay, too. NULL and an engine destroyed
 * before do nothing. */
void cudaq_graph_launch_engine_destroy(cudaq_graph_launch_engine_t *engine);

/*
 * An idle worker for a request, or -1: one of `function_id` whose routing key is the request's or 0. It stays idle until
 * launched. The specification's signature, _v1: with use_function_table == 0, or an entry (of any layout) of another mode
 * than GRAPH_LAUNCH, the first idle one; else by function and key.
 */
int cudaq_graph_launch_engine_acquire(const cudaq_graph_launch_engine_t *engine, uint32_t function_id,
                                      uint64_t routing_key);
int cudaq_graph_launch_engine_acquire_v1(const cudaq_graph_launch_engine_t *engine, int use_function_table,
                                         const cudaq_function_entry_t *entry, uint32_t function_id,
                                         uint64_t routing_key);
int cudaq_graph_launch_engine_acquire_v2(const cudaq_graph_launch_engine_t *engine, uint32_t function_id,
                                         uint64_t routing_key);

/*
 * Launches worker `worker_id` for `current_slot`. `slot_host` must be that slot's host address (or NULL: it is worked
 * out). Sets the in-flight mark unless skip_tx_markers: in place behind the graph, so that a client which sees the mark may
 * synchronise the device and read the answer; else before the launch, since the graph answers by the flag. A launch that
 * fails leaves the error mark 0xDEAD.. in the response flag and the worker idle. Bad arguments do nothing, and ringcall_last_error says which; among them is a slot that another
 * worker serves. A slot whose answer was taken may be launched again before the graph that answered has ended: that end then
 * changes nothing of the slot.
 */
void cudaq_graph_launch_engine_launch(const cudaq_graph_launch_engine_t *engine, int worker_id, void *slot_host,
                                      size_t current_slot);

/* Gives back workers whose graphs have ended. Waits for nothing but other calls on the engine, which are short. A graph that
 * ended without setting the response flag gets the error mark. */
void cudaq_graph_launch_engine_sweep(const cudaq_graph_launch_engine_t *engine);

/* Waits for every worker, at most a second; ringcall_last_error says if one still runs. */
void cudaq_graph_launch_engine_drain(const cudaq_graph_launch_engine_t *engine);

/*
 * As sweep, and calls `publish(ctx, slot)` for each response before its worker is given back. The flag is cleared after.
 * Compatibility: a graph that failed is published too, with a response of status RINGCALL_STATUS_LAUNCH_FAILED (the
 * reference skips it, so that the caller times out).
 */
void cudaq_graph_launch_engine_publish_ready(const cudaq_graph_launch_engine_t *engine,
                                             cudaq_status_t (*publish)(void *ctx, uint32_t slot), void *ctx);

/* The consumer's word that worker `worker_id` is free. A worker whose graph still runs is not given back before that has
 * ended; the call says CUDAQ_OK all the same. */
cudaq_status_t cudaq_graph_launch_engine_release_worker(cudaq_graph_launch_engine_t *engine, int worker_id);

/*
 * Dispatches `ringbuffer` on the calling thread until *shutdown_flag is not 0; then takes what is in the ring, waits for
 * what runs (2 s at most), answers what is left RINGCALL_STATUS_SHUTTING_DOWN, and returns. `engine` is one of the same ring; it
 * may be NULL where no entry is GRAPH_LAUNCH. A request for a graph waits in its slot while all workers with its routing key (the first eight bytes of
 * its payload, 0 if there are fewer) are busy; one whose key no worker of its function has is answered
 * RINGCALL_STATUS_NO_WORKER at once, since there never will be one. Adds to *stats, which may be NULL, as it goes. Bad
 * arguments: returns at once; ringcall_last_error says why.
 *
 * If a graph still runs then, ringcall_last_error says so: ring and engine must stay until cudaq_graph_launch_engine_drain
 * finds its end. Its request is left to it, answered or not. (Without in-flight marks its request flag stands, and a loop that
 * is started over the same ring would take the request again.)
 */
void cudaq_host_ring_dispatch_loop(const cudaq_ringbuffer_t *ringbuffer, const cudaq_function_table_t *table,
                                   const cudaq_dispatcher_config_t *config, cudaq_graph_launch_engine_t *engine,
                                   volatile int *shutdown_flag, uint64_t *stats);

/*
 * The same over a transport that the calling thread drives: `cpu_dataplane` is a cudaq_cpu_dataplane_t
 * (cudaq/realtime/daemon/bridge/cpu_dataplane.h). Told to end, it takes what rx_poll has until that says for the first time
 * that it has nothing, and hands every answer to tx_publish. A slot that rx_poll names beyond the engine's (without one, beyond
 * 4095), or while it is under way, is ignored; an answer that tx_publish refuses is dropped. When the loop has ended,
 * ringcall_last_error says how many there were of either, if any.
 */
void cudaq_host_unified_loop(void *cpu_dataplane, const cudaq_function_table_t *table,
                             cudaq_graph_launch_engine_t *engine, volatile int *shutdown_flag, uint64_t *stats);

/* The ring loop on a thread of its own. NULL on bad arguments, or when an engine cannot be made. */
typedef struct cudaq_host_dispatcher_handle cudaq_host_dispatcher_handle_t;
cudaq_host_dispatcher_handle_t *
cudaq_host_dispatcher_start_thread(const cudaq_ringbuffer_t *ringbuffer, const cudaq_function_table_t *table,
                                   const cudaq_dispatcher_config_t *config, volatile int *shutdown_flag,
                                   uint64_t *stats, void **external_mailbox);
/* Stops it and waits (2 s at most). While a handler or a graph still runs, nothing is freed: the handle is valid as before,
 * ringcall_last_error says so, and the call may be made again. NULL and a handle stopped before do nothing. */
void cudaq_host_dispatcher_stop(cudaq_host_dispatcher_handle_t *handle);
/* As cudaq_host_release_worker. */
cudaq_status_t cudaq_host_dispatcher_release_worker(cudaq_host_dispatcher_handle_t *handle, int worker_id);

/* The calls above that take a table, for entries of `entry_bytes` (168, 176 or 192) bytes; others are refused. Where
 * CUDAQ_REALTIME_ENTRY_BYTES is not 176, this header calls them under the names above. */
cudaq_graph_launch_engine_t *ringcall_graph_launch_engine_create(const cudaq_ringbuffer_t *ringbuffer,
                                                                 const cudaq_function_table_t *table,
                                                                 size_t entry_bytes,
                                                                 const cudaq_dispatcher_config_t *config,
                                                                 void **external_mailbox, cudaq_status_t *out_status);
void ringcall_host_ring_dispatch_loop(const cudaq_ringbuffer_t *ringbuffer, const cudaq_function_table_t *table,
                                      size_t entry_bytes, const cudaq_dispatcher_config_t *config,
                                      cudaq_graph_launch_engine_t *engine, volatile int *shutdown_flag,
                                      uint64_t *stats);
void ringcall_host_unified_loop(void *cpu_dataplane, const cudaq_function_table_t *table, size_t entry_bytes,
                                cudaq_graph_launch_engine_t *engine, volatile int *shutdown_flag, uint64_t *stats);
cudaq_host_dispatcher_handle_t *
ringcall_host_dispatcher_start_thread(const cudaq_ringbuffer_t *ringbuffer, const cudaq_function_table_t *table,
                                      size_t entry_bytes, const cudaq_dispatcher_config_t *config,
                                      volatile int *shutdown_flag, uint64_t *stats, void **external_mailbox);

#if CUDAQ_REALTIME_ENTRY_BYTES != 176
static inline cudaq_graph_launch_engine_t *ringcall_entries_engine_v1(const cudaq_ringbuffer_t *ringbuffer,
                                                                   const cudaq_function_table_t *table,
                                                                   const cudaq_dispatcher_config_t *config,
                                                                   void **external_mailbox,
                                                                   cudaq_status_t *out_status) {
  return ringcall_graph_launch_engine_create(ringbuffer, table, CUDAQ_REALTIME_ENTRY_BYTES, config, external_mailbox,
                                             out_status);
}
/* Today's signature says no more than this configuration does. */
static inline cudaq_graph_launch_engine_t *ringcall_entries_engine(const cudaq_ringbuffer_t *ringbuffer,
                                                                   const cudaq_function_table_t *table,
                                                                   int skip_tx_markers, void **external_mailbox,
                                                                   cudaq_status_t *out_status) {
  cudaq_dispatcher_config_t config;
  memset(&config, 0, sizeof config);
  config.skip_tx_markers = skip_tx_markers;
  return ringcall_entries_engine_v1(ringbuffer, table, &config, external_mailbox, out_status);
}
static inline void ringcall_entries_ring_loop(const cudaq_ringbuffer_t *ringbuffer,
                                              const cudaq_function_table_t *table,
                                              const cudaq_dispatcher_config_t *config,
                                              cudaq_graph_launch_engine_t *engine, volatile int *shutdown_flag,
                                              uint64_t *stats) {
  ringcall_host_ring_dispatch_loop(ringbuffer, table, CUDAQ_REALTIME_ENTRY_BYTES, config, engine, shutdown_flag,
                                   stats);
}
static inline void ringcall_entries_unified_loop(void *cpu_dataplane, const cudaq_function_table_t *table,
                                                 cudaq_graph_launch_engine_t *engine, volatile int *shutdown_flag,
                                                 uint64_t *stats) {
  ringcall_host_unified_loop(cpu_dataplane, table, CUDAQ_REALTIME_ENTRY_BYTES, engine, shutdown_flag, stats);
}
static inline cudaq_host_dispatcher_handle_t *
ringcall_entries_start_thread(const cudaq_ringbuffer_t *ringbuffer, const cudaq_function_table_t *table,
                              const cudaq_dispatcher_config_t *config, volatile int *shutdown_flag, uint64_t *stats,
                              void **external_mailbox) {
  return ringcall_host_dispatcher_start_thread(ringbuffer, table, CUDAQ_REALTIME_ENTRY_BYTES, config, shutdown_flag,
                                               stats, external_mailbox);
}
#define cudaq_graph_launch_engine_create ringcall_entries_engine
#define cudaq_graph_launch_engine_create_v1 ringcall_entries_engine_v1
#define cudaq_graph_launch_engine_create_v2 ringcall_entries_engine
#define cudaq_host_ring_dispatch_loop ringcall_entries_ring_loop
#define cudaq_host_unified_loop ringcall_entries_unified_loop
#define cudaq_host_dispatcher_start_thread ringcall_entries_start_thread
#endif

#ifdef __cplusplus
}

inline cudaq_graph_launch_engine_t *cudaq_graph_launch_engine_create(const cudaq_ringbuffer_t *ringbuffer,
                                                                     const cudaq_function_table_t *table,
                                                                     const cudaq_dispatcher_config_t *config,
                                                                     void **external_mailbox,
                                                                     cudaq_status_t *out_status) {
  return cudaq_graph_launch_engine_create_v1(ringbuffer, table, config, external_mailbox, out_status);
}
inline int cudaq_graph_launch_engine_acquire(const cudaq_graph_launch_engine_t *engine, int use_function_table,
                                             const cudaq_function_entry_t *entry, uint32_t function_id,
                                             uint64_t routing_key) {
  return cudaq_graph_launch_engine_acquire_v1(engine, use_function_table, entry, function_id, routing_key);
}
#elif defined(CUDAQ_REALTIME_API_VERSION) && CUDAQ_REALTIME_API_VERSION < 2
#if CUDAQ_REALTIME_ENTRY_BYTES == 176
#define cudaq_graph_launch_engine_create cudaq_graph_launch_engine_create_v1
#else
#undef cudaq_graph_launch_engine_create
#define cudaq_graph_launch_engine_create ringcall_entries_engine_v1
#endif
#define cudaq_graph_launch_engine_acquire cudaq_graph_launch_engine_acquire_v1
#endif
#endif

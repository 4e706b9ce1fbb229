/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Real-time pipelines: requests from a ring to workers (a CUDA graph, then a function on the CPU), and completions back.
 * cudaq/qec/realtime/pipeline.h has the C++ class over these calls.
 *
 *   injector -> ring -> dispatcher -> worker: hook, graph, hook -> CPU stage -> response -> consumer -> completion handler
 *
 * A worker without a graph is for pipelines on the CPU alone: its hooks and the CPU stage are called, nothing is launched.
 *
 * Ownership   The configuration is copied. An external ring's memory, and graphs, streams, functions and user pointers, stay the
 *             program's, and are there from the start until the stop has returned (a ring until the destruction).
 *             Handles are names, not addresses: a null, foreign or destroyed one gives CUDAQ_ERR_INVALID_ARG.
 * Threads     Any thread may call anything, but ringcall_pipeline_start, _stop, _destroy and _set_* are refused in a callback, which
 *             they would wait for. Submissions of several threads take turns. The GPU stage is called by the thread that starts;
 *             hooks by the dispatcher's thread; the CPU stage by each worker's own thread; the completion handler by one thread.
 * Errors      As in cudaq_realtime.h; ringcall_last_error() says more. Callbacks must not throw, unwind or jump out.
 * Every request that was accepted has one completion: answered by a stage, refused by the dispatcher (an unknown function), or
 * answered by a timeout or a stop.
 */
#ifndef RINGCALL_PIPELINE_H
#define RINGCALL_PIPELINE_H

#include "cudaq/realtime/daemon/dispatcher/graph_launch_engine.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ringcall_pipeline_t ringcall_pipeline_t;

/* 48 bytes. Begin with RINGCALL_PIPELINE_CONFIG; zero means the default, but for the cores. */
typedef struct {
  uint32_t num_workers;     /* 8; at most 64 */
  uint32_t num_slots;       /* 32; at most 4096 */
  size_t slot_size;         /* 16384 bytes, header included: a multiple of 8, at least 24 */
  int dispatcher_core;      /* -1: any */
  int consumer_core;        /* -1: any */
  int worker_base_core;     /* worker i is pinned to this core + i; -1: any */
  int device_id;            /* CUDA device of graphs and of the ring */
  /* A ring of the program's, whose producer and consumer are elsewhere; the host views are used, and rx_data for what hooks are
   * given. NULL: the pipeline's own, in mapped memory where there is a device. */
  const cudaq_ringbuffer_t *external_ring;
  uint32_t stop_ms;            /* how long a stop waits for requests in flight: 5000 */
  uint32_t request_timeout_ms; /* a request longer in flight is answered RINGCALL_STATUS_TIMED_OUT; 0: no limit */
} ringcall_pipeline_config_t;

#define RINGCALL_PIPELINE_CONFIG {0, 0, 0, -1, -1, -1, 0, NULL, 0, 0}

/*
 * GPU stage: makes worker `worker_id`, once at each start. `*out` is zero before; its routing_key is not looked at. Workers with one
 * function_id share its requests. Hooks are given the request's slot as the device sees it (as the host does where there is none).
 * Returns 0, or anything else to make the start fail.
 */
typedef int (*ringcall_gpu_stage_fn)(void *user, int worker_id, cudaq_host_dispatch_worker_t *out);

/* 24 bytes. */
typedef struct {
  int worker_id;
  int origin_slot;
  /* The request's slot: its header and payload, and where the response goes: an RPCResponse with status and result_len, then the
   * result. Id and time stamp are the request's, whatever is written. A response without its magic is answered
   * RINGCALL_STATUS_ABANDONED, one with a status other than 0 is answered with that status alone. */
  void *response_buffer;
  size_t max_response_size; /* bytes of the slot */
} ringcall_cpu_stage_context_t;

/* Answers later, by ringcall_pipeline_complete_deferred; the worker is free at once. */
#define RINGCALL_STAGE_DEFERRED SIZE_MAX
/* The stage failed: answered RINGCALL_STATUS_HANDLER_PANIC, and counted. */
#define RINGCALL_STAGE_FAILED (SIZE_MAX - 1)
/*
 * CPU stage: called as soon as a worker's graph is launched, and again while it returns 0 (the output is not there yet: the program
 * knows how to tell). Any other number: the response is in its place.
 */
typedef size_t (*ringcall_cpu_stage_fn)(void *user, const ringcall_cpu_stage_context_t *context);

/* 40 bytes. */
typedef struct {
  uint64_t request_id; /* as it was submitted, all 64 bits; of an external ring, whose ids have 32 bits, counted on */
  int slot;
  int success;    /* status is 0, and so is cuda_error */
  int cuda_error; /* of the graph's launch */
  int32_t status; /* of the answer */
  const void *result; /* of this request, until the handler returns; NULL on an external ring, whose responses its consumer takes */
  size_t result_size;
} ringcall_completion_t;

/* Told of each request that is over. Returns 0; anything else is counted as a failure. */
typedef int (*ringcall_completion_fn)(void *user, const ringcall_completion_t *completion);

/* 72 bytes. Counts since the pipeline was made, restarts included. */
typedef struct {
  uint64_t submitted; /* of an external ring: requests that the dispatcher took */
  uint64_t completed; /* succeeded + refused + timed_out */
  uint64_t dispatched;
  uint64_t backpressure_stalls;
  uint64_t succeeded;
  uint64_t refused;           /* by the dispatcher, or failed by a stage */
  uint64_t timed_out;         /* no stage finished them: timed out, stopped, or abandoned */
  uint64_t late_results;      /* completed after they had been answered otherwise */
  uint64_t callback_failures; /* callbacks that said so */
} ringcall_pipeline_stats_t;

/* Makes a pipeline and its ring. */
cudaq_status_t ringcall_pipeline_create(const ringcall_pipeline_config_t *config, ringcall_pipeline_t **out_pipeline);
/* Stops it, and ends it. After CUDAQ_ERR_INTERNAL, a callback never returned: what it uses stays in use. */
cudaq_status_t ringcall_pipeline_destroy(ringcall_pipeline_t *pipeline);

/* While it does not run. A GPU stage is required; without a CPU stage a graph's own response, in the request's slot, is the answer
 * (not on an external ring). NULL takes a CPU stage or a completion handler away. */
cudaq_status_t ringcall_pipeline_set_gpu_stage(ringcall_pipeline_t *pipeline, ringcall_gpu_stage_fn stage, void *user);
cudaq_status_t ringcall_pipeline_set_cpu_stage(ringcall_pipeline_t *pipeline, ringcall_cpu_stage_fn stage, void *user);
cudaq_status_t ringcall_pipeline_set_completion_handler(ringcall_pipeline_t *pipeline, ringcall_completion_fn handler,
                                                        void *user);

/* Starts it; nothing happens if it runs. */
cudaq_status_t ringcall_pipeline_start(ringcall_pipeline_t *pipeline);
/* Refuses new requests, waits for those in flight, stop_ms at most, answers what is left RINGCALL_STATUS_SHUTTING_DOWN, and ends all
 * threads; about a second later at most it returns, CUDAQ_ERR_INTERNAL if a callback never did. Nothing happens if it does not run.
 * It may be started again. */
cudaq_status_t ringcall_pipeline_stop(ringcall_pipeline_t *pipeline);

#define RINGCALL_SUBMITTED 1
#define RINGCALL_RING_FULL 0
#define RINGCALL_NOT_RUNNING (-1)
/* Submits a request: *out_submitted says what came of it. A payload longer than a slot is refused. Not on an external ring.
 * _try_submit returns at once; _submit waits for a slot, until the pipeline stops. */
cudaq_status_t ringcall_pipeline_try_submit(ringcall_pipeline_t *pipeline, uint32_t function_id, const void *payload,
                                            size_t payload_size, uint64_t request_id, int *out_submitted);
cudaq_status_t ringcall_pipeline_submit(ringcall_pipeline_t *pipeline, uint32_t function_id, const void *payload,
                                        size_t payload_size, uint64_t request_id, int *out_submitted);

/* The response of a request whose completion was deferred is in its slot. It may come before the CPU stage has returned.
 * CUDAQ_ERR_INVALID_ARG if the slot has no such request, or a timeout or a stop has answered it. */
cudaq_status_t ringcall_pipeline_complete_deferred(ringcall_pipeline_t *pipeline, int slot);

cudaq_status_t ringcall_pipeline_get_stats(ringcall_pipeline_t *pipeline, ringcall_pipeline_stats_t *out_stats);
/* The ring: the program's, or the pipeline's own, whose addresses are right until it is destroyed. */
cudaq_status_t ringcall_pipeline_get_ring(ringcall_pipeline_t *pipeline, cudaq_ringbuffer_t *out_ring);

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Unified dispatch over the queues of an adapter, as the wiring example of the CUDA-Q Realtime host API has it: transport contexts
 * (ringcall_hsb_context.h), launch functions for cudaq_dispatcher_set_unified_launch, and an adapter without hardware to try them with.
 *
 * Device path   The unified kernel of the device archive works the queues; handlers are device functions of the program. The program is
 *               linked by nvcc with -lringcall_device -lringcall. The adapter is a real one, whose context a library of its own hands out,
 *               or one of ringcall_hsb_create for that device.
 * Host path     (CUDAQ_DISPATCH_PATH_HOST, CUDAQ_KERNEL_UNIFIED, CUDAQ_DISPATCH_HOST_CALL.) A thread works the queues of an adapter of
 *               ringcall_hsb_create with device -1; handlers are functions of the host. Needs neither CUDA nor the archive.
 *
 * Three kernels ringcall_hsb_launch_three_dispatch launches a receiver, a dispatcher and a sender of the device archive in the place of
 *               the unified kernel: a slow handler then delays no other request.
 *
 * A context whose values no loop can be launched with is refused by cudaq_dispatcher_start, and ringcall_last_error names the value.
 */
#ifndef RINGCALL_HSB_H
#define RINGCALL_HSB_H

#include "cudaq/realtime/daemon/dispatcher/cudaq_realtime.h"
#include "ringcall_hsb_context.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Launch a unified loop over the queues that `transport_ctx` names. The context is read before they return: an HSB_doca_transport_ctx by
 * the first, a ringcall_context72 by the second, or a ringcall_context by either, which is told by its magic. A `tx_stride_sz` that is not
 * 0 has to be the context's.
 *
 * The loop ends with the shutdown flag: it answers what has arrived, and waits until the adapter has sent the answers, within the stop
 * time. What it could not answer stays in the queues: a later launch goes on there, with any table, if its context has the same addresses.
 * cudaq_dispatcher_stop says what went wrong: answers that were not sent, a kernel that has failed, a queue pair in the error state. A loop
 * that has ended by itself is also told by cudaq_dispatcher_get_processed, and its queues are not worked again.
 *
 * Compatibility: the reference answers from the request's slot. Here an adapter of another library needs response slots of its own
 * (ringcall_context72 or ringcall_context).
 */
void HSB_launch_unified_dispatch(void *transport_ctx, cudaq_function_entry_t *function_table, size_t func_count,
                                 volatile int *shutdown_flag, uint64_t *stats, cudaStream_t stream);
void HSB_launch_unified_dispatch_v2(void *transport_ctx, size_t tx_stride_sz, cudaq_function_entry_t *function_table,
                                    size_t func_count, volatile int *shutdown_flag, uint64_t *stats,
                                    cudaStream_t stream);

/*
 * Launches three kernels over the queues that `transport_ctx` names, with the signature of cudaq_dispatcher_set_unified_launch: a receiver
 * that fills a ring from the queues, the dispatcher of the ring, and a sender of its answers, in the order in which they are ready. For the
 * device path alone, and for contexts of adapters of ringcall_hsb_create_for_three: receiver and sender work one queue pair, and its
 * doorbell record has one writer. Otherwise as HSB_launch_unified_dispatch; requests that were not answered within the stop time are
 * answered by the next launch. Queues that the unified kernel has worked are not handed to three, nor the reverse.
 */
void ringcall_hsb_launch_three_dispatch(void *transport_ctx, cudaq_function_entry_t *function_table, size_t func_count,
                                        volatile int *shutdown_flag, uint64_t *stats, cudaStream_t stream);

/* An adapter without hardware, and its peer: queues in memory, and a thread that works the adapter's end of them. */
typedef void *ringcall_hsb_t;

/*
 * Makes one, with two receive requests for each page. `page_size`: bytes of a request, header included, and of an answer: a multiple of
 * 16, 48 to 65,536. `num_pages`: a power of two, 4,096 at most. `device_id`: the device that maps the queues, or -1 for memory of the
 * host.
 */
cudaq_status_t ringcall_hsb_create(size_t page_size, uint32_t num_pages, int device_id,
                                   ringcall_hsb_t *out_transceiver);
/*
 * The same for three kernels: it counts sends without the doorbell record. `device_id` is a device: three kernels do not run on the
 * host.
 */
cudaq_status_t ringcall_hsb_create_for_three(size_t page_size, uint32_t num_pages, int device_id,
                                             ringcall_hsb_t *out_transceiver);
/* Ends it. CUDAQ_ERR_INVALID_ARG while a dispatcher works its queues. */
cudaq_status_t ringcall_hsb_destroy(ringcall_hsb_t transceiver);

/* What a context is made of. All are 0 for a handle that is none. */
void *HSB_get_gpu_dev_qp(ringcall_hsb_t transceiver);
uint8_t *HSB_get_rx_ring_data_addr(ringcall_hsb_t transceiver);
size_t HSB_get_page_size(ringcall_hsb_t transceiver);
uint32_t HSB_get_rkey(ringcall_hsb_t transceiver);
uint32_t HSB_get_num_pages(ringcall_hsb_t transceiver);
/* The whole context, with the response slots. */
cudaq_status_t ringcall_hsb_get_context(ringcall_hsb_t transceiver, ringcall_context *out_context);

/*
 * The peer's RDMA WRITE WITH IMMEDIATE of a request into a page: a header, then its payload. The peer has at most one request under way in a
 * page. CUDAQ_ERR_INTERNAL when the wire is full, or when what worked the queues has ended by itself.
 */
cudaq_status_t ringcall_hsb_write(ringcall_hsb_t transceiver, uint32_t page, const void *frame, size_t bytes);
/*
 * The next answer that the adapter has sent to the peer. `*out_bytes` is 0 if none comes within `timeout_ms`. CUDAQ_ERR_INTERNAL when none is
 * there and what worked the queues has ended by itself.
 */
cudaq_status_t ringcall_hsb_receive(ringcall_hsb_t transceiver, void *frame, size_t capacity, uint32_t timeout_ms,
                                    size_t *out_bytes);
/* Puts the queue pair into the error state, as an adapter does after a fatal error: for tests of what a program does then. */
cudaq_status_t ringcall_hsb_break(ringcall_hsb_t transceiver);

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * A queue pair of an RDMA adapter between two rings, as C functions. Source of names and behaviour: the CUDA-Q Realtime CPU RoCE
 * transport. libibverbs is loaded when the device is opened, and not needed before.
 *
 * The service is the unreliable one. Slots, flags and frames are those of udp_wrapper.h, with these differences: a write is for the slot
 * that its immediate names, and a SEND for the slot whose receive it took; a message waits until its slot is free; a slot without a header
 * is sent with frame_size bytes. A queue pair that fails is connected to the same peer again. After the adapter was removed
 * cpu_roce_blocking_monitor returns, polls find nothing, and ringcall_bridge_last_error says why.
 *
 * int results are 1 for success and 0 for failure. int arguments named forward, rx_only, tx_only and unified are 0 or not 0, and
 * one of them at most is not 0.
 */
#ifndef CPU_ROCE_WRAPPER_H
#define CPU_ROCE_WRAPPER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef void *cpu_roce_transceiver_t;

/* The verb of what is sent. */
typedef enum {
  CPU_ROCE_TX_MODE_RDMA_SEND = 0,          /* SEND: the peer has posted receives */
  CPU_ROCE_TX_MODE_RDMA_WRITE_WITH_IMM = 1 /* RDMA WRITE into the peer's request ring, the slot's number as immediate */
} cpu_roce_tx_mode_t;

/* num_pages (a power of two) slots of page_size bytes. The last two arguments count for CPU_ROCE_TX_MODE_RDMA_WRITE_WITH_IMM.
 * Null on failure. */
cpu_roce_transceiver_t cpu_roce_create_transceiver(const char *device_name, int ib_port, unsigned tx_ibv_qp,
                                                   size_t frame_size, size_t page_size, unsigned num_pages,
                                                   const char *peer_ip, int forward, int rx_only, int tx_only,
                                                   int unified, cpu_roce_tx_mode_t tx_mode, uint64_t peer_rx_base_addr,
                                                   uint32_t peer_rx_rkey);
/* Closes and frees. Once is enough. */
void cpu_roce_destroy_transceiver(cpu_roce_transceiver_t handle);

/* The IPv4 address whose GID is the source; before cpu_roce_setup and cpu_roce_start. */
void cpu_roce_set_local_ip(cpu_roce_transceiver_t handle, const char *local_ip);

/* Everything at once, for a peer that was named at creation. */
int cpu_roce_start(cpu_roce_transceiver_t handle);
/* In two steps, for a peer that is known after both have exchanged number and key of their queue pairs. */
int cpu_roce_setup(cpu_roce_transceiver_t handle);
int cpu_roce_connect(cpu_roce_transceiver_t handle, unsigned peer_qp, const char *peer_ip, uint32_t peer_rx_rkey);

/* Moves slots on the calling thread, and returns when the transceiver is closed or its adapter gone; at once in unified mode. */
void cpu_roce_blocking_monitor(cpu_roce_transceiver_t handle);
/* Stops. By any thread; once is enough. */
void cpu_roce_close(cpu_roce_transceiver_t handle);

/* Unified mode: one thread of the user's polls and publishes. 1 and the slot of a request, or 0. Never blocks. */
int cpu_roce_rx_poll(cpu_roce_transceiver_t handle, uint32_t *out_slot);
/* Sends a response slot; leaves its flag alone. */
int cpu_roce_tx_publish(cpu_roce_transceiver_t handle, uint32_t slot);

/* For the peer: number of the queue pair, key of the request ring, and the address that its slots count from. */
uint32_t cpu_roce_get_qp_number(cpu_roce_transceiver_t handle);
uint32_t cpu_roce_get_rkey(cpu_roce_transceiver_t handle);
uint64_t cpu_roce_get_buffer_addr(cpu_roce_transceiver_t handle);

/* The rings. */
void *cpu_roce_get_rx_ring_data_addr(cpu_roce_transceiver_t handle);
uint64_t *cpu_roce_get_rx_ring_flag_addr(cpu_roce_transceiver_t handle);
void *cpu_roce_get_tx_ring_data_addr(cpu_roce_transceiver_t handle);
uint64_t *cpu_roce_get_tx_ring_flag_addr(cpu_roce_transceiver_t handle);
size_t cpu_roce_get_page_size(cpu_roce_transceiver_t handle);
unsigned cpu_roce_get_num_pages(cpu_roce_transceiver_t handle);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * A UDP socket between two rings, as C functions. Source of names and behaviour: the CUDA-Q Realtime UDP transport.
 *
 * One datagram is one slot. Datagrams go to the slots of the request ring in its order; a slot of the response ring whose
 * flag is its address is sent, and the flag cleared. The caller's end sends its slots in the order of the ring, and waits
 * for the next one to be filled. A slot that begins with an RPC header is sent as long as the header says, another one
 * whole; receivers of either kind take both.
 *
 * Where this differs from the reference:
 * - a response goes to whoever sent the request in the slot of the same number, not to whoever sent last;
 * - at the service's end a slot that is never answered stalls no other response;
 * - nothing sleeps while there is something to do, and cpu_udp_close returns at once.
 *
 * int results are 1 for success and 0 for failure. A handle that is null, unknown or destroyed is a failure, or no effect.
 */
#ifndef CPU_UDP_WRAPPER_H
#define CPU_UDP_WRAPPER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef void *cpu_udp_transceiver_t;

/* num_pages slots of page_size bytes (a multiple of 8, at least 24) in memory of its own. Null on failure. */
cpu_udp_transceiver_t cpu_udp_create_transceiver(size_t page_size, unsigned num_pages);

/* The same over the caller's memory, zeroed here: flags of num_pages words, data of num_pages * page_size bytes, all
 * aligned to 8 bytes and valid until the transceiver is destroyed. */
cpu_udp_transceiver_t cpu_udp_create_transceiver_ext(size_t page_size, unsigned num_pages, volatile uint64_t *rx_flags,
                                                     volatile uint64_t *tx_flags, uint8_t *rx_data, uint8_t *tx_data);

/* Closes and frees. Once is enough. */
void cpu_udp_destroy_transceiver(cpu_udp_transceiver_t handle);

/* The service's end. host: a local address ("0.0.0.0" for all), null or "" for 127.0.0.1. port 0 takes a free one. */
int cpu_udp_bind(cpu_udp_transceiver_t handle, uint16_t port);
int cpu_udp_bind_to(cpu_udp_transceiver_t handle, const char *host, uint16_t port);

/* The caller's end: a peer's address. No datagram is sent. */
int cpu_udp_connect(cpu_udp_transceiver_t handle, const char *host, uint16_t port);

/* The local port; 0 without a socket. */
uint16_t cpu_udp_get_port(cpu_udp_transceiver_t handle);

/* Starts the thread that moves datagrams; in unified mode starts none. */
int cpu_udp_start(cpu_udp_transceiver_t handle);

/* Stops it and closes the socket. Once is enough; bind or connect may follow. */
void cpu_udp_close(cpu_udp_transceiver_t handle);

/* Addresses of the rings; 0 for a bad handle. Request flags are set here and cleared by the user, response flags the
 * other way round. */
uint64_t cpu_udp_get_rx_ring_flag_addr(cpu_udp_transceiver_t handle);
uint64_t cpu_udp_get_rx_ring_data_addr(cpu_udp_transceiver_t handle);
uint64_t cpu_udp_get_tx_ring_flag_addr(cpu_udp_transceiver_t handle);
uint64_t cpu_udp_get_tx_ring_data_addr(cpu_udp_transceiver_t handle);

/* Unified mode, before cpu_udp_start: one thread of the user's polls and publishes. Request flags are not used; while a
 * response flag is not 0, its slot is not filled. */
int cpu_udp_set_unified(cpu_udp_transceiver_t handle, int unified);

/* 1 and the slot of a datagram, or 0. Never blocks. */
int cpu_udp_rx_poll(cpu_udp_transceiver_t handle, uint32_t *slot);

/* Sends a response slot; leaves its flag alone. */
int cpu_udp_tx_publish(cpu_udp_transceiver_t handle, uint32_t slot);

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A client of a decoding server, in C: the frames of enqueue_syndromes, get_corrections and reset_decoder, written and read. This
 * header is all there is: it calls nothing but memcpy and memset, allocates nothing and sends nothing. A frame goes out as one UDP
 * datagram, or into a slot of a ring.
 *
 * Server      `ringcall serve --config FILE.yaml`, or the reference's decoding_server. Each decoder has a ring of its own: the server's
 *             first line has its port as `ring<id>=<port>`.
 * Order       A ring serves one client at a time, in the order of its requests. A client begins with reset_decoder and waits for the
 *             answer; then enqueue_syndromes until all measurements of a decode are sent, which need not be waited for; then
 *             get_corrections. Fewer requests are under way than the ring has slots.
 * Bits        Index i is bit i % 8, the least significant first, of byte i / 8. Bits after the last are not read.
 * Numbers     Little-endian on the wire, on any machine.
 */
#ifndef RINGCALL_DECODING_CLIENT_H
#define RINGCALL_DECODING_CLIENT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a decoding server answers. Negative statuses are the dispatcher's (docs/decoding-server.md). */
typedef enum {
  RINGCALL_DECODING_OK = 0,
  RINGCALL_DECODING_INVALID_DECODER = 1,
  RINGCALL_DECODING_BAD_REQUEST = 2,
  RINGCALL_DECODING_INTERNAL_ERROR = 3,
  RINGCALL_DECODING_NOT_READY = 4,
  RINGCALL_DECODING_BUSY = 5,
  RINGCALL_DECODING_SYNDROMES_DROPPED = 6
} ringcall_decoding_status_t;

enum {
  RINGCALL_DECODING_HEADER_BYTES = 24,
  /* The most measurements of one request. */
  RINGCALL_DECODING_MAX_BITS = 1 << 20
};

static inline void ringcall_decoding_put(uint8_t *out, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i)
    out[i] = (uint8_t)(value >> (8 * i));
}

static inline uint32_t ringcall_decoding_get32(const uint8_t *in) {
  return (uint32_t)in[0] | (uint32_t)in[1] << 8 | (uint32_t)in[2] << 16 | (uint32_t)in[3] << 24;
}

/* A request's header; the payload follows. */
static inline void ringcall_decoding_header(uint8_t *frame, uint32_t function_id, size_t payload_bytes, uint32_t request_id) {
  ringcall_decoding_put(frame, 0x43555152u, 4);
  ringcall_decoding_put(frame + 4, function_id, 4);
  ringcall_decoding_put(frame + 8, payload_bytes, 4);
  ringcall_decoding_put(frame + 12, request_id, 4);
  memset(frame + 16, 0, 8);
}

/*
 * Writes a request of enqueue_syndromes with the first `count` of `bits` to `frame`, which has room for `capacity` bytes. Returns the
 * frame's bytes; 0 where it does not fit, or where count is 0 or above RINGCALL_DECODING_MAX_BITS.
 */
static inline size_t ringcall_decoding_enqueue(uint8_t *frame, size_t capacity, uint32_t request_id, int64_t decoder_id,
                                               const uint8_t *bits, size_t count) {
  const size_t packed = (count + 7) / 8, payload = 32 + packed;
  if (count == 0 || count > RINGCALL_DECODING_MAX_BITS || capacity < RINGCALL_DECODING_HEADER_BYTES + payload)
    return 0;
  ringcall_decoding_header(frame, 0x7ed8be82u, payload, request_id);
  ringcall_decoding_put(frame + 24, (uint64_t)decoder_id, 8);
  memset(frame + 32, 0, 16); /* a counter that servers do not judge, and the identity mapping */
  ringcall_decoding_put(frame + 48, count, 8);
  memcpy(frame + 56, bits, packed);
  return RINGCALL_DECODING_HEADER_BYTES + payload;
}

/*
 * Writes a request of get_corrections for `observables` corrections, as many as the decoder has observables; with `reset` the server
 * clears them when they have been copied. Returns the frame's bytes; 0 where it does not fit.
 */
static inline size_t ringcall_decoding_get_corrections(uint8_t *frame, size_t capacity, uint32_t request_id, int64_t decoder_id,
                                                       int64_t observables, int reset) {
  if (capacity < RINGCALL_DECODING_HEADER_BYTES + 17)
    return 0;
  ringcall_decoding_header(frame, 0x882d5ba1u, 17, request_id);
  ringcall_decoding_put(frame + 24, (uint64_t)decoder_id, 8);
  ringcall_decoding_put(frame + 32, (uint64_t)observables, 8);
  frame[40] = reset != 0;
  return RINGCALL_DECODING_HEADER_BYTES + 17;
}

/* Writes a request of reset_decoder. Returns the frame's bytes; 0 where it does not fit. */
static inline size_t ringcall_decoding_reset(uint8_t *frame, size_t capacity, uint32_t request_id, int64_t decoder_id) {
  if (capacity < RINGCALL_DECODING_HEADER_BYTES + 8)
    return 0;
  ringcall_decoding_header(frame, 0x977a59cfu, 8, request_id);
  ringcall_decoding_put(frame + 24, (uint64_t)decoder_id, 8);
  return RINGCALL_DECODING_HEADER_BYTES + 8;
}

/* An answer. `result` points into the frame that was read. */
typedef struct {
  uint32_t request_id;
  int32_t status;
  const uint8_t *result;
  size_t result_bytes;
} ringcall_decoding_answer_t;

/* Reads an answer out of `bytes` bytes, which may be more than it says (padding). Returns 0 for what is no answer, else 1. */
static inline int ringcall_decoding_read(const uint8_t *frame, size_t bytes, ringcall_decoding_answer_t *answer) {
  if (bytes < RINGCALL_DECODING_HEADER_BYTES || ringcall_decoding_get32(frame) != 0x43555153u)
    return 0;
  const size_t result_bytes = ringcall_decoding_get32(frame + 8);
  if (result_bytes > bytes - RINGCALL_DECODING_HEADER_BYTES)
    return 0;
  answer->status = (int32_t)ringcall_decoding_get32(frame + 4);
  answer->request_id = ringcall_decoding_get32(frame + 12);
  answer->result = frame + RINGCALL_DECODING_HEADER_BYTES;
  answer->result_bytes = result_bytes;
  return 1;
}

/* Correction `index` of an answer of get_corrections: 0 or 1; -1 where the answer has none of this index. */
static inline int ringcall_decoding_correction(const ringcall_decoding_answer_t *answer, size_t index) {
  if (answer->status != RINGCALL_DECODING_OK || index / 8 >= answer->result_bytes)
    return -1;
  return answer->result[index / 8] >> (index % 8) & 1;
}

#ifdef __cplusplus
}
#endif

#endif

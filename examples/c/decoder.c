/* Shots of a repetition code, decoded: all at once, one by one, and round by round. No GPU and no ring is needed. */
#include "ringcall_decoder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call)                                                                                                  \
  do {                                                                                                               \
    cudaq_status_t status_ = (call);                                                                                 \
    if (status_ != CUDAQ_OK) {                                                                                       \
      fprintf(stderr, "%s: status %d: %s\n", #call, (int)status_, ringcall_last_error());                            \
      return 1;                                                                                                      \
    }                                                                                                                \
  } while (0)

enum { QUBITS = 7, CHECKS = QUBITS - 1, ROUNDS = 7, DETECTORS = CHECKS * ROUNDS, SHOTS = 20000, PERCENT = 3 };
#define BYTES ((DETECTORS + 7) / 8)

/* Between 0 and 99: a generator that is good enough here (xorshift). */
static unsigned percent(void) {
  static uint64_t state = 88172645463325252u;
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return (unsigned)(state >> 33) % 100;
}

static void flip(uint8_t *bits, int index) { bits[index / 8] ^= (uint8_t)(1 << index % 8); }

/* The model, as Stim would write it: in each round each qubit may flip, and each check may be read wrongly, which two
 * rounds see. A flip of the first qubit flips the observable. A program with a circuit of its own has Stim write it,
 * with decompose_errors=True. */
static size_t model(char *text, size_t room) {
  size_t at = 0;
  for (int t = 0; t < ROUNDS; ++t) {
    const int d = t * CHECKS;
    for (int q = 0; q < QUBITS; ++q)
      if (q == 0)
        at += (size_t)snprintf(text + at, room - at, "error(0.%02d) D%d L0\n", PERCENT, d);
      else if (q == QUBITS - 1)
        at += (size_t)snprintf(text + at, room - at, "error(0.%02d) D%d\n", PERCENT, d + q - 1);
      else
        at += (size_t)snprintf(text + at, room - at, "error(0.%02d) D%d D%d\n", PERCENT, d + q - 1, d + q);
    for (int c = 0; c < CHECKS; ++c) {
      if (t + 1 < ROUNDS)
        at += (size_t)snprintf(text + at, room - at, "error(0.%02d) D%d D%d\n", PERCENT, d + c, d + c + CHECKS);
      at += (size_t)snprintf(text + at, room - at, "detector(%d, %d) D%d\n", c, t, d + c);
    }
  }
  return at;
}

/* A shot: packed detectors, and whether the observable was flipped. */
static int sample(uint8_t *bits) {
  int flipped = 0;
  memset(bits, 0, BYTES);
  for (int t = 0; t < ROUNDS; ++t) {
    for (int q = 0; q < QUBITS; ++q)
      if (percent() < PERCENT) {
        flipped ^= q == 0;
        if (q > 0)
          flip(bits, t * CHECKS + q - 1);
        if (q < CHECKS)
          flip(bits, t * CHECKS + q);
      }
    for (int c = 0; c < CHECKS && t + 1 < ROUNDS; ++c)
      if (percent() < PERCENT)
        flip(bits, t * CHECKS + c), flip(bits, (t + 1) * CHECKS + c);
  }
  return flipped;
}

int main(int argc, char **argv) {
  /* A file's model can be looked at as well. */
  ringcall_decoder_t *decoder;
  ringcall_decoder_info_t info;
  if (argc > 1) {
    CHECK(ringcall_decoder_create_from_dem_file(argv[1], RINGCALL_MATCHING_CORRELATED, &decoder));
    CHECK(ringcall_decoder_get_info(decoder, &info));
    CHECK(ringcall_decoder_destroy(decoder));
    printf("%s: %u detectors, %u observables\n", argv[1], info.num_detectors, info.num_observables);
    return 0;
  }

  static char text[64 * (QUBITS + 2 * CHECKS) * ROUNDS];
  CHECK(ringcall_decoder_create_from_dem(text, model(text, sizeof text), RINGCALL_MATCHING_PLAIN, &decoder));
  CHECK(ringcall_decoder_get_info(decoder, &info));
  if (info.num_detectors != DETECTORS || info.syndrome_bytes != BYTES || info.observable_bytes != 1)
    return 1;

  /* All shots at once. */
  static uint8_t syndromes[SHOTS * BYTES], truth[SHOTS], predicted[SHOTS];
  static double weights[SHOTS];
  for (int shot = 0; shot < SHOTS; ++shot)
    truth[shot] = (uint8_t)sample(syndromes + shot * BYTES);
  CHECK(ringcall_decoder_decode_batch(decoder, SHOTS, syndromes, sizeof syndromes, predicted, sizeof predicted,
                                      weights, NULL));
  int raw = 0, errors = 0;
  for (int shot = 0; shot < SHOTS; ++shot) {
    raw += truth[shot];
    errors += truth[shot] != predicted[shot];
  }

  /* The first ones one by one, and as they would come in: a round at a time. */
  ringcall_decoder_stream_t *stream;
  CHECK(ringcall_decoder_stream_create(decoder, NULL, 0, &stream));
  for (int shot = 0; shot < 1000; ++shot) {
    const uint8_t *bits = syndromes + shot * BYTES;
    uint8_t observables;
    double weight, streamed = -1;
    CHECK(ringcall_decoder_decode_bits(decoder, bits, BYTES, &observables, 1, &weight));
    if (observables != predicted[shot] || weight != weights[shot]) {
      fprintf(stderr, "shot %d: another answer than the batch's\n", shot);
      return 1;
    }
    for (int t = 0, done = 0; !done; ++t) {
      uint32_t fired[CHECKS];
      size_t count = 0;
      for (int d = t * CHECKS; d < (t + 1) * CHECKS; ++d)
        if (bits[d / 8] >> d % 8 & 1)
          fired[count++] = (uint32_t)d;
      CHECK(ringcall_decoder_stream_push_round(stream, fired, count, &observables, 1, &streamed, &done));
    }
    if (streamed != weight) {
      fprintf(stderr, "shot %d: round by round it weighs %g, not %g\n", shot, streamed, weight);
      return 1;
    }
  }
  CHECK(ringcall_decoder_stream_destroy(stream));

  /* What cannot be decoded is refused with words. */
  const uint32_t nowhere = DETECTORS;
  if (ringcall_decoder_decode(decoder, &nowhere, 1, predicted, 1, NULL) == CUDAQ_OK)
    return 1;
  printf("refused: %s\n", ringcall_last_error());
  CHECK(ringcall_decoder_destroy(decoder));

  /* The code alone, as a check matrix without rounds. */
  uint8_t checks[CHECKS * QUBITS] = {0}, observable[QUBITS] = {1};
  for (int c = 0; c < CHECKS; ++c)
    checks[c * QUBITS + c] = checks[c * QUBITS + c + 1] = 1;
  CHECK(ringcall_decoder_create_from_check_matrix(CHECKS, 1, QUBITS, checks, observable, NULL, &decoder));
  const uint8_t first_fired[CHECKS] = {1};
  uint8_t flipped;
  double flips;
  CHECK(ringcall_decoder_decode_bytes(decoder, first_fired, CHECKS, &flipped, 1, &flips));
  CHECK(ringcall_decoder_destroy(decoder));
  if (flipped != 1 || flips != 1)
    return 1;

  printf("ringcall %s: %d shots, %d flipped the observable, %d logical errors\n", ringcall_version(), SHOTS, raw,
         errors);
  return errors * 10 < raw ? 0 : 1;
}

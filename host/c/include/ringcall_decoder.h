/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Decoders: which logical observables were flipped, given the detectors that fired. No GPU, no ring and no dispatcher
 * is needed.
 *
 * A decoder is of a detector error model (Stim's `.dem` text) or of a check matrix. By minimum-weight perfect matching
 * it finds a correction of minimum weight: exact, and the same weights as PyMatching's, to the step that weights are
 * rounded to. By Relay-BP, belief propagation in relayed legs, it takes errors that flip any number of detectors, of
 * bicycle and other qLDPC codes, colour codes, or both bases together, and may end without a correction that explains
 * the syndrome: the weight of such an answer is INFINITY, and its observables are the best guess.
 *
 * Shapes      Detectors are 0 .. num_detectors - 1, observables 0 .. num_observables - 1 (ringcall_decoder_get_info).
 *             Packed bits are those of Stim's b8: index i is bit i % 8, the least significant first, of byte i / 8;
 *             bits behind the last detector are 0, and so are those behind the last observable.
 * Units       A weight is the sum of ln((1 - p) / p) over the errors of a correction, p their probabilities; negative
 *             where an error is likelier than not. Of a check matrix without priors it is the number of errors.
 * Ownership   Everything passed in is copied or read before the call returns; nothing of the caller's is kept.
 *             Handles are names, not addresses: a null, foreign or destroyed one gives CUDAQ_ERR_INVALID_ARG, also
 *             the second time. Decoders, clones and streams are destroyed each by itself, in any order: what they
 *             share lives as long as one of them.
 * Threads     Any thread may call anything. Calls on one decoder, or on one stream, are made one after the other: a
 *             call waits for the one before. To decode on several threads, give each a clone.
 * Time        Making a decoder takes milliseconds to seconds, and memory for tables: up to 256 MiB, or 256 bytes a
 *             detector if that is more. Decoding allocates nothing (a dense graph apart, at the first shots) and
 *             calls nothing of the system.
 * Errors      As in cudaq_realtime.h: CUDAQ_ERR_INVALID_ARG for what a caller can mend, and ringcall_last_error()
 *             names it: the line of the text, the column of the matrix, the detector, the shot. CUDAQ_ERR_INTERNAL
 *             for faults of the library. A call that fails has written nothing, but for
 *             ringcall_decoder_decode_batch, and a refused shot leaves the decoder as good as new.
 */
#ifndef RINGCALL_DECODER_H
#define RINGCALL_DECODER_H

#include "cudaq/realtime/daemon/dispatcher/cudaq_realtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ringcall_decoder_t ringcall_decoder_t;
typedef struct ringcall_decoder_stream_t ringcall_decoder_stream_t;

/* How a matching is found. */
typedef enum {
  RINGCALL_MATCHING_PLAIN = 0,
  /* Twice, the second time with lower weights for parts of errors of which the first found another part (`^` in a
   * model): fewer logical errors, and slower. PyMatching's enable_correlations=True, up to ties. Probabilities above
   * 0.5 are refused. Weights are those of the second time. */
  RINGCALL_MATCHING_CORRELATED = 1,
  /* Correlated first, then up to nine more times where that may help, put together by the likelihood of the errors that
   * they stand for: the fewest logical errors, at up to twice the time. Weights are those of the second time. Streams are
   * matched as with RINGCALL_MATCHING_CORRELATED. */
  RINGCALL_MATCHING_ENSEMBLE = 2
} ringcall_matching_t;

/* Numbers of a decoder. 24 bytes. */
typedef struct {
  uint32_t num_detectors;
  uint32_t num_observables;
  uint32_t syndrome_bytes;   /* of a packed syndrome: num_detectors / 8, rounded up */
  uint32_t observable_bytes; /* of packed observables: num_observables / 8, rounded up */
  double weight_step;        /* weights are whole multiples of it */
} ringcall_decoder_info_t;

/* ---- Making one ---- */

/*
 * Of a detector error model: `text_bytes` bytes of text, which need not end in a NUL (and do not count one). Each
 * part of an error flips one detector or two (`decompose_errors=True` in Stim); errors that flip the same detectors
 * become one edge, as PyMatching has it. At most 2^24 detectors and 2^16 observables. Refused, with the number of the
 * line: text that Stim would not read. Refused, with the number of the error, counted from 0: a part of more than two
 * detectors, and a probability of 1.
 */
cudaq_status_t ringcall_decoder_create_from_dem(const char *text, size_t text_bytes, ringcall_matching_t matching,
                                                ringcall_decoder_t **out_decoder);
/* The same of a file, which must be a regular one. `path` is UTF-8. */
cudaq_status_t ringcall_decoder_create_from_dem_file(const char *path, ringcall_matching_t matching,
                                                     ringcall_decoder_t **out_decoder);

/*
 * Of a check matrix: a row for each detector, a column for each error. `checks` has num_detectors x num_errors bytes,
 * each 0 or 1, row by row: entry (row, column) is checks[row * num_errors + column]. `observables` is the same with
 * num_observables rows: which observables an error flips; NULL if num_observables is 0. A column has one or two ones
 * among its checks; a column without any is left out, since no syndrome shows it.
 *
 * `priors` has the probability of each error, 0 <= p < 1 (NaN is none); columns with the same checks become one edge,
 * as in a detector error model, with the observables of the first. NULL: each error weighs 1, and of columns with the
 * same checks the first counts.
 *
 * Matching is plain: each error is one edge, so no part of it says anything of another.
 */
cudaq_status_t ringcall_decoder_create_from_check_matrix(uint32_t num_detectors, uint32_t num_observables,
                                                         uint32_t num_errors, const uint8_t *checks,
                                                         const uint8_t *observables, const double *priors,
                                                         ringcall_decoder_t **out_decoder);
/*
 * The same of compressed columns (CSC): the ones of column i are in the rows check_rows[check_offsets[i]] to
 * check_rows[check_offsets[i + 1] - 1], in any order, each once. Offsets are num_errors + 1, from 0 on, and never
 * fall. `observable_offsets` and `observable_rows` are the same for observables; NULL if num_observables is 0.
 */
cudaq_status_t ringcall_decoder_create_from_sparse_check_matrix(uint32_t num_detectors, uint32_t num_observables,
                                                                uint32_t num_errors, const uint64_t *check_offsets,
                                                                const uint32_t *check_rows,
                                                                const uint64_t *observable_offsets,
                                                                const uint32_t *observable_rows, const double *priors,
                                                                ringcall_decoder_t **out_decoder);

/*
 * Settings of Relay-BP (Mueller et al., arXiv:2506.01779). 72 bytes. Begin with RINGCALL_RELAY_SETTINGS, which are those
 * published, for one solution; NULL in their place means the same. A decode is a sequence of legs; leg 0 has one memory
 * strength (gamma) for all errors, each further leg draws one for every error, and takes over what the leg before it
 * holds for likely. Without further legs, with first_gamma 0, it is min-sum belief propagation. Answers are the same on
 * any machine, to the bit.
 */
typedef struct {
  uint32_t first_iterations; /* of leg 0, at least 1 */
  uint32_t leg_iterations;   /* of each further leg, at least 1 if there are such */
  uint32_t legs;             /* further legs, at most */
  uint32_t solutions;        /* legs that shall converge, at least 1: the lightest solution wins */
  uint32_t max_iterations;   /* of all legs together, at least 1: the bound on the work of a shot */
  uint32_t seed;             /* names the memory strengths that are drawn */
  uint32_t lanes;            /* 1 to 64 that race with seeds of their own, here one after the other */
  uint32_t lane_delay;       /* what lanes after the first are behind by, in iterations, up to 1000000 */
  /* What follows where nothing converged: -1 nothing; 0 ordered statistics of order 0; up to 1000: a combination sweep of
   * that order. */
  int32_t ordered_statistics;
  uint32_t reserved; /* 0 */
  /* From -1 to 1, rounded to 128ths. */
  double first_gamma;
  double min_gamma, max_gamma; /* of further legs */
  double damping;              /* of messages, from 0 to less than 1 */
} ringcall_relay_settings_t;

#define RINGCALL_RELAY_SETTINGS                                                                                        \
  { 80, 60, 300, 1, 0xffffffffu, 0, 1, 20, -1, 0, 0.125, -0.24, 0.66, 0.0 }

/*
 * Decoders by Relay-BP, of what the four above are of, and refused as there, but for: errors may flip up to 250
 * detectors, and a decomposition (`^`) is not used; probabilities go up to 1; `priors` must be given; columns with the
 * same checks and observables become one, others stay apart. Weights are whole multiples of 1/8. Streams cannot be made
 * of them (CUDAQ_ERR_UNSUPPORTED). A syndrome that no correction explains is no error, and does not converge.
 */
cudaq_status_t ringcall_decoder_create_relay_from_dem(const char *text, size_t text_bytes,
                                                      const ringcall_relay_settings_t *settings,
                                                      ringcall_decoder_t **out_decoder);
cudaq_status_t ringcall_decoder_create_relay_from_dem_file(const char *path, const ringcall_relay_settings_t *settings,
                                                           ringcall_decoder_t **out_decoder);
cudaq_status_t ringcall_decoder_create_relay_from_check_matrix(uint32_t num_detectors, uint32_t num_observables,
                                                               uint32_t num_errors, const uint8_t *checks,
                                                               const uint8_t *observables, const double *priors,
                                                               const ringcall_relay_settings_t *settings,
                                                               ringcall_decoder_t **out_decoder);
cudaq_status_t ringcall_decoder_create_relay_from_sparse_check_matrix(
    uint32_t num_detectors, uint32_t num_observables, uint32_t num_errors, const uint64_t *check_offsets,
    const uint32_t *check_rows, const uint64_t *observable_offsets, const uint32_t *observable_rows,
    const double *priors, const ringcall_relay_settings_t *settings, ringcall_decoder_t **out_decoder);

/* Another decoder that shares the tables of this one: for another thread. */
cudaq_status_t ringcall_decoder_clone(const ringcall_decoder_t *decoder, ringcall_decoder_t **out_decoder);
/* Ends a decoder. A call that another thread is in ends as if nothing had happened. */
cudaq_status_t ringcall_decoder_destroy(ringcall_decoder_t *decoder);

cudaq_status_t ringcall_decoder_get_info(const ringcall_decoder_t *decoder, ringcall_decoder_info_t *out_info);

/* ---- One shot ----
 *
 * `out_observables` has room for `out_bytes` bytes; what the answer needs is written, and no more. It may be NULL
 * where there are no observables. `out_weight` may be NULL. Refused: a detector out of range or twice, detectors that
 * no correction explains (an odd number in a part of the graph without a boundary), a syndrome of another length than
 * the decoder's, room that is too short.
 */

/* The detectors that fired, `count` of them, in any order; the observables come packed (observable_bytes). */
cudaq_status_t ringcall_decoder_decode(const ringcall_decoder_t *decoder, const uint32_t *detectors, size_t count,
                                       uint8_t *out_observables, size_t out_bytes, double *out_weight);
/* A packed syndrome of just syndrome_bytes; the observables come packed. */
cudaq_status_t ringcall_decoder_decode_bits(const ringcall_decoder_t *decoder, const uint8_t *syndrome,
                                            size_t syndrome_bytes, uint8_t *out_observables, size_t out_bytes,
                                            double *out_weight);
/* A byte for each of num_detectors detectors, 0 or 1; a byte for each observable comes back. */
cudaq_status_t ringcall_decoder_decode_bytes(const ringcall_decoder_t *decoder, const uint8_t *syndrome,
                                             size_t num_detectors, uint8_t *out_observables, size_t out_bytes,
                                             double *out_weight);

/* ---- Many shots ---- */

/*
 * `shots` packed syndromes, one right behind the other, as a b8 file has them: syndromes_bytes is shots x
 * syndrome_bytes. The answers lie alike: shots x observable_bytes in `out_observables`, and in `out_weights`, unless
 * that is NULL, a weight for each.
 *
 * The first shot that is refused ends the call, and ringcall_last_error() says which it was; the answers of those
 * before it have been written then. *out_decoded (may be NULL) is how many were.
 */
cudaq_status_t ringcall_decoder_decode_batch(const ringcall_decoder_t *decoder, size_t shots,
                                             const uint8_t *syndromes, size_t syndromes_bytes,
                                             uint8_t *out_observables, size_t out_bytes, double *out_weights,
                                             size_t *out_decoded);

/* How a shot ended, as `decode_syndrome` has it on the wire. */
enum {
  RINGCALL_NOT_CONVERGED = 0, /* the correction does not explain the syndrome: a best guess */
  RINGCALL_CONVERGED = 1,
  RINGCALL_LATE = 3 /* time was up: the best so far */
};

/* What a decoder says of an answer. 32 bytes. */
typedef struct {
  int32_t corrections; /* matched pairs, or errors of the correction */
  int32_t converged;   /* one of the three above */
  uint32_t iterations; /* of Relay-BP, all legs together; 0 of matching */
  uint32_t solutions;  /* legs of Relay-BP that converged; 0 of matching, and where ordered statistics found it */
  double weight;       /* INFINITY where the correction does not explain the syndrome */
  /* ln of the odds that the observables are right: of RINGCALL_MATCHING_ENSEMBLE, INFINITY where it saw no alternative;
   * NAN of other decoders, which do not say. */
  double confidence;
} ringcall_decoder_outcome_t;

/*
 * As ringcall_decoder_decode_batch, with an outcome for each shot in `out_outcomes`; for one shot, `shots` is 1. A shot
 * takes at most `limit_ns` nanoseconds, if that is not 0, and what was under way then (of Relay-BP an iteration): it is
 * late, and its answer is the best so far. A decoder that was done before it looked at the time is not late.
 */
cudaq_status_t ringcall_decoder_decode_shots(const ringcall_decoder_t *decoder, uint64_t limit_ns, size_t shots,
                                             const uint8_t *syndromes, size_t syndromes_bytes,
                                             uint8_t *out_observables, size_t out_bytes,
                                             ringcall_decoder_outcome_t *out_outcomes, size_t *out_decoded);

/* ---- Over a ring ----
 *
 * The body of a function of the host path, whose entry in the function table has `decode_syndrome`'s id or another:
 *
 *   static ringcall_decoder_t *decoder;
 *   static void decode(const void *rx_slot, void *tx_slot, size_t slot_bytes) {
 *     ringcall_decoder_serve_slot(decoder, 0, rx_slot, tx_slot, slot_bytes);
 *   }
 *
 * The request's payload is a packed syndrome; the answer's is the packed observables, then `corrections` and `converged`
 * of the outcome, an int32 each, as `decode_syndrome` has them. Header and result are written whatever happens:
 * RINGCALL_STATUS_BAD_PAYLOAD for a payload that is no syndrome of this decoder, RINGCALL_STATUS_RESULT_TOO_LONG for a
 * slot that is too short, RINGCALL_STATUS_ENGINE_FAILED for a syndrome that matching refuses; the call then still
 * returns CUDAQ_OK. It writes nothing only where it returns something else. `rx_slot` and `tx_slot` are the two that the
 * dispatcher gave, apart from each other, of `slot_bytes` bytes each.
 */
cudaq_status_t ringcall_decoder_serve_slot(const ringcall_decoder_t *decoder, uint64_t limit_ns, const void *rx_slot,
                                           void *tx_slot, size_t slot_bytes);

/* ---- Round by round ----
 *
 * A stream is given the detectors of one round after the other and does most of the work before the last one. The
 * answer is of minimum weight for the whole syndrome, as the decoder's own; of several of the same weight it may be
 * another one. Only of a decoder whose matching is plain: CUDAQ_ERR_UNSUPPORTED of one with correlations.
 */

/*
 * `rounds` has the round of each detector, from 0 on; `count` must be num_detectors. NULL with count 0: the rounds of
 * the model, by the last coordinate of each detector, whose smallest value is round 0; refused where a detector has
 * none, and for a check matrix.
 */
cudaq_status_t ringcall_decoder_stream_create(const ringcall_decoder_t *decoder, const uint32_t *rounds, size_t count,
                                              ringcall_decoder_stream_t **out_stream);
/*
 * The next round: its detectors that fired, `count` of them, numbered as everywhere, in any order. *out_done is 1
 * after the last round, whose call writes the answer as ringcall_decoder_decode does; before, it is 0 and nothing
 * else is written. Room for the answer is asked for in each call. The next round then is the first of the next
 * syndrome.
 *
 * A refused round was not taken: a detector of another round, out of range or twice; with the last one, detectors
 * that no correction explains. It may be given again, or the stream restarted.
 */
cudaq_status_t ringcall_decoder_stream_push_round(ringcall_decoder_stream_t *stream, const uint32_t *detectors,
                                                  size_t count, uint8_t *out_observables, size_t out_bytes,
                                                  double *out_weight, int *out_done);
/* Which round comes next, from 0 on, and how many a syndrome has. Either may be NULL. */
cudaq_status_t ringcall_decoder_stream_get_progress(const ringcall_decoder_stream_t *stream, uint32_t *out_next_round,
                                                    uint32_t *out_num_rounds);
/* Forgets the rounds of an unfinished syndrome. */
cudaq_status_t ringcall_decoder_stream_restart(ringcall_decoder_stream_t *stream);
cudaq_status_t ringcall_decoder_stream_destroy(ringcall_decoder_stream_t *stream);

#ifdef __cplusplus
}
#endif
#endif

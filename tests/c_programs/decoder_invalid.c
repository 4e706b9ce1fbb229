/* Every way to get a decoder's arguments wrong: a status and words that name it, never a crash; nothing is written.
 */
#include "program.h"
#include "ringcall_decoder.h"
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

/* Refused, with these words; the decoder goes on. */
#define EXPECT_REFUSED(call, words)                                                                                  \
  do {                                                                                                               \
    EXPECT_INVALID(call);                                                                                            \
    EXPECT(strstr(ringcall_last_error(), words) != NULL);                                                            \
  } while (0)

static void *const NONSENSE = (void *)0x1234567;
/* Three detectors of a repetition code, of rounds 0, 1, 2. An error at the right end flips the observable. */
static const char MODEL[] = "error(0.1) D0\nerror(0.1) D0 D1\nerror(0.1) D1 D2\nerror(0.1) D2 L0\n"
                            "detector(0, 0) D0\ndetector(0, 1) D1\ndetector(0, 2) D2\n";

static ringcall_decoder_t *none;

static cudaq_status_t of_dem(const char *text) {
  cudaq_status_t status = ringcall_decoder_create_from_dem(text, strlen(text), RINGCALL_MATCHING_PLAIN, &none);
  EXPECT(status == CUDAQ_OK || none == NULL);
  return status;
}

static ringcall_decoder_t *decoder_of(const char *text, ringcall_matching_t matching) {
  ringcall_decoder_t *decoder = NULL;
  EXPECT_OK(ringcall_decoder_create_from_dem(text, strlen(text), matching, &decoder));
  return decoder;
}

static void models(void) {
  EXPECT_REFUSED(ringcall_decoder_create_from_dem(NULL, 3, RINGCALL_MATCHING_PLAIN, &none), "text is null");
  EXPECT_REFUSED(ringcall_decoder_create_from_dem(MODEL, 3, RINGCALL_MATCHING_PLAIN, NULL), "out_decoder is null");
  EXPECT_REFUSED(ringcall_decoder_create_from_dem(MODEL, 3, (ringcall_matching_t)3, &none), "kind 3 of matching");
  EXPECT_REFUSED(ringcall_decoder_create_from_dem(MODEL, 3, (ringcall_matching_t)-1, &none), "kind -1 of matching");
  EXPECT_REFUSED(of_dem("error(0.1) D0\nerror(nan) D1"), "line 2");
  EXPECT_REFUSED(of_dem("error(2) D0"), "line 1");
  EXPECT_REFUSED(of_dem("error(0.1) D0\n\xff\n"), "line 2");
  EXPECT_REFUSED(of_dem("error(0.1) D0 D1 D2"), "mechanism 0");
  EXPECT_REFUSED(of_dem("error(0.1) D0\nerror(1) D1"), "mechanism 1");
  EXPECT_REFUSED(of_dem("error(0.1) D4294967295"), "line 1");
  EXPECT_REFUSED(of_dem("repeat 1000000000000 {\n error(0.1) D0\n}"), "line ");
  EXPECT_REFUSED(ringcall_decoder_create_from_dem("error(0.6) D0 ^ D1", 18, RINGCALL_MATCHING_CORRELATED, &none),
                 "0.6");
  /* A NUL that was counted. */
  EXPECT_INVALID(ringcall_decoder_create_from_dem("error(0.1) D0", 14, RINGCALL_MATCHING_PLAIN, &none));
  /* No text is a model of nothing. */
  EXPECT_OK(of_dem(""));
  ringcall_decoder_info_t info;
  EXPECT_OK(ringcall_decoder_get_info(none, &info));
  EXPECT(info.num_detectors == 0 && info.syndrome_bytes == 0 && info.observable_bytes == 0);
  EXPECT_OK(ringcall_decoder_decode(none, NULL, 0, NULL, 0, NULL));
  EXPECT_OK(ringcall_decoder_decode_batch(none, 5, NULL, 0, NULL, 0, NULL, NULL));
  EXPECT_OK(ringcall_decoder_destroy(none));
  none = NULL;

  EXPECT_REFUSED(ringcall_decoder_create_from_dem_file(NULL, RINGCALL_MATCHING_PLAIN, &none), "path is null");
  EXPECT_REFUSED(ringcall_decoder_create_from_dem_file("/no/such.dem", RINGCALL_MATCHING_PLAIN, &none),
                 "/no/such.dem");
  EXPECT_REFUSED(ringcall_decoder_create_from_dem_file("/", RINGCALL_MATCHING_PLAIN, &none), "no file");
  EXPECT_REFUSED(ringcall_decoder_create_from_dem_file("/dev/zero", RINGCALL_MATCHING_PLAIN, &none), "no file");
  EXPECT_REFUSED(ringcall_decoder_create_from_dem_file("\xff", RINGCALL_MATCHING_PLAIN, &none), "UTF-8");
  char path[] = "/tmp/ringcall-decoder-XXXXXX";
  const int file = mkstemp(path);
  EXPECT(file >= 0 && write(file, "error(0.1) D0\nerror(x) D1\n", 26) == 26 && close(file) == 0);
  EXPECT_REFUSED(ringcall_decoder_create_from_dem_file(path, RINGCALL_MATCHING_PLAIN, &none), "line 2");
  EXPECT(strstr(ringcall_last_error(), path) != NULL && unlink(path) == 0);
  EXPECT(mkfifo(path, 0600) == 0);
  EXPECT_REFUSED(ringcall_decoder_create_from_dem_file(path, RINGCALL_MATCHING_PLAIN, &none), "no file");
  EXPECT(unlink(path) == 0 && none == NULL);
}

/* Two detectors, three errors; the last flips the observable. */
static const uint8_t CHECKS[6] = {1, 1, 0, 0, 1, 1}, FLIPS[3] = {0, 0, 1};
static const uint64_t OFFSETS[4] = {0, 1, 3, 4}, FLIP_OFFSETS[4] = {0, 0, 0, 1};
static const uint32_t ROWS[4] = {0, 0, 1, 1}, FLIP_ROWS[1] = {0};

static cudaq_status_t dense(const uint8_t *checks, const uint8_t *flips, const double *priors) {
  return ringcall_decoder_create_from_check_matrix(2, 1, 3, checks, flips, priors, &none);
}
static cudaq_status_t sparse(const uint64_t *offsets, const uint32_t *rows, const double *priors) {
  return ringcall_decoder_create_from_sparse_check_matrix(2, 1, 3, offsets, rows, FLIP_OFFSETS, FLIP_ROWS, priors,
                                                          &none);
}

static void matrices(void) {
  EXPECT_REFUSED(dense(NULL, FLIPS, NULL), "the check matrix is null");
  EXPECT_REFUSED(dense(CHECKS, NULL, NULL), "the observables matrix is null");
  const uint8_t two[6] = {1, 1, 0, 0, 2, 1};
  EXPECT_REFUSED(dense(two, FLIPS, NULL), "row 1, column 1 of the check matrix is 2");
  const uint8_t flips[3] = {0, 255, 1};
  EXPECT_REFUSED(dense(CHECKS, flips, NULL), "row 0, column 1 of the observables matrix is 255");
  const double wrong[] = {NAN, INFINITY, -INFINITY, -0.1, 1.5, 1.0};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    const double priors[3] = {0.1, wrong[i], 0.1};
    EXPECT_REFUSED(dense(CHECKS, FLIPS, priors), "prior of column 1");
    EXPECT_REFUSED(sparse(OFFSETS, ROWS, priors), "prior of column 1");
  }
  const double priors[3] = {0.1, 0.1, 0.1};
  EXPECT_REFUSED(dense(CHECKS, FLIPS, (const double *)((const char *)priors + 4)), "aligned");
  const uint8_t three[9] = {1, 0, 0, 1, 0, 0, 1, 0, 0};
  EXPECT_REFUSED(ringcall_decoder_create_from_check_matrix(3, 0, 3, three, NULL, NULL, &none),
                 "column 0 of the check matrix has 3");
  EXPECT_REFUSED(ringcall_decoder_create_from_check_matrix(0xffffffff, 0, 1, CHECKS, NULL, NULL, &none),
                 "detectors are too many");
  EXPECT_REFUSED(ringcall_decoder_create_from_check_matrix(1, 0xffffffff, 1, CHECKS, NULL, NULL, &none),
                 "observables are too many");
  EXPECT_REFUSED(ringcall_decoder_create_from_check_matrix(2, 1, 3, CHECKS, FLIPS, NULL, NULL),
                 "out_decoder is null");

  EXPECT_REFUSED(sparse(NULL, ROWS, NULL), "the offsets of the check matrix is null");
  EXPECT_REFUSED(sparse(OFFSETS, NULL, NULL), "the rows of the check matrix is null");
  const uint64_t begin[4] = {1, 1, 3, 4}, fall[4] = {0, 3, 1, 4};
  EXPECT_REFUSED(sparse(begin, ROWS, NULL), "do not begin with 0");
  EXPECT_REFUSED(sparse(fall, ROWS, NULL), "fall after column 1");
  const uint32_t far[4] = {0, 0, 2, 1}, twice[4] = {0, 1, 1, 1};
  EXPECT_REFUSED(sparse(OFFSETS, far, NULL), "column 1 of the check matrix names row 2");
  EXPECT_REFUSED(sparse(OFFSETS, twice, NULL), "names row 1 twice");
  EXPECT_REFUSED(ringcall_decoder_create_from_sparse_check_matrix(2, 1, 3, OFFSETS, ROWS, NULL, NULL, NULL, &none),
                 "the offsets of the observables matrix is null");
  EXPECT(none == NULL);

  /* Without observables, without priors; without an error at all. */
  EXPECT_OK(ringcall_decoder_create_from_sparse_check_matrix(2, 0, 3, OFFSETS, ROWS, NULL, NULL, NULL, &none));
  double weight;
  const uint32_t fired[2] = {0, 1};
  EXPECT_OK(ringcall_decoder_decode(none, fired, 2, NULL, 0, &weight));
  EXPECT(weight == 1);
  EXPECT_OK(ringcall_decoder_destroy(none));
  EXPECT_OK(ringcall_decoder_create_from_check_matrix(2, 0, 0, NULL, NULL, NULL, &none));
  EXPECT_REFUSED(ringcall_decoder_decode(none, fired, 1, NULL, 0, &weight), "odd number");
  EXPECT_OK(ringcall_decoder_destroy(none));
  /* Columns with the same checks: by their priors as one, whose observables are the first's; of probability 0, none.
   */
  const uint8_t checks[3] = {1, 1, 1}, third[3] = {0, 0, 1};
  const double parallel[3] = {0.1, 0.2, 0};
  uint8_t observables;
  EXPECT_OK(ringcall_decoder_create_from_check_matrix(1, 1, 3, checks, third, parallel, &none));
  EXPECT_OK(ringcall_decoder_decode(none, fired, 1, &observables, 1, &weight));
  EXPECT(observables == 0 && fabs(weight - log(0.74 / 0.26)) < 1e-6);
  EXPECT_OK(ringcall_decoder_destroy(none));
  none = NULL;
}

static void shots(void) {
  ringcall_decoder_t *decoder = decoder_of(MODEL, RINGCALL_MATCHING_PLAIN), *const foreign =
                                                                                (ringcall_decoder_t *)NONSENSE;
  ringcall_decoder_info_t info;
  uint8_t out[4] = {0xee, 0xee, 0xee, 0xee};
  const uint32_t fired[2] = {1, 2}, far[1] = {3}, twice[2] = {2, 2};
  double weight = 5;
  EXPECT_REFUSED(ringcall_decoder_get_info(NULL, &info), "the decoder is null");
  EXPECT_REFUSED(ringcall_decoder_get_info(foreign, &info), "no decoder");
  EXPECT_REFUSED(ringcall_decoder_get_info(decoder, NULL), "out_info is null");
  EXPECT_OK(ringcall_decoder_get_info(decoder, &info));
  EXPECT(info.num_detectors == 3 && info.num_observables == 1 && info.syndrome_bytes == 1 &&
         info.observable_bytes == 1);

  EXPECT_REFUSED(ringcall_decoder_decode(NULL, fired, 2, out, 1, &weight), "the decoder is null");
  EXPECT_REFUSED(ringcall_decoder_decode(foreign, fired, 2, out, 1, &weight), "no decoder");
  EXPECT_REFUSED(ringcall_decoder_decode(decoder, NULL, 2, out, 1, &weight), "detectors is null");
  EXPECT_REFUSED(ringcall_decoder_decode(decoder, (const uint32_t *)((const char *)fired + 2), 1, out, 1, &weight),
                 "aligned");
  EXPECT_REFUSED(ringcall_decoder_decode(decoder, fired, (size_t)-1, out, 1, &weight), "more than memory has");
  EXPECT_REFUSED(ringcall_decoder_decode(decoder, far, 1, out, 1, &weight), "detector 3 is out of range");
  EXPECT_REFUSED(ringcall_decoder_decode(decoder, twice, 2, out, 1, &weight), "detector 2 is listed twice");
  EXPECT_REFUSED(ringcall_decoder_decode(decoder, fired, 2, NULL, 1, &weight), "observables is null");
  EXPECT_REFUSED(ringcall_decoder_decode(decoder, fired, 2, out, 0, &weight), "too short");
  EXPECT_REFUSED(ringcall_decoder_decode(decoder, fired, 2, out, 1, (double *)((char *)&weight + 1)),
                 "the weight is");

  const uint8_t bits[2] = {6, 0}, stray[1] = {8};
  EXPECT_REFUSED(ringcall_decoder_decode_bits(decoder, NULL, 1, out, 1, &weight), "the syndrome is null");
  EXPECT_REFUSED(ringcall_decoder_decode_bits(decoder, bits, 0, out, 1, &weight), "0 bytes of syndrome");
  EXPECT_REFUSED(ringcall_decoder_decode_bits(decoder, bits, 2, out, 1, &weight), "2 bytes of syndrome");
  EXPECT_REFUSED(ringcall_decoder_decode_bits(decoder, stray, 1, out, 1, &weight), "after those of 3 detectors");
  const uint8_t bytes[4] = {0, 1, 1, 0}, seven[3] = {0, 7, 0};
  EXPECT_REFUSED(ringcall_decoder_decode_bytes(decoder, bytes, 2, out, 1, &weight), "2 detectors were given");
  EXPECT_REFUSED(ringcall_decoder_decode_bytes(decoder, bytes, 4, out, 1, &weight), "4 detectors were given");
  EXPECT_REFUSED(ringcall_decoder_decode_bytes(decoder, seven, 3, out, 1, &weight),
                 "detector 1 of the syndrome is 7");
  EXPECT_REFUSED(ringcall_decoder_decode_bytes(decoder, bytes, 3, out, 0, &weight), "too short");
  EXPECT(out[0] == 0xee && weight == 5);

  /* The third shot of four is refused: the answers of the first two are there. */
  const uint8_t batch[4] = {6, 4, 8, 1};
  double weights[4] = {5, 5, 5, 5};
  size_t decoded = 7;
  EXPECT_REFUSED(ringcall_decoder_decode_batch(decoder, 4, batch, 3, out, 4, weights, &decoded),
                 "3 bytes of syndromes");
  EXPECT_REFUSED(ringcall_decoder_decode_batch(decoder, (size_t)-1, batch, 4, out, 4, weights, &decoded),
                 "4 bytes of syndromes");
  EXPECT_REFUSED(ringcall_decoder_decode_batch(decoder, 4, batch, 4, out, 3, weights, &decoded), "too short");
  EXPECT_REFUSED(ringcall_decoder_decode_batch(decoder, 4, NULL, 4, out, 4, weights, &decoded), "syndromes is null");
  EXPECT_REFUSED(
      ringcall_decoder_decode_batch(decoder, 4, batch, 4, out, 4, weights, (size_t *)((char *)&decoded + 1)),
      "out_decoded");
  EXPECT(out[0] == 0xee && decoded == 7 && weights[0] == 5);
  EXPECT_REFUSED(ringcall_decoder_decode_batch(decoder, 4, batch, 4, out, 4, weights, &decoded), "shot 2: ");
  EXPECT(decoded == 2 && out[0] == 0 && out[1] == 1 && out[2] == 0xee && weights[1] > 0 && weights[1] < 5 &&
         weights[2] == 5);

  /* In and out at one address. */
  uint8_t shared[4] = {6, 4, 0, 1};
  EXPECT_OK(ringcall_decoder_decode_batch(decoder, 4, shared, 4, shared, 4, NULL, NULL));
  EXPECT(shared[0] == 0 && shared[1] == 1 && shared[2] == 0 && shared[3] == 0);

  /* A part of the graph without boundary. */
  ringcall_decoder_t *odd = decoder_of("error(0.1) D0 D1 L0", RINGCALL_MATCHING_PLAIN);
  EXPECT_REFUSED(ringcall_decoder_decode(odd, fired, 1, out, 1, NULL), "odd number");
  EXPECT_OK(ringcall_decoder_destroy(odd));

  EXPECT_REFUSED(ringcall_decoder_clone(NULL, &none), "the decoder is null");
  EXPECT_REFUSED(ringcall_decoder_clone(decoder, NULL), "out_decoder is null");
  EXPECT_REFUSED(ringcall_decoder_destroy(NULL), "the decoder is null");
  EXPECT_REFUSED(ringcall_decoder_destroy(foreign), "no decoder");
  EXPECT_OK(ringcall_decoder_destroy(decoder));
  EXPECT_REFUSED(ringcall_decoder_destroy(decoder), "destroyed before");
  EXPECT_REFUSED(ringcall_decoder_decode(decoder, fired, 2, out, 1, &weight), "destroyed before");
}

static void streams(void) {
  ringcall_decoder_t *decoder = decoder_of(MODEL, RINGCALL_MATCHING_PLAIN);
  ringcall_decoder_stream_t *stream = NULL;
  const uint32_t rounds[3] = {0, 1, 2}, gaps[3] = {0, 0, 0xffffffff};
  EXPECT_REFUSED(ringcall_decoder_stream_create(NULL, rounds, 3, &stream), "the decoder is null");
  EXPECT_REFUSED(ringcall_decoder_stream_create(decoder, rounds, 3, NULL), "out_stream is null");
  EXPECT_REFUSED(ringcall_decoder_stream_create(decoder, NULL, 3, &stream), "rounds is null");
  EXPECT_REFUSED(ringcall_decoder_stream_create(decoder, rounds, 2, &stream), "2 detectors");
  EXPECT_REFUSED(ringcall_decoder_stream_create(decoder, gaps, 3, &stream), "too many");
  ringcall_decoder_t *bare =
      decoder_of("error(0.1) D0\nerror(0.1) D0 D1\ndetector(0, 0) D0", RINGCALL_MATCHING_PLAIN);
  EXPECT_REFUSED(ringcall_decoder_stream_create(bare, NULL, 0, &stream), "detector 1 has no coordinates");
  EXPECT_OK(ringcall_decoder_destroy(bare));
  EXPECT_OK(ringcall_decoder_create_from_check_matrix(2, 1, 3, CHECKS, FLIPS, NULL, &bare));
  EXPECT_REFUSED(ringcall_decoder_stream_create(bare, NULL, 0, &stream), "check matrix");
  EXPECT_OK(ringcall_decoder_destroy(bare));
  bare = decoder_of("error(0.1) D0 ^ D1\nerror(0.1) D0", RINGCALL_MATCHING_CORRELATED);
  EXPECT(ringcall_decoder_stream_create(bare, rounds, 2, &stream) == CUDAQ_ERR_UNSUPPORTED);
  EXPECT(strstr(ringcall_last_error(), "correlations") != NULL && stream == NULL);
  EXPECT_OK(ringcall_decoder_destroy(bare));

  EXPECT_OK(ringcall_decoder_stream_create(decoder, rounds, 3, &stream));
  /* What a stream is on lives as long as the stream. */
  EXPECT_OK(ringcall_decoder_destroy(decoder));
  const uint32_t first[1] = {0}, last[1] = {2}, far[1] = {3};
  uint8_t out = 0xee;
  double weight = 5;
  int done = 7;
  uint32_t next;
  EXPECT_REFUSED(ringcall_decoder_stream_push_round(NULL, first, 1, &out, 1, &weight, &done), "the stream is null");
  EXPECT_REFUSED(ringcall_decoder_stream_push_round(stream, first, 1, &out, 1, &weight, NULL), "out_done is null");
  EXPECT_REFUSED(ringcall_decoder_stream_push_round(stream, NULL, 1, &out, 1, &weight, &done), "detectors is null");
  EXPECT_REFUSED(ringcall_decoder_stream_push_round(stream, last, 1, &out, 1, &weight, &done), "round 2");
  EXPECT_REFUSED(ringcall_decoder_stream_push_round(stream, far, 1, &out, 1, &weight, &done), "out of range");
  EXPECT_REFUSED(ringcall_decoder_stream_push_round(stream, first, 1, &out, 0, &weight, &done), "too short");
  EXPECT(out == 0xee && weight == 5 && done == 7);
  EXPECT_OK(ringcall_decoder_stream_push_round(stream, first, 1, &out, 1, &weight, &done));
  EXPECT_OK(ringcall_decoder_stream_get_progress(stream, &next, NULL));
  EXPECT(out == 0xee && weight == 5 && done == 0 && next == 1);
  /* Forgotten; then a whole syndrome. */
  EXPECT_OK(ringcall_decoder_stream_restart(stream));
  for (uint32_t round = 0; round < 3; ++round) {
    EXPECT_OK(ringcall_decoder_stream_get_progress(stream, &next, NULL));
    EXPECT(next == round);
    EXPECT_OK(ringcall_decoder_stream_push_round(stream, last, round == 2, &out, 1, &weight, &done));
  }
  EXPECT(done == 1 && out == 1 && fabs(weight - log(9)) < 1e-6);
  EXPECT_REFUSED(ringcall_decoder_stream_get_progress(NULL, &next, NULL), "the stream is null");
  EXPECT_REFUSED(ringcall_decoder_stream_restart((ringcall_decoder_stream_t *)NONSENSE), "no stream");
  EXPECT_OK(ringcall_decoder_stream_destroy(stream));
  EXPECT_REFUSED(ringcall_decoder_stream_destroy(stream), "destroyed before");
}

int main(void) {
  models();
  matrices();
  shots();
  streams();
  return 0;
}

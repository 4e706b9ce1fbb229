/* Shots whose answers are known: decoder_answers plain|correlated|matrix MODEL ANSWERS [stream]. tests/c_programs/decoder_cases.rs
 * writes the files and says what is in them. Each shot is decoded in every form that there is; all have the same
 * answer, to the bit. */
#include "program.h"
#include "ringcall_decoder.h"
#include <math.h>

static ringcall_decoder_t *decoder, *copy;
static ringcall_decoder_info_t info;

static uint64_t number(FILE *file, const char *format) {
  unsigned long long value;
  EXPECT(fscanf(file, format, &value) == 1);
  return value;
}
static double real(FILE *file) {
  uint64_t bits = number(file, "%llx");
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
static FILE *opened(const char *path) {
  FILE *file = fopen(path, "r");
  EXPECT(file != NULL);
  return file;
}

/* What is the text of a model, read. */
static void of_text(const char *path, ringcall_matching_t matching) {
  FILE *file = opened(path);
  EXPECT(fseek(file, 0, SEEK_END) == 0);
  size_t bytes = (size_t)ftell(file);
  rewind(file);
  char *text = malloc(bytes);
  EXPECT(text != NULL && fread(text, 1, bytes, file) == bytes);
  fclose(file);
  EXPECT_OK(ringcall_decoder_create_from_dem(text, bytes, matching, &decoder));
  free(text);
  EXPECT_OK(ringcall_decoder_create_from_dem_file(path, matching, &copy));
}

/* A check matrix in both forms. */
static void of_matrix(const char *path) {
  FILE *file = opened(path);
  const uint32_t detectors = (uint32_t)number(file, "%llu"), observables = (uint32_t)number(file, "%llu"),
                 errors = (uint32_t)number(file, "%llu");
  uint8_t *checks = calloc(detectors, errors), *flips = calloc(observables, errors);
  uint64_t *offsets[2] = {calloc(errors + 1, sizeof(uint64_t)), calloc(errors + 1, sizeof(uint64_t))};
  uint32_t *rows[2] = {malloc(8 * errors * sizeof(uint32_t)), malloc(8 * errors * sizeof(uint32_t))};
  double *priors = malloc(errors * sizeof *priors);
  EXPECT(checks && flips && offsets[0] && offsets[1] && rows[0] && rows[1] && priors);
  for (uint32_t error = 0; error < errors; ++error) {
    priors[error] = real(file);
    for (int which = 0; which < 2; ++which) {
      const uint64_t count = number(file, "%llu");
      EXPECT(count <= 8);
      for (uint64_t i = 0; i < count; ++i) {
        const uint32_t row = (uint32_t)number(file, "%llu");
        (which ? flips : checks)[row * errors + error] = 1;
        rows[which][offsets[which][error] + count - 1 - i] = row;
      }
      offsets[which][error + 1] = offsets[which][error] + count;
    }
  }
  fclose(file);
  EXPECT_OK(
      ringcall_decoder_create_from_check_matrix(detectors, observables, errors, checks, flips, priors, &decoder));
  EXPECT_OK(ringcall_decoder_create_from_sparse_check_matrix(detectors, observables, errors, offsets[0], rows[0],
                                                             offsets[1], rows[1], priors, &copy));
  free(checks), free(flips), free(offsets[0]), free(offsets[1]), free(rows[0]), free(rows[1]), free(priors);
}

static int same(double a, double b) { return memcmp(&a, &b, sizeof a) == 0; }

int main(int argc, char **argv) {
  EXPECT(argc >= 4);
  if (strcmp(argv[1], "matrix") == 0)
    of_matrix(argv[2]);
  else
    of_text(argv[2], strcmp(argv[1], "plain") == 0 ? RINGCALL_MATCHING_PLAIN : RINGCALL_MATCHING_CORRELATED);
  EXPECT_OK(ringcall_decoder_get_info(decoder, &info));
  EXPECT(info.syndrome_bytes == (info.num_detectors + 7) / 8 && info.observable_bytes == 1 && info.weight_step > 0);
  ringcall_decoder_stream_t *stream = NULL;
  uint32_t rounds = 0, next = 7;
  if (argc > 4) {
    EXPECT_OK(ringcall_decoder_stream_create(decoder, NULL, 0, &stream));
    EXPECT_OK(ringcall_decoder_stream_get_progress(stream, &next, &rounds));
    EXPECT(next == 0 && rounds > 1);
  }

  FILE *file = opened(argv[3]);
  const size_t shots = number(file, "%llu");
  uint32_t *fired = malloc(info.num_detectors * sizeof *fired),
           *of_round = malloc(info.num_detectors * sizeof *fired),
           *round_of = malloc(info.num_detectors * sizeof *fired);
  uint8_t *bytes = malloc(info.num_detectors), *all = calloc(shots, info.syndrome_bytes), *answers = malloc(shots);
  double *weights = malloc(shots * sizeof *weights), *batch_weights = malloc(shots * sizeof *weights);
  uint8_t *expected = malloc(shots);
  EXPECT(fired && of_round && round_of && bytes && all && answers && weights && batch_weights && expected);
  if (stream)
    for (uint32_t i = 0; i < info.num_detectors; ++i)
      round_of[i] = (uint32_t)number(file, "%llu");
  size_t elsewhere = 0;
  for (size_t shot = 0; shot < shots; ++shot) {
    const size_t count = number(file, "%llu");
    uint8_t *bits = all + shot * info.syndrome_bytes;
    memset(bytes, 0, info.num_detectors);
    for (size_t i = 0; i < count; ++i) {
      fired[i] = (uint32_t)number(file, "%llu");
      bits[fired[i] / 8] |= (uint8_t)(1 << fired[i] % 8);
      bytes[fired[i]] = 1;
    }
    /* Rust's answer; then PyMatching's weight. */
    const double weight = real(file), theirs = (expected[shot] = (uint8_t)number(file, "%llu"), real(file));
    weights[shot] = weight;
    elsewhere += fabs(weight - theirs) > info.weight_step / 2;
    ringcall_decoder_t *const both[2] = {decoder, copy};
    for (int which = 0; which < 2; ++which) {
      uint8_t out[64];
      double found = NAN;
      memset(out, 0xee, sizeof out);
      EXPECT_OK(ringcall_decoder_decode(both[which], fired, count, out, 1, &found));
      EXPECT(out[0] == expected[shot] && out[1] == 0xee && same(found, weight));
      out[0] = 0xee, found = NAN;
      EXPECT_OK(ringcall_decoder_decode_bits(both[which], bits, info.syndrome_bytes, out, sizeof out, &found));
      EXPECT(out[0] == expected[shot] && out[1] == 0xee && same(found, weight));
      found = NAN;
      EXPECT_OK(ringcall_decoder_decode_bytes(both[which], bytes, info.num_detectors, out, sizeof out, &found));
      for (uint32_t i = 0; i < info.num_observables; ++i)
        EXPECT(out[i] == (expected[shot] >> i & 1));
      EXPECT(out[info.num_observables] == 0xee && same(found, weight));
    }
    if (stream) {
      uint8_t out = 0xee;
      double found = NAN;
      for (uint32_t round = 0; round < rounds; ++round) {
        size_t here = 0;
        for (size_t i = 0; i < count; ++i)
          if (round_of[fired[i]] == round)
            of_round[here++] = fired[i];
        int done = 7;
        EXPECT(out == 0xee && isnan(found));
        EXPECT_OK(ringcall_decoder_stream_push_round(stream, of_round, here, &out, 1, &found, &done));
        EXPECT(done == (round + 1 == rounds));
      }
      /* At a tie it may be another answer. */
      EXPECT(same(found, weight) && out >> info.num_observables == 0);
    }
  }
  const size_t ties = number(file, "%llu");
  fclose(file);
  fprintf(stderr, "%zu shots, %zu of another weight than PyMatching's\n", shots, elsewhere);
  EXPECT(elsewhere <= ties);
  size_t decoded = 0;
  EXPECT_OK(ringcall_decoder_decode_batch(decoder, shots, all, shots * info.syndrome_bytes, answers, shots,
                                          batch_weights, &decoded));
  EXPECT(decoded == shots && memcmp(answers, expected, shots) == 0);
  EXPECT(memcmp(batch_weights, weights, shots * sizeof *weights) == 0);
  /* Without weights, and without asking how many. */
  memset(answers, 0xee, shots);
  EXPECT_OK(ringcall_decoder_decode_batch(copy, shots, all, shots * info.syndrome_bytes, answers, shots, NULL, NULL));
  EXPECT(memcmp(answers, expected, shots) == 0);

  if (stream)
    EXPECT_OK(ringcall_decoder_stream_destroy(stream));
  EXPECT_OK(ringcall_decoder_destroy(decoder));
  EXPECT_OK(ringcall_decoder_destroy(copy));
  free(fired), free(of_round), free(round_of), free(bytes), free(all), free(answers), free(weights),
      free(batch_weights), free(expected);
  return 0;
}

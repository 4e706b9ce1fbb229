/* Decoders by Relay-BP: settings, what does not converge, limits, and a ring. decoder_answers.c has the rest of what any
 * decoder does. */
#include "program.h"
#include "ringcall_decoder.h"
#include <math.h>

/* Three checks, the second error flips them all; D3 is flipped by nothing. */
static const char MODEL[] = "error(0.01) D0\nerror(0.001) D0 D1 D2 L0\nerror(0.01) D2 L1\ndetector D3";
static ringcall_decoder_t *none;

static ringcall_decoder_t *of_dem(const char *text, const ringcall_relay_settings_t *settings) {
  ringcall_decoder_t *decoder = NULL;
  EXPECT_OK(ringcall_decoder_create_relay_from_dem(text, strlen(text), settings, &decoder));
  return decoder;
}

/* A shot with its outcome. */
static ringcall_decoder_outcome_t shot(const ringcall_decoder_t *decoder, uint64_t limit_ns, uint8_t syndrome,
                                       uint8_t *observables) {
  ringcall_decoder_outcome_t outcome;
  size_t decoded = 7;
  memset(&outcome, 0xee, sizeof outcome);
  EXPECT_OK(
      ringcall_decoder_decode_shots(decoder, limit_ns, 1, &syndrome, 1, observables, 1, &outcome, &decoded));
  EXPECT(decoded == 1);
  return outcome;
}

static void answers(void) {
  ringcall_decoder_t *decoder = of_dem(MODEL, NULL);
  ringcall_decoder_info_t info;
  EXPECT_OK(ringcall_decoder_get_info(decoder, &info));
  EXPECT(info.num_detectors == 4 && info.num_observables == 2 && info.weight_step == 0.125);
  uint8_t out = 0xee;
  ringcall_decoder_outcome_t outcome = shot(decoder, 0, 7, &out);
  EXPECT(out == 1 && outcome.converged == RINGCALL_CONVERGED && outcome.corrections == 1);
  EXPECT(outcome.iterations >= 1 && outcome.solutions == 1 && isnan(outcome.confidence));
  EXPECT(fabs(outcome.weight - log(999)) <= 0.0625);
  /* The other forms say the same. */
  const uint32_t fired[3] = {2, 0, 1};
  const uint8_t bits = 7, bytes[4] = {1, 1, 1, 0};
  double weight = 0;
  out = 0xee;
  EXPECT_OK(ringcall_decoder_decode(decoder, fired, 3, &out, 1, &weight));
  EXPECT(out == 1 && weight == outcome.weight);
  uint8_t each[2] = {0xee, 0xee};
  EXPECT_OK(ringcall_decoder_decode_bytes(decoder, bytes, 4, each, 2, &weight));
  EXPECT(each[0] == 1 && each[1] == 0 && weight == outcome.weight);
  EXPECT_OK(ringcall_decoder_decode_bits(decoder, &bits, 1, &out, 1, &weight));
  EXPECT(out == 1 && weight == outcome.weight);
  /* Nothing fired; what no error explains does not converge, and says so. */
  outcome = shot(decoder, 0, 0, &out);
  EXPECT(out == 0 && outcome.converged == RINGCALL_CONVERGED && outcome.corrections == 0 && outcome.weight == 0);
  outcome = shot(decoder, 0, 8, &out);
  EXPECT(outcome.converged == RINGCALL_NOT_CONVERGED && isinf(outcome.weight) && outcome.solutions == 0);
  const uint8_t lone = 8;
  EXPECT_OK(ringcall_decoder_decode_bits(decoder, &lone, 1, &out, 1, &weight));
  EXPECT(isinf(weight) && weight > 0);
  /* A clone decodes alike when its first is gone. */
  ringcall_decoder_t *copy = NULL;
  EXPECT_OK(ringcall_decoder_clone(decoder, &copy));
  ringcall_decoder_stream_t *stream = NULL;
  const uint32_t rounds[4] = {0, 0, 0, 0};
  EXPECT(ringcall_decoder_stream_create(decoder, rounds, 4, &stream) == CUDAQ_ERR_UNSUPPORTED && stream == NULL);
  EXPECT(strstr(ringcall_last_error(), "Relay-BP") != NULL);
  EXPECT_OK(ringcall_decoder_destroy(decoder));
  outcome = shot(copy, 0, 7, &out);
  EXPECT(out == 1 && outcome.converged == RINGCALL_CONVERGED);
  EXPECT_OK(ringcall_decoder_destroy(copy));

  /* Matching says what it knows. */
  EXPECT_OK(ringcall_decoder_create_from_dem("error(0.1) D0 L0", 16, RINGCALL_MATCHING_PLAIN, &decoder));
  outcome = shot(decoder, 0, 1, &out);
  EXPECT(out == 1 && outcome.converged == RINGCALL_CONVERGED && outcome.iterations == 0 && outcome.corrections == 1);
  EXPECT(isnan(outcome.confidence) && fabs(outcome.weight - log(9)) < 1e-6);
  /* One edge is found before it looks at the time. */
  EXPECT(shot(decoder, 1, 1, &out).converged == RINGCALL_CONVERGED && out == 1);
  EXPECT_OK(ringcall_decoder_destroy(decoder));
  static const char cycle[] = "error(0.1) D0 ^ D1 L0\nerror(0.1) D0\nerror(0.1) D1 L0\nerror(0.1) D0 D1";
  EXPECT_OK(ringcall_decoder_create_from_dem(cycle, sizeof cycle - 1, RINGCALL_MATCHING_ENSEMBLE, &decoder));
  outcome = shot(decoder, 0, 3, &out);
  EXPECT(outcome.converged == RINGCALL_CONVERGED && !isnan(outcome.confidence));
  EXPECT_OK(ringcall_decoder_destroy(decoder));
}

/* Two errors that flip the same checks: belief propagation cannot choose, ordered statistics can. */
static void settings(void) {
  static const char split[] = "error(0.1) D0 D1\nerror(0.1) D0 D1 L0\nerror(0.1) D1 D2\nerror(0.1) D1 D2 L0";
  ringcall_relay_settings_t wish = RINGCALL_RELAY_SETTINGS;
  wish.first_gamma = 0, wish.legs = 0, wish.first_iterations = 5;
  uint8_t out;
  ringcall_decoder_t *decoder = of_dem(split, &wish);
  ringcall_decoder_outcome_t outcome = shot(decoder, 0, 3, &out);
  EXPECT(outcome.converged == RINGCALL_NOT_CONVERGED && outcome.iterations == 5 && isinf(outcome.weight));
  EXPECT_OK(ringcall_decoder_destroy(decoder));
  wish.ordered_statistics = 0;
  decoder = of_dem(split, &wish);
  outcome = shot(decoder, 0, 3, &out);
  EXPECT(outcome.converged == RINGCALL_CONVERGED && outcome.corrections == 1 && outcome.solutions == 0);
  EXPECT_OK(ringcall_decoder_destroy(decoder));
  wish.ordered_statistics = 10;
  decoder = of_dem(split, &wish);
  EXPECT(shot(decoder, 0, 3, &out).converged == RINGCALL_CONVERGED);
  EXPECT_OK(ringcall_decoder_destroy(decoder));
  /* With further legs whose memory differs, it can as well; within a nanosecond it cannot. */
  decoder = of_dem(split, NULL);
  outcome = shot(decoder, 0, 3, &out);
  EXPECT(outcome.converged == RINGCALL_CONVERGED && outcome.iterations > 5);
  outcome = shot(decoder, 1, 3, &out);
  EXPECT(outcome.converged == RINGCALL_LATE && isinf(outcome.weight) && outcome.iterations == 0);
  EXPECT_OK(ringcall_decoder_destroy(decoder));
  /* An iteration budget ends it, whatever the legs. */
  const ringcall_relay_settings_t published = RINGCALL_RELAY_SETTINGS;
  wish = published, wish.max_iterations = 7;
  decoder = of_dem(split, &wish);
  outcome = shot(decoder, 0, 3, &out);
  EXPECT(outcome.iterations <= 7);
  EXPECT_OK(ringcall_decoder_destroy(decoder));

#define REFUSED(change, word)                                                                                          \
  do {                                                                                                                 \
    wish = published, change;                                                                                          \
    EXPECT_INVALID(ringcall_decoder_create_relay_from_dem(MODEL, sizeof MODEL - 1, &wish, &none));                     \
    EXPECT(none == NULL && strstr(ringcall_last_error(), word) != NULL);                                               \
  } while (0)
  REFUSED(wish.first_iterations = 0, "first_iterations");
  REFUSED(wish.leg_iterations = 0, "leg_iterations");
  REFUSED(wish.solutions = 0, "solutions");
  REFUSED(wish.max_iterations = 0, "max_iterations");
  REFUSED(wish.lanes = 0, "lanes");
  REFUSED(wish.lanes = 65, "lanes");
  REFUSED(wish.lane_delay = 1000001, "lane_delay");
  REFUSED(wish.ordered_statistics = -2, "ordered_statistics");
  REFUSED(wish.ordered_statistics = 1001, "1000");
  REFUSED(wish.reserved = 1, "reserved");
  REFUSED(wish.first_gamma = NAN, "first_gamma");
  REFUSED(wish.first_gamma = 1.01, "first_memory");
  REFUSED(wish.min_gamma = -INFINITY, "min_gamma");
  REFUSED(wish.max_gamma = 1e300, "max_gamma");
  REFUSED(wish.min_gamma = 0.7, "memory");
  REFUSED(wish.damping = 1, "damping");
  REFUSED(wish.damping = -0.5, "damping");
}

static void matrices(void) {
  /* The model above, but for D3, in both forms. */
  const uint8_t checks[9] = {1, 1, 0, 0, 1, 0, 0, 1, 1}, flips[6] = {0, 1, 0, 0, 0, 1};
  const uint64_t offsets[4] = {0, 1, 4, 5}, flip_offsets[4] = {0, 0, 1, 2};
  const uint32_t rows[5] = {0, 2, 0, 1, 2}, flip_rows[2] = {0, 1};
  double priors[3] = {0.01, 0.001, 0.01};
  ringcall_decoder_t *both[2] = {NULL, NULL};
  EXPECT_OK(ringcall_decoder_create_relay_from_check_matrix(3, 2, 3, checks, flips, priors, NULL, &both[0]));
  EXPECT_OK(ringcall_decoder_create_relay_from_sparse_check_matrix(3, 2, 3, offsets, rows, flip_offsets, flip_rows,
                                                                   priors, NULL, &both[1]));
  ringcall_decoder_t *model = of_dem(MODEL, NULL);
  for (uint8_t syndrome = 0; syndrome < 8; ++syndrome) {
    uint8_t expected, out;
    const ringcall_decoder_outcome_t outcome = shot(model, 0, syndrome, &expected);
    for (int which = 0; which < 2; ++which) {
      const ringcall_decoder_outcome_t found = shot(both[which], 0, syndrome, &out);
      EXPECT(out == expected && found.converged == outcome.converged && found.iterations == outcome.iterations);
    }
  }
  EXPECT_OK(ringcall_decoder_destroy(model));
  EXPECT_OK(ringcall_decoder_destroy(both[0]));
  EXPECT_OK(ringcall_decoder_destroy(both[1]));

  /* Certain and impossible errors: the first flips D0 always. */
  priors[0] = 1, priors[1] = 0;
  EXPECT_OK(ringcall_decoder_create_relay_from_check_matrix(3, 2, 3, checks, flips, priors, NULL, &both[0]));
  uint8_t out;
  EXPECT(shot(both[0], 0, 1, &out).converged == RINGCALL_CONVERGED && out == 0);
  EXPECT(shot(both[0], 0, 5, &out).converged == RINGCALL_CONVERGED && out == 2);
  EXPECT(shot(both[0], 0, 0, &out).converged == RINGCALL_NOT_CONVERGED);
  EXPECT_OK(ringcall_decoder_destroy(both[0]));

  EXPECT_INVALID(ringcall_decoder_create_relay_from_check_matrix(3, 2, 3, checks, flips, NULL, NULL, &none));
  EXPECT(strstr(ringcall_last_error(), "priors is null") != NULL);
  const double wrong[] = {NAN, INFINITY, -0.1, 1.5};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    priors[1] = wrong[i];
    EXPECT_INVALID(ringcall_decoder_create_relay_from_check_matrix(3, 2, 3, checks, flips, priors, NULL, &none));
    EXPECT(strstr(ringcall_last_error(), "prior of column 1") != NULL && none == NULL);
  }
  /* An error of more detectors than one may flip. */
  static uint8_t tall[300];
  memset(tall, 1, sizeof tall);
  EXPECT_INVALID(ringcall_decoder_create_relay_from_check_matrix(300, 0, 1, tall, NULL, priors, NULL, &none));
  EXPECT_INVALID(ringcall_decoder_create_relay_from_dem(NULL, 5, NULL, &none));
  EXPECT_INVALID(ringcall_decoder_create_relay_from_dem("error(x) D0", 11, NULL, &none));
  EXPECT(strstr(ringcall_last_error(), "line 1") != NULL);
  EXPECT_INVALID(ringcall_decoder_create_relay_from_dem_file("/no/such.dem", NULL, &none));
  EXPECT_INVALID(ringcall_decoder_create_relay_from_dem(MODEL, sizeof MODEL - 1, NULL, NULL));
  EXPECT(none == NULL);
}

static void refusals(void) {
  ringcall_decoder_t *decoder = of_dem(MODEL, NULL), *const foreign = (ringcall_decoder_t *)(uintptr_t)0x1234567;
  ringcall_decoder_outcome_t outcomes[3];
  memset(outcomes, 0xee, sizeof outcomes);
  const ringcall_decoder_outcome_t untouched = outcomes[0];
  const uint8_t batch[3] = {7, 16, 1};
  uint8_t out[3] = {0xee, 0xee, 0xee};
  size_t decoded = 7;
  EXPECT_INVALID(ringcall_decoder_decode_shots(NULL, 0, 3, batch, 3, out, 3, outcomes, &decoded));
  EXPECT_INVALID(ringcall_decoder_decode_shots(foreign, 0, 3, batch, 3, out, 3, outcomes, &decoded));
  EXPECT_INVALID(ringcall_decoder_decode_shots(decoder, 0, 3, batch, 2, out, 3, outcomes, &decoded));
  EXPECT_INVALID(ringcall_decoder_decode_shots(decoder, 0, 3, NULL, 3, out, 3, outcomes, &decoded));
  EXPECT_INVALID(ringcall_decoder_decode_shots(decoder, 0, 3, batch, 3, out, 2, outcomes, &decoded));
  EXPECT_INVALID(ringcall_decoder_decode_shots(decoder, 0, 3, batch, 3, NULL, 3, outcomes, &decoded));
  EXPECT_INVALID(ringcall_decoder_decode_shots(decoder, 0, 3, batch, 3, out, 3, NULL, &decoded));
  EXPECT(decoded == 7 && out[0] == 0xee && memcmp(outcomes, &untouched, sizeof untouched) == 0);
  /* The second of three has a bit after the last detector. */
  EXPECT_INVALID(ringcall_decoder_decode_shots(decoder, 0, 3, batch, 3, out, 3, outcomes, &decoded));
  EXPECT(decoded == 1 && out[0] == 1 && out[1] == 0xee && outcomes[0].converged == RINGCALL_CONVERGED);
  EXPECT(strstr(ringcall_last_error(), "shot 1: ") != NULL);
  EXPECT(memcmp(&outcomes[1], &untouched, sizeof untouched) == 0);
  EXPECT_OK(ringcall_decoder_decode_shots(decoder, 0, 0, NULL, 0, NULL, 0, NULL, NULL));

  uint64_t rx[8] = {0}, tx[8];
  EXPECT_INVALID(ringcall_decoder_serve_slot(NULL, 0, rx, tx, sizeof rx));
  EXPECT_INVALID(ringcall_decoder_serve_slot(foreign, 0, rx, tx, sizeof rx));
  EXPECT_INVALID(ringcall_decoder_serve_slot(decoder, 0, NULL, tx, sizeof rx));
  EXPECT_INVALID(ringcall_decoder_serve_slot(decoder, 0, rx, NULL, sizeof rx));
  EXPECT_INVALID(ringcall_decoder_serve_slot(decoder, 0, (char *)rx + 4, tx, sizeof rx));
  EXPECT_INVALID(ringcall_decoder_serve_slot(decoder, 0, rx, tx, 23));
  /* Room for a request, none for an answer. */
  RPCHeader request = {RPC_MAGIC_REQUEST, 5, 1, 9, 11};
  memcpy(rx, &request, sizeof request);
  EXPECT_OK(ringcall_decoder_serve_slot(decoder, 0, rx, tx, 32));
  RPCResponse response;
  memcpy(&response, tx, sizeof response);
  EXPECT(response.magic == RPC_MAGIC_RESPONSE && response.status == RINGCALL_STATUS_RESULT_TOO_LONG);
  EXPECT(response.result_len == 0 && response.request_id == 9 && response.ptp_timestamp == 11);
  /* A length that lies. */
  request.arg_len = 0xffffffff;
  memcpy(rx, &request, sizeof request);
  EXPECT_OK(ringcall_decoder_serve_slot(decoder, 0, rx, tx, sizeof rx));
  memcpy(&response, tx, sizeof response);
  EXPECT(response.status == RINGCALL_STATUS_BAD_PAYLOAD);
  EXPECT_OK(ringcall_decoder_destroy(decoder));
}

enum { SLOTS = 4, SLOT_BYTES = 64, DECODE = 0x5f3a1c07 };
static ringcall_decoder_t *served;

static void decode(const void *rx_slot, void *tx_slot, size_t slot_bytes) {
  EXPECT_OK(ringcall_decoder_serve_slot(served, 0, rx_slot, tx_slot, slot_bytes));
}

static void over_a_ring(void) {
  served = of_dem(MODEL, NULL);
  cudaq_ringbuffer_t ring = make_ring(SLOTS, SLOT_BYTES);
  cudaq_function_entry_t entry;
  memset(&entry, 0, sizeof entry);
  entry.handler.host_fn = &decode;
  entry.function_id = DECODE;
  entry.dispatch_mode = CUDAQ_DISPATCH_HOST_CALL;
  cudaq_function_table_t table = {&entry, 1};
  const cudaq_dispatcher_config_t config = host_config(SLOTS, SLOT_BYTES);
  volatile int shutdown = 0;
  uint64_t stats = 0;
  cudaq_dispatch_manager_t *manager = NULL;
  cudaq_dispatcher_t *dispatcher = NULL;
  EXPECT_OK(cudaq_dispatch_manager_create(&manager));
  EXPECT_OK(cudaq_dispatcher_create(manager, &config, &dispatcher));
  EXPECT_OK(cudaq_dispatcher_set_ringbuffer(dispatcher, &ring));
  EXPECT_OK(cudaq_dispatcher_set_function_table(dispatcher, &table));
  EXPECT_OK(cudaq_dispatcher_set_control(dispatcher, &shutdown, &stats));
  EXPECT_OK(cudaq_dispatcher_start(dispatcher));
  ringcall_decoder_t *alone = of_dem(MODEL, NULL);
  for (uint32_t id = 0; id < 64; ++id) {
    const uint8_t syndrome = id % 16;
    EXPECT(ask(&ring, id % SLOTS, DECODE, &syndrome, 1, id) == 0);
    const uint8_t *result = ring.tx_data_host + id % SLOTS * SLOT_BYTES + sizeof(RPCResponse);
    uint8_t expected;
    const ringcall_decoder_outcome_t outcome = shot(alone, 0, syndrome, &expected);
    int32_t numbers[2];
    memcpy(numbers, result + 1, sizeof numbers);
    EXPECT(response_of(&ring, id % SLOTS).result_len == 9 && result[0] == expected);
    EXPECT(numbers[0] == outcome.corrections && numbers[1] == outcome.converged);
  }
  const uint8_t bad[2] = {16, 0};
  EXPECT(ask(&ring, 0, DECODE, bad, 1, 64) == RINGCALL_STATUS_BAD_PAYLOAD);
  EXPECT(ask(&ring, 0, DECODE, bad, 2, 65) == RINGCALL_STATUS_BAD_PAYLOAD);
  EXPECT_OK(cudaq_dispatcher_stop(dispatcher));
  EXPECT_OK(cudaq_dispatcher_destroy(dispatcher));
  EXPECT_OK(cudaq_dispatch_manager_destroy(manager));
  EXPECT_OK(ringcall_decoder_destroy(alone));
  EXPECT_OK(ringcall_decoder_destroy(served));
  free_ring(&ring);
}

int main(void) {
  answers();
  settings();
  matrices();
  refusals();
  over_a_ring();
  return 0;
}

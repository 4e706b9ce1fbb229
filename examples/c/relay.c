/* A bivariate bicycle code, [[72,12,6]], decoded by Relay-BP: many shots at once, then over a ring. Its errors flip three checks
 * each, so that matching cannot decode it. No GPU is needed. */
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

enum { L = 6, HALF = L * L, QUBITS = 2 * HALF, CHECKS = HALF, SHOTS = 5000, PER_MILLE = 20 };
enum { SYNDROME = (CHECKS + 7) / 8, ERROR = (QUBITS + 7) / 8, SLOTS = 8, SLOT_BYTES = 64, DECODE = 1 };

/* A uniform number below 1000: a generator that is good enough here (xorshift). */
static unsigned per_mille(void) {
  static uint64_t state = 88172645463325252u;
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return (unsigned)(state >> 33) % 1000;
}

/* The three ones of row `row` of the matrix of x^a + y^b + y^c, or, with `swapped`, of y^a + x^b + x^c; x and y shift the two
 * coordinates of a row. */
static void ones(int row, const int powers[3], int swapped, int columns[3]) {
  for (int i = 0; i < 3; ++i) {
    int x = row / L, y = row % L;
    if ((i == 0) != swapped)
      x = (x + powers[i]) % L;
    else
      y = (y + powers[i]) % L;
    columns[i] = x * L + y;
  }
}

/* The checks, and the stabilizers that they must commute with: H = [A | B], stabilizers [B' | A'], A = x^3 + y + y^2,
 * B = y^3 + x + x^2. A byte an entry. */
static uint8_t checks[CHECKS * QUBITS], stabilizers[HALF][QUBITS];

static void make_code(void) {
  static const int powers[3] = {3, 1, 2};
  for (int row = 0; row < HALF; ++row)
    for (int half = 0; half < 2; ++half) {
      int columns[3];
      ones(row, powers, half, columns);
      for (int i = 0; i < 3; ++i) {
        checks[row * QUBITS + half * HALF + columns[i]] ^= 1;
        stabilizers[columns[i]][(1 - half) * HALF + row] ^= 1;
      }
    }
}

/* Brings the stabilizers into a form in which each has a one, its pivot, that no other has; how many there are. */
static int pivots[HALF];
static int reduce(void) {
  int rank = 0;
  for (int column = 0; column < QUBITS && rank < HALF; ++column) {
    int found = rank;
    while (found < HALF && !stabilizers[found][column])
      ++found;
    if (found == HALF)
      continue;
    uint8_t swap[QUBITS];
    memcpy(swap, stabilizers[found], QUBITS);
    memcpy(stabilizers[found], stabilizers[rank], QUBITS);
    memcpy(stabilizers[rank], swap, QUBITS);
    for (int row = 0; row < HALF; ++row)
      if (row != rank && stabilizers[row][column])
        for (int i = 0; i < QUBITS; ++i)
          stabilizers[row][i] ^= stabilizers[rank][i];
    pivots[rank++] = column;
  }
  return rank;
}

/* Whether what is left of an error, after its correction, does nothing to the code. */
static int harmless(uint8_t left[QUBITS], int rank) {
  for (int row = 0; row < rank; ++row)
    if (left[pivots[row]])
      for (int i = 0; i < QUBITS; ++i)
        left[i] ^= stabilizers[row][i];
  for (int i = 0; i < QUBITS; ++i)
    if (left[i])
      return 0;
  return 1;
}

static ringcall_decoder_t *decoder;

/* The function that a dispatcher calls for each request. */
static void decode(const void *rx_slot, void *tx_slot, size_t slot_bytes) {
  /* 100 us at most: an answer that took longer says that it is the best so far. */
  if (ringcall_decoder_serve_slot(decoder, 100000, rx_slot, tx_slot, slot_bytes) != CUDAQ_OK)
    fprintf(stderr, "%s\n", ringcall_last_error());
}

static uint8_t syndromes[SHOTS * SYNDROME], errors[SHOTS][QUBITS], found[SHOTS * ERROR];
static ringcall_decoder_outcome_t outcomes[SHOTS];

int main(void) {
  make_code();
  const int rank = reduce();
  /* Each qubit is an observable of its own, so that the answer is the correction. */
  static uint8_t observables[QUBITS * QUBITS];
  static double priors[QUBITS];
  for (int qubit = 0; qubit < QUBITS; ++qubit) {
    observables[qubit * QUBITS + qubit] = 1;
    priors[qubit] = PER_MILLE / 1000.0;
  }
  ringcall_relay_settings_t settings = RINGCALL_RELAY_SETTINGS;
  settings.legs = 20;
  settings.solutions = 3;
  CHECK(ringcall_decoder_create_relay_from_check_matrix(CHECKS, QUBITS, QUBITS, checks, observables, priors, &settings,
                                                        &decoder));

  int hit = 0;
  for (int shot = 0; shot < SHOTS; ++shot) {
    int any = 0;
    for (int qubit = 0; qubit < QUBITS; ++qubit) {
      any |= errors[shot][qubit] = per_mille() < PER_MILLE;
      for (int check = 0; errors[shot][qubit] && check < CHECKS; ++check)
        if (checks[check * QUBITS + qubit])
          syndromes[shot * SYNDROME + check / 8] ^= (uint8_t)(1 << check % 8);
    }
    hit += any;
  }
  CHECK(ringcall_decoder_decode_shots(decoder, 0, SHOTS, syndromes, sizeof syndromes, found, sizeof found, outcomes,
                                      NULL));
  int wrong = 0, open = 0;
  unsigned long long iterations = 0;
  for (int shot = 0; shot < SHOTS; ++shot) {
    uint8_t left[QUBITS];
    for (int qubit = 0; qubit < QUBITS; ++qubit)
      left[qubit] = errors[shot][qubit] ^ (found[shot * ERROR + qubit / 8] >> qubit % 8 & 1);
    wrong += !harmless(left, rank);
    open += outcomes[shot].converged != RINGCALL_CONVERGED;
    iterations += outcomes[shot].iterations;
  }
  printf("[[72,%d]]: %d shots with errors, %d decoded wrongly, %d without a solution, %.1f iterations a shot\n",
         QUBITS - 2 * rank, hit, wrong, open, (double)iterations / SHOTS);

  /* The same decoder as a function of a ring. */
  cudaq_ringbuffer_t ring = {0};
  ring.rx_flags_host = calloc(SLOTS, sizeof(uint64_t));
  ring.tx_flags_host = calloc(SLOTS, sizeof(uint64_t));
  ring.rx_data_host = calloc(SLOTS, SLOT_BYTES);
  ring.tx_data_host = calloc(SLOTS, SLOT_BYTES);
  ring.rx_stride_sz = ring.tx_stride_sz = SLOT_BYTES;
  cudaq_function_entry_t entry = {0};
  entry.handler.host_fn = decode;
  entry.function_id = DECODE;
  entry.dispatch_mode = CUDAQ_DISPATCH_HOST_CALL;
  cudaq_function_table_t table = {&entry, 1};
  cudaq_dispatcher_config_t config = {0};
  config.num_slots = SLOTS;
  config.slot_size = SLOT_BYTES;
  config.dispatch_mode = CUDAQ_DISPATCH_HOST_CALL;
  config.dispatch_path = CUDAQ_DISPATCH_PATH_HOST;
  volatile int shutdown = 0;
  uint64_t stats = 0;
  cudaq_dispatch_manager_t *manager;
  cudaq_dispatcher_t *dispatcher;
  CHECK(cudaq_dispatch_manager_create(&manager));
  CHECK(cudaq_dispatcher_create(manager, &config, &dispatcher));
  CHECK(cudaq_dispatcher_set_ringbuffer(dispatcher, &ring));
  CHECK(cudaq_dispatcher_set_function_table(dispatcher, &table));
  CHECK(cudaq_dispatcher_set_control(dispatcher, &shutdown, &stats));
  CHECK(cudaq_dispatcher_start(dispatcher));
  int late = 0;
  for (uint32_t id = 0; id < 1000; ++id) {
    const uint32_t slot = id % SLOTS;
    const uint8_t *syndrome = syndromes + id * SYNDROME;
    CHECK(cudaq_host_ringbuffer_write_rpc_request(&ring, slot, DECODE, syndrome, SYNDROME, id, 0));
    cudaq_host_ringbuffer_signal_slot(&ring, slot);
    while (cudaq_host_ringbuffer_poll_tx_flag(&ring, slot, NULL) != CUDAQ_TX_READY) {
    }
    const uint8_t *response = ring.tx_data_host + slot * SLOT_BYTES;
    RPCResponse header;
    int32_t numbers[2]; /* errors of the correction; how it ended */
    memcpy(&header, response, sizeof header);
    memcpy(numbers, response + sizeof header + ERROR, sizeof numbers);
    cudaq_host_ringbuffer_clear_slot(&ring, slot);
    if (header.status != 0 || header.result_len != ERROR + sizeof numbers) {
      fprintf(stderr, "request %u: status %d\n", id, header.status);
      return 1;
    }
    if (numbers[1] == RINGCALL_LATE)
      ++late;
    else if (memcmp(response + sizeof header, found + id * ERROR, ERROR) != 0) {
      fprintf(stderr, "request %u: another answer than alone\n", id);
      return 1;
    }
  }
  CHECK(cudaq_dispatcher_stop(dispatcher));
  CHECK(cudaq_dispatcher_destroy(dispatcher));
  CHECK(cudaq_dispatch_manager_destroy(manager));
  CHECK(ringcall_decoder_destroy(decoder));
  printf("ringcall %s: 1000 requests answered over a ring, %d late\n", ringcall_version(), late);
  free((void *)ring.rx_flags_host);
  free((void *)ring.tx_flags_host);
  free(ring.rx_data_host);
  free(ring.tx_data_host);
  return wrong * 20 < hit ? 0 : 1;
}

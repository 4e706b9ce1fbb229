// The phases of an iteration, each as one thread computes it between two synchronisations: columns, then checks.
//
// A thread keeps the messages that its columns sent in registers. A check's state is one word: the least magnitude with the sign of
// the product in its low half, the second least magnitude in its high half. From that word and its own last message a column knows the
// check's message. A message in its slot carries its column's decision in the lowest bit, so that the exclusive or of a check's row has
// the product of the signs and the parity of the decisions.
#pragma once
#include "pairs.cuh"

#ifdef __CUDACC__
#define RELAY_UNROLL _Pragma("unroll")
#else
#define RELAY_UNROLL
#endif

namespace relay {

// Passes of a thread over pairs of columns, and how many checks a column of each has at most.
template <int... D> struct Passes {
  static constexpr int COUNT = sizeof...(D);
  static constexpr int SUM = (D + ...);
  // Whether a thread keeps its columns' slots in registers.
  static constexpr bool KEEPS_SLOTS = SUM <= 12;
  template <int P> static constexpr int degree() {
    constexpr int all[] = {D...};
    return all[P];
  }
  template <int P> static constexpr int first() {
    if constexpr (P == 0) return 0;
    else return first<P - 1>() + degree<P - 1>();
  }
};

// What a block's threads share. `positions` of states, of which the own checks are first.
template <int POSITIONS> struct Block {
  uint16_t *messages;     // [rows + 1][stride][2]
  const uint32_t *slots;  // [sum of degrees][threads], if threads do not keep them
};

// Words between the rows of messages, so that the threads of a check read different banks.
template <class P, int SPLIT, int POSITIONS> constexpr int stride_of() {
  return P::KEEPS_SLOTS ? POSITIONS + 32 / SPLIT % 32 : POSITIONS;
}

// Where the messages and the states of two columns' edges lie, in bytes.
struct Places {
  uint32_t message_a, message_b, state_a, state_b;
};

template <class P> struct Thread {
  pair_t message[P::SUM], marginal[P::COUNT], strength[P::COUNT], prior[P::COUNT];
  uint32_t slots[P::KEEPS_SLOTS ? P::SUM : 1], state_at[P::KEEPS_SLOTS ? P::SUM : 1];
  int degree[P::COUNT];  // the same for a warp
  uint32_t counted, decisions, best;
};

template <class P, int THREADS, int POSITIONS>
RELAY_FN Places places_of(const Thread<P> &t, const Block<POSITIONS> &block, int edge, int thread) {
  if constexpr (P::KEEPS_SLOTS) {
    const uint32_t slots = t.slots[edge], states = t.state_at[edge];
    return {slots & 0xffff, slots >> 16, states & 0xffff, states >> 16};
  } else {
    constexpr uint32_t MASK = (POSITIONS - 1) * 4;
    const uint32_t slots = block.slots[edge * THREADS + thread], a = (slots & 0xffff) * 2, b = slots >> 16 << 1;
    return {a, b, a & MASK, b & MASK};
  }
}

template <class T> RELAY_FN T &at_byte(T *base, uint32_t byte) {
  return *(T *)((const char *)base + byte);
}

// Two messages of each of which a check has seen half a row.
struct Row {
  pair_t least, second;
  uint32_t signs;
};

RELAY_FN Row merge(const Row &a, const Row &b) {
  return {least(a.least, b.least), least(greatest(a.least, b.least), least(a.second, b.second)), a.signs ^ b.signs};
}

// The words of a check's row from `word` on, every `STEP`-th of them. Loads are issued together, in groups.
template <int STRIDE, int STEP> RELAY_FN Row read_row(const uint16_t *messages, int position, int word, int depth) {
  constexpr int GROUP = STEP == 1 ? 6 : STEP <= 4 ? 5 : 3;
  const uint32_t *at = reinterpret_cast<const uint32_t *>(messages) + position;
  Row row = {MESSAGE_CAP, MESSAGE_CAP, 0};
  for (int r = word; r < depth; r += GROUP * STEP) {
    pair_t x[GROUP];
    RELAY_UNROLL
    for (int i = 0; i < GROUP; ++i) x[i] = r + i * STEP < depth ? at[(r + i * STEP) * STRIDE] : MESSAGE_CAP;
    RELAY_UNROLL
    for (int i = 0; i < GROUP; ++i) {
      const pair_t magnitude = x[i] & ~SIGNS;
      row.second = least(row.second, greatest(row.least, magnitude));
      row.least = least(row.least, magnitude);
      row.signs ^= x[i];
    }
  }
  return row;
}

RELAY_FN uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

// A check's state. Halves that are not negative are in the order of their bits.
RELAY_FN uint32_t state_of(const Row &row, uint32_t fired, bool &unexplained) {
  const uint32_t a = row.least & 0xffff, b = row.least >> 16;
  const uint32_t lowest = smaller(a, b), other = a ^ b ^ lowest;
  const uint32_t second = smaller(other, smaller(row.second & 0xffff, row.second >> 16));
  const uint32_t x = row.signs ^ row.signs >> 16;
  unexplained = (x ^ fired) & 1;
  return (lowest & 0x7ffe) | ((x >> 15 ^ fired) & 1) << 15 | (second & 0x7ffe) << 16;
}

// What checks tell two columns, from their states and what the columns told them.
RELAY_FN pair_t from_checks(uint32_t state_a, uint32_t state_b, pair_t own) {
  const pair_t first = low_halves(state_a, state_b), second = high_halves(state_a, state_b);
  const uint32_t same = same_magnitude(own, first);
  const pair_t magnitude = (same & second) | (~same & first);
  return (magnitude & ~SIGNS) | ((first ^ own) & SIGNS);
}

RELAY_FN void send(uint16_t *messages, const Places &places, pair_t message) {
  at_byte(messages, places.message_a) = uint16_t(message);
  at_byte(messages, places.message_b) = uint16_t(message >> 16);
}

// One pass of the columns' phase, for columns of one degree.
template <class P, int AT, int D, int THREADS, int POSITIONS>
RELAY_FN void column_pair(Thread<P> &t, const Block<POSITIONS> &block, const uint32_t *states, int thread) {
  constexpr int FIRST = P::template first<AT>();
  Places places[D];
  uint32_t state_a[D], state_b[D];
  RELAY_UNROLL
  for (int k = 0; k < D; ++k) places[k] = places_of<P, THREADS>(t, block, FIRST + k, thread);
  RELAY_UNROLL
  for (int k = 0; k < D; ++k) {
    state_a[k] = at_byte(states, places[k].state_a);
    state_b[k] = at_byte(states, places[k].state_b);
  }
  // 1,536 plus an integer and a fraction is rounded to the integer nearest, and so is a half's.
  pair_t sum = add(multiply_add(t.strength[AT], subtract(t.marginal[AT], t.prior[AT]), ROUNDING), subtract(t.prior[AT], ROUNDING));
  pair_t from[D];
  RELAY_UNROLL
  for (int k = 0; k < D; ++k) {
    from[k] = from_checks(state_a[k], state_b[k], t.message[FIRST + k]);
    sum = add(sum, from[k]);
  }
  t.marginal[AT] = clamp(sum, MARGINAL_CAP);
  const uint32_t wrong = sum >> 15 & LOWEST;
  t.decisions |= ((wrong | wrong >> 15) & 3) << 2 * AT;
  RELAY_UNROLL
  for (int k = 0; k < D; ++k) {
    // Not capped: what is above 127 is never a check's least message, since that is 127 at most; and where the sum is beyond its own
    // cap, so are all messages beyond theirs, with either sum. Integers below 1,024 leave the lowest bit to the decision.
    const pair_t message = subtract(t.marginal[AT], from[k]);
    t.message[FIRST + k] = message;
    send(block.messages, places[k], message | wrong);
  }
}

// The body for a pass's degree, which is the same for all threads of a warp.
template <class P, int AT, int D, int THREADS, int POSITIONS>
RELAY_FN void column_pass(Thread<P> &t, const Block<POSITIONS> &block, const uint32_t *states, int thread) {
  if (t.degree[AT] == D) {
    column_pair<P, AT, D, THREADS>(t, block, states, thread);
  } else if constexpr (D > 1) {
    column_pass<P, AT, D - 1, THREADS>(t, block, states, thread);
  }
}

template <class P, int THREADS, int POSITIONS, int AT = 0>
RELAY_FN void columns(Thread<P> &t, const Block<POSITIONS> &block, const uint32_t *states, int thread) {
  if constexpr (AT == 0) t.decisions = 0;
  column_pass<P, AT, P::template degree<AT>(), THREADS>(t, block, states, thread);
  if constexpr (AT + 1 < P::COUNT) columns<P, THREADS, POSITIONS, AT + 1>(t, block, states, thread);
}

// The strength of a column in a leg, as a half in 128ths of which the kernel takes the 128th.
RELAY_FN int drawn(uint32_t key, uint32_t column, int low, int values) {
  return low + int((mix(key + column * 0x9E3779B1u) >> 16) * uint32_t(values) >> 16);
}

#ifdef __CUDACC__
RELAY_FN pair_t strengths(int a, int b) {
  return as_pair(__halves2half2(__float2half_rn(float(a) / 128), __float2half_rn(float(b) / 128)));
}
RELAY_FN uint32_t integer(pair_t x, int lane) { return uint32_t(int(__half2float(__ushort_as_half(uint16_t(x >> 16 * lane))))); }
#else
inline pair_t strengths(int a, int b) { return pair_t(to_half(float(a) / 128)) | pair_t(to_half(float(b) / 128)) << 16; }
inline uint32_t integer(pair_t x, int lane) { return uint32_t(to_float(uint16_t(x >> 16 * lane))); }
#endif

// A leg's start: strengths and messages anew; marginals stay.
template <class P, int THREADS, int POSITIONS, int AT = 0>
RELAY_FN void begin_leg(Thread<P> &t, const Block<POSITIONS> &block, const uint32_t *columns, bool draws, int first, int low,
                        int values, uint32_t key, int thread) {
  constexpr int D = P::template degree<AT>(), FIRST = P::template first<AT>();
  int a = first, b = first;
  if (draws) {
    a = drawn(key, columns[(2 * AT) * THREADS + thread], low, values);
    b = drawn(key, columns[(2 * AT + 1) * THREADS + thread], low, values);
  }
  t.strength[AT] = strengths(a, b);
  RELAY_UNROLL
  for (int k = 0; k < D; ++k) {
    if (k >= t.degree[AT]) break;
    t.message[FIRST + k] = t.prior[AT];
    send(block.messages, places_of<P, THREADS>(t, block, FIRST + k, thread), t.prior[AT]);
  }
  if constexpr (AT + 1 < P::COUNT)
    begin_leg<P, THREADS, POSITIONS, AT + 1>(t, block, columns, draws, first, low, values, key, thread);
}

// The weight of the columns decided for, as far as this block counts them.
template <class P> RELAY_FN uint32_t weight_of(const Thread<P> &t, uint32_t decisions) {
  uint32_t weight = 0;
  RELAY_UNROLL
  for (int at = 0; at < P::COUNT; ++at) {
    weight += decisions & t.counted & 1u << 2 * at ? integer(t.prior[at], 0) : 0;
    weight += decisions & t.counted & 2u << 2 * at ? integer(t.prior[at], 1) : 0;
  }
  return weight;
}

// The observables that they flip.
template <class P, int THREADS> RELAY_FN uint32_t flips_of(const Thread<P> &t, uint32_t decisions, const uint32_t *flips, int thread) {
  uint32_t all = 0;
  for (uint32_t rest = decisions & t.counted; rest; rest &= rest - 1) {
#ifdef __CUDACC__
    const int at = __ffs(rest) - 1;
#else
    const int at = __builtin_ctz(rest);
#endif
    all ^= flips[at * THREADS + thread];
  }
  return all;
}

}  // namespace relay

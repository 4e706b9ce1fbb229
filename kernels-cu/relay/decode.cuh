// A shot, decoded by a block or by a cluster of blocks: legs, convergence, the lightest solution; and lanes that race.
//
// Blocks of a cluster exchange once an iteration: a check's threads push its state to each block that has it in its halo, and each
// block pushes to every block whether one of its checks is unexplained. Both are `st.async` onto the mbarrier of the
// receiver's phase, which the receiver's own warps arrive at, too: one wait stands for the block's barrier and for the exchange. States
// and flags have two buffers. A block is one iteration ahead of another at most, since every block waits for every block's flags.
//
// Every loop ends after the iterations of the settings. Blocks wait for those of their own cluster, and nothing waits for another lane.
#pragma once
#include <cooperative_groups.h>

#include "phases.cuh"
#include "tables.h"

namespace relay {

struct Settings {
  int32_t first_memory, low, values;
  uint32_t first_iterations, leg_iterations, legs, solutions, max_iterations, seed, lane_delay;
};

// Why a decode ended. In the order of `ringcall_gpu_decoders::relay_bp::Ended`.
enum Ended : uint32_t { CONVERGED, EXHAUSTED, LATE, CANCELLED, INEXPLICABLE };

struct Answer {
  uint32_t ended, solutions, iterations, weight, observables, corrections, cycles, reserved;
};

// Where the lanes that decode one shot meet. `best` is iterations << 6 | lane of the best lane that found all its solutions, ones before.
constexpr uint32_t MAX_LANES = 64;
struct Race {
  uint32_t best, done, reserved[6];
  Answer answers[MAX_LANES];
};

// What ends a decode from outside. The clock is the nanoseconds of the GPU's global timer.
struct Limits {
  uint64_t deadline;       // 0 for none
  const uint32_t *cancel;  // a word that is not 0 where requests are cancelled
};
// Iterations between two checks of clock and word, a power of two.
constexpr uint32_t ITERATIONS_BETWEEN_CHECKS = 8;

// What the first block's first warp says to all blocks of its cluster with an exchange. Bit 0: a check of any block is unexplained.
constexpr uint32_t UNEXPLAINED = 1, LOST = 2, SAYS_LATE = 4, SAYS_CANCELLED = 8, SAYS_INEXPLICABLE = 16, SAYS_MALFORMED = 32;

__device__ __forceinline__ uint32_t shared_address(const void *p) { return uint32_t(__cvta_generic_to_shared(p)); }
__device__ __forceinline__ uint32_t in_block(uint32_t address, uint32_t rank) {
  uint32_t remote;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
  return remote;
}
__device__ __forceinline__ void push(uint32_t address, uint32_t value, uint32_t barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(address), "r"(value), "r"(barrier)
               : "memory");
}
__device__ __forceinline__ void barrier_init(uint32_t barrier, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
__device__ __forceinline__ void arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void arrive_expecting(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void await(uint32_t barrier, uint32_t parity) {
  uint32_t done;
  do {
    asm volatile(
        "{.reg .pred p;\n mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, p;}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  } while (!done);
}

__device__ __forceinline__ uint64_t global_ns() {
  uint64_t ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

// How many receivers of a check's state one of its threads keeps in registers.
constexpr int max_pushes(int split) { return split >= 4 ? 1 : 4 / split; }

// Bytes of dynamic shared memory.
template <int BLOCKS, int THREADS, int SPLIT, int POSITIONS, class P> constexpr size_t shared_bytes(uint32_t rows) {
  return size_t(4) * ((rows + 1) * stride_of<P, SPLIT, POSITIONS>() + 2 * POSITIONS + (P::KEEPS_SLOTS ? 0 : P::SUM * THREADS) + 2 * BLOCKS + 64);
}

template <int BLOCKS, int THREADS, int SPLIT, int POSITIONS, class P> struct Decoder {
  static constexpr int CLUSTER = BLOCKS, WARPS = THREADS / 32, STRIDE = stride_of<P, SPLIT, POSITIONS>();
  static constexpr int MAX_PUSHES = max_pushes(SPLIT);

  struct Shared {
    uint64_t barriers[2];
    uint32_t totals[4][3];
    uint32_t shot, says;
    // For the caller's threads.
    uint64_t word;
    uint32_t capacity;
  };

  uint16_t *messages;
  uint32_t *states, *flags;
  Shared *shared;
  Block<POSITIONS> block;
  Thread<P> t;
  const uint32_t *words, *column_numbers, *flips;
  int thread, rank, position, depth;
  bool has_check;
  uint32_t fired, detector, exchanges, check_warps, expected_bytes, solution_count;
  uint32_t push_state[MAX_PUSHES], push_barrier[MAX_PUSHES], pushes, flag_address, flag_barrier;
  uint32_t further, further_end;  // receivers that are not in these

  __device__ __forceinline__ void cluster_sync() {
    if constexpr (BLOCKS > 1) {
      asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    } else {
      __syncthreads();
    }
  }

  __device__ __forceinline__ void set_up(const uint32_t *tables, uint32_t *memory) {
    thread = threadIdx.x;
    rank = BLOCKS > 1 ? blockIdx.x % BLOCKS : 0;
    words = tables;
    const uint32_t rows = Tables{words}.head().rows;
    const BlockHead &head = Tables{words}.block(rank);
    column_numbers = words + head.columns;
    flips = words + head.flips;
    messages = reinterpret_cast<uint16_t *>(memory);
    states = memory + (rows + 1) * STRIDE;
    uint32_t *slots = states + 2 * POSITIONS;
    flags = slots + (P::KEEPS_SLOTS ? 0 : P::SUM * THREADS);
    shared = reinterpret_cast<Shared *>(flags + 2 * BLOCKS);
    block = {messages, slots};
    for (uint32_t i = thread; i < (rows + 1) * STRIDE; i += THREADS) memory[i] = MESSAGE_CAP;
    for (uint32_t i = thread; i < 2 * POSITIONS; i += THREADS) states[i] = 0;
    if constexpr (!P::KEEPS_SLOTS)
      for (uint32_t i = thread; i < P::SUM * THREADS; i += THREADS) slots[i] = words[head.slots + i];
    for (uint32_t i = thread; i < 2 * BLOCKS; i += THREADS) flags[i] = 0;
    if (thread < 12) shared->totals[thread / 3][thread % 3] = 0;
#pragma unroll
    for (int at = 0; at < P::COUNT; ++at) {
      t.prior[at] = words[head.priors + at * THREADS + thread];
      t.degree[at] = __shfl_sync(~0u, words[head.degrees + at * WARPS + thread / 32], 0);
    }
    if constexpr (P::KEEPS_SLOTS) {
#pragma unroll
      for (int k = 0; k < P::SUM; ++k) {
        t.slots[k] = words[head.slots + k * THREADS + thread];
        t.state_at[k] = words[head.state_at + k * THREADS + thread];
      }
    }
    t.counted = words[head.counted + thread];
    position = thread / SPLIT;
    has_check = position < int(head.own);
    depth = has_check ? words[head.depth + thread / 32] : 0;
    detector = has_check ? words[head.check_at + position] : 0;
    check_warps = head.depths;
    exchanges = 0;
    solution_count = 0;
    pushes = further = further_end = 0;
    if constexpr (BLOCKS > 1) {
      const uint32_t barrier = shared_address(&shared->barriers[0]);
      if (thread == 0) {
        barrier_init(barrier, 1);
        barrier_init(barrier + 8, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
      }
      expected_bytes = 4 * (head.halo + BLOCKS);
      if (has_check) {
        further = head.pushes + words[head.push_begin + position] + thread % SPLIT;
        further_end = head.pushes + words[head.push_begin + position + 1];
        for (; further < further_end && pushes < MAX_PUSHES; further += SPLIT) {
          const uint32_t to = words[further];
#pragma unroll
          for (int i = 0; i < MAX_PUSHES; ++i)
            if (uint32_t(i) == pushes) {
              push_state[i] = in_block(shared_address(states + (to & 0xffff)), to >> 16);
              push_barrier[i] = in_block(barrier, to >> 16);
            }
          ++pushes;
        }
      }
      const uint32_t lane = thread % 32;
      if (lane < BLOCKS) {
        flag_address = in_block(shared_address(flags + rank), lane);
        flag_barrier = in_block(barrier, lane);
      }
    }
    cluster_sync();
  }

  __device__ __forceinline__ uint32_t any_of_check_warps(bool here) {
    uint32_t any;
    asm volatile(
        "{.reg .pred p, q;\n setp.ne.u32 p, %1, 0;\n barrier.cta.red.or.pred.aligned q, 1, %2, p;\n selp.u32 %0, 1, 0, q;}"
        : "=r"(any)
        : "r"(uint32_t(here)), "r"(check_warps * 32)
        : "memory");
    return any;
  }

  // The checks' phase, and the exchange: whether a check of any block is unexplained, and what the threads of the first block's first warp say.
  __device__ __forceinline__ uint32_t checks(uint32_t says) {
    const uint32_t buffer = BLOCKS > 1 ? exchanges & 1 : 0;
    bool unexplained = false;
    if (thread / 32 < int(check_warps)) {
      Row row = read_row<STRIDE, SPLIT>(messages, position, thread % SPLIT, depth);
#pragma unroll
      for (int step = 1; step < SPLIT; step *= 2) {
        const Row other = {__shfl_xor_sync(~0u, row.least, step), __shfl_xor_sync(~0u, row.second, step),
                           __shfl_xor_sync(~0u, row.signs, step)};
        row = merge(row, other);
      }
      const uint32_t state = state_of(row, fired, unexplained);
      unexplained &= has_check;
      if (has_check && thread % SPLIT == 0) states[buffer * POSITIONS + position] = state;
      if constexpr (BLOCKS > 1) {
#pragma unroll
        for (int i = 0; i < MAX_PUSHES; ++i)
          if (uint32_t(i) < pushes) push(push_state[i] + buffer * POSITIONS * 4, state, push_barrier[i] + buffer * 8);
        for (uint32_t q = further; q < further_end; q += SPLIT) {
          const uint32_t to = words[q], at = shared_address(states + buffer * POSITIONS + (to & 0xffff));
          push(in_block(at, to >> 16), state, in_block(shared_address(&shared->barriers[buffer]), to >> 16));
        }
        // The barrier of the warps that have checks also orders the states that they stored.
        uint32_t any = any_of_check_warps(unexplained);
        if (thread < 32) {
          if (rank == 0) any |= __reduce_or_sync(~0u, says);
          if (thread < BLOCKS) push(flag_address + buffer * BLOCKS * 4, any, flag_barrier + buffer * 8);
          if (thread == 0) arrive_expecting(shared_address(&shared->barriers[buffer]), expected_bytes);
        }
      }
    }
    if constexpr (BLOCKS > 1) {
      await(shared_address(&shared->barriers[buffer]), exchanges >> 1 & 1);
      ++exchanges;
      const uint32_t lane = thread % 32, any = lane < BLOCKS ? flags[buffer * BLOCKS + lane] : 0;
      return __reduce_or_sync(~0u, any);
    } else {
      if (thread < 32) {
        says = __reduce_or_sync(~0u, says);
        if (thread == 0) shared->says = says;
      }
      const uint32_t any = __syncthreads_or(unexplained) != 0;
      return any | shared->says;
    }
  }

  __device__ __forceinline__ const uint32_t *latest() const { return states + (BLOCKS > 1 ? (exchanges - 1 & 1) * POSITIONS : 0); }

  __device__ __forceinline__ Shared *home() {
    if constexpr (BLOCKS > 1) return cooperative_groups::this_cluster().map_shared_rank(shared, 0);
    else return shared;
  }

  // Sums over all threads of all blocks; every thread has them.
  struct Totals {
    uint32_t weight, observables, corrections;
  };
  __device__ __forceinline__ Totals total(uint32_t weight, uint32_t observables, uint32_t corrections) {
    const uint32_t at = solution_count & 3, later = (solution_count + 2) & 3;
    ++solution_count;
    weight = __reduce_add_sync(~0u, weight);
    observables = __reduce_xor_sync(~0u, observables);
    corrections = __reduce_add_sync(~0u, corrections);
    Shared *home = this->home();
    if (thread % 32 == 0) {
      if (weight) atomicAdd(&home->totals[at][0], weight);
      if (observables) atomicXor(&home->totals[at][1], observables);
      if (corrections) atomicAdd(&home->totals[at][2], corrections);
    }
    if (thread < 3) shared->totals[later][thread] = 0;
    cluster_sync();
    return {home->totals[at][0], home->totals[at][1], home->totals[at][2]};
  }

  // What the first warp of the first block says of a request before its first iteration: that its padding is not zero, or that no
  // column touches a check that fired.
  __device__ __forceinline__ uint32_t first_look(const uint8_t *request) const {
    const TablesHead &head = Tables{words}.head();
    const uint32_t bytes = (head.checks + 7) / 8;
    uint32_t says = 0;
    if (thread == 0 && head.checks % 8 && __ldcg(request + bytes - 1) >> head.checks % 8) says = SAYS_MALFORMED;
    if (head.disconnected) {
      const uint8_t *disconnected = reinterpret_cast<const uint8_t *>(words + head.disconnected);
      for (uint32_t i = thread; i < bytes; i += 32)
        if (__ldcg(request + i) & disconnected[i]) says |= SAYS_INEXPLICABLE;
    }
    return says;
  }

  // Decodes a request, a bit a check. True in all threads of the cluster if another lane has won or the request is malformed: then there
  // is no answer. `best` is the race's, null for a lane without others.
  __device__ __forceinline__ bool solve(const Settings &s, const uint8_t *request, const Limits &limits, const uint32_t *best, uint32_t lane,
                                        Answer &answer, bool &malformed) {
    const bool speaks = thread == 0 && rank == 0;
    uint32_t leader = ~0u, polled = ~0u, says = 0;
    uint32_t cancelled = 0;
    if (speaks) cancelled = *(volatile const uint32_t *)limits.cancel;
    if (speaks && best && lane > 0) polled = *(volatile const uint32_t *)best;
    fired = has_check ? __ldcg(request + (detector >> 3)) >> (detector & 7) & 1 : 0;
    if (rank == 0 && thread < 32) says = first_look(request);
#pragma unroll
    for (int at = 0; at < P::COUNT; ++at) t.marginal[at] = t.prior[at];
    t.decisions = t.best = 0;
    malformed = false;
    uint32_t solutions = 0, iterations = lane > 0 ? s.lane_delay : 0, best_weight = 0, ended = EXHAUSTED;
    bool done = false;
    for (uint32_t leg = 0; leg <= s.legs && !done; ++leg) {
      begin_leg<P, THREADS>(t, block, column_numbers, lane + leg > 0, s.first_memory, s.low, s.values, leg_key(s.seed + lane, leg), thread);
      __syncthreads();
      const uint32_t begun = checks(says | ((iterations << 6 | lane) > polled ? LOST : 0));
      says = 0;
      if (begun & (LOST | SAYS_MALFORMED)) {
        malformed = begun & SAYS_MALFORMED;
        return true;
      }
      if (begun & SAYS_INEXPLICABLE) {
        ended = INEXPLICABLE;
        break;
      }
      const uint32_t most = leg ? s.leg_iterations : s.first_iterations;
      for (uint32_t n = 0; n < most; ++n) {
        if (iterations >= s.max_iterations) {
          done = true;
          break;
        }
        ++iterations;
        if (speaks) {
          // Another lane's result is known an iteration late, so that no iteration waits for memory.
          leader = polled;
          if (best) polled = *(volatile const uint32_t *)best;
          if (iterations % ITERATIONS_BETWEEN_CHECKS == 0) {
            // Likewise the word.
            says = cancelled ? SAYS_CANCELLED : 0;
            cancelled = *(volatile const uint32_t *)limits.cancel;
            if (limits.deadline && global_ns() > limits.deadline) says |= SAYS_LATE;
          }
        }
        columns<P, THREADS>(t, block, latest(), thread);
        __syncthreads();
        const uint32_t seen = checks(says | ((iterations << 6 | lane) > leader ? LOST : 0));
        says = 0;
        if (seen & LOST) return true;
        if (!(seen & UNEXPLAINED)) {
          if (++solutions == 1 && s.solutions == 1) {
            t.best = t.decisions;
            done = true;
            break;
          }
          const uint32_t weight = total(weight_of(t, t.decisions), 0, 0).weight;
          if (solutions == 1 || weight < best_weight) {
            best_weight = weight;
            t.best = t.decisions;
          }
          done = solutions == s.solutions || best_weight == 0;
        }
        if (!done && seen & (SAYS_LATE | SAYS_CANCELLED)) {
          ended = seen & SAYS_CANCELLED ? CANCELLED : LATE;
          done = true;
        }
        if (done || !(seen & UNEXPLAINED)) break;
      }
    }
    if (solutions == 0) t.best = t.decisions;
    const uint32_t decided = t.best & t.counted;
    const Totals all = total(weight_of(t, t.best), flips_of<P, THREADS>(t, t.best, flips, thread), __popc(decided));
    // A solution that was found is one, however the decode ended.
    answer = {solutions ? uint32_t(CONVERGED) : ended, solutions, iterations, all.weight, all.observables, all.corrections, 0, 0};
    return false;
  }
};

__device__ __forceinline__ uint32_t add_in_order(uint32_t *at, uint32_t value) {
  uint32_t before;
  asm volatile("atom.add.acq_rel.gpu.u32 %0, [%1], %2;" : "=r"(before) : "l"(at), "r"(value) : "memory");
  return before;
}

// By a lane's first thread, after `solve`: whether it is the last of its race, and the answer then. Of lanes that found all their solutions
// the one of fewest iterations wins, of equal ones the first, or else lane 0. The race is as before its start then, for the next shot.
__device__ __forceinline__ bool finish_race(Race *race, uint32_t lanes, uint32_t lane, const Settings &s, bool lost, Answer &answer) {
  if (!lost) {
    const bool all = answer.solutions > 0 && (answer.solutions == s.solutions || answer.weight == 0);
    // First, since others end by it.
    if (all) atomicMin(&race->best, answer.iterations << 6 | lane);
    race->answers[lane] = answer;
  }
  // Orders what each lane wrote before what the last one reads.
  if (add_in_order(&race->done, 1) + 1 < lanes) return false;
  const uint32_t best = *(volatile uint32_t *)&race->best, winner = best == ~0u ? 0 : best & 63;
  const uint4 *from = reinterpret_cast<const uint4 *>(&race->answers[winner]);
  const uint4 words[2] = {__ldcg(from), __ldcg(from + 1)};
  memcpy(&answer, words, sizeof answer);
  *(volatile uint32_t *)&race->best = ~0u;
  *(volatile uint32_t *)&race->done = 0;
  return true;
}

// The bytes of an answer, by a warp: observables, eight a byte; then, as a `decode_syndrome`'s result has them, corrections and whether the
// decode converged; then iterations, weight, solutions, why the decode ended, and the multiprocessor's clock cycles that it took; all but
// the first numbers of 32 bits. As many as fit `bytes`. `answer` is that of the warp's first lane.
__device__ __forceinline__ void write_answer(uint8_t *to, uint32_t bytes, uint32_t observables, const Answer &answer) {
  const uint32_t first = (observables + 7) / 8, lane = threadIdx.x % 32;
  const uint32_t words[8] = {answer.observables, answer.corrections, answer.ended == CONVERGED, answer.iterations,
                             answer.weight,      answer.solutions,   answer.ended,              answer.cycles};
  const uint32_t which = lane < first ? 0 : 1 + (lane - first) / 4, shift = (lane < first ? lane : (lane - first) % 4) * 8;
  uint32_t word = 0;
#pragma unroll
  for (uint32_t i = 0; i < 8; ++i) {
    const uint32_t of_first = __shfl_sync(~0u, words[i], 0);
    if (i == which) word = of_first;
  }
  if (lane < bytes) to[lane] = uint8_t(word >> shift);
}
static_assert((MAX_OBSERVABLES + 7) / 8 + 28 <= 32, "a byte for each lane of a warp");

}  // namespace relay

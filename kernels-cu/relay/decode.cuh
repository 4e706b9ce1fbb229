// One shot after another, by a block or by a cluster of blocks: legs, convergence, the lightest solution.
//
// Blocks of a cluster exchange once an iteration: a check's threads push its state to each block that has it in its halo, and each
// block pushes to every block whether one of its checks is unexplained. Both are `st.async` onto the mbarrier of the
// receiver's phase, which the receiver's own warps arrive at, too: one wait stands for the block's barrier and for the exchange. States
// and flags have two buffers. A block is one iteration ahead of another at most, since every block waits for every block's flags.
#pragma once
#include <cooperative_groups.h>

#include "phases.cuh"

namespace relay {

struct Settings {
  int32_t first_memory, low, values;
  uint32_t first_iterations, leg_iterations, legs, solutions, max_iterations, seed, lane_delay;
};

// What a block reads once: the arrays of `BlockTables`, one block's after another's, `*_stride` words apart.
struct BlockArrays {
  const uint32_t *check_at, *depth, *slots, *state_at, *priors, *columns, *flips, *counted, *degrees, *push_begin, *pushes;
  uint32_t own, halo, depths;
};

struct Answer {
  uint32_t converged, solutions, iterations, weight, observables, cycles, done, reserved;
};

struct Launch {
  const BlockArrays *blocks;
  Settings settings;
  uint32_t rows, syndrome_words, shots;
  uint32_t distinct;          // syndromes, over which shots take turns
  const uint32_t *syndromes;  // [distinct][syndrome_words], a bit a check
  Answer *answers;            // [shots]
  uint32_t *decisions;        // [shots][blocks][threads]: counted bits of the error; null if none are wanted
  uint32_t *next;             // the next shot, of single blocks that do not race; null for shots in turns
  // Lanes that decode the same shot, 1 to 64, and for each shot: iterations << 6 | lane of the best, ones before; lanes that are done.
  // In lockstep, all lanes start a shot together, as they do where a shot is asked for: for measurements.
  uint32_t lanes, *race_best, *race_done, lockstep;
};

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

// How many receivers of a check's state one of its threads pushes to at most.
constexpr int max_pushes(int split) { return split >= 4 ? 1 : 4 / split; }

// Bytes of dynamic shared memory.
template <int BLOCKS, int THREADS, int SPLIT, int POSITIONS, class P> constexpr size_t shared_bytes(uint32_t rows) {
  return size_t(4) * ((rows + 1) * stride_of<P, SPLIT, POSITIONS>() + 2 * POSITIONS + (P::KEEPS_SLOTS ? 0 : P::SUM * THREADS) + 2 * BLOCKS + 64);
}

template <int BLOCKS, int THREADS, int SPLIT, int POSITIONS, class P> struct Decoder {
  static constexpr int WARPS = THREADS / 32, STRIDE = stride_of<P, SPLIT, POSITIONS>();
  static constexpr int MAX_PUSHES = max_pushes(SPLIT);

  struct Shared {
    uint64_t barriers[2];
    uint32_t totals[4][2];
    uint32_t shot, stop;
  };

  uint16_t *messages;
  uint32_t *states, *flags;
  Shared *shared;
  Block<POSITIONS> block;
  Thread<P> t;
  const BlockArrays *arrays;
  int thread, rank, position, depth;
  bool has_check;
  uint32_t fired, detector, exchanges, check_warps, expected_bytes, solution_count;
  uint32_t push_state[MAX_PUSHES], push_barrier[MAX_PUSHES], pushes, flag_address, flag_barrier;

  __device__ __forceinline__ void cluster_sync() {
    if constexpr (BLOCKS > 1) {
      asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    } else {
      __syncthreads();
    }
  }

  __device__ __forceinline__ void set_up(const Launch &launch, uint32_t *memory) {
    thread = threadIdx.x;
    rank = BLOCKS > 1 ? blockIdx.x % BLOCKS : 0;
    arrays = launch.blocks + rank;
    messages = reinterpret_cast<uint16_t *>(memory);
    states = memory + (launch.rows + 1) * STRIDE;
    uint32_t *slots = states + 2 * POSITIONS;
    flags = slots + (P::KEEPS_SLOTS ? 0 : P::SUM * THREADS);
    shared = reinterpret_cast<Shared *>(flags + 2 * BLOCKS);
    block = {messages, slots};
    for (uint32_t i = thread; i < (launch.rows + 1) * STRIDE; i += THREADS) memory[i] = MESSAGE_CAP;
    for (uint32_t i = thread; i < 2 * POSITIONS; i += THREADS) states[i] = 0;
    if constexpr (!P::KEEPS_SLOTS)
      for (uint32_t i = thread; i < P::SUM * THREADS; i += THREADS) slots[i] = arrays->slots[i];
    for (uint32_t i = thread; i < 2 * BLOCKS; i += THREADS) flags[i] = 0;
    if (thread < 8) shared->totals[thread / 2][thread % 2] = 0;
#pragma unroll
    for (int at = 0; at < P::COUNT; ++at) {
      t.prior[at] = arrays->priors[at * THREADS + thread];
      t.degree[at] = __shfl_sync(~0u, arrays->degrees[at * WARPS + thread / 32], 0);
    }
    if constexpr (P::KEEPS_SLOTS) {
#pragma unroll
      for (int k = 0; k < P::SUM; ++k) {
        t.slots[k] = arrays->slots[k * THREADS + thread];
        t.state_at[k] = arrays->state_at[k * THREADS + thread];
      }
    }
    t.counted = arrays->counted[thread];
    position = thread / SPLIT;
    has_check = position < int(arrays->own);
    depth = has_check ? arrays->depth[thread / 32] : 0;
    detector = has_check ? arrays->check_at[position] : 0;
    check_warps = arrays->depths;
    exchanges = 0;
    solution_count = 0;
    pushes = 0;
    if constexpr (BLOCKS > 1) {
      const uint32_t barrier = shared_address(&shared->barriers[0]);
      if (thread == 0) {
        barrier_init(barrier, 1);
        barrier_init(barrier + 8, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
      }
      expected_bytes = 4 * (arrays->halo + BLOCKS);
      if (has_check) {
        for (uint32_t q = arrays->push_begin[position] + thread % SPLIT; q < arrays->push_begin[position + 1]; q += SPLIT) {
          const uint32_t to = arrays->pushes[q];
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

  // The checks' phase, and the exchange. Bit 0: a check of any block is unexplained. Bit 1: the first block's `stop`.
  __device__ __forceinline__ uint32_t checks(bool stop = false) {
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
        // The barrier of the warps that have checks also orders the states that they stored.
        uint32_t any = any_of_check_warps(unexplained);
        if (thread < 32) {
          if (rank == 0) any |= __any_sync(~0u, stop) << 1;
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
      if (thread == 0) shared->stop = stop;
      const uint32_t any = __syncthreads_or(unexplained);
      return any | shared->stop << 1;
    }
  }

  __device__ __forceinline__ const uint32_t *latest() const { return states + (BLOCKS > 1 ? (exchanges - 1 & 1) * POSITIONS : 0); }

  __device__ __forceinline__ Shared *home() {
    if constexpr (BLOCKS > 1) return cooperative_groups::this_cluster().map_shared_rank(shared, 0);
    else return shared;
  }

  // Sums over all threads of all blocks; every thread has them.
  __device__ __forceinline__ void total(uint32_t weight, uint32_t observables, uint32_t &all_weight, uint32_t &all_observables) {
    const uint32_t at = solution_count & 3, later = (solution_count + 2) & 3;
    ++solution_count;
    weight = __reduce_add_sync(~0u, weight);
    observables = __reduce_xor_sync(~0u, observables);
    Shared *home = this->home();
    if (thread % 32 == 0) {
      if (weight) atomicAdd(&home->totals[at][0], weight);
      if (observables) atomicXor(&home->totals[at][1], observables);
    }
    if (thread == 0) shared->totals[later][0] = shared->totals[later][1] = 0;
    cluster_sync();
    all_weight = home->totals[at][0];
    all_observables = home->totals[at][1];
  }

  // Whether this lane's answer is the shot's: of lanes that found all their solutions the one of fewest iterations, or else lane 0. Waits
  // until the others cannot win, which is soon: each looks at the best once an iteration.
  __device__ __forceinline__ bool is_winner(const Launch &launch, uint32_t shot, uint32_t lane, uint32_t solutions, uint32_t iterations,
                                            uint32_t weight) {
    if (launch.lanes == 1) return true;
    const Settings &s = launch.settings;
    const bool finished = solutions > 0 && (solutions == s.solutions || weight == 0);
    const uint32_t mine = iterations << 6 | lane;
    volatile uint32_t *best = launch.race_best + shot, *done = launch.race_done + shot;
    if (finished) atomicMin(launch.race_best + shot, mine);
    __threadfence();
    atomicAdd(launch.race_done + shot, 1);
    if (!finished && lane != 0) return false;
    // Lane 0 finished before the others count.
    if (finished && lane == 0 && iterations <= s.lane_delay + 1) return true;
    while (*done < launch.lanes)
      if (*best < mine) return false;
    __threadfence();
    return finished ? *best == mine : *best == ~0u;
  }

  __device__ __forceinline__ void decode(const Launch &launch, uint32_t shot, uint32_t lane) {
    if (launch.lockstep && shot > 0) {
      if (thread == 0 && rank == 0)
        while (*(volatile uint32_t *)&launch.race_done[shot - 1] < launch.lanes) {}
      cluster_sync();
    }
    const long long begun = clock64();
    const Settings &s = launch.settings;
    const bool races = launch.lanes > 1, speaks = thread == 0 && rank == 0;
    uint32_t leader = ~0u, polled = ~0u;
    if (lane > 0 && speaks) polled = *(volatile uint32_t *)&launch.race_best[shot];
    const uint32_t *syndrome = launch.syndromes + size_t(shot % launch.distinct) * launch.syndrome_words;
    fired = has_check ? syndrome[detector >> 5] >> (detector & 31) & 1 : 0;
#pragma unroll
    for (int at = 0; at < P::COUNT; ++at) t.marginal[at] = t.prior[at];
    t.decisions = t.best = 0;
    uint32_t solutions = 0, iterations = lane > 0 ? s.lane_delay : 0, best_weight = 0, weight = 0, flipped = 0;
    bool done = false;
    for (uint32_t leg = 0; leg <= s.legs && !done; ++leg) {
      begin_leg<P, THREADS>(t, block, arrays->columns, lane + leg > 0, s.first_memory, s.low, s.values, leg_key(s.seed + lane, leg), thread);
      __syncthreads();
      if (checks((iterations << 6 | lane) > polled) & 2) break;
      const uint32_t most = leg ? s.leg_iterations : s.first_iterations;
      for (uint32_t n = 0; n < most; ++n) {
        if (iterations >= s.max_iterations) {
          done = true;
          break;
        }
        ++iterations;
        // Another lane's result is known an iteration late, so that no iteration waits for memory.
        leader = polled;
        if (races && speaks) polled = *(volatile uint32_t *)&launch.race_best[shot];
        columns<P, THREADS>(t, block, latest(), thread);
        __syncthreads();
        const uint32_t seen = checks((iterations << 6 | lane) > leader);
        if (seen & 2) {
          done = true;
          break;
        }
        if (seen) continue;
        if (++solutions == 1 && s.solutions == 1) {
          t.best = t.decisions;
          done = true;
          break;
        }
        total(weight_of(t, t.decisions), 0, weight, flipped);
        if (solutions == 1 || weight < best_weight) {
          best_weight = weight;
          t.best = t.decisions;
        }
        done = solutions == s.solutions || best_weight == 0;
        break;
      }
    }
    if (solutions == 0) t.best = t.decisions;
    total(weight_of(t, t.best), flips_of<P, THREADS>(t, t.best, arrays->flips, thread), weight, flipped);
    if (launch.decisions)
      launch.decisions[(size_t(shot) * BLOCKS + rank) * THREADS + thread] = t.best & t.counted;
    if (speaks && is_winner(launch, shot, lane, solutions, iterations, best_weight)) {
      Answer *answer = launch.answers + shot;
      answer->converged = solutions > 0;
      answer->solutions = solutions;
      answer->iterations = iterations;
      answer->weight = weight;
      answer->observables = flipped;
      answer->cycles = uint32_t(clock64() - begun);
      __threadfence_system();
      *(volatile uint32_t *)&answer->done = 1;
    }
  }
};

template <int BLOCKS, int THREADS, int SPLIT, int POSITIONS, class P>
__global__ void __launch_bounds__(THREADS, BLOCKS > 1 ? 1 : THREADS <= 256 ? 3 : THREADS <= 384 ? 2 : 1) relay_shots(const __grid_constant__ Launch launch) {
  extern __shared__ __align__(16) uint32_t memory[];
  Decoder<BLOCKS, THREADS, SPLIT, POSITIONS, P> decoder;
  decoder.set_up(launch, memory);
  const uint32_t cluster = blockIdx.x / BLOCKS;
  if (!launch.next) {
    const uint32_t groups = gridDim.x / BLOCKS / launch.lanes;
    if (cluster < groups * launch.lanes)
      for (uint32_t shot = cluster / launch.lanes; shot < launch.shots; shot += groups) decoder.decode(launch, shot, cluster % launch.lanes);
  } else {
    for (;;) {
      if (threadIdx.x == 0 && decoder.rank == 0) decoder.shared->shot = atomicAdd(launch.next, 1);
      decoder.cluster_sync();
      const uint32_t shot = decoder.home()->shot;
      decoder.cluster_sync();
      if (shot >= launch.shots) break;
      decoder.decode(launch, shot, 0);
    }
  }
  decoder.cluster_sync();
}

}  // namespace relay

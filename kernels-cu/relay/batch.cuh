// Many shots by one launch, for measurements: one after another by each cluster, or each shot by lanes that race.
#pragma once
#include "decode.cuh"

namespace relay {

struct Launch {
  const uint32_t *tables;
  Settings settings;
  uint32_t request_bytes, shots;
  uint32_t distinct;        // requests, over which shots take turns
  const uint8_t *requests;  // [distinct][request_bytes], a bit a check
  Answer *answers;          // [shots]
  uint32_t *done;           // [shots]: 1 where the answer is there
  uint32_t *decisions;      // [shots][blocks][threads]: counted bits of the error; null if none are wanted
  uint32_t *next;           // the next shot, for lanes that do not race; null for shots in turns
  uint32_t lanes;           // that decode the same shot, 1 to 64
  Race *races;              // [shots], if lanes are more than 1
  // In lockstep, all lanes start a shot together, as they do where a shot is asked for.
  uint32_t lockstep;
  const uint32_t *never;  // a word that is 0
};

template <int BLOCKS, int THREADS, int SPLIT, int POSITIONS, class P>
__device__ __forceinline__ void decode(Decoder<BLOCKS, THREADS, SPLIT, POSITIONS, P> &decoder, const Launch &launch, uint32_t shot, uint32_t lane) {
  const bool races = launch.lanes > 1, speaks = decoder.thread == 0 && decoder.rank == 0;
  if (launch.lockstep && shot > 0) {
    // Its lanes end all the same, so this wait does.
    if (speaks)
      while (!*(volatile uint32_t *)&launch.done[shot - 1]) {}
    decoder.cluster_sync();
  }
  const long long begun = clock64();
  const uint8_t *request = launch.requests + size_t(shot % launch.distinct) * launch.request_bytes;
  Race *race = races ? launch.races + shot : nullptr;
  Answer answer;
  bool malformed;
  const bool lost = decoder.solve(launch.settings, request, {0, launch.never}, races ? &race->best : nullptr, lane, answer, malformed);
  if (launch.decisions && !lost)
    launch.decisions[(size_t(shot) * BLOCKS + decoder.rank) * THREADS + decoder.thread] = decoder.t.best & decoder.t.counted;
  if (speaks && (races ? finish_race(race, launch.lanes, lane, launch.settings, lost, answer) : !lost)) {
    answer.cycles = uint32_t(clock64() - begun);
    launch.answers[shot] = answer;
    __threadfence_system();
    *(volatile uint32_t *)&launch.done[shot] = 1;
  }
}

template <int BLOCKS, int THREADS, int SPLIT, int POSITIONS, class P>
__global__ void __launch_bounds__(THREADS, BLOCKS > 1 ? 1 : THREADS <= 256 ? 3 : THREADS <= 384 ? 2 : 1) relay_shots(const __grid_constant__ Launch launch) {
  extern __shared__ __align__(16) uint32_t memory[];
  Decoder<BLOCKS, THREADS, SPLIT, POSITIONS, P> decoder;
  decoder.set_up(launch.tables, memory);
  const uint32_t cluster = blockIdx.x / BLOCKS;
  if (!launch.next) {
    const uint32_t groups = gridDim.x / BLOCKS / launch.lanes;
    if (cluster < groups * launch.lanes)
      for (uint32_t shot = cluster / launch.lanes; shot < launch.shots; shot += groups) decode(decoder, launch, shot, cluster % launch.lanes);
  } else {
    for (;;) {
      if (threadIdx.x == 0 && decoder.rank == 0) decoder.shared->shot = atomicAdd(launch.next, 1);
      decoder.cluster_sync();
      const uint32_t shot = decoder.home()->shot;
      decoder.cluster_sync();
      if (shot >= launch.shots) break;
      decode(decoder, launch, shot, 0);
    }
  }
  decoder.cluster_sync();
}

}  // namespace relay

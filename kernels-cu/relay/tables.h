// A problem's tables as the kernel reads them: which block has which checks and columns, and where each message lies.
//
// `ringcall_bp::kernel::Tables` computes them (host/bp/src/kernel). They are one run of 32-bit words: a `TablesHead`, a `BlockHead` for
// each block, the arrays that these name by their first words.
//
// A block has a run of checks and every column that touches one of them; a column at a border is computed by each block that touches
// it. Checks of other blocks that such columns touch are the block's halo: it has their states, and not their rows.
#pragma once
#include <cstdint>

namespace relay {

struct TablesHead {
  uint32_t blocks, threads, split, positions;
  uint32_t rows;         // words of the longest row
  uint32_t checks, observables;
  uint32_t disconnected; // a bit a check: those that no column touches; 0 if there are none
};

struct BlockHead {
  uint32_t own, halo;   // checks
  uint32_t depths;      // warps that have checks
  uint32_t check_at;    // check at each position, own ones first; the halo's after them
  uint32_t depth;       // words of a row, the same for 32 threads of the check phase
  uint32_t slots;       // [sum of the passes' degrees][threads]: two columns' slots, 16 bits each
  uint32_t state_at;    // likewise: where their checks' states lie, if slots do not say so
  uint32_t priors;      // [pass][threads]: two halves
  uint32_t columns;     // [pass][2][threads]: column numbers
  uint32_t flips;       // [pass][2][threads]: observables, of columns that are counted here
  uint32_t counted;     // [threads]: bits 2 pass + lane of columns that are counted here
  uint32_t degrees;     // [pass][warps]
  uint32_t push_begin;  // [own + 1]
  uint32_t pushes;      // block << 16 | position there
};

// The kernel tells nothing of more.
constexpr uint32_t MAX_OBSERVABLES = 32;

#ifdef __CUDACC__
#define RELAY_BOTH __host__ __device__
#else
#define RELAY_BOTH
#endif

struct Tables {
  const uint32_t *words;

  RELAY_BOTH const TablesHead &head() const { return *reinterpret_cast<const TablesHead *>(words); }
  RELAY_BOTH const BlockHead &block(uint32_t index) const {
    return reinterpret_cast<const BlockHead *>(words + sizeof(TablesHead) / 4)[index];
  }
};

}  // namespace relay

// What the network's kernel is told, how a shape of it divides the work, and what lies where in shared memory.
#pragma once

#include "bits.h"
#include "machine.cuh"

namespace predecoder {

using namespace machine;

constexpr int GROUPS = 16;          // of 8 channels
constexpr u32 TAP_BYTES = 2048;     // 64 output channels x 16 input channels
constexpr u32 BLOCK_STAGE = 6 * TAP_BYTES; // 3 taps x 32 input channels, 64 output channels
constexpr int MAX_STAGES = 20;
constexpr int MAX_SLABS = 12;
constexpr int STAMPS = 16;
constexpr int MAX_TILES = 132;

// Words of `Params::sync`, each on a sector of its own: counters of arrivals, three of them for each tile.
constexpr int SECTOR = 8;
enum Sync : int { FAILED = 0 /* where nothing else is told */, GO = SECTOR, DONE = 2 * SECTOR, OVER = 3 * SECTOR /* blocks that are through with a run, of even and of odd runs */, ARRIVED = 4 * SECTOR, SYNC_WORDS = ARRIVED + 3 * MAX_TILES * SECTOR };

// What goes in and comes out.
struct Io {
    const __half* in; // [4][layers][d][d]; not used with `bits`
    const u8* bits;   // a string of bits, each of them an element of the first two channels by `cells`, which has the others; or null
    float* out;       // [4][layers][d][d]: logits; or null
    u8* left;         // what decisions leave of `bits`, and the frame: `answer`; or null
};

struct Params {
    int d, layers, width, plane, count; // count: padded positions
    int pad, rows;                      // rows before the first position; rows of an activation's group
    int tiles;
    int stages, slabs; // of the two rings
    u32 slab_bytes, slab_rows, group_rows; // from slab to slab; copied; from group to group
    u32 off_input, off_slabs, off_exchange, off_received, off_final, off_ring, smem;
    Io io;
    // For each position, from `2 * pad` before the first to as many after the last: its cell, or -1; the maps' two halves;
    // its two bits of a request, or NO_BIT.
    const uint4* cells;
    float threshold;    // a logit above it is an error
    int whole;          // barriers of the whole grid, not of the tiles that a tile's taps reach
    const Flips* flips; // [cells][4]: what each decision flips
    u32* flipped;       // [2][flip_words(bit_count)]: zero between runs, which take turns
    u32 bit_count, off_first;
    const uint4* w1;    // [8][7][32]: fragments
    const u8* wmid;     // [2][3][4][3][2] stages of a block
    const uint4* w4;    // [7][8][32]: fragments
    const float *b1, *b2, *b3, *b4;
    u8 *act1, *act2;
    float4* sums;       // [27][rows]
    u32* sync;
    u32* failed; // which wait ran out; 0 otherwise
    long long* stamps;
    long long limit; // clock cycles that a wait may take
};

static_assert(sizeof(Params) == 264, "as host/infer-gpu/src/plan.rs lays them out");

template <int CS_, int KS_, int WGN_, int N_>
struct Shape {
    static constexpr int CS = CS_, KS = KS_, WGN = WGN_, N = N_;
    // Narrow products follow one another faster than their sums are ready: several sums, added up in the end.
    static constexpr int SUMS = N <= 24 ? 3 : N <= 48 ? 2 : 1;
    // With few input channels a block, the first layer is computed where it is needed, borders and all.
    static constexpr bool FUSED = KS == 4;
    static constexpr int WGM = 2 / CS, C = CS * KS, P = WGN * N;
    static constexpr int WARPS = 4 * WGM * WGN, THREADS = 32 * WARPS;
    static constexpr int QN = 4 / KS;                  // groups of 32 input channels
    static constexpr int SLABS_LAYER = 3 * QN, STAGES_LAYER = 9 * QN;
    static constexpr int SHARE1 = (P / KS + 7) / 8 * 8; // positions of the first layer
    static constexpr int PF = (P + C - 1) / C;          // positions that a block finishes
    static constexpr int PFP = (PF + 7) / 8 * 8;
    static constexpr u32 STAGE = BLOCK_STAGE * WGM;
    // To every block of the cluster its positions' partial sums, as halves; or the activations, at home.
    static constexpr u32 PIECE = 8u * WGM * PF * 16;
    static constexpr u32 EXCHANGE = KS > 1 ? C * PIECE : (C > 1 ? 8u * WGM * P * 16 : 0);
    static constexpr u32 RECEIVED = KS > 1 ? KS * GROUPS * PF * 16u : 0;
    static constexpr u32 FINAL = GROUPS * PFP * 16;
    // Weights and biases of the first layer, of the channels that this block computes.
    static constexpr u32 FIRST = FUSED ? 2 * 7 * 32 * 16 + 2 * 16 * 4 : 0;
    static constexpr int BLOCK = THREADS + 64;
};

// What lies in a block's shared memory before the rings.
struct Head {
    u64 w_full[MAX_STAGES], w_empty[MAX_STAGES], s_full[MAX_SLABS], s_empty[MAX_SLABS], peers;
    u32 dead, base;
};
static_assert(sizeof(Head) <= 1024, "the head has a kilobyte");

// With PREDECODER_STAMPS times of the first thread of block 0 at `Params::stamps`, [STAMPS]; if it is 2 of all blocks,
// [MAX_TILES][STAMPS], and behind them the number of the block that was last.
#ifndef PREDECODER_STAMPS
#define PREDECODER_STAMPS 0
#endif
#define STAMP(i)                                                                              \
    do {                                                                                      \
        if (PREDECODER_STAMPS && (PREDECODER_STAMPS == 2 || blockIdx.x == 0) && threadIdx.x == 0) \
            p.stamps[blockIdx.x * STAMPS + (i)] = clock64();                                  \
    } while (0)
#define STAMP_LAST()                                     \
    do {                                                 \
        if (PREDECODER_STAMPS == 2)                      \
            p.stamps[MAX_TILES * STAMPS] = blockIdx.x;   \
    } while (0)

// After the head: the middle layers' biases, and for each of the tile's positions whether it is a cell.
constexpr u32 BIAS_AT = 1024, VALID_AT = 2048;

} // namespace predecoder

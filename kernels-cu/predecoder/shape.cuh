// What the network's kernel is told, how a shape of it divides the work, and what lies where in shared memory.
#pragma once

#include "bits.h"
#include "machine.cuh"
#include "wgmma_shapes.cuh"

namespace predecoder {

using namespace machine;

constexpr int GROUPS = 8;         // of 16 channels of a hidden layer
constexpr u32 TAP_BYTES = 2048;   // 64 output channels x 32 input channels
constexpr u32 PIECE = 3 * TAP_BYTES; // 3 taps of them
constexpr int QW = 2;             // groups of 32 input channels that a stage of weights and a slab of activations have
constexpr int MAX_STAGES = 20;
constexpr int MAX_SLABS = 12;
constexpr int STAMPS = 16;
constexpr int MAX_TILES = 132;

// Words of `Params::sync`, each on a sector of its own: where nothing else is told what failed; bench.cu's own; whether a block gave
// up; counters of arrivals, three of them for each tile.
constexpr int SECTOR = 8;
enum Sync : int { FAILED = 0, GO = SECTOR, OVER = 2 * SECTOR, DEAD = 3 * SECTOR, ARRIVED = 4 * SECTOR, SYNC_WORDS = ARRIVED + 3 * MAX_TILES * SECTOR };

// What is not there yet of the last layer's sums that a cell needs: no number. Others keep what they were last.
constexpr u32 ABSENT = ~0u;

// What goes in and comes out.
struct Io {
    const __half* in; // [4][layers][d][d]; not used with `bits`
    const u8* bits;   // a string of bits, each of them an element of the first two channels by `cells`, which has the others; or null
    float* out;       // [4][layers][d][d]: logits; or null
    u32* left;        // what decisions leave of `bits`, and the frame, in whole words elsewhere in this device's memory; or null
};

// With PREDECODER_STAMPS times of the first thread of block 0 at `Params::stamps`, [STAMPS]; if it is 2 of all blocks,
// [MAX_TILES][STAMPS], and blocks are held up: see HOLD_UP.
#ifndef PREDECODER_STAMPS
#define PREDECODER_STAMPS 0
#endif

struct Params {
    int d, layers, width, plane, count; // count: padded positions
    int pad, rows;                      // rows before the first position; rows of an activation's group
    int tiles;
    int stages, slabs; // of the two rings
    u32 slab_bytes, slab_rows, group_rows; // from slab to slab; copied; from group to group
    u32 off_input, off_slabs, off_received, off_ring, smem;
    Io io;
    // For each position, from `2 * pad` before the first to as many after the last: its cell, or -1; the maps' two halves;
    // its two bits of a request, or NO_BIT.
    const uint4* cells;
    float threshold;    // a logit above it is an error
    u32 bit_count;      // of a request
    const Flips* flips; // [cells][4]: what each decision flips
    const uint4* w1;    // [8][9][32]: fragments
    const u8* wmid;     // [2 layers][2 x 64 channels out][3][4 x 32 channels in][3] x PIECE
    const uint4* w4;    // [7][8][32]: fragments
    const float *scales1, *scales2, *scales3, *scales4; // a factor for each channel, then what is added
    u8 *act1, *act2;    // [GROUPS][rows][16]
    float4* sums;       // [CS][27][rows]: `ABSENT` between runs, those that a cell needs
    u32* sync;
    u32* failed; // which wait ran out; 0 otherwise
    long long* stamps;
    long long limit; // clock cycles that a wait may take
#if PREDECODER_STAMPS == 2
    u32 held_at, held_first; // see HOLD_UP
#endif
};

static_assert(PREDECODER_STAMPS == 2 || sizeof(Params) == 240, "as host/gpu-decoders/src/predecoder/plan.rs lays them out");

// A cluster of CS x KS blocks computes a tile of N positions: CS shares of the output channels, KS shares of the input channels.
template <int CS_, int KS_, int N_>
struct Shape {
    static constexpr int CS = CS_, KS = KS_, N = N_;
    static_assert((CS == 2 && (KS == 1 || KS == 2) || CS == 1 && KS == 1) && N % 8 == 0, "a shape");
    // Narrow products follow one another faster than their sums are ready: several sums, added up in the end.
    static constexpr int SUMS = N <= 24 ? 3 : N <= 48 ? 2 : 1;
    // With few input channels a block, the first layer is computed where it is needed, borders and all, and the grid's blocks wait
    // for all others instead of those that a tile's taps reach.
    static constexpr bool FUSED = KS == 2;
    static constexpr int C = CS * KS;
    static constexpr int WGM = 2 / CS; // groups of four warps that multiply in the middle layers: 64 output channels each
    static constexpr int WARPS = 8, THREADS = 32 * WARPS, MULTIPLY = 128 * WGM;
    static constexpr int QN = 4 / KS, QS = QN / QW;   // groups of 32 input channels, and slabs of them
    static constexpr int SLABS_LAYER = 3 * QS;
    // Lines of taps that a stage of weights has, of 64 or 128 output channels and a slab's input channels: as many as there is room
    // for, since each stage is waited for.
    static constexpr int LINES = WGM == 1 ? 3 : 1, STAGES_LAYER = SLABS_LAYER * (3 / LINES);
    static constexpr u32 BLOCK_STAGE = QW * LINES * PIECE, STAGE = WGM * BLOCK_STAGE;
    // Rows that the first layer computes at once: about half of those that a tile needs of a layer of time, for d = 7, 9, 11, 13, or
    // half a tile.
    static constexpr int CHUNK = FUSED ? (N == 24 ? 24 : N == 48 ? 40 : N == 64 ? 48 : 64) : N / 2;
    // Of the columns of 8 positions that a block has sums of, the first LOW are of the first of KS blocks to finish, the others, at
    // most MOST, of the second.
    static constexpr int COLUMNS = N / 8, LOW = COLUMNS / KS, MOST = COLUMNS - (KS - 1) * LOW;
    static constexpr u32 RECEIVED = (KS - 1) * MOST * 2048u;
    static constexpr int PFP = 8 * MOST;              // positions of which a block has the last layer's input, at most
    static constexpr int PF = (N + C - 1) / C;        // positions whose logits a block adds up
    static constexpr int BLOCK = THREADS + 64;
};

// What lies in a block's shared memory before the rings.
struct Head {
    u64 w_full[MAX_STAGES], w_empty[MAX_STAGES], s_full[MAX_SLABS], s_empty[MAX_SLABS], peers;
    u32 dead, base;
};
static_assert(sizeof(Head) <= 1024, "the head has a kilobyte");

#define STAMP(i)                                                                              \
    do {                                                                                      \
        if (PREDECODER_STAMPS && (PREDECODER_STAMPS == 2 || blockIdx.x == 0) && threadIdx.x == 0) \
            p.stamps[blockIdx.x * STAMPS + (i)] = clock64();                                  \
    } while (0)

// With all stamps: in even runs a block, one after the other from `Params::held_first` on, is held up at the point
// `Params::held_at` for 20 us, in which the others go on without it. The points: about to read what others wrote for the last layer
// but one; of either exchange, about to send, and between sending and reading what was received; about to read sums.
enum Held : u32 { HELD_NOWHERE, HELD_FETCH, HELD_SEND, HELD_READ, HELD_SEND_LAST, HELD_READ_LAST, HELD_SUMS };
constexpr int HELD_CYCLES = 40000;
#if PREDECODER_STAMPS == 2
#define HOLD_UP(point)                                                                                                \
    do {                                                                                                              \
        if (p.held_at == (point) && request % 2 == 0 && (p.held_first + request / 2) % gridDim.x == blockIdx.x)       \
            for (const long long from_now = clock64(); clock64() - from_now < HELD_CYCLES;) {                         \
            }                                                                                                         \
    } while (0)
#else
#define HOLD_UP(point) static_cast<void>(0)
#endif

// After the head, for each of the tile's positions: whether it is a cell.
constexpr u32 VALID_AT = 1024;

} // namespace predecoder

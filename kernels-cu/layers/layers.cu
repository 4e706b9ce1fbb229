// The predecoder's family of networks at any depth and width: 3x3x3 convolutions, a launch for each, in halves with sums in single
// precision. Of a network in integers every product and sum is exact, so that its answers are those of every other engine, to the bit;
// of one in floating point hidden values are rounded to halves. `predecoder/` has the one shape that is faster.
//
// Positions are numbered through a padded grid of (d + 1) x (d + 1) x layers, as there, so that a tap is a shift of the number. A row is a
// position's channels side by side. A product is mma.m16n8k16: rows of the first matrix are output channels, columns of the second are
// positions, and what is summed over is one tap's 16 input channels, in an order that gives each lane four that lie side by side.
#include "../predecoder/bits.h"
#include <cuda_fp16.h>

// Of a size that the launch says. Not in the namespace below: names there have a hash in them.
extern "C" {
extern __shared__ __align__(16) float ringcall_layers_sums[];
}

namespace {

using predecoder::Flips;
using u32_t = unsigned;

constexpr int TAPS = 27, THREADS = 256, WARPS = THREADS / 32;
constexpr float TOP = 255.f, LARGEST_HALF = 65504.f;

// What a position is: its cell, or NO_CELL for a border; two halves of the maps; its two bits of a request, or NO_BIT.
struct Cell {
    u32_t cell, maps, bits[2];
};
constexpr u32_t NO_CELL = ~0u;

struct Params {
    const __half* in;     // [rows][inputs]
    __half* out;          // [rows][outputs], zero on borders; or null in the last layer
    const uint4* weights; // [outputs / 16][TAPS][inputs / 16][32]: fragments
    const float* scales;  // a factor for each output, then what is added
    const Cell* cells;    // [count]
    float* logits;        // [4][cell_count]; or null
    u32_t* left;          // of the request, in whole words; or null
    const Flips* flips;   // [cell_count][4]
    u32_t width, plane, pad, count, cell_count;
    u32_t inputs, outputs; // multiples of 16
    u32_t integer;         // hidden values are integers of 0 to 255, rounded to the even; otherwise what is above 0
    float threshold;
    u32_t bit_count;
};
static_assert(sizeof(Params) == 104, "as host/gpu-decoders/src/predecoder/layers.rs lays it out");

__device__ __forceinline__ void mma(float (&c)[4], const uint4& a, const uint2& b)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y));
}

// Factor and offset, each rounded.
__device__ __forceinline__ float scaled(float sum, float factor, float offset) { return __fadd_rn(__fmul_rn(sum, factor), offset); }

__device__ __forceinline__ float hidden(const Params& p, float value)
{
    return p.integer ? fminf(fmaxf(rintf(value), 0.f), TOP) : fminf(fmaxf(value, 0.f), LARGEST_HALF);
}

// One layer: 16 MT output channels and 8 NT positions a warp. KW warps share what is summed over, and the others have other positions.
template <int MT, int NT, int KW, bool LAST>
__device__ __forceinline__ void layer(const Params& p)
{
    constexpr int GROUPS = WARPS / KW, M = 16 * MT, N = 8 * NT * GROUPS, STRIDE = M + 4, AHEAD = 3;
    float* const sums = ringcall_layers_sums; // [KW][N][STRIDE]
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, share = warp % KW, group = warp / KW;
    const int row = lane / 4, four = lane % 4 * 4;
    const int first = blockIdx.x * N + group * 8 * NT, tile = blockIdx.y * MT;
    const int inputs = p.inputs, chunks = inputs / 16, steps = TAPS * chunks;
    const int begin = steps * share / KW, end = steps * (share + 1) / KW;
    const __half* const rows = p.in + (static_cast<long long>(p.pad) + first + row) * inputs + four;
    const uint4* const weights = p.weights + static_cast<long long>(tile) * steps * 32 + lane;

    float acc[MT][NT][4] = {};
#pragma unroll 1
    for (int s = begin; s < end; s += AHEAD) {
        uint4 a[AHEAD][MT];
        uint2 b[AHEAD][NT];
        // All of them are under way before the first is used.
#pragma unroll
        for (int u = 0; u < AHEAD; ++u) {
            const int step = min(s + u, end - 1), tap = step / chunks, chunk = step - tap * chunks;
            const int shift = (tap / 9 - 1) * static_cast<int>(p.plane) + (tap / 3 % 3 - 1) * static_cast<int>(p.width) + tap % 3 - 1;
            const __half* const from = rows + static_cast<long long>(shift) * inputs + chunk * 16;
#pragma unroll
            for (int n = 0; n < NT; ++n)
                b[u][n] = __ldg(reinterpret_cast<const uint2*>(from + n * 8 * inputs));
#pragma unroll
            for (int m = 0; m < MT; ++m)
                a[u][m] = __ldg(weights + (static_cast<long long>(m) * steps + step) * 32);
        }
#pragma unroll
        for (int u = 0; u < AHEAD; ++u)
            if (s + u < end)
#pragma unroll
                for (int m = 0; m < MT; ++m)
#pragma unroll
                    for (int n = 0; n < NT; ++n)
                        mma(acc[m][n], a[u][m], b[u][n]);
    }
    float* const own = sums + (share * N + group * 8 * NT + lane % 4 * 2) * STRIDE + row;
#pragma unroll
    for (int m = 0; m < MT; ++m)
#pragma unroll
        for (int n = 0; n < NT; ++n)
#pragma unroll
            for (int j = 0; j < 4; ++j)
                own[(n * 8 + j % 2) * STRIDE + m * 16 + j / 2 * 8] = acc[m][n][j];
    __syncthreads();

    // Two channels of a position each.
    constexpr int PAIRS = LAST ? 2 : M / 2;
#pragma unroll 1
    for (int i = threadIdx.x; i < N * PAIRS; i += THREADS) {
        const int n = i / PAIRS, pair = i % PAIRS * 2;
        const u32_t position = blockIdx.x * N + n;
        if (position >= p.count)
            break;
        const u32_t cell = p.cells[position].cell;
        if (cell == NO_CELL)
            continue;
        float2 sum = make_float2(0.f, 0.f);
#pragma unroll
        for (int k = 0; k < KW; ++k) {
            const float2 part = *reinterpret_cast<const float2*>(sums + (k * N + n) * STRIDE + pair);
            sum.x += part.x, sum.y += part.y;
        }
        const u32_t channel = tile * 16 + pair;
        const float2 factor = *reinterpret_cast<const float2*>(p.scales + channel), offset = *reinterpret_cast<const float2*>(p.scales + p.outputs + channel);
        const float low = scaled(sum.x, factor.x, offset.x), high = scaled(sum.y, factor.y, offset.y);
        if constexpr (!LAST) {
            const __half2 both = __floats2half2_rn(hidden(p, low), hidden(p, high));
            *reinterpret_cast<__half2*>(p.out + (static_cast<long long>(p.pad) + position) * p.outputs + channel) = both;
        } else {
            if (p.logits) {
                p.logits[channel * p.cell_count + cell] = low;
                p.logits[(channel + 1) * p.cell_count + cell] = high;
            }
            if (p.left) {
                const auto flip = [&](u32_t bit) { atomicXor(p.left + bit / 32, 1u << bit % 32); };
                if (low > p.threshold)
                    flip_all(p.flips[cell * 4 + channel], p.bit_count, flip);
                if (high > p.threshold)
                    flip_all(p.flips[cell * 4 + channel + 1], p.bit_count, flip);
            }
        }
    }
}

} // namespace

extern "C" {

// The first layer's input, 16 channels of which four are used: of a volume, or of a request's bits, of which the answer before anything is
// flipped is made, too. `one` is what a value of 1 becomes.
__global__ void __launch_bounds__(THREADS) ringcall_layers_volume(const __half* volume, const unsigned* request, __half* rows, const Cell* cells, unsigned* left,
                                                                 unsigned pad, unsigned count, unsigned cell_count, unsigned bit_count, float one)
{
    const unsigned i = blockIdx.x * THREADS + threadIdx.x;
    if (request && i < predecoder::answer_words(bit_count))
        left[i] = predecoder::answer_word(request[i], bit_count, i);
    if (i >= count)
        return;
    const Cell of = cells[i];
    if (of.cell == NO_CELL)
        return;
    float value[4];
    if (request) {
        const auto load = [&](unsigned byte) { return reinterpret_cast<const unsigned char*>(request)[byte]; };
        value[0] = predecoder::bit_of(load, of.bits[0]), value[1] = predecoder::bit_of(load, of.bits[1]);
        const float2 maps = __half22float2(*reinterpret_cast<const __half2*>(&of.maps));
        value[2] = maps.x, value[3] = maps.y;
    } else {
        for (int channel = 0; channel < 4; ++channel)
            value[channel] = __half2float(volume[channel * cell_count + of.cell]);
    }
    __half2* const row = reinterpret_cast<__half2*>(rows + (static_cast<long long>(pad) + i) * 16);
    row[0] = __floats2half2_rn(value[0] * one, value[1] * one);
    row[1] = __floats2half2_rn(value[2] * one, value[3] * one);
}

// 32 channels and 32 positions a block; 64 and 64, for large volumes; the last layer.
__global__ void __launch_bounds__(THREADS) ringcall_layers_narrow(const __grid_constant__ Params p) { layer<2, 4, 8, false>(p); }
__global__ void __launch_bounds__(THREADS) ringcall_layers_wide(const __grid_constant__ Params p) { layer<4, 4, 4, false>(p); }
__global__ void __launch_bounds__(THREADS) ringcall_layers_last(const __grid_constant__ Params p) { layer<1, 4, 8, true>(p); }

} // extern "C"

// The weights as the kernel reads them, from [out][in][3][3][3] integers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cuda_fp16.h>
#include <vector>

namespace predecoder {

inline std::uint32_t pair(int low, int high)
{
    const __half2 h = __halves2half2(__int2half_rn(low), __int2half_rn(high));
    std::uint32_t v;
    static_assert(sizeof(v) == sizeof(h), "two halves");
    __builtin_memcpy(&v, &h, sizeof v);
    return v;
}

// A 16-row fragment of a matrix for mma.m16n8k16: [row blocks][k steps][32 lanes][4 words].
template <class At>
std::vector<std::uint32_t> fragments(int row_blocks, int steps, At at)
{
    std::vector<std::uint32_t> words(static_cast<std::size_t>(row_blocks) * steps * 128);
    for (int m = 0; m < row_blocks; ++m)
        for (int k = 0; k < steps; ++k)
            for (int lane = 0; lane < 32; ++lane)
                for (int r = 0; r < 4; ++r) {
                    const int row = m * 16 + lane / 4 + (r % 2) * 8, col = k * 16 + lane % 4 * 2 + (r / 2) * 8;
                    words[((static_cast<std::size_t>(m) * steps + k) * 32 + lane) * 4 + r] = pair(at(row, col), at(row, col + 1));
                }
    return words;
}

// Where a channel lies in its group of 16: the first eight and the others take turns.
constexpr int in_group(int byte) { return byte / 2 + byte % 2 * 8; }

// First layer, twice its weights: row = channel out, column = line of taps * 16 + tap * 4 + channel in; the fourth tap of a line is
// zero.
inline std::vector<std::uint32_t> pack_first(const int* w)
{
    return fragments(8, 9, [&](int row, int col) {
        const int line = col / 16, dx = col / 4 % 4;
        return dx < 3 ? 2 * w[(row * 4 + col % 4) * 27 + line * 3 + dx] : 0;
    });
}
// Last layer: row = tap * 4 + output channel, column = input channel.
inline std::vector<std::uint32_t> pack_last(const int* w)
{
    return fragments(7, 8, [&](int row, int col) { return row < 108 ? w[(row % 4 * 128 + col) * 27 + row / 4] : 0; });
}
// A middle layer: [64 output channels][dz][32 input channels][dy][dx][16 input channels][row][16].
inline void pack_middle(const int* w, std::vector<std::int8_t>& to)
{
    for (int cb = 0; cb < 2; ++cb)
        for (int dz = 0; dz < 3; ++dz)
            for (int q = 0; q < 4; ++q)
                for (int tap = 0; tap < 9; ++tap)
                    for (int g = 0; g < 2; ++g)
                        for (int r = 0; r < 64; ++r)
                            for (int e = 0; e < 16; ++e)
                                to.push_back(static_cast<std::int8_t>(w[((cb * 64 + r) * 128 + q * 32 + g * 16 + in_group(e)) * 27 + dz * 9 + tap]));
}

} // namespace predecoder

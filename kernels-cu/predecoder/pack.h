// The weights as the kernel reads them, from [out][in][3][3][3] floats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cuda_fp16.h>
#include <vector>

namespace predecoder {

inline std::uint32_t pair(float low, float high)
{
    const __half2 h = __halves2half2(__float2half_rn(low), __float2half_rn(high));
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

// First layer: column = tap * 4 + channel.
inline std::vector<std::uint32_t> pack_first(const float* w)
{
    return fragments(8, 7, [&](int row, int col) { return col < 108 ? w[(row * 4 + col % 4) * 27 + col / 4] : 0.f; });
}
// Last layer: row = tap * 4 + output channel, column = input channel.
inline std::vector<std::uint32_t> pack_last(const float* w)
{
    return fragments(7, 8, [&](int row, int col) { return row < 108 ? w[(row % 4 * 128 + col) * 27 + row / 4] : 0.f; });
}
// A middle layer: [dz][32 input channels][dy][64 output channels][dx][16 input channels][8][row][8].
inline void pack_middle(const float* w, std::vector<__half>& to)
{
    for (int dz = 0; dz < 3; ++dz)
        for (int q = 0; q < 4; ++q)
            for (int dy = 0; dy < 3; ++dy)
                for (int cb = 0; cb < 2; ++cb)
                    for (int dx = 0; dx < 3; ++dx)
                        for (int k = 0; k < 2; ++k)
                            for (int g = 0; g < 2; ++g)
                                for (int r = 0; r < 64; ++r)
                                    for (int e = 0; e < 8; ++e)
                                        to.push_back(__float2half_rn(w[((cb * 64 + r) * 128 + q * 32 + k * 16 + g * 8 + e) * 27 + dz * 9 + dy * 3 + dx]));
}

} // namespace predecoder

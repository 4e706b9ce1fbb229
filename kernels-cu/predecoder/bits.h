// The bits around the network: which of a request's bits a position sees, and what a decision flips. The same functions on
// the device and, for tests, on a host.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define PREDECODER_BOTH __host__ __device__ __forceinline__
// What a caller passes in is of the caller's side.
#define PREDECODER_CALLS _Pragma("nv_exec_check_disable")
#else
#define PREDECODER_BOTH inline
#define PREDECODER_CALLS
#endif

namespace predecoder {

// Bit `i` of a string is bit `i % 8` of its byte `i / 8`.
constexpr std::uint32_t NO_BIT = ~0u;

// What a decision flips: two bits, or NONE; with FRAME in the first, the frame too.
struct alignas(8) Flips {
    std::uint32_t first, second;
};
constexpr std::uint32_t FRAME = 1u << 31, NONE = FRAME - 1;

// Whether bit `i` of a string is set, whose bytes `load` gets; not for NO_BIT, for which the first byte is read.
PREDECODER_CALLS template <class Load>
PREDECODER_BOTH bool bit_of(const Load& load, std::uint32_t i)
{
    const std::uint32_t at = i == NO_BIT ? 0 : i;
    return (static_cast<std::uint32_t>(load(at / 8)) >> at % 8 & 1) != 0 && i != NO_BIT;
}

// An answer: the request's bits, flipped, in whole bytes; then the frame in a byte of its own. Its other bits are zero,
// unless a block gave up: then the answer is worth nothing.
constexpr std::uint32_t GAVE_UP = 0x80;

PREDECODER_BOTH std::uint32_t answer_bytes(std::uint32_t bits) { return (bits + 7) / 8 + 1; }
// The frame is that bit of it.
PREDECODER_BOTH std::uint32_t frame_bit(std::uint32_t bits) { return (answer_bytes(bits) - 1) * 8; }
// It is written in whole words of 4 bytes, on a little-endian machine; what follows it is zero.
PREDECODER_BOTH std::uint32_t answer_words(std::uint32_t bits) { return (answer_bytes(bits) + 3) / 4; }

// Word `i` of it before anything is flipped, of that word of the request, whatever lies past its end.
PREDECODER_BOTH std::uint32_t answer_word(std::uint32_t request, std::uint32_t bits, std::uint32_t i)
{
    const std::uint32_t left = answer_bytes(bits) - 1 - i * 4;
    return left >= 4 ? request : request & ((1u << 8 * left) - 1);
}

// The flips of one decision; `flip` gets the index of each in the answer.
PREDECODER_CALLS template <class Flip>
PREDECODER_BOTH void flip_all(const Flips& of, std::uint32_t bits, const Flip& flip)
{
    if ((of.first & NONE) != NONE)
        flip(of.first & NONE);
    if (of.second != NONE)
        flip(of.second);
    if (of.first & FRAME)
        flip(frame_bit(bits));
}

} // namespace predecoder

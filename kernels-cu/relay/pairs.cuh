// Integers in pairs of halves: the arithmetic of record 0024 for two columns, or two messages, an instruction.
//
// A half holds integers up to 2,048 exactly. The low mantissa bit of an integer below 1,024 is free: a message carries its
// column's decision there. A program for a CPU, which checks the kernel's logic without a GPU, computes the same in single precision.
#pragma once
#include <cstdint>
#ifdef __CUDACC__
#include <cuda_fp16.h>
#define RELAY_FN __device__ __forceinline__
#else
#include <algorithm>
#include <cmath>
#include <cstring>
#define RELAY_FN inline
#endif

namespace relay {

using pair_t = uint32_t;

constexpr pair_t SIGNS = 0x80008000u, LOWEST = 0x00010001u;
// 127, 511 and 1,536 in both halves.
constexpr pair_t MESSAGE_CAP = 0x57f057f0u, MARGINAL_CAP = 0x5ffc5ffcu, ROUNDING = 0x66006600u;

#ifdef __CUDACC__
RELAY_FN __half2 as_half2(pair_t x) { return *reinterpret_cast<__half2 *>(&x); }
RELAY_FN pair_t as_pair(__half2 x) { return *reinterpret_cast<pair_t *>(&x); }
RELAY_FN pair_t add(pair_t a, pair_t b) { return as_pair(__hadd2_rn(as_half2(a), as_half2(b))); }
RELAY_FN pair_t subtract(pair_t a, pair_t b) { return as_pair(__hsub2_rn(as_half2(a), as_half2(b))); }
RELAY_FN pair_t multiply_add(pair_t a, pair_t b, pair_t c) { return as_pair(__hfma2(as_half2(a), as_half2(b), as_half2(c))); }
RELAY_FN pair_t least(pair_t a, pair_t b) { return as_pair(__hmin2(as_half2(a), as_half2(b))); }
RELAY_FN pair_t greatest(pair_t a, pair_t b) { return as_pair(__hmax2(as_half2(a), as_half2(b))); }
// All ones in each half whose magnitudes are equal.
RELAY_FN uint32_t same_magnitude(pair_t a, pair_t b) { return __heq2_mask(__habs2(as_half2(a)), __habs2(as_half2(b))); }
RELAY_FN pair_t low_halves(pair_t a, pair_t b) { return __byte_perm(a, b, 0x5410); }
RELAY_FN pair_t high_halves(pair_t a, pair_t b) { return __byte_perm(a, b, 0x7632); }
#else
inline float to_float(uint16_t h) {
  const int e = h >> 10 & 31, m = h & 1023;
  const float f = e ? std::ldexp(float(m + 1024), e - 25) : std::ldexp(float(m), -24);
  return h & 0x8000 ? -f : f;
}
inline uint16_t to_half(float f) {
  const uint16_t sign = std::signbit(f) ? 0x8000 : 0;
  const float x = std::fabs(f);
  if (x == 0) return sign;
  int e = std::max(std::ilogb(x), -14);
  long m = std::lrint(std::ldexp(x, 10 - e));  // 1,024 to 2,048, or a denormal's
  if (m == 2048) { m = 1024; ++e; }
  return sign | (m < 1024 ? m : ((e + 15) << 10 | (m - 1024)));
}
template <class F> pair_t each(pair_t a, pair_t b, F f) {
  return pair_t(to_half(f(to_float(a), to_float(b)))) | pair_t(to_half(f(to_float(a >> 16), to_float(b >> 16)))) << 16;
}
inline pair_t add(pair_t a, pair_t b) { return each(a, b, [](float x, float y) { return x + y; }); }
inline pair_t subtract(pair_t a, pair_t b) { return each(a, b, [](float x, float y) { return x - y; }); }
inline pair_t multiply_add(pair_t a, pair_t b, pair_t c) {
  auto one = [](uint16_t x, uint16_t y, uint16_t z) { return to_half(to_float(x) * to_float(y) + to_float(z)); };
  return pair_t(one(a, b, c)) | pair_t(one(a >> 16, b >> 16, c >> 16)) << 16;
}
inline pair_t least(pair_t a, pair_t b) { return each(a, b, [](float x, float y) { return std::min(x, y); }); }
inline pair_t greatest(pair_t a, pair_t b) { return each(a, b, [](float x, float y) { return std::max(x, y); }); }
inline uint32_t same_magnitude(pair_t a, pair_t b) {
  const pair_t x = (a ^ b) & ~SIGNS;
  return (x & 0xffff ? 0 : 0xffffu) | (x >> 16 ? 0 : 0xffff0000u);
}
inline pair_t low_halves(pair_t a, pair_t b) { return (a & 0xffff) | b << 16; }
inline pair_t high_halves(pair_t a, pair_t b) { return a >> 16 | (b & 0xffff0000u); }
#endif

RELAY_FN pair_t clamp(pair_t x, pair_t cap) { return greatest(least(x, cap), cap | SIGNS); }

// MurmurHash3's finaliser.
RELAY_FN uint32_t mix(uint32_t x) {
  x ^= x >> 16;
  x *= 0x85EBCA6Bu;
  x ^= x >> 13;
  x *= 0xC2B2AE35u;
  return x ^ (x >> 16);
}
RELAY_FN uint32_t leg_key(uint32_t seed, uint32_t leg) { return mix(seed + leg * 0x85EBCA77u); }

}  // namespace relay

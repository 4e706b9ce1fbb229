#!/usr/bin/env python3
"""Writes wgmma_shapes.cuh: one specialisation of `Wgmma` for each width that the kernels use."""

WIDTHS = [16, 32, 48, 80, 88, 96, 128, 136, 168, 176, 184, 256]

HEAD = """// Written by wgmma_shapes.py: D[64 x N] += A[64 x 16] B[16 x N], fp16 in, fp32 out, both operands K-major in shared memory.
#pragma once

#include <cstdint>

template <int N>
struct Wgmma;
"""

BODY = """
template <>
struct Wgmma<{n}> {{
    static __device__ __forceinline__ void mma(float (&d)[{r}], std::uint64_t a, std::uint64_t b)
    {{
        asm volatile(
            "wgmma.mma_async.sync.aligned.m64n{n}k16.f32.f16.f16 {{"
{regs}
            "}}, %{r}, %{r1}, 1, 1, 1, 0, 0;"
            : {outs}
            : "l"(a), "l"(b));
    }}
}};
"""


def specialisation(n):
    r = n // 2
    rows = [range(i, min(i + 16, r)) for i in range(0, r, 16)]
    regs = "\n".join(
        '            "' + ", ".join(f"%{i}" for i in row) + (", " if row[-1] != r - 1 else "") + '"' for row in rows
    )
    outs = ",\n              ".join(", ".join(f'"+f"(d[{i}])' for i in row) for row in rows)
    return BODY.format(n=n, r=r, r1=r + 1, regs=regs, outs=outs)


if __name__ == "__main__":
    with open("wgmma_shapes.cuh", "w") as file:
        file.write(HEAD + "".join(map(specialisation, WIDTHS)))

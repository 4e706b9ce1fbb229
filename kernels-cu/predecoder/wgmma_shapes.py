#!/usr/bin/env python3
"""Writes wgmma_shapes.cuh: the matrix instruction in each kind and width that the kernels use."""

# Instruction, type of a sum in CUDA C++, constraint of its registers, whether the left matrix is in registers, scales and
# layouts after the operands, whether a sum begins with one, widths.
KINDS = {
    "HalvesProduct": ("k16.f32.f16.f16", "float", "f", True, "{d}, 1, 1, 0", True, [24, 40, 48, 64, 72, 88, 128]),
    "BytesProduct": ("k32.s32.s8.u8", "int", "r", False, "{d}", False, [24, 48, 64, 96, 144, 176, 256]),
}

HEAD = """// Written by wgmma_shapes.py: D[64 x N] = A[64 x K] B[K x N], or += that; B is K-major in shared memory.
#pragma once

#include <cstdint>
"""

KIND = """
// {instruction}, A {where}.
template <int N>
struct {name};
"""

BODY = """
template <>
struct {name}<{n}> {{{functions}
}};
"""

FUNCTION = """
    static __device__ __forceinline__ void {function}({type} (&d)[{r}], {a}, std::uint64_t b)
    {{
        asm volatile(
            "wgmma.mma_async.sync.aligned.m64n{n}{instruction} {{"
{regs}
            "}}, {operands}, {trailing};"
            : {outs}
            : {ins});
    }}"""


def specialisation(name, instruction, type, constraint, registers, trailing, begins, n):
    r = n // 2
    rows = [range(i, min(i + 16, r)) for i in range(0, r, 16)]
    regs = "\n".join(
        '            "' + ", ".join(f"%{i}" for i in row) + (", " if row[-1] != r - 1 else "") + '"' for row in rows
    )
    if registers:
        a, ins = "const uint4& a", '"r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b)'
        operands = f"{{{{%{r}, %{r + 1}, %{r + 2}, %{r + 3}}}}}, %{r + 4}".replace("{{", "{").replace("}}", "}")
    else:
        a, ins, operands = "std::uint64_t a", '"l"(a), "l"(b)', f"%{r}, %{r + 1}"
    functions = ""
    # The first of a sum, and those that add to it.
    for function, write, d in [("begin", "=", 0), ("add", "+", 1)]:
        if function == "begin" and not begins:
            continue
        outs = ",\n              ".join(", ".join(f'"{write}{constraint}"(d[{i}])' for i in row) for row in rows)
        functions += FUNCTION.format(
            function=function, type=type, r=r, a=a, n=n, instruction=instruction, regs=regs, operands=operands,
            trailing=trailing.format(d=d), outs=outs, ins=ins,
        )
    return BODY.format(name=name, n=n, functions=functions)


if __name__ == "__main__":
    with open("wgmma_shapes.cuh", "w") as file:
        file.write(HEAD)
        for name, (instruction, type, constraint, registers, trailing, begins, widths) in KINDS.items():
            where = "in registers" if registers else "K-major in shared memory"
            file.write(KIND.format(name=name, instruction=instruction, where=where))
            for n in widths:
                file.write(specialisation(name, instruction, type, constraint, registers, trailing, begins, n))

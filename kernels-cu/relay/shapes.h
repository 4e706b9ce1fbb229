// Shapes of the kernel: blocks of a cluster, threads, threads a check, positions of states, degrees of the passes.
#pragma once
// clang-format off
#define RELAY_SHAPES(X) \
  X(bb72_1,    1, 576, 2, 256, 6, 3) \
  X(bb72_1s,   1, 256, 1, 256, 6, 4, 3, 3, 3) \
  X(bb72_8,    8, 352, 4, 256, 6) \
  X(bb72_8n,   8, 192, 4, 256, 6, 3) \
  X(bb72_4,    4, 352, 4, 256, 6, 3) \
  X(bb144_1,   1, 1024, 1, 1024, 6, 4, 3, 3, 3) \
  X(bb144_4,   4, 512, 1, 512, 6, 3, 3) \
  X(bb144_8,   8, 480, 2, 512, 6, 3) \
  X(bb144_8w,  8, 928, 4, 512, 6) \
  X(bb144_16,  16, 608, 4, 512, 6) \
  X(bb144_16n, 16, 320, 2, 512, 6, 3) \
  X(wide_16,   16, 512, 2, 1024, 6, 6, 3, 3) \
  X(deep_16,   16, 512, 2, 256, 8, 8, 4, 4, 4, 4)

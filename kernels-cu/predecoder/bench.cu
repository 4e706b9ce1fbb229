// Checks and times shapes of the predecoder network's kernel. `bench [d ...]`; needs a GPU of architecture sm_90a.
#define PREDECODER_STAMPS 2
#include "net.cuh"
#include "pack.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

using namespace predecoder;
using Clock = std::chrono::steady_clock;

#define CHECK(x)                                                                                     \
    do {                                                                                             \
        const cudaError_t e_ = (x);                                                                  \
        if (e_ != cudaSuccess) {                                                                     \
            std::printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #x, cudaGetErrorString(e_));          \
            std::exit(1);                                                                            \
        }                                                                                            \
    } while (0)

static double g_budget_s = 100;
static const auto g_start = Clock::now();
static double elapsed() { return std::chrono::duration<double>(Clock::now() - g_start).count(); }

// ---- the reference: one thread an output, integers until the sum is complete ----
__global__ void reference(const int* in, const int* w, const float* scales, int* bytes, float* logits, int ci, int co, int layers, int d)
{
    const int cells = layers * d * d, i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= cells * co)
        return;
    const int c = i / cells, p = i % cells, t = p / (d * d), y = p / d % d, x = p % d;
    long long sum = 0;
    for (int k = 0; k < ci; ++k)
        for (int dz = 0; dz < 3; ++dz)
            for (int dy = 0; dy < 3; ++dy)
                for (int dx = 0; dx < 3; ++dx) {
                    const int tt = t + dz - 1, yy = y + dy - 1, xx = x + dx - 1;
                    if (tt >= 0 && tt < layers && yy >= 0 && yy < d && xx >= 0 && xx < d)
                        sum += w[(c * ci + k) * 27 + dz * 9 + dy * 3 + dx] * in[(k * layers + tt) * d * d + yy * d + xx];
                }
    const float v = __fadd_rn(__fmul_rn(static_cast<float>(sum), scales[c]), scales[co + c]);
    if (logits)
        logits[i] = v;
    else
        bytes[i] = static_cast<int>(fminf(fmaxf(rintf(v), 0), 255));
}

__device__ __forceinline__ void store_release(u32* p, u32 v)
{
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
__device__ __forceinline__ u32 add_acq_rel(u32* p, u32 v)
{
    u32 old;
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v) : "memory");
    return old;
}

// The network as a kernel that stays: requests arrive in host memory, answers leave to host memory.
struct Stay {
    const volatile u32* host_go;
    volatile u32* host_done;
    const uint4* host_bits;
    uint4* device_bits;
    u32 bits_words;   // of 16 bytes
    u32* host_answer; // what the network leaves at `Params::io`
};

template <class S>
__global__ void __launch_bounds__(S::BLOCK, 1) graph_kernel(const __grid_constant__ Params p)
{
    once<S>(p);
}

// What a launch takes by itself.
template <class S>
__global__ void __launch_bounds__(S::BLOCK, 1) nothing_kernel(const __grid_constant__ Params)
{
}

template <class S>
__global__ void __launch_bounds__(S::BLOCK, 1) stay_kernel(const __grid_constant__ Params p, const __grid_constant__ Stay h)
{
    extern __shared__ __align__(1024) u8 smem[];
    const Head& head = *reinterpret_cast<Head*>(smem);
    const int tid = threadIdx.x;
    open<S>(p, smem);
    for (u32 request = 0;; ++request) {
        bool go = false;
        if (blockIdx.x == 0) {
            if (tid == 0) {
                const long long start = clock64();
                u32 v;
                while ((v = *h.host_go) != request + 1 && v != ~0u && clock64() - start < p.limit) {
                }
                __threadfence_system();
                go = v == request + 1 && !*(const volatile u32*)&head.dead;
            }
            go = __syncthreads_or(go);
            STAMP(0);
            if (go)
                for (u32 i = tid; i < h.bits_words; i += S::BLOCK) {
                    uint4 v;
                    asm volatile("ld.relaxed.sys.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                                 : "l"(h.host_bits + i)
                                 : "memory");
                    __stcg(h.device_bits + i, v);
                }
            __syncthreads();
            if (tid == 0)
                store_release(p.sync + GO, go ? request + 1 : ~0u);
            if (!go)
                break;
        } else {
            if (tid == 0) {
                u32 v;
                const long long start = clock64();
                while ((v = load_acquire(p.sync + GO)) != request + 1 && v != ~0u && clock64() - start < 2 * p.limit) {
                }
                go = v == request + 1 && !*(const volatile u32*)&head.dead;
            }
            go = __syncthreads_or(go);
            STAMP(0);
            if (!go)
                break;
        }
        forward<S>(p, p.io, smem, request, true);
        __syncthreads();
        bool last = false;
        if (tid == 0) {
            last = add_acq_rel(p.sync + OVER, 1) == (request + 1) * gridDim.x - 1;
            // Now it is known that the answer is there.
            STAMP(14);
            if (last)
                p.stamps[MAX_TILES * STAMPS] = blockIdx.x;
        }
        last = __syncthreads_or(last);
        if (last) {
            for (u32 i = tid; i < answer_words(p.bit_count); i += S::BLOCK)
                h.host_answer[i] = __ldcg(p.io.left + i);
            __syncthreads();
            if (tid == 0) {
                __threadfence_system();
                *h.host_done = request + 1;
            }
        }
    }
}

// Runs in pairs, of which a block begins the second while others are in the first; in turns a block is held up in the first. `wrong`:
// of both requests how many words were not those that are wanted.
template <class S>
__global__ void __launch_bounds__(S::BLOCK, 1)
    overlap_kernel(const __grid_constant__ Params p, const __grid_constant__ Io first, const __grid_constant__ Io second, const u32* wanted, u32 pairs, u32* wrong)
{
    extern __shared__ __align__(1024) u8 smem[];
    const u32 words = answer_words(p.bit_count);
    open<S>(p, smem);
    for (u32 pair = 0; pair < pairs; ++pair) {
        forward<S>(p, first, smem, 2 * pair, true);
        __syncthreads();
        forward<S>(p, second, smem, 2 * pair + 1, true);
        __syncthreads();
        if (threadIdx.x == 0) {
            add_acq_rel(p.sync + OVER, 1);
            const long long start = clock64();
            while (load_acquire(p.sync + OVER) < (pair + 1) * gridDim.x && clock64() - start < p.limit) {
            }
        }
        if (threadIdx.x == 0 && load_acquire(p.sync + OVER) < (pair + 1) * gridDim.x)
            atomicAdd(wrong, 1u); // the others do not end
        __syncthreads();
        // Nobody writes answers of the next pair before this block has begun them.
        if (blockIdx.x == 0) {
            for (u32 i = threadIdx.x; i < 2 * words; i += S::BLOCK)
                if (__ldcg((i < words ? first : second).left + i % words) != wanted[i])
                    atomicAdd(wrong + i / words, 1u);
            __syncthreads();
        }
    }
}

// One such pair. Waits may run out.
template <class S>
__global__ void __launch_bounds__(S::BLOCK, 1) pair_kernel(const __grid_constant__ Params p, const __grid_constant__ Io first, const __grid_constant__ Io second)
{
    extern __shared__ __align__(1024) u8 smem[];
    open<S>(p, smem);
    forward<S>(p, first, smem, 0, true);
    __syncthreads();
    forward<S>(p, second, smem, 1, false);
    close<S>(smem);
}

template <class T>
T* device(const std::vector<T>& v)
{
    T* p;
    CHECK(cudaMalloc(&p, std::max<size_t>(v.size() * sizeof(T), 16)));
    CHECK(cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
    return p;
}

struct Net {
    int* w[4];
    float* scales[4];
    uint32_t *w1, *w4;
    int8_t* wmid;
};

static Net make_net()
{
    std::mt19937 rng(7);
    const int ci[4] = {4, 128, 128, 128}, co[4] = {128, 128, 128, 4}, most[4] = {511, 127, 127, 511};
    // So that hidden layers use the whole of their bytes, and some of what comes out is above zero.
    const float factor[4] = {.035f, 6e-4f, 6e-4f, 1e-5f};
    Net net;
    std::vector<int8_t> mid;
    for (int l = 0; l < 4; ++l) {
        std::normal_distribution<float> normal(0, most[l] / 3.f);
        std::uniform_real_distribution<float> around(.7f, 1.3f);
        std::vector<int> w(co[l] * ci[l] * 27);
        std::vector<float> scales(2 * co[l]);
        for (auto& v : w)
            v = std::clamp(static_cast<int>(std::lround(normal(rng))), -most[l], most[l]);
        for (int c = 0; c < co[l]; ++c)
            scales[c] = factor[l] * around(rng), scales[co[l] + c] = (l == 3 ? 1.f : 20.f) * around(rng);
        net.w[l] = device(w);
        net.scales[l] = device(scales);
        if (l == 0)
            net.w1 = device(pack_first(w.data()));
        if (l == 1 || l == 2)
            pack_middle(w.data(), mid);
        if (l == 3)
            net.w4 = device(pack_last(w.data()));
    }
    net.wmid = device(mid);
    return net;
}

static double quantile(std::vector<double> v, double q)
{
    if (v.empty())
        return NAN;
    std::sort(v.begin(), v.end());
    return v[std::min(v.size() - 1, static_cast<size_t>(q * v.size()))];
}

struct Problem {
    int d, layers;
    std::vector<float> logits;        // of the reference
    float threshold;                  // about as many decisions above it as a circuit of p = 0.006 has, 2%
    __half* in;
    uint4* cells;
    Flips* flips;
    std::vector<Flips> host_flips;
    u8* bits;
    std::vector<u8> host_bits; // in whole 16 bytes
    u32 bit_count;
};

static Problem make_problem(const Net& net, int d, int layers)
{
    Problem pr{d, layers};
    const int sq = d * d, cells = layers * sq;
    std::mt19937 rng(100 * d + layers);
    // Bit `i` is element `i` of the first two channels.
    pr.bit_count = 2 * cells;
    pr.host_bits.resize((2 * cells + 127) / 128 * 16, 0);
    for (int i = 0; i < 2 * cells; ++i)
        pr.host_bits[i / 8] |= (rng() % 100 < 9) << i % 8;
    const auto bit = [&](int i) { return pr.host_bits[i / 8] >> i % 8 & 1; };
    std::vector<float> in(4 * cells);
    std::vector<__half> half(4 * cells), maps(2 * sq);
    for (int m = 0; m < 2; ++m)
        for (int s = 0; s < sq; ++s) {
            const int y = s / d, x = s % d;
            maps[m * sq + s] = __float2half_rn((x + y) % 2 == m ? ((x == 0 || y == 0) ? 0.5f : 1.f) : 0.f);
        }
    for (int i = 0; i < 4 * cells; ++i) {
        in[i] = i < 2 * cells ? bit(i) : __half2float(maps[(i / cells - 2) * sq + i % sq]);
        half[i] = __float2half_rn(in[i]);
    }
    pr.in = device(half);
    const int width = d + 1, plane = width * width, pad = plane + width + 1;
    std::vector<uint4> table(layers * plane + 4 * pad, make_uint4(~0u, 0, NO_BIT, NO_BIT));
    for (int t = 0; t < layers; ++t)
        for (int s = 0; s < sq; ++s) {
            unsigned short low, high;
            std::memcpy(&low, &maps[s], 2), std::memcpy(&high, &maps[sq + s], 2);
            table[2 * pad + t * plane + s / d * width + s % d] = make_uint4(t * sq + s, low | (unsigned)high << 16, t * sq + s, cells + t * sq + s);
        }
    pr.cells = device(table);
    pr.bits = device(pr.host_bits);
    // Errors flip their cell's bit and the one before, flips their own; of the first row, the frame too.
    for (u32 i = 0; i < 4u * cells; ++i) {
        const u32 cell = i / 4, own = i % 2 * cells + cell, before = cell % sq == 0 ? NONE : own - 1;
        pr.host_flips.push_back({own | (cell % sq < (u32)d ? FRAME : 0), i % 4 < 2 ? before : NONE});
    }
    pr.flips = device(pr.host_flips);
    std::vector<int> doubled(4 * cells);
    for (int i = 0; i < 4 * cells; ++i)
        doubled[i] = static_cast<int>(2 * in[i]);
    int *a = device(doubled), *x, *y;
    float* out;
    CHECK(cudaMalloc(&x, sizeof(int) * 128 * cells));
    CHECK(cudaMalloc(&y, sizeof(int) * 128 * cells));
    CHECK(cudaMalloc(&out, sizeof(float) * 4 * cells));
    const auto run = [&](int l, const int* from, int* to) {
        const int ci = l == 0 ? 4 : 128, co = l == 3 ? 4 : 128;
        reference<<<(cells * co + 255) / 256, 256>>>(from, net.w[l], net.scales[l], to, l == 3 ? out : nullptr, ci, co, layers, d);
        CHECK(cudaGetLastError());
    };
    run(0, a, x), run(1, x, y), run(2, y, x), run(3, x, nullptr);
    pr.logits.resize(4 * cells);
    CHECK(cudaMemcpy(pr.logits.data(), out, sizeof(float) * 4 * cells, cudaMemcpyDeviceToHost));
    cudaFree(a), cudaFree(x), cudaFree(y), cudaFree(out);
    pr.threshold = quantile(std::vector<double>(pr.logits.begin(), pr.logits.end()), .98);
    return pr;
}

struct Buffers {
    u8 *act1, *act2;
    float4* sums;
    float* out;
    u32 *sync, *left, *wrong;
    long long* stamps;
    u8* staged;
    u8* mapped; // go at 0, done at 128, bits at 4096, logits at 1 MB
    size_t rows = 0;
};
static Buffers g_buffers;
constexpr size_t MAPPED = 4 << 20, LOGITS_AT = 1 << 20;

// As the kernels leave them; `last`: the staying one's last block.
struct Stamps {
    long long of[MAX_TILES][STAMPS], last;

    void fetch() { CHECK(cudaMemcpy(this, g_buffers.stamps, sizeof *this, cudaMemcpyDeviceToHost)); }
    // Time from stamp `from` to stamp `to`, us, in block 0 or in the block that was last through.
    double us(bool of_last, int from, int to) const
    {
        const long long* const block = of[of_last ? last : 0];
        return (block[to] - block[from]) / 1980.0;
    }
};

static void make_buffers()
{
    auto& b = g_buffers;
    b.rows = 40000;
    CHECK(cudaMalloc(&b.act1, b.rows * 128));
    CHECK(cudaMalloc(&b.act2, b.rows * 128));
    CHECK(cudaMalloc(&b.sums, 2 * b.rows * 27 * 16));
    CHECK(cudaMalloc(&b.out, 4 * 33000 * sizeof(float)));
    CHECK(cudaMalloc(&b.sync, SYNC_WORDS * 4));
    CHECK(cudaMalloc(&b.stamps, sizeof(Stamps)));
    CHECK(cudaMemset(b.stamps, 0xff, sizeof(Stamps)));
    CHECK(cudaMalloc(&b.wrong, 8));
    CHECK(cudaMalloc(&b.staged, 1 << 20));
    CHECK(cudaMalloc(&b.left, 1 << 20));
    CHECK(cudaHostAlloc(&b.mapped, MAPPED, cudaHostAllocMapped));
}

// How many logits differ, in any bit.
static int differ(const float* out, const Problem& pr)
{
    int n = 0;
    for (size_t i = 0; i < pr.logits.size(); ++i)
        n += std::memcmp(out + i, &pr.logits[i], sizeof(float)) != 0;
    return n;
}

// Whether an answer says that it is worth nothing.
static bool is_marked(const std::vector<u8>& left, u32 bit_count)
{
    return (left[frame_bit(bit_count) / 8] & GAVE_UP) != 0;
}

// Where a block is held up: see HOLD_UP. At two of these points blocks receive a partner's sums.
struct Hold {
    Held at;
    bool receives;
    const char* where;
};
constexpr Hold HOLDS[] = {{HELD_FETCH, false, "before what others wrote is fetched"},
                          {HELD_SEND, false, "before the first exchange"},
                          {HELD_READ, true, "in the first exchange"},
                          {HELD_SEND_LAST, false, "before the second exchange"},
                          {HELD_READ_LAST, true, "in the second exchange"},
                          {HELD_SUMS, false, "before sums are read"}};

static bool g_bad = false; // anything was not as it has to be
static int g_sms = 132;
static size_t g_smem = 232448;

template <class S>
bool run(const Net& net, const Problem& pr)
{
    Params p{};
    p.d = pr.d, p.layers = pr.layers, p.width = pr.d + 1, p.plane = p.width * p.width, p.count = pr.layers * p.plane;
    p.pad = p.plane + p.width + 1;
    p.tiles = (p.count + S::N - 1) / S::N;
    p.rows = (p.pad + p.tiles * S::N + p.pad + 16 + 7) / 8 * 8;
    const int blocks = p.tiles * S::C;
    if (blocks > g_sms)
        return false;
    if ((size_t)p.rows > g_buffers.rows) {
        std::printf("too many rows\n");
        return false;
    }
    const auto round = [](u32 v) { return (v + 127) / 128 * 128; };
    p.slab_rows = S::N + 2 * p.width + 2;
    const u32 outs = S::FUSED ? S::N + 2 * p.pad : S::N, firsts = outs + 2 * p.pad + 1;
    const u32 input = firsts * 16 + (firsts + 15) / 16 * 16 + answer_bytes(pr.bit_count) - 1, last = S::WGM * 64 * S::PFP * 2;
    p.group_rows = S::FUSED ? outs : p.slab_rows;
    p.slab_bytes = S::FUSED ? p.plane * 16 : round(2 * QW * p.slab_rows * 16);
    p.slabs = S::FUSED || pr.d > 25 ? 3 : 4;
    p.off_slabs = round(VALID_AT + S::N);
    if (S::FUSED) {
        p.off_input = round(p.off_slabs + 2 * QW * p.group_rows * 16);
        p.off_received = round(p.off_input + std::max(input, last));
    } else {
        p.off_input = p.off_slabs;
        p.off_received = round(p.off_slabs + std::max({p.slabs * p.slab_bytes, input, last}));
    }
    p.off_ring = round(p.off_received + S::RECEIVED);
    if (p.off_ring + 2 * S::STAGE > g_smem)
        return false;
    p.stages = std::min<int>(MAX_STAGES, (g_smem - p.off_ring) / S::STAGE);
    p.smem = p.off_ring + p.stages * S::STAGE;
    p.io.in = pr.in, p.cells = pr.cells, p.io.out = g_buffers.out;
    p.w1 = reinterpret_cast<uint4*>(net.w1), p.w4 = reinterpret_cast<uint4*>(net.w4);
    p.wmid = reinterpret_cast<u8*>(net.wmid);
    p.scales1 = net.scales[0], p.scales2 = net.scales[1], p.scales3 = net.scales[2], p.scales4 = net.scales[3];
    p.act1 = g_buffers.act1, p.act2 = g_buffers.act2, p.sums = g_buffers.sums, p.sync = g_buffers.sync, p.failed = g_buffers.sync + FAILED, p.stamps = g_buffers.stamps;
    p.limit = 1000000000ll;
    p.threshold = pr.threshold, p.flips = pr.flips, p.bit_count = pr.bit_count;
    CHECK(cudaMemset(p.act1, 0, (size_t)p.rows * 128));
    CHECK(cudaMemset(p.act2, 0, (size_t)p.rows * 128));
    const auto reset = [&] {
        CHECK(cudaMemset(p.sums, 0xff, (size_t)S::CS * p.rows * 27 * 16));
        CHECK(cudaMemset(p.sync, 0, SYNC_WORDS * 4));
        CHECK(cudaDeviceSynchronize());
    };
    reset();

    auto* const kernel = graph_kernel<S>;
    auto* const stays = stay_kernel<S>;
    auto* const nothing = nothing_kernel<S>;
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, p.smem));
    CHECK(cudaFuncSetAttribute(nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, p.smem));
    CHECK(cudaFuncSetAttribute(stays, cudaFuncAttributeMaxDynamicSharedMemorySize, p.smem));
    cudaLaunchConfig_t config{};
    cudaLaunchAttribute attribute[2];
    attribute[0].id = cudaLaunchAttributeClusterDimension;
    attribute[0].val.clusterDim.x = S::C, attribute[0].val.clusterDim.y = 1, attribute[0].val.clusterDim.z = 1;
    attribute[1].id = cudaLaunchAttributeCooperative;
    attribute[1].val.cooperative = 1;
    config.gridDim = blocks, config.blockDim = S::BLOCK, config.dynamicSmemBytes = p.smem;
    config.attrs = attribute, config.numAttrs = 1;
    int clusters = 0;
    CHECK(cudaOccupancyMaxActiveClusters(&clusters, kernel, &config));
    char name[96];
    std::snprintf(name, sizeof name, "%2d/%-2d cs%d ks%d n%-3d %3d", pr.d, pr.layers, S::CS, S::KS, S::N, blocks);
    if (clusters < p.tiles) {
        std::printf("%s | %d clusters wanted, %d fit\n", name, p.tiles, clusters);
        return false;
    }
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    config.stream = stream;
    const auto launch = [&] { CHECK(cudaLaunchKernelEx(&config, kernel, p)); };

    // Correctness, over poisoned output.
    std::vector<float> out(pr.logits.size());
    const auto check = [&] {
        CHECK(cudaMemsetAsync(p.io.out, 0xff, out.size() * 4, stream));
        launch();
        CHECK(cudaMemcpyAsync(out.data(), p.io.out, out.size() * 4, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        u32 failed;
        CHECK(cudaMemcpy(&failed, p.sync + FAILED, 4, cudaMemcpyDeviceToHost));
        if (failed)
            std::printf("%s | a wait ran out: %u\n", name, failed);
        return failed ? -1 : differ(out.data(), pr);
    };
    const int wrong = check();
    if (wrong != 0) {
        g_bad = true;
        std::printf("%s | WRONG: %d of %zu logits\n", name, wrong, out.size());
        for (int i = 0, n = 0; i < (int)out.size() && n < 12; ++i)
            if (out[i] != pr.logits[i])
                std::printf("  %d: %g for %g\n", i, out[i], pr.logits[i]), ++n;
        CHECK(cudaStreamDestroy(stream));
        return true;
    }
    p.io.bits = pr.bits;
    bool repeats = true;
    for (int i = 0; i < 10; ++i)
        repeats = repeats && check() == 0;
    const size_t cells = pr.logits.size() / 4;
    std::vector<u8> expected(answer_words(pr.bit_count) * 4, 0);
    std::memcpy(expected.data(), pr.host_bits.data(), answer_bytes(pr.bit_count) - 1);
    for (size_t i = 0; i < pr.logits.size(); ++i)
        if (out[i] > pr.threshold)
            flip_all(pr.host_flips[i % cells * 4 + i / cells], pr.bit_count, [&](u32 at) { expected[at / 8] ^= 1u << at % 8; });

    cudaEvent_t e0, e1;
    CHECK(cudaEventCreate(&e0));
    CHECK(cudaEventCreate(&e1));
    std::printf("%s st%-2d sl%d | %s", name, p.stages, p.slabs, repeats ? "exact" : "VARIES!");
    std::string detail;
    char line[320];
    // From here on as it is used: bits in, what is left of them out.
    p.io.out = nullptr, p.io.left = g_buffers.left;
    {
        // Waits that run out, anywhere, are told, and the answer is marked; with counters and sums anew it runs again.
        const long long limit = p.limit;
        for (p.limit = 0; p.limit < 30000; p.limit += 500) {
            reset();
            CHECK(cudaMemset(p.io.left, 0, expected.size()));
            launch();
            CHECK(cudaStreamSynchronize(stream));
            u32 failed;
            CHECK(cudaMemcpy(&failed, p.sync + FAILED, 4, cudaMemcpyDeviceToHost));
            std::vector<u8> left(expected.size());
            CHECK(cudaMemcpy(left.data(), p.io.left, left.size(), cudaMemcpyDeviceToHost));
            // Where the very last wait ran out, that of weights which nobody needs, the answer is right.
            const bool marked = is_marked(left, p.bit_count), right = left == expected;
            if (((failed != 0) != marked && failed != 8) || (!marked && !right)) {
                std::printf("\n[wait %u ran out at %lld, the answer is%s marked and %s]\n", failed, p.limit, marked ? "" : " not", right ? "right" : "wrong");
                g_bad = true;
            }
            if (failed == 0)
                break;
        }
        const long long whole = p.limit;
        std::printf(" | whole from %lld cycles a wait", whole);
        p.limit = limit;
        reset();
        {
            // Another request: the same bits the other way around.
            std::vector<u8> turned(pr.host_bits.size(), 0);
            for (u32 i = 0; i < pr.bit_count; ++i)
                turned[i / 8] |= (pr.host_bits[(pr.bit_count - 1 - i) / 8] >> (pr.bit_count - 1 - i) % 8 & 1) << i % 8;
            CHECK(cudaMemcpy(g_buffers.staged, turned.data(), turned.size(), cudaMemcpyHostToDevice));
            const u32 words = answer_words(p.bit_count);
            // Each by itself, then in pairs.
            const Io first{nullptr, pr.bits, nullptr, p.io.left}, second{nullptr, g_buffers.staged, nullptr, p.io.left + words};
            Params q = p;
            for (const Io& io : {first, second}) {
                q.io = io;
                CHECK(cudaLaunchKernelEx(&config, kernel, q));
            }
            u32* const wanted = p.io.left + 2 * words;
            CHECK(cudaMemcpyAsync(wanted, p.io.left, 8 * words, cudaMemcpyDeviceToDevice, stream));
            CHECK(cudaMemsetAsync(g_buffers.wrong, 0, 8, stream));
            auto* const overlap = overlap_kernel<S>;
            auto* const paired = pair_kernel<S>;
            CHECK(cudaFuncSetAttribute(overlap, cudaFuncAttributeMaxDynamicSharedMemorySize, p.smem));
            CHECK(cudaFuncSetAttribute(paired, cudaFuncAttributeMaxDynamicSharedMemorySize, p.smem));
            CHECK(cudaStreamSynchronize(stream));
            std::vector<u8> right(8 * words), both(8 * words);
            CHECK(cudaMemcpy(right.data(), wanted, right.size(), cudaMemcpyDeviceToHost));
            config.numAttrs = 2;
            std::mt19937 rng(p.count);
            for (const Hold& hold : HOLDS) {
                if (S::KS == 1 && hold.receives)
                    continue;
                // Waits that suffice: every answer is exact.
                Params q = p;
                q.held_at = hold.at;
                CHECK(cudaMemsetAsync(g_buffers.wrong, 0, 8, stream));
                CHECK(cudaLaunchKernelEx(&config, overlap, q, first, second, static_cast<const u32*>(wanted), 500u, g_buffers.wrong));
                CHECK(cudaStreamSynchronize(stream));
                u32 wrong[2], failed;
                CHECK(cudaMemcpy(wrong, g_buffers.wrong, 8, cudaMemcpyDeviceToHost));
                CHECK(cudaMemcpy(&failed, p.sync + FAILED, 4, cudaMemcpyDeviceToHost));
                const u32 first_failed = failed;
                const bool exact = !wrong[0] && !wrong[1] && !failed;
                // Waits that run out or do not, by little: an answer is exact or marked.
                const int launches = 300;
                int ran_out = 0, marked = 0, unmarked = 0, untold = 0;
                for (int i = 0; i < launches; ++i) {
                    reset();
                    CHECK(cudaMemset(p.io.left, 0, both.size()));
                    q.held_first = rng() % blocks;
                    // Up to what suffices where every layer is held up.
                    q.limit = whole / 2 + rng() % (6 * whole + 8 * HELD_CYCLES);
                    CHECK(cudaLaunchKernelEx(&config, paired, q, first, second));
                    CHECK(cudaStreamSynchronize(stream));
                    CHECK(cudaMemcpy(&failed, p.sync + FAILED, 4, cudaMemcpyDeviceToHost));
                    CHECK(cudaMemcpy(both.data(), p.io.left, both.size(), cudaMemcpyDeviceToHost));
                    ran_out += failed != 0;
                    bool any = false;
                    for (const int second_one : {0, 1}) {
                        const auto part = [&](const std::vector<u8>& v) { return std::vector<u8>(v.begin() + second_one * 4 * words, v.begin() + (second_one + 1) * 4 * words); };
                        const bool is = is_marked(part(both), p.bit_count);
                        any = any || is;
                        marked += is;
                        unmarked += !is && part(both) != part(right);
                    }
                    untold += any && failed == 0;
                }
                const bool tried = ran_out != 0 && ran_out != launches;
                const bool good = exact && tried && !unmarked && !untold;
                std::snprintf(line, sizeof line,
                              "      held up %-35s %s: 500 pairs, %u and %u words wrong, wait %u ran out; %d pairs, %d with waits that ran out, %d answers marked, %d wrong and not marked, %d marked untold\n",
                              hold.where, good ? "ok" : tried ? "NOT AS IT HAS TO BE" : "NOT TRIED", wrong[0], wrong[1], first_failed, launches, ran_out, marked, unmarked, untold);
                detail += line;
                g_bad = g_bad || !good;
                reset();
            }
            config.numAttrs = 1;
        }
        // The captured graph, and one of a kernel that does nothing.
        cudaGraph_t graph, nothing_graph;
        cudaGraphExec_t exec, nothing_exec;
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        launch();
        CHECK(cudaStreamEndCapture(stream, &graph));
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        CHECK(cudaLaunchKernelEx(&config, nothing, p));
        CHECK(cudaStreamEndCapture(stream, &nothing_graph));
        CHECK(cudaGraphInstantiate(&nothing_exec, nothing_graph, 0));
        std::vector<double> event_us, nothing_us, wall_us;
        const auto timed = [&](cudaGraphExec_t which, std::vector<double>& us) {
            for (int i = 0; i < 1100; ++i) {
                CHECK(cudaEventRecord(e0, stream));
                CHECK(cudaGraphLaunch(which, stream));
                CHECK(cudaEventRecord(e1, stream));
                CHECK(cudaEventSynchronize(e1));
                float ms;
                CHECK(cudaEventElapsedTime(&ms, e0, e1));
                if (i >= 100)
                    us.push_back(ms * 1e3);
            }
        };
        timed(exec, event_us);
        timed(nothing_exec, nothing_us);
        CHECK(cudaGraphExecDestroy(nothing_exec));
        CHECK(cudaGraphDestroy(nothing_graph));
        for (int i = 0; i < 600; ++i) {
            const auto t0 = Clock::now();
            CHECK(cudaGraphLaunch(exec, stream));
            CHECK(cudaStreamSynchronize(stream));
            if (i >= 100)
                wall_us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - t0).count());
        }
        CHECK(cudaEventRecord(e0, stream));
        for (int i = 0; i < 500; ++i)
            CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaEventRecord(e1, stream));
        CHECK(cudaEventSynchronize(e1));
        float ms;
        CHECK(cudaEventElapsedTime(&ms, e0, e1));
        const double b2b = ms * 1e3 / 500;
        std::vector<double> phase[STAMPS];
        bool same = true, stuck = false;
        for (int i = 0; i < 31; ++i) {
            CHECK(cudaMemset(p.io.left, 0xff, expected.size()));
            CHECK(cudaGraphLaunch(exec, stream));
            CHECK(cudaStreamSynchronize(stream));
            std::vector<u8> left(expected.size());
            CHECK(cudaMemcpy(left.data(), p.io.left, left.size(), cudaMemcpyDeviceToHost));
            same = same && left == expected;
            Stamps stamps;
            stamps.fetch();
            for (int k = 1; k <= 13; ++k)
                phase[k].push_back(stamps.us(false, 0, k));
        }
        if (!same)
            std::printf("\n[a graph's answer is wrong]\n");
        g_bad = g_bad || !same || !repeats;
        CHECK(cudaGraphExecDestroy(exec));
        CHECK(cudaGraphDestroy(graph));

        // The kernel that stays.
        std::vector<double> trip_us;
        Stamps stay_stamps;
        u32 failed;
        {
            CHECK(cudaMemset(p.sync, 0, SYNC_WORDS * 4)); // sums are as a run begins
            CHECK(cudaDeviceSynchronize());
            volatile u32* const go = reinterpret_cast<u32*>(g_buffers.mapped);
            volatile u32* const done = reinterpret_cast<u32*>(g_buffers.mapped + 128);
            *go = 0, *done = 0;
            std::memcpy(g_buffers.mapped + 4096, pr.host_bits.data(), pr.host_bits.size());
            u8* const answer = g_buffers.mapped + LOGITS_AT;
            std::memset(answer, 0xff, expected.size());
            u8* mapped;
            CHECK(cudaHostGetDevicePointer((void**)&mapped, g_buffers.mapped, 0));
            Params q = p;
            Stay h;
            h.host_go = reinterpret_cast<u32*>(mapped), h.host_done = reinterpret_cast<u32*>(mapped + 128);
            h.host_bits = reinterpret_cast<uint4*>(mapped + 4096);
            h.host_answer = reinterpret_cast<u32*>(mapped + LOGITS_AT);
            h.device_bits = reinterpret_cast<uint4*>(g_buffers.staged), q.io.bits = g_buffers.staged;
            h.bits_words = pr.host_bits.size() / 16;
            static bool said = false;
            config.numAttrs = 2;
            cudaError_t e = cudaLaunchKernelEx(&config, stays, q, h);
            if (e != cudaSuccess) {
                if (!said)
                    std::printf("\n[cooperative with clusters: %s]\n", cudaGetErrorString(e));
                said = true;
                cudaGetLastError();
                config.numAttrs = 1;
                CHECK(cudaLaunchKernelEx(&config, stays, q, h));
            }
            config.numAttrs = 1;
            for (u32 i = 1; i <= 1200; ++i) {
                const auto t0 = Clock::now();
                __atomic_store_n(const_cast<u32*>(go), i, __ATOMIC_RELEASE);
                u32 spins = 0;
                while (__atomic_load_n(const_cast<u32*>(done), __ATOMIC_ACQUIRE) != i) {
                    __builtin_ia32_pause();
                    if ((++spins & 0xffff) == 0 && Clock::now() - t0 > std::chrono::seconds(2)) {
                        stuck = true;
                        break;
                    }
                }
                if (stuck)
                    break;
                if (i > 200)
                    trip_us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - t0).count());
                if (i % 50 == 1) {
                    if (std::memcmp(answer, expected.data(), expected.size()) != 0) {
                        size_t unwritten = 0, wrong = 0, at = 0;
                        for (size_t k = 0; k < expected.size(); ++k)
                            if (answer[k] != expected[k])
                                ++wrong, at = k, unwritten += answer[k] == 0xff;
                        if (same)
                            std::printf("\n[request %u: %zu wrong, %zu of them not written, the last at %zu: %u for %u]\n", i, wrong, unwritten, at, answer[at], expected[at]);
                        same = false;
                    }
                    std::memset(answer, 0xff, expected.size());
                }
            }
            __atomic_store_n(const_cast<u32*>(go), ~0u, __ATOMIC_RELEASE);
            CHECK(cudaStreamSynchronize(stream));
            stay_stamps.fetch();
            CHECK(cudaMemcpy(&failed, p.sync + FAILED, 4, cudaMemcpyDeviceToHost));
        }
        g_bad = g_bad || !same || failed || stuck;
        std::printf(" | graph p50 %6.2f p99 %6.2f (empty %5.2f) b2b %6.2f wall %6.2f; stay %6.2f p99 %6.2f in %6.2f %s%s", quantile(event_us, .5),
                    quantile(event_us, .99), quantile(nothing_us, .5), b2b, quantile(wall_us, .5), quantile(trip_us, .5), quantile(trip_us, .99), std::max(stay_stamps.us(false, 1, 14), stay_stamps.us(true, 1, 14)),
                    same ? "ok" : "WRONG", failed || stuck ? " A WAIT RAN OUT" : "");
        static const char* const names[] = {"", "go", "rows", "L1", "L2", "peer", "on", "slab", "L3", "peer", "on", "last", "sums", "flip", "done"};
        char text[64];
        detail += "      block 0 graph";
        for (int k = 1; k <= 13; ++k)
            detail += (std::snprintf(text, sizeof text, " %s %.1f", names[k], quantile(phase[k], .5)), text);
        detail += "\n";
        for (const int last : {0, 1}) {
            detail += last ? "      last    stay" : "      block 0 stay";
            for (int k = 1; k <= 14; ++k)
                detail += (std::snprintf(text, sizeof text, " %s %.1f", names[k], stay_stamps.us(last, 1, k)), text);
            detail += "\n";
        }
    }
    std::printf("\n%s", detail.c_str());
    std::fflush(stdout);
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaEventDestroy(e0));
    CHECK(cudaEventDestroy(e1));
    return true;
}

int main(int argc, char** argv)
{
    cudaDeviceProp prop;
    if (const cudaError_t e = cudaGetDeviceProperties(&prop, 0); e != cudaSuccess || prop.major != 9 || prop.minor != 0) {
        std::printf("skipped: %s\n", e != cudaSuccess ? cudaGetErrorString(e) : "the kernels are for compute capability 9.0");
        return 0;
    }
    g_sms = prop.multiProcessorCount;
    g_smem = prop.sharedMemPerBlockOptin;
    std::printf("%s: %d multiprocessors, %zu B of shared memory, sm_%d%d\n", prop.name, g_sms, g_smem, prop.major, prop.minor);
    const Net net = make_net();
    make_buffers();
    for (const int size : {1, 2, 4, 8}) {
        cudaLaunchConfig_t config{};
        cudaLaunchAttribute attribute[1];
        attribute[0].id = cudaLaunchAttributeClusterDimension;
        attribute[0].val.clusterDim.x = size, attribute[0].val.clusterDim.y = 1, attribute[0].val.clusterDim.z = 1;
        config.gridDim = 128, config.blockDim = Shape<2, 2, 24>::BLOCK, config.dynamicSmemBytes = g_smem, config.attrs = attribute, config.numAttrs = 1;
        int clusters = 0;
        auto* const kernel = graph_kernel<Shape<2, 2, 24>>;
        CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, g_smem));
        CHECK(cudaOccupancyMaxActiveClusters(&clusters, kernel, &config));
        std::printf("clusters of %d: %d fit\n", size, clusters);
    }
    const auto wanted = [&](int d) {
        if (argc < 2)
            return true;
        for (int i = 1; i < argc; ++i)
            if (std::atoi(argv[i]) == d)
                return true;
        return false;
    };
    struct Size {
        int d, layers;
    };
    int done = 0, left_out = 0;
    for (const Size size : {Size{7, 7}, {7, 8}, {9, 10}, {11, 12}, {13, 13}, {13, 14}, {21, 21}, {21, 22}, {31, 31}, {31, 32}}) {
        if (!wanted(size.d))
            continue;
        const Problem pr = make_problem(net, size.d, size.layers);
        // A smaller device has no room for all of them.
#define RUN(...)                                                                            \
    do {                                                                                    \
        const bool ran = elapsed() < g_budget_s && run<Shape<__VA_ARGS__>>(net, pr);        \
        if (!ran)                                                                           \
            std::printf("%d/%d in shape " #__VA_ARGS__ " did not run\n", size.d, size.layers); \
        ++(ran ? done : left_out);                                                          \
    } while (0)
        if (size.d == 7) {
            RUN(2, 2, 24);
            RUN(2, 2, 48);
        }
        // For parts of a device.
        if ((size.d == 7 && size.layers == 8) || (size.d == 13 && size.layers == 14)) {
            RUN(2, 1, 96);
            RUN(2, 1, 144);
            RUN(2, 1, 176);
        }
        if (size.d == 9)
            RUN(2, 2, 48);
        if (size.d == 11)
            RUN(2, 2, 64);
        if (size.d == 13)
            RUN(2, 2, 96);
        if (size.d == 21)
            RUN(2, 1, 176);
        if (size.d == 31)
            RUN(1, 1, 256);
    }
    g_bad = g_bad || done == 0;
    std::printf("%.1f s%s\n", elapsed(), g_bad ? ", NOT AS IT HAS TO BE: see above" : "");
    if (!g_bad)
        std::printf("ran: every answer of %d runs was that of plain convolutions; %d did not run\n", done, left_out);
    return g_bad;
}

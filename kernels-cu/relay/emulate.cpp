// The kernel's phases on a CPU, one thread after another, against the answers of `ringcall-bp`: the logic without a GPU.
//
//   g++ -O2 -std=c++17 emulate.cpp -o /tmp/emulate && /tmp/emulate SHAPE FILE [SHOTS]
#include <cstdlib>

#include "phases.cuh"
#include "problem.h"
#include "shapes.h"

using namespace relay;

template <int BLOCKS, int THREADS, int SPLIT, int POSITIONS, class P> int run(const Problem &problem, size_t shots) {
  problem.check(BLOCKS, THREADS, SPLIT, POSITIONS);
  const uint32_t *const words = problem.words.data();
  const TablesHead &head = problem.tables().head();
  auto table = [&](int b) -> const BlockHead & { return problem.tables().block(b); };
  if (problem.config.lanes > 1) throw std::runtime_error("the emulation has one lane");
  constexpr int STRIDE = stride_of<P, SPLIT, POSITIONS>();
  const Config &c = problem.config;
  struct State {
    std::vector<uint32_t> messages, states;
    std::vector<Thread<P>> threads;
    Block<POSITIONS> block;
  };
  std::vector<State> all(BLOCKS);
  for (int b = 0; b < BLOCKS; ++b) {
    State &s = all[b];
    s.messages.assign((head.rows + 1) * STRIDE, MESSAGE_CAP);
    s.states.assign(POSITIONS, 0);
    s.threads.resize(THREADS);
    s.block = {reinterpret_cast<uint16_t *>(s.messages.data()), words + table(b).slots};
  }
  int wrong = 0;
  for (size_t shot = 0; shot < std::min(shots, problem.defects.size()); ++shot) {
    std::vector<uint32_t> fired(problem.checks, 0);
    for (uint32_t d : problem.defects[shot]) fired[d] = 1;
    for (int b = 0; b < BLOCKS; ++b)
      for (int i = 0; i < THREADS; ++i) {
        Thread<P> &t = all[b].threads[i];
        for (int at = 0; at < P::COUNT; ++at) {
          t.prior[at] = t.marginal[at] = words[table(b).priors + at * THREADS + i];
          t.degree[at] = words[table(b).degrees + at * (THREADS / 32) + i / 32];
        }
        if (P::KEEPS_SLOTS)
          for (int k = 0; k < P::SUM; ++k) {
            t.slots[k] = words[table(b).slots + k * THREADS + i];
            t.state_at[k] = words[table(b).state_at + k * THREADS + i];
          }
        t.counted = words[table(b).counted + i];
        t.best = t.decisions = 0;
      }
    auto checks = [&] {
      bool any = false;
      std::vector<std::vector<uint32_t>> next(BLOCKS);
      for (int b = 0; b < BLOCKS; ++b) {
        const BlockHead &t = table(b);
        for (uint32_t i = 0; i < t.own; ++i) {
          Row row = read_row<STRIDE, SPLIT>(all[b].block.messages, i, 0, words[t.depth + i / (32 / SPLIT)]);
          for (int j = 1; j < SPLIT; ++j)
            row = merge(row, read_row<STRIDE, SPLIT>(all[b].block.messages, i, j, words[t.depth + i / (32 / SPLIT)]));
          bool unexplained;
          const uint32_t state = state_of(row, fired[words[t.check_at + i]], unexplained);
          any |= unexplained;
          all[b].states[i] = state;
          for (uint32_t q = words[t.push_begin + i]; q < words[t.push_begin + i + 1]; ++q) {
            const uint32_t to = words[t.pushes + q];
            all[to >> 16].states[to & 0xffff] = state;
          }
        }
      }
      return any;
    };
    uint32_t solutions = 0, iterations = 0, best_weight = 0;
    bool done = false;  // before the first iteration, if no column explains a check that fired
    for (uint32_t d : problem.defects[shot]) done |= head.disconnected && words[head.disconnected + d / 32] >> d % 32 & 1;
    for (uint32_t leg = 0; leg <= c.legs && !done; ++leg) {
      for (int b = 0; b < BLOCKS; ++b)
        for (int i = 0; i < THREADS; ++i)
          begin_leg<P, THREADS>(all[b].threads[i], all[b].block, words + table(b).columns, leg > 0, c.first_memory, c.low,
                                c.high - c.low + 1, leg_key(c.seed, leg), i);
      checks();
      for (uint32_t n = 0; n < (leg ? c.leg_iterations : c.first_iterations); ++n) {
        if (iterations == c.max_iterations) { done = true; break; }
        ++iterations;
        for (int b = 0; b < BLOCKS; ++b)
          for (int i = 0; i < THREADS; ++i) columns<P, THREADS>(all[b].threads[i], all[b].block, all[b].states.data(), i);
        if (checks()) continue;
        uint32_t weight = 0;
        for (auto &s : all)
          for (auto &t : s.threads) weight += weight_of(t, t.decisions);
        if (!solutions++ || weight < best_weight) {
          best_weight = weight;
          for (auto &s : all)
            for (auto &t : s.threads) t.best = t.decisions;
        }
        done = solutions == c.solutions || best_weight == 0;
        break;
      }
    }
    if (!solutions)
      for (auto &s : all)
        for (auto &t : s.threads) t.best = t.decisions, best_weight += weight_of(t, t.decisions);
    uint32_t observables = 0;
    std::vector<uint32_t> error;
    for (int b = 0; b < BLOCKS; ++b)
      for (int i = 0; i < THREADS; ++i) {
        const Thread<P> &t = all[b].threads[i];
        observables ^= flips_of<P, THREADS>(t, t.best, words + table(b).flips, i);
        for (int bit = 0; bit < 2 * P::COUNT; ++bit)
          if (t.best & t.counted & 1u << bit) error.push_back(words[table(b).columns + bit * THREADS + i]);
      }
    std::sort(error.begin(), error.end());
    const Expected &e = problem.expected[shot];
    const bool equal = e.converged == (solutions > 0) && e.solutions == solutions && e.iterations == iterations &&
                       e.weight == best_weight && e.observables == observables && e.error == error;
    if (!equal && wrong++ < 3)
      std::printf("shot %zu: solutions %u %u, iterations %u %u, weight %u %u, observables %x %x\n", shot, solutions, e.solutions,
                  iterations, e.iterations, best_weight, e.weight, observables, e.observables);
  }
  std::printf("%d of %zu answers differ\n", wrong, std::min(shots, problem.defects.size()));
  return wrong > 0;
}

int main(int argc, char **argv) try {
  if (argc < 3) throw std::runtime_error("usage: emulate SHAPE FILE [SHOTS]");
  const std::string shape = argv[1];
  const Problem problem(argv[2]);
  const size_t shots = argc > 3 ? std::strtoul(argv[3], nullptr, 10) : 100;
#define RUN(name, blocks, threads, split, positions, ...) \
  if (shape == #name) return run<blocks, threads, split, positions, Passes<__VA_ARGS__>>(problem, shots);
  RELAY_SHAPES(RUN)
  throw std::runtime_error("no such shape");
} catch (const std::exception &e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 2;
}

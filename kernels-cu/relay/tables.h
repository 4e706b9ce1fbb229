// A problem's tables as the kernel reads them, for a host: which block has which checks and columns, and where each message lies.
//
// A block has a run of checks and every column that touches one of them; a column at a border is computed by each block that touches
// it. Checks of other blocks that such columns touch are the block's halo: it has their states, and not their rows.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace relay {

struct Config {
  int32_t first_memory, low, high, damping;
  uint32_t first_iterations, leg_iterations, legs, solutions, max_iterations, seed, lanes, lane_delay;
};

struct Column {
  uint32_t prior, observables;
  std::vector<uint32_t> checks;
};

struct Expected {
  uint32_t converged, solutions, iterations, weight, observables;
  std::vector<uint32_t> error;
};

// A file that `ringcall-bp`'s example `export` wrote.
struct Problem {
  uint32_t checks, observables;
  Config config;
  std::vector<Column> columns;
  std::vector<std::vector<uint32_t>> defects;
  std::vector<Expected> expected;

  explicit Problem(const std::string &path) {
    FILE *file = std::fopen(path.c_str(), "rb");
    if (!file) throw std::runtime_error("cannot open " + path);
    std::vector<uint32_t> words;
    for (uint32_t word; std::fread(&word, 4, 1, file) == 1;) words.push_back(word);
    std::fclose(file);
    size_t at = 0;
    auto next = [&] { return words.at(at++); };
    auto list = [&] {
      const uint32_t n = next();
      if (n > words.size() - at) throw std::runtime_error(path + " is cut short");
      std::vector<uint32_t> items(words.begin() + at, words.begin() + at + n);
      at += n;
      return items;
    };
    if (next() != 0x31504252) throw std::runtime_error(path + " does not begin with RBP1");
    checks = next();
    observables = next();
    const uint32_t n = next(), shots = next();
    for (size_t i = 0; i < sizeof(Config) / 4; ++i) {
      const uint32_t word = next();
      std::memcpy(reinterpret_cast<char *>(&config) + 4 * i, &word, 4);
    }
    for (uint32_t c = 0; c < n; ++c) {
      Column column{next(), 0, list()};
      for (uint32_t o : list()) column.observables |= 1u << o;
      columns.push_back(column);
    }
    for (uint32_t s = 0; s < shots; ++s) {
      defects.push_back(list());
      Expected e{next(), next(), next(), next(), next(), {}};
      e.error = list();
      expected.push_back(e);
    }
    if (observables > 32) throw std::runtime_error("the kernel has 32 observables at most");
    const int32_t strongest = std::max({std::abs(config.first_memory), std::abs(config.low), std::abs(config.high)});
    if (strongest > 102 || config.damping) throw std::runtime_error("the kernel has memory strengths up to 102/128 and no damping");
  }
};

// How many pairs of columns a thread has one after another, and how many checks each has at most.
constexpr int MAX_PASSES = 6;

// One block's tables. All arrays are of 32-bit words; a pair of columns has one thread, pass by pass.
struct BlockTables {
  uint32_t own = 0, halo = 0, edges = 0, pairs = 0;
  std::vector<uint32_t> check_at;   // check at each position, own ones first; the halo's after them
  std::vector<uint32_t> depth;      // words of a row, the same for 32 threads of the check phase
  std::vector<uint32_t> slots;      // [sum of the passes' degrees][threads]: two columns' slots, 16 bits each
  std::vector<uint32_t> state_at;   // likewise: where their checks' states lie, if slots do not say so
  std::vector<uint32_t> priors;     // [pass][threads]: two halves
  std::vector<uint32_t> columns;    // [pass][2][threads]: column numbers
  std::vector<uint32_t> flips;      // [pass][2][threads]: observables, of columns that are counted here
  std::vector<uint32_t> counted;    // [threads]: bits 2 pass + lane of columns that are counted here
  std::vector<uint32_t> degrees;    // [pass][warps]
  std::vector<uint32_t> push_begin; // [own + 1]
  std::vector<uint32_t> pushes;     // block << 16 | position there
};

inline uint16_t half_of(int x) {  // integers from 0 to 2,048
  if (x == 0) return 0;
  int e = 0;
  while (x >> (e + 1)) ++e;
  return uint16_t((e + 15) << 10 | ((x << 10 >> e) & 1023));
}

struct Tables {
  uint32_t blocks, threads, split, positions, stride, rows, passes;
  bool separate;
  std::vector<uint32_t> pass_degrees;
  std::vector<BlockTables> block;

  // `positions` is a power of two above every block's own checks and halo; `rows` the words of the longest row. A slot is numbered by
  // half words, and its state's position is its remainder; or `separate` tables have the byte where a message and where a state
  // lies, and rows are `stride` words apart, so that the threads of a check read different banks.
  Tables(const Problem &problem, uint32_t blocks, uint32_t threads, uint32_t split, bool separate, std::vector<uint32_t> degrees)
      : blocks(blocks), threads(threads), split(split), passes(uint32_t(degrees.size())), separate(separate), pass_degrees(degrees), block(blocks) {
    std::vector<std::vector<uint32_t>> row(problem.checks);
    size_t edges = 0;
    for (uint32_t c = 0; c < problem.columns.size(); ++c)
      for (uint32_t check : problem.columns[c].checks) row[check].push_back(c), ++edges;
    // Runs of checks with about as many edges each.
    std::vector<uint32_t> block_of(problem.checks);
    size_t before = 0;
    for (uint32_t check = 0; check < problem.checks; ++check) {
      block_of[check] = std::min<size_t>(blocks - 1, (before + row[check].size() / 2) * blocks / std::max<size_t>(edges, 1));
      before += row[check].size();
    }
    rows = 0;
    for (auto &r : row) rows = std::max<uint32_t>(rows, (r.size() + 1) / 2);
    std::vector<std::map<uint32_t, uint32_t>> position(blocks);
    uint32_t most = 0;
    for (uint32_t b = 0; b < blocks; ++b) {
      BlockTables &t = block[b];
      for (uint32_t check = 0; check < problem.checks; ++check)
        if (block_of[check] == b) t.check_at.push_back(check);
      std::stable_sort(t.check_at.begin(), t.check_at.end(), [&](uint32_t x, uint32_t y) { return row[x].size() > row[y].size(); });
      t.own = uint32_t(t.check_at.size());
      std::map<uint32_t, bool> halo;
      for (uint32_t i = 0; i < t.own; ++i)
        for (uint32_t c : row[t.check_at[i]])
          for (uint32_t check : problem.columns[c].checks)
            if (block_of[check] != b) halo[check] = true;
      for (auto &[check, yes] : halo) t.check_at.push_back(check);
      t.halo = uint32_t(halo.size());
      for (uint32_t i = 0; i < t.check_at.size(); ++i) position[b][t.check_at[i]] = i;
      most = std::max(most, t.own + t.halo);
      const uint32_t checks_a_warp = 32 / split;
      for (uint32_t i = 0; i < t.own; i += checks_a_warp) t.depth.push_back((row[t.check_at[i]].size() + 1) / 2);
      if (t.depth.size() * 32 > threads) throw std::runtime_error("a block has more checks than threads for them");
    }
    positions = 1;
    while (positions <= most) positions *= 2;
    stride = separate ? positions + 32 / split % 32 : positions;
    if ((rows + 1) * stride * (separate ? 4 : 2) > 65536) throw std::runtime_error("a block has more messages than 16 bits number");
    for (uint32_t b = 0; b < blocks; ++b) columns_of(problem, b, block_of, position);
    for (uint32_t b = 0; b < blocks; ++b) {
      BlockTables &t = block[b];
      t.push_begin.push_back(0);
      for (uint32_t i = 0; i < t.own; ++i) {
        for (uint32_t other = 0; other < blocks; ++other)
          if (other != b && position[other].count(t.check_at[i])) t.pushes.push_back(other << 16 | position[other][t.check_at[i]]);
        t.push_begin.push_back(uint32_t(t.pushes.size()));
      }
    }
  }

  uint32_t degree_sum() const { return std::accumulate(pass_degrees.begin(), pass_degrees.end(), 0u); }

 private:
  void columns_of(const Problem &problem, uint32_t b, const std::vector<uint32_t> &block_of,
                  std::vector<std::map<uint32_t, uint32_t>> &position) {
    BlockTables &t = block[b];
    const uint32_t warps = threads / 32;
    std::map<uint32_t, std::vector<uint32_t>, std::greater<uint32_t>> by_degree;
    for (uint32_t c = 0; c < problem.columns.size(); ++c) {
      const auto &checks = problem.columns[c].checks;
      if (std::any_of(checks.begin(), checks.end(), [&](uint32_t check) { return block_of[check] == b; }))
        by_degree[checks.size()].push_back(c), t.edges += checks.size();
    }
    t.slots.assign(degree_sum() * threads, 0);
    t.priors.assign(passes * threads, half_of(127) * 0x10001u);
    t.columns.assign(passes * 2 * threads, 0);
    t.flips.assign(passes * 2 * threads, 0);
    t.counted.assign(threads, 0);
    t.degrees.assign(passes * warps, 0);
    // A pad reads a state of 0, which adds nothing, and writes to the row that is never read.
    const uint32_t pad = (rows * stride + positions - 1) * 2, scale = separate ? 2 : 1;
    for (auto &slot : t.slots) slot = pad * scale * 0x10001u;
    t.state_at.assign(t.slots.size(), (positions - 1) * 4 * 0x10001u);
    std::vector<uint32_t> taken(t.own, 0);
    std::vector<uint32_t> all;
    for (auto &[degree, list] : by_degree) all.insert(all.end(), list.begin(), list.end());
    const uint32_t pairs = uint32_t(all.size() + 1) / 2;
    for (uint32_t i = 0; i < all.size(); ++i) {
      // Columns of descending degree, so that a warp's are of one or two degrees; the greater one counts.
      const uint32_t item = i / 2, lane = i % 2, pass = item / threads, thread = item % threads, c = all[i];
      const Column &column = problem.columns[c];
      const uint32_t degree = uint32_t(column.checks.size());
      if (pass >= passes || pass_degrees[pass] < degree)
        throw std::runtime_error("the shape's passes do not hold the block's columns: pair " + std::to_string(item) + " of " +
                                 std::to_string(pairs) + ", degree " + std::to_string(degree));
      const uint32_t first = std::accumulate(pass_degrees.begin(), pass_degrees.begin() + pass, 0u);
      uint32_t &warp_degree = t.degrees[pass * warps + thread / 32];
      warp_degree = std::max(warp_degree, degree);
      auto set = [&](uint32_t &word, uint32_t value) { word = (word & ~(0xffffu << 16 * lane)) | value << 16 * lane; };
      set(t.priors[pass * threads + thread], half_of(column.prior));
      t.columns[(pass * 2 + lane) * threads + thread] = c;
      if (block_of[column.checks[0]] == b) {
        t.counted[thread] |= 1u << (2 * pass + lane);
        t.flips[(pass * 2 + lane) * threads + thread] = column.observables;
      }
      for (uint32_t k = 0; k < degree; ++k) {
        const uint32_t at = position[b][column.checks[k]];
        uint32_t slot = (rows * stride + at) * 2;
        if (at < t.own) {
          const uint32_t n = taken[at]++;
          slot = (n / 2 * stride + at) * 2 + n % 2;
        }
        set(t.slots[(first + k) * threads + thread], slot * scale);
        set(t.state_at[(first + k) * threads + thread], at * 4);
      }
    }
    const uint32_t item = pairs;
    t.pairs = item;
  }
};

}  // namespace relay

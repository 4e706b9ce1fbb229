// Problems, their shots and the answers of `ringcall-bp`, with the kernel's tables of one shape: files for programs that check themselves.
#pragma once
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "tables.h"

namespace relay {

struct Config {
  int32_t first_memory, low, high, damping;
  uint32_t first_iterations, leg_iterations, legs, solutions, max_iterations, seed, lanes, lane_delay;
};

struct Expected {
  uint32_t converged, solutions, iterations, weight, observables;
  std::vector<uint32_t> error;
};

// A file that `ringcall-bp`'s example `export` wrote.
struct Problem {
  uint32_t checks, observables, columns;
  Config config;
  std::vector<std::vector<uint32_t>> defects;
  std::vector<Expected> expected;
  std::vector<uint32_t> words;  // the tables'

  explicit Problem(const std::string &path) {
    FILE *file = std::fopen(path.c_str(), "rb");
    if (!file) throw std::runtime_error("cannot open " + path);
    std::vector<uint32_t> all;
    for (uint32_t word; std::fread(&word, 4, 1, file) == 1;) all.push_back(word);
    std::fclose(file);
    size_t at = 0;
    auto next = [&] { return all.at(at++); };
    auto list = [&] {
      const uint32_t n = next();
      if (n > all.size() - at) throw std::runtime_error(path + " is cut short");
      std::vector<uint32_t> items(all.begin() + at, all.begin() + at + n);
      at += n;
      return items;
    };
    if (next() != 0x32504252) throw std::runtime_error(path + " does not begin with RBP2");
    checks = next();
    observables = next();
    columns = next();
    const uint32_t shots = next();
    for (size_t i = 0; i < sizeof(Config) / 4; ++i) {
      const uint32_t word = next();
      std::memcpy(reinterpret_cast<char *>(&config) + 4 * i, &word, 4);
    }
    words = list();
    for (uint32_t s = 0; s < shots; ++s) {
      defects.push_back(list());
      Expected e{next(), next(), next(), next(), next(), {}};
      e.error = list();
      expected.push_back(e);
    }
    if (words.size() < sizeof(TablesHead) / 4) throw std::runtime_error(path + " has no tables");
  }

  Tables tables() const { return {words.data()}; }

  // The tables are of the shape that a program was compiled for.
  void check(uint32_t blocks, uint32_t threads, uint32_t split, uint32_t positions) const {
    const TablesHead &head = tables().head();
    if (head.blocks != blocks || head.threads != threads || head.split != split || head.positions != positions)
      throw std::runtime_error("the file's tables are of another shape");
  }
};

}  // namespace relay

// SPDX-License-Identifier: Apache-2.0 OR MIT
// A stand-in of Ringcall's for CUDA-Q QEC, for compiling and testing alone: measurements that come one after the other, and corrections
// of observables that add up, over any decoder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cudaq::qec {

struct realtime {
  using rows = std::vector<std::vector<std::uint32_t>>;
  // Which measurements make each detector, and which errors flip each observable.
  rows detectors, observables;
  std::vector<std::uint8_t> buffer, corrections;

  std::size_t measurements() const {
    std::size_t count = 0;
    for (const auto &row : detectors)
      for (const std::uint32_t measurement : row)
        count = measurement >= count ? measurement + 1 : count;
    return count;
  }

  // Whether that was enough for a decode, which `decode` does, and by which `to_observables` says that an answer is observables.
  template <typename Decode> bool enqueue(const std::uint8_t *begin, std::size_t length, bool to_observables, Decode decode) {
    buffer.insert(buffer.end(), begin, begin + length);
    if (buffer.size() < measurements())
      return false;
    std::vector<double> syndrome(detectors.size());
    for (std::size_t i = 0; i < detectors.size(); i++)
      for (const std::uint32_t measurement : detectors[i])
        syndrome[i] = (syndrome[i] != 0) != (buffer[measurement] != 0) ? 1.0 : 0.0;
    buffer.clear();
    const auto answer = decode(syndrome);
    corrections.resize(observables.size());
    for (std::size_t i = 0; i < observables.size(); i++) {
      bool flips = to_observables && answer.result.at(i) >= 0.5;
      for (const std::uint32_t error : observables[i])
        flips = flips != (!to_observables && answer.result.at(error) >= 0.5);
      corrections[i] = static_cast<std::uint8_t>(corrections[i] ^ static_cast<std::uint8_t>(flips));
    }
    return true;
  }
};

} // namespace cudaq::qec

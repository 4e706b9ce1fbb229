// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Ringcall's matching decoders, from C++: what the plug-in needs of them, and nothing of CUDA-Q QEC.
#pragma once

#include "ringcall_decoder.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#ifndef RINGCALL_QEC_VERSION
#define RINGCALL_QEC_VERSION "of an unknown version"
#endif

namespace ringcall_qec {

// A matrix over GF(2), column by column.
struct columns {
  std::vector<std::uint64_t> offsets{0};
  std::vector<std::uint32_t> rows;

  std::size_t size() const { return offsets.size() - 1; }

  // A column; a row that is listed an even number of times is none.
  void add(std::vector<std::uint32_t> list) {
    std::sort(list.begin(), list.end());
    for (std::size_t i = 0; i < list.size();) {
      const auto end = std::upper_bound(list.begin() + static_cast<std::ptrdiff_t>(i), list.end(), list[i]);
      const auto next = static_cast<std::size_t>(end - list.begin());
      if ((next - i) % 2 == 1)
        rows.push_back(list[i]);
      i = next;
    }
    offsets.push_back(rows.size());
  }
};

// A decoding problem: a column for each error.
struct model {
  std::uint32_t num_detectors = 0;
  std::uint32_t num_observables = 0;
  columns checks;
  columns observables;
  // The probability of each error; empty: all weigh the same.
  std::vector<double> priors;
};

// What an answer says: the errors that happened, or the observables that they flip.
enum class form { errors, observables };

struct answer {
  // Whether any set of errors explains the syndrome. If not, no bit is set.
  bool explained = false;
  std::vector<std::uint8_t> bits;
};

// A decoder. Of one thread at a time, as a decoder of CUDA-Q QEC is.
class matching {
public:
  // Of a model whose errors flip one detector or two.
  static std::unique_ptr<matching> of(const model &given, form output) {
    const std::size_t errors = given.checks.size();
    if (!given.priors.empty() && given.priors.size() != errors)
      throw std::invalid_argument("ringcall decoder: " + std::to_string(given.priors.size()) + " error rates are given for " +
                                  std::to_string(errors) + " errors");
    // The observables of an answer name its errors where each error flips an observable of its own.
    columns names;
    if (output == form::errors)
      for (std::size_t error = 0; error < errors; error++)
        names.add({static_cast<std::uint32_t>(error)});
    if (output == form::errors && errors > MOST_ERRORS)
      throw std::invalid_argument("ringcall decoder: answers name at most " + std::to_string(MOST_ERRORS) + " errors, and " +
                                  std::to_string(errors) + " are given: ask for observables");
    const columns &flips = output == form::errors ? names : given.observables;
    const auto count = static_cast<std::uint32_t>(output == form::errors ? errors : given.num_observables);
    ringcall_decoder_t *handle = nullptr;
    require(ringcall_decoder_create_from_sparse_check_matrix(
        given.num_detectors, count, static_cast<std::uint32_t>(errors), given.checks.offsets.data(), given.checks.rows.data(),
        count == 0 ? nullptr : flips.offsets.data(), count == 0 ? nullptr : flips.rows.data(),
        given.priors.empty() ? nullptr : given.priors.data(), &handle));
    return std::unique_ptr<matching>(new matching(handle));
  }

  // Of a detector error model in Stim's format, matched twice: answers are observables.
  static std::unique_ptr<matching> of_text(const std::string &text) {
    ringcall_decoder_t *handle = nullptr;
    require(ringcall_decoder_create_from_dem(text.data(), text.size(), RINGCALL_MATCHING_CORRELATED, &handle));
    return std::unique_ptr<matching>(new matching(handle));
  }

  matching(const matching &) = delete;
  matching &operator=(const matching &) = delete;
  ~matching() { ringcall_decoder_destroy(handle_); }

  // Room for so many shots, none of whose detectors fired.
  void begin(std::size_t shots) {
    shots_ = shots;
    syndromes_.assign(shots * info_.syndrome_bytes, 0);
  }

  // The detectors of a shot, each the probability that it fired: one half and more counts as fired.
  template <typename Iterator> void set(std::size_t shot, Iterator begin, Iterator end) {
    const auto length = static_cast<std::size_t>(end - begin);
    if (length != info_.num_detectors)
      throw std::invalid_argument("ringcall decoder: a syndrome has " + std::to_string(length) + " values, and the model " +
                                  std::to_string(info_.num_detectors) + " detectors");
    std::uint8_t *packed = syndromes_.data() + shot * info_.syndrome_bytes;
    for (std::size_t i = 0; i < length; i++) {
      const double fired = static_cast<double>(begin[static_cast<std::ptrdiff_t>(i)]);
      if (std::isnan(fired))
        throw std::invalid_argument("ringcall decoder: detector " + std::to_string(i) + " is not a number");
      if (fired >= 0.5)
        packed[i / 8] = static_cast<std::uint8_t>(packed[i / 8] | 1u << (i % 8));
    }
  }

  // Decodes the shots. One that no correction explains is answered as such, and ends nothing.
  std::vector<answer> solve() {
    const std::size_t in = info_.syndrome_bytes, out = info_.observable_bytes;
    observables_.assign(shots_ * out, 0);
    std::vector<answer> answers(shots_);
    for (std::size_t done = 0; done < shots_; done++) {
      std::size_t decoded = 0;
      const std::size_t left = shots_ - done;
      const auto status = ringcall_decoder_decode_batch(handle_, left, syndromes_.data() + done * in, left * in,
                                                        observables_.data() + done * out, left * out, nullptr, &decoded);
      if (status != CUDAQ_OK && status != CUDAQ_ERR_INVALID_ARG)
        require(status);
      for (std::size_t shot = done; shot < done + decoded; shot++)
        answers[shot].explained = true;
      // The shot after those is the refused one.
      done += decoded;
    }
    for (std::size_t shot = 0; shot < shots_; shot++) {
      answers[shot].bits.assign(info_.num_observables, 0);
      for (std::size_t i = 0; answers[shot].explained && i < info_.num_observables; i++)
        answers[shot].bits[i] = observables_[shot * out + i / 8] >> (i % 8) & 1u;
    }
    return answers;
  }

private:
  // As many observables as the C interface has.
  static constexpr std::size_t MOST_ERRORS = 1u << 16;

  explicit matching(ringcall_decoder_t *handle) : handle_(handle) { require(ringcall_decoder_get_info(handle_, &info_)); }

  static void require(cudaq_status_t status) {
    if (status == CUDAQ_OK)
      return;
    const char *why = ringcall_last_error();
    const std::string text = std::string("ringcall decoder: ") + (why == nullptr ? "it gives no reason" : why);
    if (status == CUDAQ_ERR_INVALID_ARG)
      throw std::invalid_argument(text);
    throw std::runtime_error(text);
  }

  ringcall_decoder_t *handle_;
  ringcall_decoder_info_t info_{};
  std::size_t shots_ = 0;
  std::vector<std::uint8_t> syndromes_;
  std::vector<std::uint8_t> observables_;
};

} // namespace ringcall_qec

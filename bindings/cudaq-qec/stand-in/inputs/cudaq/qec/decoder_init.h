// SPDX-License-Identifier: Apache-2.0 OR MIT
// A stand-in of Ringcall's for CUDA-Q QEC, for compiling and testing alone: what a decoder is made of.
#pragma once

#include "cudaq/qec/sparse_binary_matrix.h"
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cudaq::qec {

class decoder_init {
  sparse_binary_matrix checks_;
  std::optional<sparse_binary_matrix> observables_, measurements_;
  std::vector<double> rates_;
  std::optional<std::string> text_;

public:
  explicit decoder_init(sparse_binary_matrix checks) : checks_(std::move(checks)) {}
  decoder_init(sparse_binary_matrix checks, std::optional<sparse_binary_matrix> observables, std::vector<double> rates = {},
               std::optional<sparse_binary_matrix> measurements = std::nullopt)
      : checks_(std::move(checks)), observables_(std::move(observables)), measurements_(std::move(measurements)),
        rates_(std::move(rates)) {}
  // The real one derives the matrices from the text.
  void stand_in_text(std::string text) { text_ = std::move(text); }

  const sparse_binary_matrix &detector_error_matrix() const { return checks_; }
  bool has_observable_model() const { return observables_.has_value(); }
  const sparse_binary_matrix &observable_flips_matrix() const { return observables_.value(); }
  const std::vector<double> &error_rates() const { return rates_; }
  const sparse_binary_matrix *measurement_to_detectors() const { return measurements_ ? &*measurements_ : nullptr; }
  bool has_stim_dem() const { return text_.has_value(); }
  const std::string &stim_dem() const { return text_.value(); }
};

} // namespace cudaq::qec

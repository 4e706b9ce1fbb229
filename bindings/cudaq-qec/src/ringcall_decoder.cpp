// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Minimum-weight perfect matching as a decoder of CUDA-Q QEC, by the name `ringcall`.
//
// The library registers the decoder when it is loaded. Two interfaces of CUDA-Q QEC are known, told apart by their headers: decoders
// made of a matrix and parameters, and decoders made of a `decoder_init`, which has the matrices, and of the form of the result.

#include "cudaq/qec/decoder.h"

#if __has_include("cudaq/qec/decoder_init.h")
#include "cudaq/qec/decoder_init.h"
#define RINGCALL_QEC_HAS_INIT 1
#elif __has_include("cudaq/qec/sparse_binary_matrix.h")
#include "cudaq/qec/sparse_binary_matrix.h"
#define RINGCALL_QEC_HAS_INIT 0
#else
#error "This CUDA-Q QEC has neither decoder_init.h nor sparse_binary_matrix.h: it is too old for this decoder."
#endif

#include "matching.h"

#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace cudaq::qec {

namespace {

using ringcall_qec::columns;
using ringcall_qec::form;
using ringcall_qec::model;

// Each column of a matrix as a list of rows, in which a row that is listed twice cancels.
columns columns_of(const sparse_binary_matrix &matrix) {
  columns made;
  for (auto &list : matrix.to_nested_csc())
    made.add(std::move(list));
  return made;
}

// Refuses parameters that would be ignored.
void check_names(const cudaqx::heterogeneous_map &params, std::initializer_list<const char *> known) {
  for (const auto &entry : params) {
    bool found = false;
    std::string names;
    for (const char *name : known) {
      found = found || entry.first == name;
      names += names.empty() ? name : std::string(", ") + name;
    }
    if (!found)
      throw std::invalid_argument("ringcall decoder: there is no parameter `" + entry.first + "`: it takes " + names);
  }
}

// Whether correlated matching is asked for.
bool is_correlated(const cudaqx::heterogeneous_map &params) {
  if (!params.contains("matching"))
    return false;
  const auto kind = params.get<std::string>("matching");
  if (kind != "plain" && kind != "correlated")
    throw std::invalid_argument("ringcall decoder: matching is `" + kind + "`: it is plain or correlated");
  return kind == "correlated";
}

} // namespace

// The class has the name that the decoder is asked for by.
class ringcall : public decoder {
  std::unique_ptr<ringcall_qec::matching> matching_;

  decoder_result result_of(const ringcall_qec::answer &found) const {
    decoder_result result;
    result.converged = found.explained;
    result.result.assign(found.bits.begin(), found.bits.end());
    return result;
  }

public:
#if RINGCALL_QEC_HAS_INIT
  ringcall(decoder_init inputs, decode_result_type output, const cudaqx::heterogeneous_map &params)
      : decoder(std::move(inputs), output) {
    check_names(params, {"matching"});
    const auto &given = get_inputs();
    const bool to_observables = output == decode_result_type::observables;
    if (to_observables && !given.has_observable_model())
      throw std::invalid_argument("ringcall decoder: observables are asked for, and the model has none");
    if (is_correlated(params)) {
      if (!given.has_stim_dem() || !to_observables)
        throw std::invalid_argument("ringcall decoder: correlated matching needs a model of Stim's text, and gives observables");
      matching_ = ringcall_qec::matching::of_text(given.stim_dem());
      return;
    }
    model made;
    made.checks = columns_of(given.detector_error_matrix());
    made.num_detectors = given.detector_error_matrix().num_rows();
    made.priors = given.error_rates();
    if (to_observables) {
      made.observables = columns_of(given.observable_flips_matrix());
      made.num_observables = given.observable_flips_matrix().num_rows();
    }
    matching_ = ringcall_qec::matching::of(made, to_observables ? form::observables : form::errors);
  }
#else
  ringcall(const sparse_binary_matrix &checks, const cudaqx::heterogeneous_map &params) : decoder(checks) {
    check_names(params, {"O", "error_rate_vec", "matching"});
    if (is_correlated(params))
      throw std::invalid_argument("ringcall decoder: a check matrix does not say which errors have several parts: matching is plain");
    model made;
    made.checks = columns_of(checks);
    made.num_detectors = checks.num_rows();
    if (params.contains("error_rate_vec"))
      made.priors = params.get<std::vector<double>>("error_rate_vec");
    form output = form::errors;
    if (params.contains("O")) {
      output = form::observables;
      const auto flips = params.get<cudaqx::tensor<std::uint8_t>>("O");
      if (flips.rank() != 2 || flips.shape()[1] != checks.num_cols())
        throw std::invalid_argument("ringcall decoder: O must have a row for each observable and a column for each error");
      made.num_observables = static_cast<std::uint32_t>(flips.shape()[0]);
      std::vector<std::vector<std::uint32_t>> rows(made.num_observables);
      for (std::size_t column = 0; column < checks.num_cols(); column++) {
        std::vector<std::uint32_t> flipped;
        for (std::uint32_t row = 0; row < made.num_observables; row++)
          if (flips.at({row, column}) != 0) {
            flipped.push_back(row);
            rows[row].push_back(static_cast<std::uint32_t>(column));
          }
        made.observables.add(std::move(flipped));
      }
      set_O_sparse(rows);
    }
    matching_ = ringcall_qec::matching::of(made, output);
  }
#endif

  using decoder::decode;

  decoder_result decode(const std::vector<float_t> &syndrome) override { return decode_batch({syndrome}).front(); }

  std::vector<decoder_result> decode_batch(const std::vector<std::vector<float_t>> &syndromes) override {
    matching_->begin(syndromes.size());
    for (std::size_t shot = 0; shot < syndromes.size(); shot++)
      matching_->set(shot, syndromes[shot].begin(), syndromes[shot].end());
    std::vector<decoder_result> results;
    results.reserve(syndromes.size());
    for (const auto &found : matching_->solve())
      results.push_back(result_of(found));
    return results;
  }

  std::string get_version() const override { return "ringcall " RINGCALL_QEC_VERSION; }

#if RINGCALL_QEC_HAS_INIT
  CUDAQ_EXTENSION_CUSTOM_CREATOR_FUNCTION(
      ringcall, static std::unique_ptr<decoder> create(decoder_init inputs, std::optional<decode_result_type> output,
                                                       const cudaqx::heterogeneous_map &params) {
        return std::make_unique<ringcall>(std::move(inputs), output.value_or(decode_result_type::errors), params);
      })
#else
  CUDAQ_EXTENSION_CUSTOM_CREATOR_FUNCTION(
      ringcall, static std::unique_ptr<decoder> create(const sparse_binary_matrix &checks,
                                                       const cudaqx::heterogeneous_map &params) {
        return std::make_unique<ringcall>(checks, params);
      })
#endif
};

// Later versions of the macro have the longer name.
#ifdef CUDAQ_EXT_PT_REGISTER_TYPE
CUDAQ_EXT_PT_REGISTER_TYPE(ringcall)
#else
CUDAQ_REGISTER_TYPE(ringcall)
#endif

} // namespace cudaq::qec

// SPDX-License-Identifier: Apache-2.0 OR MIT
// A stand-in of Ringcall's for CUDA-Q QEC, for compiling and testing alone: decoders made of a `decoder_init` and a form of results.
#pragma once

#include "cuda-qx/core/extension_point.h"
#include "cuda-qx/core/heterogeneous_map.h"
#include "cuda-qx/core/tensor.h"
#include "cudaq/qec/decoder_init.h"
#include "realtime.h"
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cudaq::qec {

using float_t = double;

enum class decode_result_type { errors, observables };

struct decoder_result {
  bool converged = false;
  std::vector<float_t> result;
  std::optional<cudaqx::heterogeneous_map> opt_results;
};

class decoder : public cudaqx::extension_point<decoder, decoder_init, std::optional<decode_result_type>,
                                               const cudaqx::heterogeneous_map &> {
  realtime realtime_;
  decoder_init inputs_;
  decode_result_type output_;

public:
  decoder() = delete;
  explicit decoder(decoder_init inputs, decode_result_type output = decode_result_type::errors)
      : inputs_(std::move(inputs)), output_(output) {
    block_size = inputs_.detector_error_matrix().num_cols();
    syndrome_size = inputs_.detector_error_matrix().num_rows();
    if (inputs_.has_observable_model())
      realtime_.observables = inputs_.observable_flips_matrix().to_nested_csr();
    if (const auto *measurements = inputs_.measurement_to_detectors())
      realtime_.detectors = measurements->to_nested_csr();
  }
  virtual ~decoder() = default;

  virtual decoder_result decode(const std::vector<float_t> &syndrome) = 0;
  virtual decoder_result decode(const cudaqx::tensor<std::uint8_t> &syndrome) {
    return decode(std::vector<float_t>(syndrome.data(), syndrome.data() + syndrome.shape().at(0)));
  }
  virtual std::vector<decoder_result> decode_batch(const std::vector<std::vector<float_t>> &syndromes) {
    std::vector<decoder_result> results;
    for (const auto &syndrome : syndromes)
      results.push_back(decode(syndrome));
    return results;
  }
  virtual std::string get_version() const { return "stand-in"; }

  std::size_t get_block_size() const { return block_size; }
  std::size_t get_syndrome_size() const { return syndrome_size; }

  bool enqueue_syndrome(const std::vector<std::uint8_t> &bits) {
    const auto go = [this](const std::vector<float_t> &syndrome) { return decode(syndrome); };
    return realtime_.enqueue(bits.data(), bits.size(), output_ == decode_result_type::observables, go);
  }
  const std::uint8_t *get_obs_corrections() const { return realtime_.corrections.data(); }
  std::size_t get_num_observables() const { return realtime_.observables.size(); }

protected:
  const decoder_init &get_inputs() const { return inputs_; }
  std::size_t block_size = 0;
  std::size_t syndrome_size = 0;
};

} // namespace cudaq::qec

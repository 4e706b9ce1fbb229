// SPDX-License-Identifier: Apache-2.0 OR MIT
// A stand-in of Ringcall's for CUDA-Q QEC, for compiling and testing alone: decoders made of a matrix and parameters.
#pragma once

#include "cuda-qx/core/extension_point.h"
#include "cuda-qx/core/heterogeneous_map.h"
#include "cuda-qx/core/tensor.h"
#include "cudaq/qec/sparse_binary_matrix.h"
#include "realtime.h"
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cudaq::qec {

using float_t = double;

struct decoder_result {
  bool converged = false;
  std::vector<float_t> result;
  std::optional<cudaqx::heterogeneous_map> opt_results;
};

class decoder
    : public cudaqx::extension_point<decoder, const sparse_binary_matrix &, const cudaqx::heterogeneous_map &> {
  realtime realtime_;

public:
  decoder() = delete;
  explicit decoder(sparse_binary_matrix checks) : H(std::move(checks)) {
    block_size = H.num_cols();
    syndrome_size = H.num_rows();
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

  void set_O_sparse(const std::vector<std::vector<std::uint32_t>> &rows) { realtime_.observables = rows; }
  void set_D_sparse(const std::vector<std::vector<std::uint32_t>> &rows) { realtime_.detectors = rows; }
  bool enqueue_syndrome(const std::vector<std::uint8_t> &bits) {
    const auto go = [this](const std::vector<float_t> &syndrome) { return decode(syndrome); };
    const bool to_observables = decode(std::vector<float_t>(syndrome_size)).result.size() != block_size;
    return realtime_.enqueue(bits.data(), bits.size(), to_observables, go);
  }
  const std::uint8_t *get_obs_corrections() const { return realtime_.corrections.data(); }
  std::size_t get_num_observables() const { return realtime_.observables.size(); }

protected:
  std::size_t block_size = 0;
  std::size_t syndrome_size = 0;
  sparse_binary_matrix H;
};

} // namespace cudaq::qec

// SPDX-License-Identifier: Apache-2.0 OR MIT
// A stand-in of Ringcall's for CUDA-Q QEC, for compiling and testing alone: a sparse matrix of bits.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace cudaq::qec {

class sparse_binary_matrix {
  std::uint32_t rows_ = 0;
  std::vector<std::vector<std::uint32_t>> columns_;

public:
  using index_type = std::uint32_t;

  static sparse_binary_matrix from_nested_csc(index_type rows, index_type columns,
                                              std::vector<std::vector<index_type>> nested) {
    sparse_binary_matrix made;
    made.rows_ = rows;
    made.columns_ = std::move(nested);
    made.columns_.resize(columns);
    return made;
  }

  index_type num_rows() const { return rows_; }
  index_type num_cols() const { return static_cast<index_type>(columns_.size()); }
  std::vector<std::vector<index_type>> to_nested_csc() const { return columns_; }

  std::vector<std::vector<index_type>> to_nested_csr() const {
    std::vector<std::vector<index_type>> nested(rows_);
    for (index_type column = 0; column < num_cols(); column++)
      for (const index_type row : columns_[column])
        nested[row].push_back(column);
    return nested;
  }
};

} // namespace cudaq::qec

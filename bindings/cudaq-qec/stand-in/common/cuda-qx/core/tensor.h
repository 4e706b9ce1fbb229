// SPDX-License-Identifier: Apache-2.0 OR MIT
// A stand-in of Ringcall's for CUDA-QX, for compiling and testing alone: an array of any rank.
#pragma once

#include <cstddef>
#include <vector>

namespace cudaqx {

template <typename T> class tensor {
  std::vector<std::size_t> shape_;
  std::vector<T> values_;

public:
  tensor() = default;
  explicit tensor(const std::vector<std::size_t> &shape) : shape_(shape) {
    std::size_t count = 1;
    for (const std::size_t length : shape)
      count *= length;
    values_.assign(count, T());
  }

  std::size_t rank() const { return shape_.size(); }
  std::vector<std::size_t> shape() const { return shape_; }
  T *data() { return values_.data(); }
  const T *data() const { return values_.data(); }

  T &at(const std::vector<std::size_t> &index) { return values_.at(place(index)); }
  const T &at(const std::vector<std::size_t> &index) const { return values_.at(place(index)); }

private:
  std::size_t place(const std::vector<std::size_t> &index) const {
    std::size_t at = 0;
    for (std::size_t axis = 0; axis < shape_.size(); axis++)
      at = at * shape_[axis] + index.at(axis);
    return at;
  }
};

} // namespace cudaqx

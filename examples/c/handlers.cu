// Handlers that load_module hands over when it runs: made into PTX, a cubin or a fat binary with nvcc -rdc=true.
#include <cstdint>

// The parity of the measurements' bytes.
extern "C" __device__ int mock_decode(const void *input, void *output, std::uint32_t arg_len,
                                      std::uint32_t max_result_len, std::uint32_t *result_len) {
  if (max_result_len < 1)
    return 1;
  std::uint8_t parity = 0;
  for (std::uint32_t i = 0; i < arg_len; ++i)
    parity ^= static_cast<const std::uint8_t *>(input)[i];
  *static_cast<std::uint8_t *>(output) = parity;
  *result_len = 1;
  return 0;
}

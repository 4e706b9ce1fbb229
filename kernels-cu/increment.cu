// A handler in CUDA C++, with the signature that every handler has: adds 1 to every byte.

#include <cstdint>

extern "C" __device__ int cpp_increment(const void* input, void* output, unsigned arg_len, unsigned max_result_len,
                                        unsigned* result_len)
{
    const auto* in = static_cast<const std::uint8_t*>(input);
    auto* out = static_cast<std::uint8_t*>(output);
    const unsigned len = arg_len < max_result_len ? arg_len : max_result_len;
    for (unsigned i = 0; i < len; ++i)
        out[i] = static_cast<std::uint8_t>(in[i] + 1);
    *result_len = len;
    return 0;
}

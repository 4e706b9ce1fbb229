// The kernel's own functions around the network, on a host. Standard input, all little-endian 32-bit numbers unless said
// otherwise: bits, cells, threshold (float); flips of each channel of each cell; bits of each cell's two channels; cases; for
// each case the request's bytes and the logits, [4][cells] floats. Standard output, for each case: the input's first two
// channels, a byte an element, and the answer.
#include "bits.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

using namespace predecoder;

template <class T>
static std::vector<T> read(std::size_t count)
{
    std::vector<T> values(count);
    if (std::fread(values.data(), sizeof(T), count, stdin) != count) {
        std::fputs("the input ends early\n", stderr);
        std::exit(2);
    }
    return values;
}

int main()
{
    const std::uint32_t bits = read<std::uint32_t>(1)[0], cells = read<std::uint32_t>(1)[0];
    const float threshold = read<float>(1)[0];
    const auto flips = read<Flips>(4 * cells);
    const auto cell_bits = read<std::uint32_t>(2 * cells);
    const std::uint32_t cases = read<std::uint32_t>(1)[0];
    for (std::uint32_t k = 0; k < cases; ++k) {
        const auto request = read<std::uint8_t>(answer_bytes(bits) - 1);
        const auto logits = read<float>(4 * cells);
        const auto load = [&](std::uint32_t at) { return request.at(at); };
        for (std::uint32_t channel = 0; channel < 2; ++channel)
            for (std::uint32_t cell = 0; cell < cells; ++cell)
                std::putchar(bit_of(load, cell_bits[2 * cell + channel]));
        // In whole words, of a request that may have anything behind its end.
        std::vector<std::uint32_t> answer(answer_words(bits));
        for (std::uint32_t i = 0; i < answer.size(); ++i) {
            std::uint32_t word = ~0u;
            std::memcpy(&word, request.data() + 4 * i, std::min<std::size_t>(sizeof word, request.size() - 4 * i));
            answer[i] = answer_word(word, bits, i);
        }
        for (std::uint32_t cell = 0; cell < cells; ++cell)
            for (std::uint32_t channel = 0; channel < 4; ++channel)
                if (logits[channel * cells + cell] > threshold)
                    flip_all(flips[cell * 4 + channel], bits, [&](std::uint32_t bit) { answer.at(bit / 32) ^= 1u << bit % 32; });
        std::fwrite(answer.data(), 1, answer_bytes(bits), stdout);
    }
    return 0;
}

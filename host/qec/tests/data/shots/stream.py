"""The sampler's stream of random numbers, written from its description alone: prints the digests that
`sample_statistics.rs` holds. No packages are needed: python3 stream.py

The logarithm is that of Python's C library. It may differ from libm's in the last bit, which changes a shot only where
a gap lies within that bit of a whole number: never in these.
"""

import math
import struct

M64 = (1 << 64) - 1


def splitmix(seed):
    while True:
        seed = (seed + 0x9E3779B97F4A7C15) & M64
        z = seed
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & M64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & M64
        yield z ^ (z >> 31)


def rotl(x, k):
    return ((x << k) | (x >> (64 - k))) & M64


class Xoshiro256PlusPlus:
    def __init__(self, seed):
        words = splitmix(seed)
        self.s = [next(words) for _ in range(4)]

    def next(self):
        s = self.s
        result = (rotl((s[0] + s[3]) & M64, 23) + s[0]) & M64
        t = (s[1] << 17) & M64
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotl(s[3], 45)
        return result

    def jump(self):
        total = [0, 0, 0, 0]
        for constant in (0x180EC6D33CFD0ABA, 0xD5A61266F0C9392C, 0xA9582618E03FC9AA, 0x39ABDC4529B1661C):
            for bit in range(64):
                if constant >> bit & 1:
                    total = [a ^ b for a, b in zip(total, self.s)]
                self.next()
        self.s = total


def sample(errors, rng):
    """Yields the fired errors, each `(probability, targets)`."""
    order = sorted((e for e in errors if e[0] > 0), key=lambda e: -e[0])
    while order:
        largest = order[0][0]
        members = [e for e in order if e[0] > largest / 2]
        order = order[len(members) :]
        at = 0
        while at < len(members):
            u = ((rng.next() >> 11) + 1) / 2**53
            gap = math.log(u) * (1.0 / math.log1p(-largest))
            if gap >= len(members) - at:
                break
            at += int(gap)
            ratio = members[at][0] / largest
            if ratio == 1 or rng.next() >> 11 < round(ratio * 2**53):
                yield members[at]
            at += 1


chain = [
    ([0.001, 0.0015, 0.004, 0.02, 0.3][i % 5], [i, i + 1, i + 2], [0, 2] if i % 7 == 0 else [1]) for i in range(98)
]
for stream in (0, 1, 5):
    rng = Xoshiro256PlusPlus(2024)
    for _ in range(stream):
        rng.jump()
    digest = 0xCBF29CE484222325
    for _ in range(1000):
        detectors, observables = 0, 0
        for _, d, o in sample(chain, rng):
            for index in d:
                detectors ^= 1 << index
            for index in o:
                observables ^= 1 << index
        for word in struct.unpack("<3Q", detectors.to_bytes(16, "little") + observables.to_bytes(8, "little")):
            digest = ((digest ^ word) * 0x100000001B3) & M64
    print(stream, digest)

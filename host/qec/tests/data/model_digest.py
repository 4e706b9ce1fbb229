"""The digest of a detector error model that `digests.txt` files hold, for models that are too large to keep.

It is compared with the digest that the Rust tests compute of Ringcall's own model.
"""


def mechanisms(model):
    for instruction in model:
        if instruction.type == "error":
            yield " ".join(map(str, instruction.targets_copy())), instruction.args_copy()[0]


def fnv1a(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def digest(model):
    """Count of mechanisms; sum modulo 2^64 of the FNV-1a of their targets as text; sum of their probabilities; and
    four sums of their probabilities, weighted with bits 0-15, 16-31, 32-47 and 48-63 of the FNV-1a, over 65536."""
    count, hashes, total, weighted = 0, 0, 0.0, [0.0] * 4
    for targets, p in mechanisms(model):
        h = fnv1a(targets)
        count += 1
        hashes = (hashes + h) % 2**64
        total += p
        for k in range(4):
            weighted[k] += p * ((h >> 16 * k) % 65536) / 65536
    return f"{count} {hashes:016x} {total!r} " + " ".join(map(repr, weighted))

#!/usr/bin/python3
"""Writes corpus/validate: one plain descriptor of each operation, and the traps that took a fuzzer longest to find.

The form of an input is told in validate_fuzz.cpp. Run when the layout of an entry changes, and check the result in.
"""
import os
import struct

OPERATIONS = ["all-reduce", "broadcast", "barrier", "reduce", "all-gather", "reduce-scatter", "scatter", "gather",
              "all-to-all", "all-gather-v", "reduce-scatter-v", "all-to-all-v", "send", "recv", "split", "destroy"]
WITH_VECTORS = {"all-gather-v", "reduce-scatter-v", "all-to-all-v"}
NUMBER = {name: i + 1 for i, name in enumerate(OPERATIONS)}


def near_end(distance):
    return 3 << 61 | distance


def near_power(exponent, distance):
    return 5 << 61 | exponent - 48 << 8 | 32 + distance


def head(size=4, rank=1, arena=4096, hostile=False):
    return struct.pack("<BI", size - 1 + 8 * rank + (192 if hostile else 0), arena * 2)


def descriptor(op, count=1, send=0, recv=32, root=1, flags=0, dtype=4, stamp=1, generation=7):
    fields = struct.pack("<QQQQQdIIIIBBBBB", stamp, generation, count, send, recv, 1.0, 0, 1000, root, flags, op, dtype,
                         0, 0, 0)
    return fields.ljust(128, b"\0")


def vectors(send_displs=range(8)):
    return struct.pack("<32Q", *[1] * 8, *send_displs, *[1] * 8, *range(8))


def inputs():
    for name, op in NUMBER.items():
        yield name, head() + descriptor(op) + (vectors() if name in WITH_VECTORS else b"")
    reduce, to_all, to_all_v = NUMBER["all-reduce"], NUMBER["all-to-all"], NUMBER["all-to-all-v"]
    yield "inline", head() + descriptor(reduce, count=10, flags=1)
    yield "at-the-end", head() + descriptor(reduce, send=near_end(4), recv=0)
    # 2^61 + 1 bytes for each of eight ranks are eight bytes to who does not look.
    yield "wraps-times-ranks", head(8, 0) + descriptor(to_all, count=near_power(61, 1), dtype=0)
    yield "wraps-displacement", head(8, 0) + descriptor(to_all_v) + vectors([near_power(62, 2)] * 8)
    yield "several", head() + b"".join(descriptor(NUMBER[name]) + vectors()
                                       for name in ("all-gather-v", "all-reduce", "send", "all-to-all-v"))
    yield "hostile", (head(hostile=True) +
                      descriptor(200, 2**64 - 1, 2**64 - 1, 2**63, 2**32 - 1, 2**32 - 1, 255, 1, 0) + vectors() +
                      descriptor(to_all_v, stamp=2**63) + vectors())


def main():
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus/validate")
    for name, data in inputs():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)


if __name__ == "__main__":
    main()

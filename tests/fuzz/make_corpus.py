#!/usr/bin/python3
"""Writes corpus/image, small pictures of each format, and corpus/validate: one plain descriptor of each operation, and the traps that took a fuzzer longest to find.

The form of an input is told in validate_fuzz.cpp. Run when the layout of an entry changes, and check the result in.
"""
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import make_images  # noqa: E402

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


def pictures():
    """Behind eight bytes of options, see image_fuzz.cpp."""
    rgb, noise = make_images.image(37, 23), make_images.picture(20, 18)
    tiled = {322: (4, [16]), 323: (4, [16])}
    tags = make_images.tiff_tags(20, 18, 2, [8] * 3)
    tiles = [bytes(range(256)) * 3] * 4
    files = {
        "jpeg-420": make_images.encoded(rgb, "JPEG", subsampling=2, quality=50),
        "jpeg-progressive": make_images.encoded(rgb, "JPEG", progressive=True, quality=50),
        "jpeg-cmyk": make_images.encoded(make_images.image(20, 18, "CMYK"), "JPEG", quality=50),
        "jpeg-grey": make_images.encoded(make_images.image(20, 18, "L"), "JPEG", quality=50),
        "jpeg-exif": make_images.encoded(rgb, "JPEG", exif=make_images.exif_block(6), quality=50),
        "png-rgb": make_images.encoded(make_images.image(12, 9), "PNG"),
        "png-palette": make_images.png(noise[:9, :12, :1] % 16, 4, 3, extra=make_images.chunk(b"PLTE", bytes(range(48)))),
        "png-interlaced": make_images.png(noise[:9, :12], 8, 2, True),
        "bmp-4": make_images.bmp(12, 9, 4, bytes(range(72)), palette=bytes(range(64))),
        "bmp-565": make_images.bmp(12, -9, 16, bytes(range(216)), (0xF800, 0x7E0, 0x1F)),
        "pnm-p6": b"P6 12 9 100\n" + bytes(324),
        "pnm-plain": b"P3 2 2 15\n1 2 3 4 5 6 7 8 9 10 11 12\n",
        "tiff-lzw": make_images.encoded(make_images.image(12, 9), "TIFF", compression="tiff_lzw"),
        "tiff-tiles": make_images.tiff({**tags, **tiled}, tiles),
        "tiff-planes": make_images.tiff(make_images.tiff_tags(20, 18, 2, [8] * 3, t284=(3, [2])), [noise[..., 0].tobytes()] * 3),
        "webp-lossy": make_images.encoded(rgb, "WEBP", quality=30),
        "webp-lossless": make_images.encoded(make_images.image(12, 9), "WEBP", lossless=True),
    }
    for name, data in files.items():
        yield name, bytes([1, 10, 40, 90, 120, 7, 9, 0]) + data


def main():
    corpus = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")
    for folder, entries in (("validate", inputs()), ("image", pictures())):
        os.makedirs(os.path.join(corpus, folder), exist_ok=True)
        for name, data in entries:
            with open(os.path.join(corpus, folder, name), "wb") as file:
                file.write(data)


if __name__ == "__main__":
    main()

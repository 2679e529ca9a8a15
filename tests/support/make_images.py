#!/usr/bin/python3
"""Writes images as people have them: every format and mode, cut off, damaged, misnamed; and what Pillow makes of each.

DIR/files/ gets the images, DIR/expected.txt one line each: file name, tab, then `ok WIDTH HEIGHT CRC32 CRC32_TURNED`
(RGB bytes of convert("RGB"), and after ImageOps.exif_transpose) or `bad` and Pillow's words. Needs Debian's
python3-pil and python3-numpy. The same pictures on every run.
Run: tests/support/make_images.py DIR
"""
import io
import os
import struct
import sys
import warnings
import zlib

import numpy as np
from PIL import Image, ImageOps

warnings.simplefilter("ignore")


def picture(width, height, channels=3, seed=0):
    """Smooth colours with edges and a little noise, so that up-sampling and rounding matter."""
    y, x = np.mgrid[0:height, 0:width]
    rng = np.random.RandomState(seed)
    planes = [127 + 80 * np.sin(x / (5.0 + c) + seed) + 60 * np.cos(y / (7.0 - c)) * np.sign(np.sin((x + y) / 11.0 + c))
              + rng.randint(-20, 20, (height, width)) for c in range(channels)]
    pixels = np.clip(np.stack(planes, -1), 0, 255).astype(np.uint8)
    return pixels[..., 0] if channels == 1 else pixels


def image(width, height, mode="RGB", seed=0):
    channels = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4, "CMYK": 4}[mode]
    return Image.fromarray(picture(width, height, channels, seed), mode)


def encoded(img, kind, **options):
    out = io.BytesIO()
    img.save(out, kind, **options)
    return out.getvalue()


def find_marker(jpeg, marker):
    at = 2
    while jpeg[at + 1] != marker:
        at += 2 + struct.unpack(">H", jpeg[at + 2:at + 4])[0]
    return at


def patched(data, at, new):
    return data[:at] + new + data[at + len(new):]


def exif_block(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif.tobytes()


# ---- JPEG ----

def jpeg_440():
    """4:2:2 of 16a x 8b read as 4:4:0 of 8a x 16b: as many MCUs of as many blocks."""
    data = encoded(image(96, 40), "JPEG", subsampling=1)
    sof = find_marker(data, 0xC0)
    data = patched(data, sof + 5, struct.pack(">HH", 80, 48))
    return patched(data, sof + 11, b"\x12")


def jpeg_rgb():
    """Components named R, G, B without a JFIF marker are not YCbCr."""
    data = encoded(image(50, 40), "JPEG", subsampling=0)
    data = patched(data, find_marker(data, 0xE0), b"\xff\xfe")
    sof, sos = find_marker(data, 0xC0), find_marker(data, 0xDA)
    for i, name in enumerate(b"RGB"):
        data = patched(data, sof + 10 + 3 * i, bytes([name]))
        data = patched(data, sos + 5 + 2 * i, bytes([name]))
    return data


def exif_directory(entries):
    """`entries` of tag, type, count and four bytes."""
    fields = b"".join(struct.pack("<HHI4s", *entry) for entry in entries)
    return b"II*\0" + struct.pack("<IH", 8, len(entries)) + fields + bytes(4)


def exif_entries():
    six = (0x0112, 3, 1, b"\6")
    yield "byte", [(0x0112, 1, 1, b"\6")]
    yield "long", [(0x0112, 4, 1, b"\6")]
    yield "signed", [(0x0112, 8, 1, b"\6")]
    yield "two-values", [(0x0112, 3, 2, b"\6\0\3")]
    yield "many-values", [(0x0112, 3, 9, b"\0")]
    yield "no-value", [(0x0112, 3, 0, b"\6")]
    yield "twice", [six, (0x0112, 3, 1, b"\3")]
    yield "behind-unknown-type", [(0x010F, 99, 100, b"\0\4"), six]
    yield "behind-cut-text", [(0x010F, 2, 100, b"\0\4"), six]


def jpegs():
    for name, sub in (("444", 0), ("422", 1), ("420", 2)):
        for width, height in ((1, 1), (7, 5), (16, 16), (17, 33), (203, 149), (500, 375), (333, 501)):
            yield f"jpeg-{name}-{width}x{height}.jpg", encoded(image(width, height, seed=width), "JPEG",
                                                              subsampling=sub, quality=85)
        yield f"jpeg-{name}-progressive.jpg", encoded(image(203, 149), "JPEG", subsampling=sub, progressive=True)
    yield "jpeg-440.jpg", jpeg_440()
    yield "jpeg-rgb.jpg", jpeg_rgb()
    yield "jpeg-grey.jpg", encoded(image(99, 61, "L"), "JPEG")
    yield "jpeg-grey-progressive.jpg", encoded(image(99, 61, "L"), "JPEG", progressive=True)
    cmyk = encoded(image(90, 60, "CMYK"), "JPEG", quality=90)
    yield "jpeg-cmyk.jpg", cmyk
    yield "jpeg-ycck.jpg", patched(cmyk, find_marker(cmyk, 0xEE) + 15, b"\x02")
    yield "jpeg-cmyk-progressive.jpg", encoded(image(90, 60, "CMYK"), "JPEG", progressive=True)
    for orientation in range(1, 9):
        yield f"jpeg-exif-{orientation}.jpg", encoded(image(90, 61), "JPEG", exif=exif_block(orientation))
    yield "jpeg-exif-9.jpg", encoded(image(90, 61), "JPEG", exif=exif_block(9))
    base = encoded(image(203, 149), "JPEG", quality=90)
    sof, sos = find_marker(base, 0xC0), find_marker(base, 0xDA)
    for name, entries in exif_entries():
        block = b"Exif\0\0" + exif_directory(entries)
        yield f"jpeg-exif-{name}.jpg", base[:2] + b"\xff\xe1" + struct.pack(">H", 2 + len(block)) + block + base[2:]
    yield "jpeg-exif-damaged.jpg", base[:2] + b"\xff\xe1\x00\x20Exif\0\0MM\0*\xff\xff\xff\xf0" + bytes(16) + base[2:]
    yield "jpeg-cut-at-3.jpg", base[:3]
    yield "jpeg-cut-in-tables.jpg", base[:60]
    yield "jpeg-cut-in-frame-header.jpg", base[:sof + 8]
    yield "jpeg-cut-behind-headers.jpg", base[:sos + 14]
    yield "jpeg-cut-at-half.jpg", base[:len(base) // 2]
    yield "jpeg-cut-last-byte.jpg", base[:-1]
    yield "jpeg-cut-end-marker.jpg", base[:-2]
    yield "jpeg-progressive-cut.jpg", encoded(image(203, 149), "JPEG", progressive=True)[:-900]
    yield "jpeg-exif-thumbnail-cut.jpg", (base[:2] + b"\xff\xe1" + struct.pack(">H", 2 + 6 + len(base)) + b"Exif\0\0" +
                                          base + base[2:-300])
    yield "jpeg-bytes-behind-end.jpg", base + b"more" * 100
    yield "jpeg-bytes-before-marker.jpg", base[:sof] + b"\0\1\2\3" + base[sof:]
    yield "jpeg-bits-flipped.jpg", patched(base, sos + 2000, bytes(b ^ 0x15 for b in base[sos + 2000:sos + 2003]))
    yield "jpeg-tail-zeroed.jpg", patched(base, len(base) * 3 // 4, bytes(len(base) - len(base) * 3 // 4))
    yield "jpeg-marker-in-data.jpg", patched(base, sos + 3000, b"\xff\xd9")
    yield "jpeg-comment-in-data.jpg", patched(base, sos + 3000, b"\xff\xfe\0\4")
    yield "jpeg-table-in-data.jpg", patched(base, sos + 3000, b"\xff\xc4\0\5")
    yield "jpeg-table-in-data-cut.jpg", patched(base, sos + 3000, b"\xff\xc4\0\5")[:len(base) * 3 // 4]
    # Without its first table, which libjpeg then knows by heart, and with another one amid its data.
    dht = find_marker(base, 0xC4)
    size = struct.unpack(">H", base[dht + 2:dht + 4])[0]
    other = base[dht:dht + 21] + bytes(reversed(base[dht + 21:dht + 2 + size]))
    yield "jpeg-other-table-in-data.jpg", base[:dht] + base[dht + 2 + size:sos + 3000] + other + base[sos + 3000:]
    yield "jpeg-12-bits.jpg", patched(base, sof + 4, b"\x0c")
    yield "jpeg-no-width.jpg", patched(base, sof + 7, b"\0\0")
    yield "jpeg-huge.jpg", patched(base, sof + 5, struct.pack(">HH", 65000, 65000))
    yield "jpeg-no-tables.jpg", base[:2] + base[sof:]
    two = struct.pack(">HHBHHB", 0xFFC0, 14, 8, 149, 203, 2) + b"\1\x11\0\2\x11\0"
    yield "jpeg-2-components.jpg", base[:sof] + two + b"\xff\xda\0\x0a\2\1\0\2\0\0\x3f\0" + base[sos + 14:]
    yield "jpeg-lossless.jpg", patched(base, sof + 1, b"\xc3")


# ---- PNG ----

def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def png(samples, bits, colour, interlaced=False, extra=b"", end=True, broken_crc=False):
    """`samples`: height x width x channels of unsigned integers below 2^bits."""
    samples = np.asarray(samples)
    if samples.ndim == 2:
        samples = samples[..., None]
    height, width, _ = samples.shape

    def rows(part):
        out = b""
        for row in part:
            if bits == 16:
                packed = row.astype(">u2").tobytes()
            elif bits == 8:
                packed = row.astype(np.uint8).tobytes()
            else:
                digits = ((row.reshape(-1, 1) >> np.arange(bits - 1, -1, -1)) & 1).astype(np.uint8)
                packed = np.packbits(digits.reshape(-1)).tobytes()
            out += b"\0" + packed
        return out

    if interlaced:
        raw = b"".join(rows(samples[y::dy, x::dx]) for x, y, dx, dy in ADAM7 if samples[y::dy, x::dx].size)
    else:
        raw = rows(samples)
    data = chunk(b"IDAT", zlib.compress(raw))
    if broken_crc:
        data = data[:-1] + bytes([data[-1] ^ 1])
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, interlaced)) +
            extra + data + (chunk(b"IEND", b"") if end else b""))


def pngs():
    rng = np.random.RandomState(7)

    def noise(bits, channels, width=45, height=31):
        return rng.randint(0, 1 << bits, (height, width, channels))

    palette = chunk(b"PLTE", rng.randint(0, 256, 768).astype(np.uint8).tobytes())
    for bits in (1, 2, 4, 8):
        yield f"png-grey-{bits}.png", png(noise(bits, 1), bits, 0)
        yield f"png-palette-{bits}.png", png(noise(bits, 1), bits, 3, extra=chunk(
            b"PLTE", rng.randint(0, 256, 3 << bits).astype(np.uint8).tobytes()))
    yield "png-grey-16.png", png(noise(16, 1), 16, 0)
    yield "png-grey-alpha-8.png", png(noise(8, 2), 8, 4)
    yield "png-grey-alpha-16.png", png(noise(16, 2), 16, 4)
    yield "png-rgb-8.png", encoded(image(101, 67), "PNG")
    yield "png-rgb-16.png", png(noise(16, 3), 16, 2)
    yield "png-rgba-8.png", encoded(image(101, 67, "RGBA"), "PNG")
    yield "png-rgba-16.png", png(noise(16, 4), 16, 6)
    for name, bits, colour, channels in (("grey-1", 1, 0, 1), ("rgb-8", 8, 2, 3), ("rgba-16", 16, 6, 4), ("palette-4", 4, 3, 1)):
        for width, height in ((45, 31), (3, 2)):
            yield f"png-interlaced-{name}-{width}x{height}.png", png(
                noise(bits, channels, width, height), bits, colour, True, palette if colour == 3 else b"")
    yield "png-palette-transparent.png", png(noise(8, 1), 8, 3, extra=palette + chunk(b"tRNS", bytes(range(200))))
    yield "png-grey-transparent.png", png(noise(8, 1), 8, 0, extra=chunk(b"tRNS", b"\0\5"))
    yield "png-rgb-transparent.png", png(noise(8, 3), 8, 2, extra=chunk(b"tRNS", b"\0\5\0\6\0\7"))
    yield "png-palette-short.png", png(noise(8, 1), 8, 3, extra=chunk(b"PLTE", bytes(range(90))))
    yield "png-gamma.png", png(noise(8, 3), 8, 2, extra=chunk(b"gAMA", struct.pack(">I", 100000)))
    yield "png-text.png", png(noise(8, 3), 8, 2, extra=chunk(b"tEXt", b"Comment\0" + b"x" * 5000))
    yield "png-exif-6.png", encoded(image(90, 61), "PNG", exif=exif_block(6))
    turned = encoded(image(90, 61), "PNG")
    yield "png-exif-behind-pixels.png", turned[:-12] + chunk(b"eXIf", exif_block(6)[6:]) + turned[-12:]
    base = encoded(image(101, 67), "PNG")
    yield "png-cut-in-header.png", base[:20]
    yield "png-cut-at-half.png", base[:len(base) // 2]
    yield "png-no-end.png", png(noise(8, 3), 8, 2, end=False)
    yield "png-broken-checksum.png", png(noise(8, 3), 8, 2, broken_crc=True)
    yield "png-few-rows.png", png(noise(8, 3), 8, 2).replace(struct.pack(">II", 45, 31), struct.pack(">II", 45, 62))
    header = struct.pack(">IIBBBBB", 100000, 100000, 8, 2, 0, 0, 0)
    yield "png-huge.png", b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000)))
    header = struct.pack(">IIBBBBB", 1, 1000001, 8, 0, 0, 0, 0)
    yield "png-long-side.png", b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(2000002)))
    header = struct.pack(">IIBBBBB", 100000, 100000, 8, 2, 0, 0, 0)
    yield "png-no-width.png", b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header[:3] + bytes(5) + header[8:])


# ---- BMP ----

def bmp(width, height, bits, rows, masks=None, info=40, compression=None, palette=b""):
    """`rows`: bytes of all rows in file order, padded; negative height: top row first."""
    if info == 12:
        head = struct.pack("<IHHHH", 12, width, height, 1, bits)
    else:
        compression = compression if compression is not None else 3 if masks else 0
        head = struct.pack("<IiiHHIIiiII", 40, width, height, 1, bits, compression, len(rows), 2835, 2835,
                           len(palette) // 4, 0)
    head += b"".join(struct.pack("<I", mask) for mask in masks or ()) + palette
    return b"BM" + struct.pack("<IHHI", 14 + len(head) + len(rows), 0, 0, 14 + len(head)) + head + rows


def padded(rows):
    return b"".join(row + bytes(-len(row) % 4) for row in rows)


def bmps():
    rng = np.random.RandomState(9)
    rgb = image(45, 31)
    yield "bmp-24.bmp", encoded(rgb, "BMP")
    yield "bmp-32.bmp", encoded(image(45, 31, "RGBA"), "BMP")
    yield "bmp-grey.bmp", encoded(image(45, 31, "L"), "BMP")
    yield "bmp-palette.bmp", encoded(rgb.quantize(200), "BMP")
    yield "bmp-1.bmp", encoded(rgb.convert("1"), "BMP")
    colours = rng.randint(0, 256, (16, 4)).astype(np.uint8).tobytes()
    yield "bmp-4.bmp", bmp(45, 31, 4, padded(rng.bytes(23) for _ in range(31)), palette=colours)
    small = bmp(45, 31, 4, padded(rng.bytes(23) for _ in range(31)), palette=colours)
    yield "bmp-4-no-offset.bmp", patched(small, 10, bytes(4))
    yield "bmp-4-offset-of-palette.bmp", patched(small, 10, struct.pack("<I", 54))
    small = bmp(45, 31, 16, padded(rng.bytes(90) for _ in range(31)), (0xF800, 0x7E0, 0x1F))
    yield "bmp-565-no-offset.bmp", patched(small, 10, bytes(4))
    yield "bmp-palette-short.bmp", bmp(45, 31, 8, padded(rng.bytes(45) for _ in range(31)), palette=colours)
    yield "bmp-top-down.bmp", bmp(45, -31, 24, padded(rng.bytes(135) for _ in range(31)))
    yield "bmp-555.bmp", bmp(45, 31, 16, padded(rng.bytes(90) for _ in range(31)))
    yield "bmp-565.bmp", bmp(45, 31, 16, padded(rng.bytes(90) for _ in range(31)), (0xF800, 0x7E0, 0x1F))
    yield "bmp-os2.bmp", bmp(45, 31, 24, padded(rng.bytes(135) for _ in range(31)), info=12)
    yield "bmp-32-masks.bmp", bmp(45, 31, 32, rng.bytes(45 * 31 * 4), (0xFF0000, 0xFF00, 0xFF))
    yield "bmp-odd-masks.bmp", bmp(45, 31, 32, rng.bytes(45 * 31 * 4), (0xFF0000, 0xFF, 0xFF00))
    yield "bmp-rle.bmp", bmp(4, 2, 8, b"\4\1\0\0\4\2\0\1", compression=1, palette=colours)
    data = encoded(rgb, "BMP")
    yield "bmp-24-no-offset.bmp", patched(data, 10, bytes(4))
    yield "bmp-last-row-not-padded.bmp", data[:-1]
    yield "bmp-cut-last-pixel.bmp", data[:-2]
    yield "bmp-cut.bmp", data[:-500]
    yield "bmp-cut-in-header.bmp", data[:30]
    yield "bmp-huge.bmp", patched(data, 18, struct.pack("<ii", 1 << 20, 1 << 20))
    yield "bmp-negative-width.bmp", patched(data, 18, struct.pack("<i", -45))


# ---- PPM, PGM, PBM ----

def pnms():
    rng = np.random.RandomState(11)
    yield "pnm-p6.ppm", encoded(image(45, 31), "PPM")
    yield "pnm-p5.pgm", encoded(image(45, 31, "L"), "PPM")
    yield "pnm-p4.pbm", encoded(image(45, 31).convert("1"), "PPM")
    yield "pnm-p6-maximum-100.ppm", b"P6\n# a comment\n9 7 100\n" + rng.randint(0, 101, 189).astype(np.uint8).tobytes()
    yield "pnm-p6-maximum-1023.ppm", b"P6 9 7 1023\n" + rng.randint(0, 1024, 189).astype(">u2").tobytes()
    yield "pnm-p6-maximum-65535.ppm", b"P6 9 7 65535\n" + rng.randint(0, 65536, 189).astype(">u2").tobytes()
    yield "pnm-p6-beyond-maximum.ppm", b"P6 9 7 100\n" + rng.randint(0, 256, 189).astype(np.uint8).tobytes()
    yield "pnm-p5-maximum-65535.pgm", b"P5 9 7 65535\n" + rng.randint(0, 65536, 63).astype(">u2").tobytes()
    yield "pnm-p5-maximum-15.pgm", b"P5 9 7 15\n" + rng.randint(0, 16, 63).astype(np.uint8).tobytes()
    for kind, maximum, count in ((1, 1, 63), (2, 255, 63), (2, 15, 63), (3, 255, 189), (3, 1000, 189)):
        words = " ".join(str(x) for x in rng.randint(0, maximum + 1, count))
        head = f"P{kind}\n9 7\n" + (f"{maximum}\n" if kind > 1 else "")
        yield f"pnm-p{kind}-plain-{maximum}.ppm", (head + words + "\n").encode()
    yield "pnm-p1-plain-dense.pbm", b"P1\n9 7\n" + b"011010011" * 7
    yield "pnm-cut.ppm", encoded(image(45, 31), "PPM")[:-10]
    yield "pnm-cut-in-header.ppm", b"P6\n45"
    yield "pnm-plain-cut.ppm", b"P3\n9 7\n255\n1 2 3 4 5 6"
    yield "pnm-plain-words.ppm", b"P3\n2 2\n255\n1 2 three 4 5 6 7 8 9 10 11 12"
    yield "pnm-plain-beyond-maximum.ppm", b"P3\n2 1\n15\n1 2 3 4 5 16"
    yield "pnm-huge.ppm", b"P6 1000000 1000000 255\n" + bytes(100)


# ---- TIFF ----

def tiff(tags, blocks, little=True):
    """One page; `tags` are {tag: (type, values)}; `blocks` go behind the directory, tag 273 or 324 gets their offsets."""
    order = "<" if little else ">"
    sizes = {2: 1, 3: 2, 4: 4}
    codes = {2: "B", 3: "H", 4: "I"}
    offsets_tag = 324 if 322 in tags else 273
    counts_tag = 325 if 322 in tags else 279
    tags = dict(tags)
    tags[offsets_tag] = (4, [0] * len(blocks))
    tags[counts_tag] = (4, [len(b) for b in blocks])
    start = 8 + 2 + 12 * len(tags) + 4
    extra = start
    for kind, values in tags.values():
        size = sizes[kind] * len(values)
        extra += size + size % 2 if size > 4 else 0
    at, offsets = extra, []
    for block in blocks:
        offsets.append(at)
        at += len(block)
    tags[offsets_tag] = (4, offsets)
    directory, values_behind, at = b"", b"", start
    for tag in sorted(tags):
        kind, values = tags[tag]
        packed = struct.pack(f"{order}{len(values)}{codes[kind]}", *values)
        if len(packed) > 4:
            directory += struct.pack(order + "HHII", tag, kind, len(values), at)
            packed += bytes(len(packed) % 2)
            values_behind += packed
            at += len(packed)
        else:
            directory += struct.pack(order + "HHI", tag, kind, len(values)) + packed.ljust(4, b"\0")
    head = (b"II*\0" if little else b"MM\0*") + struct.pack(order + "I", 8)
    return (head + struct.pack(order + "H", len(tags)) + directory + bytes(4) + values_behind + b"".join(blocks))


def tiff_tags(width, height, photometric, bits, **more):
    tags = {256: (4, [width]), 257: (4, [height]), 258: (3, bits), 259: (3, [1]), 262: (3, [photometric]),
            277: (3, [len(bits)]), 278: (4, [height])}
    tags.update({int(k[1:]): v for k, v in more.items()})
    return tags


def tiffs():
    rng = np.random.RandomState(13)
    rgb = image(45, 31)
    for name, img in (("rgb", rgb), ("grey", image(45, 31, "L")), ("rgba", image(45, 31, "RGBA")),
                      ("cmyk", image(45, 31, "CMYK")), ("palette", rgb.quantize(100)), ("1", rgb.convert("1")),
                      ("grey-alpha", image(45, 31, "LA"))):
        yield f"tiff-{name}.tif", encoded(img, "TIFF")
    for compression in ("tiff_lzw", "tiff_adobe_deflate", "packbits", "jpeg", "zstd", "lzma", "webp"):
        yield f"tiff-{compression}.tif", encoded(rgb, "TIFF", compression=compression)
    for compression in ("group3", "group4", "tiff_ccitt"):
        yield f"tiff-{compression}.tif", encoded(rgb.convert("1"), "TIFF", compression=compression)
    yield "tiff-grey-16.tif", encoded(Image.fromarray(rng.randint(0, 65536, (31, 45)).astype(np.uint16)), "TIFF")
    yield "tiff-float.tif", encoded(Image.fromarray(rng.rand(31, 45).astype(np.float32)), "TIFF")
    yield "tiff-pages.tif", encoded(rgb, "TIFF", save_all=True, append_images=[image(20, 20)])
    grey = picture(45, 31, 1)
    white = tiff_tags(45, 31, 0, [8])
    yield "tiff-white-is-zero.tif", tiff(white, [grey.tobytes()])
    yield "tiff-rgb-16.tif", tiff(tiff_tags(45, 31, 2, [16] * 3), [rng.randint(0, 65536, 45 * 31 * 3).astype("<u2").tobytes()])
    yield "tiff-rgb-16-big-endian.tif", tiff(tiff_tags(45, 31, 2, [16] * 3),
                                             [rng.randint(0, 65536, 45 * 31 * 3).astype(">u2").tobytes()], False)
    pixels = picture(64, 32)
    tiles = [pixels[y:y + 16, x:x + 16].tobytes() for y in (0, 16) for x in (0, 16, 32, 48)]
    tiled = {322: (4, [16]), 323: (4, [16])}
    yield "tiff-tiles.tif", tiff({**tiff_tags(64, 32, 2, [8] * 3), **tiled}, tiles)
    yield "tiff-tiles-odd.tif", tiff({**tiff_tags(60, 27, 2, [8] * 3), **tiled}, tiles)
    planes = [pixels[..., c].tobytes() for c in range(3)]
    yield "tiff-planes.tif", tiff(tiff_tags(64, 32, 2, [8] * 3, t284=(3, [2])), planes)
    yield "tiff-planes-alpha.tif", tiff(tiff_tags(64, 32, 2, [8] * 4, t284=(3, [2]), t338=(3, [2])), planes + planes[:1])
    yield "tiff-rgb-more.tif", tiff(tiff_tags(16, 16, 2, [8] * 6, t338=(3, [0] * 3)), [rng.bytes(1536)])
    yield "tiff-cmyk-more.tif", tiff(tiff_tags(16, 16, 5, [8] * 5, t338=(3, [0])), [rng.bytes(1280)])
    yield "tiff-cmyk-planes.tif", tiff(tiff_tags(64, 32, 5, [8] * 4, t284=(3, [2])), planes + planes[:1])
    for orientation in range(2, 9):
        yield f"tiff-orientation-{orientation}.tif", tiff(tiff_tags(64, 32, 2, [8] * 3, t274=(3, [orientation])),
                                                          [pixels.tobytes()])
    yield "tiff-premultiplied.tif", tiff(tiff_tags(16, 16, 2, [8] * 4, t338=(3, [1])), [rng.bytes(1024)])
    yield "tiff-lab.tif", tiff(tiff_tags(16, 16, 8, [8] * 3), [rng.bytes(768)])
    data = encoded(rgb, "TIFF")
    yield "tiff-cut-at-half.tif", tiff(tiff_tags(64, 32, 2, [8] * 3), [pixels.tobytes()])[:3000]
    yield "tiff-cut-in-directory.tif", data[:20]
    yield "tiff-lzw-damaged.tif", (lambda d: patched(d, 600, b"\xff" * 40))(encoded(rgb, "TIFF", compression="tiff_lzw"))
    yield "tiff-huge.tif", tiff(tiff_tags(1 << 20, 1 << 20, 2, [8] * 3), [bytes(100)])


# ---- WebP and others ----

def webps():
    rgb = image(101, 67)
    yield "webp-lossy.webp", encoded(rgb, "WEBP", quality=80)
    for width, height in ((1, 1), (2, 3), (16, 16), (203, 149)):
        yield f"webp-lossy-{width}x{height}.webp", encoded(image(width, height, "RGBA", width), "WEBP", quality=60)
    yield "webp-lossless.webp", encoded(rgb, "WEBP", lossless=True)
    yield "webp-alpha.webp", encoded(image(101, 67, "RGBA"), "WEBP", quality=80)
    yield "webp-alpha-lossless.webp", encoded(image(101, 67, "RGBA"), "WEBP", lossless=True, exact=True)
    yield "webp-animated.webp", encoded(rgb, "WEBP", save_all=True, append_images=[image(101, 67, seed=3)], duration=100)
    yield "webp-exif-6.webp", encoded(rgb, "WEBP", exif=exif_block(6))
    data = encoded(rgb, "WEBP", quality=80)
    yield "webp-cut-at-half.webp", data[:len(data) // 2]
    yield "webp-cut-in-header.webp", data[:15]
    yield "webp-damaged.webp", patched(data, 20, b"\xff" * 12)


def others():
    yield "empty.jpg", b""
    yield "text.jpg", b"This is not a picture, whatever its name says.\n"
    yield "html.png", b"<!DOCTYPE html><html><body>404 Not Found</body></html>"
    yield "gif-named.jpg", encoded(image(20, 20), "GIF")
    yield "one-byte.jpg", b"\xff"
    yield "zeros.jpg", bytes(5000)
    jpeg = encoded(image(60, 40), "JPEG")
    yield "jpeg-named.png", jpeg
    yield "png-named.JPEG", encoded(image(60, 40), "PNG")
    yield "no-extension", jpeg
    yield "sp ace, comma;\u00e4\u00f6\u4e2d'quote\".jpg", jpeg
    yield "-dash.jpg", jpeg
    yield "dots..JPG.jpeg", jpeg


def all_files():
    for family in (jpegs, pngs, bmps, pnms, tiffs, webps, others):
        yield from family()


def crc(img):
    return zlib.crc32(np.asarray(img).tobytes())


def pillow_says(path):
    try:
        with Image.open(path) as img:
            turned = ImageOps.exif_transpose(img).convert("RGB")
        with Image.open(path) as img:
            rgb = img.convert("RGB")
        return f"ok {rgb.width} {rgb.height} {crc(rgb)} {crc(turned)}"
    except Exception as error:  # Pillow raises nearly anything
        return "bad " + (type(error).__name__ + " " + str(error)).replace("\n", " ")


def main():
    files = os.path.join(sys.argv[1], "files")
    os.makedirs(files, exist_ok=True)
    with open(os.path.join(sys.argv[1], "expected.txt"), "w", encoding="utf-8") as expected:
        for name, data in all_files():
            path = os.path.join(files, name)
            with open(path, "wb") as file:
                file.write(data)
            expected.write(f"{name}\t{pillow_says(path)}\n")


if __name__ == "__main__":
    main()

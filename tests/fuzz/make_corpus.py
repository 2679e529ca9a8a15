#!/usr/bin/python3
"""Writes the corpora: corpus/image, small pictures of each format; corpus/validate, one plain descriptor of each
operation, and the traps that took a fuzzer longest to find; corpus/control, what clients do to a server; corpus/yaml,
corpus/format, corpus/checkpoint and corpus/data, good files and a few that are not.

The form of an input is told in the target's source. Run when the layout of an entry or a message changes, and check
the result in.
"""
import gzip
import json
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


# Steps of control_fuzz: what % 8, the connection times 8; 128 and 224 are flags.
MESSAGE, RAW, CLOSE, DRAIN, AWAIT, POKE, SUBMIT = range(1, 8)


def at(connection, what):
    return bytes([what + 8 * connection])


def attach(connection, world, rank, device, arena=4096, name=0):
    return at(connection, MESSAGE) + struct.pack("<BBBBHB", 6, world - 1, rank, device, arena // 3, name)


def typed(connection, kind, body, request=1):
    return at(connection, MESSAGE) + bytes([kind]) + body + bytes([request])


def plain(connection, message):
    return at(connection, MESSAGE) + bytes([8, message])


def queue(connection, devices, name=0):
    return at(connection, MESSAGE) + bytes([9, devices, name])


def evict(connection, name=0):
    return at(connection, MESSAGE) + bytes([12, name])


def awaited(connection):
    return at(connection, AWAIT) + b"\0"


def entry(op, count=4, recv=64):
    """From byte 16 of a descriptor on."""
    return struct.pack("<QQQdIIIIBBBBB", count, 0, recv, 1.0, 0, 1000, 0, 0, op, 4, 0, 0, 0).ljust(112, b"\0")


def named(text, size):
    return text.encode().ljust(size, b"\0")


def scripts():
    welcome = b"".join(awaited(c) for c in range(2))
    commit = struct.pack("<qQQQQQIIII", 7, 1, 1, 0, 2048, 2, 1, 1, 0, 0)
    alone = attach(0, 1, 0, 0) + awaited(0) + awaited(0)
    yield "ask", plain(0, 7) + plain(0, 24) + typed(0, 3, bytes(8) + named("a", 72)) + typed(0, 4, bytes(8) + named("a", 72)) + awaited(0)
    yield "alone", alone + b"".join(at(0, SUBMIT) + entry(op) for op in (3, 1, 2, 15, 16)) + at(0, DRAIN)
    yield "together", (attach(0, 2, 0, 0) + attach(1, 2, 1, 1) + welcome + welcome +
                       at(0, SUBMIT) + entry(1) + at(1, SUBMIT) + entry(1) + plain(0, 6) + plain(1, 6))
    yield "checkpoint", alone + at(0, POKE) + b"\0\0\1" + bytes(range(64)) + typed(0, 2, commit) + typed(0, 5, named("a", 72)) + awaited(0)
    yield "forming", attach(0, 3, 1, 0) + attach(1, 3, 1, 1) + attach(2, 2, 0, 2) + at(0, CLOSE) + attach(1, 3, 1, 1)
    yield "queue", (queue(0, 3) + awaited(0) + queue(1, 6, 1) + awaited(1) + attach(2, 1, 0, 0) + awaited(2) + plain(3, 24) +
                    attach(3, 1, 0, 2, name=2) + awaited(3) + evict(2, 0) + awaited(1) + evict(2, 1) + awaited(1))
    yield "noise", at(0, RAW) + struct.pack("<H", 16) + struct.pack("<IIQ", 7, 16, 1) + at(1, RAW) + struct.pack("<H", 40) + bytes(range(40))
    yield "descriptor", bytes([128 + RAW]) + struct.pack("<H", 16) + struct.pack("<IIQ", 7, 16, 1)
    yield "greet", bytes([224 + MESSAGE]) + bytes([0]) + struct.pack("<QIIQ", 0x6f6c6c656875706e, 1, 0, 1) + bytes(32)


def yaml_texts():
    jobs = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../config/jobs")
    for name in sorted(os.listdir(jobs)):
        if name.endswith(".yaml"):
            with open(os.path.join(jobs, name), "rb") as file:
                yield name[:-5], b"j" + file.read()
    yield "daemon", b"ddevices: 4\ndevice_memory: 512MiB\nengine_threads: 2\nlog_level: info,coll=trace\nstate_dir: /a b\n"
    yield "quotas", (b"dcheckpoint_limit: 1GiB\nquotas:\n  devices: 4\n  users:\n    alice: {devices: 8, memory: 1GiB}\n"
                     b"    1001: {}\nadmin_group: \"\"\n")
    for i, text in enumerate(("optimizer.lr=0.1", "devices=[0, 2]", "checkpoint.resume=/a/b", "schedule.milestones=[3, 5]")):
        yield f"set-{i}", b"s" + text.encode()
    yield "bomb", b"jname: a\na: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"
    yield "deep", b"jname: a\nx: " + b"[" * 40 + b"]" * 40
    yield "block", b"jname: >-\n  a\n  b\ntrain:\n  ? epochs\n  : 3\n---\n"


def manifest(tensors):
    digest = "0" * 32
    files = [{"name": name, "bytes": 5, "xxh3_128": digest} for name in ("model.safetensors", "optimizer.safetensors", "state.json")]
    body = {"schema": 1, "run": "a", "step": 7, "sequence": 3, "created_unix_ms": 5, "weights_digest": "0" * 16, "files": files,
            "tensors": [{"file": "model.safetensors", "name": name, "xxh3_64": "0" * 16} for name in tensors]}
    text = json.dumps(body, indent=2)
    return text[:text.rindex("}")].rstrip().encode() + b",\n"  # the last field and the brace are the trailer


def safetensors(header, data):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def state():
    exact = {"value": 0.5, "bits": 4602678819172646912}
    body = {"schema": 2, "version": "0", "arch": "resnet8", "num_classes": 10, "world": 2, "global_batch": 64, "seed": 3, "next_epoch": 1,
            "step_in_epoch": 2, "global_step": 12, "epoch_loss_sum": exact, "epoch_top1": exact, "epoch_top5": exact, "epoch_samples": 9,
            "best_acc1": exact, "best_epoch": 0, "last_acc1": exact, "skipped_steps": 1, "amp": True, "class_table": ["cat", "dog"],
            "class_table_hash": "0123456789abcdef", "start_epoch": None, "settings": {"optimizer.lr": "0.1"},
            "scaler": {"dynamic": True, "scale": exact, "growth_factor": {"bits": 4611686018427387904}, "backoff_factor": exact,
                       "growth_interval": 2000, "growth_tracker": 1, "skipped_steps": 1, "consecutive_skips": 0}}
    return json.dumps(body).encode()


def formats():
    yield "manifest", b"M" + manifest(["w", "b"])
    yield "manifest-raw", b"m" + manifest([])
    tensor = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}
    yield "safetensors", b"s" + safetensors({"__metadata__": {"format": "pt"}, "w": tensor}, bytes(16))
    yield "safetensors-gap", b"s" + safetensors({"w": tensor}, bytes(17))
    yield "state", b"t" + state()


def damages():
    yield "none", b""
    yield "cut", bytes([0, 1, 20, 0, 0, 0])
    yield "flip", bytes([1, 0, 200, 0, 9, 0])
    yield "grow", bytes([2, 2, 1, 0, 32, 0])
    yield "forged", bytes([131, 0, 60, 0, 57, 0])
    yield "replace", bytes([3, 3, 30, 0, 0, 4]) + b"9999"


def data_files():
    images = struct.pack(">IIII", 0x803, 2, 3, 3) + bytes(range(18))
    yield "idx", b"i" + images
    yield "idx-gzip", b"i" + gzip.compress(images, mtime=0)
    yield "idx-forged", b"i" + struct.pack(">IIII", 0x803, 65535, 65535, 1)
    yield "labels", b"l" + struct.pack(">II", 0x801, 3) + b"\1\2\3"
    yield "cifar10", b"c" + b"\3" + bytes(3072)
    yield "cifar100", b"C" + b"\1\x62" + bytes(3072)
    yield "names", b"n" + b"\n".join(b"class %d" % i for i in range(10)) + b"\r\n"


def main():
    corpus = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")
    for folder, entries in (("validate", inputs()), ("image", pictures()), ("control", scripts()), ("yaml", yaml_texts()),
                            ("format", formats()), ("checkpoint", damages()), ("data", data_files())):
        os.makedirs(os.path.join(corpus, folder), exist_ok=True)
        for name, data in entries:
            with open(os.path.join(corpus, folder, name), "wb") as file:
                file.write(data)


if __name__ == "__main__":
    main()

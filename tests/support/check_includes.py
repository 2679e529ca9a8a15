#!/usr/bin/python3
"""Fails on an include that goes against the arrows of the design: base <- shm <- {daemon, client},
config <- {daemon, client}, model <- client; and on a third-party header outside the files that may know it.

Reads the text of the sources only, so it needs no build. `--self-test` proves that each rule can fail.
Run: tests/support/check_includes.py [ROOT]
"""
import fnmatch
import os
import re
import sys

# Folder (longest prefix wins) -> folders whose headers it may include.
ARROWS = {
    "shm/base": {"shm/base"},
    "shm/format": {"shm/format", "shm/base"},
    "shm": {"shm", "shm/base"},
    "config": {"config", "shm/base"},
    "model": {"model", "shm/base"},
    "daemon": {"daemon", "config", "shm", "shm/base", "shm/format"},
    "client": {"client", "config", "model", "shm", "shm/base", "shm/format"},
}

# Start of an angle include -> the files that may have it.
THIRD_PARTY = {
    "yaml-cpp/": ["config/yaml_tree.cpp"],
    "CLI/": ["client/cli/*", "daemon/main.cpp"],
    "dnnl": ["*_onednn.cpp"],
    "oneapi/dnnl": ["*_onednn.cpp"],
    "nlohmann/": ["*.cpp"],
    "jpeglib.h": ["client/image/jpeg_codec.cpp"],
    "prometheus/": ["daemon/metrics/exposition.cpp"],
    "civetweb.h": ["client/metrics/http_endpoint.cpp"],
    "png.h": ["client/image/png_codec.cpp"],
    "tiffio.h": ["client/image/tiff_codec.cpp"],
    "webp/": ["client/image/webp_codec.cpp"],
    "systemd/": ["daemon/service/notify.cpp", "daemon/service/inherited.cpp", "daemon/log_sinks.cpp"],
}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
SOURCES = (".hpp", ".cpp", ".h", ".inc")


def folder_of(path):
    """The longest folder of ARROWS that holds the path, or None."""
    held = [folder for folder in ARROWS if path.startswith(folder + "/")]
    return max(held, key=len, default=None)


def problem(path, quote, header):
    """What is wrong with one include, or None. Quotes and angles obey the same arrows."""
    here, there = folder_of(path), folder_of(header)
    if there is not None:
        if there not in ARROWS[here]:
            return f"{here} may include {', '.join(sorted(ARROWS[here]))} only"
        return None
    if quote == '"':
        return "includes in quotes name a file from the root, like \"shm/futex.hpp\""
    for start, allowed in THIRD_PARTY.items():
        if header.startswith(start) and not any(fnmatch.fnmatch(path, pattern) for pattern in allowed):
            return f"this header may be included by {', '.join(allowed)} only"
    return None


def check_text(path, text):
    for match in INCLUDE.finditer(text):
        why = problem(path, match[1], match[2])
        if why:
            line = text.count("\n", 0, match.start()) + 1
            yield f"{path}:{line}: #include {match[2]}: {why}"


def check_tree(root):
    """All problems below the folders of ARROWS, and how many files were read."""
    found, files = [], 0
    for top in sorted({folder.split("/")[0] for folder in ARROWS}):
        for directory, _, names in os.walk(os.path.join(root, top)):
            for name in sorted(names):
                if not name.endswith(SOURCES):
                    continue
                full = os.path.join(directory, name)
                with open(full, encoding="utf-8") as file:
                    found += check_text(os.path.relpath(full, root), file.read())
                files += 1
    return found, files


def self_test():
    wrong = [
        ("shm/base/fd.hpp", '"shm/futex.hpp"'), ("shm/format/digest.cpp", '"shm/futex.hpp"'),
        ("shm/futex.cpp", '"config/job.hpp"'), ("shm/futex.cpp", '"shm/format/digest.hpp"'),
        ("config/job.hpp", '"shm/messages.hpp"'), ("model/sgd.cpp", '"shm/futex.hpp"'),
        ("model/sgd.cpp", '"config/job.hpp"'), ("daemon/main.cpp", '"client/api/device.hpp"'),
        ("daemon/main.cpp", "<model/sgd.hpp>"), ("client/api/device.cpp", '"daemon/log.hpp"'),
        ("client/api/device.cpp", '"device.hpp"'), ("config/schema.cpp", "<yaml-cpp/yaml.h>"),
        ("daemon/log.cpp", "<CLI/CLI.hpp>"), ("model/graph.cpp", "<oneapi/dnnl/dnnl.hpp>"),
        ("model/graph.cpp", "<dnnl.hpp>"), ("client/render/events.hpp", "<nlohmann/json.hpp>"),
        ("client/data/loader.cpp", "<jpeglib.h>"), ("daemon/main.cpp", "<systemd/sd-daemon.h>"),
        ("client/data/loader.cpp", "<jpeglib.h>"), ("daemon/control/server.cpp", "<prometheus/registry.h>"),
    ]
    right = [
        ("shm/futex.hpp", '"shm/base/clock.hpp"'), ("daemon/main.cpp", "<CLI/CLI.hpp>"),
        ("model/primitives/linear_onednn.cpp", "<dnnl.hpp>"), ("client/train/epoch.cpp", '"model/sgd.hpp"'),
        ("daemon/log.cpp", "<string>"), ("config/yaml_tree.cpp", "<yaml-cpp/yaml.h>"),
    ]
    missed = [case for case in wrong if not list(check_text(case[0], f"#include {case[1]}\n"))]
    accused = [case for case in right if list(check_text(case[0], f"#include {case[1]}\n"))]
    for case in missed:
        print("not found:", *case)
    for case in accused:
        print("found but right:", *case)
    return 1 if missed or accused else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
    found, files = check_tree(root)
    for line in found:
        print(line)
    print(f"{files} files, {len(found)} wrong includes")
    return 1 if found or files == 0 else 0


if __name__ == "__main__":
    sys.exit(main())

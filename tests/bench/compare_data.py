#!/usr/bin/python3
"""Photos a second of one processor core, loader included: `npu bench data` beside torchvision's ImageFolder and DataLoader, in turn.

DataLoader with workers=0 and PyTorch with one thread, beside ours with no thread and with one, all pinned to one core: batches
of 32, random resized crop and flip (or validation's resize and crop) to 224x224 fp32. Rounds alternate who goes first; a
number is the median over rounds, of images a second of own processor time (others disturb it less) and of images a second.
Needs Debian's python3-torchvision. Exit code 1 below --floor.
Run: tests/bench/compare_data.py [--build DIR] [--photos ARCHIVE.tar] [--rounds 5] [--core 0] [--mode train|val]
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def output(command, core):
    return subprocess.run(["taskset", "-c", str(core), *command], capture_output=True, text=True, check=True, timeout=600).stdout


def run_npu(args, photos, workers):
    out = json.loads(output([os.path.join(args.build, "bin/npu"), "bench", "data", photos, "--workers", workers, "--batch", "32",
                             "--batches", str(args.batches), "--" + args.mode, "-o", "json"], args.core))
    return out["img_cpu_s"], out["img_s"]


def run_torch(args, photos, _):
    script = os.path.join(HERE, "compare_images.py")
    return [float(x) for x in output(["/usr/bin/python3", script, "--torch-worker", photos, args.mode], args.core).split()[:2]]


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build/release"))
    parser.add_argument("--photos", default=os.path.join(ROOT, "../shared/data/imagenet-samples.tar"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=18, help="of ours in a round; 9 are one pass over the sample photos")
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("--mode", choices=("train", "val"), default="train")
    parser.add_argument("--floor", type=float, default=1.6, help="ratio of processor time that ours must reach")
    return parser.parse_args()


def main():
    args = parse_args()
    sides = {"npu, 0 workers": (run_npu, "0"), "npu, 1 worker": (run_npu, "1"), "torchvision": (run_torch, None)}
    found = {name: [] for name in sides}
    with tempfile.TemporaryDirectory(prefix="npu-photos-") as folder:
        with tarfile.open(args.photos) as archive:
            archive.extractall(folder)
        photos = os.path.join(folder, os.listdir(folder)[0])
        for i in range(args.rounds):
            for name in sorted(sides, reverse=i % 2 == 1):
                run, workers = sides[name]
                found[name].append(run(args, photos, workers))
            print(", ".join(f"{name} {found[name][-1][0]:.0f} ({found[name][-1][1]:.0f})" for name in sides), file=sys.stderr)
    middle = {name: [statistics.median(numbers[k] for numbers in found[name]) for k in (0, 1)] for name in sides}
    theirs = middle["torchvision"]
    print(f"| {args.mode} | images/s of processor time | ratio | images/s | ratio |\n|---|---|---|---|---|")
    for name, ours in middle.items():
        print(f"| {name} | {ours[0]:.0f} | {ours[0] / theirs[0]:.2f} | {ours[1]:.0f} | {ours[1] / theirs[1]:.2f} |")
    return 0 if min(middle[name][0] for name in sides if name != "torchvision") >= args.floor * theirs[0] else 1


if __name__ == "__main__":
    sys.exit(main())

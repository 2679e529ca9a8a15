#!/usr/bin/python3
"""Photos a second of one processor core: image_bench beside torchvision's ImageFolder and DataLoader, in turn.

Both read, decode, RandomResizedCrop(224), flip and normalise to fp32. DataLoader with workers=0, batches of 32, PyTorch with
one thread. Rounds alternate who goes first; a number is the median over rounds, of images a second of own processor
time (others disturb it less) and of images a second. Needs Debian's python3-torchvision.
Run: tests/bench/compare_images.py [--build DIR] [--photos ARCHIVE.tar] [--rounds 5] [--core 0] [--mode train|val]
"""
import argparse
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def torch_worker(folder, mode):
    import torch
    from torchvision import datasets, transforms
    torch.set_num_threads(1)
    crop = ([transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip()] if mode == "train" else
            [transforms.Resize(256), transforms.CenterCrop(224)])
    last = [transforms.ToTensor(), transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
    data = datasets.ImageFolder(folder, transforms.Compose(crop + last))
    loader = torch.utils.data.DataLoader(data, batch_size=32, shuffle=False, num_workers=0)
    start, cpu = time.perf_counter(), time.process_time()
    images = sum(len(labels) for _, labels in loader)
    print(images / (time.process_time() - cpu), images / (time.perf_counter() - start))


def run(command, core):
    done = subprocess.run(["taskset", "-c", str(core), *command], capture_output=True, text=True, check=True, timeout=600)
    return [float(number) for number in done.stdout.split()[:2]]


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "--torch-worker":
        return torch_worker(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build/release"))
    parser.add_argument("--photos", default=os.path.join(ROOT, "../shared/data/imagenet-samples.tar"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("--mode", choices=("train", "val"), default="train")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="npu-images-") as folder:
        with tarfile.open(options.photos) as archive:
            archive.extractall(folder)
        photos = os.path.join(folder, os.listdir(folder)[0])
        sides = {
            "npu": [os.path.join(options.build, "bin/image_bench"), photos, "1", options.mode],
            "torchvision": ["/usr/bin/python3", os.path.abspath(__file__), "--torch-worker", photos, options.mode],
        }
        found = {name: [] for name in sides}
        for i in range(options.rounds):
            for name in sorted(sides, reverse=i % 2 == 1):
                found[name].append(run(sides[name], options.core))
            print(", ".join("{} {:.0f} ({:.0f})".format(name, *found[name][-1]) for name in sides), file=sys.stderr)
    for i, of in enumerate(("processor time", "the clock")):
        ours, theirs = (statistics.median(numbers[i] for numbers in found[name]) for name in ("npu", "torchvision"))
        print(f"{options.mode}: npu {ours:.0f} images a second of {of}, torchvision {theirs:.0f}, ratio {ours / theirs:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

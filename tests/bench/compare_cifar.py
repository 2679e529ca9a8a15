#!/usr/bin/python3
"""CIFAR-10 from JPEG files to the end of the shipped recipe: `npu launch` on eight ranks beside PyTorch, one process.

Unpacks --archive (train/ and test/ with a folder of JPEG files a class) unless --data names the folder, trains
config/jobs/resnet20-cifar10-jpeg.yaml with a private daemon, then torch_cifar.py with the same values, and prints
accuracies and wall times: of the whole commands, start and decoding included, and of PyTorch's training loop alone. Exit code 1 if ours is below --floor or further than --bound from PyTorch.
Run: tests/bench/compare_cifar.py --archive cifar10-jpeg.tar.gz [--build DIR] [--only npu torch] [--set train.epochs=1]
Takes about an hour on two cores; a log goes to --log.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
JOB = os.path.join(ROOT, "config/jobs/resnet20-cifar10-jpeg.yaml")


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=os.path.abspath, default=os.path.join(ROOT, "build/release"),
                        help="build directory that holds bin/")
    parser.add_argument("--archive", type=os.path.abspath, help="tar.gz of the JPEG files")
    parser.add_argument("--data", type=os.path.abspath, help="folder with train/ and test/")
    parser.add_argument("--only", nargs="+", choices=["npu", "torch"], default=["npu", "torch"])
    parser.add_argument("--set", action="append", default=[], help="overrides of the job, for both sides")
    parser.add_argument("--floor", type=float, default=86, help="top-1, percent, that ours must reach")
    parser.add_argument("--bound", type=float, default=0.4, help="points that ours and PyTorch's may differ")
    parser.add_argument("--log", type=argparse.FileType("w"), default=sys.stderr, help="records of both sides")
    args = parser.parse_args()
    if not args.archive and not args.data:
        parser.error("give --archive FILE or --data FOLDER")
    return args


def overrides(args, folder):
    flags = []
    for item in [f"data.path={folder}", "checkpoint.resume=never"] + args.set:
        flags += ["--set", item]
    return flags


def recipe(args, folder):
    """The job's effective values as {"train.epochs": 15, ...}."""
    command = [os.path.join(args.build, "bin/npu"), "config", "print", JOB] + overrides(args, folder)
    values, section = {}, ""
    for line in subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines():
        key, _, text = line.strip().partition(":")
        if not line.startswith(" "):
            section = key + "." if not text else ""
        try:
            values[section + key] = json.loads(text)  # numbers, lists of numbers, true and false read the same
        except ValueError:
            values[section + key] = text.strip()
    return values


def run_npu(args, folder):
    """Accuracy of the last epoch and seconds of the whole command."""
    begin, done = time.monotonic(), None
    with tempfile.TemporaryDirectory(prefix="npu-cifar-") as home:
        env = {**os.environ, "XDG_RUNTIME_DIR": home, "XDG_STATE_HOME": home}
        command = [os.path.join(args.build, "bin/npu"), "launch", JOB, "-o", "json", "--daemon", "private"]
        with subprocess.Popen(command + overrides(args, folder), env=env, stdout=subprocess.PIPE, text=True) as run:
            for line in run.stdout:
                record = json.loads(line)
                if record.get("type") in ("start", "epoch", "done"):
                    print("npu", line.strip(), file=args.log, flush=True)
                if record.get("type") == "done":
                    done = record
        if run.returncode != 0 or done is None:
            raise SystemExit(f"{' '.join(command)}: exit code {run.returncode}")
    return done["acc1"], time.monotonic() - begin


def run_torch(args, folder):
    """Accuracy of the last epoch, seconds of the whole command and of its training loop."""
    begin = time.monotonic()
    command = ["/usr/bin/python3", os.path.join(HERE, "torch_cifar.py"), folder, json.dumps(recipe(args, folder)),
               "--threads", str(os.cpu_count())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        for line in run.stdout:
            print("torch", line.strip(), file=args.log, flush=True)
            last = json.loads(line)
    if run.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: exit code {run.returncode}")
    return last["val_acc1"], time.monotonic() - begin, last["seconds"]


def measure(args, folder):
    sides = {"npu": run_npu, "torch": run_torch}
    print("| side | top-1 | seconds |\n|---|---|---|", flush=True)
    results = {}
    for side in args.only:
        results[side] = sides[side](args, folder)
        print(f"| {side} | {results[side][0]:.2f} | {results[side][1]:.0f} |", flush=True)
    failed = "npu" in results and results["npu"][0] < args.floor
    if len(results) == 2:
        apart = results["npu"][0] - results["torch"][0]
        whole, loop = (results["torch"][i] / results["npu"][1] for i in (1, 2))
        print(f"\n{apart:+.2f} points, {whole:.2f} times as fast; beside PyTorch's training loop alone {loop:.2f}")
        failed = failed or abs(apart) > args.bound
    return 1 if failed else 0


def main():
    args = parse_args()
    if args.data:
        return measure(args, args.data)
    with tempfile.TemporaryDirectory(prefix="npu-cifar-data-") as folder:
        subprocess.run(["tar", "-xzf", args.archive, "-C", folder], check=True)
        return measure(args, folder)


if __name__ == "__main__":
    sys.exit(main())

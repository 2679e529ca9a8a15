#!/usr/bin/python3
"""Accuracy of mixed precision beside fp32: the shipped Fashion-MNIST job, for each seed once a precision.

Each run is a whole `npu launch` with a private daemon. The table gives the validation accuracy of the last epoch,
its distance to fp32 and the number of skipped steps. One seed moves the accuracy of three epochs by some tenths of a
point, so with several --seeds the means are compared. Exit code 1 if a precision is more than --bound points away.
Run: tests/bench/compare_precision.py [--build DIR] [--epochs 3] [--seeds 0 1 2] [--only fp32 bf16]
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
JOB = os.path.join(ROOT, "config/jobs/resnet20-fashion-mnist.yaml")

PRECISIONS = {
    "fp32": [],
    "fp16 dynamic": ["precision.amp=true", "precision.dtype=fp16", "precision.loss_scale=dynamic"],
    "fp16 static 1024": ["precision.amp=true", "precision.dtype=fp16", "precision.loss_scale=1024"],
    "bf16": ["precision.amp=true", "precision.dtype=bf16", "precision.loss_scale=1"],
}


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=os.path.abspath, default=os.path.join(ROOT, "build/release"),
                        help="build directory that holds bin/")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--bound", type=float, default=0.5, help="points of accuracy that a precision may differ")
    parser.add_argument("--only", nargs="+", choices=list(PRECISIONS), default=list(PRECISIONS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--set", action="append", default=[], help="further overrides, for all runs")
    return parser.parse_args()


def train(args, settings):
    """The `done` record of one run, with the steps of the scale that overflowed."""
    with tempfile.TemporaryDirectory(prefix="npu-precision-") as home:
        env = {**os.environ, "XDG_RUNTIME_DIR": home, "XDG_STATE_HOME": home}
        command = [os.path.join(args.build, "bin/npu"), "launch", JOB, "-o", "json"]
        fixed = [f"train.epochs={args.epochs}", "checkpoint.resume=never", "train.print_freq=100000"]
        for item in fixed + settings + args.set:
            command += ["--set", item]
        done, overflows = None, []
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as run:
            for line in run.stdout:
                record = json.loads(line)
                if record.get("type") == "done":
                    done = record
                if record.get("type") == "overflow":
                    overflows.append(record["step"])
        if run.returncode != 0 or done is None:
            raise SystemExit(f"{' '.join(command)}: exit code {run.returncode}")
        return done, overflows


def main():
    args = parse_args()
    print("| precision | seed | val acc1 | to fp32 | skipped steps | img/s | weights digest |")
    print("|---|---|---|---|---|---|---|", flush=True)
    found = {name: [] for name in args.only}
    for seed in args.seeds:
        for name in args.only:
            begin = time.monotonic()
            done, overflows = train(args, PRECISIONS[name] + [f"seed={seed}"])
            found[name].append(done["acc1"])
            same_seed = found["fp32"][-1] if found.get("fp32") else None
            print(f"| {name} | {seed} | {done['acc1']:.2f} | {distance(done['acc1'], same_seed)} | "
                  f"{done['skipped_steps']} | {done['img_s']:.0f} | {done['weights_digest']} |", flush=True)
            print(f"{name}: {time.monotonic() - begin:.0f} s, overflow at steps {overflows}", file=sys.stderr)
    means = {name: statistics.fmean(values) for name, values in found.items()}
    base = means.get("fp32")
    if len(args.seeds) > 1:
        for name, mean in means.items():
            print(f"| {name} | mean | {mean:.2f} | {distance(mean, base)} | | | |")
    return 1 if base is not None and max(abs(m - base) for m in means.values()) > args.bound else 0


def distance(accuracy, base):
    return "-" if base is None else f"{accuracy - base:+.2f}"


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/python3
"""A training step of `npu bench step` beside PyTorch's, in turn on the same cores, and beside our own variants.

Forward, loss, backward and SGD with momentum and weight decay on one batch of noise. PyTorch gets channels-last
images and weights, in-place ReLUs, and over gloo DistributedDataParallel without buffer broadcast and with gradients
as bucket views. A round visits every side of a case, who goes first changes from round to round; a number is the
median over rounds of the median over a round's steps. Needs Debian's python3-torch.
Run: tests/bench/compare_step.py [--build DIR] [--case resnet50 resnet20 ...] [--rounds 3] [--steps 5]
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

import processes
from compare_ddp import ROOT, machine

sys.path.insert(0, os.path.join(ROOT, "tests/support"))

MIB = 1 << 20


class Side(NamedTuple):
    """One program with its options; `engine` is npu or torch."""
    label: str
    engine: str
    batch: int  # of one rank
    precision: str = "fp32"
    threads: int = 1
    ranks: int = 1


class Case(NamedTuple):
    """Sides of one question; the first is compared with each of the others."""
    arch: str
    image_size: int
    classes: int
    sides: list


def pair(batch, precision="fp32", threads=1):
    return [Side("npu", "npu", batch, precision, threads), Side("torch", "torch", batch, precision, threads)]


CASES = {
    "resnet50": Case("resnet50", 224, 1000, pair(16)),
    "resnet50-bf16": Case("resnet50", 224, 1000, pair(16, "bf16") + [Side("npu fp32", "npu", 16)]),
    "resnet50-fp16": Case("resnet50", 224, 1000, [Side("npu", "npu", 16, "fp16"), Side("npu fp32", "npu", 16)]),
    "resnet20": Case("resnet20", 32, 10, pair(128)),
    "resnet50-ranks": Case("resnet50", 224, 1000, [
        Side("npu, 8 ranks x 4", "npu", 4, ranks=8), Side("DDP gloo, 8 ranks x 4", "torch", 4, ranks=8),
        Side("npu, 1 process, 2 threads", "npu", 32, threads=2)]),
    "resnet20-ranks": Case("resnet20", 32, 10, [
        Side("npu, 8 ranks x 16", "npu", 16, ranks=8), Side("DDP gloo, 8 ranks x 16", "torch", 16, ranks=8)]),
    "resnet50-memory": Case("resnet50", 224, 1000, pair(32)),
}


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=os.path.abspath, default=os.path.join(ROOT, "build/release"),
                        help="build directory that holds bin/")
    parser.add_argument("--case", nargs="+", choices=list(CASES), default=list(CASES), metavar="NAME",
                        help="of: " + ", ".join(CASES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5, help="timed steps of a round")
    parser.add_argument("--warmup", type=int, default=2, help="steps before them")
    parser.add_argument("--foreign", type=float, default=0.05, help="share of CPU time that others may take unmarked")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds after which a measurement is killed")
    parser.add_argument("--torch-worker", default=None, help=argparse.SUPPRESS)
    return parser.parse_args()


# ---- PyTorch: this file again, as one process, or as one that starts the ranks of a job.

def torch_steps(spec, rank):
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F
    from torch_resnet import ResNet

    torch.set_num_threads(spec["threads"])
    torch.manual_seed(0)
    model = ResNet(spec["arch"], 3, spec["classes"]).to(memory_format=torch.channels_last)
    if spec["ranks"] > 1:
        from torch.nn.parallel import DistributedDataParallel
        dist.init_process_group("gloo", init_method="file://" + spec["rendezvous"], rank=rank, world_size=spec["ranks"])
        model = DistributedDataParallel(model, broadcast_buffers=False, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=1e-4)
    size = spec["image_size"]
    images = torch.randn(spec["batch"], 3, size, size).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, spec["classes"], (spec["batch"],))
    times, cpu_times = [], []
    for _ in range(spec["warmup"] + spec["steps"]):
        begin, cpu_begin = time.monotonic(), time.process_time()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=spec["precision"] == "bf16"):
            loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()
        times.append(time.monotonic() - begin)
        cpu_times.append(time.process_time() - cpu_begin)
    if spec["ranks"] > 1:
        dist.barrier()
    # median_high, as `npu bench step` takes it.
    return {"step_s": statistics.median_high(times[spec["warmup"]:]),
            "cpu_ms": 1e3 * statistics.median_high(cpu_times[spec["warmup"]:]), "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


def torch_worker(spec):
    rank = int(os.environ.get("COMPARE_STEP_RANK", "-1"))
    if spec["ranks"] > 1 and rank < 0:
        children = [subprocess.Popen([sys.executable, os.path.abspath(__file__), "--torch-worker", json.dumps(spec)],
                                     env=dict(os.environ, COMPARE_STEP_RANK=str(i)), stdout=subprocess.PIPE, text=True)
                    for i in range(spec["ranks"])]
        rows = [json.loads(child.communicate()[0] or "null") for child in children]
        if None in rows:
            sys.exit(f"ranks ended with {[child.returncode for child in children]}")
        # Rank 0's steps, as npu counts; every rank waits for the slowest in each.
        row = {"step_s": rows[0]["step_s"], "cpu_ms": sum(r["cpu_ms"] for r in rows),
               "peak_bytes": sum(r["peak_bytes"] for r in rows)}
    else:
        row = torch_steps(spec, max(rank, 0))
    print(json.dumps(row), flush=True)


# ---- The parent.

class Usage:
    """Ticks of the whole machine and of our own ended children, to tell how much others took in between."""

    def __init__(self):
        with open("/proc/stat", encoding="utf-8") as file:
            ticks = [int(v) for v in file.readline().split()[1:9]]
        self.all = sum(ticks)
        self.busy = self.all - ticks[3] - ticks[4]  # idle, iowait
        times = os.times()
        self.own = sum(times[:4]) * os.sysconf("SC_CLK_TCK")

    def foreign_until(self, later):
        return max(0.0, (later.busy - self.busy) - (later.own - self.own)) / max(1, later.all - self.all)


class Seen(NamedTuple):
    rate: float
    per_cpu: float  # images a second of our own processor time
    peak: int
    activations: int  # 0: not known
    foreign: float


def npu_command(args, case, side, directory):
    return [os.path.join(args.build, "bin/npu"), "bench", "step", "--arch", case.arch, "--image-size",
            str(case.image_size), "--classes", str(case.classes), "--batch", str(side.batch), "--threads",
            str(side.threads), "--precision", side.precision, "--ranks", str(side.ranks), "-n", str(args.steps), "-w",
            str(args.warmup), "--daemon", "private", "--state-dir", os.path.join(directory, "state"), "-o", "json"]


def torch_command(args, case, side, directory):
    spec = {"arch": case.arch, "image_size": case.image_size, "classes": case.classes, "steps": args.steps,
            "warmup": args.warmup, "rendezvous": tempfile.mktemp(dir=directory), **side._asdict()}
    return [sys.executable, os.path.abspath(__file__), "--torch-worker", json.dumps(spec)]


def measure(args, case, side, directory):
    command = (npu_command if side.engine == "npu" else torch_command)(args, case, side, directory)
    before = Usage()
    row = json.loads(processes.run(command, directory, args.timeout))
    foreign = before.foreign_until(Usage())
    rate = row["img_s"] if "img_s" in row else side.batch * side.ranks / row["step_s"]
    per_cpu = 1e3 * side.batch * side.ranks / row["cpu_ms"]
    return Seen(rate, per_cpu, row["peak_bytes"], row.get("activation_bytes", 0), foreign)


def run_case(args, name, case, directory):
    """Rounds of every side; a side that failed once is left alone and has what it has."""
    seen = {side: [] for side in case.sides}
    failed = set()
    for index in range(args.rounds):
        first = index % len(case.sides)
        for side in case.sides[first:] + case.sides[:first]:
            if side in failed:
                continue
            try:
                seen[side].append(measure(args, case, side, directory))
            except (processes.Failed, ValueError) as error:
                failed.add(side)
                print(f"{name}: {side.label} {side.precision}: {error}", file=sys.stderr)
                continue
            last = seen[side][-1]
            print(f"{name} round {index + 1}: {side.label} {side.precision}: {last.rate:.2f} img/s, "
                  f"{last.per_cpu:.2f} img a CPU second, {last.peak / MIB:.0f} MiB, others {100 * last.foreign:.0f} %", file=sys.stderr, flush=True)
    return seen


def ratio(ours, theirs):
    return f"{ours / theirs:.2f}" if ours and theirs else "-"


def print_case(args, name, case, seen):
    def medians(side):
        rounds = seen[side]
        if not rounds:
            return None
        return [statistics.median(getattr(s, field) for s in rounds)
                for field in ("rate", "per_cpu", "peak", "activations")]

    ours = medians(case.sides[0])
    for side in case.sides:
        theirs = medians(side)
        what = f"| {name} | {side.label} | {side.precision} | {side.batch} | {side.threads} "
        if theirs is None:
            print(what + "| - " * 8 + "|", flush=True)
            continue
        rounds = ", ".join(f"{s.rate:.2f}{'*' if s.foreign > args.foreign else ''}" for s in seen[side])
        cells = [f"{theirs[0]:.2f} ({rounds})", f"{theirs[1]:.2f}", f"{theirs[2] / MIB:.0f}",
                 f"{theirs[3] / MIB:.0f}" if theirs[3] else "-"]
        ratios = [""] * 4 if side is case.sides[0] else [
            ratio(o, t) for o, t in zip(ours or [0] * 4, theirs)]
        print(what + "| " + " | ".join(c for both in zip(cells, ratios) for c in both) + " |", flush=True)


def main():
    args = parse_args()
    if args.torch_worker is not None:
        torch_worker(json.loads(args.torch_worker))
        return 0
    print(f"{time.strftime('%Y-%m-%d %H:%M')}   {machine()}   load {os.getloadavg()[0]:.1f}   "
          f"median of {args.rounds} rounds (all in brackets), {args.steps} steps after {args.warmup}\n")
    print("| case | side | precision | batch a rank | threads | img/s | first / this | img a CPU second | "
          "first / this | peak, MiB | first / this | activations, MiB | first / this |\n" + "|---" * 13 + "|", flush=True)
    shares, complete = [], True
    with tempfile.TemporaryDirectory(prefix="npu-compare-") as directory:
        for name in args.case:
            seen = run_case(args, name, CASES[name], directory)
            print_case(args, name, CASES[name], seen)
            shares += [s.foreign for rounds in seen.values() for s in rounds]
            complete = complete and all(seen.values())
    if shares:
        print(f"\nOthers took {100 * min(shares):.0f} to {100 * max(shares):.0f} % of the processor time, median "
              f"{100 * statistics.median(shares):.0f} %; * more than {100 * args.foreign:.0f} % in that round.")
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())

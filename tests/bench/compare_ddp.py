#!/usr/bin/python3
"""Training speed of `npu launch` beside PyTorch DistributedDataParallel (gloo), in turn on the same cores.

ResNet-20 (CIFAR form, option A), 28x28x1 images, fp32, one process a rank, one thread a process. Rounds alternate
and swap who goes first, so a drift of the machine meets both. Only steps after the warm-up count; their time is
what passes between the lines that rank 0 prints. A round in which other programs took more than --foreign of the
processor time is done again, and what was measured under such load is marked. Images per second of our own
processor time are printed, too: they suffer less from others than the wall clock does. Needs Debian's python3-torch.
Run: tests/bench/compare_ddp.py [--build DIR] [--batch 128 256] [--rounds 3] [--steps 40]
"""
import argparse
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

JOB = """\
name: compare-ddp
devices: 0-{last}
seed: 0
model:       {{arch: resnet20, num_classes: 10}}
data:        {{format: synthetic, workers: 1, augment: none, train_samples: {samples}, val_samples: {ranks},
              image_size: 28, channels: 1}}
train:       {{epochs: 1, batch_size: {batch}, print_freq: 1, stop_after_steps: {steps}}}
optimizer:   {{lr: 0.01, momentum: 0.9, weight_decay: 1.0e-4}}
schedule:    {{kind: constant}}
checkpoint:  {{every_epochs: 0, every_steps: 0, resume: never}}
"""


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=os.path.abspath, default=os.path.join(ROOT, "build/release"),
                        help="build directory that holds bin/")
    parser.add_argument("--batch", type=int, nargs="+", default=[128, 256], help="global batch sizes")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40, help="timed steps of a round")
    parser.add_argument("--warmup", type=int, default=8, help="steps before them")
    parser.add_argument("--foreign", type=float, default=0.05, help="share of CPU time that others may take")
    parser.add_argument("--attempts", type=int, default=3, help="tries at a round before a disturbed one is taken")
    parser.add_argument("--ddp-worker", type=int, default=None, help=argparse.SUPPRESS)
    return parser.parse_args()


# ---- PyTorch: one rank. The parent starts this file again, once a rank.

def resnet20():
    """He et al. 2015, section 4.2, with option A shortcuts: 269,434 parameters for one input channel."""
    import torch.nn as nn
    import torch.nn.functional as F

    class Block(nn.Module):
        def __init__(self, planes_in, planes, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(planes_in, planes, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(planes)
            self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(planes)
            self.pad = planes // 4 if stride != 1 else 0

        def forward(self, x):
            y = F.relu(self.bn1(self.conv1(x)), inplace=True)
            y = self.bn2(self.conv2(y))
            if self.pad:
                x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.pad, self.pad))
            return F.relu(y + x, inplace=True)

    class ResNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(1, 16, 3, 1, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(16)
            widths = [(16, 16, 1)] + [(16, 16, 1)] * 2 + [(16, 32, 2)] + [(32, 32, 1)] * 2
            widths += [(32, 64, 2)] + [(64, 64, 1)] * 2
            self.blocks = nn.Sequential(*[Block(*w) for w in widths])
            self.fc = nn.Linear(64, 10)

        def forward(self, x):
            x = self.blocks(F.relu(self.bn1(self.conv1(x)), inplace=True))
            return self.fc(x.mean((2, 3)))

    return ResNet()


def ddp_worker(args):
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    model = resnet20().to(memory_format=torch.channels_last)
    # What helps DDP: no copy out of buckets, and no broadcast of BN buffers in each step (npu has none either).
    model = DistributedDataParallel(model, broadcast_buffers=False, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    rank_batch = args.batch[0] // args.ranks
    images = torch.randn(rank_batch, 1, 28, 28).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, 10, (rank_batch,))
    for _ in range(args.warmup + args.steps):
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0:
            print("step", flush=True)
    dist.barrier()


# ---- The parent: starts one side, stamps rank 0's steps as they arrive.

class Seen(NamedTuple):
    """One round: images per second, per second of our own processor time, and the share that others took."""
    rate: float
    per_cpu: float
    foreign: float


class Load:
    """CPU time of the machine and of our own descendants, to tell how much others took in between."""

    def __init__(self):
        with open("/proc/stat", encoding="utf-8") as file:
            ticks = [int(v) for v in file.readline().split()[1:9]]
        self.all = sum(ticks)
        self.busy = self.all - ticks[3] - ticks[4]  # idle, iowait
        parents, own = {}, {}
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8") as file:
                    fields = file.read().rsplit(")", 1)[1].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            parents[int(name)], own[int(name)] = int(fields[1]), int(fields[11]) + int(fields[12])
        self.own = 0
        for pid, ticks_used in own.items():
            while pid and pid != os.getpid():
                pid = parents.get(pid, 0)
            self.own += ticks_used if pid else 0

    def foreign_until(self, later):
        """Share of all CPU time between the two moments that went to others."""
        return max(0, (later.busy - self.busy) - (later.own - self.own)) / max(1, later.all - self.all)


def watch(lines, args, batch):
    """Reads one line a step; returns what the steps after the warm-up showed, None if there were not enough."""
    stamps, loads = [], []
    wanted = args.warmup + args.steps
    for _ in lines:
        stamps.append(time.monotonic())
        # The second look is one step early, while all ranks are alive for sure.
        if len(stamps) in (args.warmup, wanted - 1):
            loads.append(Load())
    if len(stamps) != wanted:
        return None
    cpu_seconds = (loads[1].own - loads[0].own) / os.sysconf("SC_CLK_TCK")
    return Seen(rate=args.steps * batch / (stamps[-1] - stamps[args.warmup - 1]),
                per_cpu=(args.steps - 1) * batch / cpu_seconds, foreign=loads[0].foreign_until(loads[1]))


def run_npu(args, batch):
    steps = args.warmup + args.steps
    with tempfile.TemporaryDirectory(prefix="npu-compare-") as directory:
        job = os.path.join(directory, "job.yaml")
        with open(job, "w", encoding="utf-8") as file:
            # One step more than is run: the epoch is never finished, so nothing is validated.
            file.write(JOB.format(last=args.ranks - 1, samples=batch * (steps + 1), ranks=args.ranks, batch=batch,
                                  steps=steps))
        command = [os.path.join(args.build, "bin/npu"), "launch", job, "-o", "json", "--daemon", "private",
                   "--state-dir", os.path.join(directory, "state")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            seen = watch((line for line in process.stdout if json.loads(line)["type"] == "step"), args, batch)
            errors = process.stderr.read()
    if process.returncode != 0 or seen is None:
        raise SystemExit(f"compare_ddp: npu launch ended with {process.returncode}: {errors}")
    return seen


def run_ddp(args, batch):
    command = [sys.executable, os.path.abspath(__file__), "--ddp-worker", "1", "--batch", str(batch), "--ranks",
               str(args.ranks), "--steps", str(args.steps), "--warmup", str(args.warmup)]
    common = dict(os.environ, OMP_NUM_THREADS="1", MASTER_ADDR="127.0.0.1",
                  MASTER_PORT=str(20000 + os.getpid() % 20000), WORLD_SIZE=str(args.ranks))
    processes = []
    try:
        for rank in range(args.ranks):
            out = subprocess.PIPE if rank == 0 else subprocess.DEVNULL
            processes.append(subprocess.Popen(command, env=dict(common, RANK=str(rank)), stdout=out, text=True))
        seen = watch((line for line in processes[0].stdout if line == "step\n"), args, batch)
        codes = [process.wait() for process in processes]
    finally:
        for process in processes:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()
    if any(codes) or seen is None:
        raise SystemExit(f"compare_ddp: ranks of PyTorch ended with {codes}")
    return seen


def run_round(run, args, batch):
    """The least disturbed of at most `attempts` tries; stops at the first that is quiet enough."""
    best = None
    for _ in range(args.attempts):
        seen = run(args, batch)
        print(f"{run.__name__[4:]} batch {batch}: {seen.rate:.0f} img/s, {seen.per_cpu:.0f} img a CPU second, "
              f"others {100 * seen.foreign:.0f} %", file=sys.stderr)
        if best is None or seen.foreign < best.foreign:
            best = seen
        if seen.foreign <= args.foreign:
            break
    return best


def row(title, ours, theirs, mark):
    """Median and all rounds of both sides, and the ratio of the medians."""
    cells = [f"{statistics.median(v):.0f} ({', '.join(f'{x:.0f}{m}' for x, m in zip(v, marks))})"
             for v, marks in zip((ours, theirs), mark)]
    ratio = statistics.median(ours) / statistics.median(theirs)
    print(f"| {title} | {cells[0]} | {cells[1]} | {ratio:.2f} |", flush=True)


def machine():
    model = platform.machine()
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return f"{model}, {len(os.sched_getaffinity(0))} cores"


def main():
    args = parse_args()
    if args.ddp_worker is not None:
        ddp_worker(args)
        return
    import torch
    print(f"{time.strftime('%Y-%m-%d %H:%M')}   {machine()}   load {os.getloadavg()[0]:.1f}   "
          f"torch {torch.__version__}")
    print(f"resnet20 28x28x1 fp32, {args.ranks} ranks x 1 thread, {args.steps} steps after {args.warmup}, "
          f"median of {args.rounds} rounds (all rounds in brackets)\n")
    print("| global batch | npu | DDP gloo | ratio |\n|---|---|---|---|", flush=True)
    for batch in args.batch:
        rates = {run_npu: [], run_ddp: []}
        for index in range(args.rounds):
            order = (run_npu, run_ddp) if index % 2 == 0 else (run_ddp, run_npu)
            for run in order:
                rates[run].append(run_round(run, args, batch))
        sides = rates[run_npu], rates[run_ddp]
        mark = [["*" if seen.foreign > args.foreign else "" for seen in side] for side in sides]
        row(f"{batch}, img/s", *([seen.rate for seen in side] for side in sides), mark)
        row(f"{batch}, img a CPU second", *([seen.per_cpu for seen in side] for side in sides), mark)
    print(f"\n* others took more than {100 * args.foreign:.0f} % of the processor time in that round")


if __name__ == "__main__":
    main()

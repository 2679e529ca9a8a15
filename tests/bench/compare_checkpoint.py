#!/usr/bin/python3
"""What a checkpoint of resnet50 with momentum (205 MB) costs a job: ours beside torch.save and fsync, in turn on the same disk.

Ours is `npu bench checkpoint`: the trainer itself, saving every few steps. stall is how long the rank is held up, durable the
daemon's part until everything is flushed. PyTorch's stall is what a training loop pays: torch.save of the state dicts of
network and optimizer into a file, as main.py does it, which returns with the bytes in the page cache; durable is that and the
fsync of file and directory, which main.py leaves out. Medians over rounds; rounds swap their order.
Needs Debian's python3-torch and a quiet machine. Exit code 1 when our stall is above --limit ms.
Run: tests/bench/compare_checkpoint.py [--build DIR] [--dir DIR] [--rounds 3] [--ranks 1 8]
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


def torch_worker(folder, saves):
    import torch
    from torchvision.models import resnet50
    torch.set_num_threads(1)
    network = resnet50()
    optimizer = torch.optim.SGD(network.parameters(), 0.1, momentum=0.9)
    for parameter in network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()  # momentum exists from here on
    path = os.path.join(folder, "checkpoint.pth.tar")
    rows = []
    for _ in range(saves + 1):
        begin = time.perf_counter()
        torch.save({"epoch": 1, "arch": "resnet50", "state_dict": network.state_dict(), "best_acc1": 0.0,
                    "optimizer": optimizer.state_dict()}, path)
        saved = time.perf_counter()
        for name, flags in ((path, os.O_RDONLY), (folder, os.O_RDONLY | os.O_DIRECTORY)):
            fd = os.open(name, flags)
            os.fsync(fd)
            os.close(fd)
        rows.append((1e3 * (saved - begin), 1e3 * (time.perf_counter() - begin)))
    rows = rows[1:]  # the first one creates the file
    print(json.dumps({"stall_ms": statistics.median(r[0] for r in rows), "durable_ms": statistics.median(r[1] for r in rows),
                      "bytes": os.path.getsize(path)}))


def output(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def run_ours(args, ranks):
    return output([os.path.join(args.build, "bin/npu"), "bench", "checkpoint", "--arch", "resnet50", "--ranks", str(ranks),
                   "--batch", str(args.batch), "--image-size", str(args.image_size), "-n", str(args.saves), "--dir", args.dir,
                   "-o", "json"])


def run_torch(args, _):
    with tempfile.TemporaryDirectory(prefix="torch-save-", dir=args.dir) as folder:
        return output([sys.executable, os.path.abspath(__file__), "--torch-worker", folder, "--saves", str(args.saves)])


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build/release"))
    parser.add_argument("--dir", default=os.path.join(ROOT, "build"), help="on the disk that counts; both sides write below it")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--saves", type=int, default=5, help="of one round")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1])
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--limit", type=float, default=30, help="ms that our stall may take")
    parser.add_argument("--torch-worker", metavar="DIR", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    args = parse_args()
    if args.torch_worker:
        torch_worker(args.torch_worker, args.saves)
        return 0
    sides = {"torch.save, then fsync": (run_torch, None)}
    sides.update({f"npu, {ranks} rank{'s' if ranks > 1 else ''}": (run_ours, ranks) for ranks in args.ranks})
    found = {name: [] for name in sides}
    for i in range(args.rounds):
        for name in sorted(sides, reverse=i % 2 == 1):
            run, ranks = sides[name]
            row = run(args, ranks)
            found[name].append(row)
            print(f"{name}: stall {row['stall_ms']:.1f} ms, durable {row['durable_ms']:.0f} ms", file=sys.stderr)
    print("| a checkpoint of resnet50 and momentum | MB | stall, ms | durable, ms | the step behind it longer by, ms |\n|---|---|---|---|---|")
    for name, rows in found.items():
        middle = {key: statistics.median(row[key] for row in rows) for key in rows[0] if isinstance(rows[0][key], (int, float))}
        slow = f"{middle['slow_ms']:.0f} of {middle['step_ms']:.0f}" if "slow_ms" in middle else ""
        rounds = ", ".join(f"{row['stall_ms']:.1f}" for row in rows)
        print(f"| {name} | {middle['bytes'] / 1e6:.0f} | {middle['stall_ms']:.1f} ({rounds}) | {middle['durable_ms']:.0f} | {slow} |")
    ours = max(statistics.median(row["stall_ms"] for row in rows) for name, rows in found.items() if name.startswith("npu"))
    return 0 if ours <= args.limit else 1


if __name__ == "__main__":
    sys.exit(main())

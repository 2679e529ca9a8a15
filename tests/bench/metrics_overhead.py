#!/usr/bin/python3
"""What counting and scraping cost a collective: `npu bench all-reduce` against daemons that differ in that alone, in turn.

Sides: a daemon that nobody asks; one that is scraped --rate times a second; with --base BUILD also the daemon of another
build, such as one from before a change. Every round measures each side once, in changing order; the numbers are lower
quartiles over rounds of the median times that the bench reports. Needs a quiet machine.
Exit code 1 when a side is slower than the first by more than --limit percent at any size.
Run: tests/bench/metrics_overhead.py [--build DIR] [--base DIR] [--rounds 40] [--rate 10]
"""
import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


class Daemon:
    """npud of a build with the client of the same build; both must agree on the layout of memory."""

    def __init__(self, build, directory):
        self.npu = os.path.join(build, "bin/npu")
        self.socket = os.path.join(directory, "npud.sock")
        self.process = subprocess.Popen([os.path.join(build, "bin/npud"), "--runtime-dir", directory, "--state-dir", directory],
                                        stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while not os.path.exists(self.socket) and time.monotonic() < deadline:
            time.sleep(0.02)

    def bench(self, args):
        command = [self.npu, "bench", "all-reduce", "--socket", self.socket, "--ranks", str(args.ranks), "-b", args.begin, "-e",
                   args.end, "-f", "64", "-n", str(args.iterations), "-w", "20", "-o", "json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: exit {done.returncode}: {done.stderr.strip()}")
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        return {row["bytes"]: row["p50_us"] for row in rows if "p50_us" in row}

    def scrape(self):
        subprocess.run([self.npu, "metrics", "--socket", self.socket], stdout=subprocess.DEVNULL, check=True)

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Scraping:
    """Scrapes `rate` times a second while it is entered."""

    def __init__(self, daemon, rate):
        self.daemon, self.rate, self.over, self.thread = daemon, rate, threading.Event(), None

    def __enter__(self):
        self.thread = threading.Thread(target=self.loop)
        self.thread.start()

    def loop(self):
        while not self.over.wait(1 / self.rate):
            self.daemon.scrape()

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def lower_quartile(values):
    """What others did on the same cores only adds to a time, so the quieter rounds say more."""
    return statistics.quantiles(values, n=4)[0] if len(values) > 1 else values[0]


def measure(sides, args):
    found = {name: {} for name in sides}
    names = list(sides)
    with contextlib.ExitStack() as stack:
        daemons = {}
        for build in dict.fromkeys(build for build, _ in sides.values()):
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="metrics-overhead-"))
            daemons[build] = Daemon(build, directory)  # an idle one costs the others nothing
            stack.callback(daemons[build].stop)
        for i in range(args.rounds):
            for name in names[i % len(names):] + names[:i % len(names)]:
                build, rate = sides[name]
                with Scraping(daemons[build], rate) if rate else contextlib.nullcontext():
                    times = daemons[build].bench(args)
                for size, us in times.items():
                    found[name].setdefault(size, []).append(us)
                print(f"round {i + 1} {name}: {times}", file=sys.stderr)
    return {name: {size: lower_quartile(us) for size, us in sizes.items()} for name, sizes in found.items()}


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build/release"))
    parser.add_argument("--base", help="another build, measured as the first side")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--rate", type=float, default=10, help="scrapes a second; Prometheus makes one in 15 s")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--begin", default="8")
    parser.add_argument("--end", default="2M")
    parser.add_argument("--iterations", type=int, default=200)
    parser.add_argument("--limit", type=float, default=1, help="percent")
    return parser.parse_args()


def main():
    args = parse_args()
    sides = {"base": (args.base, 0)} if args.base else {}
    sides["not scraped"] = (args.build, 0)
    sides[f"{args.rate:g} scrapes a second"] = (args.build, args.rate)
    medians = measure(sides, args)
    first = next(iter(medians.values()))
    print("| all-reduce, us | " + " | ".join(f"{size} B" for size in first) + " |")
    print("|---" * (1 + len(first)) + "|")
    worst = 0
    for name, sizes in medians.items():
        cells = []
        for size, us in sizes.items():
            more = 100 * (us / first[size] - 1)
            worst = max(worst, more)
            cells.append(f"{us:.1f} ({more:+.1f} %)")
        print(f"| {name} | " + " | ".join(cells) + " |")
    return 0 if worst <= args.limit else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/python3
"""Collectives of npud beside Open MPI's and gloo's, in turn on the same cores, eight ranks each.

Each round visits every case, and in each case npu (direct, then ring), Open MPI and gloo one after another, so a drift
of the machine meets all of them; the sides rotate from round to round. A number is the median over rounds of the
median over calls, and a call's time is that of its slowest rank; sizes count as in `npu bench`. The table is on
stdout, everything else on stderr. A peer that is not installed leaves its column empty.
Run: tests/bench/compare_collectives.py [--build DIR] [--rounds 3] [--quick] [--op all-reduce barrier] [-o json]
"""
import argparse
import contextlib
import ctypes
import json
import os
import re
import resource
import select
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from compare_ddp import HERE, ROOT, Load, machine
from processes import Failed, clean_environment, end_session, run, tail

TORCH_PYTHON = "/usr/bin/python3"  # the one that Debian's python3-torch serves
KIB, MIB = 1024, 1024 * 1024
SIDES = ("direct", "ring", "openmpi", "gloo")


class Case(NamedTuple):
    op: str
    bytes: int
    iterations: int
    warmup: int
    dtype: str = "fp32"

    def label(self):
        return f"{self.op} {self.dtype} {size_text(self.bytes)}" if self.bytes else self.op

    def sides(self):
        """Who is asked: the peers for fp32 only, and `ring` is an all-reduce."""
        if self.dtype != "fp32":
            return ("direct", "ring")
        return SIDES if self.op == "all-reduce" else ("direct", "openmpi", "gloo")


def cases(quick):
    """Enough calls for a steady median; a run of three rounds takes a few minutes on two cores."""
    small, middle, large = ((100, 20), (30, 5), (6, 2)) if quick else ((200, 40), (60, 10), (16, 4))
    sizes = [(8, small), (KIB, small), (64 * KIB, small), (MIB, middle), (25 * MIB, large)]
    found = [Case("all-reduce", size, *calls) for size, calls in sizes]
    found.append(Case("all-reduce", 25 * MIB // 2, *large, dtype="fp16"))  # as many elements as fp32's 25 MiB
    found.append(Case("barrier", 0, *small))
    others = ("reduce", "broadcast", "all-gather", "reduce-scatter", "scatter", "gather", "all-to-all")
    return found + [Case(op, 25 * MIB, *large) for op in others]


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=os.path.abspath, default=os.path.join(ROOT, "build/release"),
                        help="build directory that holds bin/")
    parser.add_argument("--rounds", type=int, default=None, help="rounds over all cases; 3, with --quick 2")
    parser.add_argument("--ranks", type=int, default=8, choices=range(2, 9), metavar="2..8")
    parser.add_argument("--quick", action="store_true", help="fewer calls and rounds: shows that it works")
    parser.add_argument("--op", nargs="+", default=None, help="only these operations", metavar="OP",
                        choices=sorted({case.op for case in cases(True)}))
    parser.add_argument("--foreign", type=float, default=0.05, help="share of CPU time others may take unmarked")
    parser.add_argument("--timeout", type=float, default=90, help="seconds after which one measurement is killed")
    parser.add_argument("-o", "--output", choices=("markdown", "json"), default="markdown")
    args = parser.parse_args()
    args.rounds = args.rounds or (2 if args.quick else 3)
    if args.rounds < 1:
        parser.error(f"--rounds {args.rounds}: at least 1 is needed")
    return args


def note(text):
    print(f"compare_collectives: {text}", file=sys.stderr, flush=True)


# ---- The sides. measure() returns the row, or raises Failed.

def parse_row(text, command):
    """The one JSON line a measurement prints."""
    try:
        row = json.loads(text)
        return dict(row, p50_us=float(row["p50_us"]))
    except (ValueError, KeyError, TypeError) as error:
        raise Failed(f"{command}: expected one JSON line with p50_us, got {text[:200]!r} ({error})") from None


def drop_priority_privilege():
    """In the child before exec: started by root, npud would raise its priority, which no peer does."""
    pr_capbset_drop, cap_sys_nice = 24, 23
    ctypes.CDLL(None).prctl(pr_capbset_drop, cap_sys_nice, 0, 0, 0)


class Npu:
    """`npu bench` against a private daemon that lives as long as the comparison."""

    def __init__(self, args, directory):
        self.args, self.directory = args, directory
        self.npu, npud = (os.path.join(args.build, "bin", name) for name in ("npu", "npud"))
        for program in (self.npu, npud):
            if not os.access(program, os.X_OK):
                raise Failed(f"no program {program}; build it (ninja npu npud) or name its build with --build DIR")
        self.version = run([self.npu, "--version"], directory, 10).strip()
        self.socket = os.path.join(directory, "run/npud.sock")
        self.log = open(os.path.join(directory, "npud.log"), "w+", encoding="utf-8")
        self.daemon = subprocess.Popen(
            [npud, "--foreground", "--runtime-dir", os.path.join(directory, "run"), "--state-dir",
             os.path.join(directory, "state"), "--devices", "8"],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, env=clean_environment(directory),
            start_new_session=True, preexec_fn=drop_priority_privilege)
        try:
            self.wait_until_it_answers()
            nice = os.getpriority(os.PRIO_PROCESS, self.daemon.pid)
            if nice < os.getpriority(os.PRIO_PROCESS, 0):
                note(f"npud runs at nice {nice}, the others do not: on a busy machine it is favoured")
        except BaseException:
            self.close()
            raise

    def wait_until_it_answers(self, seconds=10):
        deadline = time.monotonic() + seconds
        while self.daemon.poll() is None and time.monotonic() < deadline:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe, contextlib.suppress(OSError):
                probe.connect(self.socket)
                return
            time.sleep(0.02)
        raise Failed(f"npud does not answer on {self.socket} after {seconds} s: {tail(self.log)}")

    def measure(self, case, algo):
        size = str(max(case.bytes, 8))  # of no consequence for a barrier
        command = [self.npu, "bench", case.op, "-b", size, "-e", size, "-n", str(case.iterations), "-w",
                   str(case.warmup), "-d", case.dtype, "--ranks", str(self.args.ranks), "--algo", algo, "-o", "json",
                   "--socket", self.socket, "--daemon", "require"]
        row = parse_row(run(command, self.directory, self.args.timeout), " ".join(command))
        if row["algo"] != algo:
            note(f"{case.label()}: {algo} was asked for, {row['algo']} ran: no time of {algo}")
            return None
        return row

    def close(self):
        end_session(self.daemon)
        self.log.close()


class OpenMpi:
    """One mpirun a measurement, of a program compiled here."""
    packages = "openmpi-bin libopenmpi-dev"

    def __init__(self, args, directory):
        self.args, self.directory = args, directory
        for program in ("mpicc", "mpirun"):
            if shutil.which(program) is None:
                raise Failed(f"no {program}")
        found = re.search(r"\(Open MPI\) (\S+)", run(["mpirun", "--version"], directory, 20))
        if found is None:
            raise Failed("the mpirun in PATH is not Open MPI's")
        self.version = f"Open MPI {found[1]}"
        self.program = os.path.join(directory, "mpi_collectives")
        run(["mpicc", "-std=c11", "-O2", "-Wall", "-Wextra", os.path.join(HERE, "mpi_collectives.c"), "-o",
             self.program], directory, args.timeout)

    def measure(self, case, _side):
        # With more ranks than cores a rank that waits has to yield, or the one it waits for does not run.
        command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(self.args.ranks), "--mca",
                   "mpi_yield_when_idle", "1", self.program, case.op, str(max(case.bytes, 8)), str(case.iterations),
                   str(case.warmup)]
        return parse_row(run(command, self.directory, self.args.timeout), " ".join(command))

    def close(self):
        pass


class Gloo:
    """Ranks under torch.distributed that live as long as the comparison; started again after a failure."""
    packages = "python3-torch"

    def __init__(self, args, directory):
        self.args, self.directory = args, directory
        self.process, self.errors, self.starts = None, None, 0
        code = "import torch, torch.distributed as d; d.is_available() or exit('no gloo'); print(torch.__version__)"
        self.version = f"gloo of torch {run([TORCH_PYTHON, '-c', code], directory, args.timeout).strip()}"

    def start(self):
        self.starts += 1
        self.errors = tempfile.TemporaryFile("w+", dir=self.directory)
        self.process = subprocess.Popen(
            [TORCH_PYTHON, os.path.join(HERE, "gloo_collectives.py"), str(self.args.ranks),
             os.path.join(self.directory, f"gloo-{self.starts}")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, cwd=self.directory, bufsize=0,
            env=clean_environment(self.directory), start_new_session=True)

    def measure(self, case, _side):
        if case.op == "reduce-scatter":  # gloo has none for tensors of the processor, as of torch 1.13
            return None
        words = f"{case.op} {max(case.bytes, 8)} {case.iterations} {case.warmup}"
        if self.process is None:
            self.start()
        try:
            self.process.stdin.write(f"{words}\n".encode())
            return parse_row(self.read_line(time.monotonic() + self.args.timeout), f"gloo {words}")
        except (Failed, OSError) as error:
            end_session(self.process)
            self.close()
            raise Failed(f"gloo {words}: {error}") from None

    def read_line(self, deadline):
        line = b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))
            chunk = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            if not chunk:
                why = "its ranks ended" if ready else f"killed, no answer within {self.args.timeout:g} s"
                raise Failed(f"{why}: {tail(self.errors)}")
            line += chunk
        return line.decode()

    def close(self):
        if self.process is None:
            return
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self.process.stdin.close()  # the ranks end by themselves
            self.process.wait(3)
        end_session(self.process)
        for file in (self.process.stdin, self.process.stdout, self.errors):
            with contextlib.suppress(OSError):
                file.close()
        self.process = None


def start_peer(kind, args, directory):
    """None, and one line on stderr, if it is not installed."""
    try:
        return kind(args, directory)
    except (Failed, OSError) as error:
        note(f"{kind.__name__}: {error}; its column stays empty: apt-get install {kind.packages}")
        return None


# ---- Rounds.

def load():
    """Load, with what ended descendants used counted as our own."""
    now = Load()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    now.own += int((used.ru_utime + used.ru_stime) * os.sysconf("SC_CLK_TCK"))
    return now


class Seen:
    """All rows, by case and side, one a round; and the share of the processor that others took, by round."""

    def __init__(self):
        self.rows, self.foreign, self.failures = {}, [], 0

    def median(self, case, side, field="p50_us"):
        values = [row[field] for row in self.rows.get((case, side), [])]
        return statistics.median(values) if values else None

    def ratio(self, case, side, ours="direct"):
        theirs, own = self.median(case, side), self.median(case, ours)
        return theirs / own if theirs and own else None


def measure(case, index, systems, seen):
    """All sides of one case, the first another one in each round."""
    sides = case.sides()
    first = index % len(sides)
    for side in sides[first:] + sides[:first]:
        if systems[side] is None:
            continue
        try:
            row = systems[side].measure(case, side)
        except Failed as error:
            seen.failures += 1
            note(f"{error}; ignoring")
            continue
        if row is not None:
            seen.rows.setdefault((case, side), []).append(row)
            note(f"round {index + 1}: {case.label()}: {side} {row['p50_us']:.1f} us")


def run_rounds(args, systems, wanted):
    seen = Seen()
    for index in range(args.rounds):
        before = load()
        for case in wanted:
            measure(case, index, systems, seen)
        seen.foreign.append(before.foreign_until(load()))
        note(f"round {index + 1} of {args.rounds}: others took {100 * seen.foreign[-1]:.0f} % of the processor time")
    return seen


# ---- What is printed.

def size_text(size):
    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        if size >= unit:
            return f"{size / unit:g} {name}"
    return f"{size} B"


def cell(value, digits=None):
    if value is None:
        return "-"
    if digits is None:
        digits = 0 if value >= 1000 else 1
    return f"{value:.{digits}f}"


def fp16_pairs(wanted):
    """Cases in fp16 beside those in fp32 with as many elements."""
    return [(half, full) for half in wanted for full in wanted
            if half.dtype == "fp16" and full.dtype == "fp32" and full.op == half.op and full.bytes == 2 * half.bytes]


def print_markdown(head, wanted, seen, args):
    print("   ".join(head["text"]) + "\n")
    print("| operation | size | npu direct, us | npu ring, us | Open MPI, us | gloo, us | Open MPI / direct | "
          "gloo / direct | mem_fraction |\n|---|---|---|---|---|---|---|---|---|")
    for case in wanted:
        name = case.op if case.dtype == "fp32" else f"{case.op} {case.dtype}"
        cells = [name, size_text(case.bytes) if case.bytes else "-"]
        cells += [cell(seen.median(case, side)) for side in SIDES]
        cells += [cell(seen.ratio(case, side), 2) for side in ("openmpi", "gloo")]
        cells.append(cell(seen.median(case, "direct", "mem_fraction") if case.bytes else None, 2))
        print(f"| {' | '.join(cells)} |")
    print("\nmem_fraction: of npu direct; memory traffic the operation needs over its time, against a 1:1 stream.")
    for half, full in fp16_pairs(wanted):
        ratios = []
        for algo in ("direct", "ring"):
            ours, theirs = seen.median(half, algo), seen.median(full, algo)
            ratios.append(f"{algo} {cell(ours / theirs if ours and theirs else None, 2)}")
        print(f"fp16 / fp32, {full.op} of {full.bytes // 4} elements: {', '.join(ratios)}.")
    if max(seen.foreign) > args.foreign:
        print(f"DISTURBED: others took more than {100 * args.foreign:.0f} % of the processor time; repeat it.")


def print_json(head, wanted, seen):
    print(json.dumps(dict({"schema": 1, "type": "head"}, **head)))
    for case in wanted:
        row = {"schema": 1, "type": "row", "op": case.op, "dtype": case.dtype, "bytes": case.bytes}
        for side in SIDES:
            row[f"{side}_us"] = seen.median(case, side)
            row[f"{side}_rounds_us"] = [one["p50_us"] for one in seen.rows.get((case, side), [])]
        for side in ("openmpi", "gloo"):
            row[f"{side}_per_direct"] = seen.ratio(case, side)
            row[f"{side}_per_ring"] = seen.ratio(case, side, "ring")
        row["mem_fraction"] = seen.median(case, "direct", "mem_fraction") if case.bytes else None
        row["ring_mem_fraction"] = seen.median(case, "ring", "mem_fraction") if case.bytes else None
        print(json.dumps(row))


def describe(args, systems, load_before, foreign):
    versions = [systems[side].version if systems[side] else f"no {side}" for side in ("direct", "openmpi", "gloo")]
    shares = ", ".join(f"{100 * share:.0f}" for share in foreign)
    return {"time": time.strftime("%Y-%m-%d %H:%M"), "machine": machine(), "versions": versions, "ranks": args.ranks,
            "rounds": args.rounds, "quick": args.quick, "load_before": load_before, "foreign": foreign,
            "text": [time.strftime("%Y-%m-%d %H:%M"), machine(), f"load before {load_before:.1f}",
                     ", ".join(versions), f"{args.ranks} ranks",
                     f"median of {args.rounds} rounds{' (quick)' if args.quick else ''}",
                     f"others took {shares} % of the processor time"]}


def main():
    args = parse_args()
    for sig in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(sig, lambda number, _: sys.exit(128 + number))
    load_before = os.getloadavg()[0]
    wanted = [case for case in cases(args.quick) if args.op is None or case.op in args.op]
    # In /tmp whatever TMPDIR says: the paths of sockets have to be short.
    with tempfile.TemporaryDirectory(prefix="npu-compare-", dir="/tmp") as directory, contextlib.ExitStack() as stack:
        try:
            npu = Npu(args, directory)
        except Failed as error:
            raise SystemExit(f"compare_collectives: {error}") from None
        stack.callback(npu.close)
        peers = [start_peer(kind, args, directory) for kind in (OpenMpi, Gloo)]
        for peer in filter(None, peers):
            stack.callback(peer.close)
        systems = dict(zip(SIDES, [npu, npu] + peers))
        seen = run_rounds(args, systems, wanted)
    head = describe(args, systems, load_before, seen.foreign)
    if args.output == "json":
        del head["text"]
        print_json(head, wanted, seen)
    else:
        print_markdown(head, wanted, seen, args)
    if seen.failures:
        note(f"{seen.failures} measurements failed, see above")
        sys.exit(1)


if __name__ == "__main__":
    main()

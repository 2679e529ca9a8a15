#!/usr/bin/python3
"""Times gloo's collectives through torch.distributed as `npu bench` times ours: same sizes, same rule.

compare_collectives.py starts it and writes one case a line to its stdin, "OP BYTES ITERATIONS WARMUP"; one JSON line
answers each. It stays alive between cases, because importing torch takes longer than most of them; waiting ranks
sleep in a receive. BYTES counts per rank, for parted operations over all ranks; a time is one call on its slowest rank.
By hand: echo "all-reduce 1048576 50 5" | tests/bench/gloo_collectives.py RANKS RENDEZVOUS_FILE
"""
import ctypes
import json
import os
import signal
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

PR_SET_PDEATHSIG = 1
IDLE = timedelta(hours=12)  # a rank waits for the next case as long as the parent measures others
PARTED = ("all-gather", "scatter", "gather", "all-to-all")
# No reduce-scatter: gloo in torch 1.13 has none. All-to-all has no list form there, but this one.
OPERATIONS = ("all-reduce", "reduce", "broadcast", "all-gather", "scatter", "gather", "all-to-all", "barrier")


def make_call(op, count, rank, ranks):
    """The collective as a function without arguments, its buffers full of zeros and touched."""
    whole = torch.zeros(count * ranks if op in PARTED else count)
    part = torch.zeros(count)
    parts = list(whole.chunk(ranks)) if op in PARTED else None
    if op == "all-to-all":
        received = torch.zeros_like(whole)
        return lambda: dist.all_to_all_single(received, whole)
    return {
        "all-reduce": lambda: dist.all_reduce(whole),
        "reduce": lambda: dist.reduce(whole, 0),
        "broadcast": lambda: dist.broadcast(whole, 0),
        "all-gather": lambda: dist.all_gather(parts, part),
        "scatter": lambda: dist.scatter(part, parts if rank == 0 else None, 0),
        "gather": lambda: dist.gather(part, parts if rank == 0 else None, 0),
        "barrier": dist.barrier,
    }[op]


def timed(call):
    """Microseconds of one call on its slowest rank."""
    dist.barrier()
    begin = time.perf_counter()
    call()
    us = torch.tensor([(time.perf_counter() - begin) * 1e6], dtype=torch.float64)
    dist.all_reduce(us, op=dist.ReduceOp.MAX)
    return us.item()


def run(op, size, iterations, warmup, rank, ranks):
    factor = ranks if op in PARTED else 1
    count = size // 4 // factor
    call = make_call(op, count, rank, ranks)
    times = sorted([timed(call) for _ in range(warmup + iterations)][warmup:])
    return {"op": op, "bytes": count * 4 * factor, "count": count, "p50_us": times[iterations // 2],
            "p99_us": times[iterations * 99 // 100]}


def next_case(rank):
    """Rank 0 reads it and tells the others; None at the end of input."""
    case = torch.full((4,), -1, dtype=torch.int64)
    if rank == 0:
        words = sys.stdin.readline().split()
        if words:
            case = torch.tensor([OPERATIONS.index(words[0])] + [int(word) for word in words[1:]])
    dist.broadcast(case, 0)
    op, size, iterations, warmup = case.tolist()
    return None if op < 0 else (OPERATIONS[op], size, iterations, warmup)


def serve(rank, ranks, rendezvous):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=ranks, timeout=IDLE)
    while (case := next_case(rank)) is not None:
        row = run(*case, rank, ranks)
        if rank == 0:
            print(json.dumps(row), flush=True)


def main():
    if len(sys.argv) != 3:
        raise SystemExit("usage: gloo_collectives.py RANKS RENDEZVOUS_FILE (a path that does not exist yet)")
    ranks, rendezvous = int(sys.argv[1]), os.path.abspath(sys.argv[2])
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    for rank in range(1, ranks):
        # After the import, so torch is loaded once; it has started no thread yet.
        if os.fork() == 0:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            serve(rank, ranks, rendezvous)
            return
    serve(0, ranks, rendezvous)
    for _ in range(1, ranks):
        os.wait()


if __name__ == "__main__":
    main()

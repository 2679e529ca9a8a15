"""Reads what exchange.cpp wrote, and judges computed tensors against those of PyTorch."""
import os
import sys

import numpy as np
import torch

torch.set_num_threads(1)

# Share of rounded values that may differ from exact arithmetic's.
UNEQUAL = 0.01


class Case:
    def __init__(self, kind, name, settings):
        self.kind = kind
        self.name = name
        self.settings = settings
        self.inputs = {}
        self.outputs = {}  # name -> (tensor, bound)


def read_cases(directory):
    values = np.fromfile(os.path.join(directory, "values.f32"), dtype=np.float32)
    cases = []
    with open(os.path.join(directory, "cases.txt")) as lines:
        for line in lines:
            kind, name, *rest = line.split()
            if kind == "case":
                pairs = (pair.split("=") for pair in rest[1:])
                cases.append(Case(name, rest[0], {key: float(value) for key, value in pairs}))
                continue
            if kind == "broken":
                sys.exit(f"{cases[-1].name}: {name} does not have the elements of its shape")
            bound, offset, *shape = float(rest[0]), int(rest[1]), *map(int, rest[2:])
            count = int(np.prod(shape))
            tensor = torch.from_numpy(values[offset:offset + count].reshape(shape).copy())
            if kind == "in":
                cases[-1].inputs[name] = tensor
            else:
                cases[-1].outputs[name] = (tensor, bound)
    return cases


def relative(got, want, floor=0.0):
    """Largest difference relative to the largest magnitude wanted, or to `floor` if that is larger."""
    got, want = got.double(), want.double()
    difference = (got - want).abs().max().item()
    scale = max(want.abs().max().item(), float(floor))
    if not np.isfinite(difference):
        return float("inf")
    return difference / scale if scale > 0 else difference


class Judge:
    """Collects differences; prints one line a kind of tensor and one a failure."""

    def __init__(self):
        self.worst = {}
        self.failures = []

    def see(self, kind, case, got, bound, exact, other=None, floor=0.0):
        """`exact` is the fp64 result; `other` PyTorch's fp32 one, for scale."""
        ours = relative(got, exact, floor)
        theirs = relative(other, exact, floor) if other is not None else 0.0
        count, most, name, torchs = self.worst.get(kind, (0, -1.0, "", 0.0))
        if ours > most:
            most, name = ours, case
        self.worst[kind] = (count + 1, most, name, max(torchs, theirs))
        if not ours <= bound:
            self.failures.append(f"{case}: {kind} differs by {ours:.2e}, allowed {bound:.1e} "
                                 f"(PyTorch in fp32: {theirs:.2e})")

    def finish(self):
        print(f"{'':28}{'tensors':>8}{'worst':>10}{'torch fp32':>12}  worst at")
        for kind, (count, most, name, theirs) in self.worst.items():
            print(f"{kind:28}{count:8}{most:10.1e}{theirs:12.1e}  {name}")
        for failure in self.failures:
            print("FAILED " + failure)
        if not self.worst:
            print("FAILED nothing was compared")
        sys.exit(1 if self.failures or not self.worst else 0)


def judge_cases(directory, computations):
    """computations[kind](case, dtype) returns the outputs of a case by name, computed in dtype.

    "NAME floor" beside NAME is the least size to judge it by.
    """
    judge = Judge()
    for case in read_cases(directory):
        compute = computations[case.kind]
        exact = compute(case, torch.float64)
        single = compute(case, torch.float32)
        kind = case.kind + ["", " fp16", " bf16"][int(case.settings.get("half", 0))]
        for name, (got, bound) in case.outputs.items():
            judge.see(f"{kind} {name}", case.name, got, bound, exact[name], single[name],
                      exact.get(name + " floor", 0.0))
            if kind != case.kind and got.dim() == 4:  # on the same grid: nearly all are equal
                unequal = [(x.double() != exact[name].double()).double().mean()[None] for x in (got, single[name])]
                judge.see(f"{kind} {name}, unequal", case.name, unequal[0], UNEQUAL, torch.zeros(1), unequal[1], 1.0)
    judge.finish()

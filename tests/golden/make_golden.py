#!/usr/bin/python3
"""Writes the golden files beside it with PyTorch (Debian python3-torch 1.13).

Weights, images and labels come from an integer hash that golden_inputs.hpp computes too, so the files hold results
only: the loss of each step, and for each gradient of the first step its norm and its projection on hashed
directions, in fp64. Run: tests/golden/make_golden.py [NAME...]
"""
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
from torch_resnet import ResNet  # noqa: E402


def hashed(stream, count):
    """count doubles in [-1, 1): the hash of (stream, position)."""
    x = (np.arange(count, dtype=np.uint64) * 0x9E3779B9 + stream * 0x85EBCA6B + 1) & 0xFFFFFFFF
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x ^= x >> np.uint64(shift)
        x = (x * np.uint64(factor)) & np.uint64(0xFFFFFFFF)
    x ^= x >> np.uint64(16)
    return (x >> np.uint64(8)).astype(np.float64) / 8388608.0 - 1.0


def fill(model):
    """Parameter number i from stream i, spread by role.

    Large convolution weights (BN makes the net blind to their scale, so steps are relatively smaller) and a small
    last BN of each block keep the net well-conditioned: fp32 and fp64 of torch then agree to about 5e-6 after 20
    steps, where plain kaiming weights drift apart by 2e-2 and would hide real differences.
    """
    names = [name for name, _ in model.named_parameters()]
    last_bn = "bn3.weight" if any("bn3" in name for name in names) else "bn2.weight"
    for i, (name, p) in enumerate(model.named_parameters()):
        u = hashed(i, p.numel())
        if p.dim() == 4:
            v = u * (96.0 / (p.shape[0] * p.shape[2] * p.shape[3])) ** 0.5
        elif p.dim() == 2:
            v = u / p.shape[1] ** 0.5
        elif name.startswith("fc") or name.endswith("bias"):
            v = 0.1 * u
        else:
            v = (0.25 if name.endswith(last_bn) else 1) + 0.1 * u
        p.data = torch.from_numpy(v.astype(np.float32).reshape(p.shape)).to(p.dtype)


def batch(size, height, width, channels, classes):
    images = hashed(1000, size * height * width * channels).astype(np.float32)
    images = torch.from_numpy(images.reshape(size, height, width, channels)).permute(0, 3, 1, 2)
    labels = np.floor((hashed(1001, size) + 1) * 0.5 * classes).astype(np.int64)
    return images, torch.from_numpy(labels)


def first_gradients(arch, channels, classes, images, labels, out):
    model = ResNet(arch, channels, classes).double()
    fill(model)
    loss = F.cross_entropy(model(images.double()), labels)
    loss.backward()
    out.write(f"loss64 {loss.item():.12g}\n")
    for i, (name, p) in enumerate(model.named_parameters()):
        g = p.grad.reshape(-1).numpy()
        direction = hashed(2000 + i, g.size)
        out.write(f"gradient {name} {np.linalg.norm(g):.9g} {np.dot(g, direction):.9g}\n")


def make(name, arch, size, side, channels, classes, steps, lr, nesterov=False):
    torch.set_num_threads(1)
    images, labels = batch(size, side, side, channels, classes)
    with open(os.path.join(HERE, name + ".golden"), "w") as out:
        out.write("# written by make_golden.py, torch " + torch.__version__ + "\n")
        out.write(f"net {arch} {size} {side} {channels} {classes}\n")
        out.write(f"sgd {lr} 0.9 1e-4 {int(nesterov)}\n")
        first_gradients(arch, channels, classes, images, labels, out)
        model = ResNet(arch, channels, classes)
        fill(model)
        sgd = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=1e-4,
                              nesterov=nesterov)
        for _ in range(steps):
            sgd.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            sgd.step()
            out.write(f"loss {loss.item():.9g}\n")
        for key, value in model.state_dict().items():
            if value.dtype == torch.float32:
                v = value.double().reshape(-1).numpy()
                direction = hashed(3000, v.size)
                out.write(f"state {key} {np.linalg.norm(v):.9g} {np.dot(v, direction):.9g}\n")
        model.eval()
        with torch.no_grad():
            logits = model(images[:3]).reshape(-1)
        out.write("eval " + " ".join(f"{v:.7g}" for v in logits.tolist()) + "\n")


NETWORKS = [
    ("resnet20_28x28x1", "resnet20", 16, 28, 1, 10, 20, 0.05),
    ("resnet20_32x32x3", "resnet20", 32, 32, 3, 10, 20, 0.05),
    # At 0.05 four images are learnt by heart in eight steps: losses of 1e-4, of which fp32 and fp64 hold other digits
    # (4e-4 of them apart). Even at 0.005 two convolution kernels differ by 7e-4 at the end.
    ("resnet18_64x64x3", "resnet18", 4, 64, 3, 10, 20, 0.0005),
    ("resnet8_15x15x3", "resnet8", 5, 15, 3, 7, 5, 0.05, True),
    ("resnet50_65x65x3", "resnet50", 4, 65, 3, 10, 3, 0.01),
    ("resnet18-32_20x20x3", "resnet18-32", 4, 20, 3, 10, 5, 0.05),
    ("resnet50-32_17x17x1", "resnet50-32", 4, 17, 1, 10, 3, 0.01),
]

if __name__ == "__main__":
    for network in NETWORKS:
        if not sys.argv[1:] or network[0] in sys.argv[1:]:
            make(*network)

#!/usr/bin/python3
"""Writes the golden files beside it with PyTorch (Debian python3-torch 1.13).

Weights, images and labels come from an integer hash that golden_inputs.hpp computes too, so the files hold results
only: the loss of each step, and for each gradient of the first step its norm and its projection on hashed
directions, in fp64. Run: tests/golden/make_golden.py
"""
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))


def hashed(stream, count):
    """count doubles in [-1, 1): the hash of (stream, position)."""
    x = (np.arange(count, dtype=np.uint64) * 0x9E3779B9 + stream * 0x85EBCA6B + 1) & 0xFFFFFFFF
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x ^= x >> np.uint64(shift)
        x = (x * np.uint64(factor)) & np.uint64(0xFFFFFFFF)
    x ^= x >> np.uint64(16)
    return (x >> np.uint64(8)).astype(np.float64) / 8388608.0 - 1.0


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, planes_in, planes, stride, option_a):
        super().__init__()
        self.conv1 = nn.Conv2d(planes_in, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.pad = planes // 4 if option_a and stride != 1 else 0
        if not option_a and (stride != 1 or planes_in != planes):
            self.downsample = nn.Sequential(
                nn.Conv2d(planes_in, planes, 1, stride, bias=False), nn.BatchNorm2d(planes))
        else:
            self.downsample = None

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        if self.downsample is not None:
            x = self.downsample(x)
        elif self.pad:
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.pad, self.pad))
        return F.relu(y + x)


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, planes_in, planes, stride, _option_a):
        super().__init__()
        planes_out = 4 * planes
        self.conv1 = nn.Conv2d(planes_in, planes, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.conv3 = nn.Conv2d(planes, planes_out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(planes_out)
        self.downsample = None
        if stride != 1 or planes_in != planes_out:
            self.downsample = nn.Sequential(
                nn.Conv2d(planes_in, planes_out, 1, stride, bias=False),
                nn.BatchNorm2d(planes_out))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        if self.downsample is not None:
            x = self.downsample(x)
        return F.relu(y + x)


SPECS = {
    "resnet8": (BasicBlock, [1, 1, 1]),
    "resnet20": (BasicBlock, [3, 3, 3]),
    "resnet18": (BasicBlock, [2, 2, 2, 2]),
    "resnet50": (Bottleneck, [3, 4, 6, 3]),
    "resnet18-32": (BasicBlock, [2, 2, 2, 2]),
    "resnet50-32": (Bottleneck, [3, 4, 6, 3]),
}


class ResNet(nn.Module):
    """torchvision's ResNet (v1.5), with a 3x3 stem and no pooling for "-32", or the CIFAR form with option A
    shortcuts, by the number of stages."""

    def __init__(self, arch, channels, classes):
        super().__init__()
        block, counts = SPECS[arch]
        option_a = len(counts) == 3
        self.small_stem = option_a or arch.endswith("-32")
        self.stages = len(counts)
        width = 16 if option_a else 64
        kernel, stride = (3, 1) if self.small_stem else (7, 2)
        self.conv1 = nn.Conv2d(channels, width, kernel, stride, kernel // 2, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        planes_in = width
        for stage, count in enumerate(counts):
            planes = width << stage
            blocks = []
            for i in range(count):
                blocks.append(block(planes_in, planes, 2 if stage and not i else 1, option_a))
                planes_in = planes * block.expansion
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(planes_in, classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        if not self.small_stem:
            x = F.max_pool2d(x, 3, 2, 1)
        for stage in range(self.stages):
            x = getattr(self, f"layer{stage + 1}")(x)
        return self.fc(x.mean((2, 3)))


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


if __name__ == "__main__":
    make("resnet20_28x28x1", "resnet20", 16, 28, 1, 10, 20, 0.05)
    make("resnet18_64x64x3", "resnet18", 4, 64, 3, 10, 5, 0.05)
    make("resnet8_15x15x3", "resnet8", 5, 15, 3, 7, 5, 0.05, nesterov=True)
    make("resnet50_65x65x3", "resnet50", 4, 65, 3, 10, 3, 0.01)
    make("resnet18-32_20x20x3", "resnet18-32", 4, 20, 3, 10, 5, 0.05)
    make("resnet50-32_17x17x1", "resnet50-32", 4, 17, 1, 10, 3, 0.01)

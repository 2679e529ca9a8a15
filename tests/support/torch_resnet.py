#!/usr/bin/python3
"""The ResNets of this project in PyTorch, with torchvision's names and without torchvision.

CIFAR form (resnet8, resnet20, ...): 3x3 stem, three stages, option A shortcuts (no parameters). ImageNet form
(resnet18, resnet34, resnet50): 7x7 stem, max pooling, four stages, projection shortcuts.

Run as a script it loads exported weights with strict=True and compares logits on images made by a formula:
torch_resnet.py ARCH CHANNELS SIZE IMAGES WEIGHTS.safetensors LOGITS.f32 TOLERANCE
"""
import os
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from safetensors_to_torch import load_safetensors  # noqa: E402

IMAGENET_BLOCKS = {"resnet18": [2, 2, 2, 2], "resnet34": [3, 4, 6, 3], "resnet50": [3, 4, 6, 3]}
BOTTLENECK = ("resnet50",)


class BasicBlock(nn.Module):
    def __init__(self, planes_in, planes, stride, option_a):
        super().__init__()
        self.conv1 = nn.Conv2d(planes_in, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.pad = (planes - planes_in) // 2 if option_a else 0
        changes = stride != 1 or planes_in != planes
        self.downsample = None
        if changes and not option_a:
            self.downsample = nn.Sequential(
                nn.Conv2d(planes_in, planes, 1, stride, bias=False), nn.BatchNorm2d(planes))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.bn2(self.conv2(y))
        if self.downsample is not None:
            x = self.downsample(x)
        elif self.pad:
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.pad, self.pad))
        return F.relu(y + x, inplace=True)


class Bottleneck(nn.Module):
    """1x1, 3x3 with the stride, 1x1 to four times the width."""

    def __init__(self, planes_in, width, stride):
        super().__init__()
        planes = 4 * width
        self.conv1 = nn.Conv2d(planes_in, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, planes, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(planes)
        self.downsample = None
        if stride != 1 or planes_in != planes:
            self.downsample = nn.Sequential(
                nn.Conv2d(planes_in, planes, 1, stride, bias=False), nn.BatchNorm2d(planes))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = F.relu(self.bn2(self.conv2(y)), inplace=True)
        y = self.bn3(self.conv3(y))
        if self.downsample is not None:
            x = self.downsample(x)
        return F.relu(y + x, inplace=True)


class ResNet(nn.Module):
    def __init__(self, arch, channels, classes):
        super().__init__()
        self.cifar = arch not in IMAGENET_BLOCKS
        counts = [(int(arch[6:]) - 2) // 6] * 3 if self.cifar else IMAGENET_BLOCKS[arch]
        width = 16 if self.cifar else 64
        if self.cifar:
            self.conv1 = nn.Conv2d(channels, width, 3, 1, 1, bias=False)
        else:
            self.conv1 = nn.Conv2d(channels, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.stages = len(counts)
        planes_in = width
        for stage, count in enumerate(counts):
            planes = width << stage
            blocks = []
            for i in range(count):
                stride = 2 if stage > 0 and i == 0 else 1
                if arch in BOTTLENECK:
                    blocks.append(Bottleneck(planes_in, planes, stride))
                    planes_in = 4 * planes
                else:
                    blocks.append(BasicBlock(planes_in, planes, stride, self.cifar))
                    planes_in = planes
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(planes_in, classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        if not self.cifar:
            x = F.max_pool2d(x, 3, 2, 1)
        for stage in range(self.stages):
            x = getattr(self, f"layer{stage + 1}")(x)
        return self.fc(x.mean((2, 3)))


def formula_images(count, height, width, channels):
    """NCHW fp32 in [-1, 1): pixel i of the NHWC order is a hash of i, exact in fp32."""
    values = count * height * width * channels
    x = (np.arange(values, dtype=np.uint64) * np.uint64(0x9E3779B9) + np.uint64(1)) & np.uint64(0xFFFFFFFF)
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x ^= x >> np.uint64(shift)
        x = (x * np.uint64(factor)) & np.uint64(0xFFFFFFFF)
    x ^= x >> np.uint64(16)
    pixels = ((x >> np.uint64(8)).astype(np.float64) / 8388608.0 - 1.0).astype(np.float32)
    nhwc = torch.from_numpy(pixels.reshape(count, height, width, channels))
    return nhwc.permute(0, 3, 1, 2).contiguous()


def main():
    arch, channels, size, count, weights, logits_file, tolerance = sys.argv[1:]
    torch.set_num_threads(1)
    model = ResNet(arch, int(channels), 10)
    state = load_safetensors(weights)
    model.load_state_dict(state, strict=True)
    model.eval()
    ours = torch.from_numpy(np.fromfile(logits_file, dtype=np.float32).reshape(int(count), 10))
    with torch.no_grad():
        theirs = model(formula_images(int(count), int(size), int(size), int(channels)))
    difference = (ours - theirs).abs().max().item()
    print(f"{arch}: {len(state)} tensors, largest logit {theirs.abs().max().item():.3f}, "
          f"largest difference {difference:.2e}")
    if not torch.isfinite(theirs).all() or not difference <= float(tolerance):
        sys.exit(f"{arch}: logits differ by {difference:.2e}, allowed {tolerance}")


if __name__ == "__main__":
    main()

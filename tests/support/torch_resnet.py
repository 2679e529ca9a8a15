#!/usr/bin/python3
"""The ResNets of this project in PyTorch, with torchvision's names and without torchvision.

CIFAR form (resnet8, resnet20, ...): 3x3 stem, three stages, option A shortcuts (no parameters). ImageNet form
(resnet18, resnet34, resnet50): 7x7 stem, max pooling, four stages, projection shortcuts; with "-32" a 3x3
stem without pooling.

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

class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, planes_in, planes, stride, option_a):
        super().__init__()
        self.conv1 = nn.Conv2d(planes_in, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.pad = (planes - planes_in) // 2 if option_a else 0
        self.downsample = projection(planes_in, planes, stride) if not option_a else None

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.bn2(self.conv2(y))
        return F.relu(y + self.shortcut(x), inplace=True)

    def shortcut(self, x):
        if self.downsample is not None:
            return self.downsample(x)
        return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.pad, self.pad)) if self.pad else x


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, planes_in, planes, stride, _option_a):
        super().__init__()
        self.conv1 = nn.Conv2d(planes_in, planes, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.conv3 = nn.Conv2d(planes, 4 * planes, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * planes)
        self.pad = 0
        self.downsample = projection(planes_in, 4 * planes, stride)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = F.relu(self.bn2(self.conv2(y)), inplace=True)
        y = self.bn3(self.conv3(y))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)), inplace=True)


def projection(planes_in, planes_out, stride):
    if stride == 1 and planes_in == planes_out:
        return None
    return nn.Sequential(nn.Conv2d(planes_in, planes_out, 1, stride, bias=False),
                         nn.BatchNorm2d(planes_out))


BLOCKS = {
    "resnet18": (BasicBlock, [2, 2, 2, 2]),
    "resnet34": (BasicBlock, [3, 4, 6, 3]),
    "resnet50": (Bottleneck, [3, 4, 6, 3]),
}


class ResNet(nn.Module):
    """torchvision's ResNet (v1.5), with a 3x3 stem and no pooling for "-32", or the CIFAR form."""

    def __init__(self, arch, channels, classes):
        super().__init__()
        name = arch.partition("-32")[0]
        option_a = name not in BLOCKS
        block, counts = (BasicBlock, [(int(name[6:]) - 2) // 6] * 3) if option_a else BLOCKS[name]
        self.small_stem = option_a or name != arch
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

    def blocks(self):
        return [block for i in range(self.stages) for block in getattr(self, f"layer{i + 1}")]

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        if not self.small_stem:
            x = F.max_pool2d(x, 3, 2, 1)
        for block in self.blocks():
            x = block(x)
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

#!/usr/bin/python3
"""Weights that other programs write, and what those programs make of ours.

torchvision_weights.py save MODEL CLASSES HEIGHT WIDTH IMAGES WEIGHTS.safetensors LOGITS.f32
    A model with random parameters and running statistics; its state_dict, and its logits on images made by a formula.
torchvision_weights.py load MODEL CLASSES WEIGHTS.safetensors
    Loads the file with strict=True; every tensor of the model then has the file's bits.

MODEL is one of torchvision's, or kuangliu-resnet18: the small-image network under pytorch-cifar's names, as
DataParallel saves it. Exit code 77 when torchvision is not installed.
"""
import json
import os
import sys

try:
    import torch
    import torchvision
except ImportError:
    sys.exit(77)
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from safetensors_to_torch import load_safetensors  # noqa: E402
from torch_resnet import formula_images  # noqa: E402

NAMES = {torch.float32: "F32", torch.int64: "I64"}


class CifarBlock(nn.Module):
    def __init__(self, planes_in, planes, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(planes_in, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.shortcut = nn.Sequential()
        if stride != 1 or planes_in != planes:
            self.shortcut = nn.Sequential(
                nn.Conv2d(planes_in, planes, 1, stride, bias=False), nn.BatchNorm2d(planes))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.shortcut(x))


class CifarResNet18(nn.Module):
    """The attributes, and so the names, of kuangliu/pytorch-cifar's models/resnet.py."""

    def __init__(self, num_classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = nn.Sequential(CifarBlock(64, 64, 1), CifarBlock(64, 64, 1))
        self.layer2 = nn.Sequential(CifarBlock(64, 128, 2), CifarBlock(128, 128, 1))
        self.layer3 = nn.Sequential(CifarBlock(128, 256, 2), CifarBlock(256, 256, 1))
        self.layer4 = nn.Sequential(CifarBlock(256, 512, 2), CifarBlock(512, 512, 1))
        self.linear = nn.Linear(512, num_classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.linear(x.mean((2, 3)))


def build(name, classes):
    if name == "kuangliu-resnet18":
        return nn.DataParallel(CifarResNet18(classes))
    return getattr(torchvision.models, name)(weights=None, num_classes=classes)


def randomise(model):
    """Statistics far from 0 and 1, or nobody would notice that they were not loaded."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1)
            nn.init.normal_(module.bias, 0, 0.1)
            nn.init.normal_(module.running_mean, 0, 0.2)
            nn.init.uniform_(module.running_var, 0.5, 2)
            module.num_batches_tracked.fill_(int(torch.randint(1, 1000, ())))
        elif isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, 0, 0.1)


def save_safetensors(path, tensors):
    header, offset = {}, 0
    for name, tensor in tensors.items():
        size = tensor.numel() * tensor.element_size()
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            file.write(tensor.contiguous().numpy().tobytes())


def save(name, classes, height, width, images, weights, logits):
    torch.manual_seed(20)
    model = build(name, int(classes))
    randomise(model)
    model.eval()
    save_safetensors(weights, model.state_dict())
    with torch.no_grad():
        out = model(formula_images(int(images), int(height), int(width), 3))
    out.numpy().tofile(logits)
    print(f"{name}: {len(model.state_dict())} tensors, largest logit {out.abs().max().item():.3f}")


def load(name, classes, weights):
    model = build(name, int(classes))
    state = load_safetensors(weights)
    model.load_state_dict(state, strict=True)
    loaded = model.state_dict()
    different = [key for key, tensor in state.items()
                 if tensor.dtype != loaded[key].dtype or not torch.equal(tensor, loaded[key])]
    print(f"{name}: {len(state)} of {len(loaded)} tensors, different: {different}")
    if different or list(sorted(state)) != list(sorted(loaded)):
        sys.exit(1)


if __name__ == "__main__":
    torch.set_num_threads(1)
    {"save": save, "load": load}[sys.argv[1]](*sys.argv[2:])

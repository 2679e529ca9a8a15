#!/usr/bin/python3
"""The recipe of config/jobs/resnet20-cifar10-jpeg.yaml in plain PyTorch, one process: JSON lines on stdout.

A strong form of it: all images are decoded once into memory, crops and flips are made for a whole batch at a time,
channels-last. The timed part is training with the validation after each epoch, without decoding.
Run: torch_cifar.py FOLDER --epochs E --batch B --lr LR --weight-decay W --warmup-epochs N --warmup-start F
     --label-smoothing S --seed S --threads T      FOLDER holds train/ and test/ with a folder a class
"""
import argparse
import json
import math
import os
import sys
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import torch_resnet  # noqa: E402

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)


def read(folder):
    classes = sorted(os.listdir(folder))
    images, labels = [], []
    for label, name in enumerate(classes):
        for file in sorted(os.listdir(os.path.join(folder, name))):
            images.append(np.asarray(Image.open(os.path.join(folder, name, file)).convert("RGB")))
            labels.append(label)
    pixels = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2)
    return pixels.contiguous(memory_format=torch.channels_last), torch.tensor(labels)


def normalised(pixels):
    mean = torch.tensor(MEAN).view(1, 3, 1, 1)
    std = torch.tensor(STD).view(1, 3, 1, 1)
    return ((pixels.float() / 255 - mean) / std).contiguous(memory_format=torch.channels_last)


def augmented(pixels, generator):
    """Pad 4, a random crop and a flip for each image."""
    n = len(pixels)
    padded = F.pad(pixels, (4, 4, 4, 4))
    top, left = torch.randint(0, 9, (2, n), generator=generator)
    flip = torch.rand(n, generator=generator) < 0.5
    rows = top.view(n, 1) + torch.arange(32)
    columns = left.view(n, 1) + torch.where(flip.view(n, 1), 31 - torch.arange(32), torch.arange(32))
    picked = padded.permute(0, 2, 3, 1)[torch.arange(n).view(n, 1, 1), rows.view(n, 32, 1), columns.view(n, 1, 32)]
    return picked.permute(0, 3, 1, 2)


def rate(args, epoch):
    """Linear warm-up from warmup_start * lr, then a cosine to 0; `epoch` with its fraction."""
    if epoch < args.warmup_epochs:
        return args.lr * (args.warmup_start + (1 - args.warmup_start) * epoch / args.warmup_epochs)
    share = (epoch - args.warmup_epochs) / (args.epochs - args.warmup_epochs)
    return args.lr * 0.5 * (1 + math.cos(math.pi * share))


def accuracy(model, pixels, labels):
    model.eval()
    with torch.no_grad():
        hits = sum((model(normalised(p)).argmax(1) == y).sum().item()
                   for p, y in zip(pixels.split(500), labels.split(500)))
    return 100 * hits / len(labels)


def initialise(model):
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--lr", type=float, default=0.2)
    parser.add_argument("--weight-decay", type=float, default=5e-4)
    parser.add_argument("--warmup-epochs", type=int, default=0)
    parser.add_argument("--warmup-start", type=float, default=0.01)
    parser.add_argument("--label-smoothing", type=float, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


def main():
    args = parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    generator = torch.Generator().manual_seed(args.seed)
    train, train_labels = read(os.path.join(args.folder, "train"))
    val, val_labels = read(os.path.join(args.folder, "test"))
    model = torch_resnet.ResNet("resnet20", 3, 10).to(memory_format=torch.channels_last)
    initialise(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, nesterov=True,
                                weight_decay=args.weight_decay)
    steps = len(train) // args.batch
    begin = time.monotonic()
    for epoch in range(args.epochs):
        model.train()
        order = torch.randperm(len(train), generator=generator)
        loss_sum = 0.0
        for step in range(steps):
            picked = order[step * args.batch:(step + 1) * args.batch]
            for group in optimizer.param_groups:
                group["lr"] = rate(args, epoch + step / steps)
            loss = F.cross_entropy(model(normalised(augmented(train[picked], generator))), train_labels[picked],
                                   label_smoothing=args.label_smoothing)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss_sum += loss.item()
        print(json.dumps({"epoch": epoch, "train_loss": loss_sum / steps, "val_acc1": accuracy(model, val, val_labels),
                          "seconds": time.monotonic() - begin}), flush=True)


if __name__ == "__main__":
    main()

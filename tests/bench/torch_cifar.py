#!/usr/bin/python3
"""The recipe of config/jobs/resnet20-cifar10-jpeg.yaml in plain PyTorch, one process: JSON lines on stdout.

A strong form of it: all images are decoded once into memory, crops and flips are made for a whole batch at a time,
channels-last. The timed part is training with the validation after each epoch, without decoding.
Run: torch_cifar.py FOLDER RECIPE --threads T
FOLDER holds train/ and test/ with a folder a class; RECIPE is JSON with the job's keys: {"train.epochs": 15, ...}.
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


def read(folder, side):
    """Pixels and labels; images of another size are resized as torchvision's Resize does it."""
    classes = sorted(os.listdir(folder))
    images, labels = [], []
    for label, name in enumerate(classes):
        for file in sorted(os.listdir(os.path.join(folder, name))):
            image = Image.open(os.path.join(folder, name, file)).convert("RGB")
            if image.size != (side, side):
                image = image.resize((side, side), Image.BILINEAR)
            images.append(np.asarray(image))
            labels.append(label)
    pixels = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2)
    return pixels.contiguous(memory_format=torch.channels_last), torch.tensor(labels)


def normalised(pixels, recipe):
    mean = torch.tensor(recipe["data.mean"]).view(1, 3, 1, 1)
    std = torch.tensor(recipe["data.std"]).view(1, 3, 1, 1)
    return ((pixels.float() / 255 - mean) / std).contiguous(memory_format=torch.channels_last)


def augmented(pixels, generator):
    """Pad 4, a random crop and a flip for each image."""
    n, side = len(pixels), pixels.shape[-1]
    padded = F.pad(pixels, (4, 4, 4, 4))
    top, left = torch.randint(0, 9, (2, n), generator=generator)
    flip = torch.rand(n, generator=generator) < 0.5
    across = torch.arange(side)
    rows = top.view(n, 1) + across
    columns = left.view(n, 1) + torch.where(flip.view(n, 1), side - 1 - across, across)
    picked = padded.permute(0, 2, 3, 1)[torch.arange(n).view(n, 1, 1), rows.view(n, side, 1), columns.view(n, 1, side)]
    return picked.permute(0, 3, 1, 2)


def rate(recipe, epoch):
    """Linear warm-up from warmup_start * lr, then a cosine or a line to end_lr; `epoch` with its fraction."""
    lr, end, warmup = recipe["optimizer.lr"], recipe["schedule.end_lr"], recipe["schedule.warmup_epochs"]
    if epoch < warmup:
        start = recipe["schedule.warmup_start"]
        return lr * (start + (1 - start) * epoch / warmup)
    share = (epoch - warmup) / (recipe["train.epochs"] - warmup)
    if recipe["schedule.kind"] == "linear":
        return end + (lr - end) * (1 - share)
    return end + (lr - end) * 0.5 * (1 + math.cos(math.pi * share))


def accuracy(model, pixels, labels, recipe):
    model.eval()
    with torch.no_grad():
        hits = sum((model(normalised(p, recipe)).argmax(1) == y).sum().item()
                   for p, y in zip(pixels.split(500), labels.split(500)))
    return 100 * hits / len(labels)


def initialise(model, recipe):
    for name, module in model.named_modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        if recipe["model.zero_init_residual"] and name.endswith("bn2"):
            nn.init.zeros_(module.weight)


def make_optimizer(model, recipe):
    """With decay_bn false, batch norm and biases (all tensors of one dimension) are left out of the decay."""
    decayed = [p for p in model.parameters() if recipe["optimizer.decay_bn"] or p.dim() > 1]
    others = [p for p in model.parameters() if not recipe["optimizer.decay_bn"] and p.dim() <= 1]
    groups = [{"params": decayed}] + ([{"params": others, "weight_decay": 0}] if others else [])
    return torch.optim.SGD(groups, lr=recipe["optimizer.lr"], momentum=recipe["optimizer.momentum"],
                           nesterov=recipe["optimizer.nesterov"], weight_decay=recipe["optimizer.weight_decay"])


# What the job must say for this script to be the same recipe.
EXPECTED = {"profile": "pytorch", "model.arch": "resnet20", "data.augment": "cifar",
            "schedule.per_step": True, "schedule.warmup_form": "linear", "train.accumulate": 1, "train.ema_decay": 0,
            "precision.amp": False, "optimizer.clip_grad_norm": 0}


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("recipe", type=json.loads)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    for key, value in EXPECTED.items():
        if args.recipe[key] != value:
            parser.error(f"{key} is {args.recipe[key]}; this script knows {value} only")
    if args.recipe["schedule.kind"] not in ("cosine", "linear"):
        parser.error(f"schedule.kind is {args.recipe['schedule.kind']}; this script knows cosine and linear only")
    return args


def main():
    args = parse_args()
    recipe = args.recipe
    epochs, batch = recipe["train.epochs"], recipe["train.batch_size"]
    torch.manual_seed(recipe["seed"])
    torch.set_num_threads(args.threads)
    generator = torch.Generator().manual_seed(recipe["seed"])
    train, train_labels = read(os.path.join(args.folder, "train"), recipe["data.image_size"])
    val, val_labels = read(os.path.join(args.folder, "test"), recipe["data.image_size"])
    model = torch_resnet.ResNet("resnet20", 3, recipe["model.num_classes"]).to(memory_format=torch.channels_last)
    initialise(model, recipe)
    optimizer = make_optimizer(model, recipe)
    steps = len(train) // batch
    begin = time.monotonic()
    for epoch in range(epochs):
        model.train()
        order = torch.randperm(len(train), generator=generator)
        loss_sum = 0.0
        for step in range(steps):
            picked = order[step * batch:(step + 1) * batch]
            for group in optimizer.param_groups:
                group["lr"] = rate(recipe, epoch + step / steps)
            images = normalised(augmented(train[picked], generator), recipe)
            loss = F.cross_entropy(model(images), train_labels[picked],
                                   label_smoothing=recipe["train.label_smoothing"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss_sum += loss.item()
        print(json.dumps({"epoch": epoch, "train_loss": loss_sum / steps,
                          "val_acc1": accuracy(model, val, val_labels, recipe),
                          "seconds": time.monotonic() - begin}), flush=True)


if __name__ == "__main__":
    main()

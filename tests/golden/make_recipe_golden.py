#!/usr/bin/python3
"""Writes the recipe_*.golden files beside it: how a job's ranks, micro-batches and profile make one step.

Gradients come from PyTorch in fp64, one forward and backward a rank and micro-batch, with batch statistics of its own
each; the update rules are written out here in numpy. Weights, images and labels are make_golden.py's formula; step s
uses a batch of its own. Run: tests/golden/make_recipe_golden.py
"""
import os

import numpy as np
import torch
import torch.nn.functional as F

from make_golden import HERE, ResNet, fill, hashed

SIDE, CHANNELS, CLASSES = 12, 3, 5


def batches(steps, size):
    """[steps, size] images and labels."""
    images = hashed(1000, steps * size * SIDE * SIDE * CHANNELS).astype(np.float32)
    images = torch.from_numpy(images.reshape(steps, size, SIDE, SIDE, CHANNELS)).permute(0, 1, 4, 2, 3)
    labels = np.floor((hashed(1001, steps * size) + 1) * 0.5 * CLASSES).astype(np.int64)
    return images.double(), torch.from_numpy(labels.reshape(steps, size))


def torch_update(p, g, v, lr, decay):
    """torch.optim.SGD: every parameter decays; the rate is applied to the buffer."""
    v[:] = 0.9 * v + (g + decay * p)
    p -= lr * v


def tf_update(p, g, v, lr, _decay):
    """Keras: the rate goes into the buffer."""
    v[:] = 0.9 * v - lr * g
    p += v


def decays_in_tf(name):
    return "bn" not in name and "downsample.1" not in name


def make(name, profile, world, micro, share, rates, decay):
    """`share` samples a rank and micro-batch; one step for each of `rates`."""
    torch.set_num_threads(1)
    total = world * micro * share
    images, labels = batches(len(rates), total)
    model = ResNet("resnet8", CHANNELS, CLASSES).double()
    fill(model)
    buffers = {k: b.clone() for k, b in model.named_buffers()}  # rank 0's
    momentum = {n: np.zeros(p.shape) for n, p in model.named_parameters()}
    with open(os.path.join(HERE, "recipe_" + name + ".golden"), "w") as out:
        out.write("# written by make_recipe_golden.py, torch " + torch.__version__ + "\n")
        for s, lr in enumerate(rates):
            model.zero_grad()
            loss_sum = 0.0
            for r in range(world):
                for k in range(micro):
                    if r == 0:
                        model.load_state_dict({**model.state_dict(), **buffers})
                    first = (r * micro + k) * share
                    logits = model(images[s, first:first + share])
                    loss = F.cross_entropy(logits, labels[s, first:first + share], reduction="sum")
                    (loss / total).backward()
                    loss_sum += loss.item()
                    if r == 0:
                        buffers = {n: b.clone() for n, b in model.named_buffers()}
            out.write(f"loss {loss_sum / total:.12g}\n")
            for n, p in model.named_parameters():
                g = p.grad.numpy().copy()
                w = p.data.numpy()
                if profile == "tf":
                    if decays_in_tf(n):
                        g += 2 * decay * w
                    tf_update(w, g, momentum[n], lr, decay)
                else:
                    torch_update(w, g, momentum[n], lr, decay)
        model.load_state_dict({**model.state_dict(), **buffers})
        for key, value in model.state_dict().items():
            if value.is_floating_point():
                v = value.reshape(-1).numpy()
                out.write(f"state {key} {np.linalg.norm(v):.12g} {np.dot(v, hashed(3000, v.size)):.12g}\n")


if __name__ == "__main__":
    # Three steps an epoch: one epoch of warm-up from 0, drops at epochs 2 and 3, whose first step keeps the old rate.
    drops = [0.0, 0.04 / 3, 0.08 / 3] + [0.04] * 4 + [0.004] * 3 + [0.0004] * 2
    make("tf", "tf", 2, 1, 4, drops, 1e-3)
    make("accumulate", "pytorch", 2, 3, 4, [0.02] * 4 + [0.002] * 4, 1e-3)
    make("sync_bn", "pytorch", 1, 1, 16, [0.02] * 6, 1e-3)

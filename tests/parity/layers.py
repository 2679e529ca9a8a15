#!/usr/bin/python3
"""Recomputes each layer of a directory written by the layer tests: layers.py DIRECTORY."""
import sys

import torch
import torch.nn.functional as F

from exchange import judge_cases
from low_precision import HALVES, BnJoin, BnRelu, rounded, track


def nchw(x):
    return x.permute(0, 3, 1, 2).contiguous()


def nhwc(x):
    return x.detach().permute(0, 2, 3, 1)


def leaf(tensor):
    return tensor.clone().requires_grad_(True)


def take(case, dtype, *names):
    return [case.inputs[name].to(dtype) for name in names]


def convolution(case, dtype):
    x, w, dy = take(case, dtype, "x", "w", "dy")
    x, w = leaf(nchw(x)), leaf(w)
    y = F.conv2d(x, w, stride=int(case.settings["stride"]), padding=int(case.settings["pad"]))
    y.backward(nchw(dy))
    return {"y": nhwc(y), "dx": nhwc(x.grad), "dw": w.grad, "dw_product": nhwc(w.grad)}


def max_pool(case, dtype):
    x, dy = take(case, dtype, "x", "dy")
    x = leaf(nchw(x))
    y = F.max_pool2d(x, 3, 2, 1)
    y.backward(nchw(dy))
    return {"y": nhwc(y), "dx": nhwc(x.grad)}


def average_pool(case, dtype):
    x, dy = take(case, dtype, "x", "dy")
    x = leaf(nchw(x))
    y = F.adaptive_avg_pool2d(x, 1).flatten(1)
    y.backward(dy)
    return {"y": y.detach(), "dx": nhwc(x.grad)}


def option_a(case, dtype):
    x, dy = take(case, dtype, "x", "dy")
    x = leaf(nchw(x))
    pad = (dy.shape[3] - x.shape[1]) // 2
    y = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, pad, pad))
    y.backward(nchw(dy))
    return {"y": nhwc(y), "dx": nhwc(x.grad)}


def linear(case, dtype):
    x, w, b, dy = take(case, dtype, "x", "w", "b", "dy")
    x, w, b = leaf(x), leaf(w), leaf(b)
    y = F.linear(x, w, b)
    y.backward(dy)
    return {"y": y.detach(), "dx": x.grad, "dw": w.grad, "db": b.grad}


def cross_entropy(case, dtype):
    z = leaf(case.inputs["z"].to(dtype))
    labels = case.inputs["labels"].long()
    loss = F.cross_entropy(z, labels, label_smoothing=case.settings["smoothing"])
    loss.backward()
    hits = [z.topk(min(k, z.shape[1]), 1).indices.eq(labels[:, None]).sum() for k in (1, 5)]
    return {"loss": loss.detach()[None], "hits": torch.stack(hits), "dz": z.grad}


def sgd(case, dtype):
    settings = case.settings
    p, gradients = take(case, dtype, "p", "gradients")
    lr, momentum = settings["lr"], settings["momentum"]
    if settings["tf"]:
        v = torch.zeros_like(p)
        for step, gradient in enumerate(gradients):
            v = momentum * v - lr * (0.1 if step >= 3 else 1.0) * (gradient + settings["decay"] * p)
            p = p + v
        return {"p": p, "v": v}
    p = leaf(p)
    optimiser = torch.optim.SGD([p], lr=lr, momentum=momentum, weight_decay=settings["decay"],
                                nesterov=bool(settings["nesterov"]))
    for step, gradient in enumerate(gradients):
        optimiser.param_groups[0]["lr"] = lr * (0.1 if step >= 3 else 1.0)
        p.grad = gradient.clone()
        optimiser.step()
    return {"p": p.detach(), "v": optimiser.state[p].get("momentum_buffer")}


def half_of(case):
    return list(HALVES.values())[int(case.settings["half"])]


class BatchNorm:
    """One layer of a case: forward, then what is asked of it afterwards."""

    def __init__(self, case, dtype, suffix):
        self.half = half_of(case)
        self.suffix = suffix
        names = [name + suffix for name in ("weight", "bias", "running_mean", "running_var")]
        weight, bias, mean, var = take(case, dtype, *names)
        self.weight, self.bias = leaf(weight), leaf(bias)
        self.running_mean, self.running_var = mean.clone(), var.clone()

    def relu(self, y):
        if self.half is None:
            return F.relu(self(y))
        track(y, self)
        return BnRelu.apply(y, self.weight, self.bias, self.half)

    def join(self, y, residual, side):
        if self.half is None:
            return F.relu(self(y) + (residual if side is None else side(residual)))
        track(y, self)
        if side is None:
            return BnJoin.apply(y, self.weight, self.bias, residual, None, None, self.half)
        track(residual, side)
        return BnJoin.apply(y, self.weight, self.bias, residual, side.weight, side.bias, self.half)

    def __call__(self, y):
        return F.batch_norm(y, self.running_mean, self.running_var, self.weight, self.bias, True, 0.1, 1e-5)

    def gradient_floor(self, y, g):
        """Size of the terms whose differences are the input gradient: with two values a channel next to nothing is
        left of them, and what is left is their rounding."""
        y = y.detach()
        inv_std = (y.var((0, 2, 3), unbiased=False) + 1e-5).rsqrt()
        return ((self.weight.detach().abs() * inv_std)[None, :, None, None] * g.abs()).max()

    def results(self):
        values = {"new_mean": self.running_mean, "new_var": self.running_var, "dweight": self.weight.grad,
                  "dbias": self.bias.grad}
        return {name + self.suffix: value for name, value in values.items()}


def batch_norm(case, dtype):
    y, dz = take(case, dtype, "y", "dz")
    bn = BatchNorm(case, dtype, "")
    y, dz = leaf(rounded(nchw(y), bn.half)), rounded(nchw(dz), bn.half)
    z = bn.relu(y)
    z.backward(dz)
    return {"z": nhwc(z), "dy": nhwc(y.grad), "dy floor": bn.gradient_floor(y, dz), **bn.results()}


def join(case, dtype, projected=False):
    y, residual, dx, add = take(case, dtype, "y", "residual", "dx", "add")
    bn = BatchNorm(case, dtype, "")
    side = BatchNorm(case, dtype, "2") if projected else None
    y, residual = leaf(rounded(nchw(y), bn.half)), leaf(rounded(nchw(residual), bn.half))
    z = bn.join(y, residual, side)
    dz = nchw(dx) + (nchw(add) if projected else rounded(nchw(add), bn.half))
    z.backward(dz)
    results = {"z": nhwc(z), "dy": nhwc(y.grad), "dresidual": nhwc(residual.grad),
               "dy floor": bn.gradient_floor(y, dz), **bn.results()}
    if projected:
        results["dresidual floor"] = side.gradient_floor(residual, dz)
        results.update(side.results())
    return results


def join_projection(case, dtype):
    return join(case, dtype, True)


if __name__ == "__main__":
    judge_cases(sys.argv[1], {
        f.__name__: f for f in (convolution, max_pool, average_pool, option_a, linear, cross_entropy, sgd,
                                batch_norm, join, join_projection)})

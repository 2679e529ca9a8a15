#!/usr/bin/python3
"""What training with fp16 or bf16 activations has to compute, with every rounding written out.

PyTorch 1.13 has no half-precision convolution on the CPU, so each function below computes in the dtype of its
arguments (fp32 or fp64, which stands for exact accumulation) and rounds where a tensor is stored: images, weights as
the kernels read them, convolution outputs, relu(bn(y) + shortcut), features, logits; on the way back the gradient of
logits, of features, of each convolution's output, of relu(bn(y)) inside a block and of y + shortcut behind the ReLU
that joins them. A sum of gradients is rounded once, not its terms. Batch statistics, affine coefficients, parameter
gradients, the classifier's bias and the loss are not rounded.

Run as a script it checks itself: without rounding it must agree with torch's own autograd.
"""
import os
import sys

import torch
import torch.nn.functional as F
from torch.autograd import Function
from torch.nn.grad import conv2d_input, conv2d_weight

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from torch_resnet import ResNet  # noqa: E402

EPS = 1e-5
HALVES = {"fp32": None, "fp16": torch.float16, "bf16": torch.bfloat16}


def rounded(x, half):
    return x if half is None else x.to(half).to(x.dtype)


def channels(v):
    return v[None, :, None, None]


class RoundGradient(Function):
    """The identity; its gradient, a sum of what comes from several consumers, is stored."""

    @staticmethod
    def forward(ctx, x, half):
        ctx.half = half
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return rounded(g, ctx.half), None


class Convolution(Function):
    @staticmethod
    def forward(ctx, x, weight, stride, half, stores_dx):
        w = rounded(weight, half)
        ctx.save_for_backward(x, w)
        ctx.stride, ctx.pad, ctx.half = stride, weight.shape[2] // 2, half if stores_dx else None
        return rounded(F.conv2d(x, w, stride=stride, padding=ctx.pad), half)

    @staticmethod
    def backward(ctx, dy):
        x, w = ctx.saved_tensors
        dx = None
        if ctx.needs_input_grad[0]:
            dx = rounded(conv2d_input(x.shape, w, dy, ctx.stride, ctx.pad), ctx.half)
        return dx, conv2d_weight(x, w.shape, dy, ctx.stride, ctx.pad), None, None, None


class Statistics:
    """Coefficients of one batch norm, and its backward sums."""

    def __init__(self, y, weight, bias):
        self.count = y.numel() // y.shape[1]
        self.mean = y.mean((0, 2, 3))
        self.variance = ((y - channels(self.mean)) ** 2).mean((0, 2, 3))
        self.inv_std = (self.variance + EPS).rsqrt()
        self.scale = self.inv_std * weight
        self.shift = bias - self.mean * self.scale

    def affine(self, y):
        return y * channels(self.scale) + channels(self.shift)

    def backward(self, g, y, half):
        """Gradients of y (stored), of the weight and of the bias."""
        d = y - channels(self.mean)
        total, dot = g.sum((0, 2, 3)), (g * d).sum((0, 2, 3))
        b = -self.scale * self.inv_std ** 2 * dot / self.count
        c = -self.scale * total / self.count
        dy = channels(self.scale) * g + (channels(b) * d + channels(c))
        return rounded(dy, half), dot * self.inv_std, total


class BnRelu(Function):
    """Inside a block and in front of the pooling: the mask is recomputed, the masked gradient is not stored."""

    @staticmethod
    def forward(ctx, y, weight, bias, half):
        ctx.statistics, ctx.half = Statistics(y, weight, bias), half
        ctx.save_for_backward(y)
        return rounded(F.relu(ctx.statistics.affine(y)), half)

    @staticmethod
    def backward(ctx, dz):
        y, = ctx.saved_tensors
        g = torch.where(ctx.statistics.affine(y) > 0, dz, torch.zeros_like(dz))
        return (*ctx.statistics.backward(g, y, ctx.half), None)


class BnJoin(Function):
    """A block's end: relu(bn(y) + residual), or + bn2(residual) behind a projection; the masked gradient is stored."""

    @staticmethod
    def forward(ctx, y, weight, bias, residual, weight2, bias2, half):
        ctx.first, ctx.second, ctx.half = Statistics(y, weight, bias), None, half
        z = ctx.first.affine(y)
        if weight2 is not None:
            ctx.second = Statistics(residual, weight2, bias2)
            z = z + ctx.second.affine(residual)
        elif residual is not None:
            z = z + residual
        z = rounded(F.relu(z), half)
        ctx.save_for_backward(y, residual, z)
        return z

    @staticmethod
    def backward(ctx, dz):
        y, residual, z = ctx.saved_tensors
        g = rounded(torch.where(z > 0, dz, torch.zeros_like(dz)), ctx.half)
        first = ctx.first.backward(g, y, ctx.half)
        if ctx.second is None:
            return (*first, None if residual is None else g, None, None, None)
        return (*first, *ctx.second.backward(g, residual, ctx.half), None)


class Classifier(Function):
    """Average pooling and the fully connected layer."""

    @staticmethod
    def forward(ctx, z, weight, bias, half):
        features, w = rounded(z.mean((2, 3)), half), rounded(weight, half)
        ctx.save_for_backward(features, w)
        ctx.shape, ctx.half = z.shape, half
        return rounded(features @ w.t() + bias, half)

    @staticmethod
    def backward(ctx, g):
        features, w = ctx.saved_tensors
        pixels = ctx.shape[2] * ctx.shape[3]
        dz = rounded(g @ w, ctx.half)[:, :, None, None] / pixels
        return dz.expand(ctx.shape).clone(), g.t() @ features, g.sum(0), None


@torch.no_grad()
def track(y, bn):
    """Updates the running statistics, which count what is stored."""
    bn.running_mean.lerp_(y.mean((0, 2, 3)), 0.1)
    bn.running_var.lerp_(y.var((0, 2, 3), unbiased=True), 0.1)


class LowPrecision:
    """A forward pass over the parameters of a ResNet in which everything stored is rounded to `half`."""

    def __init__(self, model, half):
        self.model = model
        self.half = half

    def conv(self, x, layer, stores_dx=False):
        return Convolution.apply(x, layer.weight, layer.stride[0], self.half, stores_dx)

    def bn_relu(self, y, bn):
        track(y, bn)
        return BnRelu.apply(y, bn.weight, bn.bias, self.half)

    def join(self, y, bn, residual=None, side=None):
        track(y, bn)
        weight2, bias2 = (None, None) if side is None else (side.weight, side.bias)
        if side is not None:
            track(residual, side)
        return BnJoin.apply(y, bn.weight, bn.bias, residual, weight2, bias2, self.half)

    def block(self, x, block):
        convs = [conv for name, conv in block.named_children() if name.startswith("conv")]
        norms = [norm for name, norm in block.named_children() if name.startswith("bn")]
        y = self.conv(x, convs[0])
        for conv, norm in zip(convs[1:], norms):
            y = self.conv(self.bn_relu(y, norm), conv, True)
        if block.downsample is not None:
            return self.join(y, norms[-1], self.conv(x, block.downsample[0]), block.downsample[1])
        if block.pad:
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, block.pad, block.pad))
        return self.join(y, norms[-1], x)

    def logits(self, images):
        m = self.model
        y = self.conv(rounded(images, self.half), m.conv1)
        if m.small_stem:
            x = self.join(y, m.bn1)
        else:
            x = RoundGradient.apply(F.max_pool2d(self.bn_relu(y, m.bn1), 3, 2, 1), self.half)
        for block in m.blocks():
            x = self.block(x, block)
        return Classifier.apply(x, m.fc.weight, m.fc.bias, self.half)

    def step(self, images, labels, scale, smoothing=0.0):
        """Mean loss, logits and the gradients of scale * loss by parameter name."""
        self.model.zero_grad()
        logits = self.logits(images)
        leaf = logits.detach().requires_grad_(True)
        loss = F.cross_entropy(leaf, labels, label_smoothing=smoothing)
        (loss * scale).backward()
        logits.backward(rounded(leaf.grad, self.half))
        gradients = {name: p.grad.clone() for name, p in self.model.named_parameters()}
        return loss.item(), logits.detach(), gradients


def sizes(gradients):
    """The magnitude to judge each gradient by: its largest, for a bias at least that of the weight beside it.

    A shift in front of a 1x1 convolution and the batch norm behind it changes nothing as long as no ReLU clips: the
    exact gradient of such a bias is next to zero.
    """
    most = {name: g.abs().max().item() for name, g in gradients.items()}
    return {name: max(size, most.get(name.replace(".bias", ".weight"), 0.0)) for name, size in most.items()}


def distance(got, want):
    """The largest difference of a gradient relative to its size, and the median over tensors."""
    size = sizes(want)
    d = torch.tensor([(got[n].double() - want[n].double()).abs().max().item() / size[n] for n in want])
    return d.max().item(), d.median().item()


def few_flips(model):
    """Draws parameters that keep nearly every value in front of a ReLU far from zero, a quarter of the channels below.

    With ordinary ones single ReLUs flip by rounding, and each flip moves gradients by several per cent: that would
    drown what is to be compared.
    """
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(module.weight, 0.9, 1.1)
            torch.nn.init.constant_(module.bias, 4.0)
            module.bias.data[3::4] = -4.0
        elif isinstance(module, torch.nn.Conv2d):
            torch.nn.init.kaiming_normal_(module.weight, mode="fan_out")
    model.fc.weight.data *= 0.1


def check(arch, channels_, side, size, scale):
    torch.manual_seed(1)
    images, labels = torch.randn(size, channels_, side, side), torch.randint(0, 10, (size,))
    model = ResNet(arch, channels_, 10)
    few_flips(model)
    exact = ResNet(arch, channels_, 10).double()
    exact.load_state_dict(model.state_dict())
    loss = F.cross_entropy(exact(images.double()), labels)
    (scale * loss).backward()
    want = {name: p.grad.clone() for name, p in exact.named_parameters()}
    got_loss, _, got = LowPrecision(exact, None).step(images.double(), labels, scale)
    plain, _ = distance(got, want)
    print(f"{arch} {size}x{side}x{side}x{channels_}: without rounding {plain:.1e} from autograd")
    good = plain < 1e-8 and abs(got_loss - loss.item()) < 1e-12
    for name, half in list(HALVES.items())[1:]:
        loss64, _, in64 = LowPrecision(exact, half).step(images.double(), labels, scale)
        loss32, _, in32 = LowPrecision(model, half).step(images, labels, scale)
        noise, rounding = distance(in32, in64), distance(in64, want)
        print(f"  {name}: loss {abs(loss64 / loss.item() - 1):.1e} from exact; gradients worst {rounding[0]:.1e}, "
              f"median {rounding[1]:.1e} from exact; fp32 against fp64 accumulation: loss "
              f"{abs(loss32 / loss64 - 1):.1e}, gradients worst {noise[0]:.1e}, median {noise[1]:.1e}")
        # The order of sums moves a value across a rounding boundary now and then, and what follows differs by about
        # as much as rounding itself does: no bound on single values can be tighter than that.
        good = good and noise[1] < 2 * rounding[1] and rounding[1] < 0.3
    return good


def main():
    torch.set_num_threads(1)
    good = check("resnet8", 3, 16, 4, 1024.0)
    good = check("resnet18", 1, 40, 2, 1024.0) and good
    good = check("resnet50-32", 3, 16, 2, 1024.0) and good
    sys.exit(0 if good else "low_precision.py: the reference disagrees with autograd or with itself")


if __name__ == "__main__":
    main()

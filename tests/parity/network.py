#!/usr/bin/python3
"""Recomputes whole training steps of a directory written by the network tests: network.py DIRECTORY."""
import sys

import torch
import torch.nn.functional as F

from exchange import Judge, read_cases
from low_precision import HALVES, LowPrecision, ResNet, distance, sizes


def load(case, dtype):
    """The model with the state before the first step, its images (batches, N, C, H, W) and its labels."""
    images = case.inputs["images"].permute(0, 1, 4, 2, 3).to(dtype).contiguous()
    state = {name[6:]: value for name, value in case.inputs.items() if name.startswith("state:")}
    model = ResNet(case.name.split(":")[0], images.shape[2], state["fc.bias"].numel()).to(dtype)
    missing, unexpected = model.load_state_dict(state, strict=False)
    if unexpected or any(not name.endswith("num_batches_tracked") for name in missing):
        sys.exit(f"{case.name}: missing {missing}, unexpected {unexpected}")
    return model, images, case.inputs["labels"].long()


def autograd_step(case, dtype):
    """All results of a step in `dtype`, by the names the test uses."""
    model, images, labels = load(case, dtype)
    loss = F.cross_entropy(model(images[0]), labels[0], label_smoothing=case.settings["smoothing"])
    (loss * case.settings["scale"]).backward()
    results = {"loss": loss.detach()[None]}
    results.update({"gradient:" + name: p.grad for name, p in model.named_parameters()})
    results.update({"buffer:" + name: buffer for name, buffer in model.named_buffers()})
    model.eval()
    with torch.no_grad():
        results["logits"] = model(images[0])
    return results


def rounded_step(case, dtype):
    """The same with everything stored rounded, and with batch statistics of what is stored."""
    model, images, labels = load(case, dtype)
    half = list(HALVES.values())[int(case.settings["half"])]
    reference = LowPrecision(model, half)
    loss, _, gradients = reference.step(images[0], labels[0], case.settings["scale"],
                                        case.settings["smoothing"])
    results = {"loss": torch.tensor([loss])}
    results.update({"gradient:" + name: g for name, g in gradients.items()})
    results.update({"buffer:" + name: buffer for name, buffer in model.named_buffers()})
    return results


def numeric_gradients(judge, case):
    """Central differences of the fp64 loss: along a random direction of each tensor and at its largest elements."""
    model, images, labels = load(case, torch.float64)
    step = 1e-7  # small, so that hardly ever a ReLU's kink lies between the two sides
    generator = torch.Generator().manual_seed(1)

    @torch.no_grad()
    def slope(parameter, direction):
        values = []
        for sign in (1, -1):
            # Batch statistics are used, so the running ones do not matter.
            parameter += sign * step * direction
            values.append(F.cross_entropy(model(images[0]), labels[0],
                                          label_smoothing=case.settings["smoothing"]).item())
            parameter -= sign * step * direction
        return case.settings["scale"] * (values[0] - values[1]) / (2 * step)

    for name, parameter in model.named_parameters():
        got, bound = case.outputs["gradient:" + name]
        got = got.double()
        direction = torch.randn(got.shape, generator=generator, dtype=torch.float64)
        direction /= direction.norm()
        along = slope(parameter, direction)
        judge.see("numeric gradient, direction", f"{case.name} {name}", (got * direction).sum()[None],
                  2 * bound, torch.tensor([along]), floor=got.norm() / got.numel() ** 0.5)
        largest = got.abs().max()
        for i in got.abs().flatten().topk(int(case.settings["numeric"])).indices:
            unit = torch.zeros(got.numel(), dtype=torch.float64)
            unit[i] = 1
            want = slope(parameter, unit.reshape(got.shape))
            judge.see("numeric gradient, element", f"{case.name} {name}", got.flatten()[i][None],
                      2 * bound, torch.tensor([want]), floor=largest)


def gradients_of(results):
    return {name[9:]: g for name, g in results.items() if name.startswith("gradient:")}


def first_step(judge, case):
    compute = rounded_step if case.settings["half"] else autograd_step
    exact, single = compute(case, torch.float64), compute(case, torch.float32)
    floors = {"gradient:" + name: size for name, size in sizes(gradients_of(exact)).items()}
    dtype = case.name.split(":")[-1]
    for name, (got, bound) in case.outputs.items():
        judge.see(f"{name.split(':')[0]} {dtype}", f"{case.name} {name}", got, bound, exact[name], single[name],
                  floors.get(name, 0.0))
    if case.settings["numeric"]:
        numeric_gradients(judge, case)
    if case.settings["half"]:
        compare_rounding(judge, case, exact)


def compare_rounding(judge, case, reference):
    """Ours must not be further from the unrounded step than the reference is.

    Which way a value close to the middle rounds depends on the order of sums, and a few layers on nearly every value
    differs for it: single elements can only be bounded by what rounding does at all, the size of the whole is sharp.
    """
    unrounded = gradients_of(autograd_step(case, torch.float64))
    ours = distance(gradients_of({name: got for name, (got, _) in case.outputs.items()}), unrounded)
    theirs = distance(gradients_of(reference), unrounded)
    print(f"{case.name}: gradients are {ours[0]:.1e} from unrounded ones at most, {ours[1]:.1e} in the median; those of "
          f"the reference {theirs[0]:.1e} and {theirs[1]:.1e}")
    if not (ours[0] <= 2 * theirs[0] and ours[1] <= 1.25 * theirs[1]):
        judge.failures.append(f"{case.name}: loses more than its roundings explain")


def losses(case, dtype, steps):
    model, images, labels = load(case, dtype)
    settings = case.settings
    sgd = torch.optim.SGD(model.parameters(), lr=settings["lr"], momentum=settings["momentum"],
                          weight_decay=settings["decay"], nesterov=bool(settings["nesterov"]))
    values = []
    for step in range(steps):
        at = step % images.shape[0]
        sgd.zero_grad()
        loss = F.cross_entropy(model(images[at]), labels[at])
        loss.backward()
        sgd.step()
        values.append(loss.item())
    return torch.tensor(values, dtype=torch.float64)


def curve(judge, case):
    """Each loss against the fp32 one of PyTorch, relative to itself."""
    got, bound = case.outputs["losses"]
    want = losses(case, torch.float32, len(got))
    for step in range(len(got)):
        judge.see("loss of a step", f"{case.name} step {step}", got[step:step + 1], bound, want[step:step + 1])
    print(f"{case.name}: " + " ".join(f"{value:.4f}" for value in want.tolist()))


def main():
    judge = Judge()
    for case in read_cases(sys.argv[1]):
        {"first_step": first_step, "curve": curve}[case.kind](judge, case)
    judge.finish()


if __name__ == "__main__":
    main()

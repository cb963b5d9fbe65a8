#!/usr/bin/env python3
"""What timm's Swin Transformers give, for tests of ours.

  swin_reference.py --can-run        says whether timm is there
  swin_reference.py --cases FOLDER   random weights (CASE.weights.pt, a state dict) and results (CASE.pt) of every case
  swin_reference.py --golden FILE    results as text for weights that a formula gives: tests/data/swin_reference.txt
"""

import argparse
import os
import sys

import timm
import torch
from timm.models.swin_transformer import SwinTransformer

# Sizes in pixels; a patch has 4. What each case is for:
CASES = {
    # shifted windows in the first stage, a single window in the second
    "window7": {"image": (56, 56), "window": 7, "width": 16, "depths": (2, 2), "heads": (2, 4)},
    "window12": {"image": (96, 96), "window": 12, "width": 16, "depths": (2, 2), "heads": (2, 4)},
    # maps of 15x13 and 8x7: padded both ways, shifted one way only
    "padded": {"image": (60, 52), "window": 7, "width": 16, "depths": (2, 2), "heads": (1, 2)},
    # maps smaller than a window, and of odd size before merging
    "small": {"image": (20, 36), "window": 7, "width": 8, "depths": (1, 3, 2), "heads": (1, 1, 2)},
}
CLASSES = 10
BATCH = 3


def build(case, drop_path=0.0, image=None):
    return SwinTransformer(
        img_size=image or case["image"], window_size=case["window"], embed_dim=case["width"], depths=case["depths"],
        num_heads=case["heads"], num_classes=CLASSES, drop_path_rate=drop_path)


def set_fused(model, fused):
    for module in model.modules():
        if hasattr(module, "fused_attn"):
            module.fused_attn = fused


def results(model, images, labels, bf16=False):
    """Logits in evaluation, then those, loss and gradients in training."""
    model.eval()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        evaluated = model(images)
    model.train()
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        logits = model(images)
        loss = torch.nn.functional.cross_entropy(logits, labels)
    loss.backward()
    return {
        "evaluated": evaluated.float() if bf16 else evaluated,
        "loss": loss.detach(),
        "gradients": {name: parameter.grad.clone() for name, parameter in model.named_parameters()},
    }


def in_double(model, images, labels):
    mine = {name: value.clone() for name, value in model.state_dict().items()}
    model.double()
    found = results(model, images.double(), labels)
    model.float().load_state_dict(mine)
    return found


def options_of(case, image=None):
    as_tensor = lambda *numbers: torch.tensor(numbers, dtype=torch.int64)
    return {
        "image": as_tensor(*(image or case["image"])), "window": as_tensor(case["window"]),
        "width": as_tensor(case["width"]), "depths": as_tensor(*case["depths"]), "heads": as_tensor(*case["heads"]),
        "classes": as_tensor(CLASSES),
    }


def draw_weights(model):
    """Larger than timm's start, where biases are zero and attention is nearly even."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.3 if parameter.dim() > 1 else 0.5)


def write_case(folder, name, case):
    torch.manual_seed(len(name))
    model = build(case)
    draw_weights(model)
    images = torch.randn(BATCH, 3, *case["image"])
    labels = torch.randint(CLASSES, (BATCH,))
    set_fused(model, False)
    found = {"options": options_of(case), "images": images, "labels": labels}
    found["truth"] = in_double(model, images, labels)
    for kind, fused in (("written_out", False), ("fused", True)):
        set_fused(model, fused)
        found[kind] = results(model, images, labels)
        found[kind + " bf16"] = results(model, images, labels, bf16=True)
    torch.save(model.state_dict(), os.path.join(folder, name + ".weights.pt"))
    torch.save(found, os.path.join(folder, name + ".pt"))


def write_other_size(folder):
    """Weights of the smaller size's model, in one that was built for larger images."""
    case, image = CASES["window7"], (84, 92)
    torch.manual_seed(1)
    model = build(case, image=image)
    draw_weights(model)
    images = torch.randn(BATCH, 3, *image)
    labels = torch.randint(CLASSES, (BATCH,))
    set_fused(model, False)
    torch.save(model.state_dict(), os.path.join(folder, "other_size.weights.pt"))
    torch.save({"options": options_of(case), "images": images, "labels": labels,
                "truth": in_double(model, images, labels)}, os.path.join(folder, "other_size.pt"))


def write_drop_path(folder):
    """Ours draws the factors of all branches at once; timm's DropPath is given what the same generator draws."""
    case = CASES["window7"]
    torch.manual_seed(2)
    model = build(case, drop_path=0.4)
    draw_weights(model)
    images = torch.randn(16, 3, *case["image"])
    labels = torch.randint(CLASSES, (16,))
    model.double()
    rates = torch.linspace(0, 0.4, sum(case["depths"]))
    keep = torch.stack([1 - rate for rate in rates if rate > 0 for _ in range(2)]).unsqueeze(1).double()
    paths = [m for m in model.modules() if type(m).__name__ == "DropPath"]
    assert len(paths) == len(keep)
    torch.manual_seed(11)
    factors = torch.bernoulli(keep.expand(len(keep), 16)) / keep
    for path, factor in zip(paths, factors):
        path.forward = lambda x, factor=factor: x * factor.view(-1, *[1] * (x.dim() - 1))
    set_fused(model, False)
    model.train()
    loss = torch.nn.functional.cross_entropy(model(images.double()), labels)
    loss.backward()
    torch.save(model.state_dict(), os.path.join(folder, "drop_path.weights.pt"))
    torch.save({"options": options_of(case), "images": images, "labels": labels, "truth": {
        "loss": loss.detach(), "gradients": {n: p.grad.clone() for n, p in model.named_parameters()}}},
        os.path.join(folder, "drop_path.pt"))


def write_swin_t(folder):
    torch.manual_seed(3)
    model = timm.create_model("swin_tiny_patch4_window7_224", drop_path_rate=0.0)
    set_fused(model, False)
    images = torch.randn(2, 3, 224, 224)
    labels = torch.randint(1000, (2,))
    torch.save(model.state_dict(), os.path.join(folder, "swin_t.weights.pt"))
    torch.save({"images": images, "labels": labels, "truth": results(model, images, labels)},
               os.path.join(folder, "swin_t.pt"))


def by_formula(count, salt, offset=0.0):
    """Numbers in [-0.25, 0.25) that any language gets to the last bit."""
    i = torch.arange(count, dtype=torch.int64)
    hashed = (i * 2654435761 + salt * 40503 + 12345) % 2**32
    return ((hashed // 256).double() / 2**24 - 0.5) / 2 + offset


def write_golden(path):
    with open(path, "w", encoding="utf-8") as out:
        out.write(f"# timm {timm.__version__}, in double, for weights by a formula: swin_reference.py --golden.\n")
        out.write("# case / logits of each image / loss / gradient NAME, its norm, its product with the formula's numbers\n")
        for name, case in CASES.items():
            model = build(case).double()
            set_fused(model, False)
            with torch.no_grad():
                for salt, (parameter_name, parameter) in enumerate(sorted(model.named_parameters())):
                    offset = 1.0 if "norm" in parameter_name and parameter_name.endswith("weight") else 0.0
                    parameter.copy_(by_formula(parameter.numel(), salt, offset).view_as(parameter))
            images = 8 * by_formula(BATCH * 3 * case["image"][0] * case["image"][1], 1000).view(BATCH, 3, *case["image"])
            found = results(model, images, torch.arange(BATCH) % CLASSES)
            out.write(f"case {name}\n")
            for row in found["evaluated"].tolist():
                out.write("logits " + " ".join(f"{value:.15g}" for value in row) + "\n")
            out.write(f"loss {found['loss'].item():.15g}\n")
            for parameter_name, gradient in sorted(found["gradients"].items()):
                product = (gradient.flatten() * by_formula(gradient.numel(), 2000)).sum().item()
                out.write(f"gradient {parameter_name} {gradient.norm().item():.15g} {product:.15g}\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--can-run", action="store_true")
    parser.add_argument("--cases", metavar="FOLDER")
    parser.add_argument("--golden", metavar="FILE")
    asked = parser.parse_args()
    torch.set_num_threads(1)  # as the tests: sums of bf16 gradients round differently with the number of threads
    if asked.cases:
        for name, case in CASES.items():
            write_case(asked.cases, name, case)
        write_other_size(asked.cases)
        write_drop_path(asked.cases)
        write_swin_t(asked.cases)
    if asked.golden:
        write_golden(asked.golden)
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""What torchvision's residual networks give, for tests of ours.

  resnet_reference.py --can-run        says whether torchvision is there
  resnet_reference.py --cases FOLDER   random weights (CASE.weights.pt, a state dict) and results (CASE.pt) of every case
"""

import argparse
import os
import sys

import torch
from torchvision.models.resnet import Bottleneck, ResNet, resnet50
from torchvision.ops import FrozenBatchNorm2d

CLASSES = 10


def draw(model):
    """Norms that do something: torchvision's start with 1 and 0."""
    with torch.no_grad():
        for name, value in model.state_dict().items():
            if value.dim() != 1 or not value.is_floating_point():
                continue
            positive = name.endswith("running_var") or name.endswith("weight")
            value.uniform_(0.5, 1.5) if positive else value.normal_(0, 0.3)


def results(model, images, labels):
    """Logits in evaluation, then loss and gradients in training, and the buffers that this leaves."""
    model.eval()
    with torch.no_grad():
        evaluated = model(images)
    model.train()
    model.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    return {
        "evaluated": evaluated,
        "loss": loss.detach(),
        "gradients": {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None},
        "buffers": {n: b.clone() for n, b in model.named_buffers()},
    }


def write(folder, name, model, images):
    labels = torch.randint(CLASSES, (len(images),))
    torch.save(model.state_dict(), os.path.join(folder, name + ".weights.pt"))
    torch.save({"images": images, "labels": labels, "truth": results(model, images, labels)},
               os.path.join(folder, name + ".pt"))


def train_last(model, parts):
    """As torchvision.models.detection.backbone_utils freezes layers."""
    trained = ["layer4", "layer3", "layer2", "layer1", "conv1"][:parts] + ["fc"] + (["bn1"] if parts == 5 else [])
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(any(name.startswith(layer) for layer in trained))


def write_cases(folder):
    for name, norm, parts in (("batch_norm", None, 5), ("frozen_norm", FrozenBatchNorm2d, 3),
                              ("frozen_stem_norm", None, 4)):
        torch.manual_seed(len(name))
        model = ResNet(Bottleneck, [1, 2, 1, 1], num_classes=CLASSES, norm_layer=norm).double()
        draw(model)
        train_last(model, parts)
        write(folder, name, model, torch.randn(2, 3, 70, 45).double())
    torch.manual_seed(1)
    model = resnet50(num_classes=CLASSES)
    draw(model)
    write(folder, "resnet50", model, torch.randn(2, 3, 96, 96))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--can-run", action="store_true")
    parser.add_argument("--cases", metavar="FOLDER")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    if asked.cases:
        write_cases(asked.cases)
    return 0


if __name__ == "__main__":
    sys.exit(main())

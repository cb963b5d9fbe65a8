#!/usr/bin/env python3
"""What torchvision's RetinaNet gives, for tests of ours. Arguments and files: as faster_rcnn_reference.py."""

import argparse
import os
import sys

import torch
from torchvision.models.detection import RetinaNet
from torchvision.models.detection.backbone_utils import _resnet_fpn_extractor
from torchvision.models.detection.retinanet import _default_anchorgen
from torchvision.models.resnet import Bottleneck, ResNet
from torchvision.ops import FrozenBatchNorm2d
from torchvision.ops.feature_pyramid_network import LastLevelP6P7

from faster_rcnn_reference import CLASSES, draw_images, draw_targets, evaluate, train


def build(norm, parts, depths=(1, 1, 1, 1), spread=0.03):
    body = ResNet(Bottleneck, list(depths), norm_layer=norm)
    backbone = _resnet_fpn_extractor(body, parts, returned_layers=[2, 3, 4], extra_blocks=LastLevelP6P7(256, 256))
    model = RetinaNet(backbone, CLASSES, min_size=96, max_size=160, anchor_generator=_default_anchorgen())
    with torch.no_grad():
        for name, value in model.state_dict().items():
            if ".bn" in name or "downsample.1" in name:
                if value.is_floating_point():
                    positive = name.endswith("running_var") or name.endswith("weight")
                    value.uniform_(0.5, 1.0) if positive else value.normal_(0, 0.1)
            elif name.startswith("head"):
                value.normal_(0, spread)
                if name.endswith("cls_logits.bias"):
                    value -= 2
    return model


def write(folder, name, model, images, targets):
    torch.save(model.state_dict(), os.path.join(folder, name + ".weights.pt"))
    model.to(images[0].dtype)
    found = {"images": images, "boxes": [t["boxes"] for t in targets], "labels": [t["labels"] for t in targets]}
    found["evaluated"] = evaluate(model, images)
    found["trained"] = train(model, images, targets)
    torch.save(found, os.path.join(folder, name + ".pt"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--can-run", action="store_true")
    parser.add_argument("--cases", metavar="FOLDER")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    if asked.cases:
        for name, norm, parts in (("frozen", FrozenBatchNorm2d, 3), ("trained_norms", None, 5)):
            torch.manual_seed(len(name))
            write(asked.cases, name, build(norm, parts), draw_images(torch.float64), draw_targets(torch.float64))
        torch.manual_seed(5)
        model = build(FrozenBatchNorm2d, 3, depths=(3, 4, 6, 3), spread=0.01)
        write(asked.cases, "resnet50", model, draw_images(torch.float32), draw_targets(torch.float32))
    return 0


if __name__ == "__main__":
    sys.exit(main())

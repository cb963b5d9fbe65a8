#!/usr/bin/env python3
"""What torchvision's Faster R-CNN gives, for tests of ours.

  faster_rcnn_reference.py --can-run        says whether torchvision is there
  faster_rcnn_reference.py --cases FOLDER   random weights (CASE.weights.pt, a state dict) and results (CASE.pt) of every case
"""

import argparse
import os
import sys

import torch
from torchvision.models.detection import FasterRCNN
from torchvision.models.detection.backbone_utils import _resnet_fpn_extractor
from torchvision.models.resnet import Bottleneck, ResNet
from torchvision.ops import FrozenBatchNorm2d

CLASSES = 7
SIZES = [(90, 140), (120, 80), (100, 100)]


def build(norm, parts, depths=(1, 1, 1, 1), **options):
    body = ResNet(Bottleneck, list(depths), norm_layer=norm)
    model = FasterRCNN(_resnet_fpn_extractor(body, parts), num_classes=CLASSES, min_size=96, max_size=160, **options)
    with torch.no_grad():
        for name, value in model.state_dict().items():
            if ".bn" in name or "downsample.1" in name:  # norms that do something, without letting numbers explode
                if value.is_floating_point():
                    positive = name.endswith("running_var") or name.endswith("weight")
                    value.uniform_(0.5, 1.0) if positive else value.normal_(0, 0.1)
            elif name.startswith("rpn.head"):  # opinions about anchors that differ
                value.normal_(0, 0.05 if "cls_logits" in name else 0.02)
            elif name.startswith("roi_heads.box_predictor.cls_score"):  # and about classes
                value.normal_(0, 0.3)
            elif name.startswith("roi_heads.box_predictor"):
                value.normal_(0, 0.1)
    return model


def draw_images(dtype):
    return [torch.rand(3, *size, dtype=dtype) for size in SIZES]


def draw_targets(dtype):
    targets = []
    for (height, width), count in zip(SIZES, (5, 1, 0)):  # the last image has no objects
        corner = torch.rand(count, 2, dtype=dtype) * torch.tensor([width * 0.6, height * 0.6])
        side = torch.rand(count, 2, dtype=dtype) * torch.tensor([width * 0.35, height * 0.35]) + 4
        targets.append({"boxes": torch.cat([corner, corner + side], 1), "labels": torch.randint(1, CLASSES, (count,))})
    return targets


def thinned(x):
    """Every so many numbers of a large tensor."""
    return x.flatten()[:: max(1, x.numel() // 5000)].clone()


class KeyedSampler:
    """Draws as ours does: the candidates with the smallest of random keys. `places` of ours that stand before the true boxes."""

    def __init__(self, size, share, places=None):
        self.size, self.share, self.places = size, share, places
        self.true_counts = None

    def __call__(self, labels):
        if self.places is None:
            torch.manual_seed(11)  # images were resized with the same generator
            keys = torch.rand(len(labels), len(labels[0]))
            keys = list(keys)
        else:
            most = max(self.true_counts)
            drawn = torch.rand(len(labels), self.places + most)
            keys = [torch.cat([row[: len(of_image) - count], row[self.places: self.places + count]])
                    for row, of_image, count in zip(drawn, labels, self.true_counts)]
        positives, negatives = [], []
        for key, of_image in zip(keys, labels):
            masks = []
            room = int(self.size * self.share)
            for wanted in (of_image >= 1, of_image == 0):
                candidates = torch.where(wanted)[0]
                picked = candidates[key[candidates].argsort()[:room]]
                mask = torch.zeros_like(of_image, dtype=torch.uint8)
                mask[picked] = 1
                masks.append(mask)
                room = self.size - len(picked)
            positives.append(masks[0])
            negatives.append(masks[1])
        return positives, negatives


def train(model, images, targets):
    model.train()
    model.zero_grad()
    losses = model([image.clone() for image in images], [dict(target) for target in targets])
    sum(losses.values()).backward()
    return {
        "losses": {name: value.detach() for name, value in losses.items()},
        "gradients": {name: thinned(p.grad) for name, p in model.named_parameters() if p.grad is not None},
    }


def evaluate(model, images):
    model.eval()
    with torch.no_grad():
        found = model(images)
    return {key: [of_image[key] for of_image in found] for key in ("boxes", "labels", "scores")}


def write(folder, name, model, images, targets):
    torch.save(model.state_dict(), os.path.join(folder, name + ".weights.pt"))
    model.to(images[0].dtype)
    # Its labels are float, and make the loss in double a float one.
    assign = model.rpn.assign_targets_to_anchors
    def in_same_type(*arguments):
        labels, boxes = assign(*arguments)
        return [of_image.to(images[0].dtype) for of_image in labels], boxes
    model.rpn.assign_targets_to_anchors = in_same_type
    found = {"images": images, "boxes": [t["boxes"] for t in targets], "labels": [t["labels"] for t in targets]}
    found["evaluated"] = evaluate(model, images)
    found["trained"] = train(model, images, targets)
    torch.save(found, os.path.join(folder, name + ".pt"))


def write_cases(folder):
    double = torch.float64
    everything = {"rpn_batch_size_per_image": 20000, "box_batch_size_per_image": 4000, "rpn_post_nms_top_n_train": 100}
    for name, norm, parts in (("frozen", FrozenBatchNorm2d, 3), ("trained_norms", None, 5)):
        torch.manual_seed(len(name))
        write(folder, name, build(norm, parts, **everything), draw_images(double), draw_targets(double))

    torch.manual_seed(3)
    model = build(FrozenBatchNorm2d, 3, rpn_batch_size_per_image=64, box_batch_size_per_image=32,
                  rpn_post_nms_top_n_train=100)
    images, targets = draw_images(double), draw_targets(double)
    model.rpn.fg_bg_sampler = KeyedSampler(64, 0.5)
    model.roi_heads.fg_bg_sampler = KeyedSampler(32, 0.25, places=100)
    model.roi_heads.fg_bg_sampler.true_counts = [len(t["boxes"]) for t in targets]
    write(folder, "sampled", model, images, targets)

    torch.manual_seed(4)
    model = build(FrozenBatchNorm2d, 3, depths=(3, 4, 6, 3), **everything)
    write(folder, "resnet50", model, draw_images(torch.float32), draw_targets(torch.float32))


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

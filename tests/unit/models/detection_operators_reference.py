#!/usr/bin/env python3
"""What torchvision's RoIAlign and NMS give on the CPU for thousands of inputs, most of them odd, for tests of ours.

  detection_operators_reference.py --can-run        says whether torchvision is there
  detection_operators_reference.py --cases FOLDER   nms.pt, batched_nms.pt, roi_align.pt
"""

import argparse
import math
import os
import sys

import torch
from torchvision import ops

NMS_CASES = 3000
BATCHED_CASES = 600
ROI_CASES = 1500


def draw_boxes(kind, count, dtype):
    """Boxes [count, 4] of one kind of trouble."""
    corner = torch.rand(count, 2, dtype=dtype) * 100
    side = torch.rand(count, 2, dtype=dtype) * 60 + 1
    if kind == "crowded":
        corner = corner / 20
    elif kind == "whole":  # touching, equal, and overlaps that are thresholds
        corner, side = (corner / 10).round(), (side / 12).round() + 1
    elif kind == "no_area":
        side = side * torch.randint(0, 2, (count, 2)).to(dtype)
    elif kind == "turned":  # corners the wrong way round
        side = side * (torch.randint(0, 2, (count, 2)) * 2 - 1).to(dtype)
    elif kind == "equal" and count > 0:
        corner, side = corner[:1].expand(count, 2), side[:1].expand(count, 2)
    elif kind == "huge":
        corner, side = corner * 1e30, side * 1e30
    boxes = torch.cat([corner, corner + side], 1)
    if kind == "no_number" and count > 0:
        boxes[torch.rand(count, 4) < 0.1] = float("nan")
        boxes[torch.rand(count, 4) < 0.1] = float("inf")
    return boxes.contiguous()


KINDS = ["plain", "crowded", "whole", "no_area", "turned", "equal", "huge", "no_number"]


def draw_scores(count, dtype):
    scores = torch.rand(count, dtype=dtype)
    how = torch.randint(0, 4, ()).item()
    if how == 1:
        scores = (scores * 4).round() / 4  # many equal ones
    elif how == 2:
        scores[torch.rand(count) < 0.2] = float("nan")
    elif how == 3:
        scores = torch.log(scores.round())  # minus infinity and 0
    return scores


def nms_cases():
    found = {"boxes": [], "scores": [], "thresholds": [], "keep": []}
    for i in range(NMS_CASES):
        dtype = torch.float64 if i % 3 == 0 else torch.float32
        count = torch.randint(0, 80, ()).item() if i % 50 else i % 3
        boxes, scores = draw_boxes(KINDS[i % len(KINDS)], count, dtype), draw_scores(count, dtype)
        threshold = [0.5, 0.7, 0.3, 0.0, 1.0, 1 / 3, 0.1][i % 7]
        found["boxes"].append(boxes)
        found["scores"].append(scores)
        found["thresholds"].append(threshold)
        found["keep"].append(ops.nms(boxes, scores, threshold))
    # More than 65,536, of which few survive: the slow side is torchvision's.
    boxes, scores = draw_boxes("plain", 70000, torch.float32), torch.rand(70000)
    found["boxes"].append(boxes)
    found["scores"].append(scores)
    found["thresholds"].append(0.5)
    found["keep"].append(ops.nms(boxes, scores, 0.5))
    found["thresholds"] = torch.tensor(found["thresholds"], dtype=torch.float64)
    return found


def batched_cases():
    found = {"boxes": [], "scores": [], "classes": [], "thresholds": [], "keep": []}
    for i in range(BATCHED_CASES):
        dtype = torch.float64 if i % 3 == 0 else torch.float32
        # Above 1,000 boxes torchvision goes class by class.
        count = torch.randint(1001, 1300, ()).item() if i % 40 == 0 else torch.randint(0, 120, ()).item()
        kind = [k for k in KINDS if k not in ("huge", "no_number")][i % 6]
        boxes, scores = draw_boxes(kind, count, dtype), draw_scores(count, dtype)
        if i % 5 == 0:
            boxes = boxes - 50  # classes that torchvision does not quite move apart
        if i % 40 == 0:
            scores = torch.randperm(count).to(dtype)  # it sorts without keeping the order of equals there
        classes = torch.randint(0, 6, (count,)) * (7 if i % 2 else 1)
        found["boxes"].append(boxes)
        found["scores"].append(scores)
        found["classes"].append(classes)
        found["thresholds"].append(0.5)
        found["keep"].append(ops.batched_nms(boxes, scores, classes, 0.5))
    found["thresholds"] = torch.tensor(found["thresholds"], dtype=torch.float64)
    return found


def roi_cases():
    found = {"features": [], "rois": [], "options": [], "pooled": [], "weights": [], "gradients": []}
    for i in range(ROI_CASES):
        dtype = torch.float32 if i % 4 == 0 else torch.float64
        images, channels = torch.randint(1, 4, ()).item(), torch.randint(1, 5, ()).item()
        height, width = torch.randint(1, 20, (2,)).tolist()
        features = torch.randn(images, channels, height, width, dtype=dtype, requires_grad=True)
        count = torch.randint(0, 12, ()).item()
        kind = [k for k in KINDS if k != "no_number" and k != "huge"][i % 6]
        boxes = draw_boxes(kind, count, dtype) * [1.0, 0.2, 3.0][i % 3] - [0.0, 10.0, 90.0][i // 3 % 3]
        rois = torch.cat([torch.randint(0, images, (count, 1)).to(dtype), boxes], 1)
        cells = torch.randint(1, 8, (2,)).tolist()
        ratio, aligned, scale = [2, 1, 3, 0, -1][i % 5], i // 5 % 2, [1.0, 0.25, 1 / 16][i // 10 % 3]
        pooled = ops.roi_align(features, rois, cells, scale, ratio, bool(aligned))
        weights = torch.randn_like(pooled)
        (gradient,) = torch.autograd.grad((pooled * weights).sum(), features)
        found["features"].append(features.detach())
        found["rois"].append(rois)
        found["options"].append(torch.tensor([scale, *cells, ratio, aligned], dtype=torch.float64))
        found["pooled"].append(pooled.detach())
        found["weights"].append(weights)
        found["gradients"].append(gradient)
    return found


def pyramid_cases():
    found = {"maps": [], "rois": [], "pooled": [], "weights": [], "gradients": [], "heights": []}
    for i in range(30):
        dtype = torch.float32 if i % 4 == 0 else torch.float64
        height, width = (torch.randint(2, 14, (2,)) * 32).tolist()
        images = torch.randint(1, 4, ()).item()
        maps = {str(k): torch.randn(images, 3, height // s, width // s, dtype=dtype, requires_grad=True)
                for k, s in enumerate((4, 8, 16, 32))}
        boxes = []
        for _ in range(images):
            side = torch.exp(torch.rand(15, 2, dtype=dtype) * math.log(1200))  # all levels
            corner = torch.rand(15, 2, dtype=dtype) * torch.tensor([width, height])
            boxes.append(torch.cat([corner, corner + side], 1))
        # Sides that are exactly between two levels, and none at all.
        boxes[0][0] = torch.tensor([0, 0, 112, 112])
        boxes[0][1] = torch.tensor([5, 5, 229, 229])
        boxes[0][2] = torch.tensor([5, 5, 5, 5])
        image_height = height - [0, 7, 20][i % 3]
        pooled = ops.MultiScaleRoIAlign(list(maps), 7, 2)(maps, boxes, [(image_height, width)] * images)
        weights = torch.randn_like(pooled)
        gradients = torch.autograd.grad((pooled * weights).sum(), list(maps.values()))
        ids = torch.cat([torch.full((15, 1), k, dtype=dtype) for k in range(images)])
        found["maps"] += [m.detach() for m in maps.values()]
        found["rois"].append(torch.cat([ids, torch.cat(boxes)], 1))
        found["pooled"].append(pooled.detach())
        found["weights"].append(weights)
        found["gradients"] += list(gradients)
        found["heights"].append(image_height)
    found["heights"] = torch.tensor(found["heights"])
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--can-run", action="store_true")
    parser.add_argument("--cases", metavar="FOLDER")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    if asked.cases:
        torch.manual_seed(5)
        for name, draw in (("nms", nms_cases), ("batched_nms", batched_cases), ("roi_align", roi_cases),
                           ("pyramid", pyramid_cases)):
            torch.save(draw(), os.path.join(asked.cases, name + ".pt"))
    return 0


if __name__ == "__main__":
    sys.exit(main())

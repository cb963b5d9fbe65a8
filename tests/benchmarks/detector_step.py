#!/usr/bin/env python3
"""Training steps of torchvision's detectors, eager: detector_step.cpp with torchvision in place of ours; same options and
output."""

import argparse
import json
import time

import torch
from torchvision.models.detection import (FasterRCNN, RetinaNet, fasterrcnn_resnet50_fpn, retinanet_resnet50_fpn)
from torchvision.models.detection.backbone_utils import resnet_fpn_backbone
from torchvision.ops import FrozenBatchNorm2d
from torchvision.ops.feature_pyramid_network import LastLevelP6P7


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="faster_rcnn", choices=["faster_rcnn", "retinanet"])
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--start", default="frozen", choices=["frozen", "scratch"])
    parser.add_argument("--images", default="lying", choices=["lying", "both"])
    parser.add_argument("--boxes", type=int, default=10)
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--cap-mib", type=int, default=0)
    parser.add_argument("--optimizer-loop", action="store_true", help="SGD a tensor at a time, as LibTorch's in C++")
    parser.add_argument("--inference", action="store_true")
    return parser.parse_args()


def build(asked):
    retina = asked.model == "retinanet"
    if asked.start == "scratch":
        return (retinanet_resnet50_fpn if retina else fasterrcnn_resnet50_fpn)(weights=None, weights_backbone=None)
    backbone = resnet_fpn_backbone(
        backbone_name="resnet50", weights=None, norm_layer=FrozenBatchNorm2d, trainable_layers=3,
        returned_layers=[2, 3, 4] if retina else None, extra_blocks=LastLevelP6P7(256, 256) if retina else None)
    if not retina:
        model = FasterRCNN(backbone, 91)
    else:
        from torchvision.models.detection.retinanet import _default_anchorgen
        model = RetinaNet(backbone, 91, anchor_generator=_default_anchorgen())
    with torch.no_grad():
        for name, value in model.named_buffers():
            if "bn3.weight" in name:
                value.fill_(0.25)
    return model


def main():
    asked = arguments()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    if asked.cap_mib:
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction((asked.cap_mib * 2**20 + 0.5) / total, 0)
    start = time.perf_counter()
    model = build(asked).cuda().train(not asked.inference)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1e-7, momentum=0.9,
                                foreach=False if asked.optimizer_loop else None)
    build_seconds = time.perf_counter() - start
    bf16 = asked.precision == "bf16"

    def step():
        images, targets = [], []
        for i in range(asked.batch):
            stands = asked.images == "both" and i % 2 == 1
            images.append(torch.rand(3, *((1333, 800) if stands else (800, 1333)), device="cuda"))
            corners = torch.rand(asked.boxes, 2) * torch.tensor([500.0, 1000.0] if stands else [1000.0, 500.0])
            boxes = torch.cat([corners, corners + torch.rand(asked.boxes, 2) * 250 + 20], 1)
            targets.append({"boxes": boxes.cuda(non_blocking=True),
                            "labels": torch.randint(1, 91, (asked.boxes,)).cuda(non_blocking=True)})
        if asked.inference:
            with torch.no_grad(), torch.autocast("cuda", torch.bfloat16, enabled=bf16):
                model(images)
            return
        with torch.autocast("cuda", torch.bfloat16, enabled=bf16):
            loss = sum(model(images, targets).values())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    fits, reason, seconds = True, "", []
    try:
        for _ in range(asked.steps):
            start = time.perf_counter()
            step()
            torch.cuda.synchronize()
            seconds.append(time.perf_counter() - start)
    except torch.OutOfMemoryError as error:
        fits, reason = False, str(error).split(".", maxsplit=1)[0]
    print(json.dumps({
        "side": "torchvision", "fits": fits, "batch": asked.batch,
        "allocated_peak": torch.cuda.max_memory_allocated(), "reserved_peak": torch.cuda.max_memory_reserved(),
        "build_seconds": build_seconds, "seconds": seconds, "reason": reason}))


if __name__ == "__main__":
    main()

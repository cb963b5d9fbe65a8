#!/usr/bin/env python3
"""Training steps of torchvision's detectors, eager: detector_step.cpp with torchvision in place of ours; same options and
output."""

import measured_steps
import torch
from torchvision.models.detection import (FasterRCNN, RetinaNet, fasterrcnn_resnet50_fpn, retinanet_resnet50_fpn)
from torchvision.models.detection.backbone_utils import resnet_fpn_backbone
from torchvision.ops import FrozenBatchNorm2d
from torchvision.ops.feature_pyramid_network import LastLevelP6P7


def arguments():
    parser = measured_steps.parser(__doc__, batch=2)
    parser.add_argument("--model", default="faster_rcnn", choices=["faster_rcnn", "retinanet"])
    parser.add_argument("--start", default="frozen", choices=["frozen", "scratch"])
    parser.add_argument("--images", default="lying", choices=["lying", "both"])
    parser.add_argument("--boxes", type=int, default=10)
    return parser.parse_args()


def detector(retina, from_scratch):
    if from_scratch:
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
    measured_steps.prepare(asked)

    def build():
        model = detector(asked.model == "retinanet", asked.start == "scratch").cuda().train(not asked.inference)
        return model, torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1e-7, momentum=0.9,
                                      foreach=False if asked.optimizer_loop else None)

    def draw(_model):
        images, targets = [], []
        for i in range(asked.batch):
            stands = asked.images == "both" and i % 2 == 1
            images.append(torch.rand(3, *((1333, 800) if stands else (800, 1333)), device="cuda"))
            corners = torch.rand(asked.boxes, 2) * torch.tensor([500.0, 1000.0] if stands else [1000.0, 500.0])
            boxes = torch.cat([corners, corners + torch.rand(asked.boxes, 2) * 250 + 20], 1)
            targets.append({"boxes": boxes.cuda(non_blocking=True),
                            "labels": torch.randint(1, 91, (asked.boxes,)).cuda(non_blocking=True)})
        return images, targets

    measured_steps.run(asked, "torchvision", build, draw, lambda model, batch: sum(model(*batch).values()),
                       lambda model, batch: model(batch[0]))


if __name__ == "__main__":
    main()

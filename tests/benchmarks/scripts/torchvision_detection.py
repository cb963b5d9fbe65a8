"""torchvision's RetinaNet over ResNet-50, SGD, images of one size with 8 boxes each."""

import argparse

import torch
import torchvision

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=2)
parser.add_argument("--steps", type=int, default=100)
asked = parser.parse_args()

model = torchvision.models.detection.retinanet_resnet50_fpn(weights=None, weights_backbone=None, min_size=480, max_size=640).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
corners = torch.rand(8, 2) * 200
boxes = torch.cat([corners, corners + 100], dim=1).cuda()
for _ in range(asked.steps):
    images = [torch.rand(3, 480, 640, device="cuda") for _ in range(asked.batch_size)]
    targets = [{"boxes": boxes, "labels": torch.ones(8, dtype=torch.int64, device="cuda")} for _ in images]
    loss = sum(model(images, targets).values())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

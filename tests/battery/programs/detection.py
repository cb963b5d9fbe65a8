"""torchvision's detectors: sizes depend on what the card would have found."""

import torch
import torchvision
from training import program, train

detection = torchvision.models.detection
FROM_NOTHING = {"weights": None, "weights_backbone": None}


def sgd(parameters):
    return torch.optim.SGD([p for p in parameters if p.requires_grad], lr=1e-3, momentum=0.9)


def detect(size, extra=lambda boxes: {}):
    def target():
        corners = torch.rand(3, 2, device="cuda") * (size / 2)
        boxes = torch.cat([corners, corners + size / 4], 1)
        return {"boxes": boxes, "labels": torch.randint(1, 5, (3,), device="cuda"), **extra(boxes)}

    image = lambda: torch.rand(3, size, size, device="cuda")
    return lambda model: sum(model([image(), image()], [target(), target()]).values())


@program
def torchvision_faster_rcnn(precision):
    model = detection.fasterrcnn_resnet50_fpn(num_classes=5, min_size=160, max_size=160, **FROM_NOTHING)
    train(model, detect(160), precision, sgd)


@program
def torchvision_mask_rcnn(precision):
    model = detection.maskrcnn_resnet50_fpn(num_classes=5, min_size=160, max_size=160, **FROM_NOTHING)
    masks = lambda boxes: {"masks": torch.ones(3, 160, 160, dtype=torch.uint8, device="cuda")}
    train(model, detect(160, masks), precision, sgd)


@program
def torchvision_retinanet(precision):
    model = detection.retinanet_resnet50_fpn(num_classes=5, min_size=160, max_size=160, **FROM_NOTHING)
    train(model, detect(160), precision, sgd)


@program
def torchvision_fcos(precision):
    model = detection.fcos_resnet50_fpn(num_classes=5, min_size=160, max_size=160, **FROM_NOTHING)
    train(model, detect(160), precision, sgd)


@program
def torchvision_ssdlite(precision):
    model = detection.ssdlite320_mobilenet_v3_large(num_classes=5, **FROM_NOTHING)
    train(model, detect(320), precision, sgd)

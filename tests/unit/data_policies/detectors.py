"""torchvision's detectors through training and evaluation on a dry card, in the worst case that the policies take."""
import sys

try:
    import torchvision
except ImportError:
    print("torchvision is not installed beside LibTorch's Python")
    sys.exit(77)
import torch


def targets_for(kind, size):
    corners = torch.rand(10, 2, device="cuda") * size * 0.5
    target = {"boxes": torch.cat([corners, corners + 30], 1), "labels": torch.ones(10, dtype=torch.long, device="cuda")}
    if "mask" in kind:
        target["masks"] = torch.zeros(10, size, size, dtype=torch.uint8, device="cuda")
    if "keypoint" in kind:
        target["keypoints"] = torch.rand(10, 17, 3, device="cuda")
    return target


def main():
    for kind, size in [("fasterrcnn_resnet50_fpn", 320), ("maskrcnn_resnet50_fpn", 320), ("retinanet_resnet50_fpn", 320),
                       ("fcos_resnet50_fpn", 320), ("ssdlite320_mobilenet_v3_large", 320),
                       ("keypointrcnn_resnet50_fpn", 320)]:
        sizes = {} if kind.startswith("ssd") else {"min_size": size, "max_size": size}
        model = getattr(torchvision.models.detection, kind)(weights=None, weights_backbone=None, **sizes).cuda()
        images = [torch.rand(3, size, size, device="cuda") for _ in range(2)]
        model.train()
        losses = model(images, [targets_for(kind, size) for _ in images])
        sum(losses.values()).backward()
        assert all(p.grad is not None for n, p in model.named_parameters() if p.requires_grad), kind
        model.eval()
        with torch.no_grad():
            found = model(images)
        assert len(found) == 2 and len(found[0]["boxes"]) > 0, (kind, found[0]["boxes"].shape)
        print(kind, "found", len(found[0]["boxes"]))


main()

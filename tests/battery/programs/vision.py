"""torchvision's classifiers, segmentation and video; timm's models."""

import timm
import torch
import torchvision
from timm.data.mixup import Mixup
from timm.loss import SoftTargetCrossEntropy
from training import classify, images, labels, program, train


@program
def torchvision_resnet50_sgd(precision):
    sgd = lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
    train(torchvision.models.resnet50(num_classes=10), classify(), precision, sgd)


@program
def torchvision_resnet18_channels_last(precision):
    model = torchvision.models.resnet18(num_classes=10).to(memory_format=torch.channels_last)
    look = lambda m: torch.nn.functional.cross_entropy(m(images().to(memory_format=torch.channels_last)), labels())
    train(model, look, precision)


@program
def torchvision_mobilenet_v3(precision):
    train(torchvision.models.mobilenet_v3_small(num_classes=10), classify(), precision)


@program
def torchvision_efficientnet_benchmark(precision):
    # The first stages: cuDNN compiles a kernel for many of the plans that it times, seconds each and the same as beside a card.
    torch.backends.cudnn.benchmark = True
    stages = torchvision.models.efficientnet_b0().features[:3]
    model = torch.nn.Sequential(*stages, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(24, 10))
    train(model, classify(), precision)


@program
def torchvision_densenet_checkpointing(precision):
    train(torchvision.models.densenet121(num_classes=10, memory_efficient=True), classify(), precision)


@program
def torchvision_vit_b_16(precision):
    model = torchvision.models.VisionTransformer(64, 16, 4, 4, 192, 768, num_classes=10)
    train(model, classify(), precision)


@program
def torchvision_convnext_deterministic(precision):
    torch.backends.cudnn.deterministic = True
    train(torchvision.models.convnext_tiny(num_classes=10), classify(), precision)


@program
def torchvision_deeplab(precision):
    model = torchvision.models.segmentation.deeplabv3_resnet50(weights=None, weights_backbone=None, num_classes=5)
    target = lambda: torch.randint(0, 5, (2, 64, 64), device="cuda")
    train(model, lambda m: torch.nn.functional.cross_entropy(m(images(2))["out"], target()), precision)


@program
def torchvision_r3d_video(precision):
    clip = lambda: torch.randn(2, 3, 8, 32, 32, device="cuda")
    model = torchvision.models.video.r3d_18(num_classes=10)
    train(model, lambda m: torch.nn.functional.cross_entropy(m(clip()), labels(2)), precision)


@program
def torchvision_raft_optical_flow(precision):
    model = torchvision.models.optical_flow.raft_small(weights=None)
    look = lambda m: m(images(1, 128), images(1, 128), num_flow_updates=2)[-1].float().abs().mean()
    train(model, look, precision)


@program
def timm_swin_tiny(precision):
    train(timm.create_model("swin_tiny_patch4_window7_224", num_classes=10), classify(2, 224), precision)


@program
def timm_efficientvit_ema(precision):
    model = timm.create_model("mobilevit_xxs", num_classes=10).cuda()
    average = timm.utils.ModelEmaV3(model)
    train(model, classify(2, 64), precision)
    average.update(model)


@program
def timm_vit_layer_scale_mixup(precision):
    model = timm.create_model("deit3_small_patch16_224", img_size=64, num_classes=10)
    mixup = Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, num_classes=10)

    def look(m):
        mixed, target = mixup(images(), labels())
        return SoftTargetCrossEntropy()(m(mixed), target)

    train(model, look, precision)

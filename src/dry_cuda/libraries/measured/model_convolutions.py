#!/usr/bin/env python3
"""The convolutions of models that people train, as questions for `maxbatch profile-gpu --questions`: those of torchvision, timm,
transformers and some written here, at common image and batch sizes, in every arithmetic and layout that LibTorch gives cuDNN.

  model_convolutions.py --table TABLE > questions.txt      what the table does not answer yet; float without TF32 and
                                                           bfloat16 first, small and even batch sizes first
  maxbatch profile-gpu --questions questions.txt --output FOLDER      on the card
  more_batch_sizes.py TABLE --answers FOLDER/NAME.convolutions.txt > TABLE.new

Needs no device: each model runs once on meta tensors, where a convolution leaves its shapes.
"""

import argparse
import itertools
import pathlib
import sys

import more_batch_sizes
import torch
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
BETWEEN = (3, 6, 12, 24, 48, 96)  # for the common ones, which are asked about in channels last, too
ARITHMETIC = (("float", "fp32"), ("float", "tf32"), ("bfloat16", "any"), ("half", "any"))


class Convolutions(TorchDispatchMode):
    """Notes (input, filter, stride, padding, dilation, transposed, groups) of each convolution, N of the input first."""

    def __init__(self):
        super().__init__()
        self.seen = {}

    def __torch_dispatch__(self, operator, types, arguments=(), keywords=None):
        result = operator(*arguments, **(keywords or {}))
        if operator is aten.convolution.default:
            tensor, weight, _, stride, padding, dilation, transposed, _, groups = arguments
            given, gave, filter = tuple(tensor.shape), tuple(result.shape), tuple(weight.shape)
            if len(filter) == 3:  # LibTorch gives cuDNN one of two dimensions, the first of them 1
                given, gave, filter = ((*shape[:2], 1, *shape[2:]) for shape in (given, gave, filter))
                stride, padding, dilation = [1, *stride], [0, *padding], [1, *dilation]
            key = (gave if transposed else given, filter, tuple(stride), tuple(padding), tuple(dilation))
            self.seen.setdefault(key, (transposed, groups))
        return result


def text(numbers) -> str:
    return ",".join(str(number) for number in numbers)


def questions(convolution, batch: int, per_sample: int, layouts: tuple):
    """Of one convolution at this batch size: lines without an answer."""
    (shape, filter, stride, padding, dilation), (transposed, groups) = convolution
    shape = (batch * per_sample, *shape[1:])
    depthwise = groups > 1 and groups == shape[1]
    for (type, math), layout in itertools.product(ARITHMETIC, layouts):
        if depthwise and type == "float":
            continue  # LibTorch's own kernels
        if layout == "channels_last" and (math == "fp32" or len(filter) == 5):
            continue
        for direction in ("forward", "backward_data", "backward_filter"):
            yield f"{direction} {text(shape)} {text(filter)} {text(stride)} {text(padding)} {text(dilation)} {layout} {type} {math}"


def unet(width: int, classes: int, levels: int = 4):
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            widths = [width * 2**level for level in range(levels + 1)]
            block = lambda a, b: nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.ReLU(), nn.Conv2d(b, b, 3, padding=1), nn.ReLU())
            self.down = nn.ModuleList(block(a, b) for a, b in zip([3, *widths], widths))
            self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in zip(widths, widths[1:]))
            self.join = nn.ModuleList(block(2 * a, a) for a in widths[:-1])
            self.head = nn.Conv2d(width, classes, 1)

        def forward(self, x):
            kept = []
            for level, block in enumerate(self.down):
                x = block(x if level == 0 else nn.functional.max_pool2d(x, 2))
                kept.append(x)
            for level in reversed(range(len(self.up))):
                x = self.join[level](torch.cat([kept[level], self.up[level](x)], 1))
            return self.head(x)

    return Net()


def plain(channels: int, classes: int, *widths: int, kernel: int = 3, padding: int = 1):
    nn = torch.nn
    layers = []
    for a, b in zip([channels, *widths], widths):
        layers += [nn.Conv2d(a, b, kernel, padding=padding), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], classes))


def dcgan(size: int):
    nn = torch.nn
    generator = [nn.ConvTranspose2d(100, 512, 4, 1, 0), nn.ConvTranspose2d(512, 256, 4, 2, 1), nn.ConvTranspose2d(256, 128, 4, 2, 1),
                 nn.ConvTranspose2d(128, size, 4, 2, 1), nn.ConvTranspose2d(size, 3, 4, 2, 1)]
    critic = [nn.Conv2d(3, size, 4, 2, 1), nn.Conv2d(size, 128, 4, 2, 1), nn.Conv2d(128, 256, 4, 2, 1), nn.Conv2d(256, 512, 4, 2, 1),
              nn.Conv2d(512, 1, 4, 1, 0)]
    return nn.Sequential(*generator, *critic)


def cifar_resnet(name: str):
    import torchvision

    net = getattr(torchvision.models, name)(num_classes=10)
    net.conv1, net.maxpool = torch.nn.Conv2d(3, 64, 3, 1, 1, bias=False), torch.nn.Identity()
    return net


def workloads():
    """(name, factory, shape of a sample, largest batch, whether it is common), the common ones first."""
    import timm
    import torchvision

    tv = torchvision.models
    classifier = lambda name, **more: lambda: getattr(tv, name)(weights=None, **more)
    from_timm = lambda name, **more: lambda: timm.create_model(name, **more)
    image = lambda size: (3, size, size)
    for name in ("resnet18", "resnet34", "resnet50", "vit_b_16", "convnext_tiny", "swin_t"):
        yield name, classifier(name), image(224), 256, True
    for name in ("convnext_tiny", "convnext_base", "vit_small_patch16_224", "vit_large_patch16_224", "vit_tiny_patch16_224",
                 "swin_small_patch4_window7_224", "swin_base_patch4_window7_224", "swin_large_patch4_window7_224"):
        yield name, from_timm(name), image(224), 256, True
    for name in ("resnet18", "resnet50"):
        yield f"cifar {name}", lambda name=name: cifar_resnet(name), image(32), 256, True
    yield "lenet", lambda: plain(1, 10, 32, 64), (1, 28, 28), 256, True
    yield "mnist", lambda: plain(1, 10, 32, 64, padding=0), (1, 28, 28), 256, True
    yield "small", lambda: plain(3, 10, 32, 64, 128), image(32), 256, True
    yield "small 64", lambda: plain(3, 10, 64, 128, 256), image(32), 256, True
    yield "small 224", lambda: plain(3, 10, 64, 128, 256, 512), image(224), 128, True
    for name in ("resnet101", "wide_resnet50_2", "resnext50_32x4d", "densenet121", "vgg16", "vgg16_bn", "alexnet", "vgg11",
                 "mobilenet_v3_large", "mobilenet_v3_small", "squeezenet1_1", "shufflenet_v2_x1_0", "mnasnet1_0", "mobilenet_v2", "efficientnet_b0",
                 "convnext_large", "efficientnet_v2_s", "vit_b_32", "maxvit_t"):
        yield name, classifier(name), image(224), 128, False
    for name in ("regnety_004", "regnety_080", "mobilenetv4_conv_medium", "resnetv2_50", "convnextv2_tiny", "coatnet_0_rw_224"):
        yield name, from_timm(name), image(224), 128, False
    for name in (name for name in tv.list_models(module=tv) if name != "regnet_y_128gf"):  # what is above is asked about once
        small = 64 if any(word in name for word in ("b5", "b6", "b7", "128gf", "_h_")) else 128
        yield name, lambda name=name: tv.get_model(name, weights=None), image(224), small, False
    for size in (32, 64, 128, 160, 192, 256, 288, 320, 384):
        yield f"resnet50 {size}", classifier("resnet50"), image(size), 64, False
        yield f"resnet18 {size}", classifier("resnet18"), image(size), 64, False
    for size, width in itertools.product((128, 256, 512), (32, 64)):
        yield f"unet {width} {size}", lambda width=width: unet(width, 2), image(size), 32, False
    yield "dcgan", lambda: dcgan(64), (100, 1, 1), 256, False
    for name in ("fcn_resnet50", "deeplabv3_resnet50"):
        for size in (256, 512, 520):
            yield f"{name} {size}", lambda name=name: getattr(tv.segmentation, name)(weights_backbone=None), image(size), 16, False
    for name in ("r3d_18", "mc3_18", "r2plus1d_18"):
        yield name, lambda name=name: getattr(tv.video, name)(), (3, 16, 112, 112), 16, False
    for height, width in ((800, 800), (800, 1344), (1344, 1344), (800, 1088), (800, 1216), (640, 640)):
        # The backbone with its pyramid; heads and RPN are convolutions of 256 channels on its levels.
        yield f"fpn {height} {width}", detector_body, (3, height, width), 8, False
    for name, size in (("efficientnet_b3", 300), ("efficientnet_b4", 380)):
        yield name, classifier(name), image(size), 64, False
    yield "vit 384", from_timm("vit_base_patch16_384"), image(384), 128, False
    yield "swin 384", from_timm("swin_large_patch4_window12_384"), image(384), 128, False
    yield "whisper", lambda: torch.nn.Sequential(torch.nn.Conv1d(80, 384, 3, padding=1), torch.nn.Conv1d(384, 384, 3, 2, 1)), (80, 3000), 64, False
    yield "wav2vec2", wav2vec2, (1, 16000), 32, False


def detector_body():
    import torchvision

    backbone = torchvision.models.detection.backbone_utils.resnet_fpn_backbone(backbone_name="resnet50", weights=None)
    head = torch.nn.ModuleList([torch.nn.Conv2d(256, 256, 3, padding=1), torch.nn.Conv2d(256, 3, 1), torch.nn.Conv2d(256, 12, 1),
                                torch.nn.Conv2d(256, 720, 3, padding=1), torch.nn.Conv2d(256, 36, 3, padding=1)])

    class Body(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.backbone, self.head = backbone, head

        def forward(self, x):
            return [layer(level) for level in self.backbone(x).values() for layer in self.head]

    return Body()


def wav2vec2():
    layers = [torch.nn.Conv1d(1, 512, 10, 5)]
    layers += [torch.nn.Conv1d(512, 512, 3, 2) for _ in range(4)] + [torch.nn.Conv1d(512, 512, 2, 2) for _ in range(2)]
    return torch.nn.Sequential(*layers)


def known(table: pathlib.Path) -> set:
    answers = more_batch_sizes.read(table)[1]
    return {" ".join((direction, f"{batch},{shape}", *others)) for direction, batch, shape, *others in answers}


def run(factory, sample: tuple):
    with torch.device("meta"):
        batch = torch.empty(1, *sample)
        try:
            model = factory()
        except NotImplementedError:  # draws its weights by values
            with torch.device("cpu"):
                model = factory().to("meta")
        model.eval()(batch)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", type=pathlib.Path, help="leave out what it answers")
    arguments = parser.parse_args()
    asked = known(arguments.table) if arguments.table else set()
    urgent = lambda question: question.endswith(("contiguous float fp32", "contiguous bfloat16 any"))
    by_rank = {rank: [] for rank in itertools.product((True, False), (*BATCHES, *BETWEEN))}
    for name, factory, sample, largest, common in workloads():
        batches = [size for size in (*BATCHES, *BETWEEN * common) if size <= largest]
        layouts = ("contiguous", "channels_last") if common else ("contiguous",)
        with Convolutions() as convolutions, torch.no_grad():
            try:
                run(factory, sample)
            except Exception as error:  # noqa: BLE001: one model that the installed versions lack is not the end
                print(f"{name}: {error}", file=sys.stderr)
        fresh = 0
        for convolution in convolutions.seen.items():
            for batch in batches:
                for question in questions(convolution, batch, convolution[0][0][0], layouts):
                    if question not in asked:
                        asked.add(question)
                        by_rank[urgent(question), batch].append(question)
                        fresh += 1
        print(f"{name}: {len(convolutions.seen)} convolutions, {fresh} questions", file=sys.stderr)
    for questions_of_rank in by_rank.values():
        for question in questions_of_rank:
            print(question)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What `maxbatch bench` measures, of the Python originals: timm's Swin and ViT, torchvision's ResNet-50 and detectors, transformers'
GPT-2.

A round is as many steps as take about --round-seconds, then one wait for the device; a time is a round's over its steps. Inputs are
drawn on the device in each step, and that counts; inference is the model and its loss, without gradients. One JSON object."""

import argparse
import contextlib
import gc
import json
import os
import statistics
import time

import torch

OPTIMIZERS = {
    "adamw": (torch.optim.AdamW, {"foreach": False}), "adamw-foreach": (torch.optim.AdamW, {"foreach": True}),
    "adamw-fused": (torch.optim.AdamW, {"fused": True}), "sgd": (torch.optim.SGD, {"foreach": False}),
    "sgd-foreach": (torch.optim.SGD, {"foreach": True}), "sgd-fused": (torch.optim.SGD, {"fused": True})}
PRECISIONS = {"fp32": None, "tf32": None, "bf16": torch.bfloat16, "fp16": torch.float16}
TIMM = {"swin_t": "swin_tiny_patch4_window7_224", "swin_s": "swin_small_patch4_window7_224",
        "swin_b": "swin_base_patch4_window7_224", "swin_l": "swin_large_patch4_window7_224", "vit_b_16": "vit_base_patch16_224"}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help=f"{', '.join(TIMM)}, gpt2, each also _fused; resnet50; faster_rcnn, retinanet, "
                        "each also _landscape and _from_scratch")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--mode", choices=["training", "inference", "both"], default="training",
                        help="both: an object with one of each")
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="adamw-fused")
    parser.add_argument("--precision", choices=PRECISIONS, default="fp32")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--sequence-length", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--round-seconds", type=float, default=0.5)
    parser.add_argument("--warm-up", type=int, default=3)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--budget-mib", type=int, help="at most so much is reserved")
    return parser.parse_args()


def build(asked):
    name, fused = asked.model.removesuffix("_fused"), asked.model.endswith("_fused")
    if name in TIMM:
        os.environ["TIMM_FUSED_ATTN"] = "2" if fused else "0"
        import timm
        timm.layers.set_fused_attn(fused, experimental=fused)
        more = {"drop_path_rate": 0.1} if name.startswith("swin") else {}
        return timm.create_model(TIMM[name], num_classes=1000, **more)
    if name == "resnet50":
        import torchvision
        return torchvision.models.resnet50(weights=None)
    if name == "gpt2":
        from transformers import GPT2Config, GPT2LMHeadModel
        kind = "sdpa" if fused else "eager"
        return GPT2LMHeadModel(GPT2Config(attn_implementation=kind))
    if is_detector(asked):
        from detector_step import detector
        return detector(name.split("_")[0] == "retinanet", name.endswith("_from_scratch"))
    raise SystemExit(f"--model {asked.model}: not known here")


def is_detector(asked):
    return asked.model.startswith(("faster_rcnn", "retinanet"))


def draw_detection_batch(asked):
    """As draw_detection_batch of src/models/detection: images on the device, boxes of all sizes drawn on the CPU."""
    hardest = asked.model in ("faster_rcnn", "retinanet")
    images, targets = [], []
    for i in range(asked.batch):
        height, width = (1333, 800) if hardest and i % 2 == 1 else (800, 1333)
        images.append(torch.rand(3, height, width, device=asked.device))
        image, boxes = torch.tensor([width, height], dtype=torch.float), 100 if hardest else 10
        sides = 4 * (image / 4) ** torch.rand(boxes, 2)
        corners = torch.rand(boxes, 2) * (image - sides)
        targets.append({"boxes": torch.cat([corners, corners + sides], 1).to(asked.device, non_blocking=True),
                        "labels": torch.randint(1, 91, (boxes,)).to(asked.device, non_blocking=True)})
    return images, targets


def measure(asked, mode):
    model = build(asked).to(asked.device).train(mode == "training")
    layout = torch.channels_last if asked.channels_last else torch.contiguous_format
    if asked.channels_last:
        model = model.to(memory_format=layout)
    kind, options = OPTIMIZERS[asked.optimizer]
    more = {"momentum": 0.9} if kind is torch.optim.SGD else {}
    # Detectors: weights stay what they are; results of random ones that are trained would soon be no numbers.
    learning_rate = 1e-7 if is_detector(asked) else 1e-3
    optimizer = kind([p for p in model.parameters() if p.requires_grad], lr=learning_rate, **more, **options)
    scaler = torch.amp.GradScaler(asked.device, enabled=asked.precision == "fp16")
    half = PRECISIONS[asked.precision]

    def loss_of_step():
        with torch.autocast(asked.device, half) if half else contextlib.nullcontext():
            if is_detector(asked):
                images, targets = draw_detection_batch(asked)
                return sum(model(images, targets).values()) if model.training else model(images)
            if asked.model.startswith("gpt2"):
                tokens = torch.randint(50257, (asked.batch, asked.sequence_length), device=asked.device)
                logits = model(tokens, use_cache=False).logits[:, :-1]
                return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), tokens[:, 1:].reshape(-1))
            images = torch.randn(asked.batch, 3, 224, 224, device=asked.device).contiguous(memory_format=layout)
            labels = torch.randint(1000, (asked.batch,), device=asked.device)
            return torch.nn.functional.cross_entropy(model(images), labels)

    def step():
        if mode == "inference":
            with torch.no_grad():
                loss_of_step()
            return
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss_of_step()).backward()
        scaler.step(optimizer)
        scaler.update()

    def timed(steps):
        began = time.perf_counter()
        for _ in range(steps):
            step()
        if asked.device == "cuda":
            torch.cuda.synchronize()
        return (time.perf_counter() - began) / steps

    for _ in range(asked.warm_up):
        timed(1)
    steps = max(1, round(asked.round_seconds / timed(2)))
    seconds = [timed(steps) for _ in range(asked.rounds)]
    peaks = {}
    if asked.device == "cuda":
        peaks = {"peak_allocated_bytes": torch.cuda.max_memory_allocated(),
                 "peak_reserved_bytes": torch.cuda.max_memory_reserved()}
    return {"median_seconds": statistics.median(seconds), "fastest_seconds": min(seconds), "slowest_seconds": max(seconds),
            "steps_per_round": steps, **peaks}


def main():
    asked = arguments()
    if asked.budget_mib and asked.device == "cuda":
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction((asked.budget_mib * 2**20 + 0.5) / total, 0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = asked.precision == "tf32"
    measured = {}
    for mode in ("training", "inference") if asked.mode == "both" else (asked.mode,):
        measured[mode] = measure(asked, mode)
        if asked.device == "cuda":  # the next one finds an empty allocator
            gc.collect()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
    print(json.dumps(measured if asked.mode == "both" else measured[asked.mode]))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Training steps of timm's Swin Transformers, eager: swin_step.cpp with timm in place of ours; same options and output."""

import argparse
import json
import time

import timm
import torch

TIMM_NAMES = {
    "swin_t": "swin_tiny_patch4_window7_224",
    "swin_s": "swin_small_patch4_window7_224",
    "swin_b": "swin_base_patch4_window7_224",
    "swin_l": "swin_large_patch4_window7_224",
    "swin_b_384": "swin_base_patch4_window12_384",
    "swin_l_384": "swin_large_patch4_window12_384",
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="swin_l", choices=TIMM_NAMES)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--attention", default="written_out", choices=["written_out", "fused"])
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--cap-mib", type=int, default=0)
    parser.add_argument("--drop-path", type=float, default=0.1)
    parser.add_argument("--optimizer-loop", action="store_true", help="AdamW a tensor at a time, as LibTorch's in C++")
    parser.add_argument("--inference", action="store_true")
    return parser.parse_args()


def main():
    asked = arguments()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    if asked.cap_mib:
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction((asked.cap_mib * 2**20 + 0.5) / total, 0)
    timm.layers.set_fused_attn(asked.attention == "fused", experimental=asked.attention == "fused")
    start = time.perf_counter()
    model = timm.create_model(TIMM_NAMES[asked.model], num_classes=1000, drop_path_rate=asked.drop_path)
    expected = asked.attention == "fused"
    assert all(m.fused_attn == expected for m in model.modules() if hasattr(m, "fused_attn"))
    model = model.cuda().train(not asked.inference)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=1e-4, weight_decay=5e-2, foreach=False if asked.optimizer_loop else None)
    build_seconds = time.perf_counter() - start
    side = model.patch_embed.img_size[0]
    bf16 = asked.precision == "bf16"

    def step():
        x = torch.randn(asked.batch, 3, side, side, device="cuda")
        if asked.inference:
            with torch.no_grad(), torch.autocast("cuda", torch.bfloat16, enabled=bf16):
                model(x)
            return
        y = torch.randint(0, 1000, (asked.batch,), device="cuda")
        with torch.autocast("cuda", torch.bfloat16, enabled=bf16):
            loss = torch.nn.functional.cross_entropy(model(x), y)
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
        "side": "timm", "fits": fits, "batch": asked.batch, "allocated_peak": torch.cuda.max_memory_allocated(),
        "reserved_peak": torch.cuda.max_memory_reserved(), "build_seconds": build_seconds, "seconds": seconds,
        "reason": reason}))


if __name__ == "__main__":
    main()

"""What swin_step.py and detector_step.py have in common: options, a cap on the allocator, the loop that measures, and one JSON
object on standard output. measured_steps.hpp is the same for the C++ sides."""

import argparse
import json
import time

import torch


def parser(description, batch):
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--batch", type=int, default=batch)
    made.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    made.add_argument("--steps", type=int, default=3)
    made.add_argument("--cap-mib", type=int, default=0)
    made.add_argument("--optimizer-loop", action="store_true", help="a tensor at a time, as LibTorch's optimizers in C++")
    made.add_argument("--inference", action="store_true")
    return made


def prepare(asked):
    """TF32 off; at most --cap-mib reserved."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    if asked.cap_mib:
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction((asked.cap_mib * 2**20 + 0.5) / total, 0)


def run(asked, side, build, draw, loss_of, infer):
    """`build` gives model and optimizer; `draw` a batch for `loss_of` and `infer`, which run the model on it."""
    began = time.perf_counter()
    model, optimizer = build()
    build_seconds = time.perf_counter() - began
    bf16 = asked.precision == "bf16"

    def step():
        batch = draw(model)
        if asked.inference:
            with torch.no_grad(), torch.autocast("cuda", torch.bfloat16, enabled=bf16):
                infer(model, batch)
            return
        with torch.autocast("cuda", torch.bfloat16, enabled=bf16):
            loss = loss_of(model, batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    fits, reason, seconds = True, "", []
    try:
        for _ in range(asked.steps):
            began = time.perf_counter()
            step()
            torch.cuda.synchronize()
            seconds.append(time.perf_counter() - began)
    except torch.OutOfMemoryError as error:
        fits, reason = False, str(error).split(".", maxsplit=1)[0]
    print(json.dumps({
        "side": side, "fits": fits, "batch": asked.batch, "allocated_peak": torch.cuda.max_memory_allocated(),
        "reserved_peak": torch.cuda.max_memory_reserved(), "build_seconds": build_seconds, "seconds": seconds,
        "reason": reason}))

"""What the programs of the battery share: a precision, and the loop that trains."""

import contextlib
import dataclasses

import torch

PROGRAMS = {}
PRECISIONS = ("fp32", "bf16", "fp16")


def program(function):
    """Registers a training program: a function that takes a Precision and returns nothing."""
    PROGRAMS[function.__name__] = function
    return function


@dataclasses.dataclass(frozen=True)
class Precision:
    name: str

    @property
    def dtype(self):
        return {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[self.name]

    def autocast(self):
        return torch.autocast("cuda", dtype=self.dtype) if self.name != "fp32" else contextlib.nullcontext()

    def scaler(self):
        return torch.amp.GradScaler("cuda", enabled=self.name == "fp16")


def train(model, loss_of, precision, optimizer=None, steps=2, clip=None):
    """`loss_of(model)` is one forward pass. The optimizer's state exists from the second step on."""
    model = model.cuda().train()
    optimizer = optimizer(model.parameters()) if optimizer else torch.optim.AdamW(model.parameters(), lr=1e-4)
    scaler = precision.scaler()
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        with precision.autocast():
            loss = loss_of(model)
        scaler.scale(loss).backward()
        if clip:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        scaler.step(optimizer)
        scaler.update()
    torch.cuda.synchronize()
    # Were a step left out, as a scale of zero would, the rest of the battery would prove little.
    if not getattr(optimizer, "optim", optimizer).state:  # ZeRO's wraps another
        raise AssertionError("the optimizer never stepped")


def images(batch=4, size=64):
    return torch.randn(batch, 3, size, size, device="cuda")


def labels(batch=4, classes=10):
    return torch.randint(0, classes, (batch,), device="cuda")


def classify(batch=4, size=64, classes=10):
    return lambda model: torch.nn.functional.cross_entropy(model(images(batch, size)), labels(batch, classes))


def mean_of_square(*shape):
    return lambda model: model(torch.randn(*shape, device="cuda")).float().square().mean()

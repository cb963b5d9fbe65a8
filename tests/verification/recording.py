"""A recorded process: which training steps it ran, told by the file's name, and what its allocator did.

<model>[-<option>...][-r<run>q<cap>]-b<batch>[-cap<MiB>MiB][-expandable].csv.gz
"""

import csv
import dataclasses
import gzip
import io
import pathlib
import re

NAME = re.compile(
    r"(?P<model>[A-Za-z0-9_.]+(?:-(?!b\d)(?!r\d+q)[A-Za-z0-9_]+)*)"
    r"(?P<run>-r\d+q[\d.]+)?-b(?P<batch>\d+)(?:-cap(?P<cap>\d+)MiB)?(?P<expandable>-expandable)?$"
)
MARK = re.compile(r"mark:(\w+):allocated_peak=(\d+):reserved_peak=(\d+):reserved=(\d+)$")
# What peers.py takes as one word; the rest of its kinds are a torchvision model and options: <model>+<option>-<option>.
WHOLE_KINDS = ("swin-", "frcnn", "retinanet", "gpt2")
# The recordings without marks are of other steps than peers.py's three of one size, as far as their allocations tell: the model,
# what peers.py calls it with that optimizer, and by how much the batch grew for the third and fourth step.
GROWING = {"resnet50": ("resnet50+sgd", 1.25), "convnext_small": ("convnext_small", 1.3)}
# A GPT of the recorders' own, of which no steps are published.
WITHOUT_STEPS = ("gpt",)


class UnknownRecording(Exception):
    pass


@dataclasses.dataclass(frozen=True)
class Event:
    action: str
    address: int
    size: int
    stream: int


@dataclasses.dataclass(frozen=True)
class Mark:
    label: str
    allocated_peak: int
    reserved_peak: int
    reserved: int


@dataclasses.dataclass(frozen=True)
class Recording:
    name: str
    kind: str  # as peers.py spells it
    batch_size: int
    batch_sizes: tuple  # of each step
    cap_mib: int  # 0: none
    expandable: bool
    other_procedure: bool  # recorded by other steps than the three of peers.py, with TF32 as PyTorch sets it: no marks
    steps_known: bool  # which steps they were
    events: list
    marks: list


def kind_of(model: str) -> str:
    if model.startswith(WHOLE_KINDS):
        return model
    name, _, options = model.partition("-")
    return f"{name}+{options}" if options else name


def read_rows(path: pathlib.Path):
    events, marks = [], []
    with gzip.open(path, "rt", newline="") as file:
        text = file.read()
    for row in csv.reader(io.StringIO(text)):
        if row[0] == "action":
            continue
        if row[0].startswith("mark:"):
            found = MARK.match(row[0])
            if not found:
                raise UnknownRecording(f"a mark that is not understood: {row[0]}")
            marks.append(Mark(found[1], int(found[2]), int(found[3]), int(found[4])))
        else:
            events.append(Event(row[0], int(row[1]), int(row[2]), int(row[3])))
    return events, marks


def read_recording(path: pathlib.Path) -> Recording:
    name = path.name.removesuffix(".csv.gz")
    parts = NAME.match(name)
    if not parts:
        raise UnknownRecording("a name without a model and a batch size: <model>-b<batch>[-cap<MiB>MiB][-expandable]")
    if parts["model"] in WITHOUT_STEPS:
        raise UnknownRecording("peers.py has no steps for this model")
    events, marks = read_rows(path)
    kind, batch_size = kind_of(parts["model"]), int(parts["batch"])
    batch_sizes = (batch_size,) * 3
    if not marks and parts["model"] in GROWING:
        kind, growth = GROWING[parts["model"]]
        batch_sizes = (batch_size,) * 2 + (int(batch_size * growth),) * 2
    return Recording(
        name=name,
        kind=kind,
        batch_size=batch_size,
        batch_sizes=batch_sizes,
        cap_mib=int(parts["cap"] or 0),
        expandable=parts["expandable"] is not None,
        other_procedure=not marks,
        steps_known=bool(marks) or parts["model"] in GROWING or parts["model"].startswith(WHOLE_KINDS),
        events=events,
        marks=marks,
    )

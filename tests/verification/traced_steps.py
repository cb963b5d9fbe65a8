"""Runs `trace1` of peers.py, unedited. traced_steps.py PEERS JSON_ARGUMENTS [--default-tf32] [--batch-sizes 20,20,26,26]

Differences to `python peers.py trace1 JSON_ARGUMENTS`:
- PyTorch's history has no address for a refused request, which `trace1` reads from every entry; it gets the device's free bytes
  there, as the recordings have it.
- --default-tf32: TF32 stays as PyTorch sets it, on for convolutions, as in the recordings without marks.
- --batch-sizes: a size for each step, and as many steps.
"""

import argparse
import importlib.util
import json

import torch

parser = argparse.ArgumentParser()
parser.add_argument("peers")
parser.add_argument("arguments", type=json.loads)
parser.add_argument("--default-tf32", action="store_true")
parser.add_argument("--batch-sizes", type=lambda text: [int(size) for size in text.split(",")])
asked = parser.parse_args()

spec = importlib.util.spec_from_file_location("peers", asked.peers)
peers = importlib.util.module_from_spec(spec)
spec.loader.exec_module(peers)

take_snapshot = torch.cuda.memory._snapshot


def snapshot_with_addresses(*arguments, **keywords):
    taken = take_snapshot(*arguments, **keywords)
    for device in taken["device_traces"]:
        for entry in device:
            entry.setdefault("addr", entry.get("device_free", 0))
    return taken


def only_cap(cap_mib):
    if cap_mib:
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(cap_mib * 2**20 / total, 0)


torch.cuda.memory._snapshot = snapshot_with_addresses
if asked.default_tf32:
    peers.setup = only_cap
kind, batch_size, out, cap_mib, steps = asked.arguments
if asked.batch_sizes:
    make, sizes, steps = peers.mk, iter(asked.batch_sizes), len(asked.batch_sizes)

    def make_growing(kind):
        model, optimizer, step = make(kind)
        return model, optimizer, lambda _: step(next(sizes))

    peers.mk = make_growing
peers.trace1(kind, batch_size, out, cap_mib, steps)

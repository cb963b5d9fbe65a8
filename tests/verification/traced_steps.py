"""Runs `trace1` of peers.py, unedited. traced_steps.py PEERS JSON_ARGUMENTS [--default-tf32]

Differences to `python peers.py trace1 JSON_ARGUMENTS`:
- PyTorch's history has no address for a refused request, which `trace1` reads from every entry; it gets the device's free bytes
  there, as the recordings have it.
- --default-tf32: TF32 stays as PyTorch sets it, on for convolutions, as in the recordings without marks.
"""

import importlib.util
import json
import sys

import torch

spec = importlib.util.spec_from_file_location("peers", sys.argv[1])
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
if sys.argv[3:] == ["--default-tf32"]:
    peers.setup = only_cap
peers.trace1(*json.loads(sys.argv[2]))

"""Runs `trace1` of peers.py, unedited. traced_steps.py PEERS JSON_ARGUMENTS

The one difference to `python peers.py trace1 JSON_ARGUMENTS`: PyTorch's history has no address for a refused request, which
`trace1` reads from every entry; it gets the device's free bytes there, as the recordings have it.
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


torch.cuda.memory._snapshot = snapshot_with_addresses
peers.trace1(*json.loads(sys.argv[2]))

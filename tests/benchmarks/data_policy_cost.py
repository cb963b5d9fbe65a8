#!/usr/bin/env python3
"""What watching for data-dependent operators costs a dry step: the same steps with the data policies and with `--data off`, turn and
turn about in one run, by processor time, which does not depend on who else uses the machine.

  data_policy_cost.py --program build/dev/src/cli/maxbatch [--peers peers.py] [--repeat 5]

Without --peers: a small Transformer encoder, all host time and hardly any kernels. With it also Swin-L at batch 32.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
import python_models

TIMED = """
import time
for _ in range(3):
    step()
torch.cuda.synchronize()
took = []
for _ in range(%d):
    began = time.process_time()
    step()
    torch.cuda.synchronize()
    took.append(1e3 * (time.process_time() - began))
print(sorted(took)[len(took) // 2])
"""
ENCODER = """
import torch
layer = torch.nn.TransformerEncoderLayer(256, 4, 512, batch_first=True)
model = torch.nn.TransformerEncoder(layer, 6).cuda()
optimizer = torch.optim.AdamW(model.parameters())
def step():
    model(torch.randn(4, 32, 256, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
SWIN = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("peers", sys.argv[1])
peers = importlib.util.module_from_spec(spec)
spec.loader.exec_module(peers)
torch = peers.torch
peers.setup(0)
_, _, step_of = peers.mk("swin-plain")
step = lambda: step_of(32)
"""


def step_ms(arguments, environment, policy, program):
    command = [str(arguments.program), "dry-run", "--card", "h200", "--data", policy, "--", arguments.python, "-c", program, str(arguments.peers)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    if ran.returncode != 0:
        raise SystemExit(f"--data {policy}: exit code {ran.returncode}: {ran.stderr[-500:]}")
    return float(ran.stdout.split()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, type=pathlib.Path)
    parser.add_argument("--peers", type=pathlib.Path)
    parser.add_argument("--python", default=python_models.default_python())
    parser.add_argument("--site", default=python_models.default_site())
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    environment = dict(os.environ, PYTHONPATH=arguments.site)
    programs = {"Transformer encoder": ENCODER + TIMED % 30}
    if arguments.peers:
        programs["Swin-L, batch 32"] = SWIN + TIMED % 5
    for name, program in programs.items():
        pairs = [[step_ms(arguments, environment, policy, program) for policy in ("worst", "off")] for _ in range(arguments.repeat)]
        watched, plain = (statistics.median(column) for column in zip(*pairs))
        differences = [100 * (a - b) / b for a, b in pairs]
        print(
            f"{name}: a step takes {watched:.1f} ms of processor time watched, {plain:.1f} ms with --data off; pairs differ by "
            f"{min(differences):+.0f} % to {max(differences):+.0f} %, in the middle {statistics.median(differences):+.0f} %",
            flush=True,
        )


if __name__ == "__main__":
    main()

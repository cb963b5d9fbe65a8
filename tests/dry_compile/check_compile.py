#!/usr/bin/env python3
"""A small program with torch.compile on a dry card: Inductor and Triton run for real, and what they write stays apart.

  check_compile.py --program build/dev/src/cli/maxbatch --python PYTHON

Exit code: 0; 1 when something is wrong; 77 when nothing could be run (no Triton, no C compiler), with the reason.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
TRAINS = """
import sys, torch

def activation(x):  # nine kernels and their outputs without a compiler, one with it
    return torch.sigmoid(torch.tanh(x) * 2 + 1) * torch.exp(-x.abs()) + torch.relu(x).sqrt() * 0.5

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(1024, 1024), torch.nn.Linear(1024, 1024)

    def forward(self, x):
        return self.second(activation(self.first(x)))

net = Net().cuda()
optimizer = torch.optim.AdamW(net.parameters())
run = torch.compile(net) if sys.argv[1] == "compiled" else net
for _ in range(3):
    optimizer.zero_grad()
    run(torch.randn(8192, 1024, device="cuda")).sum().backward()
    optimizer.step()
print("trained")
"""


class Wrong(Exception):
    pass


def expect(true, text):
    if not true:
        raise Wrong(text)


def missing(python):
    """Why there is nothing to run; empty: there is."""
    tried = subprocess.run([python, "-c", "import torch, triton"], capture_output=True, text=True)
    if tried.returncode != 0:
        return f"{python} lacks a module: {tried.stderr.strip().splitlines()[-1]}"
    if not any(map(shutil.which, filter(None, (os.environ.get("CC"), "cc", "gcc", "clang")))):
        return "there is no C compiler, which Triton needs for its launchers"
    return ""


def peak(arguments, folder, how):
    """Allocated bytes at the peak of the program, by the report of its dry run."""
    script, report = folder / "trains.py", folder / f"{how}.json"
    script.write_text(TRAINS)
    environment = dict(os.environ, XDG_CACHE_HOME=str(folder / "cache"), HOME=str(folder / "home"), TORCHINDUCTOR_COMPILE_THREADS="1")
    for name in ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "PYTHONPATH"):
        environment.pop(name, None)
    command = [arguments.program, "dry-run", "--card", "rtx-4090", "--report", str(report), "--", arguments.python, "-W", "ignore", str(script), how]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    expect(ran.returncode == 0 and "trained" in ran.stdout, f"{how}: exit code {ran.returncode}: {(ran.stdout + ran.stderr)[-1500:]}")
    devices = [device for process in json.loads(report.read_text())["processes"] for device in process["devices"]]
    return max((device.get("allocator") or {}).get("peak_allocated_bytes", 0) for device in devices)


def check(arguments, folder):
    (folder / "home").mkdir()
    eager, compiled = peak(arguments, folder, "eager"), peak(arguments, folder, "compiled")
    print(f"peak allocated: {eager >> 20} MiB, compiled {compiled >> 20} MiB")
    # Outputs that were saved between the activation's parts (32 MiB each) are gone.
    expect(compiled + (64 << 20) < eager, "the compiled program takes as much as the other: nothing was compiled")
    kernels = list((folder / "cache" / "maxbatch" / "dry_compilers").rglob("*.cubin"))
    expect(kernels, "no kernel of Triton's lies in our cache")
    ours = {"maxbatch"}
    others = {path.name for path in (folder / "cache").iterdir()} - ours
    expect(not others, f"caches of others were written: {others}")
    expect(not list((folder / "home").rglob("*.cubin")), "Triton's own cache was written")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--python", required=True)
    arguments = parser.parse_args()
    reason = missing(arguments.python)
    if reason:
        print(f"check_compile: nothing was run: {reason}")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        try:
            check(arguments, pathlib.Path(folder))
        except Wrong as error:
            print(f"check_compile: WRONG: {error}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Start-up of tiny programs under `maxbatch dry-run`, and the host time of a dry Swin-L step at batch 32.

  dry_run_times.py --program build/dev/src/cli/maxbatch --peers peers.py --cpp-tiny battery_programs --cpp-swin op_trace_training

--cpp-swin is what tests/verification/verify_op_traces.py builds. Wall time is what one waits; processor time is what it takes
on a machine that others use, too. The least of --repeat runs each.
"""

import argparse
import os
import pathlib
import re
import resource
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
import python_models

TINY = "import torch; torch.ones(1024, device='cuda').sum(); torch.cuda.synchronize()"
SWIN = """
import importlib.util, sys, time
spec = importlib.util.spec_from_file_location("peers", sys.argv[1])
peers = importlib.util.module_from_spec(spec)
spec.loader.exec_module(peers)
peers.setup(0)
model, optimizer, step = peers.mk("swin-plain")
for _ in range(3):
    began, processor = time.perf_counter(), time.process_time()
    step(32)
    peers.torch.cuda.synchronize()
    print(f"{1e3 * (time.perf_counter() - began):.0f} {1e3 * (time.process_time() - processor):.0f}")
"""


def timed(command, environment):
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if ran.returncode != 0:
        raise SystemExit(f"{command}: exit code {ran.returncode}: {ran.stderr[-500:]}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, ran.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, type=pathlib.Path)
    parser.add_argument("--peers", type=pathlib.Path)
    parser.add_argument("--cpp-tiny", type=pathlib.Path)
    parser.add_argument("--cpp-swin", type=pathlib.Path)
    parser.add_argument("--python", default=python_models.default_python())
    parser.add_argument("--site", default=python_models.default_site())
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    environment = dict(os.environ, PYTHONPATH=arguments.site)
    dry = [str(arguments.program), "dry-run", "--card", "h200", "--"]
    starts = {"Python, one tensor": [arguments.python, "-c", TINY]}
    if arguments.cpp_tiny:
        starts["C++, two steps of an attention net"] = [str(arguments.cpp_tiny.resolve()), "cpp_attention", "fp32"]
    for name, command in starts.items():
        runs = [timed(dry + command, environment)[:2] for _ in range(arguments.repeat)]
        print(f"{name}: {min(r[0] for r in runs):.2f} s, processor {min(r[1] for r in runs):.2f} s", flush=True)
    if arguments.peers:
        runs = [timed(dry + [arguments.python, "-c", SWIN, str(arguments.peers)], environment)[2].split()[-2:] for _ in range(arguments.repeat)]
        print(f"Swin-L, batch 32, Python: third step {min(int(r[0]) for r in runs)} ms, processor {min(int(r[1]) for r in runs)} ms", flush=True)
    if arguments.cpp_swin:
        runs = [timed(dry + [str(arguments.cpp_swin.resolve()), "swinl", "32", "3"], environment)[2] for _ in range(arguments.repeat)]
        steps = [re.findall(r"step 2 total (\S+) s \(data (\S+)", run)[0] for run in runs]
        best = min(steps, key=lambda s: float(s[0]) - float(s[1]))
        print(f"Swin-L, batch 32, C++: third step {1e3 * float(best[0]):.0f} ms, of which drawing the input {1e3 * float(best[1]):.0f} ms")


if __name__ == "__main__":
    main()

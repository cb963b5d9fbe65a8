#!/usr/bin/env python3
"""Our Swin Transformers in C++ (swin_step) beside timm's in Python (swin_step.py), eager, in turn: same batch, attention,
precision and drop path; AdamW; TF32 off.

  swin_compare.py speed    --cpp build/dev/tests/benchmarks/swin_step --batches 1,8,32
  swin_compare.py memory   --cpp … --batches 1,8,22,32
  swin_compare.py boundary --cpp … --caps-mib 6144,8192,10700,16384,24576

speed wants a card. Each side is started afresh --rounds times, in turn, so that a card that warms up is fair to both;
per process the first --warm-up steps are left out, and each step ends synchronised. Printed: the median of all steps, the
10th and 90th percentile, and the ratio of medians. --dry-library runs it all on a dry card instead: then kernels take no
time, and what is measured is the host's work.

memory prints the peaks of three steps as the caching allocator counts them; boundary the largest batch that runs three
steps in a fresh process under a cap, and that the next one does not. Both give the same on a dry card, which needs
--dry-library build/dev/src/dry_cuda/libmaxbatch_dry_cuda.so [--card h200].

Our detectors beside torchvision's: --cpp …/detector_step --script detector_step.py --sides cpp,torchvision.

--python names the Python that has torch; PYTHONPATH may name where timm is. Everything else is passed on to both sides:
--model swin_l, --attention fused, --precision bf16, --inference, …
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
MIB = 2**20


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "memory", "boundary"])
    parser.add_argument("--cpp", required=True, help="the program swin_step")
    parser.add_argument("--script", default="swin_step.py", help="the other side, a file beside this one")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--batches", default="1,8,32")
    parser.add_argument("--caps-mib", default="6144,8192,10700,16384,24576")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--warm-up", type=int, default=5)
    parser.add_argument("--dry-library")
    parser.add_argument("--card", default="h200")
    parser.add_argument("--sides", default="cpp,timm")
    return parser.parse_known_args()


class Sides:
    def __init__(self, asked, passed_on):
        self.names = asked.sides.split(",")
        scripted = [asked.python, str(HERE / asked.script)]
        self.commands = {name: [asked.cpp] if name == "cpp" else scripted for name in self.names}
        self.passed_on = passed_on
        self.environment = dict(os.environ)
        if asked.dry_library:
            torch_library = subprocess.run(
                [asked.python, "-c", "import torch; print(torch.__path__[0])"], check=True, capture_output=True,
                text=True).stdout.strip() + "/lib"
            self.environment |= {
                "LD_PRELOAD": str(pathlib.Path(asked.dry_library).resolve()), "MAXBATCH_CARD": asked.card,
                "LD_LIBRARY_PATH": f"{torch_library}:{torch_library}/../../nvidia/cu13/lib"}

    def run(self, side, **options):
        words = list(self.passed_on)
        for name, value in options.items():
            words += ["--" + name.replace("_", "-"), str(value)]
        ran = subprocess.run(self.commands[side] + words, env=self.environment, capture_output=True, text=True)
        if ran.returncode:
            sys.exit(f"{side} failed with {ran.returncode}: {' '.join(words)}\n{ran.stderr[-3000:]}")
        return json.loads(ran.stdout.splitlines()[-1])


def speed(sides, asked):
    print("batch  side    ms/step   10 %   90 %  images/s  ratio", flush=True)
    for batch in map(int, asked.batches.split(",")):
        seconds = {side: [] for side in sides.names}
        for _ in range(asked.rounds):
            for side in sides.names:
                ran = sides.run(side, batch=batch, steps=asked.warm_up + asked.steps)
                if not ran["fits"]:
                    sys.exit(f"{side}: batch {batch} does not fit: {ran['reason']}")
                seconds[side] += ran["seconds"][asked.warm_up:]
        medians = {side: statistics.median(times) for side, times in seconds.items()}
        for side, times in seconds.items():
            tenths = statistics.quantiles(times, n=10)
            print(f"{batch:5}  {side:6} {medians[side] * 1e3:8.2f} {tenths[0] * 1e3:6.2f} {tenths[-1] * 1e3:6.2f}"
                  f" {batch / medians[side]:9.1f}  {medians[sides.names[-1]] / medians[side]:5.2f}", flush=True)


def memory(sides, asked):
    print(f"batch  side    allocated MiB  reserved MiB  of {sides.names[-1]}'s", flush=True)
    for batch in map(int, asked.batches.split(",")):
        ran = {side: sides.run(side, batch=batch, steps=3) for side in sides.names}
        last = ran[sides.names[-1]]
        for side, peaks in ran.items():
            print(f"{batch:5}  {side:6} {peaks['allocated_peak'] / MIB:14.1f} {peaks['reserved_peak'] / MIB:13.1f}"
                  f"  {peaks['allocated_peak'] / last['allocated_peak']:.4f}"
                  f" {peaks['reserved_peak'] / last['reserved_peak']:.4f}", flush=True)


def boundary(sides, asked):
    print("cap MiB  side    largest  its reserved MiB  what stops the next", flush=True)
    lines = {}
    for side in sides.names:  # a first guess: reserved bytes by batch, far from the floor that the optimizer sets
        low, high = (sides.run(side, batch=batch, steps=3)["reserved_peak"] for batch in (16, 32))
        lines[side] = (low, (high - low) / 16)
    for cap in map(int, asked.caps_mib.split(",")):
        for side in sides.names:
            start, slope = lines[side]
            tried = {}

            def fits(batch):
                if batch not in tried:
                    tried[batch] = sides.run(side, batch=batch, steps=3, cap_mib=cap)
                return tried[batch]["fits"]

            batch = max(1, 16 + int((cap * MIB - start) / slope))
            while not fits(batch) and batch > 1:
                batch -= 1
            while fits(batch + 1):
                batch += 1
            print(f"{cap:7}  {side:6} {batch:8} {tried[batch]['reserved_peak'] / MIB:17.1f}  {tried[batch + 1]['reason']}",
                  flush=True)


def main():
    asked, passed_on = arguments()
    {"speed": speed, "memory": memory, "boundary": boundary}[asked.what](Sides(asked, passed_on), asked)


if __name__ == "__main__":
    main()

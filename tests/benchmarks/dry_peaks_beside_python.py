#!/usr/bin/env python3
"""What a training step of ours takes of the allocator beside the Python original's (python_bench.py), both on a dry card: no GPU.

    dry_peaks_beside_python.py --program build/dev/src/cli/maxbatch --python PYTHON swin_l:8 resnet50:64:bf16:sgd-fused

A case is MODEL:BATCH[:PRECISION[:OPTIMIZER]], as of bench_compare.py. Exit code 1: one of ours takes more than --at-most times
theirs, allocated or reserved."""

import argparse
import pathlib
import sys

from bench_compare import ran, read_case

HERE = pathlib.Path(__file__).resolve().parent
KINDS = ("allocated", "reserved")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="the program maxbatch")
    parser.add_argument("--python", default=sys.executable, help="with torch, timm, torchvision and transformers")
    parser.add_argument("--card", default="h200")
    parser.add_argument("--at-most", type=float, default=1.0)
    parser.add_argument("cases", nargs="+")
    return parser.parse_args()


def ours(asked, case):
    size = str(case["batch"])
    return ran([asked.program, "find", "--model", case["model"], "--device", asked.card, "--min", size, "--max", size,
                "--precision", case["precision"], "--optimizer", case["optimizer"], "--format", "json"])


def theirs(asked, case):
    return ran([asked.program, "dry-run", "--card", asked.card, "--", asked.python, str(HERE / "python_bench.py"), "--model",
                case["model"], "--batch", str(case["batch"]), "--precision", case["precision"], "--optimizer",
                case["optimizer"], "--rounds", "1", "--round-seconds", "0.001"])


def main():
    asked = arguments()
    print("| model | batch | precision | optimizer | allocated: ours | Python's | ratio | reserved: ours | Python's | ratio |")
    print("|---|---|---|---|---|---|---|---|---|---|", flush=True)
    too_much = False
    for case in map(read_case, asked.cases):
        cells = [case["model"], case["batch"], case["precision"], case["optimizer"]]
        mine, python = ours(asked, case), theirs(asked, case)
        for kind in KINDS:
            left, right = (side[f"peak_{kind}_bytes"] for side in (mine, python))
            too_much |= left > asked.at_most * right
            cells += [left, right, f"{left / right:.4f}"]
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)
    return 1 if too_much else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RuntimeError as error:
        sys.exit(str(error))

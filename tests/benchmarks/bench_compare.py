#!/usr/bin/env python3
"""`maxbatch bench` beside the Python originals (python_bench.py), in turn, in one run: the same model, batch, precision, optimizer
kind, attention and drop path; TF32 off but for tf32.

    bench_compare.py --program build/dev/src/cli/maxbatch swin_l:1 swin_l:8:fp32:adamw-fused resnet50:64:bf16:sgd-fused

A case is MODEL:BATCH[:PRECISION[:OPTIMIZER[:BUDGET_MIB]]]; with a budget neither side reserves more. Each side runs --turns times, in turn, so that a card that warms up is fair to both.
Printed: samples a second at the median round of all turns, ours over theirs, and the peaks, ours over theirs.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
MODES = ("training", "inference")
BY_SGD = ("resnet", "faster_rcnn", "retinanet")  # unless a case says otherwise


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="the program maxbatch")
    parser.add_argument("--python", default=sys.executable, help="with torch, timm, torchvision and transformers")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--round-seconds", type=float, default=0.5)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("cases", nargs="+")
    return parser.parse_args()


def ran(command):
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, HF_HUB_OFFLINE="1"))
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stderr.strip()[-400:]}")
    return json.loads(done.stdout)


def measure_ours(asked, case):
    answer = ran([asked.program, "bench", "--model", case["model"], "--device", asked.device, "--batches", str(case["batch"]),
                  "--precision", case["precision"], "--optimizer", case["optimizer"], "--rounds", str(asked.rounds),
                  "--round-seconds", str(asked.round_seconds), "--format", "json",
                  *(["--budget", f"{case['budget_mib']}MiB"] if case["budget_mib"] else [])])
    for mode in MODES:
        if "median_seconds" not in (answer["sizes"][0][mode] or {}):
            raise RuntimeError(f"ours: {mode}: {answer['sizes'][0][mode]}")
    return {mode: answer["sizes"][0][mode] for mode in MODES}


def measure_theirs(asked, case):
    return ran([asked.python, str(HERE / "python_bench.py"), "--model", case["model"], "--batch", str(case["batch"]),
                "--precision", case["precision"], "--optimizer", case["optimizer"], "--mode", "both", "--rounds",
                str(asked.rounds), "--round-seconds", str(asked.round_seconds), "--device", asked.device.split(":")[0],
                *(["--budget-mib", str(case["budget_mib"])] if case["budget_mib"] else [])])


def read_case(text):
    parts = text.split(":") + [None] * 5
    precision = parts[2] or "fp32"
    optimizer = parts[3] or ("sgd-fused" if parts[0].startswith(BY_SGD) else "adamw-fused")
    return {"model": parts[0], "batch": int(parts[1]), "precision": precision, "optimizer": optimizer,
            "budget_mib": int(parts[4] or 0)}


def main():
    asked = arguments()
    print("| model | batch | precision | optimizer | mode | ours /s | Python /s | ratio | allocated, ratio | reserved, ratio |")
    print("|---|---|---|---|---|---|---|---|---|---|", flush=True)
    kept, failed = [], False
    for case in map(read_case, asked.cases):
        sides = {"ours": [], "theirs": []}
        try:
            for _ in range(asked.turns):
                sides["ours"].append(measure_ours(asked, case))
                sides["theirs"].append(measure_theirs(asked, case))
        except RuntimeError as error:
            failed = True
            print(f"| {case['model']} | {case['batch']} | {case['precision']} | {case['optimizer']} | {error} |", flush=True)
            continue
        for mode in MODES:
            seconds = {side: statistics.median(turn[mode]["median_seconds"] for turn in turns) for side, turns in sides.items()}
            last = {side: turns[-1][mode] for side, turns in sides.items()}

            def ratio(key):
                of = last["theirs"].get(key)
                return f"{last['ours'][key] / of:.3f}" if of else "-"

            print(f"| {case['model']} | {case['batch']} | {case['precision']} | {case['optimizer']} | {mode} | "
                  f"{case['batch'] / seconds['ours']:.1f} | {case['batch'] / seconds['theirs']:.1f} | "
                  f"{seconds['theirs'] / seconds['ours']:.2f} | {ratio('peak_allocated_bytes')} | {ratio('peak_reserved_bytes')} |",
                  flush=True)
        kept.append({**case, **sides})
    if asked.json:
        asked.json.write_text(json.dumps(kept, indent=1), encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

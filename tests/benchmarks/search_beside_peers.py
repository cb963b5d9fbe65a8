#!/usr/bin/env python3
"""Our search beside Lightning's and Accelerate's, on the card present, one after another in one run.

    python3 tests/benchmarks/search_beside_peers.py --program build/src/cli/maxbatch --peers ../shared/tools/peers.py \\
        --caps 6144,8192,10700,16384,24576

Swin-L at 224, fp32, AdamW (--optimizer is ours; theirs is Python's default, all parameters at once). Each cap: our search in C++
with and without a rehearsal on the dry card; Lightning's binary search from 2; Accelerate from 64 and from 128, both on timm's
model. Every run is a process of its own and nothing else runs meanwhile.

`minimum` is the least that a certified answer costs: the answer's three steps and two failing attempts at the next size, as
this very run took for them. `total` is the whole search: scouts, misses, restores. Start of the process, warm-up of the card
and building the model are apart, for everybody.
"""
import argparse
import json
import re
import subprocess
import sys
import time


def ours(arguments, cap, rehearse):
    began = time.time()
    command = [arguments.program, "find", "--model", arguments.model, "--device", arguments.device, "--budget",
               f"{cap}MiB", "--optimizer", arguments.optimizer, "--format", "json",
               "--rehearse" if rehearse else "--no-rehearse"]
    done = subprocess.run(command, capture_output=True, text=True)
    wall = time.time() - began
    if done.returncode not in (0, 3):
        return {"error": done.stderr.strip()[-300:]}
    answer = json.loads(done.stdout)
    trials = answer["trials"]
    best, following = answer["largest_batch_size"], answer["next_batch_size"]
    passes = [t["seconds"] for t in trials if t["batch_size"] == best and t["outcome"].startswith("fits")]
    failures = [t["seconds"] for t in trials if t["batch_size"] == following][-2:]
    minimum = (min(passes) if passes else 0) + sum(failures)
    return {"answer": best, "proof": answer["proof"], "trials": [t["batch_size"] for t in trials],
            "misses": sum(1 for t in trials if not t["outcome"].startswith("fits")) - len(failures),
            "minimum": minimum, "total": sum(t["seconds"] for t in trials),
            "first_trial": trials[0]["seconds"] if trials else 0,
            "rehearsal": answer.get("rehearsal_seconds") or 0, "wall": wall}


def peer(arguments, scenario, *values):
    began = time.time()
    done = subprocess.run([sys.executable, arguments.peers, scenario, json.dumps(values)], capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith(("LIGHTNING", "ACCELERATE"))]
    if not lines:
        return {"error": (done.stderr or done.stdout).strip()[-300:]}
    found = re.search(r"result=(\S+).*trials=\[(.*?)\].* t=([\d.]+)", lines[-1])
    return {"answer": int(found[1]) if found[1].isdigit() else found[1],
            "trials": [int(size) for size in found[2].split(",") if size.strip()], "total": float(found[3]),
            "wall": time.time() - began}


def line(cap, who, row):
    if "error" in row:
        return f"| {cap} | {who} | failed: {row['error']} | | | | |"
    ratio = f"{row['total'] / row['minimum']:.2f}" if row.get("minimum") else ""
    minimum = f"{row['minimum']:.2f}" if row.get("minimum") else ""
    return (f"| {cap} | {who} | {row['answer']} | {len(row['trials'])}: {' '.join(map(str, row['trials']))} | "
            f"{row['total']:.2f} | {minimum} | {ratio} | {row.get('rehearsal', 0):.2f} | {row['wall']:.1f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--peers", default="")
    parser.add_argument("--model", default="swin_l")
    parser.add_argument("--kind", default="swin-plain", help="the model as peers.py calls it")
    parser.add_argument("--optimizer", default="adamw-fused", help="as maxbatch find takes it")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--caps", default="6144,8192,10700,16384,24576", help="MiB, with commas between them")
    parser.add_argument("--json", default="")
    arguments = parser.parse_args()
    kept = []
    print("| cap MiB | who | answer | trials | total s | minimum s | total / minimum | rehearsal s | process s |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    for cap in map(int, arguments.caps.split(",")):
        runs = [("maxbatch", lambda: ours(arguments, cap, False)), ("maxbatch, rehearsed", lambda: ours(arguments, cap, True))]
        if arguments.peers:
            runs += [("Lightning from 2", lambda: peer(arguments, "lightning_run", arguments.kind, cap, "binsearch", 2)),
                     ("Accelerate from 64", lambda: peer(arguments, "accelerate_run", arguments.kind, cap, 64)),
                     ("Accelerate from 128", lambda: peer(arguments, "accelerate_run", arguments.kind, cap, 128))]
        for who, run in runs:
            row = run()
            kept.append({"cap_mib": cap, "who": who, **row})
            print(line(cap, who, row), flush=True)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(kept, file, indent=1)


if __name__ == "__main__":
    main()

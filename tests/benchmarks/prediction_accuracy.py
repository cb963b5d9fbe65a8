#!/usr/bin/env python3
"""How often `maxbatch predict` names the batch that is the largest to run: docs/prediction.md.

  prediction_accuracy.py record DIR --maxbatch PROGRAM --python PYTHON   records and runs what is missing in DIR
  prediction_accuracy.py table DIR --maxbatch PROGRAM                    predicts, and prints the tables

`record` needs a python with torch 2.11, timm, torchvision and transformers, and no GPU: every run is a process of its own
on a dry H200 (`maxbatch dry-run`), where LibTorch's real allocator serves three training steps or runs out of memory.
The largest batch under a limit is walked to: it ran, and the next one did not. About 7 s a run, some 150 runs.
"""
import argparse
import gzip
import json
import os
import re
import statistics
import subprocess
import sys

MIB = 2**20
LIMITS_MIB = {
    "swin": [7000, 8600, 10700, 12500, 14500, 19000],
    "resnet50": [1500, 2300, 3200, 4500, 7000, 11000],
    "vit_b_16": [2600, 3500, 4900, 6600, 9700, 13500],
    "gpt2": [8500, 9500, 12000, 16000, 22000, 30000, 45000],
}
# The smallest pair of each structure: where it changes was read off recordings (`maxbatch predict` says it, too).
PAIRS = {
    "swin": [(2, 3), (6, 7)],
    "resnet50": [(2, 3), (4, 6)],
    "vit_b_16": [(2, 3), (6, 7)],
    "gpt2": [(2, 3)],
}


def build(model):
    import torch

    if model == "swin":
        os.environ["TIMM_FUSED_ATTN"] = "0"
        import timm

        timm.layers.set_fused_attn(False)
        net = timm.create_model("swin_large_patch4_window7_224", num_classes=1000, drop_path_rate=0.1)
    elif model == "gpt2":
        from transformers import GPT2Config, GPT2LMHeadModel

        net = GPT2LMHeadModel(GPT2Config())
    else:
        import torchvision

        net = getattr(torchvision.models, model)(weights=None)
    net = net.cuda().train()
    if model == "resnet50":
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    elif model == "swin":
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, weight_decay=5e-2)
    else:
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)

    def step(batch):
        if model == "gpt2":
            tokens = torch.randint(0, 50257, (batch, 512), device="cuda")
            loss = net(tokens, labels=tokens).loss
        else:
            images = torch.randn(batch, 3, 224, 224, device="cuda")
            labels = torch.randint(0, 1000, (batch,), device="cuda")
            loss = torch.nn.functional.cross_entropy(net(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return net, step


def run_here(model, batch, limit_mib, path):
    """In the process on the dry card: three steps, and the allocator's history to `path`."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    if limit_mib:
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(limit_mib * MIB / total, 0)
    torch.cuda.memory._record_memory_history(enabled="all", context=None, max_entries=4000000)
    net, step = build(model)
    marks = []

    def mark(label):
        torch.cuda.synchronize()
        events = len(torch.cuda.memory._snapshot()["device_traces"][0])
        numbers = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved(), torch.cuda.memory_reserved()
        marks.append((events, label, *numbers))

    mark("setup")
    ok = True
    try:
        for i in range(3):
            step(batch)
            mark(f"step{i}")
    except torch.OutOfMemoryError:
        ok = False
    events = torch.cuda.memory._snapshot()["device_traces"][0]
    with gzip.open(path + ".partial", "wt") as out:
        out.write("action,address,size,stream\n")
        for i in range(len(events) + 1):
            for at, label, allocated, reserved_peak, reserved in marks:
                if at == i:
                    out.write(f"mark:{label}:allocated_peak={allocated}:reserved_peak={reserved_peak}"
                              f":reserved={reserved},0,0,0\n")
            if i < len(events):
                e = events[i]
                out.write(f"{e['action']},{e.get('addr', e.get('device_free', 0))},{e['size']},{e['stream']}\n")
    os.rename(path + ".partial", path)
    with open(path + ".json", "w") as out:
        json.dump({"ok": ok, "allocated_peak": marks[-1][2], "reserved_peak": marks[-1][3]}, out)


def path_of(folder, model, batch, limit_mib=0):
    return os.path.join(folder, f"{model}-b{batch}" + (f"-cap{limit_mib}MiB" if limit_mib else "") + ".csv.gz")


def run_dry(arguments, model, batch, limit_mib=0):
    path = path_of(arguments.folder, model, batch, limit_mib)
    if not os.path.exists(path + ".json"):
        command = [arguments.maxbatch, "dry-run", "--card", "h200", "--", arguments.python, __file__, "run", model,
                   str(batch), str(limit_mib), path]
        done = subprocess.run(command, capture_output=True, text=True)
        if not os.path.exists(path + ".json"):
            sys.exit(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}")
    with open(path + ".json") as file:
        return json.load(file)


def record(arguments):
    boundaries = os.path.join(arguments.folder, "boundaries.json")
    known = json.load(open(boundaries)) if os.path.exists(boundaries) else {}
    for model, limits in LIMITS_MIB.items():
        for pair in PAIRS[model]:
            for batch in pair:
                run_dry(arguments, model, batch)
        for limit in limits:
            key = f"{model} {limit}"
            if key in known:
                continue
            batch = max(1, predict(arguments, model, PAIRS[model][0], limit)["elastic_largest_batch_size"] or 1)
            if run_dry(arguments, model, batch, limit)["ok"]:
                while run_dry(arguments, model, batch + 1, limit)["ok"]:
                    batch += 1
            else:
                while batch > 0 and not run_dry(arguments, model, batch, limit)["ok"]:
                    batch -= 1
            known[key] = batch
            with open(boundaries, "w") as out:
                json.dump(known, out, indent=1)
            print(key, batch, flush=True)


def predict(arguments, model, pair, limit_mib):
    command = [arguments.maxbatch, "predict", "--budget", f"{limit_mib}MiB", "--format", "json"]
    command += [f"{path_of(arguments.folder, model, batch)}={batch}" for batch in pair]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 3):
        sys.exit(f"{' '.join(command)} failed: {done.stderr}")
    return json.loads(done.stdout)


def line(arguments, model, pair, limit_mib, what):
    """The baseline: a line through two peaks."""
    first, second = (run_dry(arguments, model, batch)[what] for batch in pair)
    slope = (second - first) / (pair[1] - pair[0])
    return int(pair[0] + (limit_mib * MIB - first) / slope) if slope > 0 else None


def is_near(error, truth):
    return abs(error) <= max(1, 0.02 * truth)


def summary(rows, of):
    errors = [(row[of] - row["truth"], row["truth"]) for row in rows if row[of] is not None]
    if not errors:
        return "-"
    exact = sum(e == 0 for e, _ in errors)
    near = sum(is_near(e, t) for e, t in errors)
    sizes = sorted(abs(e) for e, _ in errors)
    worst = max(errors, key=lambda x: abs(x[0]))
    return (f"{exact} of {len(rows)} | {near} of {len(rows)} | {statistics.median(sizes):g} | {worst[0]:+d} of {worst[1]}"
            f" | {sum(e > 0 for e, _ in errors)} / {sum(e < 0 for e, _ in errors)}")


def allowed(pair, truth):
    return max(pair) <= max(3, truth / 3)


def table(arguments):
    known = json.load(open(os.path.join(arguments.folder, "boundaries.json")))
    rows = []
    for model, limits in LIMITS_MIB.items():
        for limit in limits:
            truth = known.get(f"{model} {limit}")
            if truth is None:
                continue
            pairs = [pair for pair in PAIRS[model] if allowed(pair, truth)]
            for pair in pairs:
                answer = predict(arguments, model, pair, limit)
                low, high = answer["largest_batch_size"] or 0, answer["elastic_largest_batch_size"] or 0
                rows.append({
                    "model": model, "limit": limit, "truth": truth, "pair": pair, "is_smallest": pair == pairs[0],
                    "is_last": pair == pairs[-1], "low": low, "high": high,
                    "retries": max((c["retry_count"] for c in answer["candidates"] if c["batch_size"] == low), default=0),
                    "line_reserved": line(arguments, model, pair, limit, "reserved_peak"),
                    "line_allocated": line(arguments, model, pair, limit, "allocated_peak"),
                })
    print("| model | limit MiB | ran at most | from | predicted | elastic | line, reserved | line, allocated |")
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        print(f"| {row['model']} | {row['limit']} | {row['truth']} | {row['pair'][0]}, {row['pair'][1]} | {row['low']} | "
              f"{row['high'] if row['high'] != row['low'] else ''} | {row['line_reserved']} | {row['line_allocated']} |")
    for title, chosen in (("the smallest pair from 2 on", "is_smallest"), ("the largest pair that is allowed", "is_last")):
        print(f"\nFrom {title}:\n")
        print("| | exact | within max(1, 2 %) | median error | worst | too high / too low |")
        print("|---|---|---|---|---|---|")
        for apart, some in (("", [r for r in rows if r["truth"] >= 8]), (", below 8", [r for r in rows if r["truth"] < 8])):
            some = [r for r in some if r[chosen]]
            if not some:
                continue
            for name, of in (("predicted, workspaces as recorded", "low"), ("predicted, elastic", "high"),
                             ("line through reserved peaks", "line_reserved"),
                             ("line through allocated peaks", "line_allocated")):
                print(f"| {name}{apart} | {summary(some, of)} |")
        elastic = [r for r in rows if r[chosen] and r["high"] != r["low"]]
        inside = sum(r["low"] <= r["truth"] <= r["high"] for r in elastic)
        widths = [r["high"] - r["low"] for r in elastic]
        print(f"\nElastic answers: {len(elastic)} of {len([r for r in rows if r[chosen]])}"
              + (f", the truth inside {inside}, widths {sorted(widths)}" if elastic else ""))


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "run":
        run_here(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["record", "table"])
    parser.add_argument("folder")
    parser.add_argument("--maxbatch", default="maxbatch", help="the program; default: the one on PATH")
    parser.add_argument("--python", default=sys.executable, help="with torch, timm, torchvision and transformers")
    arguments = parser.parse_args()
    arguments.folder = os.path.abspath(arguments.folder)
    os.makedirs(arguments.folder, exist_ok=True)
    (record if arguments.what == "record" else table)(arguments)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""The largest batch of ten training scripts of different libraries: on a dry card, and on the card present under the same budget.

    python3 tests/benchmarks/search_scripts.py --program build/dev/src/cli/maxbatch --card h200 --json dry.json
    python3 tests/benchmarks/search_scripts.py --program build/dev/src/cli/maxbatch --device cuda:0 --dry-json dry.json --near-dry --json real.json

Each is `maxbatch find ... --vary --batch-size -- python scripts/NAME.py --batch-size 8`, its trials processes of their own, under the
script's budget in QUESTIONS, in sizes that are multiples of a number there: few enough trials for a minute on two cores. A script whose
library is not installed is left out, with the reason. --card names the dry twin of the card present; both may be given at once.

With --near-dry the card's search begins at the dry answer as its smallest size: three trials where the boundary is the same. Where that
size does not fit, all sizes are searched.
"""

import argparse
import ast
import json
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "support"))
import python_models

SCRIPTS = sorted(path.stem for path in (HERE / "scripts").glob("*.py"))

# What LibTorch's allocator may reserve, and what the sizes are multiples of.
QUESTIONS = {
    "accelerate_vit": ("3GiB", 1),
    "example_dcgan": ("4GiB", 64),
    "example_mnist": ("4GiB", 256),
    "example_word_language_model": ("6GiB", 8),
    "lightning_autoencoder": ("1GiB", 4),
    "timm_swin": ("10700MiB", 1),
    "torchvision_detection": ("8GiB", 1),
    "torchvision_resnet": ("3GiB", 4),
    "transformers_bert_loop": ("6GiB", 8),
    "transformers_gpt2_trainer": ("12GiB", 1),
}


def libraries_of(script):
    """Packages that it imports."""
    tree = ast.parse((HERE / "scripts" / f"{script}.py").read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    return {name.split(".")[0] for name in names} - set(sys.stdlib_module_names)


def missing_library(script, arguments, environment):
    tried = subprocess.run([arguments.python, "-c", f"import {', '.join(libraries_of(script))}"], env=environment, capture_output=True, text=True)
    return tried.stderr.strip().splitlines()[-1] if tried.returncode else None


def question(script, arguments):
    budget, multiple_of = QUESTIONS[script]
    return arguments.budget or budget, arguments.multiple_of or multiple_of


def search_card(script, dry, arguments, environment):
    where = ["--device", arguments.device]
    near = (dry or {}).get("largest_batch_size") if arguments.near_dry else None
    if near:
        found = search(script, where, arguments, environment, smallest=near, options=["--no-replay", "--probe-above", "0"])
        if "error" in found or found["largest_batch_size"]:
            return found
    return search(script, where, arguments, environment)


def search(script, where, arguments, environment, smallest=None, options=()):
    budget, multiple_of = question(script, arguments)
    command = [arguments.program, "find", *where, "--budget", budget, "--format", "json", "--max-seconds", str(arguments.max_seconds), *arguments.option]
    command += [*options, "--multiple-of", str(multiple_of), "--min", str(smallest or multiple_of), "--vary", "--batch-size", "--"]
    command += [arguments.python, str(HERE / "scripts" / f"{script}.py"), "--batch-size", "8"]
    began = time.monotonic()
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    seconds = time.monotonic() - began
    if not ran.stdout.strip():
        lines = ran.stderr.strip().splitlines()
        return {"error": " ".join(lines[-3:])[-300:], "seconds": seconds}
    answer = json.loads(ran.stdout)
    kept = ("largest_batch_size", "next_batch_size", "proof", "replayed_batch_size", "peak_reserved_bytes", "peak_allocated_bytes", "failed_phase", "warnings", "trials")
    return {key: answer[key] for key in kept} | {"seconds": seconds}


def cell(row):
    if row is None:
        return "-"
    if "error" in row:
        return f"failed: {row['error']}"
    peak = f"{row['peak_reserved_bytes'] / 2**20:.0f} MiB" if row["peak_reserved_bytes"] else "-"
    return f"{row['largest_batch_size']} ({row['proof']}), {peak}, {len(row['trials'])} trials, {row['seconds']:.0f} s"


def verdict(dry, real):
    if not dry or not real or "error" in dry or "error" in real:
        return ""
    one, other = dry["largest_batch_size"], real["largest_batch_size"]
    return "equal" if one == other else f"dry {one - other:+d}" if one and other else "differs"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--python", default=python_models.default_python())
    parser.add_argument("--site", default=python_models.default_site(), help="folders with the libraries, as PYTHONPATH has them")
    parser.add_argument("--card", default="", help="the dry card, such as h200; default none")
    parser.add_argument("--device", default="", help="the card present, such as cuda:0; default none")
    parser.add_argument("--dry-json", default="", help="what --json kept of the dry card, to compare with")
    parser.add_argument("--near-dry", action="store_true", help="begin the card's search at the dry answer")
    parser.add_argument("--budget", default="", help="for every script; default its own")
    parser.add_argument("--multiple-of", type=int, default=0, help="for every script; default its own")
    parser.add_argument("--max-seconds", type=int, default=600, help="for one search")
    parser.add_argument("--option", action="append", default=[], help="one more for maxbatch find, such as --option=--no-replay")
    parser.add_argument("--only", default="", help="scripts, with commas between them")
    parser.add_argument("--json", default="", help="a file for all that was found")
    arguments = parser.parse_args()
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, [arguments.site, os.environ.get("PYTHONPATH", "")])))
    if not arguments.card and not arguments.device:
        parser.error("give --card, --device, or both")
    known = json.loads(pathlib.Path(arguments.dry_json).read_text()) if arguments.dry_json else {}
    kept = {}
    print(f"| script | budget | dry {arguments.card} | {arguments.device or 'no card'} | |")
    print("|---|---|---|---|---|", flush=True)
    for script in SCRIPTS:
        if arguments.only and script not in arguments.only.split(","):
            continue
        reason = missing_library(script, arguments, environment)
        if reason:
            print(f"| {script} | left out: {reason} | | | |", flush=True)
            continue
        dry = search(script, ["--card", arguments.card], arguments, environment) if arguments.card else known.get(script, {}).get("dry")
        real = search_card(script, dry, arguments, environment) if arguments.device else None
        kept[script] = {"dry": dry, "real": real}
        budget, multiple_of = question(script, arguments)
        print(f"| {script} | {budget}, multiples of {multiple_of} | {cell(dry)} | {cell(real)} | {verdict(dry, real)} |", flush=True)
        if arguments.json:
            pathlib.Path(arguments.json).write_text(json.dumps(kept, indent=2))


if __name__ == "__main__":
    main()

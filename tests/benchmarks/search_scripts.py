#!/usr/bin/env python3
"""The largest batch of ten training scripts of different libraries: on a dry card, and on the card present under the same budget.

    python3 tests/benchmarks/search_scripts.py --program build/dev/src/cli/maxbatch --card h200 --budget 8GiB
    python3 tests/benchmarks/search_scripts.py --program build/dev/src/cli/maxbatch --card h200 --budget 8GiB --device cuda:0

Each is `maxbatch find ... --vary --batch-size -- python scripts/NAME.py --batch-size 8`, its trials processes of their own. A script
whose library is not installed is left out, with the reason. --card names the dry twin of the card present.
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


def libraries_of(script):
    """Packages that it imports."""
    tree = ast.parse((HERE / "scripts" / f"{script}.py").read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    return {name.split(".")[0] for name in names} - set(sys.stdlib_module_names)


def missing_library(script, arguments, environment):
    tried = subprocess.run([arguments.python, "-c", f"import {', '.join(libraries_of(script))}"], env=environment, capture_output=True, text=True)
    return tried.stderr.strip().splitlines()[-1] if tried.returncode else None


def search(script, where, arguments, environment):
    command = [arguments.program, "find", *where, "--budget", arguments.budget, "--format", "json", "--max-seconds", str(arguments.max_seconds)]
    command += ["--multiple-of", str(arguments.multiple_of), "--min", str(arguments.multiple_of), "--vary", "--batch-size", "--"]
    command += [arguments.python, str(HERE / "scripts" / f"{script}.py"), "--batch-size", "8"]
    began = time.monotonic()
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    seconds = time.monotonic() - began
    if not ran.stdout.strip():
        lines = ran.stderr.strip().splitlines()
        return {"error": " ".join(lines[-3:])[-300:], "seconds": seconds}
    answer = json.loads(ran.stdout)
    return {key: answer[key] for key in ("largest_batch_size", "next_batch_size", "proof", "peak_reserved_bytes", "failed_phase", "warnings", "trials")} | {
        "seconds": seconds}


def cell(row):
    if row is None:
        return "-"
    if "error" in row:
        return f"failed: {row['error']}"
    peak = f"{row['peak_reserved_bytes'] / 2**20:.0f} MiB" if row["peak_reserved_bytes"] else "-"
    return f"{row['largest_batch_size']} ({row['proof']}), {peak}, {len(row['trials'])} trials, {row['seconds']:.0f} s"


def verdict(dry, real):
    if real is None or "error" in (dry or {}) or "error" in real:
        return ""
    one, other = dry["largest_batch_size"], real["largest_batch_size"]
    return "equal" if one == other else f"dry {one - other:+d}" if one and other else "differs"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--python", default=python_models.default_python())
    parser.add_argument("--site", default=python_models.default_site(), help="folders with the libraries, as PYTHONPATH has them")
    parser.add_argument("--card", default="h200", help="the dry card; empty: none")
    parser.add_argument("--device", default="", help="the card present, such as cuda:0; default none")
    parser.add_argument("--budget", default="8GiB")
    parser.add_argument("--multiple-of", type=int, default=1)
    parser.add_argument("--max-seconds", type=int, default=600, help="for one search")
    parser.add_argument("--only", default="", help="scripts, with commas between them")
    parser.add_argument("--json", default="", help="a file for all that was found")
    arguments = parser.parse_args()
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, [arguments.site, os.environ.get("PYTHONPATH", "")])))
    kept = {}
    print(f"| script | dry {arguments.card}, {arguments.budget} | {arguments.device or 'no card'}, {arguments.budget} | |")
    print("|---|---|---|---|", flush=True)
    for script in SCRIPTS:
        if arguments.only and script not in arguments.only.split(","):
            continue
        reason = missing_library(script, arguments, environment)
        if reason:
            print(f"| {script} | left out: {reason} | | |", flush=True)
            continue
        dry = search(script, ["--card", arguments.card], arguments, environment) if arguments.card else None
        real = search(script, ["--device", arguments.device], arguments, environment) if arguments.device else None
        kept[script] = {"dry": dry, "real": real}
        print(f"| {script} | {cell(dry)} | {cell(real)} | {verdict(dry, real)} |", flush=True)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(kept, indent=2))


if __name__ == "__main__":
    main()

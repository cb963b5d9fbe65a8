#!/usr/bin/env python3
"""The largest batch of timm's Swin-L under 10,700 MiB, found without a GPU: 22 fits and 23 does not; 25 and 26 with
expandable segments. An H200 gave these answers.

  verify_boundary.py --program build/dev/src/cli/maxbatch --peers peers.py

Each size runs three steps of peers.py (`try_b`, unedited) in a fresh process under `maxbatch dry-run --card h200`.
Exit code: 0 when all four sizes answer so; 1 when one does not; 77 when nothing could be run, with the reason.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "support"))
import python_models

SKIPPED = 77
KIND, CAP_MIB = "swin-plain", 10700
SIZES = ((22, False, True), (23, False, False), (25, True, True), (26, True, False))  # batch, expandable, whether it fits

STEPS = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("peers", sys.argv[1])
peers = importlib.util.module_from_spec(spec)
spec.loader.exec_module(peers)
peers.setup(int(sys.argv[4]))
model, optimizer, step = peers.mk(sys.argv[2])
fits, _, allocated, reserved = peers.try_b(step, int(sys.argv[3]))
print("fits" if fits else "does not fit", f"allocated {allocated:.1f} MiB, reserved {reserved:.1f} MiB", sep="; ")
"""


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, type=pathlib.Path, help="the program maxbatch")
    parser.add_argument("--peers", required=True, type=pathlib.Path, help="peers.py")
    parser.add_argument("--python", default=python_models.default_python(), help="a Python with torch; default: that of scripts/test")
    parser.add_argument("--site", default=python_models.default_site(), help="a folder with timm; default: that of scripts/test")
    return parser.parse_args()


def run(batch, expandable, arguments):
    environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
    environment["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True" if expandable else ""
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [arguments.site, environment.get("PYTHONPATH", "")]))
    command = [str(arguments.program), "dry-run", "--card", "h200", "--", arguments.python, "-c", STEPS]
    command += [str(arguments.peers), KIND, str(batch), str(CAP_MIB)]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def main() -> int:
    arguments = parse_arguments()
    for name in ("program", "peers"):
        if not getattr(arguments, name).exists():
            print(f"verify_boundary: nothing was run: --{name}: {getattr(arguments, name)} is not there")
            return SKIPPED
    reason = python_models.missing_module(arguments.python, arguments.site)
    if reason:
        print(f"verify_boundary: nothing was run: {reason}")
        return SKIPPED
    wrong = 0
    for batch, expandable, fits in SIZES:
        began = time.monotonic()
        ran = run(batch, expandable, arguments)
        told = ran.stdout.strip().splitlines()[-1:] or [f"exit code {ran.returncode}: {ran.stderr.strip()[-300:]}"]
        right = told[0].startswith("fits;" if fits else "does not fit;")
        wrong += not right
        segments = "expandable segments" if expandable else "plain segments"
        print(f"batch {batch}, {segments}: {told[0]} ({time.monotonic() - began:.0f} s){'' if right else '  WRONG'}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Holds a dry card to the statistics that an H200's caching allocator had in the same training steps (h200_statistics.txt): models,
batch sizes, precisions and caps that no rule of the dry card was made from.

  verify_statistics.py --program build/dev/src/cli/maxbatch --peers peers.py [--only 'resnet*,vgg16-b7'] [--jobs 2]

Allocated peak, reserved peak and reserved bytes after the set-up and after each of three steps of peers.py, unedited. Unlike those of
verify_recordings.py these recordings keep no events, but their count.

Exit code: 0 when each is exact or differs for a cause that a dry card has: a convolution that no table of the card knows, a size that
depends on data, an order of frees that is another in every process (autocast), a tie between equal free blocks that moves no segment, or
one that known_differences.txt names. 1 when one differs that should not. 77 when nothing could be compared, with the reason.
"""

import argparse
import ast
import concurrent.futures
import dataclasses
import fnmatch
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]
import comparison
import python_models

SKIPPED = 77
TIES = "ties between equal free blocks"


@dataclasses.dataclass
class Recording:
    name: str
    events: int
    marks: list  # [(allocated peak, reserved peak, reserved)], after the set-up and after each step

    def __post_init__(self):
        parts = re.fullmatch(r"(.+?)-b(\d+)(?:-cap(\d+)MiB)?(-expandable)?", self.name)
        self.kind, self.batch, self.cap = parts[1], int(parts[2]), int(parts[3] or 0)
        self.expandable = parts[4] is not None


def recordings() -> list:
    found = []
    for line in (HERE / "h200_statistics.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, events, *marks = line.split()
            found.append(Recording(name, int(events), [tuple(map(int, mark.split(","))) for mark in marks]))
    return found


def dry(recording, arguments) -> tuple:
    """Its marks, the count of events, and how many convolutions no table knew."""
    environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
    environment["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True" if recording.expandable else ""
    environment.pop("PYTORCH_ALLOC_CONF", None)
    if arguments.site:
        environment["PYTHONPATH"] = arguments.site + os.pathsep + environment.get("PYTHONPATH", "")
    with tempfile.TemporaryDirectory(prefix="maxbatch-verify-") as folder:
        questions = pathlib.Path(folder) / "questions.txt"
        environment["MAXBATCH_CONVOLUTION_QUESTIONS"] = str(questions)
        steps = json.dumps([recording.kind, recording.batch, f"{folder}/history.pkl", recording.cap, 3])
        command = [str(arguments.program), "dry-run", "--card", "h200", "--questions", str(questions)]
        command += ["--seed", arguments.seed] if arguments.seed else []
        command += ["--", arguments.python, str(arguments.peers), "trace1", steps]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=folder)
        said = re.search(r"^TRACE .* events=(\d+) .* marks=(\[.*?\)\])", ran.stdout, re.MULTILINE)
        if not said:
            raise RuntimeError((ran.stderr.strip().splitlines() or ["nothing said"])[-1][:300])
        asked = [line for line in questions.read_text().splitlines() if not line.startswith("#")] if questions.exists() else []
    return [tuple(mark[1:]) for mark in ast.literal_eval(said[2])], int(said[1]), len(asked)


def cause_of(recording, marks, events, asked) -> str:
    """Of a difference; empty where a dry card has none for it."""
    if recording.kind in comparison.DETECTORS:
        return comparison.COUNTS
    if asked:
        return comparison.CONVOLUTION
    same_segments = all(mark[1:] == other[1:] for mark, other in zip(marks, recording.marks))
    if re.search(r"bf16|fp16", recording.kind) and same_segments:
        return comparison.DRAWN_FREE_ORDER
    return TIES if same_segments and events == recording.events else ""


def compared(recording, arguments) -> tuple:
    """(row, whether it may be so, whether it is exact)"""
    try:
        marks, events, asked = dry(recording, arguments)
    except RuntimeError as error:
        return f"{recording.name:<44} FAILED: {error}", False, False
    if marks == recording.marks:
        return f"{recording.name:<44} =", True, True
    differences = [max((mark[i] - other[i] for mark, other in zip(marks, recording.marks)), key=abs) for i in range(3)]
    allocated, peak, reserved = (f"{count / 2**20:+.2f}" for count in differences)
    share = 100 * (marks[-1][1] / recording.marks[-1][1] - 1)
    cause = cause_of(recording, marks, events, asked)
    known = recording.name in comparison.known_differences()
    row = f"{recording.name:<44} allocated {allocated}, reserved peak {peak}, reserved {reserved} MiB at most; peak {share:+.2f} %, "
    row += f"{asked} questions: {cause or ('known' if known else 'UNEXPLAINED')}"
    return row, bool(cause) or known, False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, type=pathlib.Path, help="the program maxbatch")
    parser.add_argument("--peers", required=True, type=pathlib.Path, help="peers.py, whose steps were recorded")
    parser.add_argument("--python", default=python_models.default_python(), help="a Python with torch; default: that of scripts/test")
    parser.add_argument("--site", default=python_models.default_site(), help="a folder with torchvision, timm and transformers")
    parser.add_argument("--only", default="*", help="recordings whose name matches, with commas between")
    parser.add_argument("--seed", help="passed on to dry-run; default its own")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs at once; default one for each processor")
    arguments = parser.parse_args()
    missing = next((f"{path} is not there" for path in (arguments.program, arguments.peers) if not path.exists()), None)
    reason = missing or python_models.missing_module(arguments.python, arguments.site)
    if reason:
        print(f"verify_statistics: nothing compared: {reason}")
        return SKIPPED
    arguments.program, arguments.peers = arguments.program.resolve(), arguments.peers.resolve()
    patterns = arguments.only.split(",")
    chosen = [one for one in recordings() if any(fnmatch.fnmatch(one.name, pattern) for pattern in patterns)]
    exact = right = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for row, may_be, is_exact in pool.map(lambda one: compared(one, arguments), chosen):
            print(row, flush=True)
            right, exact = right + may_be, exact + is_exact
    print(f"{exact} of {len(chosen)} exact, {len(chosen) - right} wrong")
    return 0 if right == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Holds a dry card to what an H200's allocator was recorded to do, in the same training steps.

For every recording the steps of peers.py (unedited) run under `maxbatch dry-run`, each in a fresh process. Compared are
the allocator's statistics at every mark, the sequence of allocations and frees (action, size, stream) and the log of segments,
byte for byte. Told besides: the share of pairs of segments whose addresses stand in the recorded order, and whether each block
lies where it lay, since a real card draws some places anew in every process.

  verify_recordings.py --program build/dev/src/cli/maxbatch --traces TRACES --peers peers.py [--only 'swin-*']

Needs a Python with torch 2.11, and torchvision, timm and transformers in its path; --python and --site say which.

Exit code: 0 when every recording is exact, or differs for a cause that a dry card has: a convolution whose workspace no
table of the card knows, a size that depends on data, an order of frees that no two dry runs share either (autocast keeps what
it cast in a hash map of pointers), or one that known_differences.txt names. 1 when one differs that should
not. 77 when nothing could be compared, with the reason.
"""

import argparse
import fnmatch
import json
import os
import pathlib
import pickle
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]
import comparison
import python_models
from recording import Event, Mark, UnknownRecording, read_recording

SKIPPED = 77


class DryRunFailed(Exception):
    pass


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, type=pathlib.Path, help="the program maxbatch")
    parser.add_argument("--traces", required=True, type=pathlib.Path, help="a folder of recordings, *.csv.gz")
    parser.add_argument("--peers", required=True, type=pathlib.Path, help="peers.py, whose steps were recorded")
    parser.add_argument("--python", default=python_models.default_python(), help="a Python with torch; default: that of scripts/test")
    parser.add_argument(
        "--site",
        default=python_models.default_site(),
        help="a folder with torchvision, timm and transformers; default: that of scripts/test",
    )
    parser.add_argument("--only", default="*", help="recordings whose name matches, with commas between: 'swin-*,gpt2-b4'")
    parser.add_argument("--card", default="h200", help="default h200, on which the recordings were made")
    parser.add_argument("--seed", help="passed on to dry-run; default its own")
    parser.add_argument(
        "--seeds", type=int, default=0, metavar="N", help="where only addresses differ, try seeds 1 to N, too"
    )
    parser.add_argument("--dry-run-option", action="append", default=[], metavar="OPTION", help="passed on to dry-run")
    parser.add_argument("--json", type=pathlib.Path, help="write the comparisons there, too")
    parser.add_argument("--verbose", action="store_true", help="also: the first difference, sizes that one side lacks")
    return parser.parse_args()


def options_known_to(peers: pathlib.Path) -> set:
    return set(re.findall(r"""['"](\w+)['"] (?:not )?in (?:o|options|kind)\b""", peers.read_text(encoding="utf-8")))


def check_recipe(recording, peers: pathlib.Path):
    """peers.py passes over an option that it does not know: its steps would be others than the name says."""
    _, _, options = recording.kind.partition("+")
    unknown = [option for option in options.split("-") if option and option not in options_known_to(peers)]
    if unknown:
        raise UnknownRecording(f"peers.py has no steps with '{unknown[0]}'")


def run_dry(recording, arguments, seed, folder: pathlib.Path):
    history, report, questions = folder / "history.pkl", folder / "report.json", folder / "questions.txt"
    for file in (history, report, questions):
        file.unlink(missing_ok=True)
    environment = dict(os.environ, MAXBATCH_CONVOLUTION_QUESTIONS=str(questions), PYTHONDONTWRITEBYTECODE="1")
    environment["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True" if recording.expandable else ""
    environment.pop("PYTORCH_ALLOC_CONF", None)
    if arguments.site:
        environment["PYTHONPATH"] = arguments.site + os.pathsep + environment.get("PYTHONPATH", "")
    steps = json.dumps([recording.kind, recording.batch_size, str(history), recording.cap_mib, 3])
    command = [str(arguments.program), "dry-run", "--card", arguments.card, "--report", str(report)]
    command += ["--seed", seed] if seed else []
    command += arguments.dry_run_option + ["--", arguments.python]
    if recording.other_procedure:
        sizes = ",".join(map(str, recording.batch_sizes))
        command += [str(HERE / "traced_steps.py"), str(arguments.peers), steps, "--default-tf32", "--batch-sizes", sizes]
    elif any(event.action == "oom" for event in recording.events):
        command += [str(HERE / "traced_steps.py"), str(arguments.peers), steps]
    else:
        command += [str(arguments.peers), "trace1", steps]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    if ran.returncode != 0 or not history.exists():
        raise DryRunFailed(f"exit code {ran.returncode}: " + (ran.stderr.strip().splitlines() or ["nothing said"])[-1][:300])
    with open(history, "rb") as file:
        dry = pickle.load(file)
    lines = questions.read_text(encoding="utf-8").splitlines() if questions.exists() else []
    asked = sum(not line.startswith("#") for line in lines)  # the file has a header, also without a question
    events = [Event(*event) for event in dry["ev"]]
    return events, [Mark(*mark) for mark in dry["marks"]], asked


def compare_one(recording, arguments, seed, folder):
    dry_events, dry_marks, asked = run_dry(recording, arguments, seed, folder)
    found = comparison.compare(
        recording.events,
        recording.marks,
        dry_events,
        dry_marks,
        questions=asked,
        counts=recording.kind in comparison.DETECTORS,
        other_steps=not recording.steps_known,
    )
    if found.cause == comparison.FREE_ORDER and comparison.is_drawn(dry_events, run_dry(recording, arguments, seed, folder)[0]):
        found.cause = comparison.DRAWN_FREE_ORDER
    return found, dry_events


def mib(count: int) -> str:
    return f"{count / 2**20:+.1f}" if abs(count) >= 2**19 else f"{count:+d} B"


def tell_marks(found, recording) -> str:
    if recording.other_procedure:
        return "no marks, reserved peak " + (mib(found.reserved_peak) if found.reserved_peak else "=")
    unequal = [mark for mark in found.marks if mark[1:] != (0, 0, 0)]
    text = f"{len(found.marks) - len(unequal)}/{len(recording.marks)}"
    if unequal:
        at = lambda i: max((mark[i] for mark in unequal), key=abs)
        text += f" (allocated {mib(at(1))}, reserved peak {mib(at(2))}, reserved {mib(at(3))})"
    return text


def tell(recording, found, seconds) -> str:
    yes = lambda equal: "=" if equal else "differ"
    events = "=" if found.events_equal == found.events == found.dry_events else f"{found.events_equal}/{found.events}"
    return (
        f"{recording.name:<42} {tell_marks(found, recording):<9} {events:<12} {yes(found.segments_equal):<9}"
        f"{found.address_agreement:<10.1%} {yes(found.blocks_equal):<8} {found.cause}  ({seconds:.0f} s)"
    )


def spread_over_seeds(recording, arguments, folder) -> str:
    exact, reserved = [], []
    for seed in range(1, arguments.seeds + 1):
        found, _ = compare_one(recording, arguments, str(seed), folder)
        reserved.append(max((mark[2] for mark in found.marks), key=abs, default=found.reserved_peak))
        if found.exact:
            exact.append(seed)
    return f"seeds 1 to {arguments.seeds}: exact with {exact or 'none'}; reserved peak {min(reserved):+d} to {max(reserved):+d} bytes"


def acceptable(recording, found, known) -> bool:
    if recording.name in known:
        return found.exact or found.cause == known[recording.name]
    return found.exact or found.cause.split("; ")[0] in (
        comparison.CONVOLUTION,
        comparison.COUNTS,
        comparison.OTHER_STEPS,
        comparison.DRAWN_FREE_ORDER,
    )


def why_not_possible(arguments):
    for name in ("program", "traces", "peers"):
        if not getattr(arguments, name).exists():
            return f"--{name}: {getattr(arguments, name)} is not there"
    return python_models.missing_module(arguments.python, arguments.site)


def main() -> int:
    arguments = parse_arguments()
    reason = why_not_possible(arguments)
    if reason:
        print(f"verify_recordings: nothing compared: {reason}")
        return SKIPPED
    arguments.program, arguments.peers = arguments.program.resolve(), arguments.peers.resolve()
    patterns = arguments.only.split(",")
    files = sorted(
        file
        for file in arguments.traces.glob("*.csv.gz")
        if any(fnmatch.fnmatch(file.name.removesuffix(".csv.gz"), pattern) for pattern in patterns)
    )
    if not files:
        print(f"verify_recordings: no recording in {arguments.traces} matches {arguments.only}")
        return 2
    known, results, bad = comparison.known_differences(), [], []
    print(f"{'recording':<42} {'marks':<9} {'events':<12} {'segments':<9}{'addresses':<10} {'blocks':<8} cause of differences")
    with tempfile.TemporaryDirectory(prefix="maxbatch-verify-") as folder:
        for file in files:
            try:
                recording = read_recording(file)
                check_recipe(recording, arguments.peers)
            except UnknownRecording as error:
                print(f"{file.name.removesuffix('.csv.gz'):<42} not compared: {error}", flush=True)
                continue
            began = time.monotonic()
            try:
                found, dry_events = compare_one(recording, arguments, arguments.seed, pathlib.Path(folder))
            except DryRunFailed as error:
                print(f"{recording.name:<42} FAILED: {error}", flush=True)
                bad.append(recording.name)
                continue
            print(tell(recording, found, time.monotonic() - began), flush=True)
            if arguments.verbose and not found.exact:
                print(f"    first difference: event {found.events_equal}: {found.first_difference}")
                for size, times in comparison.unlike_allocations(recording.events, dry_events):
                    print(f"    {abs(times)} allocations of {size} bytes {'more' if times > 0 else 'fewer'} than recorded")
            if found.cause == comparison.ADDRESS_ORDER and arguments.seeds:
                print("    " + spread_over_seeds(recording, arguments, pathlib.Path(folder)), flush=True)
            if not acceptable(recording, found, known):
                bad.append(recording.name)
            results.append(dict(vars(found), name=recording.name))
    exact = sum(result["cause"] == comparison.EXACT for result in results)
    print(f"{len(results)} of {len(files)} recordings compared, {exact} exact" + (f"; WRONG: {', '.join(bad)}" if bad else ""))
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Holds a dry card to what C++ training programs did on an H200: every allocation and free in order, and both peaks.

  verify_op_traces.py --program build/dev/src/cli/maxbatch --traces OP_TRACES --sources OP_TRACES_PROTOTYPE --torch TORCH

TORCH is the wheel's folder (site-packages/torch). The program that was recorded, train.cpp in --sources, is built once into
--build, unedited, and runs under `maxbatch dry-run` for each recording: <tf_><model>_<batch><_bf16|_fp16>.txt.gz. The peaks of
the third step stand in the recordings' README.

Exit code: 0 when events and peaks are equal, or differ because a size depends on data (the model det), because no two dry runs
free in the same order (autocast; the peaks are equal), or for a cause that known_differences.txt names; 1 when not; 77 when
nothing could be compared, with the reason.
"""

import argparse
import fnmatch
import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import comparison
from verify_recordings import SKIPPED

NAME = re.compile(r"(?P<tf32>tf_)?(?P<model>[a-z0-9]+)_(?P<batch>\d+)(?:_(?P<precision>bf16|fp16))?$")
PEAKS = re.compile(r"real allocated peak (\d+) requested peak \d+ reserved peak (\d+)")
STEPS = 3


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, type=pathlib.Path, help="the program maxbatch")
    parser.add_argument("--traces", required=True, type=pathlib.Path, help="a folder of recordings, *.txt.gz, and their README.md")
    parser.add_argument("--sources", required=True, type=pathlib.Path, help="the folder with train.cpp, models.h and evlog.h")
    parser.add_argument("--torch", required=True, type=pathlib.Path, help="the folder torch of the CUDA wheel")
    parser.add_argument("--build", type=pathlib.Path, help="where the program is built and kept; default: nowhere for long")
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--only", default="*", help="recordings whose name matches: 'swint_*'")
    parser.add_argument("--card", default="h200")
    return parser.parse_args()


def build(arguments, folder: pathlib.Path) -> pathlib.Path:
    binary, source, torch = folder / "op_trace_training", arguments.sources / "train.cpp", arguments.torch
    if binary.exists() and binary.stat().st_mtime > source.stat().st_mtime:
        return binary
    headers = next((p for p in sorted(torch.parent.glob("nvidia/*/include")) if (p / "cuda_runtime_api.h").exists()), None)
    if headers is None:
        raise FileNotFoundError(f"CUDA's headers are not beside {torch}")
    folder.mkdir(parents=True, exist_ok=True)
    command = [arguments.compiler, "-std=c++17", "-O1", "-w", "-DREAL", f"-I{arguments.sources}", f"-I{torch}/include"]
    command += [f"-I{torch}/include/torch/csrc/api/include", "-isystem", str(headers), str(source), "-o", str(binary)]
    command += [f"-L{torch}/lib", "-Wl,--no-as-needed", "-ltorch", "-ltorch_cuda", "-ltorch_cpu", "-lc10_cuda", "-lc10"]
    command += [f"-Wl,-rpath,{torch}/lib", f"-Wl,-rpath-link,{headers.parent}/lib"]
    subprocess.run(command, check=True)
    return binary


def recorded_peaks(traces: pathlib.Path) -> dict:
    """The README's table: file, allocated, reserved."""
    peaks = {}
    for line in (traces / "README.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip().replace(",", "") for cell in line.strip("|").split("|")]
        if len(cells) == 3 and cells[1].isdigit():
            peaks[cells[0]] = (int(cells[1]), int(cells[2]))
    return peaks


def read_events(lines) -> list:
    """(mark's label) or (a, size) or (f, size of what is freed), so that equal lists are equal streams."""
    sizes, events = {}, []
    for line in lines:
        kind, identity, size, *rest = line.rstrip("\n").split(" ", 3)
        if kind == "m":
            events.append((rest[0] if rest else "",))
        elif kind == "a":
            sizes[identity] = size
            events.append(("a", int(size)))
        else:
            events.append(("f", int(sizes.get(identity, -1))))
    return events


def run_dry(binary, parts, arguments, folder):
    out = folder / "events.txt"
    out.unlink(missing_ok=True)
    environment = dict(os.environ)
    environment.pop("TF32", None)
    if parts["tf32"]:
        environment["TF32"] = "1"
    command = [str(arguments.program), "dry-run", "--card", arguments.card, "--report", str(folder / "report.json"), "--"]
    command += [str(binary), parts["model"], parts["batch"], str(STEPS), parts["precision"] or "no", str(out)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    peaks = PEAKS.findall(ran.stdout)
    if ran.returncode != 0 or len(peaks) != STEPS or not out.exists():
        raise RuntimeError(f"exit code {ran.returncode}: " + (ran.stderr.strip().splitlines() or ["nothing said"])[-1][:300])
    with open(out, encoding="utf-8") as file:
        return read_events(file), tuple(int(peak) for peak in peaks[-1])


def cause_of(recorded, dry, model):
    if recorded == dry:
        return comparison.ADDRESS_ORDER
    if model == "det":
        return comparison.COUNTS
    return comparison.FREE_ORDER if comparison.only_frees_moved(recorded, dry) else comparison.UNEXPLAINED


def is_drawn(dry, peaks, again) -> bool:
    """Whether another dry run frees in yet another order, or in the recorded one, and comes to the same peaks."""
    other, other_peaks = again
    return other != dry and comparison.only_frees_moved(other, dry) and other_peaks == peaks


def main() -> int:
    arguments = parse_arguments()
    for name in ("program", "traces", "sources", "torch"):
        if not getattr(arguments, name).exists():
            print(f"verify_op_traces: nothing compared: --{name}: {getattr(arguments, name)} is not there")
            return SKIPPED
    if not shutil.which(arguments.compiler):
        print(f"verify_op_traces: nothing compared: no compiler {arguments.compiler}")
        return SKIPPED
    arguments.program = arguments.program.resolve()
    known, truth, bad, compared, exact = comparison.known_differences(), recorded_peaks(arguments.traces), [], 0, 0
    print(f"{'recording':<22} {'events':<14} {'allocated peak':>15} {'dry less recorded':>18} {'reserved peak':>15} {'dry less recorded':>18}  cause")
    with tempfile.TemporaryDirectory(prefix="maxbatch-verify-") as folder:
        binary = build(arguments, (arguments.build or pathlib.Path(folder)).resolve())
        for file in sorted(arguments.traces.glob("*.txt.gz")):
            name = file.name.removesuffix(".txt.gz")
            parts = NAME.match(name)
            if not fnmatch.fnmatch(name, arguments.only):
                continue
            if not parts:
                print(f"{name:<22} not compared: the name has no model and batch size")
                continue
            with gzip.open(file, "rt") as lines:
                recorded = read_events(lines)
            began = time.monotonic()
            try:
                dry, peaks = run_dry(binary, parts, arguments, pathlib.Path(folder))
            except RuntimeError as error:
                print(f"{name:<22} FAILED: {error}", flush=True)
                bad.append(name)
                continue
            compared += 1
            truth_peaks = truth.get(name, peaks)
            equal = sum(1 for _ in iter_while_equal(recorded, dry))
            events = "=" if recorded == dry else f"{equal}/{len(recorded)}"
            same = recorded == dry and peaks == truth_peaks
            exact += same
            cause = "-" if same else cause_of(recorded, dry, parts["model"])
            if cause == comparison.FREE_ORDER:
                again = (run_dry(binary, parts, arguments, pathlib.Path(folder)) for _ in range(8))
                if any(is_drawn(dry, peaks, other) for other in again):
                    cause = comparison.DRAWN_FREE_ORDER if peaks == truth_peaks else comparison.ADDRESS_ORDER
            note = "" if name in truth else " (no recorded peaks)"
            print(
                f"{name:<22} {events:<14} {truth_peaks[0]:>15} {peaks[0] - truth_peaks[0]:>+18} {truth_peaks[1]:>15} "
                f"{peaks[1] - truth_peaks[1]:>+18}  {cause}{note}  ({time.monotonic() - began:.0f} s)",
                flush=True,
            )
            accepted = (comparison.COUNTS, comparison.DRAWN_FREE_ORDER)
            if not same and cause not in accepted and known.get(name) != cause:
                bad.append(name)
    if not compared and not bad:
        print(f"no recording in {arguments.traces} matches {arguments.only}")
        return 2
    print(f"{compared} recordings compared, {exact} exact" + (f"; WRONG: {', '.join(bad)}" if bad else ""))
    return 1 if bad else 0


def iter_while_equal(left, right):
    for a, b in zip(left, right):
        if a != b:
            return
        yield a


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Runs the battery of small training programs under `maxbatch dry-run`, each in fp32, bf16 and fp16.

A program runs, or is refused by name ("not supported on a dry card: NAME"); anything else is a failure. With --check no
program that the table says runs may stop running: refusals only shrink. --write makes the table anew.

  run_battery.py --program build/dev/src/cli/maxbatch --python PYTHON --site SITE --cpp battery_programs --check docs/dry_card_battery.md
  run_battery.py ... --sample                  a few of them, a minute
  run_battery.py ... --only 'sdpa_*,*:fp16'    those whose name, or name and precision, match

Exit code: 0; 1 when a program failed, or was refused that ran before; 77 when nothing could be run, with the reason.
"""

import argparse
import collections
import fnmatch
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "support"))
import python_models

SKIPPED = 77
PRECISIONS = ("fp32", "bf16", "fp16")
# One of each kind: kernels of torch alone, a library's scratch, values that decide, several processes, workers, a graph.
SAMPLE = (
    "sdpa_efficient_masked:bf16", "lstm_bidirectional_dropout:fp16", "linalg_solvers:fp32", "indexing_by_values:fp32",
    "distributed_nccl_one_rank:fp32", "loader_workers_pinned:fp32", "cuda_graph_of_a_step:bf16", "grad_scaler_clipping:fp16",
    "torchvision_faster_rcnn:fp32", "timm_swin_tiny:fp16", "transformers_gpt2:bf16",
    "cpp_modules:fp32", "cpp_serialisation:fp16",
)  # fmt: skip
REFUSED = re.compile(r"not supported on a dry card: (\S+)")
PEAK = re.compile(r"peak allocated (\d+) bytes")
RAN = re.compile(r"[\d.]+")  # a cell of the table: MiB


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, type=pathlib.Path, help="the program maxbatch")
    parser.add_argument("--python", default=python_models.default_python(), help="a Python with torch; default: that of scripts/test")
    parser.add_argument("--site", default=python_models.default_site(), help="a folder with torchvision, timm and transformers; likewise")
    parser.add_argument("--cpp", type=pathlib.Path, help="the C++ programs: tests/battery/cpp_programs.cpp, built")
    parser.add_argument("--card", default="h200")
    parser.add_argument("--only", default="*", help="cases that match, with commas between: 'sdpa_*', '*:fp16,lbfgs'")
    parser.add_argument("--sample", action="store_true", help="one program of each kind, in one precision")
    parser.add_argument("--timeout", type=float, default=120, help="seconds for one program; default 120")
    parser.add_argument("--check", type=pathlib.Path, metavar="TABLE", help="no program that runs there may not run here")
    parser.add_argument("--write", type=pathlib.Path, metavar="TABLE", help="write what was run into the table")
    return parser.parse_args()


def why_not_possible(arguments):
    if not arguments.program.exists():
        return f"--program: {arguments.program} is not there"
    return python_models.missing_module(arguments.python, arguments.site)


def environment_of(arguments) -> dict:
    environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", HF_HUB_OFFLINE="1", OMP_NUM_THREADS="2")
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [arguments.site, environment.get("PYTHONPATH", "")]))
    return environment


def dry_run(arguments, folder) -> list:
    return [str(arguments.program), "dry-run", "--card", arguments.card, "--report", str(folder / "report.json"), "--"]


def run_python(cases, arguments, folder):
    command = dry_run(arguments, folder) + [arguments.python, str(HERE / "host.py"), str(arguments.timeout), *cases]
    environment = dict(environment_of(arguments), TORCHINDUCTOR_CACHE_DIR=str(folder / "inductor"), TMPDIR=str(folder))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as host:
        for line in host.stdout:
            yield json.loads(line)


def run_cpp(case, arguments, folder) -> dict:
    name, _, precision = case.partition(":")
    result = {"name": name, "precision": precision}
    try:
        command = dry_run(arguments, folder) + [str(arguments.cpp), name, precision]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=arguments.timeout, cwd=folder)
    except subprocess.TimeoutExpired:
        return {**result, "outcome": "fails", "why": f"still running after {arguments.timeout:g} s"}
    peak, refused = PEAK.search(ran.stdout), REFUSED.findall(ran.stderr)
    if ran.returncode == 0 and peak:
        return {**result, "outcome": "runs", "peak_bytes": int(peak[1])}
    if refused:
        return {**result, "outcome": "refused", "why": refused[-1]}
    said = (ran.stderr.strip().splitlines() or ["nothing said"])[-1]
    return {**result, "outcome": "fails", "why": f"ended with {ran.returncode}: {said[:160]}", "said": ran.stderr[-3000:]}


def listed(command, environment) -> list:
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)


def all_cases(arguments) -> tuple:
    python = listed([arguments.python, str(HERE / "host.py"), "--list"], environment_of(arguments))
    cpp = [f"{name}:{precision}" for name in cpp_names(arguments) for precision in PRECISIONS]
    return python, cpp


def is_wanted(case: str, arguments) -> bool:
    """A pattern with a colon is held against NAME:PRECISION, one without against the name."""
    names = (case, case.partition(":")[0])
    return (not arguments.sample or case in SAMPLE) and any(
        fnmatch.fnmatch(names[":" not in pattern], pattern) for pattern in arguments.only.split(",")
    )


def cpp_names(arguments) -> list:
    return subprocess.run([str(arguments.cpp)], capture_output=True, text=True).stdout.split() if arguments.cpp else []


def cell(result) -> str:
    if result["outcome"] == "runs":
        return f"{result['peak_bytes'] / 2**20:.1f}"
    return f"{result['outcome']}: {result['why']}"


def cells_of(table: pathlib.Path) -> dict:
    """The cells of a table that was written: name, precision, text; the empty ones left out."""
    cells = collections.defaultdict(dict)
    for line in table.read_text(encoding="utf-8").splitlines():
        row = re.match(r"\| `(\w+)` \|(.*)\|$", line)
        if row:
            texts = [text.strip() for text in row[2].split("|")]
            cells[row[1]].update({p: text for p, text in zip(PRECISIONS, texts) if text})
    return cells


def table_text(cells: dict) -> str:
    texts = [text for row in cells.values() for text in row.values()]
    ran = sum(RAN.fullmatch(text) is not None for text in texts)
    refused = sum(text.startswith("refused: ") for text in texts)
    failed, unknown = len(texts) - ran - refused, len(cells) * len(PRECISIONS) - len(texts)
    lines = [
        "# The battery: small training programs on a dry card",
        "",
        "Generated by `tests/battery/run_battery.py --write docs/dry_card_battery.md`, and held to by `--check`: a program that runs here",
        "may not stop running. Each trains for two steps or more under `maxbatch dry-run --card h200`, in a process of its own; fp16 with",
        "a GradScaler. The number is the peak of allocated memory in MiB; `refused` names the call that a dry card does not support.",
        "Detectors have the worst case of what depends on data (`docs/data_policies.md`), so they move when that moves.",
        "",
        f"{len(cells)} programs in {len(PRECISIONS)} precisions: {ran} run, {refused} are refused by name"
        + (f", {failed} fail" if failed else "")
        + (f", {unknown} have not been run yet (empty)." if unknown else "."),
        "",
        "| program | " + " | ".join(PRECISIONS) + " |",
        "|---|" + "---|" * len(PRECISIONS),
    ]
    for name in sorted(cells):
        lines.append(f"| `{name}` | " + " | ".join(cells[name].get(p, "") for p in PRECISIONS) + " |")
    return "\n".join(lines) + "\n"


def write_table(arguments, results: dict, existing: set):
    """Cells that were not run this time stay as the table has them; rows of programs that are gone go."""
    cells = cells_of(arguments.write) if arguments.write.exists() else collections.defaultdict(dict)
    for name, row in results.items():
        cells[name].update({p: cell(result) for p, result in row.items()})
    exists = lambda name: name in existing or (not arguments.cpp and name.startswith("cpp_"))
    arguments.write.write_text(table_text({n: row for n, row in cells.items() if exists(n)}), encoding="utf-8")


def ran_before(table: pathlib.Path) -> set:
    return {f"{name}:{p}" for name, row in cells_of(table).items() for p, text in row.items() if RAN.fullmatch(text)}


def main() -> int:
    arguments = parse_arguments()
    reason = why_not_possible(arguments)
    if reason:
        print(f"run_battery: nothing was run: {reason}")
        return SKIPPED
    arguments.program = arguments.program.resolve()
    arguments.cpp = arguments.cpp and arguments.cpp.resolve()
    every = all_cases(arguments)
    existing = {case.partition(":")[0] for cases in every for case in cases}
    python, cpp = [[case for case in cases if is_wanted(case, arguments)] for cases in every]
    if not python and not cpp:
        print(f"run_battery: no program matches {arguments.only}")
        return 2
    results, bad = collections.defaultdict(dict), []
    before = ran_before(arguments.check) if arguments.check else set()

    def take(result):
        case = f"{result['name']}:{result['precision']}"
        results[result["name"]][result["precision"]] = result
        wrong = result["outcome"] == "fails" or (case in before and result["outcome"] != "runs")
        print(f"{case:<48} {cell(result)}{' MiB' if result['outcome'] == 'runs' else ''}{'  WRONG' if wrong else ''}", flush=True)
        if wrong:
            bad.append(case)
            print(result.get("said", "it ran before"), flush=True)
        if arguments.write:
            write_table(arguments, results, existing)

    with tempfile.TemporaryDirectory(prefix="maxbatch-battery-") as folder:
        for case in cpp:
            take(run_cpp(case, arguments, pathlib.Path(folder)))
        told = set()
        if python:
            for result in run_python(python, arguments, pathlib.Path(folder)):
                told.add(f"{result['name']}:{result['precision']}")
                take(result)
        for case in [case for case in python if case not in told]:
            bad.append(case)
            print(f"{case:<48} was not reached")
    gone = {case for case in before - set(python) - set(cpp) if arguments.only == "*" and not arguments.sample}
    for case in sorted(gone):
        bad.append(case)
        print(f"{case:<48} ran before, and is no longer there")
    print(f"{len(python) + len(cpp)} cases" + (f"; WRONG: {', '.join(bad)}" if bad else ", none wrong"))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

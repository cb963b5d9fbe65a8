#!/usr/bin/env python3
"""`maxbatch find -- PROGRAM` over program.py's habits on a dry card: answers, reasons, exit codes, and nothing left behind.

  check_program_search.py --program build/dev/src/cli/maxbatch --python PYTHON [--only NAME]

Exit code: 0; 1 when a habit was not handled; 77 when nothing could be run, with the reason.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "support"))
import python_models

SKIPPED = 77
BUDGET = "256MiB"
COARSE = ("--min", "512", "--multiple-of", "512")  # few trials find the boundary
SLEEP_SECONDS = str(100_000 + os.getpid())  # by which a process that was left behind is known


class Wrong(Exception):
    pass


def expect(true, text):
    if not true:
        raise Wrong(text)


class Search:
    """One run of the program."""

    def __init__(self, arguments, habit, *options, where=("--card", "rtx-2080-ti"), budget=BUDGET, variables=()):
        self.folder = tempfile.TemporaryDirectory()
        environment = dict(os.environ, TMPDIR=self.folder.name, SLEEP_SECONDS=SLEEP_SECONDS, PYTHONDONTWRITEBYTECODE="1", PYTHONWARNINGS="ignore")
        environment.update(variables)
        command = [arguments.program, "find", *where, "--format", "json", *(["--budget", budget] if budget else [])]
        command += [*options, "--vary", "--batch-size", "--", arguments.python, str(HERE / "program.py"), "--batch-size", "8"]
        self.ran = subprocess.run([*command, "--habit", habit], env=environment, capture_output=True, text=True)
        self.code, self.err = self.ran.returncode, self.ran.stderr
        self.json = json.loads(self.ran.stdout) if self.ran.stdout.strip() else {}
        left = os.listdir(self.folder.name)
        self.folder.cleanup()
        expect(not left, f"files were left behind: {left}")
        expect(SLEEP_SECONDS not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout, "a process was left behind")

    def answer(self):
        return self.json.get("largest_batch_size")

    def expect_answer(self, answer, proof="bracketed"):
        expect(self.code == 0, f"exit code {self.code}: {self.err[-600:]}")
        expect(self.answer() == answer, f"{self.answer()} instead of {answer}")
        expect(self.json["proof"] == proof, f"{self.json['proof']}: {self.json['reason']}")


def plain(arguments):
    search = Search(arguments, "plain", *COARSE)
    search.expect_answer(plain.boundary)
    expect(search.json["steps"] == 3, "three steps by default")
    expect(search.json["evidence"] == "dry" and search.json["card"] == "rtx-2080-ti", "the card")
    expect(search.json["varied"] == "--batch-size" and "program.py --batch-size {}" in search.json["command"], "the command")
    expect(search.json["model"] is None and search.json["recipe"] is None, "no model of ours")
    expect(search.json["failed_request_bytes"] > 0 and search.json["failed_phase"] in ("forward", "backward"), "the failed request")
    expect(search.json["budget_bytes"] == 256 << 20, "the budget")
    trial = [t for t in search.json["trials"] if t["batch_size"] == plain.boundary][-1]
    expect(trial["steps"] >= 3, f"{trial['steps']} steps ran")
    expect(set(trial["phases"]) == {"setup", "forward", "backward", "optimizer"}, "phases")
    expect(trial["peak_reserved_bytes"] <= 256 << 20, "within the budget")


plain.boundary = None  # found by a scan, see main()


def replayed(arguments):
    """Two small sizes are recorded, and the answer is found where their replay puts it."""
    told = Search(arguments, "plain", *COARSE)
    told.expect_answer(plain.boundary)
    predicted = told.json["replayed_batch_size"]
    expect(abs(predicted - plain.boundary) < 512, f"{predicted} predicted, {plain.boundary} found")
    sizes = [trial["batch_size"] for trial in told.json["trials"]]
    # 1024 may have been recorded beside 512 before it was asked for.
    expect(sizes[0] == 512 and len(sizes) <= 6, f"trials of {sizes}")
    asked = Search(arguments, "plain", "--max-trials", "2", "--no-replay")
    sizes = [trial["batch_size"] for trial in asked.json["trials"]]
    expect(asked.json["replayed_batch_size"] is None and sizes[0] == 1, f"without a replay: trials of {sizes}")


def bounds(arguments):
    Search(arguments, "plain", "--enough", "1").expect_answer(1, "enough")
    nothing = Search(arguments, "plain", "--min", "100000", "--max", "100000")
    expect(nothing.code == 3 and nothing.json["proof"] == "nothing fits", f"exit code {nothing.code}")
    stopped = Search(arguments, "plain", "--max-trials", "1")
    expect(stopped.code == 4 and stopped.answer() == 2, f"exit code {stopped.code}, {stopped.answer()}")  # the first that is recorded


def the_cards_own_memory(arguments):
    search = Search(arguments, "plain", "--min", "200000", "--multiple-of", "50000", budget=None)
    expect(search.code == 0 and search.answer() >= 200000, f"{search.answer()}, exit code {search.code}: {search.err[-300:]}")
    expect(search.json["budget_bytes"] == search.json["device_bytes"] > 10 << 30, "all of the card")
    expect(search.json["outside_allocator_bytes"] > 100 << 20, "the context")


def the_way_of_a_real_card(arguments):
    """Without a GPU: a dry runtime that does not find its own watch is a card of this machine to the program, and is watched from ahead."""
    built = pathlib.Path(arguments.program).parent
    library = next((path for path in (built / "../dry_cuda/libmaxbatch_dry_cuda.so", built / "../lib/libmaxbatch_dry_cuda.so") if path.exists()), None)
    expect(library is not None, f"no libmaxbatch_dry_cuda.so beside {arguments.program}")
    with tempfile.TemporaryDirectory() as folder:
        alone = shutil.copy(library.resolve(), folder)
        variables = {"LD_PRELOAD": alone, "MAXBATCH_CARD": "rtx-2080-ti"}
        search = Search(arguments, "plain", "--min", str(plain.boundary - 512), "--multiple-of", "512", where=("--device", "cuda:0"), variables=variables)
    search.expect_answer(plain.boundary)
    expect(search.json["evidence"] == "measured" and search.json["card"] is None, "as on a card of this machine")
    expect(search.json["device_name"] == "NVIDIA GeForce RTX 2080 Ti" and search.json["device_bytes"] > 10 << 30, "the card as CUDA describes it")
    expect(search.json["trials"][-1]["peak_reserved_bytes"] <= 256 << 20, "within the budget")


def prints(arguments):
    search = Search(arguments, "prints", "--max", "1")
    search.expect_answer(1, "at the allowed maximum")
    expect("a line of talk" not in search.err, "what it prints is nobody's")


def workers(arguments):
    Search(arguments, "workers", "--max", "2").expect_answer(2, "at the allowed maximum")


def starts(arguments):
    Search(arguments, "starts", "--max", "1").expect_answer(1, "at the allowed maximum")


def writes(arguments):
    Search(arguments, "writes", "--max", "1").expect_answer(1, "at the allowed maximum")


def hangs(arguments):
    search = Search(arguments, "hangs", "--max", "2", "--trial-timeout", str(arguments.patience))
    search.expect_answer(1, "other limit")
    expect(f"took longer than the {arguments.patience} s" in search.json["reason"], search.json["reason"])


def fails(arguments):
    search = Search(arguments, "fails")
    expect(search.code == 1 and not search.json, f"exit code {search.code}")
    expect("ValueError: a batch of 1 is not to my liking" in search.err, search.err)


def fails_above_two(arguments):
    search = Search(arguments, "fails_above_two", "--max", "4")
    search.expect_answer(2, "other limit")
    expect("a batch of 3 is not to my liking" in search.json["reason"], search.json["reason"])


def killed(arguments):
    search = Search(arguments, "killed")
    expect(search.code == 1 and "was killed by signal 9 (Killed) after 1 step" in search.err, search.err)


def one_step(arguments):
    search = Search(arguments, "one_step", "--max", "2")
    search.expect_answer(2, "at the allowed maximum")
    expect(any("after 1 step, and 3 were wanted" in text for text in search.json["warnings"]), search.json["warnings"])


def no_card(arguments):
    search = Search(arguments, "no_card")
    expect(search.code == 1 and "it uses no GPU; it last printed: " in search.err and "nothing to do 1" in search.err, search.err)


def quiet(arguments):
    size = plain.boundary + 512
    search = Search(arguments, "quiet", "--min", str(size), "--max", str(size))
    expect(search.code == 3 and search.json["trials"][0]["outcome"] == "out of memory", f"exit code {search.code}: {search.json}")


def goes_on(arguments):
    search = Search(arguments, "goes_on", "--min", str(2 * plain.boundary), "--max", str(2 * plain.boundary))
    search.expect_answer(2 * plain.boundary, "at the allowed maximum")
    expect(search.json["trials"][-1]["outcome"] == "fits under pressure", search.json["trials"][-1])
    expect(any("after which the program went on" in text for text in search.json["warnings"]), search.json["warnings"])


def skips(arguments):
    search = Search(arguments, "skips", "--min", str(plain.boundary + 512), "--max", str(plain.boundary + 512))
    expect(search.code == 3, f"exit code {search.code}: {search.json}")
    expect("did not complete another step" in search.json["reason"], search.json["reason"])


def two_optimizers(arguments):
    search = Search(arguments, "two_optimizers", "--max", "1")
    search.expect_answer(1, "at the allowed maximum")
    expect(search.json["trials"][-1]["steps"] >= 6, f"{search.json['trials'][-1]['steps']} steps, three rounds of two are six")


def accumulates(arguments):
    search = Search(arguments, "accumulates", "--max", "1")
    search.expect_answer(1, "at the allowed maximum")
    expect(3 <= search.json["trials"][-1]["steps"] <= 12, "an optimizer's step is a step")


def own_optimizer(arguments):
    search = Search(arguments, "own_optimizer", "--max", "1")
    search.expect_answer(1, "at the allowed maximum")
    expect(any("backward passes alone" in text for text in search.json["warnings"]), search.json["warnings"])


def inference(arguments):
    search = Search(arguments, "inference", "--max", "1")
    search.expect_answer(1, "at the allowed maximum")
    expect(any("no training step was seen" in text for text in search.json["warnings"]), search.json["warnings"])


CHECKS = (
    plain, replayed, bounds, the_cards_own_memory, the_way_of_a_real_card, prints, workers, starts, writes, hangs, fails, fails_above_two, killed, one_step, no_card, quiet,
    goes_on, skips, two_optimizers, accumulates, own_optimizer, inference,
)  # fmt: skip


def fits_by_hand(arguments, size):
    """program.py for three steps in a process of its own under `dry-run`, LibTorch's fraction of the card in place of our budget."""
    steps = (
        "import sys, torch; sys.path.insert(0, sys.argv[1]); import program\n"
        "total = torch.cuda.get_device_properties(0).total_memory\n"
        "torch.cuda.set_per_process_memory_fraction(((256 << 20) + 0.5) / total)\n"
        "try:\n"
        "    program.train(int(sys.argv[2]), 3); print('fits')\n"
        "except torch.OutOfMemoryError:\n"
        "    print('does not fit')\n"
    )
    command = [arguments.program, "dry-run", "--card", "rtx-2080-ti", "--", arguments.python, "-c", steps, str(HERE), str(size)]
    ran = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1"))
    told = ran.stdout.strip().splitlines()[-1:]
    if told not in (["fits"], ["does not fit"]):
        raise SystemExit(f"check_program_search: the run by hand failed: {ran.stderr[-500:]}")
    return told == ["fits"]


def boundary_by_hand(arguments):
    size = 1536
    while fits_by_hand(arguments, size + 512):
        size += 512
    return size


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--python", default=python_models.default_python(), help="a Python with torch; default: that of scripts/test")
    parser.add_argument("--patience", type=int, default=30, help="seconds after which a trial hangs; a step takes fewer here")
    parser.add_argument("--only", default="", help="checks, with commas between them")
    arguments = parser.parse_args()
    if subprocess.run([arguments.python, "-c", "import torch"], capture_output=True).returncode != 0:
        print(f"check_program_search: nothing was run: {arguments.python} has no torch")
        return SKIPPED
    plain.boundary = boundary_by_hand(arguments)
    print(f"by hand the largest batch is {plain.boundary}", flush=True)
    wrong = 0
    for check in CHECKS:
        if arguments.only and check.__name__ not in arguments.only.split(","):
            continue
        began = time.monotonic()
        try:
            check(arguments)
            told = "ok"
        except Wrong as error:
            wrong += 1
            told = f"WRONG: {error}"
        print(f"{check.__name__}: {told} ({time.monotonic() - began:.1f} s)", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

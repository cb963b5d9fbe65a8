#!/usr/bin/env python3
"""A dry run leaves nothing behind: no process, no file, no shared memory, however it ends.

  leaves_nothing.py --program build/dev/src/cli/maxbatch

The program that it runs forks a worker and touches the card in both; it ends by itself, by an exception, by abort, and with
its launcher killed. Exit code: 0, 1, or 77 with the reason why nothing could be run.
"""

import argparse
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
import python_models

SKIPPED = 77
MARKER = "MAXBATCH_LEAVES_NOTHING"
TOUCHES_THE_CARD = """
import os, sys, time, torch
torch.ones(1 << 20, device="cuda").sum()
loader = torch.utils.data.DataLoader(torch.arange(64.).split(8), num_workers=1, pin_memory=True)
for batch in loader:
    batch.cuda(non_blocking=True)
torch.cuda.synchronize()
print("ready", flush=True)
if sys.argv[1] == "raises":
    raise RuntimeError("on purpose")
if sys.argv[1] == "aborts":
    os.abort()
if sys.argv[1] == "waits":
    time.sleep(600)
"""


def processes_with(marker: str) -> list:
    """Of this user, by their environment; the dead that nobody has asked after do not count."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if marker.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def left_over(marker: str, seconds: float) -> list:
    until = time.monotonic() + seconds
    while processes_with(marker) and time.monotonic() < until:
        time.sleep(0.1)
    return processes_with(marker)


def check(way: str, arguments) -> list:
    with tempfile.TemporaryDirectory(prefix="maxbatch-leaves-") as folder:
        folder = pathlib.Path(folder)
        (folder / "home").mkdir()
        (folder / "tmp").mkdir()
        marker = f"{MARKER}={os.getpid()}-{way}"
        environment = dict(os.environ, HOME=str(folder / "home"), TMPDIR=str(folder / "tmp"), PYTHONDONTWRITEBYTECODE="1")
        environment[MARKER] = marker.partition("=")[2]
        shared = set(os.listdir("/dev/shm"))
        command = [str(arguments.program), "dry-run", "--card", "h200", "--", arguments.python, "-c", TOUCHES_THE_CARD, way]
        with subprocess.Popen(command, env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
            if run.stdout.readline().strip() != "ready":
                return [f"{way}: the program did not start: {run.stderr.read()[-400:]}"]
            if way == "waits":
                run.send_signal(signal.SIGKILL)
            run.stderr.read()
        problems = [f"{way}: process {process} still runs" for process in left_over(marker, seconds=20)]
        problems += [f"{way}: {path.relative_to(folder)} is left" for path in folder.rglob("*") if path.name not in ("home", "tmp")]
        # Others use shared memory, too: only what carries a name of ours or of the program's.
        new = {name for name in set(os.listdir("/dev/shm")) - shared if name.startswith(("maxbatch", "torch_"))}
        return problems + [f"{way}: shared memory {name} is left" for name in new if owner_is_gone(name)]


def owner_is_gone(name: str) -> bool:
    parts = [part for part in name.split("_") if part.isdigit()]
    return not parts or not pathlib.Path(f"/proc/{parts[0]}").exists()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, type=lambda text: pathlib.Path(text).resolve(), help="the program maxbatch")
    parser.add_argument("--python", default=python_models.default_python(), help="a Python with torch; default: that of scripts/test")
    arguments = parser.parse_args()
    if subprocess.run([arguments.python, "-c", "import torch"], capture_output=True).returncode != 0:
        print(f"leaves_nothing: nothing was run: {arguments.python} has no torch")
        return SKIPPED
    problems = [problem for way in ("ends", "raises", "aborts", "waits") for problem in check(way, arguments)]
    print("\n".join(problems) or "four ways to end, and nothing left behind")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

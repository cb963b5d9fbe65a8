"""Runs programs of the battery one after the other, each in a process of its own that is forked after the imports.

host.py TIMEOUT NAME:PRECISION... ; one JSON object a line on standard output: what ran, or why it did not.
"""

import gc
import json
import os
import pathlib
import re
import select
import signal
import sys
import tempfile
import time
import traceback
import warnings

warnings.filterwarnings("ignore")
sys.path.insert(0, str(pathlib.Path(__file__).parent / "programs"))

import torch
import attention, detection, language, machinery, operators, vision  # noqa: F401  they register themselves
from training import PRECISIONS, PROGRAMS, Precision

REFUSED = re.compile(r"not supported on a dry card: (\S+)")


def last_line(text: str) -> str:
    """The last line of an exception's text that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:160] if lines else "nothing said"


def run_in_child(name: str, precision: str, told: int, errors: int):
    os.setpgid(0, 0)  # so that what it starts ends with it
    os.dup2(errors, 2)
    os.dup2(errors, 1)
    try:
        torch.manual_seed(0)
        PROGRAMS[name](Precision(precision))
        peak = torch.cuda.max_memory_allocated()
        answer = {"outcome": "runs", "peak_bytes": peak} if peak else {"outcome": "fails", "why": "no device memory was used"}
    except BaseException as error:
        os.write(2, traceback.format_exc().encode())
        text = str(error).strip().splitlines()
        answer = {"outcome": "fails", "why": f"{type(error).__name__}: {text[0][:160] if text else ''}"}
    os.write(told, json.dumps(answer).encode())
    # As a program ends: libraries' destructors run, too.
    sys.exit(0)


def wait_for(child: int, timeout: float):
    until = time.monotonic() + timeout
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    return None


def run_one(name: str, precision: str, timeout: float) -> dict:
    told, tell = os.pipe()
    began = time.monotonic()
    with tempfile.TemporaryFile() as errors:
        child = os.fork()
        if child == 0:
            os.close(told)
            run_in_child(name, precision, tell, errors.fileno())
        os.close(tell)
        code = wait_for(child, timeout)
        try:
            os.killpg(child, signal.SIGKILL)  # what it left behind, or itself
        except ProcessLookupError:
            pass
        if code is None:
            os.waitpid(child, 0)
        answer = os.read(told, 1 << 16) if select.select([told], [], [], 0)[0] else b""
        os.close(told)
        errors.seek(0)
        said = errors.read().decode(errors="replace")
    result = json.loads(answer) if answer else {"outcome": "fails", "why": f"ended with {code}: {last_line(said)}"}
    if code is None:
        result = {"outcome": "fails", "why": f"still running after {timeout:g} s"}
    elif code != 0 and result["outcome"] == "runs":
        result = {"outcome": "fails", "why": f"ran, and then ended with {code}: {last_line(said)}"}
    refused = REFUSED.findall(said)
    if result["outcome"] == "fails" and refused:
        result = {"outcome": "refused", "why": refused[-1]}
    if result["outcome"] == "fails":
        result["said"] = said[-3000:]
    return {"name": name, "precision": precision, **result, "seconds": round(time.monotonic() - began, 1)}


def main():
    if sys.argv[1:] == ["--list"]:
        print(json.dumps([f"{name}:{precision}" for name in PROGRAMS for precision in PRECISIONS]))
        return
    gc.freeze()  # what was imported: else every child would look through all of it when it ends
    for case in sys.argv[2:]:
        name, _, precision = case.partition(":")
        print(json.dumps(run_one(name, precision, float(sys.argv[1]))), flush=True)


if __name__ == "__main__":
    main()

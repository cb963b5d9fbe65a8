"""A function on a card that is not here: in a child process, under `maxbatch dry-run`, with its result back."""

import dataclasses
import functools
import html
import json
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
from typing import Any, Callable, Optional, Union

from . import _native
from ._find import bytes_of
from ._result import mib


class DryRunFailed(RuntimeError):
    """The function failed on the dry card. `run` is the DryRun."""

    def __init__(self, text: str, run: "DryRun"):
        super().__init__(text)
        self.run = run


@dataclasses.dataclass(frozen=True)
class DryRun:
    """What a function did on a dry card."""

    card: str
    fits: bool
    value: Any  # what the function returned
    error: str  # what it raised; empty: nothing
    peak_reserved_bytes: int
    peak_allocated_bytes: int
    device_bytes: int
    context_bytes: int
    out_of_memory: int
    failed_request_bytes: Optional[int]
    report: dict = dataclasses.field(repr=False)
    output: str = dataclasses.field(repr=False)

    def __bool__(self) -> bool:
        return self.fits

    def __str__(self) -> str:
        took = f"peak reserved {mib(self.peak_reserved_bytes)} of {mib(self.device_bytes - self.context_bytes)}"
        if self.fits:
            return f"fits in {self.card}: {took}"
        return f"does not fit in {self.card}: {took}; {self.error}"

    __repr__ = __str__  # what pytest shows of `assert fits_in(...)`

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(str(self))}</p>"


def _pickled(function, args, kwargs) -> bytes:
    """cloudpickle where it is installed, since functions of notebooks and local ones cannot be found by their name."""
    try:
        import cloudpickle

        return cloudpickle.dumps((function, args, kwargs))
    except ImportError:
        pass
    try:
        return pickle.dumps((function, args, kwargs))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise TypeError(f"{getattr(function, '__name__', function)} cannot be sent to another process ({error}): define it at the top of a module, or pip install cloudpickle") from None


IN_CHILD = "MAXBATCH_PYTHON_DRY_CHILD"


def _preparation(pickled: bytes) -> dict:
    """What the child needs to find the function: the path, and, if it is of the script that runs now, that one, as multiprocessing's
    spawn takes it over."""
    import __main__

    main = getattr(__main__, "__file__", None)
    is_module = getattr(__main__, "__spec__", None) is not None
    is_needed = b"__main__" in pickled and main is not None and not is_module
    return {"path": [os.path.abspath(one) if one else os.getcwd() for one in sys.path], "main": os.path.abspath(main) if is_needed else None}


def _run(card, budget, timeout, function, args, kwargs) -> DryRun:
    if os.environ.get(IN_CHILD):
        raise RuntimeError("a dry run was asked for while the script was read again in its child process: put what starts it under if __name__ == '__main__':")
    with tempfile.TemporaryDirectory(prefix="maxbatch-") as folder:
        place = pathlib.Path(folder)
        pickled = _pickled(function, args, kwargs)
        (place / "function").write_bytes(pickled)
        (place / "preparation").write_text(json.dumps(_preparation(pickled)))
        command = [_native.program(), "dry-run", "--card", card, "--report", str(place / "report")]
        if budget is not None:
            command += ["--budget", str(bytes_of("budget", budget))]
        command += ["--", sys.executable, str(pathlib.Path(__file__).with_name("_dry_child.py")), str(place)]
        try:
            ran = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=timeout, env=dict(os.environ, **{IN_CHILD: "1"}))
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{getattr(function, '__name__', function)} took longer than {timeout} s on a dry {card}") from None
        output = ran.stdout + ran.stderr
        if not (place / "report").exists():
            raise ValueError(output.strip() or f"maxbatch dry-run ended with exit code {ran.returncode}")
        report = json.loads((place / "report").read_text())
        answer = (place / "answer").read_bytes() if (place / "answer").exists() else None
    return _understood(card, report, answer, ran.returncode, output)


def _understood(card, report, answer, code, output) -> DryRun:
    kind, value = ("died", None) if answer is None else pickle.loads(answer)
    devices = [device for process in report["processes"] for device in process["devices"]]
    largest = max(devices, key=lambda device: (device.get("allocator") or {}).get("peak_reserved_bytes", device["peak_segment_bytes"]), default={})
    allocator = largest.get("allocator") or {}
    failed = allocator.get("failed_request") or {}
    error = "" if kind == "returned" else value if kind == "raised" else f"the process ended with exit code {code}: {output.strip()[-600:]}"
    run = DryRun(
        card=card, fits=kind == "returned", value=value if kind == "returned" else None, error=error,
        peak_reserved_bytes=allocator.get("peak_reserved_bytes", largest.get("peak_segment_bytes", 0)),
        peak_allocated_bytes=allocator.get("peak_allocated_bytes", 0), device_bytes=largest.get("total_bytes", 0),
        context_bytes=largest.get("peak_context_bytes", 0), out_of_memory=allocator.get("out_of_memory", 0),
        failed_request_bytes=failed.get("requested_bytes"), report=report, output=output)  # fmt: skip
    if kind != "returned" and not run.out_of_memory:
        raise DryRunFailed(f"on a dry {card}: {error}", run)  # not for memory: that is no answer
    return run


def dry_run(card: str, function: Optional[Callable] = None, *args, budget: Union[int, str, None] = None, timeout: Optional[float] = None, **kwargs):
    """Runs `function(*args, **kwargs)` on a card that is not here, in a child process, and returns a `DryRun` with its result.

    `dry_run(card)` gives a decorator: `maxbatch.dry_run("rtx-4090")(train)(64)`. The function has to be found in the child: at the
    top of a module or of the script that runs, or anywhere where cloudpickle is installed. Kernels do nothing there, so that
    values are zeros; memory is exact.

    card: as `maxbatch cards` lists them. budget: what the program may take from the driver. timeout: seconds.
    Raises: DryRunFailed where the function failed and not for memory; ValueError for a card that is not known.
    """
    if function is None:

        def decorator(function):
            @functools.wraps(function)
            def on_dry_card(*args, **kwargs):
                return _run(card, budget, timeout, function, args, kwargs)

            return on_dry_card

        return decorator
    return _run(card, budget, timeout, function, args, kwargs)


class fits_in:
    """For tests: `assert fits_in("rtx-2080-ti", train, 64)`; the failed assertion says what was short.

    `fits_in(card)` alone is a checker to be called with a function; by itself it is neither true nor false.
    """

    def __new__(cls, card: str, function: Optional[Callable] = None, *args, budget=None, timeout=None, **kwargs):
        if function is not None:
            return _run(card, budget, timeout, function, args, kwargs)
        checker = super().__new__(cls)
        checker.card, checker.budget, checker.timeout = card, budget, timeout
        return checker

    def __call__(self, function: Callable, *args, **kwargs) -> DryRun:
        return _run(self.card, self.budget, self.timeout, function, args, kwargs)

    def __bool__(self):
        raise TypeError(f"fits_in({self.card!r}) was not given a function: fits_in({self.card!r}, step, 64)")

"""maxbatch.find: the C++ search over a Python step."""

import ctypes
import gc
import json
import re
import traceback
from typing import Callable, Iterable, Optional, Union

from . import _native, _preserving
from ._result import Result, Trial

_UNITS = {"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}


def bytes_of(name: str, amount) -> Optional[int]:
    """64 << 20, "64MiB", "1.5GiB"; none stays none."""
    if amount is None or isinstance(amount, int):
        return amount
    found = re.fullmatch(r"\s*([0-9.]+)\s*([A-Za-z]*)\s*", str(amount))
    if not found or found[2].lower() not in _UNITS:
        raise ValueError(f"{name} is {amount!r}; give bytes, or a number with a unit such as '10700MiB'")
    return int(float(found[1]) * _UNITS[found[2].lower()])


def is_out_of_memory(error: BaseException) -> bool:
    """By its type alone; the rest is decided in C++ from evidence and text."""
    import torch

    return isinstance(error, torch.OutOfMemoryError)


class Search:
    """The callbacks of one search. An exception stays here; C++ is told its type and text."""

    def __init__(self, step, states, on_trial):
        self.step, self.states, self.on_trial = step, list(states), on_trial
        self.guards, self.error, self.interrupt = [], None, None

    def _guarded(self, failure, work) -> int:
        try:
            work()
            return 0
        except BaseException as error:  # noqa: BLE001  nothing may leave through C
            # Frames of the traceback hold tensors, and with them the memory that the next trial needs.
            traceback.clear_frames(error.__traceback__)
            text = f"{type(error).__name__}: {error}"
            kind = _native.OUT_OF_MEMORY if is_out_of_memory(error) else _native.OTHER
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                self.interrupt = error
            elif kind == _native.OTHER:
                self.error = error
            _native.library().maxbatch_fail(failure, kind, text.encode(errors="replace"))
            return 1

    def run_step(self, _, batch_size, step_index, failure) -> int:
        return self._guarded(failure, lambda: self.step(batch_size))

    def save(self, _, failure) -> int:
        def work():
            self.guards = [_preserving.PythonRandomGuard(), *(_preserving.guard_of(state) for state in self.states)]

        return self._guarded(failure, work)

    def restore_structure(self, _, failure) -> int:
        def work():
            for guard in reversed(self.guards):
                guard.restore_structure()
            gc.collect()  # cycles of the step's own would keep its memory

        return self._guarded(failure, work)

    def restore_values(self, _, failure) -> int:
        def work():
            for guard in reversed(self.guards):
                guard.restore_values()

        return self._guarded(failure, work)

    def trial_finished(self, _, trial) -> None:
        if self.on_trial is None:
            return
        try:
            self.on_trial(Trial.of(json.loads(trial)))
        except BaseException as error:  # noqa: BLE001  told after the search
            self.interrupt = error

    def must_stop(self, _) -> int:
        return 1 if self.interrupt is not None else 0

    def run(self, question: dict) -> Result:
        callbacks = _native.Callbacks(
            None, _native.STEP(self.run_step), _native.STATE(self.save), _native.STATE(self.restore_structure),
            _native.STATE(self.restore_values), _native.FINISHED(self.trial_finished), _native.MUST_STOP(self.must_stop))  # fmt: skip
        answer = ctypes.c_void_p()
        status = _native.library().maxbatch_find(json.dumps(question).encode(), ctypes.byref(callbacks), ctypes.byref(answer))
        text = ctypes.string_at(answer).decode(errors="replace") if answer else ""
        _native.library().maxbatch_free(answer)
        if self.interrupt is not None:
            raise self.interrupt
        if status == _native.INVALID_ARGUMENT:
            raise ValueError(text)
        if status == _native.STEP_FAILED:
            raise self.error if self.error is not None else RuntimeError(text)
        return Result.of(json.loads(text))


def default_device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def find(
    step: Callable[[int], object],
    *,
    preserve: Optional[Iterable] = None,
    device: Optional[Union[str, object]] = None,
    budget: Union[int, str, None] = None,
    headroom: Union[int, str] = 0,
    steps: int = 3,
    minimum: int = 1,
    maximum: Optional[int] = None,
    multiple_of: int = 1,
    divisor_of: Optional[int] = None,
    enough: Optional[int] = None,
    probe_above: Optional[int] = None,
    max_trials: Optional[int] = None,
    max_seconds: Optional[float] = None,
    on_trial: Optional[Callable[[Trial], object]] = None,
) -> Result:
    """The largest batch size with which `step(batch_size)` runs, with its proof.

    step: one training step, forward, backward and optimizer; called `steps` times a trial.
    preserve: modules, optimizers, tensors, and things with state_dict and load_state_dict that the step changes; put back in place
        on every way out. [] says that there are none; leaving it out is an error, since forgetting it would train your model.
    device: "cuda", "cuda:1" or "cpu"; default the card present, else the CPU.
    budget: what the allocator may take, in bytes or as "10700MiB"; default what the device has (of the CPU half).
    headroom: how much of it is kept free: the answer ran without it.
    minimum, maximum, multiple_of, divisor_of, enough: which sizes are tried; every bound is included.
    on_trial: called with each `Trial` when it is over.

    Running out of memory is an outcome. Any other exception of the step passes through at the smallest size; at larger ones it is
    the reason why the answer is not larger. Ctrl-C ends the search after what was changed has been put back.
    """
    if not callable(step):
        raise TypeError(f"step is a {type(step).__name__}; give a function of the batch size")
    if preserve is None:
        raise ValueError("the step may train a model of yours, and nothing was said of putting it back: give preserve=[model, optimizer], or preserve=[]")
    states = list(preserve)
    _preserving.check(states)
    question = {
        "device": str(device if device is not None else default_device()), "budget_bytes": bytes_of("budget", budget),
        "headroom_bytes": bytes_of("headroom", headroom), "steps": steps, "minimum": minimum, "maximum": maximum, "multiple_of": multiple_of,
        "divisor_of": divisor_of, "enough": enough, "probe_above": probe_above, "max_trials": max_trials, "max_seconds": max_seconds,
        "name": getattr(step, "__name__", type(step).__name__),
    }  # fmt: skip
    return Search(step, states, on_trial).run(question)

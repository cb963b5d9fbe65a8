"""find_executable_batch_size, as Accelerate's decorator is called, with a search that goes up as well as down."""

import functools
import gc
import inspect
from typing import Callable, Optional

from ._find import Search, bytes_of, default_device, is_out_of_memory
from ._result import Result


class _TrialOver(BaseException):
    """Unwinds the function once it has run its steps. Nobody's `except Exception` takes it for a failure."""


def _retries() -> int:
    """Requests so far that passed only after the allocator had given its cache back."""
    import torch

    return torch.cuda.memory_stats().get("num_alloc_retries", 0) if torch.cuda.is_initialized() else 0


def _layout() -> int:
    """Of all segments and blocks of the allocator, one number."""
    import torch

    return hash(tuple((segment["address"], segment["total_size"], *((block["size"], block["state"]) for block in segment["blocks"]))
                      for segment in torch.cuda.memory_snapshot()))  # fmt: skip


class _StepCounter:
    """Ends the function after so many optimizer steps, each complete; where memory was short in them, after as many more as leave a layout
    of the allocator behind that was there before. Until then a later step may fail: each flush of the cache leaves another layout."""

    MOST_FURTHER_STEPS = 100

    def __init__(self, steps: int):
        self.steps, self.seen, self.retries, self.layouts = steps, 0, _retries(), set()

    def __enter__(self):
        from torch.optim.optimizer import register_optimizer_step_post_hook

        self.hook = register_optimizer_step_post_hook(self.step_ended)
        return self

    def __exit__(self, *_):
        self.hook.remove()

    def step_ended(self, *_):
        self.seen += 1
        if self.seen >= self.steps and self._is_settled():
            raise _TrialOver

    def _is_settled(self) -> bool:
        if _retries() == self.retries or self.seen >= self.steps + self.MOST_FURTHER_STEPS:
            return True
        layout = _layout()
        is_known = layout in self.layouts
        self.layouts.add(layout)
        return is_known


def _release():
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def find_executable_batch_size(
    function: Optional[Callable] = None,
    starting_batch_size: int = 128,
    reduce_batch_size_fn: Optional[Callable[[], int]] = None,
    *,
    steps: int = 3,
    search_upward: bool = True,
    maximum: Optional[int] = None,
    multiple_of: int = 1,
    device: Optional[str] = None,
    budget=None,
    headroom=0,
    on_result: Optional[Callable[[Result], object]] = None,
):
    """Decorates `function(batch_size, ...)`: calls it with the largest batch size that it can run, and returns what it returns.

    As in Accelerate the function is called without its first argument, and builds its model, optimizer and loaders inside.
    First come trials: the function, ended after `steps` optimizer steps, at sizes that the search picks, upward too unless
    `search_upward` is false (then `starting_batch_size` is the largest tried). Where memory was short in those steps, more follow,
    until the allocator's layout repeats itself, since a later one may fail. The largest size that ran, beside the next one that did not, is the answer; with it the
    function then runs to its end. Should it run out of memory there after all (a validation that takes more than a step), the next
    smaller size is tried, as Accelerate would. The search's `Result` is the decorated function's `result`, and is given to
    `on_result`.

    `reduce_batch_size_fn` is Accelerate's; here the search decides, so that it is refused.
    """
    if function is None:
        return functools.partial(
            find_executable_batch_size, starting_batch_size=starting_batch_size, reduce_batch_size_fn=reduce_batch_size_fn, steps=steps,
            search_upward=search_upward, maximum=maximum, multiple_of=multiple_of, device=device, budget=budget, headroom=headroom,
            on_result=on_result)  # fmt: skip
    if reduce_batch_size_fn is not None:
        raise ValueError("reduce_batch_size_fn: the search decides which sizes are tried; give multiple_of or maximum instead")
    parameters = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def decorated(*args, **kwargs):
        if len(parameters) < len(args) + 1:
            given = ", ".join([f"{name}={value!r}" for name, value in zip(parameters[1:], args)])
            raise TypeError(
                f"batch size is given to `{function.__name__}` by find_executable_batch_size as its first argument; leave it out: {function.__name__}({given})"
            )

        def trial(batch_size):
            with _StepCounter(steps):
                try:
                    function(batch_size, *args, **kwargs)
                except _TrialOver:
                    pass

        most = maximum if search_upward else min(maximum or starting_batch_size, starting_batch_size)
        question = {
            "device": device or default_device(), "budget_bytes": bytes_of("budget", budget), "headroom_bytes": bytes_of("headroom", headroom),
            "steps": 1, "maximum": most, "minimum": multiple_of, "multiple_of": multiple_of, "name": function.__name__,
        }  # fmt: skip
        result = Search(trial, [], None).run(question)
        decorated.result = result
        if on_result is not None:
            on_result(result)
        if result.batch_size is None:
            raise RuntimeError(f"no executable batch size: {result}")
        return _run(function, result.batch_size, multiple_of, args, kwargs)

    decorated.result = None
    return decorated


def _run(function, batch_size, multiple_of, args, kwargs):
    while True:
        try:
            return function(batch_size, *args, **kwargs)
        except Exception as error:  # noqa: BLE001  the smallest size's own failure passes through
            if not is_out_of_memory(error) or batch_size <= multiple_of:
                raise
        batch_size -= multiple_of
        _release()

"""The largest batch that a training step can run, with its proof: on the card present, on the CPU, and on cards that are not here.

    result = maxbatch.find(step, preserve=[model, optimizer])     # step(batch_size), on the card present
    result.batch_size, result.proof, result.next_batch_size

    @maxbatch.find_executable_batch_size(starting_batch_size=128)  # Accelerate's decorator, but it looks upward, too
    def train(batch_size): ...

    maxbatch.dry_run("rtx-4090", train, 64)                        # in a child process, on a card that is not here
    assert maxbatch.fits_in("rtx-2080-ti", train, 64)              # in a test

The search is that of the C++ library; this package is a C interface and what Python needs around it.
"""

from ._version import __version__, check_torch

check_torch()

from ._dry import DryRun, DryRunFailed, dry_run, fits_in
from ._executable import find_executable_batch_size
from ._find import find
from ._result import PhasePeak, Result, Trial

__all__ = ["DryRun", "DryRunFailed", "PhasePeak", "Result", "Trial", "__version__", "dry_run", "find", "find_executable_batch_size", "fits_in"]

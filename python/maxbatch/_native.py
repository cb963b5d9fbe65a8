"""The C interface (include/maxbatch/c_api.h) by ctypes."""

import ctypes
import functools
import os
import pathlib

OUT_OF_MEMORY, OTHER = 1, 2
ANSWERED, INVALID_ARGUMENT, STEP_FAILED = 0, 1, 2

STEP = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
STATE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
FINISHED = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)
MUST_STOP = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


class Callbacks(ctypes.Structure):
    _fields_ = [
        ("user", ctypes.c_void_p), ("step", STEP), ("save", STATE), ("restore_structure", STATE), ("restore_values", STATE),
        ("trial_finished", FINISHED), ("must_stop", MUST_STOP),
    ]  # fmt: skip


def folder() -> pathlib.Path:
    """Where our libraries and the program are: beside this file, or where MAXBATCH_PYTHON_LIBRARIES says (a build tree)."""
    return pathlib.Path(os.environ.get("MAXBATCH_PYTHON_LIBRARIES") or pathlib.Path(__file__).parent / "lib")


def find_file(name: str) -> pathlib.Path:
    for place in (".", "src", "src/cli", "src/c_api", "src/dry_cuda"):
        path = folder() / place / name
        if path.exists():
            return path
    raise ImportError(f"maxbatch: {name} is not in {folder()}: the package is not complete; install it again")


def program() -> str:
    return str(find_file("maxbatch"))


@functools.lru_cache(maxsize=None)
def library():
    import torch  # noqa: F401  its libraries are the ones that ours find

    loaded = ctypes.CDLL(str(find_file("libmaxbatch_c.so")))
    loaded.maxbatch_find.argtypes = [ctypes.c_char_p, ctypes.POINTER(Callbacks), ctypes.POINTER(ctypes.c_void_p)]
    loaded.maxbatch_find.restype = ctypes.c_int
    loaded.maxbatch_free.argtypes = [ctypes.c_void_p]
    loaded.maxbatch_free.restype = None
    loaded.maxbatch_fail.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p]
    loaded.maxbatch_fail.restype = None
    return loaded

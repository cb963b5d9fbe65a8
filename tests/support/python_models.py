"""The Python with LibTorch, and the folder with torchvision, timm and transformers, that scripts/test prepares."""

import os
import pathlib
import subprocess
import sys

VERSION = "2.11.0"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "maxbatch"


def default_python() -> str:
    prepared = CACHE / f"torch-{VERSION}" / "bin" / "python"
    return str(prepared) if prepared.exists() else sys.executable


def default_site() -> str:
    """MAXBATCH_PYTHON_MODELS, or what scripts/test installed; empty: the models are in Python's own path, or nowhere."""
    prepared = CACHE / f"python-models-{VERSION}"
    return os.environ.get("MAXBATCH_PYTHON_MODELS") or (str(prepared) if prepared.exists() else "")


def missing_module(python: str, site: str):
    """One sentence on what Python cannot import, or nothing."""
    command = "import sys; sys.path[:0] = filter(None, sys.argv[1:]); import torch, torchvision, timm, transformers"
    tried = subprocess.run([python, "-c", command, site], capture_output=True, text=True)
    return f"{python} lacks a module: {tried.stderr.strip().splitlines()[-1]}" if tried.returncode else None

"""Which maxbatch, and for which torch its libraries were compiled."""

__version__ = "0.1.0"
TORCH = "2.11"


def check_torch():
    """One sentence where the libraries could not be loaded, or would read another allocator than they were written for."""
    try:
        import torch
    except ImportError:
        raise ImportError(f"maxbatch {__version__} needs torch {TORCH}, and this Python has none: pip install 'torch=={TORCH}.*'") from None
    if torch.__version__.split("+")[0].rsplit(".", 1)[0] != TORCH:
        raise ImportError(
            f"maxbatch {__version__} is compiled for torch {TORCH}, whose allocator it knows, and this is torch {torch.__version__}: "
            f"pip install 'torch=={TORCH}.*', or a maxbatch for that version"
        )

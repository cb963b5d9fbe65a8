"""In the child of _dry.py: _dry_child.py FOLDER. Reads the function there, calls it, and leaves its result."""

import json
import pathlib
import pickle
import sys


def main(place: pathlib.Path) -> int:
    preparation = json.loads((place / "preparation").read_text())
    sys.path[:] = preparation["path"]
    if preparation["main"]:
        from multiprocessing import spawn

        spawn.prepare({"init_main_from_path": preparation["main"]})
    function, args, kwargs = pickle.loads((place / "function").read_bytes())
    try:
        answer = ("returned", function(*args, **kwargs))
    except BaseException as error:  # noqa: BLE001  told to the parent
        answer = ("raised", f"{type(error).__name__}: {error}")
    try:
        said = pickle.dumps(_on_host(answer))
    except Exception as error:  # noqa: BLE001
        said = pickle.dumps(("raised", f"the result cannot be sent back: {type(error).__name__}: {error}"))
    (place / "answer").write_bytes(said)
    return 0 if answer[0] == "returned" else 1


def _on_host(value):
    """Tensors of the dry card leave it, since the parent has none."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.detach().cpu()
    if isinstance(value, dict):
        return {key: _on_host(one) for key, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_on_host(one) for one in value)
    return value


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))

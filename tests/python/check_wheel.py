#!/usr/bin/env python3
"""The wheel of python/ in a clean venv: builds, installs, finds on the CPU and dry, and its command runs.

  check_wheel.py --source . --python PYTHON --build build/python

The venv holds the prepared torch by links, since a copy of it would take 6 GB. Exit code: 0, 1, or 77 with the reason.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
USES_IT = """
import torch, maxbatch
result = maxbatch.find(lambda batch_size: torch.zeros(batch_size, 1 << 10), preserve=[], device="cpu", budget="8MiB")
assert result.proof == "bracketed" and result.batch_size >= 2000, result
run = maxbatch.dry_run("h200", torch.cuda.get_device_name)
assert run.value == "NVIDIA H200", run
print("works", result.batch_size, run.value, maxbatch.__file__)
"""


def run(command, **more):
    ran = subprocess.run([str(word) for word in command], capture_output=True, text=True, **more)
    if ran.returncode != 0:
        print(f"check_wheel: {' '.join(map(str, command))} ended with exit code {ran.returncode}:\n{(ran.stdout + ran.stderr)[-3000:]}")
        sys.exit(1)
    return ran.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True, type=pathlib.Path)
    parser.add_argument("--python", required=True, help="one with torch")
    parser.add_argument("--build", required=True, type=pathlib.Path, help="a build folder of the wheel's own, kept for the next time")
    parser.add_argument("--define", action="append", default=[], metavar="NAME=VALUE", help="for CMake, where --build is a folder of another use")
    parser.add_argument("--keep", type=pathlib.Path, help="copy the wheel there")
    arguments = parser.parse_args()
    where = subprocess.run([arguments.python, "-c", "import torch, pathlib; print(pathlib.Path(torch.__file__).parents[1])"], capture_output=True, text=True)
    if where.returncode != 0:
        print(f"check_wheel: nothing was run: {arguments.python} has no torch")
        return SKIPPED
    packages = pathlib.Path(where.stdout.strip())
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        run([arguments.python, "-m", "venv", place / "builder"])
        builder = place / "builder" / "bin" / "python"
        run([builder, "-m", "pip", "install", "-q", "scikit-build-core>=0.10"])
        # The compilers by the names that CMake finds itself: ccache tells c++ from g++, which scikit-build-core would take.
        environment = dict({"CC": "cc", "CXX": "c++"}, **os.environ)
        environment.update(CMAKE_PREFIX_PATH=str(packages / "torch" / "share" / "cmake"), CMAKE_GENERATOR="Ninja")
        run([builder, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", arguments.source.resolve() / "python", "-w", place,
             "-C", f"build-dir={arguments.build.resolve()}", "-C", "cmake.build-type=RelWithDebInfo",
             "-C", "cmake.define.CMAKE_CXX_FLAGS_RELWITHDEBINFO=-O2 -g1",
             *(word for define in arguments.define for word in ("-C", f"cmake.define.{define}"))], env=environment)  # fmt: skip  the flags of the preset dev
        wheel = next(place.glob("maxbatch-*.whl"))
        print(f"{wheel.name}: {wheel.stat().st_size / 2**20:.1f} MiB")
        if arguments.keep:
            shutil.copy(wheel, arguments.keep)
        run([arguments.python, "-m", "venv", place / "clean"])
        clean = place / "clean" / "bin" / "python"
        site = pathlib.Path(run([clean, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip())
        for package in packages.iterdir():
            if not (site / package.name).exists():
                (site / package.name).symlink_to(package)
        run([clean, "-m", "pip", "install", "-q", "--no-deps", wheel])
        plain = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "LD_LIBRARY_PATH", "MAXBATCH_PYTHON_LIBRARIES")}
        script = place / "uses_it.py"
        script.write_text(USES_IT)
        print(run([clean, "-W", "ignore", script], env=plain, cwd=place).strip())
        print(run([place / "clean" / "bin" / "maxbatch", "--version"], env=plain, cwd=place).strip())
    return 0


if __name__ == "__main__":
    sys.exit(main())

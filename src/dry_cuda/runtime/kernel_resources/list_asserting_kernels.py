#!/usr/bin/env python3
"""LibTorch's kernels that call the driver's code for assertions or printf, by NVIDIA's public cuobjdump.

  list_asserting_kernels.py --cuobjdump CUOBJDUMP --library .../torch/lib/libtorch_cuda.so > torch_2.11.0_cu130_asserting.txt

The lower 40 bits of each name's hash. Which kernels these are follows from the source, so one architecture is asked, for
which the wheel has all of them. Needs no card; takes three minutes and 1 GB beside the temporary files' folder.
"""

import argparse
import pathlib
import re
import subprocess
import tempfile

from kernel_names import hash_of

ARCHITECTURE = "sm_90"
SECTION = re.compile(r"^\.nv\.info\.(\S+)$")
EXTERNS = re.compile(r"^\s+Value:\s+externs:.*\b(__assertfail|vprintf)\b")


def asserting_kernels(cuobjdump: str, code: pathlib.Path) -> set:
    names, name = set(), ""
    with subprocess.Popen([cuobjdump, "-elf", str(code)], stdout=subprocess.PIPE, text=True) as dump:
        for line in dump.stdout:
            if found := SECTION.match(line):
                name = found[1]
            elif EXTERNS.match(line):
                names.add(name)
    if dump.returncode != 0:
        raise SystemExit(f"{cuobjdump} -elf {code}: exit code {dump.returncode}")
    return names


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuobjdump", required=True)
    parser.add_argument("--library", required=True)
    arguments = parser.parse_args()
    library = pathlib.Path(arguments.library).resolve()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([arguments.cuobjdump, "-xelf", ARCHITECTURE, str(library)], cwd=folder, check=True, capture_output=True)
        files = sorted(pathlib.Path(folder).glob("*.cubin"))
        names = set().union(*(asserting_kernels(arguments.cuobjdump, file) for file in files))
    hashes = sorted({hash_of(name) % 2**40 for name in names})
    print(f"# torch 2.11.0+cu130, libtorch_cuda.so, {ARCHITECTURE}: {len(names)} kernels that assert or print, by the lower 40 bits")
    print("# of the hash of their names.")
    for first in range(0, len(hashes), 11):
        print(*[f"{value:010x}" for value in hashes[first:first + 11]])


if __name__ == "__main__":
    main()

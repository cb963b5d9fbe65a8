#!/usr/bin/env python3
"""Registers and shared memory of LibTorch's kernels, by NVIDIA's public cuobjdump: what occupancy is computed from.

  list_kernel_resources.py --cuobjdump CUOBJDUMP --library .../torch/lib/libtorch_cuda.so > torch_2.11.0_cu130.txt

A line a kernel: a hash (64 bits, FNV-1a) of its mangled name, then REGISTERS/SHARED for each architecture. Only kernels of
cub and thrust: they size their scratch memory by occupancy, and no other kernels of LibTorch do. Needs no card. The program
comes with the CUDA toolkit, and with Triton's wheel (triton/backends/nvidia/bin).
"""

import argparse
import re
import subprocess

from kernel_names import hash_of

ARCHITECTURES = (75, 80, 86, 90, 100, 120)
FUNCTION = re.compile(r"^ Function (\S+):$")
USAGE = re.compile(r"^\s+REG:(\d+) .*?SHARED:(\d+) ")


def kernels_of(arguments, architecture: int) -> dict:
    command = [arguments.cuobjdump, "-res-usage", "-arch", f"sm_{architecture}", arguments.library]
    kernels, name = {}, ""
    for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
        if found := FUNCTION.match(line):
            name = found[1]
        elif found := USAGE.match(line):
            if "cub" in name or "thrust" in name:
                kernels[name] = f"{found[1]}/{found[2]}"
    return kernels


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuobjdump", required=True)
    parser.add_argument("--library", required=True)
    arguments = parser.parse_args()
    by_architecture = [kernels_of(arguments, architecture) for architecture in ARCHITECTURES]
    names = sorted(set().union(*by_architecture))
    hashes = {hash_of(name) for name in names}
    if len(hashes) != len(names):
        raise SystemExit("two names have the same hash")
    print("# torch 2.11.0+cu130, libtorch_cuda.so. hash of the name, registers/static shared bytes for sm_", end="")
    print(*ARCHITECTURES, sep=", sm_")
    for name in sorted(names, key=hash_of):
        print(f"{hash_of(name):016x}", *[kernels.get(name, "-") for kernels in by_architecture])


if __name__ == "__main__":
    main()

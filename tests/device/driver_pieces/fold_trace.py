#!/usr/bin/env python3
"""What caused the driver's pieces, and the pieces, a line each, from a trace of trace_mappings. See README.md.

  kernel ITSELF MODULE   first launch of a kernel: whether it asserts, and whether its module does
  cublas, cudnn          a handle is created
  pinned                 memory of the host is pinned by something else
  code, device BYTES, host BYTES, grow   the pieces, below their cause
"""

import argparse
import pathlib
import sys

TABLES = pathlib.Path(__file__).resolve().parents[3] / "src/dry_cuda/runtime/kernel_resources"
TABLE = TABLES / "torch_2.11.0_cu130_asserting.txt"
sys.path.insert(0, str(TABLES))
from kernel_names import hash_of  # noqa: E402

KEPT = 2**40  # of a hash, in that table
SLAB = 2 << 20
HANDLES = {"cublasCreate_v2": "cublas", "cudnnCreate": "cudnn"}


def fold(lines, table):
    asserting, last, freed, kind = {}, [], False, "device"
    begun = False  # the context is there once the program asks for memory
    for line in lines:
        word, _, rest = line.rstrip("\n").partition(" ")
        if word == "mark":
            what, _, rest = rest.partition(" ")
            if what == "module":
                number, *hashes = rest.split()
                asserting[number] = any(int(value, 16) in table for value in hashes)
            elif what == "end":
                last.pop()
            else:
                last.append((what, rest))
                begun = begun or what == "cudaMalloc"
                if what == "kernel":
                    number, _, name = rest.partition(" ")
                    yield f"kernel {int(hash_of(name) % KEPT in table)} {int(asserting[number])}"
                elif rest in HANDLES:
                    yield HANDLES[rest]
        elif word == "host":
            kind = "host"
        elif word == "allocate":
            kind = "device"
        elif word == "unmap":
            freed = not (last and last[-1][0] == "cudaFree")
        elif word == "map":
            bytes_ = int(rest.split()[1], 16)
            cause = last[-1] if last else ("", "")
            if begun and cause[0] != "cudaMalloc":
                if freed:
                    yield "grow"
                elif kind == "device" and bytes_ == SLAB and cause[1] not in HANDLES:
                    yield "code"
                else:
                    if kind == "host" and cause[0] != "kernel" and cause[1] not in HANDLES:
                        yield "pinned"
                    yield f"{kind} {bytes_}"
            freed, kind = False, "device"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=pathlib.Path)
    parser.add_argument("--asserting", type=pathlib.Path, default=TABLE, help="the table of asserting kernels")
    arguments = parser.parse_args()
    table = {int(word, 16) for line in open(arguments.asserting, encoding="utf-8") if line[0] != "#" for word in line.split()}
    with open(arguments.trace, encoding="utf-8", errors="replace") as trace:
        print(*fold(trace, table), sep="\n")


if __name__ == "__main__":
    main()

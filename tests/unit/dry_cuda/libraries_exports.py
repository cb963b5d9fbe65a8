#!/usr/bin/env python3
"""Compares what LibTorch's libraries import from CUDA's with what the dry card's library exports and knows.

  libraries_exports.py --dry LIBRARY --torch FOLDER --list COMMAND...

COMMAND is entry_points.py with its --include and --list: it says what each entry point of the public headers answers. Every
import must be exported by the dry card's library, or be left to the real one by a line of answers.txt or of kLeft below.
Fails, and says which, otherwise; also when nothing was found to compare.
"""

import argparse
import glob
import os
import re
import subprocess
import sys

# Of CUDA's, by the first letters; "cu" alone is the driver.
CUDA = re.compile(r"^(__cuda[A-Z]|cuda[A-Z]|cu[A-Z]|cublas|cudnn|cusparse|cusolver|cufft|curand|nccl|nvrtc|cupti|nvshmem|cuFile)")
# Left to the real library, and in no header that entry_points.py reads.
LEFT = re.compile(r"^nvshmem")  # started only by a program that asks for it; fails by its own words without a device


def symbols(path, *options):
    done = subprocess.run(["nm", "-D", *options, path], capture_output=True, text=True, check=True)
    return [line.split() for line in done.stdout.splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dry", required=True, metavar="LIBRARY")
    parser.add_argument("--torch", required=True, metavar="FOLDER", help="with libtorch_cuda.so")
    parser.add_argument("--verbose", action="store_true", help="a line for each import: its library, and who answers")
    parser.add_argument("--list", required=True, nargs=argparse.REMAINDER, metavar="COMMAND")
    options = parser.parse_args()

    # W: a generated default, T: written by hand.
    exported = {words[-1]: words[-2] for words in symbols(options.dry, "--defined-only")}
    listed = subprocess.run(options.list, capture_output=True, text=True, check=True).stdout
    answers = {line.split()[0]: line.split()[2] for line in listed.splitlines()}
    imported = {}
    for library in sorted(glob.glob(os.path.join(options.torch, "lib*.so"))):
        for words in symbols(library, "--undefined-only"):
            name, _, version = words[-1].partition("@")
            if CUDA.match(name):
                imported.setdefault(name, (version.lstrip("@"), os.path.basename(library)))

    counts, missing = {}, []
    for name, (version, library) in sorted(imported.items()):
        if name in exported:
            how = "by hand" if exported[name] == "T" else answers.get(name, "forwarded")
        elif answers.get(name) == "real" or LEFT.match(name):
            how = "real"
        else:
            how = "MISSING"
            missing.append(f"{name} ({version or 'no version'}, imported by {library})")
        counts[how] = counts.get(how, 0) + 1
        if options.verbose:
            print(f"{name} {version or '-'} {library} {how}")
    print(f"{len(imported)} imports: " + ", ".join(f"{count} {how}" for how, count in sorted(counts.items())))
    print(f"{len(exported)} exports, {sum(kind == 'W' for kind in exported.values())} of them generated")
    for line in missing:
        print("MISSING", line)
    # What would be exported by mistake and reach a stranger's process.
    strange = [n for n in exported if not CUDA.match(n) and n not in ("dlopen",) and not n.startswith(("maxbatch", "nccl", "pnccl"))]
    for name in strange:
        print("STRANGE", name)
    return 1 if missing or strange or len(imported) < 100 else 0


sys.exit(main())

"""The command `maxbatch` of this package: the program of the C++ library."""

import os
import sys

from . import _native


def main() -> None:
    program = _native.program()
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()

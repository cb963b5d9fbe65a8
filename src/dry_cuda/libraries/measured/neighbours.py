#!/usr/bin/env python3
"""How often the rule for batch sizes that nobody asked about is right: the answers of a table at powers of two are taken for all that
is known, and its other answers are what a card said. Counted in blocks of LibTorch's allocator, 512 bytes.

  neighbours.py convolution_tables/h200.txt

The rule is that of Note [Batch sizes that nobody asked about] in convolution_table.cpp, written once more.
"""

import collections
import pathlib
import sys

import more_batch_sizes

BLOCK = 512
SMALL = 4096


def blocks(count: int) -> int:
    return -(-count // BLOCK)


def rule(batch: int, answers: dict, convolution: tuple):
    """What the batch sizes in `answers` say about another; None: nothing."""
    known = sorted(answers)
    if len(known) < 2 or batch < known[0] or batch > 2 * known[-1]:
        return None
    above = next((i for i, size in enumerate(known) if size > batch), len(known) - 1)
    low, high = known[above - 1 : above + 1]
    low_bytes, high_bytes = answers[low], answers[high]
    rise = lambda at: (high_bytes - low_bytes) * (at - low)
    line = lambda at: low_bytes + (abs(rise(at)) // (high - low)) * (1 if rise(at) >= 0 else -1)  # as C++ divides, before the line, too
    if low_bytes == high_bytes:
        return low_bytes
    if max(low_bytes, high_bytes) < SMALL and convolution[0] != "backward_filter":
        return high_bytes
    if 0 in (low_bytes, high_bytes):
        return None
    beside = [known[i] for i in (above - 2, above + 1) if 0 <= i < len(known)]
    if convolution[-1] != "fp32" and beside and not any(blocks(line(size)) == blocks(answers[size]) for size in beside):
        return None
    return line(batch) if line(batch) >= 0 else None


def powers_of_two(answers: dict) -> dict:
    return {batch: said for batch, said in answers.items() if batch & (batch - 1) == 0}


def between_powers_of_two(answers: dict) -> list:
    """The batch sizes of `answers` that the rule is asked about when it knows the powers of two."""
    known = sorted(powers_of_two(answers))
    return [batch for batch in sorted(answers) if batch not in known and len(known) > 1 and known[0] < batch <= 2 * known[-1]]


def main():
    by_convolution = collections.defaultdict(dict)
    for (direction, batch, *rest), workspaces in more_batch_sizes.read(pathlib.Path(sys.argv[1]))[1].items():
        if workspaces:
            by_convolution[direction, *rest][batch] = int(workspaces[0])
    counts = collections.Counter()
    for convolution, answers in by_convolution.items():
        group = f"{convolution[0]}, {convolution[-1] if convolution[-2] == 'float' else '16 bit'}"
        known = powers_of_two(answers)
        for batch in between_powers_of_two(answers):
            said = rule(batch, known, convolution)
            counts[group, "asked"] += 1
            counts[group, "nothing" if said is None else "right" if blocks(said) == blocks(answers[batch]) else "wrong"] += 1
    for group in sorted({group for group, _ in counts}):
        asked = counts[group, "asked"]
        print(f"{group}: of {asked} questions", ", ".join(f"{100 * counts[group, what] / asked:.1f} % {what}" for what in ("right", "wrong", "nothing")))


if __name__ == "__main__":
    main()

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


def between(at, low, high, is_line_exact):
    (low_batch, low_bytes), (high_batch, high_bytes) = low, high
    if low_bytes == high_bytes:
        return low_bytes
    if max(low_bytes, high_bytes) < SMALL:
        return high_bytes
    if 0 in (low_bytes, high_bytes):
        return None
    whole, rest = divmod((high_bytes - low_bytes) * (at - low_batch), high_batch - low_batch)
    return None if rest and is_line_exact or low_bytes + whole < 0 else low_bytes + whole


def main():
    by_convolution = collections.defaultdict(dict)
    for (direction, batch, *rest), workspaces in more_batch_sizes.read(pathlib.Path(sys.argv[1]))[1].items():
        by_convolution[direction, *rest][batch] = int(workspaces[0])
    counts = collections.Counter()
    for (direction, *_, type, math), answers in by_convolution.items():
        known = sorted(batch for batch in answers if batch & (batch - 1) == 0)
        group = f"{direction}, {math if type == 'float' else '16 bit'}"
        for batch, said in answers.items():
            if batch in known or len(known) < 2 or batch < known[0] or batch > 2 * known[-1]:
                continue
            above = next((i for i, size in enumerate(known) if size > batch), len(known) - 1)
            low, high = ((size, answers[size]) for size in known[above - 1 : above + 1])
            rule = between(batch, low, high, direction == "backward_filter" or math == "tf32")
            counts[group, "asked"] += 1
            counts[group, "nothing" if rule is None else "right" if -(-rule // BLOCK) == -(-said // BLOCK) else "wrong"] += 1
    for group in sorted({group for group, _ in counts}):
        asked = counts[group, "asked"]
        print(f"{group}: of {asked} questions", ", ".join(f"{100 * counts[group, what] / asked:.1f} % {what}" for what in ("right", "wrong", "nothing")))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""The questions of a convolution table at batch sizes that it does not have, for `maxbatch profile-gpu --questions`; and the
answers put into the table.

  more_batch_sizes.py TABLE --batch-sizes 10,12,20,24,40,48,80,96,128 > questions.txt
  maxbatch profile-gpu --questions questions.txt --output FOLDER                        on the card
  more_batch_sizes.py TABLE --answers FOLDER/NAME.convolutions.txt > TABLE.new

Only convolutions that the table has at two batch sizes or more, so that a model's are asked about and single shapes are not, and
none at more than three times the largest of those, so that a detector's are not asked about at a classifier's batch sizes.
"""

import argparse
import collections
import pathlib
import re

WORDS = 9  # of a question


def lines_of(path: pathlib.Path) -> tuple:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith("#")], [line.split() for line in lines if line and not line.startswith("#")]


def merged(table: pathlib.Path, answers: pathlib.Path) -> list:
    header, rows = lines_of(table)
    other_header, more = lines_of(answers)
    said = lambda lines: [line for line in lines if re.match(r"# (card|cudnn): ", line)]
    if said(header) != said(other_header):
        raise SystemExit(f"{answers} is for another card or cuDNN: {said(other_header)}, not {said(header)}")
    by_question = {tuple(row[:WORDS]): row for row in rows + more}
    return header + [" ".join(row) for row in by_question.values()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=pathlib.Path)
    parser.add_argument("--batch-sizes", type=lambda text: [int(size) for size in text.split(",")], default=[])
    parser.add_argument("--answers", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.answers:
        print("\n".join(merged(arguments.table, arguments.answers)))
        return
    families = collections.defaultdict(set)
    for row in lines_of(arguments.table)[1]:
        batch, _, rest = row[1].partition(",")
        families[(row[0], rest, *row[2:WORDS])].add(int(batch))
    for (direction, rest, *others), known in sorted(families.items()):
        for batch in arguments.batch_sizes if len(known) > 1 else []:
            if batch not in known and batch <= 3 * max(known):
                print(direction, f"{batch},{rest}", *others)


if __name__ == "__main__":
    main()

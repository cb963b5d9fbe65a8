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


def read(path: pathlib.Path) -> tuple:
    """The header of a table and its answers, {(direction, batch size, rest of the question): workspaces}: its format is said in
    convolution_table_text.hpp."""
    header, answers = [], {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            header.append(line)
            continue
        words = line.split()
        if not words:
            continue
        batch, _, shape = words[1].partition(",")
        key = lambda size: (words[0], int(size), shape, *words[2:WORDS])
        if batch != "*":
            answers[key(batch)] = words[WORDS:]
        for word in words[WORDS:] if batch == "*" else []:
            for size, workspaces in run(word):
                answers[key(size)] = workspaces
    return header, answers


def run(word: str):
    """The batch sizes that a word of a line stands for, and their workspaces."""
    sizes, _, said = word.partition(":")
    at_first, *at_last = ([int(count) for count in part.split(",")] for part in said.split(";"))
    first, last = int(sizes.split("-")[0]), int(sizes.split("-")[-1])
    steps = [(b - a) // (last - first) for a, b in zip(at_first, at_last[0])] if at_last else [0] * len(at_first)
    for size in range(first, last + 1):
        yield size, [str(count + step * (size - first)) for count, step in zip(at_first, steps)]


def words(batches: dict) -> list:
    """Of one line: each run as long as it goes, from the smallest size on, as convolution_table_text.cpp writes them."""
    sizes, found, i = sorted(batches), [], 0
    steps = lambda i: [int(b) - int(a) for a, b in zip(batches[sizes[i]], batches[sizes[i + 1]])]
    goes_on = lambda i: (i + 1 < len(sizes) and sizes[i + 1] == sizes[i] + 1
                         and len(batches[sizes[i]]) == len(batches[sizes[i + 1]]))
    while i < len(sizes):
        j = i
        while goes_on(j) and steps(j) == steps(i):
            j += 1
        first, last = batches[sizes[i]], batches[sizes[j]]
        if j > i + 1:
            ends = [first] if first == last else [first, last]
            found.append(f"{sizes[i]}-{sizes[j]}:" + ";".join(",".join(end) for end in ends))
            i = j + 1
        else:
            found.append(f"{sizes[i]}:" + ",".join(first))
            i += 1
    return found


def lines(answers: dict) -> list:
    by_convolution = collections.defaultdict(dict)
    for (direction, batch, shape, *others), workspaces in answers.items():
        by_convolution[" ".join((direction, f"*,{shape}", *others))][batch] = workspaces
    return [" ".join((convolution, *words(batches))) for convolution, batches in sorted(by_convolution.items())]


def merged(table: pathlib.Path, more: list) -> list:
    header, answers = read(table)
    said = lambda header: [line for line in header if re.match(r"# (card|cudnn): ", line)]
    for path in more:
        other_header, others = read(path)
        if said(header) != said(other_header):
            raise SystemExit(f"{path} is for another card or cuDNN: {said(other_header)}, not {said(header)}")
        answers.update(others)
    return header + lines(answers)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=pathlib.Path)
    parser.add_argument("--batch-sizes", type=lambda text: [int(size) for size in text.split(",")], default=[])
    parser.add_argument("--answers", type=pathlib.Path, nargs="+")
    arguments = parser.parse_args()
    if arguments.answers:
        print("\n".join(merged(arguments.table, arguments.answers)))
        return
    families = collections.defaultdict(set)
    for direction, batch, *rest in read(arguments.table)[1]:
        families[(direction, *rest)].add(batch)
    for (direction, rest, *others), known in sorted(families.items()):
        for batch in arguments.batch_sizes if len(known) > 1 else []:
            if batch not in known and batch <= 3 * max(known):
                print(direction, f"{batch},{rest}", *others)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""How far a workspace may be off that no table has: the bounds of convolution_uncertainty.cpp, measured on a card's table.

  uncertainty.py TABLE --draw 600 > questions.txt                   so many convolutions of each group, each at one batch size
  maxbatch dry-run --card-profile CARD -- maxbatch profile-gpu --questions questions.txt --output FOLDER
                                                                    no card: CARD is the table's card under another name, so
                                                                    that nothing is known of it and all is planned
  uncertainty.py TABLE --planned FOLDER/NAME.convolutions.txt       the bounds

A difference is the card's workspace less the answer, in units of the bytes of the convolution's three tensors. Told are its 2.5th and
97.5th percentile, for what cuDNN plans without a driver, and for what the rule of neighbours.py says between the powers of two, for
each group of direction and arithmetic; how many of 100 answers are right to the allocator's block, too small, and too large; and how
many lie within the bounds that the other half of the convolutions give. A convolution counts once, at however many batch sizes it was asked.
"""

import argparse
import collections
import math
import pathlib
import random

import more_batch_sizes
import neighbours

LOW, HIGH = 0.025, 0.975


def numbers(text: str) -> list:
    return [int(number) for number in text.split(",")]


def group_of(convolution: tuple) -> str:
    direction, *_, type, arithmetic = convolution
    return f"{direction:<15} {arithmetic if type == 'float' else '16 bit'}"


def tensor_bytes(convolution: tuple, batch: int) -> int:
    _, shape, filter, stride, padding, dilation, _, type, _ = convolution
    given, filter = [batch, *numbers(shape)], numbers(filter)
    gave = [batch, filter[0]]
    for size, width, step, pad, apart in zip(given[2:], filter[2:], numbers(stride), numbers(padding), numbers(dilation)):
        gave.append((size + 2 * pad - apart * (width - 1) - 1) // step + 1)
    return sum(map(math.prod, (given, filter, gave))) * {"float": 4, "double": 8}.get(type, 2)


def by_convolution(table: pathlib.Path) -> dict:
    """{convolution: {batch size: the first plan's workspace}}"""
    answers = collections.defaultdict(dict)
    for (direction, batch, *rest), workspaces in more_batch_sizes.read(table)[1].items():
        if workspaces:
            answers[direction, *rest][batch] = int(workspaces[0])
    return answers


def draw(table: dict, count: int) -> list:
    chance, groups = random.Random(2026), collections.defaultdict(list)
    for convolution in sorted(table):
        groups[group_of(convolution)].append(convolution)
    questions = []
    for _, convolutions in sorted(groups.items()):
        for direction, shape, *others in chance.sample(convolutions, min(count, len(convolutions))):
            batch = chance.choice(sorted(table[direction, shape, *others]))
            questions.append(" ".join((direction, f"{batch},{shape}", *others)))
    return questions


def of_plans(table: dict, planned: dict):
    """(convolution, batch size, what the card said, what was answered)"""
    for convolution, answers in planned.items():
        for batch, answer in answers.items():
            if batch in table.get(convolution, {}):
                yield convolution, batch, table[convolution][batch], answer


def of_neighbours(table: dict):
    for convolution, answers in table.items():
        known = sorted(batch for batch in answers if batch & (batch - 1) == 0)
        for batch, said in answers.items():
            if batch in known or len(known) < 2 or batch < known[0] or batch > 2 * known[-1]:
                continue
            above = next((i for i, size in enumerate(known) if size > batch), len(known) - 1)
            low, high = ((size, answers[size]) for size in known[above - 1 : above + 1])
            rule = neighbours.between(batch, low, high, convolution[0] == "backward_filter" or convolution[-1] == "tf32")
            if rule is not None:
                yield convolution, batch, said, rule


def percentile(weighted: list, share: float) -> float:
    whole, passed = sum(weight for _, weight in weighted), 0.0
    for difference, weight in sorted(weighted):
        passed += weight
        if passed >= share * whole:
            return difference
    return 0.0


def bounds_of(differences: list) -> tuple:
    """(low, high) of [(difference, weight)], rounded outwards, and 0 always between."""
    low, high = percentile(differences, LOW), percentile(differences, HIGH)
    return min(0.0, math.floor(100 * low) / 100), max(0.0, math.ceil(100 * high) / 100)


def tell(title: str, answers):
    groups = collections.defaultdict(lambda: collections.defaultdict(list))
    for convolution, batch, said, answer in answers:
        blocks = -(-said // neighbours.BLOCK) - -(-answer // neighbours.BLOCK)
        groups[group_of(convolution)][convolution].append(((said - answer) / tensor_bytes(convolution, batch), blocks))
    print(title)
    for group, convolutions in sorted(groups.items()):
        weighted = [(convolution, difference, 1 / len(all_of_it), blocks)
                    for convolution, all_of_it in sorted(convolutions.items()) for difference, blocks in all_of_it]
        share = lambda matches: 100 * sum(w for _, _, w, blocks in weighted if matches(blocks)) / len(convolutions)
        low, high = bounds_of([(difference, weight) for _, difference, weight, _ in weighted])
        half = set(sorted(convolutions)[::2])
        inside = 0.0
        for mine in (True, False):
            a, b = bounds_of([(d, w) for convolution, d, w, _ in weighted if (convolution in half) == mine])
            inside += sum(w for convolution, d, w, _ in weighted if (convolution in half) != mine and a <= d <= b)
        print(f"  {group}: {low:6.2f} … {high:5.2f}   of {len(convolutions)} convolutions, {len(weighted)} answers: right {share(lambda n: n == 0):.1f}, "
              f"too small {share(lambda n: n > 0):.1f}, too large {share(lambda n: n < 0):.1f}; within the other half's bounds {100 * inside / len(convolutions):.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=pathlib.Path)
    parser.add_argument("--draw", type=int, metavar="N")
    parser.add_argument("--planned", type=pathlib.Path)
    arguments = parser.parse_args()
    table = by_convolution(arguments.table)
    if arguments.draw:
        print("\n".join(draw(table, arguments.draw)))
        return
    if arguments.planned:
        tell("planned without a driver", of_plans(table, by_convolution(arguments.planned)))
    tell("from the batch sizes next to it", of_neighbours(table))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""How far a workspace may be off that no table has: the bounds of convolution_uncertainty.cpp, measured on a card's table.

  uncertainty.py TABLE --draw 600 > questions.txt       of each group so many convolutions, each at one batch size that the table has,
                                                        and so many at one between powers of two
  maxbatch dry-run --card-profile CARD -- maxbatch profile-gpu --questions questions.txt --output FOLDER
                                                        needs no card: CARD is the table's card under another name, so that nothing
                                                        is known of it and all is planned
  uncertainty.py TABLE --planned FOLDER/NAME.convolutions.txt       the bounds

A difference is the card's workspace less the answer, in units of the bytes of the convolution's three tensors. Told are its 2.5th and
97.5th percentile, for what cuDNN plans without a driver, and for what the rule of neighbours.py says between the powers of two, where
the plan says the same and where not, for each group of direction and arithmetic; how many of 100 answers are right to the allocator's
block, too small, and too large; and how many lie within the bounds that the other half of the convolutions give. A convolution counts
once, at however many batch sizes it was asked.
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
    chance, questions = random.Random(2026), set()
    for sizes_of in (sorted, neighbours.between_powers_of_two):
        groups = collections.defaultdict(list)
        for convolution in sorted(table):
            if sizes_of(table[convolution]):
                groups[group_of(convolution)].append(convolution)
        for _, convolutions in sorted(groups.items()):
            for direction, shape, *others in chance.sample(convolutions, min(count, len(convolutions))):
                batch = chance.choice(sizes_of(table[direction, shape, *others]))
                questions.add(" ".join((direction, f"{batch},{shape}", *others)))
    return sorted(questions)


def of_plans(table: dict, planned: dict):
    """(convolution, batch size, what the card said, what was answered)"""
    for convolution, answers in planned.items():
        for batch, answer in answers.items():
            if batch in table.get(convolution, {}):
                yield convolution, batch, table[convolution][batch], answer


def of_neighbours(table: dict):
    for convolution, answers in table.items():
        known = neighbours.powers_of_two(answers)
        for batch in neighbours.between_powers_of_two(answers):
            said = neighbours.rule(batch, known, convolution)
            if said is not None:
                yield convolution, batch, answers[batch], said


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
        difference = (said - answer) / tensor_bytes(convolution, batch)
        groups[group_of(convolution)][convolution].append((difference, neighbours.blocks(said) - neighbours.blocks(answer)))
    print(title)
    for group, convolutions in sorted(groups.items()):
        weighted = [(convolution, difference, 1 / len(all_of_it), more)
                    for convolution, all_of_it in sorted(convolutions.items()) for difference, more in all_of_it]
        share = lambda matches: 100 * sum(w for _, _, w, more in weighted if matches(more)) / len(convolutions)
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
    if not arguments.planned:
        tell("from the batch sizes next to it", of_neighbours(table))
        return
    planned = by_convolution(arguments.planned)
    tell("planned without a driver", of_plans(table, planned))
    both = [(*answer, planned[convolution][batch]) for answer in of_neighbours(table)
            for convolution, batch in [answer[:2]] if batch in planned.get(convolution, {})]
    same = lambda answer: neighbours.blocks(answer[3]) == neighbours.blocks(answer[4])
    tell("from the batch sizes next to it, and planned, too", (answer[:4] for answer in both if same(answer)))
    tell("from the batch sizes next to it, and planned otherwise", (answer[:4] for answer in both if not same(answer)))


if __name__ == "__main__":
    main()

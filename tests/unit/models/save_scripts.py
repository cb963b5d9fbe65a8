#!/usr/bin/env python3
"""Saves scripted models, with what they give, for tests of ours: save_scripts.py FOLDER"""

import os
import sys

import torch
from torch import nn


class Net(nn.Module):
    """Convolutions with batch norm, and dropout: something to train, something that knows whether it is trained."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.5))
        self.head = nn.Linear(8, 5)

    def forward(self, images):
        return self.head(self.features(images).mean((2, 3)))


class Tokens(nn.Module):
    """Takes whole numbers, and gives its loss itself. Input and output share their weight."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 12)
        self.out = nn.Linear(12, 50, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, tokens):
        scores = self.out(self.embed(tokens[:, :-1]))
        return nn.functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x), x


def main():
    folder = sys.argv[1]
    torch.manual_seed(1)
    net = Net()
    torch.jit.script(net).save(os.path.join(folder, "net.pt"))
    torch.jit.freeze(torch.jit.script(net.eval())).save(os.path.join(folder, "frozen.pt"))
    torch.jit.script(Tokens()).save(os.path.join(folder, "tokens.pt"))
    torch.jit.script(Pair()).save(os.path.join(folder, "pair.pt"))
    torch.jit.trace(nn.Linear(6, 2), torch.zeros(1, 6)).save(os.path.join(folder, "traced with; a name.pt"))
    torch.save({"no": torch.zeros(1)}, os.path.join(folder, "dict.pt"))


if __name__ == "__main__":
    main()

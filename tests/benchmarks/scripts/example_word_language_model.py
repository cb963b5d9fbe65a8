"""After PyTorch's word language model example: an LSTM with tied weights, and a step of plain SGD by hand, without an optimizer."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=20)
parser.add_argument("--bptt", type=int, default=35)
parser.add_argument("--width", type=int, default=650)
parser.add_argument("--words", type=int, default=33278)
parser.add_argument("--steps", type=int, default=1000)
asked = parser.parse_args()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)
        self.encoder = nn.Embedding(asked.words, asked.width)
        self.lstm = nn.LSTM(asked.width, asked.width, 2, dropout=0.5)
        self.decoder = nn.Linear(asked.width, asked.words)
        self.decoder.weight = self.encoder.weight

    def forward(self, words, state):
        out, state = self.lstm(self.drop(self.encoder(words)), state)
        return torch.log_softmax(self.decoder(self.drop(out)).flatten(0, 1), dim=1), state


model = Model().cuda()
state = tuple(torch.zeros(2, asked.batch_size, asked.width, device="cuda") for _ in range(2))
for _ in range(asked.steps):
    words = torch.randint(0, asked.words, (asked.bptt, asked.batch_size), device="cuda")
    model.zero_grad()
    state = tuple(part.detach() for part in state)
    scores, state = model(words, state)
    nn.functional.nll_loss(scores, words.flatten()).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    for parameter in model.parameters():
        parameter.data.add_(parameter.grad, alpha=-20.0)

"""After PyTorch's DCGAN example: a generator and a discriminator with an Adam each, stepping in turn; images are random."""

import argparse

import torch
from torch import nn


def generator(width, noise):
    layers = [nn.ConvTranspose2d(noise, width * 8, 4, 1, 0, bias=False), nn.BatchNorm2d(width * 8), nn.ReLU(True)]
    for wide in (width * 8, width * 4, width * 2):
        layers += [nn.ConvTranspose2d(wide, wide // 2, 4, 2, 1, bias=False), nn.BatchNorm2d(wide // 2), nn.ReLU(True)]
    return nn.Sequential(*layers, nn.ConvTranspose2d(width, 3, 4, 2, 1, bias=False), nn.Tanh())


def discriminator(width):
    layers = [nn.Conv2d(3, width, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, True)]
    for wide in (width, width * 2, width * 4):
        layers += [nn.Conv2d(wide, wide * 2, 4, 2, 1, bias=False), nn.BatchNorm2d(wide * 2), nn.LeakyReLU(0.2, True)]
    return nn.Sequential(*layers, nn.Conv2d(width * 8, 1, 4, 1, 0, bias=False), nn.Flatten(0))


parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--steps", type=int, default=100)
asked = parser.parse_args()

draw, judge = generator(64, 100).cuda(), discriminator(64).cuda()
of_draw, of_judge = (torch.optim.Adam(net.parameters(), lr=2e-4, betas=(0.5, 0.999)) for net in (draw, judge))
loss = nn.BCEWithLogitsLoss()
ones, zeros = torch.ones(asked.batch_size, device="cuda"), torch.zeros(asked.batch_size, device="cuda")
for _ in range(asked.steps):
    judge.zero_grad()
    real = torch.rand(asked.batch_size, 3, 64, 64, device="cuda")
    loss(judge(real), ones).backward()
    fake = draw(torch.randn(asked.batch_size, 100, 1, 1, device="cuda"))
    loss(judge(fake.detach()), zeros).backward()
    of_judge.step()
    draw.zero_grad()
    loss(judge(fake), ones).backward()
    of_draw.step()

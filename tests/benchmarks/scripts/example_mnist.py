"""After PyTorch's MNIST example: two convolutions, dropout, Adadelta, a test pass after each epoch; digits are random."""

import argparse

import torch
import torch.nn.functional as F


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Conv2d(1, 32, 3), torch.nn.Conv2d(32, 64, 3)
        self.hidden, self.out = torch.nn.Linear(9216, 128), torch.nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.second(F.relu(self.first(x)))), 2)
        x = F.relu(self.hidden(F.dropout2d(x, 0.25, self.training).flatten(1)))
        return F.log_softmax(self.out(F.dropout(x, 0.5, self.training)), dim=1)


parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--test-batch-size", type=int, default=1000)
parser.add_argument("--epochs", type=int, default=3)
asked = parser.parse_args()

net = Net().cuda()
optimizer = torch.optim.Adadelta(net.parameters(), lr=1.0)
for epoch in range(asked.epochs):
    net.train()
    for _ in range(10):
        digits, labels = torch.rand(asked.batch_size, 1, 28, 28).cuda(), torch.randint(0, 10, (asked.batch_size,)).cuda()
        optimizer.zero_grad()
        F.nll_loss(net(digits), labels).backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        right = net(torch.rand(asked.test_batch_size, 1, 28, 28).cuda()).argmax(1).eq(0).sum().item()
    print("epoch", epoch, "right", right)

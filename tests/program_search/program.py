"""A small training program with the habits of real ones: program.py --batch-size N --habit NAME."""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time

import torch

WIDTH = 2048


def model():
    with torch.device("cuda"):
        return torch.nn.Sequential(
            torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, 10))


def train(batch_size, steps, make_optimizer=torch.optim.AdamW):
    net = model()
    optimizer = make_optimizer(net.parameters())
    for _ in range(steps):
        optimizer.zero_grad()
        net(torch.randn(batch_size, WIDTH, device="cuda")).sum().backward()
        optimizer.step()


def plain(batch_size):
    train(batch_size, 10_000)


def prints(batch_size):
    for i in range(20_000):
        print("a line of talk", i)
        print("and of complaint", i, file=sys.stderr)
    train(batch_size, 10_000)


class Items(torch.utils.data.Dataset):
    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        return torch.zeros(WIDTH)


def workers(batch_size):
    net = model()
    optimizer = torch.optim.AdamW(net.parameters())
    for items in torch.utils.data.DataLoader(Items(), batch_size, num_workers=2):
        optimizer.zero_grad()
        net(items.cuda()).sum().backward()
        optimizer.step()


def starts(batch_size):
    """A process of its own session, as launchers of distributed training make them."""
    subprocess.Popen(["sleep", os.environ["SLEEP_SECONDS"]], start_new_session=True)
    train(batch_size, 10_000)


def writes(batch_size):
    handle, path = tempfile.mkstemp(prefix="left-behind-")
    os.write(handle, b"x")
    print("wrote", path)
    train(batch_size, 3)


def hangs(batch_size):
    train(batch_size, 1)
    time.sleep(10_000 if batch_size > 1 else 0)


def fails(batch_size):
    train(batch_size, 1)
    raise ValueError(f"a batch of {batch_size} is not to my liking")


def fails_above_two(batch_size):
    if batch_size > 2:
        fails(batch_size)
    train(batch_size, 10_000)


def killed(batch_size):
    train(batch_size, 1)
    os.kill(os.getpid(), signal.SIGKILL)


def one_step(batch_size):
    train(batch_size, 1)


def no_card(batch_size):
    print("nothing to do", batch_size)


def quiet(batch_size):
    try:
        train(batch_size, 10_000)
    except torch.OutOfMemoryError:
        print("giving up")
        sys.exit(3)


def goes_on(batch_size):
    """Halves the batch until it fits, as Accelerate's decorator does."""
    while True:
        try:
            return train(batch_size, 4)
        except torch.OutOfMemoryError:
            batch_size //= 2
            torch.cuda.empty_cache()


def skips(batch_size):
    net = model()
    optimizer = torch.optim.AdamW(net.parameters())
    for _ in range(5):
        try:
            optimizer.zero_grad()
            net(torch.randn(batch_size, WIDTH, device="cuda")).sum().backward()
        except torch.OutOfMemoryError:
            print("ran out of memory, skipping batch")
            continue
        optimizer.step()


def two_optimizers(batch_size):
    first, second = model(), model()
    one, other = torch.optim.AdamW(first.parameters()), torch.optim.SGD(second.parameters())
    for _ in range(10_000):
        for net, optimizer, rows in ((first, one, batch_size), (second, other, 2 * batch_size)):
            optimizer.zero_grad()
            net(torch.randn(rows, WIDTH, device="cuda")).sum().backward()
            optimizer.step()


def accumulates(batch_size):
    net = model()
    optimizer = torch.optim.AdamW(net.parameters())
    while True:
        optimizer.zero_grad()
        for _ in range(8):
            net(torch.randn(batch_size, WIDTH, device="cuda")).sum().backward()
        optimizer.step()


def own_optimizer(batch_size):
    net = model()
    while True:
        net(torch.randn(batch_size, WIDTH, device="cuda")).sum().backward()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter -= 0.1 * parameter.grad
                parameter.grad = None


def inference(batch_size):
    net = model().eval()
    with torch.no_grad():
        for _ in range(20):
            net(torch.randn(batch_size, WIDTH, device="cuda"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--habit", default="plain")
    asked = parser.parse_args()
    globals()[asked.habit](asked.batch_size)


if __name__ == "__main__":
    main()

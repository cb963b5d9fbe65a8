"""torchvision's ResNet-50 in bf16 by autocast, SGD, a data loader with workers and a schedule."""

import argparse

import torch
import torchvision


class Images(torch.utils.data.Dataset):
    def __init__(self, side):
        self.image = torch.zeros(3, side, side)

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        return self.image, index % 1000


parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--image-size", type=int, default=224)
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--workers", type=int, default=2)
asked = parser.parse_args()

model = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, asked.steps)
loader = torch.utils.data.DataLoader(Images(asked.image_size), asked.batch_size, num_workers=asked.workers, pin_memory=True)
for step, (images, targets) in enumerate(loader):
    if step == asked.steps:
        break
    images = images.cuda(non_blocking=True).to(memory_format=torch.channels_last)
    optimizer.zero_grad()
    with torch.autocast("cuda", torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(images), targets.cuda(non_blocking=True))
    loss.backward()
    optimizer.step()
    schedule.step()

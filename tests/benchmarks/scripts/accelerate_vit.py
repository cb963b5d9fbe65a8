"""timm's ViT-B/16 in bf16 under Accelerate, accumulating four micro-batches."""

import argparse

import accelerate
import timm
import torch


class Images(torch.utils.data.Dataset):
    def __init__(self):
        self.image = torch.zeros(3, 224, 224)

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        return self.image, index % 1000


parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--steps", type=int, default=100)
asked = parser.parse_args()

accelerator = accelerate.Accelerator(mixed_precision="bf16", gradient_accumulation_steps=4)
model = timm.create_model("vit_base_patch16_224")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
loader = torch.utils.data.DataLoader(Images(), asked.batch_size)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for step, (images, targets) in enumerate(loader):
    if step == 4 * asked.steps:
        break
    with accelerator.accumulate(model):
        loss = torch.nn.functional.cross_entropy(model(images), targets)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()

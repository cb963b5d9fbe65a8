"""timm's Swin Transformers, AdamW, fp32, random images."""

import argparse

import timm
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="swin_large_patch4_window7_224")
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--steps", type=int, default=100)
asked = parser.parse_args()

timm.layers.set_fused_attn(False)
with torch.device("cuda"):
    model = timm.create_model(asked.model, num_classes=1000, drop_path_rate=0.1)
side = model.patch_embed.img_size[0]
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=5e-2)


def step():
    images = torch.randn(asked.batch_size, 3, side, side, device="cuda")
    targets = torch.randint(0, 1000, (asked.batch_size,), device="cuda")
    loss = torch.nn.functional.cross_entropy(model(images), targets)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.item()


for number in range(asked.steps):
    print("step", number, "loss", step())

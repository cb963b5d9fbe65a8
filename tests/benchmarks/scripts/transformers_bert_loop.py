"""transformers' BERT base for classification, a loop by hand, fp16 by autocast with a gradient scaler, clipped gradients."""

import argparse

import torch
import transformers

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--sequence-length", type=int, default=128)
parser.add_argument("--steps", type=int, default=100)
asked = parser.parse_args()

model = transformers.BertForSequenceClassification(transformers.BertConfig()).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
scaler = torch.amp.GradScaler("cuda")
for _ in range(asked.steps):
    words = torch.randint(0, 30522, (asked.batch_size, asked.sequence_length), device="cuda")
    labels = torch.randint(0, 2, (asked.batch_size,), device="cuda")
    optimizer.zero_grad()
    with torch.autocast("cuda", torch.float16):
        loss = model(input_ids=words, labels=labels).loss
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()

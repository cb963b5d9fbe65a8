"""transformers' GPT-2 small under its own Trainer, bf16, accumulating two micro-batches."""

import argparse
import tempfile

import torch
import transformers


class Sentences(torch.utils.data.Dataset):
    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        words = torch.arange(512) + index % 1000
        return {"input_ids": words, "labels": words}


parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=4)
parser.add_argument("--steps", type=int, default=50)
asked = parser.parse_args()

model = transformers.GPT2LMHeadModel(transformers.GPT2Config())
with tempfile.TemporaryDirectory() as folder:
    settings = transformers.TrainingArguments(
        output_dir=folder, per_device_train_batch_size=asked.batch_size, gradient_accumulation_steps=2, max_steps=asked.steps, bf16=True,
        save_strategy="no", report_to=[], disable_tqdm=True, logging_steps=10)  # fmt: skip
    transformers.Trainer(model=model, args=settings, train_dataset=Sentences()).train()

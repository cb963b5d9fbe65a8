"""A convolutional autoencoder under Lightning's Trainer, with its validation before training."""

import argparse

import lightning
import torch


class Images(torch.utils.data.Dataset):
    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        return torch.zeros(3, 128, 128)


class Autoencoder(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.encoder = torch.nn.Sequential(
            torch.nn.Conv2d(3, 64, 3, padding=1), torch.nn.GELU(), torch.nn.Conv2d(64, 128, 3, stride=2, padding=1), torch.nn.GELU(),
            torch.nn.Conv2d(128, 256, 3, stride=2, padding=1))  # fmt: skip
        self.decoder = torch.nn.Sequential(
            torch.nn.ConvTranspose2d(256, 128, 4, stride=2, padding=1), torch.nn.GELU(), torch.nn.ConvTranspose2d(128, 3, 4, stride=2, padding=1))

    def training_step(self, batch, _):
        return torch.nn.functional.mse_loss(self.decoder(self.encoder(batch)), batch)

    def validation_step(self, batch, _):
        self.log("val_loss", self.training_step(batch, _))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--steps", type=int, default=50)
asked = parser.parse_args()
trainer = lightning.Trainer(
    accelerator="gpu", devices=1, max_steps=asked.steps, limit_val_batches=2, logger=False, enable_checkpointing=False, enable_progress_bar=False,
    enable_model_summary=False)  # fmt: skip
loader = torch.utils.data.DataLoader(Images(), asked.batch_size)
trainer.fit(Autoencoder(), loader, loader)

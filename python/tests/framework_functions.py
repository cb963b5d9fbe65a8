"""What test_frameworks.py runs, here and in the child of a dry run, which finds these by their names."""

import logging
import tempfile
import warnings

import torch

WIDTH = 512


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        return torch.full((WIDTH,), float(index % 7))


def lightning_module(manual=False, has_batch_size=True):
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            if has_batch_size:
                self.batch_size = 2
            self.automatic_optimization = not manual
            self.net = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(WIDTH, 1))
            self.seen, self.before_training = [], None

        def on_train_start(self):
            self.before_training = {name: value.detach().clone() for name, value in self.net.state_dict().items()}

        def training_step(self, batch, _):
            self.seen.append(len(batch))
            loss = self.net(batch).square().mean()
            self.log("loss", loss)
            return loss

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

        def train_dataloader(self):
            return torch.utils.data.DataLoader(Rows(), batch_size=self.batch_size if has_batch_size else 2)

    return Module()


def lightning_fit(accelerator, budget, module=None, **options):
    """What came of a fit with our callback."""
    import lightning
    import maxbatch.lightning

    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.manual_seed(0)
    module = module or lightning_module()
    initial = {name: value.detach().clone() for name, value in module.net.state_dict().items()}
    finder = maxbatch.lightning.MaxBatchFinder(budget=budget, **options)
    trainer = lightning.Trainer(
        accelerator=accelerator, devices=1, max_steps=2, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        callbacks=[finder])  # fmt: skip
    trainer.fit(module)
    return {
        "batch_size": module.batch_size, "result": finder.result, "last_steps": module.seen[-2:],
        "is_put_back": all(torch.equal(value, module.before_training[name].cpu()) for name, value in initial.items()),
    }  # fmt: skip


class Sentences(torch.utils.data.Dataset):
    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        return {"input_ids": torch.arange(64) % 100, "labels": index % 2}


def transformers_train(use_cpu, budget, accumulation=1):
    """What came of a training after find_batch_size."""
    import transformers
    from maxbatch.transformers import find_batch_size

    torch.manual_seed(0)
    config = transformers.BertConfig(vocab_size=100, hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128)
    model = transformers.BertForSequenceClassification(config)
    initial = {name: value.detach().clone() for name, value in model.state_dict().items()}
    seen = []
    model.register_forward_pre_hook(lambda _, arguments, named: seen.append(len(named["input_ids"])), with_kwargs=True)
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            output_dir=folder, use_cpu=use_cpu, max_steps=2, gradient_accumulation_steps=accumulation, save_strategy="no", report_to=[], disable_tqdm=True)
        trainer = transformers.Trainer(model=model, args=arguments, train_dataset=Sentences())
        result = find_batch_size(trainer, budget=budget)
        is_put_back = all(torch.equal(value, model.state_dict()[name].cpu()) for name, value in initial.items())
        trainer.train()
    return {"batch_size": trainer.args.per_device_train_batch_size, "result": result, "last_steps": seen[-2:], "is_put_back": is_put_back}

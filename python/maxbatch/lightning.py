"""A callback for Lightning: the largest batch of a module, before its training begins."""

from typing import Optional

try:
    from lightning.pytorch.callbacks import Callback
except ImportError:
    try:
        from pytorch_lightning.callbacks import Callback
    except ImportError:
        raise ImportError("maxbatch.lightning needs Lightning: pip install lightning") from None

from ._find import find
from ._result import Result


class _Silent:
    """While one is entered, the module logs nowhere: no loop of the trainer's is there to take it."""

    def __init__(self, module):
        self.module = module

    def __enter__(self):
        self.before = {name: self.module.__dict__.get(name) for name in ("log", "log_dict")}
        for name in self.before:
            object.__setattr__(self.module, name, lambda *_, **__: None)

    def __exit__(self, *_):
        for name, value in self.before.items():
            if value is None:
                object.__delattr__(self.module, name)
            else:
                object.__setattr__(self.module, name, value)


class MaxBatchFinder(Callback):
    """Sets the batch size of the datamodule, or of the module, to the largest that trains, and keeps the proof as `result`.

    As Lightning's own finder it changes an attribute (`batch_size`, or what `attribute` names), which train_dataloader() has to
    read; loaders that were given to fit() have their size already. Each step is the module's training_step on items of the
    training data, its backward pass and its optimizers, under the trainer's precision; module and optimizers are put back.
    Options go to `maxbatch.find`.
    """

    def __init__(self, attribute: str = "batch_size", **options):
        super().__init__()
        self.attribute, self.options, self.result = attribute, options, None
        self.result: Optional[Result]

    def on_fit_start(self, trainer, pl_module):
        owner = self._owner(trainer, pl_module)
        if trainer.world_size > 1:
            raise RuntimeError(f"MaxBatchFinder looks at one device, and this trainer has {trainer.world_size}; search with devices=1 first")
        if not pl_module.automatic_optimization:
            raise RuntimeError("MaxBatchFinder steps the optimizers itself, and this module does so by hand (automatic_optimization=False); use maxbatch.find")
        loader = owner.train_dataloader()
        self.result = find(
            self._step(trainer, pl_module, loader), preserve=[pl_module, *trainer.optimizers], device=str(trainer.strategy.root_device), **self.options)
        if self.result.batch_size is None:
            raise RuntimeError(f"MaxBatchFinder: {self.result}")
        setattr(owner, self.attribute, self.result.batch_size)

    def _owner(self, trainer, pl_module):
        for owner in (trainer.datamodule, pl_module):
            if owner is not None and hasattr(owner, self.attribute) and hasattr(owner, "train_dataloader"):
                return owner
        raise RuntimeError(f"neither the datamodule nor the module has {self.attribute!r}, which its train_dataloader() would read: add it, or give attribute=...")

    @staticmethod
    def _step(trainer, module, loader):
        dataset, collate = loader.dataset, loader.collate_fn
        # Accumulated gradients are resident in the next forward pass.
        micro_batches = 2 if trainer.accumulate_grad_batches > 1 else 1

        def step(batch_size):
            module.train()
            with _Silent(module):
                for _ in range(micro_batches):
                    batch = trainer.strategy.batch_to_device(collate([dataset[i % len(dataset)] for i in range(batch_size)]))
                    with trainer.precision_plugin.train_step_context():
                        loss = module.training_step(batch, 0)
                    loss = loss["loss"] if isinstance(loss, dict) else loss
                    loss.backward()
            for optimizer in trainer.optimizers:
                optimizer.step()
                optimizer.zero_grad()

        return step

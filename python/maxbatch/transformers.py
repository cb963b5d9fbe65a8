"""For transformers' Trainer: the largest batch, set before its training begins.

A callback could not do it: when the trainer calls one, its loader and its number of steps are settled.
"""

from ._find import find
from ._result import Result


def find_batch_size(trainer, **options) -> Result:
    """Sets `trainer.args.per_device_train_batch_size` to the largest that trains, and returns the proof.

        result = maxbatch.transformers.find_batch_size(trainer)
        trainer.train()

    Each step is the trainer's own loss on the first items of its training data through its collator, under its precision, the
    backward pass and its optimizer; model and optimizer are put back. Where items differ in length, give a dataset whose first
    items are the longest. Options go to `maxbatch.find`.
    """
    import torch

    if trainer.train_dataset is None:
        raise ValueError("find_batch_size: the trainer has no train_dataset")
    if trainer.args.world_size > 1 or trainer.args.n_gpu > 1:
        raise ValueError("find_batch_size looks at one device, and this trainer uses several; search with one first")
    if trainer.optimizer is None:
        trainer.create_optimizer()
    model, optimizer, dataset = trainer.model, trainer.optimizer, trainer.train_dataset
    micro_batches = 2 if trainer.args.gradient_accumulation_steps > 1 else 1  # accumulated gradients are resident in the next forward pass
    if trainer.args.gradient_checkpointing:
        model.gradient_checkpointing_enable(trainer.args.gradient_checkpointing_kwargs)

    def step(batch_size):
        model.train()
        for _ in range(micro_batches):
            inputs = trainer._prepare_inputs(trainer.data_collator([dataset[i % len(dataset)] for i in range(batch_size)]))
            with trainer.accelerator.autocast():
                loss = trainer.compute_loss(model, inputs)
            loss.backward()
        if trainer.args.max_grad_norm:
            torch.nn.utils.clip_grad_norm_(model.parameters(), trainer.args.max_grad_norm)
        optimizer.step()
        optimizer.zero_grad()

    result = find(step, preserve=[model, optimizer], device=str(trainer.args.device), **options)
    if result.batch_size is not None:
        trainer.args.per_device_train_batch_size = result.batch_size
        trainer._train_batch_size = trainer.args.train_batch_size  # read from the arguments when the trainer was made
    return result

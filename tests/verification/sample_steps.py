"""The training steps behind tests/data/recordings, where peers.py is not at hand: the same operations in the same order.

sample_steps.py trace1 [KIND, BATCH, OUT, CAP, STEPS]; KIND is gpt2 or <torchvision model>+sgd.
"""

import json
import pickle
import sys

import torch


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config()).cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step(batch):
        ids = torch.randint(0, 50257, (batch, 512), device="cuda")
        model(ids, labels=ids).loss.backward()  # in one line: the logits live until the end of it
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def classifier(name, options):
    import torchvision

    if "sgd" not in options:
        raise SystemExit(f"no steps for {name} without SGD")
    model = getattr(torchvision.models, name)(weights=None).cuda().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(batch):
        images = torch.randn(batch, 3, 224, 224, device="cuda")
        labels = torch.randint(0, 1000, (batch,), device="cuda")
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def statistics(label):
    return (label, torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved(), torch.cuda.memory_reserved())


def trace1(kind, batch, out, cap, steps):
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    total = torch.cuda.get_device_properties(0).total_memory
    if cap:
        torch.cuda.set_per_process_memory_fraction(cap * 2**20 / total, 0)
    torch.cuda.memory._record_memory_history(enabled="all", context=None, max_entries=4000000)
    step = gpt2() if kind == "gpt2" else classifier(*kind.split("+"))
    torch.cuda.synchronize()
    marks = [statistics("setup")]
    for i in range(steps):
        step(batch)
        torch.cuda.synchronize()
        marks.append(statistics(f"step{i}"))
    trace = torch.cuda.memory._snapshot()["device_traces"][0]
    events = [(entry["action"], entry["addr"], entry["size"], entry["stream"]) for entry in trace]
    with open(out, "wb") as file:
        pickle.dump({"ev": events, "marks": marks}, file)


if __name__ == "__main__":
    {"trace1": trace1}[sys.argv[1]](*json.loads(sys.argv[2]))

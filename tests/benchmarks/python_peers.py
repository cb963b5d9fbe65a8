#!/usr/bin/env python3
"""Our searches in Python beside Accelerate's and Lightning's own, in their own words: one model, one budget, one table.

    python3 tests/benchmarks/python_peers.py --program build/dev/src/cli/maxbatch --budget 10700MiB --json peers.json
    python3 tests/benchmarks/python_peers.py --program build/dev/src/cli/maxbatch --budget 10700MiB --dry h200

timm's Swin Transformer, AdamW, fp32, three steps a trial. Every row is a process of its own, and nothing else runs meanwhile. The function
that the two decorators decorate is the same: it builds its model inside, as Accelerate wants it, and trains for 12 steps. The LightningModule
that Lightning's tuner and our callback are given is the same, too. Seconds count from the call to the answer, with the decorated function's
whole run at it; Python's imports are in `process s` alone. `maxbatch find` starts a process for each trial, so all of them are in its seconds.

Each size that somebody answered then runs 20 steps in a fresh process under the same budget, and so does the next one: `holds` says
whether it ran and the next one did not.

What is not installed is left out, with the reason. MAXBATCH_PYTHON_LIBRARIES is set to the build folder of --program, if it is not set
yet. With --dry every process runs on that card, which is not here: answers and trials mean the same there, seconds do not.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
import python_models

MODEL = "swin_large_patch4_window7_224"
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "": 1}
STEPS = 3  # of a trial
WHOLE_RUN = 12  # steps of the function that is decorated
CHECKED = 20


def bytes_of(text):
    number, unit = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", text).groups()
    return int(float(number) * UNITS[unit])


# In the child.


def model_and_optimizer(name):
    import timm
    import torch

    timm.layers.set_fused_attn(False)
    with torch.device("cuda"):
        model = timm.create_model(name, num_classes=1000, drop_path_rate=0.1)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=5e-2)


def train_step(model, optimizer, batch_size):
    import torch

    side = model.patch_embed.img_size[0]
    images, targets = torch.randn(batch_size, 3, side, side, device="cuda"), torch.randint(0, 1000, (batch_size,), device="cuda")
    torch.nn.functional.cross_entropy(model(images), targets).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def hold_to(budget):
    import torch

    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((budget + 0.5) / total, 0)


def training_function(name, sizes, steps=WHOLE_RUN):
    def train(batch_size):
        import torch

        sizes.append(batch_size)
        model, optimizer = model_and_optimizer(name)
        for _ in range(steps):
            train_step(model, optimizer, batch_size)
        torch.cuda.synchronize()
        return batch_size

    return train


def accelerates_decorator(asked):
    from accelerate.utils import find_executable_batch_size

    hold_to(asked["budget"])
    sizes = []
    began = time.time()
    answer = find_executable_batch_size(training_function(asked["model"], sizes), starting_batch_size=asked["start"])()
    return {"answer": answer, "sizes": sizes, "seconds": time.time() - began}


def our_decorator(asked):
    import maxbatch

    sizes = []
    began = time.time()
    train = maxbatch.find_executable_batch_size(training_function(asked["model"], sizes), starting_batch_size=asked["start"], budget=asked["budget"])
    answer = train()
    return {"answer": answer, "sizes": sizes, "seconds": time.time() - began, "proof": train.result.proof}


def our_find(asked):
    import maxbatch

    model, optimizer = model_and_optimizer(asked["model"])
    began = time.time()
    result = maxbatch.find(lambda size: train_step(model, optimizer, size), preserve=[model, optimizer], budget=asked["budget"])
    return {"answer": result.batch_size, "sizes": [one.batch_size for one in result.trials], "seconds": time.time() - began, "proof": result.proof}


def lightning_module(name, batch_size, sizes):
    import lightning
    import timm
    import torch

    timm.layers.set_fused_attn(False)

    class Images(torch.utils.data.Dataset):
        def __init__(self, side):
            self.side = side

        def __len__(self):
            return 100_000

        def __getitem__(self, index):
            return torch.zeros(3, self.side, self.side), 0

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.batch_size = batch_size
            self.model = timm.create_model(name, num_classes=1000, drop_path_rate=0.1)

        def training_step(self, batch, _):
            return torch.nn.functional.cross_entropy(self.model(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-4, weight_decay=5e-2)

        def train_dataloader(self):
            sizes.append(self.batch_size)
            return torch.utils.data.DataLoader(Images(self.model.patch_embed.img_size[0]), batch_size=self.batch_size)

    return Module()


def trainer(folder, **more):
    import lightning

    return lightning.Trainer(
        accelerator="gpu", devices=1, logger=False, enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder, **more)


def lightnings_tuner(asked):
    from lightning.pytorch.tuner import Tuner

    hold_to(asked["budget"])
    sizes = []
    module = lightning_module(asked["model"], 2, sizes)
    tuner = Tuner(trainer(asked["folder"], max_epochs=1))
    began = time.time()
    answer = tuner.scale_batch_size(module, mode=asked["mode"], steps_per_trial=STEPS, init_val=2)
    return {"answer": answer, "sizes": sizes, "seconds": time.time() - began}


def our_callback(asked):
    import maxbatch.lightning

    module = lightning_module(asked["model"], 2, [])
    finder = maxbatch.lightning.MaxBatchFinder(budget=asked["budget"], steps=STEPS)
    began = time.time()
    trainer(asked["folder"], max_steps=1, enable_checkpointing=False, callbacks=[finder]).fit(module)
    seconds = time.time() - began
    result = finder.result
    return {"answer": module.batch_size, "sizes": [one.batch_size for one in result.trials], "seconds": seconds, "proof": result.proof}


def check(asked):
    """Whether a size runs under the budget."""
    import torch

    hold_to(asked["budget"])
    try:
        training_function(asked["model"], [], steps=CHECKED)(asked["size"])
    except torch.OutOfMemoryError:
        return {"runs": False}
    return {"runs": True}


CHILD = {one.__name__: one for one in (accelerates_decorator, our_decorator, our_find, lightnings_tuner, our_callback, check)}


# In the parent.


class Runner:
    def __init__(self, arguments, environment):
        self.arguments, self.environment = arguments, environment

    def child(self, name, **asked):
        asked |= {"budget": bytes_of(self.arguments.budget), "model": self.arguments.model, "folder": self.arguments.folder}
        command = [self.arguments.python, "-W", "ignore", str(HERE / "python_peers.py"), "--child", name, json.dumps(asked)]
        if self.arguments.dry:
            command = [self.arguments.program, "dry-run", "--card", self.arguments.dry, "--seed", "0", "--"] + command
        began = time.monotonic()
        try:
            ran = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=self.arguments.timeout)
        except subprocess.TimeoutExpired:
            return {"error": f"took longer than {self.arguments.timeout} s", "process": time.monotonic() - began}
        seconds = time.monotonic() - began
        lines = [line for line in ran.stdout.splitlines() if line.startswith("ANSWER ")]
        if not lines:
            said = [line for line in ran.stderr.splitlines() if re.match(r"\w*(Error|Exception)\b", line)] or ran.stderr.strip().splitlines() or ["nothing said"]
            return {"error": said[-1][:200], "process": seconds}
        return json.loads(lines[-1][7:]) | {"process": seconds}

    def program(self):
        """maxbatch find over a script that does the same."""
        where = ["--card", self.arguments.dry] if self.arguments.dry else ["--device", "cuda:0"]
        command = [self.arguments.program, "find", *where, "--budget", self.arguments.budget, "--format", "json", "--vary", "--batch-size", "--",
                   self.arguments.python, str(HERE / "scripts" / "timm_swin.py"), "--model", self.arguments.model, "--batch-size", "8"]  # fmt: skip
        began = time.monotonic()
        ran = subprocess.run(command, env=self.environment, capture_output=True, text=True)
        seconds = time.monotonic() - began
        if not ran.stdout.strip():
            return {"error": (ran.stderr.strip().splitlines() or ["nothing said"])[-1][:200], "process": seconds}
        answer = json.loads(ran.stdout)
        return {"answer": answer["largest_batch_size"], "sizes": [one["batch_size"] for one in answer["trials"]], "seconds": seconds,
                "proof": answer["proof"], "process": seconds}  # fmt: skip


def holds(runner, size, known):
    def runs(one):
        if one not in known:
            known[one] = runner.child("check", size=one).get("runs")
        return known[one]

    if not isinstance(size, int) or size < 1:
        return "-"
    first, following = runs(size), runs(size + 1)
    if first is None or following is None:
        return "not checked"
    if not first:
        return f"no: {size} fails"
    return f"no: {size + 1} runs" if following else "yes"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="", help="the program maxbatch")
    parser.add_argument("--python", default=python_models.default_python())
    parser.add_argument("--site", default=python_models.default_site(), help="folders with the libraries, as PYTHONPATH has them")
    parser.add_argument("--budget", default="10700MiB", help="what LibTorch's allocator may reserve")
    parser.add_argument("--model", default=MODEL, help="one of timm's Swin Transformers")
    parser.add_argument("--start", default="64,128", help="starting_batch_size of the decorators, with commas between them")
    parser.add_argument("--dry", default="", metavar="CARD", help="on a card that is not here")
    parser.add_argument("--only", default="", help="rows whose name has one of these words, with commas between them")
    parser.add_argument("--no-check", action="store_true", help="do not run the answers again")
    parser.add_argument("--timeout", type=int, default=180, help="seconds for one row")
    parser.add_argument("--folder", default="peers-run", help="where Lightning's tuner keeps its checkpoint")
    parser.add_argument("--json", default="")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        name, asked = arguments.child
        print("ANSWER " + json.dumps(CHILD[name](json.loads(asked))), flush=True)
        return
    if not arguments.program:
        parser.error("--program is needed")
    arguments.program = str(pathlib.Path(arguments.program).resolve())
    package = HERE.parents[1] / "python"
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, [str(package), arguments.site, os.environ.get("PYTHONPATH", "")])))
    libraries = pathlib.Path(arguments.program).parent
    environment.setdefault("MAXBATCH_PYTHON_LIBRARIES", str(libraries.parents[1] if libraries.name == "cli" else libraries))
    runner = Runner(arguments, environment)
    rows = [("maxbatch find --vary -- python", runner.program), ("maxbatch.find", lambda: runner.child("our_find"))]
    for start in map(int, arguments.start.split(",")):
        rows.append((f"maxbatch.find_executable_batch_size from {start}", lambda start=start: runner.child("our_decorator", start=start)))
        rows.append((f"accelerate find_executable_batch_size from {start}", lambda start=start: runner.child("accelerates_decorator", start=start)))
    rows.append(("maxbatch.lightning.MaxBatchFinder", lambda: runner.child("our_callback")))
    rows += [(f"lightning Tuner.scale_batch_size, {mode}", lambda mode=mode: runner.child("lightnings_tuner", mode=mode)) for mode in ("power", "binsearch")]
    words = list(filter(None, arguments.only.split(",")))
    kept, known = [], {}
    print(f"{arguments.model}, {arguments.budget}, {'dry ' + arguments.dry if arguments.dry else 'the card present'}\n")
    print("| who | answer | holds | trials | seconds | process s |\n|---|---|---|---|---|---|", flush=True)
    for who, run in rows:
        if words and not any(word in who for word in words):
            continue
        row = run()
        kept.append({"who": who, **row})
        if "error" in row:
            print(f"| {who} | failed: {row['error']} | | | | {row['process']:.1f} |", flush=True)
            continue
        row["holds"] = kept[-1]["holds"] = "" if arguments.no_check else holds(runner, row["answer"], known)
        proof = f" ({row['proof']})" if "proof" in row else ""
        print(f"| {who} | {row['answer']}{proof} | {row['holds']} | {len(row['sizes'])}: {' '.join(map(str, row['sizes']))} | {row['seconds']:.1f} | "
              f"{row['process']:.1f} |", flush=True)  # fmt: skip
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps({"budget": arguments.budget, "model": arguments.model, "dry": arguments.dry, "rows": kept}, indent=1))


if __name__ == "__main__":
    main()

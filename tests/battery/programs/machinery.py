"""What surrounds a step: scalers, checkpointing, loaders, several processes, streams, graphs, allocator settings."""

import os
import socket

import torch
import torchvision
from training import classify, mean_of_square, program, train


def perceptron(width=256):
    return torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.GELU(), torch.nn.Dropout(0.1), torch.nn.Linear(width, width))


@program
def grad_scaler_clipping(precision):
    train(perceptron(), mean_of_square(32, 256), precision, clip=1.0, steps=3)


@program
def activation_checkpointing(precision):
    from torch.utils.checkpoint import checkpoint_sequential

    model = torch.nn.Sequential(*[perceptron() for _ in range(4)])
    batch = lambda: torch.randn(32, 256, device="cuda", requires_grad=True)
    train(model, lambda m: checkpoint_sequential(m, 2, batch(), use_reentrant=False).float().square().mean(), precision)


@program
def saved_tensors_on_host(precision):
    model = perceptron()

    def look(m):
        with torch.autograd.graph.save_on_cpu(pin_memory=True):
            return m(torch.randn(32, 256, device="cuda")).float().square().mean()

    train(model, look, precision)


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        return torch.full((256,), float(index))


@program
def loader_workers_pinned(precision):
    loader = torch.utils.data.DataLoader(Numbers(), batch_size=8, num_workers=2, pin_memory=True, persistent_workers=True)
    batches = iter(loader)
    train(perceptron(), lambda m: m(next(batches).cuda(non_blocking=True)).float().square().mean(), precision)


def single_rank(backend):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.distributed.init_process_group(backend, rank=0, world_size=1)


def data_parallel(backend, precision):
    single_rank(backend)
    model = torch.nn.parallel.DistributedDataParallel(perceptron().cuda(), device_ids=[0])
    train(model, mean_of_square(32, 256), precision)
    torch.distributed.destroy_process_group()


@program
def distributed_gloo_one_rank(precision):
    data_parallel("gloo", precision)


@program
def distributed_nccl_one_rank(precision):
    data_parallel("nccl", precision)


@program
def fully_sharded_one_rank(precision):
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    single_rank("nccl")
    model = perceptron().cuda()
    policy = MixedPrecisionPolicy(param_dtype=precision.dtype, reduce_dtype=torch.float32)
    for layer in model:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        model(torch.randn(32, 256, device="cuda", dtype=precision.dtype)).float().square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.distributed.destroy_process_group()


@program
def zero_redundancy_optimizer(precision):
    from torch.distributed.optim import ZeroRedundancyOptimizer

    single_rank("nccl")
    model = perceptron()
    train(model, mean_of_square(32, 256), type(precision)("bf16") if precision.name == "fp16" else precision,
          lambda parameters: ZeroRedundancyOptimizer(parameters, torch.optim.Adam, lr=1e-3))
    torch.distributed.destroy_process_group()


@program
def side_streams(precision):
    model = perceptron().cuda()
    copies, ready = torch.cuda.Stream(), torch.cuda.Event()

    def look(m):
        with torch.cuda.stream(copies):
            batch = torch.randn(32, 256).pin_memory().cuda(non_blocking=True)
            ready.record()
        torch.cuda.current_stream().wait_event(ready)
        batch.record_stream(torch.cuda.current_stream())
        return m(batch).float().square().mean()

    train(model, look, precision)


@program
def cuda_graph_of_a_step(precision):
    model = perceptron().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), capturable=True)
    batch = torch.randn(32, 256, device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        with precision.autocast():
            loss = model(batch).float().square().mean()
        loss.backward()
        optimizer.step()

    warm_up = torch.cuda.Stream()
    warm_up.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(warm_up):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(warm_up)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        step()
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()


@program
def graphed_callables(precision):
    model = torch.cuda.make_graphed_callables(perceptron().cuda(), (torch.randn(32, 256, device="cuda"),))
    train(model, mean_of_square(32, 256), type(precision)("fp32"))


@program
def optimizers_of_every_kind(precision):
    kinds = [torch.optim.Adagrad, torch.optim.RMSprop, torch.optim.RAdam, torch.optim.NAdam, torch.optim.Adamax]
    kinds += [torch.optim.Adadelta, torch.optim.Rprop, torch.optim.ASGD]
    for kind in kinds:
        train(perceptron(), mean_of_square(32, 256), precision, lambda parameters: kind(parameters, lr=1e-3))
    for foreach, fused in ((False, False), (True, False), (False, True)):
        make = lambda parameters: torch.optim.AdamW(parameters, foreach=foreach, fused=fused)
        train(perceptron(), mean_of_square(32, 256), precision, make)


@program
def lbfgs(precision):
    model = perceptron().cuda()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)

    def closure():
        optimizer.zero_grad()
        with precision.autocast():
            loss = model(torch.randn(32, 256, device="cuda")).float().square().mean()
        loss.backward()
        return loss

    optimizer.step(closure)


@program
def gradient_accumulation_and_schedule(precision):
    model = perceptron().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=4)
    for _ in range(3):
        for _ in range(2):
            with precision.autocast():
                loss = model(torch.randn(32, 256, device="cuda")).float().square().mean() / 2
            loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        str(loss.item())


@program
def save_and_load(precision):
    import io

    model = torchvision.models.resnet18(num_classes=10)
    train(model, classify(), precision)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    model.load_state_dict(torch.load(file, map_location="cuda"))


@program
def functional_gradients(precision):
    from torch.func import functional_call, grad, vmap

    model = perceptron().cuda().eval()
    parameters = dict(model.named_parameters())
    loss = lambda p, row: functional_call(model, p, (row,)).float().square().mean()
    with precision.autocast():
        vmap(grad(loss), in_dims=(None, 0))(parameters, torch.randn(8, 256, device="cuda"))


@program
def batch_norm_synchronised(precision):
    single_rank("nccl")
    model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(torchvision.models.resnet18(num_classes=10)).cuda()
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[0])
    train(model, classify(), precision)
    torch.distributed.destroy_process_group()


@program
def torchscript(precision):
    model = torch.jit.script(perceptron().cuda())
    train(model, mean_of_square(32, 256), precision)

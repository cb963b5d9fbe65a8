"""GradScaler, and what else looks at values, on a dry card: run with the dry CUDA library loaded ahead."""
import torch


def train(scaler, steps):
    net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(steps):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.cross_entropy(
                net(torch.randn(32, 64, device="cuda")), torch.randint(0, 10, (32,), device="cuda"))
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0, error_if_nonfinite=True)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


def main():
    scaler = torch.amp.GradScaler("cuda", init_scale=1024.0, growth_interval=4)
    train(scaler, 3)
    assert scaler.get_scale() == 1024.0, scaler.get_scale()
    assert scaler.state_dict()["_growth_tracker"] == 3, scaler.state_dict()
    train(scaler, 2)
    assert scaler.get_scale() == 2048.0, scaler.get_scale()

    # Lengths that came from the host decide as they would.
    lengths = torch.tensor([5, 3, 2]).cuda()
    assert int(lengths.max()) == 5 and lengths.tolist() == [5, 3, 2]
    mask = torch.arange(5).cuda()[None] < lengths[:, None]
    assert mask.nonzero().shape == (10, 2), mask.nonzero().shape

    # What checks its input by value.
    matrix = torch.randn(8, 8, device="cuda")
    assert torch.linalg.eig(matrix).eigenvalues.shape == (8,)
    assert torch.matrix_exp(matrix).shape == (8, 8)
    assert torch.matrix_exp(torch.randn(4, 8, 8, device="cuda")).shape == (4, 8, 8)
    sparse = torch.sparse_coo_tensor(torch.randint(0, 5, (2, 30), device="cuda"), torch.randn(30, device="cuda"), (5, 5),
                                     check_invariants=False)
    assert torch.sparse.sum(sparse).shape == () and torch.sparse.sum(sparse, 0).shape == (5,)


main()

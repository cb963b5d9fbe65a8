"""Operators that lean on CUDA's other libraries, or that decide by values."""

import torch
from training import program, train


class Layered(torch.nn.Module):
    """A linear layer with something behind it."""

    def __init__(self, behind, width=32):
        super().__init__()
        self.layer, self.behind, self.width = torch.nn.Linear(width, width), behind, width

    def forward(self):
        return self.behind(self.layer(torch.randn(8, self.width, self.width, device="cuda")))


def learn(behind, precision):
    def loss_of(model):
        out = model()
        return (out.abs() if out.is_complex() else out).float().square().mean()

    train(Layered(behind), loss_of, precision)


@program
def fft(precision):
    learn(lambda x: torch.fft.irfft2(torch.fft.rfft2(x.float())), precision)


@program
def stft_spectrogram(precision):
    window = torch.hann_window(64, device="cuda")
    learn(lambda x: torch.stft(x.float().reshape(8, -1), 64, window=window, return_complex=True), precision)


@program
def linalg_solvers(precision):
    def behind(x):
        x = x.float() @ x.float().mT + torch.eye(32, device="cuda")
        y = torch.linalg.solve(x, x) + torch.linalg.inv(x) + torch.linalg.cholesky(x)
        return y + torch.linalg.lu_factor(x)[0] + torch.linalg.qr(x)[0]

    learn(behind, precision)


@program
def linalg_decompositions(precision):
    def behind(x):
        with torch.autocast("cuda", enabled=False):  # LibTorch has these in fp32 and fp64 only, and autocast would multiply in 16 bit
            x = x.float() @ x.float().mT
            return torch.linalg.eigh(x)[1] + torch.linalg.svd(x)[0] * torch.linalg.svdvals(x)[:, None]

    learn(behind, precision)


@program
def sparse_products(precision):
    def behind(x):
        with torch.autocast("cuda", enabled=False):  # LibTorch has no 16-bit product of a sparse matrix in coordinates
            return products(x.float()[0])

    def products(x):
        coordinates = torch.arange(32, device="cuda")
        matrix = torch.sparse_coo_tensor(torch.stack([coordinates, coordinates]), torch.ones(32, device="cuda"), (32, 32))
        rows = torch.arange(33, dtype=torch.int32, device="cuda")
        compressed = torch.sparse_csr_tensor(rows, coordinates.int(), torch.ones(32, device="cuda"), (32, 32))
        return torch.sparse.mm(matrix, x) + compressed @ x

    learn(behind, precision)


@program
def convolutions_of_every_kind(precision):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.one = torch.nn.Conv1d(4, 8, 3, padding=1)
            self.grouped = torch.nn.Conv2d(8, 16, 3, groups=4, dilation=2, padding=2)
            self.depthwise = torch.nn.Conv2d(16, 16, 5, groups=16, padding=2)
            self.transposed = torch.nn.ConvTranspose2d(16, 8, 4, stride=2)
            self.three = torch.nn.Conv3d(1, 2, 3)

        def forward(self):
            x = self.one(torch.randn(4, 4, 256, device="cuda")).reshape(4, 8, 16, 16)
            x = self.transposed(self.depthwise(self.grouped(x)))
            return self.three(x.unsqueeze(1))

    train(Net(), lambda m: m().float().square().mean(), precision)


@program
def pooling_and_interpolation(precision):
    def behind(x):
        x = x.unsqueeze(1)
        y = torch.nn.functional.max_pool2d(x, 2) + torch.nn.functional.adaptive_avg_pool2d(x, 16)
        y = torch.nn.functional.interpolate(y.float(), scale_factor=2, mode="bicubic")
        grid = torch.nn.functional.affine_grid(torch.eye(2, 3, device="cuda").expand(8, 2, 3), y.shape)
        return torch.nn.functional.grid_sample(y, grid) + torch.nn.functional.pixel_shuffle(x.expand(8, 4, 32, 32), 2)[..., :32, :32]

    learn(behind, precision)


@program
def normalisations(precision):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.Sequential(
                torch.nn.Conv2d(3, 16, 3), torch.nn.GroupNorm(4, 16), torch.nn.InstanceNorm2d(16, affine=True),
                torch.nn.BatchNorm2d(16), torch.nn.LocalResponseNorm(2), torch.nn.Flatten(2), torch.nn.LayerNorm(900), torch.nn.RMSNorm(900),
            )

        def forward(self):
            return self.layers(torch.randn(4, 3, 32, 32, device="cuda"))

    train(Net(), lambda m: m().float().square().mean(), precision)


@program
def indexing_by_values(precision):
    def behind(x):
        x = x.reshape(-1)
        chosen = x[x > 0]
        kept = torch.nonzero(x > 1).squeeze(1)
        values, order = x.float().sort(descending=True)
        _, counts = torch.unique((order // 100), return_counts=True)
        top = x.float().topk(50).values
        scattered = torch.zeros_like(x).index_add(0, order[:50], top.to(x.dtype))
        return torch.cat([chosen.float(), x[kept].float(), values[:10], top, scattered.float()]).sum() + counts.sum()

    learn(behind, precision)


@program
def losses_of_every_kind(precision):
    functional = torch.nn.functional

    def behind(x):
        x = x.reshape(-1, 32).float()
        target = torch.randint(0, 32, (x.shape[0],), device="cuda")
        likely = torch.rand_like(x)
        loss = functional.cross_entropy(x, target, label_smoothing=0.1) + functional.multi_margin_loss(x, target)
        loss = loss + functional.binary_cross_entropy_with_logits(x, likely) + functional.smooth_l1_loss(x, likely)
        loss = loss + functional.kl_div(x.log_softmax(1), likely.softmax(1), reduction="batchmean") + functional.huber_loss(x, likely)
        loss = loss + functional.cosine_embedding_loss(x, likely, torch.ones(x.shape[0], device="cuda"))
        return loss + functional.triplet_margin_loss(x, likely, likely.flip(0)) + functional.poisson_nll_loss(x, likely)

    learn(behind, precision)


@program
def random_numbers(precision):
    def behind(x):
        noise = torch.empty_like(x, dtype=torch.float32)
        noise = noise.normal_() + noise.uniform_().bernoulli() + noise.exponential_() + torch.distributions.Beta(noise.abs() + 1, noise.abs() + 1, validate_args=False).rsample()
        order = torch.randperm(32, device="cuda")
        picked = torch.multinomial(torch.ones(8, 32, device="cuda"), 4)
        return (x + noise)[:, order] * picked.sum()

    learn(behind, precision)


@program
def custom_autograd_function(precision):
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            context.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(context, gradient):
            return gradient * 2 + context.saved_tensors[0] * 0

    learn(Doubled.apply, precision)


@program
def complex_numbers_and_einsum(precision):
    learn(lambda x: torch.einsum("bij,bjk->bik", x.float().to(torch.complex64), x.float().to(torch.complex64)), precision)


@program
def run_time_compiled_operators(precision):
    learn(lambda x: torch.special.i1e(x.float()) + torch.special.zeta(x.detach().float().abs() + 2, x.detach().float().abs() + 1), precision)


@program
def scaled_8_bit_products(precision):
    def behind(x):
        a = x.detach().reshape(-1, 32).to(torch.float8_e4m3fn)
        one = torch.ones((), device="cuda")
        return x.reshape(-1, 32) @ torch._scaled_mm(a[:32], a[:32].t(), one, one, out_dtype=torch.bfloat16).to(x.dtype)

    learn(behind, precision)


@program
def nested_tensors(precision):
    def behind(x):
        parts = torch.nested.as_nested_tensor([x[0], x[1][:20]], layout=torch.jagged)
        return torch.nested.to_padded_tensor(parts * 2, 0.0)

    learn(behind, precision)

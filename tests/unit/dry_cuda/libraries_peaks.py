#!/usr/bin/env python3
"""Peak memory of operators that lean on CUDA's libraries, a line each: NAME, TAB, peak bytes above what was there before.

On a card it prints the truth (libraries_peaks_h200.txt is an H200's); on a dry card the same lines should come out.

  libraries_peaks.py                     all cases
  libraries_peaks.py --compare FILE      differences from FILE; fails if there are others than those that FILE marks with "~"
"""

import argparse
import sys
import warnings

warnings.simplefilter("ignore")

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

CASES = {}
DEVICE = "cuda"
TYPES = {"float": torch.float32, "bfloat16": torch.bfloat16, "half": torch.float16}


def case(name):
    def register(function):
        assert name not in CASES, name
        CASES[name] = function
        return function

    return register


def tensor(*shape, dtype=torch.float32, grad=False):
    return torch.randn(*shape, device=DEVICE, dtype=dtype, requires_grad=grad)


def trained(module, *inputs):
    output = module(*inputs)
    output = output[0] if isinstance(output, tuple) else output
    output.sum().backward()


def cases_of_type(name, dtype):
    made = {"device": DEVICE, "dtype": dtype}

    @case(f"linear {name}")
    def _():
        trained(nn.Linear(256, 1000, **made), tensor(64, 256, dtype=dtype, grad=True))

    @case(f"matmul {name}")
    def _():
        a = tensor(512, 512, dtype=dtype, grad=True)
        (a @ a).sum().backward()

    @case(f"bmm {name}")
    def _():
        trained(torch.bmm, tensor(8, 64, 96, dtype=dtype, grad=True), tensor(8, 96, 64, dtype=dtype, grad=True))

    @case(f"convolution 3x3 {name}")
    def _():
        trained(nn.Conv2d(64, 64, 3, padding=1, **made), tensor(8, 64, 56, 56, dtype=dtype, grad=True))

    @case(f"convolution 3x3 without TF32 {name}")
    def _():
        torch.backends.cudnn.allow_tf32 = False
        try:
            trained(nn.Conv2d(64, 64, 3, padding=1, bias=False, **made), tensor(8, 64, 56, 56, dtype=dtype, grad=True))
        finally:
            torch.backends.cudnn.allow_tf32 = True

    @case(f"convolution channels last {name}")
    def _():
        layout = torch.channels_last
        module = nn.Conv2d(64, 128, 3, stride=2, padding=1, **made).to(memory_format=layout)
        trained(module, tensor(16, 64, 56, 56, dtype=dtype).contiguous(memory_format=layout).requires_grad_())

    @case(f"convolution depthwise {name}")
    def _():
        trained(nn.Conv2d(96, 96, 7, padding=3, groups=96, **made), tensor(4, 96, 28, 28, dtype=dtype, grad=True))

    @case(f"convolution transposed {name}")
    def _():
        trained(nn.ConvTranspose2d(64, 32, 2, 2, **made), tensor(2, 64, 28, 28, dtype=dtype, grad=True))

    @case(f"convolution 3d {name}")
    def _():
        trained(nn.Conv3d(8, 16, 3, **made), tensor(2, 8, 12, 12, 12, dtype=dtype, grad=True))

    @case(f"convolution 1d {name}")
    def _():
        trained(nn.Conv1d(32, 64, 5, padding=2, **made), tensor(8, 32, 400, dtype=dtype, grad=True))

    @case(f"batch norm {name}")
    def _():
        trained(nn.BatchNorm2d(64, device=DEVICE), tensor(8, 64, 32, 32, dtype=dtype, grad=True))

    @case(f"batch norm channels last {name}")
    def _():
        x = tensor(8, 64, 32, 32, dtype=dtype).contiguous(memory_format=torch.channels_last).requires_grad_()
        trained(nn.BatchNorm2d(64, device=DEVICE), x)

    for cell in (nn.LSTM, nn.GRU, nn.RNN):

        @case(f"{cell.__name__} {name}")
        def _(cell=cell):
            trained(cell(128, 256, 1, **made), tensor(35, 20, 128, dtype=dtype, grad=True))

        @case(f"{cell.__name__} bidirectional {name}")
        def _(cell=cell):
            trained(cell(128, 256, 2, dropout=0.1, bidirectional=True, **made), tensor(35, 20, 128, dtype=dtype, grad=True))

        @case(f"{cell.__name__} inference {name}")
        def _(cell=cell):
            with torch.no_grad():
                cell(128, 256, 2, **made)(tensor(50, 64, 128, dtype=dtype))

    @case(f"attention {name}")
    def _():
        q = tensor(4, 8, 256, 64, dtype=dtype, grad=True)
        F.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()

    @case(f"attention with a mask {name}")
    def _():
        q = tensor(4, 8, 256, 64, dtype=dtype, grad=True)
        F.scaled_dot_product_attention(q, q, q, attn_mask=tensor(4, 1, 256, 256, dtype=dtype)).sum().backward()


for type_name, data_type in TYPES.items():
    cases_of_type(type_name, data_type)

for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH):

    @case(f"attention by {backend.name}")
    def _(backend=backend):
        with sdpa_kernel(backend):
            q = tensor(4, 8, 256, 64, dtype=torch.bfloat16, grad=True)
            F.scaled_dot_product_attention(q, q, q).sum().backward()


@case("LSTM projected")
def _():
    trained(nn.LSTM(40, 128, 1, proj_size=32, device=DEVICE), tensor(35, 20, 40))


for lengths in ((1000,), (1009,), (100000,), (131072,), (64, 64), (224, 224), (32, 32, 32)):
    dims = tuple(range(1, 1 + len(lengths)))

    @case(f"fft {'x'.join(map(str, lengths))}")
    def _(lengths=lengths, dims=dims):
        x = tensor(4, *lengths, grad=True)
        torch.fft.rfftn(x, dim=dims).abs().sum().backward()
        torch.fft.fftn(tensor(4, *lengths, dtype=torch.complex64), dim=dims)


@case("stft")
def _():
    torch.stft(tensor(4, 16000), 512, window=torch.ones(512, device=DEVICE), return_complex=True)


LINEAR_ALGEBRA = {
    "svd": torch.linalg.svd,
    "svdvals": torch.linalg.svdvals,
    "eigh": torch.linalg.eigh,
    "eigvalsh": torch.linalg.eigvalsh,
    "qr": torch.linalg.qr,
    "inv": torch.linalg.inv,
    "cholesky": lambda a: torch.linalg.cholesky(a @ a.mT + 1000 * torch.eye(a.shape[-1], device=DEVICE)),
    "solve": lambda a: torch.linalg.solve(a, a),
    "det": torch.linalg.det,
    "lu": torch.linalg.lu_factor,
    "lstsq": lambda a: torch.linalg.lstsq(a, a),
    "pinv": torch.linalg.pinv,
    "ldl": torch.linalg.ldl_factor,
    "triangular": lambda a: torch.linalg.solve_triangular(a, a, upper=True),
    "ormqr": lambda a: torch.ormqr(a, torch.zeros(a.shape[:-1], device=DEVICE), a),
    "householder": lambda a: torch.linalg.householder_product(a, torch.zeros(a.shape[:-1], device=DEVICE)),
}
for name, function in LINEAR_ALGEBRA.items():
    for shape in ((64, 64), (300, 300), (6, 40, 40)):

        @case(f"linalg {name} {'x'.join(map(str, shape))}")
        def _(function=function, shape=shape):
            function(tensor(*shape))


def diagonal(n):
    return torch.sparse_csr_tensor(torch.arange(n + 1, device=DEVICE), torch.arange(n, device=DEVICE), tensor(n), (n, n))


@case("sparse times dense")
def _():
    diagonal(1000) @ tensor(1000, 32)


@case("sparse times vector")
def _():
    diagonal(1000) @ tensor(1000)


@case("sparse COO times dense")
def _():
    index = torch.arange(500, device=DEVICE).repeat(2, 1)
    torch.sparse.mm(torch.sparse_coo_tensor(index, tensor(500), (1000, 1000), is_coalesced=True), tensor(1000, 32))


@case("sparse times sparse")
def _():
    diagonal(1000) @ diagonal(1000)


@case("sparse plus sparse")
def _():
    diagonal(1000) + diagonal(1000)


@case("sampled product")
def _():
    torch.sparse.sampled_addmm(diagonal(1000), tensor(1000, 16), tensor(16, 1000))


@case("CTC")
def _():
    p = tensor(50, 16, 20).log_softmax(2).detach().requires_grad_()
    target = torch.randint(1, 20, (16, 10)).to(DEVICE)
    lengths = torch.full((16,), 50).to(DEVICE), torch.full((16,), 10).to(DEVICE)
    F.ctc_loss(p, target, *lengths).backward()


@case("fp8 product")
def _():
    a = torch.empty(64, 64, device=DEVICE, dtype=torch.float8_e4m3fn)
    one = torch.ones((), device=DEVICE)
    torch._scaled_mm(a, a.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)


@case("products of vectors")
def _():
    a, v = tensor(64, 64), tensor(64)
    a @ v, v @ v, torch.addr(a, v, v)


@case("run-time compiled operators")
def _():
    torch.special.bessel_j0(tensor(1000)), torch.special.zeta(tensor(50).abs() + 2, tensor(50).abs() + 1)


@case("grid sample")
def _():
    F.grid_sample(tensor(2, 3, 32, 32), F.affine_grid(tensor(2, 2, 3), [2, 3, 16, 16], False), align_corners=False)


def measure(function):
    torch.cuda.synchronize()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    try:
        function()
        torch.cuda.synchronize()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0][:100]}"
    return str(torch.cuda.max_memory_allocated() - before)


def read(path):
    lines = (line.rstrip("\n").split("\t") for line in open(path, encoding="utf-8") if not line.startswith("#"))
    return {words[0]: words[1:] for words in lines}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compare", metavar="FILE")
    options = parser.parse_args()
    tensor(8, 8) @ tensor(8, 8)
    expected = read(options.compare) if options.compare else None
    if expected is None:
        print(f"# {torch.cuda.get_device_name()}, torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}")
    equal = different = surprises = 0
    for name, function in CASES.items():
        got = measure(function)
        if expected is None:
            print(f"{name}\t{got}", flush=True)
            continue
        wanted, *mark = expected.get(name, ["nothing"])
        if got == wanted:
            equal += 1
            continue
        different += 1
        surprises += mark != ["~"]
        number = got.isdigit() and wanted.isdigit()
        relation = f"{int(got) - int(wanted):+d} ({100 * (int(got) / max(1, int(wanted)) - 1):+.2f} %)" if number else ""
        print(f"{'known ' if mark == ['~'] else 'DIFFER'} {name}: {got}, on the card {wanted} {relation}", flush=True)
    if expected is not None:
        print(f"{equal} equal, {different} different, {surprises} of them not marked")
    return 1 if surprises else 0


sys.exit(main())

"""scaled_dot_product_attention by each of its kernels."""

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from training import program, train


class Attention(torch.nn.Module):
    def __init__(self, dtype, masked=False):
        super().__init__()
        self.project = torch.nn.Linear(128, 3 * 128, dtype=dtype)
        self.dtype, self.masked = dtype, masked

    def forward(self, sequence):
        q, k, v = self.project(sequence).reshape(2, 64, 3, 4, 32).permute(2, 0, 3, 1, 4)
        mask = torch.zeros(64, 64, device="cuda", dtype=self.dtype) if self.masked else None
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=0.1, is_causal=mask is None)


def attend(backend, precision, masked=False):
    """In the precision itself: the kernels differ by the type that they are given."""
    model = Attention(precision.dtype, masked).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    with sdpa_kernel(backend):
        for _ in range(2):
            model(torch.randn(2, 64, 128, device="cuda", dtype=precision.dtype)).float().square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()


@program
def sdpa_math(precision):
    attend([SDPBackend.MATH], precision)


@program
def sdpa_efficient_masked(precision):
    attend([SDPBackend.EFFICIENT_ATTENTION], precision, masked=True)


@program
def sdpa_flash_else_efficient(precision):
    attend([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION], precision)


@program
def sdpa_cudnn_else_math(precision):
    attend([SDPBackend.CUDNN_ATTENTION, SDPBackend.MATH], precision)


@program
def transformer_encoder(precision):
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 2)
    train(model, lambda m: m(torch.randn(4, 16, 64, device="cuda")).float().square().mean(), precision)

#!/usr/bin/env python3
"""Training steps of timm's Swin Transformers, eager: swin_step.cpp with timm in place of ours; same options and output."""

import measured_steps
import timm
import torch

TIMM_NAMES = {
    "swin_t": "swin_tiny_patch4_window7_224",
    "swin_s": "swin_small_patch4_window7_224",
    "swin_b": "swin_base_patch4_window7_224",
    "swin_l": "swin_large_patch4_window7_224",
    "swin_b_384": "swin_base_patch4_window12_384",
    "swin_l_384": "swin_large_patch4_window12_384",
}


def arguments():
    parser = measured_steps.parser(__doc__, batch=8)
    parser.add_argument("--model", default="swin_l", choices=TIMM_NAMES)
    parser.add_argument("--attention", default="written_out", choices=["written_out", "fused"])
    parser.add_argument("--drop-path", type=float, default=0.1)
    return parser.parse_args()


def main():
    asked = arguments()
    measured_steps.prepare(asked)
    fused = asked.attention == "fused"
    timm.layers.set_fused_attn(fused, experimental=fused)

    def build():
        model = timm.create_model(TIMM_NAMES[asked.model], num_classes=1000, drop_path_rate=asked.drop_path)
        assert all(m.fused_attn == fused for m in model.modules() if hasattr(m, "fused_attn"))
        model = model.cuda().train(not asked.inference)
        return model, torch.optim.AdamW(
            model.parameters(), lr=1e-4, weight_decay=5e-2, foreach=False if asked.optimizer_loop else None)

    def draw(model):
        side = model.patch_embed.img_size[0]
        return torch.randn(asked.batch, 3, side, side, device="cuda")

    def loss_of(model, images):
        labels = torch.randint(0, 1000, (asked.batch,), device="cuda")
        return torch.nn.functional.cross_entropy(model(images), labels)

    measured_steps.run(asked, "timm", build, draw, loss_of, lambda model, images: model(images))


if __name__ == "__main__":
    main()

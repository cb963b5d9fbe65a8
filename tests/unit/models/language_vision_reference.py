#!/usr/bin/env python3
"""What timm's ViT and transformers' GPT-2 give, for tests of ours.

  language_vision_reference.py --can-run        says whether both are there
  language_vision_reference.py --cases FOLDER   random weights (CASE.weights.pt, a state dict) and results (CASE.pt)
"""

import argparse
import os
import sys

import timm
import torch
import transformers
from timm.models.vision_transformer import VisionTransformer


def gradients_of(model):
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


def draw_weights(model):
    """Larger than at the start, where biases are zero and attention is nearly even."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.2 if parameter.dim() > 1 else 0.5)


def vit_results(model, images, labels):
    model.zero_grad()
    logits = model(images)
    loss = torch.nn.functional.cross_entropy(logits, labels)
    loss.backward()
    return {"logits": logits.detach(), "loss": loss.detach(), "gradients": gradients_of(model)}


def write_vit(folder, name, model, images, classes, double):
    labels = torch.randint(classes, (len(images),))
    for module in model.modules():
        if hasattr(module, "fused_attn"):
            module.fused_attn = False
    torch.save(model.state_dict(), os.path.join(folder, name + ".weights.pt"))
    model.train()
    if double:
        model.double()
        images = images.double()
    torch.save({"inputs": images, "labels": labels, "truth": vit_results(model, images, labels)},
               os.path.join(folder, name + ".pt"))


def gpt2_results(model, tokens):
    model.zero_grad()
    logits = model(tokens, use_cache=False).logits
    # The library's own loss, but for its `logits.float()`, which takes the second half of a double away.
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    return {"logits": logits.detach(), "loss": loss.detach(), "gradients": gradients_of(model)}


def write_gpt2(folder, name, config, shape, redraw, double):
    model = transformers.GPT2LMHeadModel(config)
    if redraw:
        draw_weights(model)
    tokens = torch.randint(config.vocab_size, shape)
    torch.save(model.state_dict(), os.path.join(folder, name + ".weights.pt"))
    model.eval()  # no dropout: no two libraries draw it alike
    if double:
        model.double()
    torch.save({"inputs": tokens, "labels": tokens, "truth": gpt2_results(model, tokens)},
               os.path.join(folder, name + ".pt"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--can-run", action="store_true")
    parser.add_argument("--cases", metavar="FOLDER")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    if asked.cases:
        torch.manual_seed(1)
        small = VisionTransformer(img_size=(48, 40), patch_size=8, embed_dim=24, depth=3, num_heads=3, num_classes=7)
        draw_weights(small)
        write_vit(asked.cases, "small_vit", small, torch.randn(3, 3, 48, 40), 7, double=True)
        vit = timm.create_model("vit_base_patch16_224")
        write_vit(asked.cases, "vit_b_16", vit, torch.randn(1, 3, 224, 224), 1000, double=False)
        config = transformers.GPT2Config(
            vocab_size=101, n_positions=20, n_embd=24, n_layer=3, n_head=3, attn_implementation="eager")
        write_gpt2(asked.cases, "small_gpt2", config, (3, 13), redraw=True, double=True)
        config = transformers.GPT2Config(attn_implementation="eager")
        write_gpt2(asked.cases, "gpt2", config, (1, 40), redraw=False, double=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())

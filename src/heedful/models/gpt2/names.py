"""What GPT-2's weights are called in folders, and how they stand there.

A file has the weights of a product transposed, and those of queries, keys and values side by side
in one. Here each has a name of its own: ``attn.c_attn.query`` and its like are in no file.

Shapes: D model width, H K width of all heads.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

PREFIX = "transformer"
"""The attribute of a model with a head that is the body; the names in a file may lack it."""

IN_FILES = {
    "embeddings.word_embeddings": "wte",
    "embeddings.position_embeddings": "wpe",
    "encoder.layer": "h",
    "encoder.layer_norm": "ln_f",
    "attention.output.LayerNorm": "ln_1",
    "attention.self.query": "attn.c_attn.query",
    "attention.self.key": "attn.c_attn.key",
    "attention.self.value": "attn.c_attn.value",
    "attention.output.dense": "attn.c_proj",
    "crossattention.output.LayerNorm": "ln_cross_attn",
    "crossattention.self.query": "crossattention.q_attn",
    "crossattention.self.key": "crossattention.c_attn.key",
    "crossattention.self.value": "crossattention.c_attn.value",
    "crossattention.output.dense": "crossattention.c_proj",
    "output.LayerNorm": "ln_2",
    "intermediate.dense": "mlp.c_fc",
    "output.dense": "mlp.c_proj",
}
"""Parts of the body that have another name in a file."""

LANGUAGE_HEAD = {"lm_head.decoder.weight": "lm_head.weight"}
"""The same of a head that scores tokens."""

TWO_HEADS = {
    "heads.predictions.decoder.weight": "lm_head.weight",
    "heads.choice.summary": "multiple_choice_head.summary",
}
"""The same of the heads of a model that has two."""

_JOINED = {
    "attn.c_attn": ("query", "key", "value"),
    "crossattention.c_attn": ("key", "value"),
}
"""Products that are one in a file, and their parts in its order."""

_CONSTANTS = tuple(
    f".{part}.{name}" for part in ("attn", "crossattention") for name in ("bias", "masked_bias")
)
"""Masks that old files hold among the weights."""


def split(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a file's weights one by one, each of shape (out, in)."""
    weights: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if name.endswith(_CONSTANTS):
            continue
        product, _, kind = name.rpartition(".")
        if _is_product(name) and tensor.ndim == 2:
            tensor = tensor.T.contiguous()
        parts = _parts(product) if tensor.ndim else ()
        if parts:
            pieces = tensor.tensor_split(len(parts))
            weights |= {
                f"{product}.{part}.{kind}": x for part, x in zip(parts, pieces, strict=True)
            }
        else:
            weights[name] = tensor
    return weights


def join(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return what `split` returned as it stands in a file."""
    tensors: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        rest, _, kind = name.rpartition(".")
        product, _, part = rest.rpartition(".")
        if parts := _parts(product):
            if part != parts[0]:
                continue
            name = f"{product}.{kind}"
            tensor = torch.cat([weights[f"{product}.{each}.{kind}"] for each in parts])
        tensors[name] = tensor.T.contiguous() if _is_product(name) and tensor.ndim == 2 else tensor
    return tensors


def _is_product(name: str) -> bool:
    """Tell the weights of products in blocks from all others."""
    return name.removeprefix(f"{PREFIX}.").startswith("h.") and name.endswith(".weight")


def _parts(product: str) -> tuple[str, ...]:
    for joined, parts in _JOINED.items():
        if product.endswith(f".{joined}"):
            return parts
    return ()

"""Names and layout of GPT-2's weights in checkpoints.

A file stores the weights of linear layers transposed, and joins those of query, key and value in
one tensor. This module gives each a name of its own: ``attn.c_attn.query`` and similar names are in
no file.

Shapes: D model width, H K width of all heads.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

PREFIX = "transformer"
"""The attribute that holds the body in a model with a head; names in a file may lack it."""

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
"""The body's module names in a file, where they differ from the model's."""

LANGUAGE_HEAD = {"lm_head.decoder.weight": "lm_head.weight"}
"""Names in a file of the language model head's weights."""

TWO_HEADS = {
    "heads.predictions.decoder.weight": "lm_head.weight",
    "heads.choice.summary": "multiple_choice_head.summary",
}
"""Names in a file of the weights of the double-heads model's heads."""

_JOINED = {
    "attn.c_attn": ("query", "key", "value"),
    "crossattention.c_attn": ("key", "value"),
}
"""Linear layers that a file joins, each with its parts in the file's order."""

_CONSTANTS = tuple(
    f".{part}.{name}" for part in ("attn", "crossattention") for name in ("bias", "masked_bias")
)
"""Causal masks that old files store among the weights."""


def split(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a file's weights separately, each of shape (out, in)."""
    weights: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if name.endswith(_CONSTANTS):
            continue
        layer, _, kind = name.rpartition(".")
        if _in_block(name) and tensor.ndim == 2:
            tensor = tensor.T.contiguous()
        parts = _parts(layer) if tensor.ndim else ()
        if parts:
            chunks = tensor.tensor_split(len(parts))
            weights |= {f"{layer}.{part}.{kind}": x for part, x in zip(parts, chunks, strict=True)}
        else:
            weights[name] = tensor
    return weights


def join(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return separate weights in the layout of a file; undoes `split`."""
    tensors: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        path, _, kind = name.rpartition(".")
        layer, _, part = path.rpartition(".")
        if parts := _parts(layer):
            if part != parts[0]:
                continue
            name = f"{layer}.{kind}"
            tensor = torch.cat([weights[f"{layer}.{each}.{kind}"] for each in parts])
        tensors[name] = tensor.T.contiguous() if _in_block(name) and tensor.ndim == 2 else tensor
    return tensors


def _in_block(name: str) -> bool:
    """Return whether a weight belongs to a block; its matrices are those of linear layers."""
    return name.removeprefix(f"{PREFIX}.").startswith("h.") and name.endswith(".weight")


def _parts(layer: str) -> tuple[str, ...]:
    for joined, parts in _JOINED.items():
        if layer.endswith(f".{joined}"):
            return parts
    return ()

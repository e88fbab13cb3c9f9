"""Names and layout of DeBERTa's weights in checkpoints.

A file joins the weights of query, key and value in one tensor, head by head: query, key and value
of the first head, then of the second head, and so on. This module gives each a name of its own.

Shapes: H heads, K head width, D model width.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from heedful.models.deberta.config import DebertaConfig
from heedful.models.weights import renamed

SHARED = {
    "embeddings.project": "embeddings.embed_proj",
    "encoder.distances.vectors": "encoder.rel_embeddings",
    "encoder.distances.LayerNorm": "encoder.LayerNorm",
    "encoder.convolution": "encoder.conv",
}
"""Module names in a file, for all versions of DeBERTa."""

IN_FILES = SHARED | {
    "attention.self.disentangled.key": "attention.self.pos_proj",
    "attention.self.disentangled.query": "attention.self.pos_q_proj",
    "attention.self.talk_scores": "attention.self.head_logits_proj",
    "attention.self.talk_weights": "attention.self.head_weights_proj",
}
"""Module names in a file, for the first version of DeBERTa."""

LANGUAGE_HEAD = {
    "lm_predictions.lm_head.transform.dense": "lm_predictions.lm_head.dense",
    "lm_predictions.lm_head.transform.LayerNorm": "lm_predictions.lm_head.LayerNorm",
}
"""Names in published files of the language model head's modules."""

POOLED_HEAD = {"classifier.dense": "pooler.dense", "classifier.out_proj": "classifier"}
"""Names in a file of a text classifier's modules."""

_OLD_HEAD = {
    "lm_predictions.lm_head.dense": "cls.predictions.transform.dense",
    "lm_predictions.lm_head.LayerNorm": "cls.predictions.transform.LayerNorm",
    "lm_predictions.lm_head": "cls.predictions",
}
"""Maps the language model head's names in published files to their older names."""

_POSITIONS = ("embeddings.position_embeddings.weight",)
"""Weights in published files that the models do not use."""
_NORM = ("encoder.LayerNorm.weight", "encoder.LayerNorm.bias")
"""Layer normalisation of the distance embeddings in version 2. Files without distance embeddings
hold it, too."""

_JOINED, _PARTS = "attention.self.in_proj.weight", ("query", "key", "value")
_BIASES = {
    "attention.self.q_bias": "attention.self.query.bias",
    "attention.self.v_bias": "attention.self.value.bias",
}


def split(tensors: Mapping[str, Tensor], head_width: int) -> dict[str, Tensor]:
    """Return a file's weights separately for query, key and value.

    Args:
        tensors: contents of the file.
        head_width: K.
    """
    weights: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        start = name.removesuffix(_JOINED)
        if start == name:
            weights[_renamed(name, _BIASES)] = tensor
            continue
        by_head = tensor.view(-1, len(_PARTS), head_width, tensor.shape[-1])
        for part, weight in zip(_PARTS, by_head.unbind(1), strict=True):  # each (H, K, D)
            weights[f"{start}attention.self.{part}.weight"] = weight.flatten(0, 1)
    return weights


def join(weights: Mapping[str, Tensor], head_width: int) -> dict[str, Tensor]:
    """Return separate weights in the layout of a file; undoes `split`."""
    ours = {part: f"attention.self.{part}.weight" for part in _PARTS}
    back = {name: theirs for theirs, name in _BIASES.items()}
    tensors: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        if name.endswith(ours["query"]):
            start = name.removesuffix(ours["query"])
            parts = [weights[start + ours[part]] for part in _PARTS]
            by_head = [part.view(-1, head_width, part.shape[-1]) for part in parts]
            tensors[start + _JOINED] = torch.stack(by_head, 1).flatten(0, 2)
        elif not name.endswith((ours["key"], ours["value"])):
            tensors[_renamed(name, back)] = tensor
    return tensors


def used_weights(tensors: Mapping[str, Tensor], config: DebertaConfig) -> Mapping[str, Tensor]:
    """Return the tensors of a file that the model uses, under the names that it expects.

    Published files hold some weights that their models do not use. Their head has the newer names,
    even if ``legacy`` is true in their configuration.
    """
    has_positions = config.position_biased_input or config.enhanced_mask_decoder
    unused = (
        *(() if has_positions else _POSITIONS),
        *(() if config.relative_attention else _NORM),
    )
    tensors = {name: x for name, x in tensors.items() if not name.endswith(unused)}
    if config.legacy and not any(name.startswith("cls.predictions.") for name in tensors):
        tensors = {renamed(name, _OLD_HEAD): x for name, x in tensors.items()}
    return tensors


def _renamed(name: str, suffixes: Mapping[str, str]) -> str:
    for old, new in suffixes.items():
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name

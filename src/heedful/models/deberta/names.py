"""What DeBERTa's weights are called in folders, and how they stand there.

A file has the weights of queries, keys and values in one tensor, head by head: those of the first
head's query, key and value, then those of the second's. Here each has a name of its own.

Shapes: H heads, K head width, D model width.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from heedful.models.deberta.config import DebertaConfig
from heedful.models.weights import renamed

PREFIX = "deberta"
"""The attribute of a model with a head that is the body; the names in a file may lack it."""

SHARED = {
    "embeddings.project": "embeddings.embed_proj",
    "encoder.distances.vectors": "encoder.rel_embeddings",
    "encoder.distances.LayerNorm": "encoder.LayerNorm",
    "encoder.convolution": "encoder.conv",
}
"""Parts of all DeBERTas that have another name in a file."""

IN_FILES = SHARED | {
    "attention.self.disentangled.key": "attention.self.pos_proj",
    "attention.self.disentangled.query": "attention.self.pos_q_proj",
    "attention.self.talk_scores": "attention.self.head_logits_proj",
    "attention.self.talk_weights": "attention.self.head_weights_proj",
}
"""The same of the first version alone."""

LANGUAGE_HEAD = {
    "lm_predictions.lm_head.transform.dense": "lm_predictions.lm_head.dense",
    "lm_predictions.lm_head.transform.LayerNorm": "lm_predictions.lm_head.LayerNorm",
}
"""The same of a head that scores pieces, in published files."""

POOLED_HEAD = {"classifier.dense": "pooler.dense", "classifier.out_proj": "classifier"}
"""The same of a head that decides about texts."""

_OLD_HEAD = {
    "lm_predictions.lm_head.dense": "cls.predictions.transform.dense",
    "lm_predictions.lm_head.LayerNorm": "cls.predictions.transform.LayerNorm",
    "lm_predictions.lm_head": "cls.predictions",
}
"""The parts of a head that scores pieces as published files name them, and older ones."""

_POSITIONS = ("embeddings.position_embeddings.weight",)
"""What published files hold although their models do not read it."""
_NORM = ("encoder.LayerNorm.weight", "encoder.LayerNorm.bias")
"""What normalises the vectors of distances in version 2, also in files that have none of these."""

_JOINED, _PARTS = "attention.self.in_proj.weight", ("query", "key", "value")
_BIASES = {
    "attention.self.q_bias": "attention.self.query.bias",
    "attention.self.v_bias": "attention.self.value.bias",
}


def split(tensors: Mapping[str, Tensor], head_width: int) -> dict[str, Tensor]:
    """Return a file's weights one by one.

    Args:
        tensors: of a file.
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
    """Return what `split` returned as it stands in a file."""
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


def known(tensors: Mapping[str, Tensor], config: DebertaConfig) -> Mapping[str, Tensor]:
    """Return the tensors of a file that a model has a place for, under the names that it knows.

    Published files hold what their models do not read; and their head has the newer names, even
    where their configuration does not say so.
    """
    reads_positions = config.position_biased_input or config.enhanced_mask_decoder
    unread = (
        *(() if reads_positions else _POSITIONS),
        *(() if config.relative_attention else _NORM),
    )
    tensors = {name: x for name, x in tensors.items() if not name.endswith(unread)}
    if config.legacy and not any(name.startswith("cls.predictions.") for name in tensors):
        tensors = {renamed(name, _OLD_HEAD): x for name, x in tensors.items()}
    return tensors


def _renamed(name: str, table: Mapping[str, str]) -> str:
    for one, other in table.items():
        if name.endswith(one):
            return name.removesuffix(one) + other
    return name

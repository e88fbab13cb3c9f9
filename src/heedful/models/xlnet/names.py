"""Names and layout of XLNet's weights in checkpoints.

A file stores the weights of an attention projection with three dimensions: model width, heads and
head width. The model stores them as two-dimensional weights of a linear layer.

Shapes: D model width, H heads, K head width.
"""

from collections.abc import Mapping

from torch import Tensor

IN_FILES = {
    "embeddings.word_embeddings": "word_embedding",
    "embeddings.mask_embedding.weight": "mask_emb",
    "encoder.layer": "layer",
    "attention.self.query": "rel_attn.q",
    "attention.self.key": "rel_attn.k",
    "attention.self.value": "rel_attn.v",
    "attention.self.distance_embedding": "rel_attn",
    "attention.output.dense": "rel_attn.o",
    "attention.output.LayerNorm": "rel_attn.layer_norm",
    "intermediate.dense": "ff.layer_1",
    "output.dense": "ff.layer_2",
    "output.LayerNorm": "ff.layer_norm",
}
"""The body's module names in a file, where they differ from the model's."""

LANGUAGE_HEAD = {"lm_loss.decoder.weight": "lm_loss.weight"}
"""Names in a file of the language model head's weights."""

SUMMARY_HEAD = {"logits_proj.summary": "sequence_summary.summary"}
"""Names in a file of the summary head's modules."""

POINTER = {f"pointer.{part}": part for part in ("start_logits", "end_logits", "answer_class")}
"""Names in a file of the pointer head's modules."""

_INNER = tuple(f".rel_attn.{part}" for part in "qkvr")
"""Projections from the model width to the heads."""

_OUTER = ".rel_attn.o"
"""Projection from the heads back to the model width."""

_BIAS = ".rel_attn.r_w_bias"
"""Bias of the queries in their product with the keys."""

_OUR_BIAS = ".rel_attn.q.bias"


def split(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a file's weights in the layout of linear layers."""
    weights: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if name.endswith(_INNER) and tensor.ndim == 3:
            weights[f"{name}.weight"] = tensor.flatten(1).T.contiguous()  # (H * K, D)
        elif name.endswith(_OUTER) and tensor.ndim == 3:
            weights[f"{name}.weight"] = tensor.flatten(1)  # (D, H * K)
        elif name.endswith(_BIAS):
            weights[name.removesuffix(_BIAS) + _OUR_BIAS] = tensor.flatten()
        else:
            weights[name] = tensor
    return weights


def join(weights: Mapping[str, Tensor], head_width: int) -> dict[str, Tensor]:
    """Return weights in the layout of a file; undoes `split`.

    Args:
        weights: weights under the names that `split` returns.
        head_width: K.
    """
    tensors: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        part = name.removesuffix(".weight")
        if part != name and part.endswith(_INNER):
            tensors[part] = _by_head(tensor.T, head_width)
        elif part != name and part.endswith(_OUTER):
            tensors[part] = _by_head(tensor, head_width)
        elif name.endswith(_OUR_BIAS):
            tensors[name.removesuffix(_OUR_BIAS) + _BIAS] = tensor.view(-1, head_width)
        else:
            tensors[name] = tensor
    return tensors


def _by_head(tensor: Tensor, head_width: int) -> Tensor:
    """Return shape (D, H, K) for shape (D, H * K)."""
    return tensor.reshape(len(tensor), -1, head_width).contiguous()

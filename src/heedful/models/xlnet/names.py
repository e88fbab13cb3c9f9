"""What XLNet's weights are called in folders, and how they stand there.

A file has the weights of a product of all heads as three dimensions: of the model's width, of the
heads, and of each head's width. Here they are those of a linear layer.

Shapes: D model width, H heads, K head width.
"""

from collections.abc import Mapping

from torch import Tensor

PREFIX = "transformer"
"""The attribute of a model with a head that is the body; the names in a file may lack it."""

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
"""Parts of the body that have another name in a file."""

LANGUAGE_HEAD = {"lm_loss.decoder.weight": "lm_loss.weight"}
"""The same of a head that scores pieces."""

SUMMARY_HEAD = {"logits_proj.summary": "sequence_summary.summary"}
"""The same of a head that decides from a summary of the text."""

POINTER = {f"pointer.{part}": part for part in ("start_logits", "end_logits", "answer_class")}
"""The same of a head that points at answers."""

_INNER = tuple(f".rel_attn.{part}" for part in "qkvr")
"""Products that go from the model's width to the heads."""

_OUTER = ".rel_attn.o"
"""The one that goes back."""

_BIAS = ".rel_attn.r_w_bias"
"""What is added to queries where they meet keys."""

_OUR_BIAS = ".rel_attn.q.bias"


def split(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a file's weights as those of linear layers."""
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
    """Return what `split` returned as it stands in a file.

    Args:
        weights: under names of `split`.
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

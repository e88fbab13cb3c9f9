"""The reference's DeBERTa without its steps through float32."""

import torch
import torch.nn.functional as F
from torch import Tensor


def keep_float64() -> None:
    """Have it compute roots and normalise in the format of the model."""
    from transformers.models.deberta import modeling_deberta as first
    from transformers.models.deberta_v2 import modeling_deberta_v2 as second

    first.scaled_size_sqrt = second.scaled_size_sqrt = _root
    first.DebertaLayerNorm.forward = _normalise


def _root(layer: Tensor, factor: int) -> Tensor:
    return torch.tensor(layer.shape[-1] * factor, dtype=torch.float64).sqrt()


def _normalise(norm: "torch.nn.Module", hidden: Tensor) -> Tensor:
    return F.layer_norm(hidden, hidden.shape[-1:], norm.weight, norm.bias, norm.variance_epsilon)

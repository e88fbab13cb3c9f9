"""The weights of a Transformer in the reference's Marian and Pegasus folders.

Such a folder may hold one table of word vectors under several names, or under any one of them, and
the sinusoids, which are computed here.
"""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from heedful.errors import UserError, listed
from heedful.layers.positions import sinusoids
from heedful.models.transformer.config import TransformerConfig

SHARED = "model.shared.weight"
SOURCE = "model.encoder.embed_tokens.weight"
TARGET = "model.decoder.embed_tokens.weight"
OUTPUT = "lm_head.weight"
BIAS = "final_logits_bias"
_POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")


def arrange(
    given: Mapping[str, Tensor], right: Mapping[str, Tensor], config: TransformerConfig, where: Path
) -> dict[str, Tensor]:
    """Give each weight of a model its tensor of a file.

    Args:
        given: what the file holds.
        right: the model's state dict, for names and shapes.
        config: of the model.
        where: what an error calls the place that the weights come from.

    Raises:
        UserError: a weight is missing, is there twice and not the same, has another shape or type,
            or has no place in the model.
    """
    rest = dict(given)
    for name in _POSITIONS:
        if (positions := rest.pop(name, None)) is not None:
            _check_positions(name, positions, config.d_model, where)
    found: dict[str, Tensor] = {}
    for name, aliases in _tables(config).items():
        there = [alias for alias in aliases if alias in rest]
        tables = [rest.pop(alias) for alias in there]
        for alias, table in zip(there[1:], tables[1:], strict=True):
            if not table.equal(tables[0]):
                raise UserError(f"{where}: {there[0]} and {alias} must be the same; they differ")
        if tables:
            found[name] = tables[0]
    # Files from before it was a weight lack it.
    found[BIAS] = rest.pop(BIAS, torch.zeros(right[BIAS].shape))
    found |= {name: rest.pop(name) for name in right if name in rest}
    if missing := [name for name in right if name not in found]:
        raise UserError(f"{where}: weights are missing: {listed(missing)}")
    if rest:
        raise UserError(f"{where}: weights that the model has no place for: {listed(list(rest))}")
    for name, tensor in found.items():
        if tensor.shape != right[name].shape:
            raise UserError(
                f"{where}: {name} has shape {tuple(tensor.shape)}; "
                f"the model expects {tuple(right[name].shape)}"
            )
        if not tensor.is_floating_point():
            raise UserError(f"{where}: {name} has type {tensor.dtype}; weights are floating point")
    return found


def _tables(config: TransformerConfig) -> dict[str, list[str]]:
    """Return the tables of word vectors, and the names that each may have in a file."""
    output = [OUTPUT] if config.tie_word_embeddings else []
    if config.share_encoder_decoder_embeddings:
        return {SHARED: [SHARED, SOURCE, TARGET, *output]}
    return {SOURCE: [SOURCE], TARGET: [TARGET, *output]}


def _check_positions(name: str, given: Tensor, width: int, where: Path) -> None:
    right = sinusoids(torch.arange(len(given) if given.ndim else 0), width)
    # As far as half precision rounds.
    if given.shape != right.shape or not torch.allclose(given.float(), right, atol=1e-2):
        raise UserError(f"{where}: {name} holds no sinusoids; only those are supported")

"""What the weights of a Transformer are called in the reference's Marian and Pegasus folders.

Such a folder may hold one table of word vectors under several names, or under any one of them, and
the sinusoids, which are computed here.
"""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from heedful.errors import UserError
from heedful.layers.positions import sinusoids
from heedful.models.transformer.config import TransformerConfig
from heedful.models.weights import check_weights

SHARED = "model.shared"
SOURCE = "model.encoder.embed_tokens"
TARGET = "model.decoder.embed_tokens"
OUTPUT = "lm_head"
BIAS = "final_logits_bias"
_POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")

BLOCK = {
    "attention.self.query": "self_attn.q_proj",
    "attention.self.key": "self_attn.k_proj",
    "attention.self.value": "self_attn.v_proj",
    "attention.output.dense": "self_attn.out_proj",
    "attention.output.LayerNorm": "self_attn_layer_norm",
    "crossattention.self.query": "encoder_attn.q_proj",
    "crossattention.self.key": "encoder_attn.k_proj",
    "crossattention.self.value": "encoder_attn.v_proj",
    "crossattention.output.dense": "encoder_attn.out_proj",
    "crossattention.output.LayerNorm": "encoder_attn_layer_norm",
    "intermediate.dense": "fc1",
    "output.dense": "fc2",
    "output.LayerNorm": "final_layer_norm",
}
"""The parts of a block in a model, and in a file."""


def name_in_file(name: str, config: TransformerConfig) -> str:
    """Return what a file calls a weight of the model."""
    if name == BIAS:
        return name
    part, _, kind = name.rpartition(".")  # such as encoder.layer.0.output.dense, and weight
    shared = config.share_encoder_decoder_embeddings
    tables = {"embeddings": SHARED if shared else SOURCE, "target_embeddings": TARGET}
    match part.split(".", 3):
        case [stack, "layer", number, rest]:
            return f"model.{stack}.layers.{number}.{BLOCK[rest]}.{kind}"
        case [stack, "layer_norm"]:
            return f"model.{stack}.layer_norm.{kind}"
    return f"{tables.get(part, part)}.{kind}"


def to_file(weights: Mapping[str, Tensor], config: TransformerConfig) -> dict[str, Tensor]:
    """Return a model's weights under the names of a file."""
    return {name_in_file(name, config): tensor for name, tensor in weights.items()}


def from_file(
    tensors: Mapping[str, Tensor],
    expected: Mapping[str, Tensor],
    config: TransformerConfig,
    folder: Path,
) -> dict[str, Tensor]:
    """Return a file's weights under the names of the model.

    Args:
        tensors: what the file holds.
        expected: the model's state dict, for names and shapes.
        config: of the model.
        folder: what an error calls their source.

    Raises:
        UserError: a weight is missing, appears twice with different values, has another shape or
            type, or has no place in the model.
    """
    weights = dict(tensors)
    for name in _POSITIONS:
        if (positions := weights.pop(name, None)) is not None:
            _check_positions(name, positions, config.d_model, folder)
    for name, aliases in _tables(config).items():
        present = [alias for alias in aliases if alias in weights]
        tables = [weights.pop(alias) for alias in present]
        for alias, table in zip(present[1:], tables[1:], strict=True):
            if not table.equal(tables[0]):
                raise UserError(f"{folder}: {present[0]} and {alias} must be the same; they differ")
        if tables:
            weights[name] = tables[0]
    # Files from before it was a weight lack it.
    weights.setdefault(BIAS, torch.zeros(expected[BIAS].shape))
    names = {name_in_file(name, config): name for name in expected}
    check_weights(weights, {file: expected[name] for file, name in names.items()}, folder)
    return {name: weights[file] for file, name in names.items()}


def _tables(config: TransformerConfig) -> dict[str, list[str]]:
    """Return the tables of word vectors, and the names that each may have in a file."""
    shared, source, target = f"{SHARED}.weight", f"{SOURCE}.weight", f"{TARGET}.weight"
    output = [f"{OUTPUT}.weight"] if config.tie_word_embeddings else []
    if config.share_encoder_decoder_embeddings:
        return {shared: [shared, source, target, *output]}
    return {source: [source], target: [target, *output]}


def _check_positions(name: str, positions: Tensor, width: int, folder: Path) -> None:
    expected = sinusoids(torch.arange(len(positions) if positions.ndim else 0), width)
    # As far as half precision rounds.
    if positions.shape != expected.shape or not torch.allclose(
        positions.float(), expected, atol=1e-2
    ):
        raise UserError(f"{folder}: {name} holds no sinusoids; only those are supported")

"""Names of a Transformer's weights in the reference's Marian and Pegasus checkpoints.

A checkpoint may hold one embedding table under several names, or under any one of them. It may also
hold the sinusoidal position embeddings, which heedful computes.
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
"""Names of a block's modules in the model, and in a file."""


def name_in_file(name: str, config: TransformerConfig) -> str:
    """Return the name in a file of one of the model's weights."""
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
    """Return a model's weights under their names in a file."""
    return {name_in_file(name, config): tensor for name, tensor in weights.items()}


def from_file(
    tensors: Mapping[str, Tensor],
    expected: Mapping[str, Tensor],
    config: TransformerConfig,
    folder: Path,
) -> dict[str, Tensor]:
    """Return a file's weights under their names in the model.

    Args:
        tensors: contents of the file.
        expected: the model's state dict, for names and shapes.
        config: configuration of the model.
        folder: the source, for error messages.

    Raises:
        UserError: a weight is missing, unknown, of the wrong shape or type, or appears twice with
            different values.
    """
    weights = dict(tensors)
    for name in _POSITIONS:
        if (positions := weights.pop(name, None)) is not None:
            _check_positions(name, positions, config.d_model, folder)
    for name, aliases in _embedding_tables(config).items():
        present = [alias for alias in aliases if alias in weights]
        tables = [weights.pop(alias) for alias in present]
        for alias, table in zip(present[1:], tables[1:], strict=True):
            if not table.equal(tables[0]):
                raise UserError(f"{folder}: {present[0]} and {alias} must be the same; they differ")
        if tables:
            weights[name] = tables[0]
    # Older files lack this weight.
    weights.setdefault(BIAS, torch.zeros(expected[BIAS].shape))
    names = {name_in_file(name, config): name for name in expected}
    check_weights(weights, {file: expected[name] for file, name in names.items()}, folder)
    return {name: weights[file] for file, name in names.items()}


def _embedding_tables(config: TransformerConfig) -> dict[str, list[str]]:
    """Return the embedding tables, each with its possible names in a file."""
    shared, source, target = f"{SHARED}.weight", f"{SOURCE}.weight", f"{TARGET}.weight"
    output = [f"{OUTPUT}.weight"] if config.tie_word_embeddings else []
    if config.share_encoder_decoder_embeddings:
        return {shared: [shared, source, target, *output]}
    return {source: [source], target: [target, *output]}


def _check_positions(name: str, positions: Tensor, width: int, folder: Path) -> None:
    expected = sinusoids(torch.arange(len(positions) if positions.ndim else 0), width)
    # The tolerance allows for rounding in half precision.
    if positions.shape != expected.shape or not torch.allclose(
        positions.float(), expected, atol=1e-2
    ):
        raise UserError(f"{folder}: {name} holds no sinusoids; only those are supported")

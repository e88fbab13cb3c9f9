"""Attention maps of any model, from the same forward pass as the explained output.

Shapes: L layers, H heads, S and T tokens.
"""

import inspect
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heedful.explanations.explanation import AttentionMap, Kind
from heedful.explanations.subject import Subject
from heedful.models import AlbertConfig, EncoderDecoderConfig
from heedful.models.model import Model


@torch.no_grad()
def attention_maps(subject: Subject) -> tuple[AttentionMap, ...]:
    """Return the attention of each layer and head in the forward pass of the explained output.

    Row and column sides are indices into ``ExplanationTarget.sides``, followed by
    ``ExplanationTarget.decoder_tokens``.
    """
    batch, positions = subject.batch([subject.whole])
    outputs: list[Any] = []
    forward = partial(subject.model, **{_option(subject.model): True})
    with subject.model.register_forward_hook(lambda *call: outputs.append(call[-1])):
        subject.target.outputs(forward, batch, positions)
    (output,) = outputs
    sizes = [len(side.tokens) for side in subject.target.sides]
    maps = []
    for name, layers in _attentions(output).items():
        pruned = _pruned(name, subject.model.config)
        for side, size in enumerate(sizes):
            stacked, pruned_heads = _with_pruned_heads(
                [_of_example(layer, side, positions) for layer in layers], pruned
            )
            rows, columns = _sides(name, side, len(sizes))
            if rows == side:
                stacked = stacked[:, :, :size]
            if columns == side:
                stacked = stacked[..., :size]
            maps.append(
                AttentionMap(
                    kind=_kind(name, output, subject.model.config),
                    rows=rows,
                    columns=columns,
                    weights=stacked,
                    gone=pruned_heads,
                )
            )
    return tuple(maps)


def _option(model: Model) -> str:
    """Return the name of the model's argument that requests attention weights."""
    names = inspect.signature(model.forward).parameters
    return next(name for name in ("output_attentions", "return_attentions") if name in names)


def _attentions(output: Any) -> dict[str, Sequence[Any]]:
    """Return the attention fields of an output: the weights of each layer, by field name."""
    names = ("attentions", "encoder_attentions", "decoder_attentions", "cross_attentions")
    return {name: layers for name in names if (layers := getattr(output, name, None))}


def _of_example(layer: Tensor | tuple[Tensor, Tensor], example: int, positions: Tensor) -> Tensor:
    """Return the attention weights of an example. Shape (H, S, T).

    An XLNet that predicts tokens has two streams. The rows of predicted tokens come from the query
    stream, which predicts them. All other rows come from the content stream.

    Args:
        layer: the weights of all examples, or of both streams of all examples.
        example: index of the example.
        positions: positions of the predicted tokens in each example.
    """
    if isinstance(layer, Tensor):
        return layer[example]
    content, query = (stream[example] for stream in layer)
    return content.index_copy(1, positions[example], query)


def _kind(name: str, output: Any, config: Any) -> Kind:
    if name == "cross_attentions":
        # Recurrent networks have no other attention.
        return "cross" if output.decoder_attentions else "alignment"
    causal = name == "decoder_attentions" or getattr(config, "is_decoder", False)
    return "decoder" if causal else "encoder"


def _sides(name: str, side: int, sides: int) -> tuple[int, int]:
    """Return the side indices of rows and columns. Generated sides follow the input sides."""
    if name == "decoder_attentions":
        return sides, sides
    return (sides + 1 if name == "cross_attentions" else side), side


def _pruned(name: str, config: Any) -> Mapping[int, Sequence[int]]:
    """Return the pruned heads of an attention, by layer index."""
    fields = {
        "decoder_attentions": "decoder_pruned_heads",
        "cross_attentions": "cross_attn_pruned_heads",
    }
    field = fields.get(name, "pruned_heads")
    if isinstance(config, AlbertConfig):
        blocks = enumerate(config.block_numbers)
        return {layer: config.pruned_heads.get(block, ()) for layer, block in blocks}
    if isinstance(config, EncoderDecoderConfig):  # each part has a field of one kind
        config = config.encoder if name == "encoder_attentions" else config.decoder
        field = "" if name == "cross_attentions" else "pruned_heads"
    return getattr(config, field, {})


def _with_pruned_heads(
    layers: Sequence[Tensor], pruned: Mapping[int, Sequence[int]]
) -> tuple[NDArray[np.float32], tuple[tuple[int, int], ...]]:
    """Return the weights of all heads, 0 for pruned heads, and the pruned (layer, head) indices.

    Args:
        layers: the weights of the remaining heads. Each of shape (H', S, T).
        pruned: indices of the pruned heads, by layer index.

    Shape:
        (L, H, S, T).
    """
    heads = len(layers[0]) + len(pruned.get(0, ()))
    weights = np.zeros((len(layers), heads, *layers[0].shape[1:]), dtype=np.float32)
    for layer_index, layer in enumerate(layers):
        remaining = [head for head in range(heads) if head not in pruned.get(layer_index, ())]
        weights[layer_index, remaining] = layer.float().cpu().numpy()
    gone = ((layer, head) for layer, heads in pruned.items() for head in heads)
    return weights, tuple(sorted(gone))

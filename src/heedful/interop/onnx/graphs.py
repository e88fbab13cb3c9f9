"""The exported graphs of a model, with conventional names of inputs and outputs.

An encoder with a head is one graph, ``model.onnx``, and so is a decoder with a KV cache. An
encoder-decoder has one graph for the encoder, one for the first tokens and one for later tokens.

Shapes: B batch, S length, C choices, E encoder length, P cached length, D model width, H heads,
K head width, V vocabulary.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from heedful.errors import UserError
from heedful.interop.checking import sample_batches
from heedful.interop.onnx import recurrent
from heedful.interop.sentence_transformers import pool
from heedful.interop.source import Source
from heedful.layers.cache import BlockCache, Cache, KeyValue
from heedful.models import BertEncoderDecoder, RnnSearch, Transformer, XLNetLMHeadModel
from heedful.models.model import Model

MODEL, ENCODER = "model.onnx", "encoder_model.onnx"
DECODER, DECODER_WITH_PAST = "decoder_model.onnx", "decoder_with_past_model.onnx"
FILES = frozenset({MODEL, ENCODER, DECODER, DECODER_WITH_PAST})

PAST, PRESENT = "past_key_values.", "present."
"""Prefixes of the names of cached input and output tensors."""

BATCH, LENGTH, CHOICES = "batch_size", "sequence_length", "num_choices"
SOURCE, TARGET, CACHED = "encoder_sequence_length", "decoder_sequence_length", "past_length"
ALL = "past_length + sequence_length"

Axes = tuple[str | None, ...]
"""The name of each dynamic dimension; None for a fixed dimension."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Graph:
    """One graph file: a function from tensors to tensors."""

    file: str
    model: Model
    compute: Callable[..., Any]
    """Takes the model and the inputs in order, and returns the outputs in order."""
    inputs: dict[str, Tensor]
    """Sample tensors for tracing, by input name."""
    axes: dict[str, Axes]
    """Axes of each input."""
    outputs: list[str]


def graphs_of(source: Source) -> list[Graph]:
    """Return the graphs that together compute all outputs of a model.

    Raises:
        UserError: a part of the model cannot be exported.
    """
    model = source.model
    if isinstance(model, XLNetLMHeadModel):
        raise UserError(
            f"{source.folder}: it predicts tokens with a second stream, which cannot be exported; "
            "export a model fine-tuned from it"
        )
    batch = list(sample_batches(source))[1]
    if isinstance(model, Transformer | BertEncoderDecoder | RnnSearch):
        return _encoder_and_decoder(model, batch)
    if source.generates:
        return [_decoder(model, batch)]
    return [_encoder(source, batch)]


def _encoder(source: Source, batch: dict[str, Tensor]) -> Graph:
    model, record, names = source.model, source.record, [*batch]
    axes: Axes = (BATCH, CHOICES, LENGTH) if record.task == "choose" else (BATCH, LENGTH)
    if source.reads_images:
        axes = (BATCH,)
    outputs = [*model(**batch).keys()]

    def encode(model: Model, *tensors: Tensor) -> tuple[Tensor, ...]:
        output = model(**dict(zip(names, tensors, strict=True)))
        return tuple(output[name] for name in outputs)

    def embed(model: Model, *tensors: Tensor) -> tuple[Tensor, Tensor]:
        inputs = dict(zip(names, tensors, strict=True))
        hidden = model(**inputs).last_hidden_state
        return hidden, text_embedding(hidden, inputs["attention_mask"], record.goal)

    embeds = record.task == "embed"
    return Graph(
        file=MODEL,
        model=model,
        compute=embed if embeds else encode,
        inputs=batch,
        axes=dict.fromkeys(batch, axes),
        outputs=["last_hidden_state", "sentence_embedding"] if embeds else outputs,
    )


def text_embedding(hidden: Tensor, mask: Tensor, goal: Mapping[str, Any]) -> Tensor:
    """Return the embedding of each text, with the run's pooling. Shape (B, D)."""
    vector = pool(hidden, mask, goal["pooling"])
    return F.normalize(vector, dim=-1) if goal["normalise"] else vector


# Models that generate text.


def _encode_source(model: Model, ids: Tensor, mask: Tensor, types: Tensor | None = None) -> Tensor:
    """Encode texts for the decoder's cross-attention. Shape (B, E, D)."""
    if isinstance(model, BertEncoderDecoder):
        return model.bridge(model.encoder(ids, mask, types))
    assert isinstance(model, Transformer)
    return model.encode(ids, mask)


def _decode_first(model: Model, ids: Tensor, mask: Tensor, encoded: Tensor) -> tuple[Tensor, ...]:
    """Decode the first tokens.

    Returns:
        Logits, shape (B, S, V), and the KV cache, including cross-attention.
    """
    logits, cache = _decode(model, ids, encoded, mask, None)
    return logits, *flatten_cache(cache)


def _decode_next(model: Model, ids: Tensor, mask: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
    """Decode the next tokens.

    Returns:
        Logits, shape (B, S, V), and the KV cache without cross-attention.
    """
    logits, cache = _decode(model, ids, None, mask, _cache(past, crosses=True))
    return logits, *flatten_cache(_self_attention_of(cache))


def _decode_without_encoder(
    model: Model, ids: Tensor, mask: Tensor, *past: Tensor
) -> tuple[Tensor, ...]:
    """Decode without an encoder, from an empty or non-empty cache.

    Returns:
        Logits, shape (B, S, V), and the KV cache.
    """
    output = model(ids, mask, past_key_values=_cache(past, crosses=False), use_cache=True)
    return output.logits, *flatten_cache(output.past_key_values)


def _decode(
    model: Model, ids: Tensor, encoded: Tensor | None, mask: Tensor, past: Cache | None
) -> tuple[Tensor, Cache]:
    if isinstance(model, Transformer):
        return model.decode(ids, encoded, mask, past)
    assert isinstance(model, BertEncoderDecoder)
    output = model.decoder(
        ids,
        encoder_hidden_states=encoded,
        encoder_attention_mask=mask,
        past_key_values=past,
        use_cache=True,
    )
    return output.logits, output.past_key_values


def flatten_cache(cache: Cache) -> list[Tensor]:
    """Return the tensors of a cache, by block: keys and values of self- and cross-attention."""
    return [
        tensor
        for block in cache.blocks
        for pair in (block.self_attention, block.cross_attention or ())
        for tensor in pair
    ]


def _self_attention_of(cache: Cache) -> Cache:
    """Return a cache without cross-attention, which never changes."""
    return Cache(
        blocks=tuple(BlockCache(self_attention=block.self_attention) for block in cache.blocks)
    )


def _cache(tensors: Sequence[Tensor], *, crosses: bool) -> Cache:
    pairs = [KeyValue(*pair) for pair in zip(tensors[::2], tensors[1::2], strict=True)]
    if not crosses:
        return Cache(blocks=tuple(BlockCache(self_attention=pair) for pair in pairs))
    attention_pairs = zip(pairs[::2], pairs[1::2], strict=True)
    return Cache(
        blocks=tuple(
            BlockCache(self_attention=keys, cross_attention=cross)
            for keys, cross in attention_pairs
        )
    )


def _cache_names(blocks: int, parts: Sequence[str]) -> list[str]:
    return [
        f"{block}.{part}{kind}"
        for block in range(blocks)
        for part in parts
        for kind in ("key", "value")
    ]


def _decoder(model: Model, batch: dict[str, Tensor]) -> Graph:
    ids, mask = batch["input_ids"], batch["attention_mask"]
    past = flatten_cache(model(ids[:, :3], use_cache=True).past_key_values)
    names = _cache_names(model.config.num_hidden_layers, [""])
    cached = {PAST + name: tensor for name, tensor in zip(names, past, strict=True)}
    return Graph(
        file=MODEL,
        model=model,
        compute=_decode_without_encoder,
        inputs={
            "input_ids": ids[:, 3:],
            "attention_mask": mask,
            **cached,
        },
        axes={
            "input_ids": (BATCH, LENGTH),
            "attention_mask": (BATCH, ALL),
            **dict.fromkeys(cached, (BATCH, None, CACHED, None)),
        },
        outputs=["logits", *(PRESENT + name for name in names)],
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Parts:
    """The three functions of an encoder-decoder, and the tensors they pass on."""

    encode: Callable[..., Tensor]
    decode_first: Callable[..., tuple[Tensor, ...]]
    decode_next: Callable[..., tuple[Tensor, ...]]
    cached: dict[str, Axes]
    """Names and axes of the tensors that ``decode_first`` passes on."""
    kept: list[str]
    """The names among these that ``decode_next`` passes on again."""
    target: str | None = TARGET
    """The token axis of ``decode_next``; None if it takes a single token."""


def _parts(model: Transformer | BertEncoderDecoder | RnnSearch) -> _Parts:
    if isinstance(model, RnnSearch):
        cell = ["cell"] if model.config.cell == "lstm" else []
        states = ["hidden", *cell, "context"]
        source: Axes = (BATCH, SOURCE, None)
        return _Parts(
            encode=recurrent.encode,
            decode_first=recurrent.decode_first,
            decode_next=recurrent.decode_next,
            cached={
                **dict.fromkeys(states, (BATCH, None)),
                **dict.fromkeys(("encoder.key", "encoder.value"), source),
            },
            kept=states,
            target=None,
        )
    names = _cache_names(_blocks(model), ["decoder.", "encoder."])
    return _Parts(
        encode=_encode_source,
        decode_first=_decode_first,
        decode_next=_decode_next,
        cached={
            name: (BATCH, None, CACHED if ".decoder." in name else SOURCE, None) for name in names
        },
        kept=[name for name in names if ".decoder." in name],
    )


def _encoder_and_decoder(
    model: Transformer | BertEncoderDecoder | RnnSearch, batch: dict[str, Tensor]
) -> list[Graph]:
    batch, parts = dict(batch), _parts(model)
    ids, mask = batch.pop("decoder_input_ids"), batch["attention_mask"]
    encoded = parts.encode(model, *batch.values())
    started = parts.decode_first(model, ids[:, :3], mask, encoded)[1:]
    past = {PAST + name: tensor for name, tensor in zip(parts.cached, started, strict=True)}
    new = {"input_ids": ids, "encoder_attention_mask": mask}
    axes: dict[str, Axes] = {
        "input_ids": (BATCH, TARGET),
        "encoder_attention_mask": (BATCH, SOURCE),
    }
    return [
        Graph(
            file=ENCODER,
            model=model,
            compute=parts.encode,
            inputs=batch,
            axes=dict.fromkeys(batch, (BATCH, SOURCE)),
            outputs=["last_hidden_state"],
        ),
        Graph(
            file=DECODER,
            model=model,
            compute=parts.decode_first,
            inputs={**new, "encoder_hidden_states": encoded},
            axes={**axes, "encoder_hidden_states": (BATCH, SOURCE, None)},
            outputs=["logits", *(PRESENT + name for name in parts.cached)],
        ),
        Graph(
            file=DECODER_WITH_PAST,
            model=model,
            compute=parts.decode_next,
            inputs={
                **new,
                "input_ids": ids[:, 3:] if parts.target else ids[:, 3:4],
                **past,
            },
            axes={
                **axes,
                "input_ids": (BATCH, parts.target),
                **{PAST + name: each for name, each in parts.cached.items()},
            },
            outputs=["logits", *(PRESENT + name for name in parts.kept)],
        ),
    ]


def _blocks(model: Transformer | BertEncoderDecoder) -> int:
    if isinstance(model, Transformer):
        return model.config.decoder_layers
    blocks: int = model.decoder.config.num_hidden_layers
    return blocks

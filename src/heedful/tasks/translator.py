"""The models that translate: made, loaded, and asked.

Shapes: B items of a batch, E tokens of the text to read, S of the text to write.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from heedful.batches import Batch
from heedful.decoding.search import Hypothesis
from heedful.losses import IGNORED
from heedful.models import RnnConfig, RnnSearch, Transformer, TransformerConfig
from heedful.models.presets import RNN_PRESETS, TRANSFORMER_PRESETS
from heedful.settings import PredictSettings, TranslateSettings
from heedful.tasks.written import draw_number, log_likelihoods, search_options
from heedful.tokens import TranslationTokenizer

Translator = Transformer | RnnSearch


def new_model(
    settings: TranslateSettings, tokenizer: TranslationTokenizer, *, dropout: float | None
) -> Translator:
    """Make a model from scratch for a tokenizer."""
    common: dict[str, Any] = {
        "vocab_size": tokenizer.source.vocab_size,
        "decoder_vocab_size": tokenizer.target.vocab_size,
        "pad_token_id": tokenizer.pad_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "decoder_start_token_id": tokenizer.pad_token_id,
        "share_encoder_decoder_embeddings": tokenizer.joint,
        "label_smoothing": settings.label_smoothing,
    }
    if dropout is not None:
        common["dropout"] = dropout
    if settings.arch == "rnn":
        return RnnSearch(RnnConfig(cell=settings.cell, **RNN_PRESETS[settings.preset], **common))
    return Transformer(
        TransformerConfig(
            normalize_before=settings.pre_norm, **TRANSFORMER_PRESETS[settings.preset], **common
        )
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What was computed for an example."""

    hypotheses: list[Hypothesis]
    log_likelihood: float
    """Of the known translation: the sum over its tokens; 0 if none is known."""
    tokens: int
    """Tokens of the known translation."""
    attention: NDArray[np.float32] | None
    """How much each token of the first hypothesis attends to each that was read, if asked for.
    Shape (S, E)."""


@torch.inference_mode()
def translations(
    model: Translator, batch: Batch, settings: PredictSettings, *, longest: int
) -> list[Found]:
    """Write the translation of each item, and score it where it is known.

    Args:
        model: the model.
        batch: the texts.
        settings: how to search.
        longest: the most tokens of a translation, unless the settings say.
    """
    known = [[0.0, 0.0]] * batch.items
    if batch.labels is not None:
        output = model(batch.input_ids, batch.attention_mask, labels=batch.labels)
        known = log_likelihoods(output.logits, output.positions, batch.labels).tolist()
    texts = _search(model, batch, settings, longest)
    attention: list[NDArray[np.float32] | None] = [None] * batch.items
    if settings.alignments:
        attention = [*_attention(model, batch, [found[0] for found in texts])]
    return [
        Found(hypotheses=found, log_likelihood=total, tokens=int(tokens), attention=weights)
        for found, (total, tokens), weights in zip(texts, known, attention, strict=True)
    ]


def _search(
    model: Translator, batch: Batch, settings: PredictSettings, longest: int
) -> list[list[Hypothesis]]:
    config = model.config
    options = search_options(
        settings,
        eos_token_id=config.eos_token_id,
        max_new_tokens=min(settings.max_new_tokens or longest, config.max_position_embeddings),
        never=config.pad_token_id,
    )
    rows = batch.input_ids.tolist()
    numbers = [draw_number([at for at in row if at != config.pad_token_id]) for row in rows]
    return model.generate(
        batch.input_ids,
        batch.attention_mask,
        search=options,
        numbers=numbers,
        prefixes=batch.prefixes,
    )


def _attention(
    model: Translator, batch: Batch, found: Sequence[Hypothesis]
) -> Iterator[NDArray[np.float32]]:
    """Yield the attention of each text that was written. Each of shape (S, E)."""
    end = (model.config.eos_token_id,)
    rows = [torch.tensor(one.tokens + end) for one in found]
    targets = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=IGNORED)
    weights = model.align(batch.input_ids, batch.attention_mask, targets.to(batch.input_ids.device))
    for one, weight in zip(found, weights.float().cpu(), strict=True):
        yield weight[: len(one.tokens)].numpy()

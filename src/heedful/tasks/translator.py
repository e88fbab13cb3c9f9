"""Create translation models and their vocabularies, and generate translations.

Shapes: B examples of a batch, E source tokens, S target tokens.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from heedful.batches import Batch
from heedful.checkpoints.runs import RECORD, RunRecord, read_record
from heedful.decoding.search import Hypothesis
from heedful.errors import UserError, count_of
from heedful.interop import exported, marian
from heedful.losses import IGNORED
from heedful.models import RnnConfig, RnnSearch, Transformer, TransformerConfig
from heedful.models.rnn.presets import PRESETS as RNN_PRESETS
from heedful.models.transformer.presets import PRESETS as TRANSFORMER_PRESETS
from heedful.reading import Record
from heedful.settings import ParallelSettings, PredictSettings, TranslateSettings
from heedful.sources import resolve
from heedful.tasks.generation import (
    GenerationOutput,
    known_scores,
    sampling_seeds,
    search_options,
    unpadded_token_ids,
)
from heedful.tokens import TranslationTokenizer
from heedful.tokens.learning import count_strings_between_spaces, learn_translation

Translator: TypeAlias = Transformer | RnnSearch

_CHUNK_SIZE = 1024
"""Number of pairs per call of the word counter."""


def learn_tokenizer(pairs: Iterable[Record], settings: TranslateSettings) -> TranslationTokenizer:
    """Learn the source and target vocabularies."""
    source: Counter[str] = Counter()
    target: Counter[str] = Counter()
    stream = iter(pairs)
    while chunk := list(islice(stream, _CHUNK_SIZE)):
        source.update(count_strings_between_spaces(record.text for record in chunk))
        target.update(count_strings_between_spaces(record.text_pair or "" for record in chunk))
    return learn_translation(
        source, target, size=settings.vocab_size, separate=settings.separate_vocabularies
    )


def new_model(
    settings: TranslateSettings, tokenizer: TranslationTokenizer, *, dropout: float | None
) -> Translator:
    """Create a model from scratch for a tokenizer."""
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


def check_prefix(prefix: Sequence[int], max_new_tokens: int, where: str = "") -> None:
    """Refuse the beginning of a translation that leaves no room for the rest.

    Args:
        prefix: the tokens that the translation must begin with.
        max_new_tokens: maximum number of tokens of a translation.
        where: location of the text, for messages.

    Raises:
        UserError: naming the location.
    """
    if len(prefix) >= max_new_tokens:
        raise UserError(
            f"{where}{': ' if where else ''}the beginning of the translation has "
            f"{count_of(len(prefix), 'token')}, but at most {max_new_tokens:,} are generated, "
            "including the end token: give a shorter one, or a larger --max-new-tokens"
        )


def earlier_limits(data: ParallelSettings, model: object) -> tuple[int, int]:
    """Return the least `longest` and maximum input length of a run that continues from a model.

    These are what the model had before, or --max-length if it is given and more; 0 from scratch.

    Raises:
        UserError: a file of the model's folder is damaged.
    """
    if data.model is None:
        return 0, 0
    folder = resolve(data.model, data.revision)
    if (folder / RECORD).is_file():
        record: RunRecord | None = read_record(folder)
    else:
        record = exported.read_record(folder)
        if record is None and isinstance(model, Transformer):
            record = marian.read_record(folder)
    defaults = {field.name: field.default for field in fields(data)}
    explicit = 0 if data.max_length == defaults["max_length"] else data.max_length
    if record is None or record.task != "translate":
        return explicit, explicit
    return max(record.goal.get("longest", 0), explicit), max(record.max_length, explicit)


def translate_batch(
    model: Translator, batch: Batch, settings: PredictSettings, *, longest: int
) -> list[GenerationOutput]:
    """Generate a translation of each example, and score its reference translation if given.

    Args:
        model: the model.
        batch: the source texts. The targets may hold ``labels``, the reference translations, and
            ``prefixes``, the forced prefixes. Both have shape (B, S) and are padded with -100.
        settings: the search settings.
        longest: maximum number of tokens of a translation, unless the settings override it.
    """
    scores = [(0.0, 0)] * batch.num_examples
    labels = batch.targets.get("labels")
    if labels is not None and labels.shape[1]:
        output = model(**batch.inputs, labels=labels)
        scores = known_scores(output.logits, output.positions, labels)
    hypotheses = _search(model, batch, settings, longest)
    attention: list[NDArray[np.float32] | None] = [None] * batch.num_examples
    if settings.alignments:
        attention = [*_attention(model, batch, [texts[0] for texts in hypotheses])]
    return [
        GenerationOutput(
            hypotheses=texts, log_likelihood=log_likelihood, tokens_known=tokens, attention=weights
        )
        for texts, (log_likelihood, tokens), weights in zip(
            hypotheses, scores, attention, strict=True
        )
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
    labels = batch.targets.get("prefixes")
    prefixes = None if labels is None else _unpadded(labels)
    for prefix in prefixes or ():
        check_prefix(prefix, options.max_new_tokens)  # it may exceed the model's positions alone
    return model.generate(
        batch.inputs["input_ids"],
        batch.inputs.get("attention_mask"),
        search=options,
        item_seeds=sampling_seeds(unpadded_token_ids(batch)),
        prefixes=prefixes,
    )


def _unpadded(prefixes: torch.Tensor) -> list[list[int]]:
    return [[token for token in row if token != IGNORED] for row in prefixes.tolist()]


def _attention(
    model: Translator, batch: Batch, texts: Sequence[Hypothesis]
) -> Iterator[NDArray[np.float32]]:
    """Yield the cross-attention weights of each generated text. Each of shape (S, E)."""
    end, ids = (model.config.eos_token_id,), batch.inputs["input_ids"]
    # A text stopped at the length limit has no position for an end token, and no row may be empty.
    rows = [torch.tensor(text.tokens + end * (text.ended or not text.tokens)) for text in texts]
    targets = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=IGNORED)
    weights = model.align(ids, batch.inputs.get("attention_mask"), targets.to(ids.device))
    for text, text_weights in zip(texts, weights.float().cpu(), strict=True):
        yield text_weights[: len(text.tokens)].numpy()

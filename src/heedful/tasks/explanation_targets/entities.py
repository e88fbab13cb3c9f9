"""Explanation targets for the tags of words.

Shapes: N copies of the example in a batch, T tokens, L tags.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from heedful.batches import Batch
from heedful.errors import UserError, did_you_mean, join_names
from heedful.explanation_target import (
    Answered,
    ExplanationTarget,
    NothingToExplainError,
    side_of,
    window_notes,
)
from heedful.reading.tagging import Scheme, TaggedText, parse_tag
from heedful.tasks.answers.entities import TaggedWord, Tagging
from heedful.tasks.explanation_targets.words import words_named
from heedful.tokens import Tokenizer


def tag(
    computed: Answered[TaggedText, Tensor, Tagging],
    target: str | None,
    tokenizer: Tokenizer,
    labels: Sequence[str],
    scheme: Scheme,
) -> ExplanationTarget:
    """Explain the logit of a word's tag, in the window with the most context around the word.

    Args:
        computed: the answer.
        target: ``WORD`` or ``WORD=TAG``, or an entity of several words, of which the first is
            explained. Default: the first word of the first entity; without entities, the word
            with the lowest probability of ``O``.
        tokenizer: the model's tokenizer.
        labels: the model's tags.
        scheme: the tagging scheme.

    Raises:
        NothingToExplainError: the text has no word.
        UserError: there is no such word, or no such tag.
    """
    word, name = _word(computed.record.text, computed.answer, target, labels)
    name = name or _decided(word, labels, scheme)
    window, position = _best_window(computed, word)
    record = computed.record

    def outputs(forward: Callable[..., Any], batch: Batch, positions: Tensor) -> Tensor:
        logits = forward(**batch.inputs).logits  # (N, T, L)
        rows = torch.arange(len(positions), device=logits.device)
        selected: Tensor = logits[rows, positions[:, 0]]  # (N, L)
        return selected

    return ExplanationTarget(
        description=f"tag {name!r} of {word.text!r}",
        examples=(computed.encoded.pieces[window],),
        sides=(side_of("text", [record.text], computed.encoded.kept[window], tokenizer),),
        outputs=outputs,
        output_index=labels.index(name),
        link="softmax",
        positions=(position,),
        notes=window_notes(window, len(computed.outputs), "where the word has the most context"),
    )


def _word(
    text: str, answer: Tagging, target: str | None, labels: Sequence[str]
) -> tuple[TaggedWord, str]:
    """Return a word, and the tag in the target, or an empty string."""
    words = [word for word in answer.words if word.scores is not None]
    if not words:
        raise NothingToExplainError("the text has no word to explain")
    if target is None:
        starts = [entity.start for entity in answer.entities]
        word = next(
            (word for word in words if word.start in starts),
            min(words, key=lambda one: (one.scores or {})["O"]),
        )
        return word, ""
    # A word may contain a `=`, so look for the whole target first.
    word_name, _, name = target.rpartition("=")
    spans = [(word.start, word.end) for word in words]
    for wanted, tag_name in ((target, ""), (word_name, name)):
        if indices := words_named(text, spans, wanted):
            # The target may be an entity of several words: explain the first.
            return _with_tag(words[indices[0]], tag_name, target, labels)
    texts = [word.text for word in words]
    wanted = word_name or target
    raise UserError(
        f"--target {target!r}: {wanted!r} is not a word of the text"
        f"{did_you_mean(wanted, texts)}: {join_names(texts)}"
    )


def _with_tag(
    word: TaggedWord, name: str, target: str, labels: Sequence[str]
) -> tuple[TaggedWord, str]:
    if name and name not in labels:
        raise UserError(
            f"--target {target!r}: {name!r} is not one of the model's tags"
            f"{did_you_mean(name, labels)}: {join_names(labels)}"
        )
    return word, name


def _decided(word: TaggedWord, labels: Sequence[str], scheme: Scheme) -> str:
    """Return the model's tag for a word.

    If the scheme allows any transition, a ``B-`` in the answer may be an ``I-`` of the model, as in
    IOB1.
    """
    if scheme != "any":
        return word.tag
    scores, type_ = word.scores or {}, parse_tag(word.tag).type
    return max((tag for tag in labels if parse_tag(tag).type == type_), key=scores.__getitem__)


def _best_window(
    computed: Answered[TaggedText, Tensor, Tagging], word: TaggedWord
) -> tuple[int, int]:
    """Return the window with the most context around a word, and the word's first token there.

    ``word_probabilities`` takes the word's probabilities from the same window.
    """
    candidates = []
    for window, offsets in enumerate(computed.encoded.offsets):
        starts = offsets[:, 0]
        inner = np.flatnonzero(starts >= 0)  # excludes special tokens
        tokens = inner[(starts[inner] >= word.start) & (starts[inner] < word.end)]
        if len(tokens):
            first, last = tokens[starts[tokens] == starts[tokens[0]]][[0, -1]].tolist()
            context = min(first - inner[0], inner[-1] - last)
            candidates.append((context, -window, first))
    assert candidates  # otherwise the word has no scores
    _, window, position = max(candidates)
    return -window, position

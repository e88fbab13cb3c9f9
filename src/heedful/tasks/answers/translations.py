"""Translations as answers, with word alignments, and their scores."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heedful.batches.word_spans import Span, word_numbers, word_spans
from heedful.errors import UserError
from heedful.metrics.generation import text_scores
from heedful.reading import Record
from heedful.scripts import on_one_line
from heedful.tasks.answers.generated import GeneratedText, likelihood_scores
from heedful.tokens import TranslationTokenizer
from heedful.tokens.translation import Side


@dataclass(frozen=True, kw_only=True, slots=True)
class Links:
    """Alignments between the words of a text and of its translation."""

    source_words: tuple[Span, ...]
    """Start and end of each source word; punctuation marks are words too."""
    target_words: tuple[Span, ...]
    """Start and end of each word of the translation."""
    links: tuple[tuple[int, int], ...]
    """Pairs of a source word index and a target word index: for each word of the translation, the
    source word with the highest attention weight."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Translation:
    """The answer for one text."""

    n_best: tuple[GeneratedText, ...]
    """Best first; samples in the order in which they were drawn."""
    links: Links | None
    """Alignments of the first translation, if requested and if the tokenizer preserves the text."""
    log_likelihood: float
    """Sum of the log-probabilities of the reference translation's tokens; 0 if there is none."""
    tokens_known: int
    """Number of tokens of the reference translation; 0 if there is none."""
    tokens_generated: int
    """Number of tokens of the first translation, with the end token of each part that ended."""
    tokens_total: int
    """Number of tokens of the text."""
    tokens_used: int
    """Number of tokens that the model read."""

    @property
    def text(self) -> str:
        """The first translation."""
        return self.n_best[0].text

    def to_dict(self, *, everything: bool = False) -> dict[str, Any]:
        """Return the translation with its score and alignments, and on request all hypotheses."""
        row = self.n_best[0].to_dict()
        if self.links is not None:
            row |= {
                "source_words": self.links.source_words,
                "target_words": self.links.target_words,
                "alignments": self.links.links,
            }
        if everything:
            row["n_best"] = [text.to_dict() for text in self.n_best]
        return row | {"tokens_total": self.tokens_total, "tokens_used": self.tokens_used}

    def plain(self) -> str:
        """Return the translation on one line, with all its spaces."""
        return on_one_line(self.text)


def align_words(
    text: str,
    source_ids: Sequence[Sequence[int]],
    translation: str,
    target_ids: Sequence[Sequence[int]],
    attention: Sequence[NDArray[np.float32]],
    tokenizer: TranslationTokenizer,
    *,
    whole_words: bool = False,
) -> Links | None:
    """Align the words of a translation with the words of its text.

    Args:
        text: the text.
        source_ids: token ids of each part of the text, without the end token.
        translation: the translations of all parts, joined.
        target_ids: token ids of each part's translation.
        attention: cross-attention weights of each part, from each target token to the source tokens
            and to the end token and padding after them. Each of shape (S, E) with a larger E.
        tokenizer: the source and target tokenizers.
        whole_words: whether to segment Chinese into words, instead of single characters.

    Returns:
        The alignments; None if the tokenizer does not preserve the texts.

    Raises:
        UserError: the segmenter is needed, but is not installed.
    """
    source_spans = _source_spans(text, source_ids, tokenizer.source)
    target_spans = _piece_spans(translation, target_ids, tokenizer.target)
    if source_spans is None or target_spans is None:
        return None
    source_words = word_spans(text, whole=whole_words)
    target_words = word_spans(translation, whole=whole_words)
    source_owners = word_numbers(source_spans, source_words)
    target_owners = word_numbers(target_spans, target_words)
    # Sparse rows: the tokens of a word attend to only one part of a long text.
    weights: list[defaultdict[int, float]] = [defaultdict(float) for _ in target_words]
    for targets, sources, rows in zip(target_owners, source_owners, attention, strict=True):
        for target, row in zip(targets, rows, strict=True):
            for source, weight in zip(sources, row, strict=False):  # skips end token and padding
                if target is not None and source is not None:
                    weights[target][source] += float(weight)
    return Links(
        source_words=tuple(source_words),
        target_words=tuple(target_words),
        links=tuple(
            (max(row, key=row.__getitem__), number)
            for number, row in enumerate(weights)
            if any(row.values())
        ),
    )


def _source_spans(
    text: str, parts: Sequence[Sequence[int]], tokenizer: Side
) -> list[list[Span]] | None:
    """Like `_piece_spans`, for a text that may have been split into sentences.

    Each part starts with the language code, but only the first has it in the text.
    """
    if not tokenizer.language_code(text):
        return _piece_spans(text, parts, tokenizer) or _spans_between_spaces(text, parts, tokenizer)
    without_codes = [*parts[:1], *(ids[1:] for ids in parts[1:])]
    spans = _piece_spans(text, without_codes, tokenizer) or _spans_between_spaces(
        text, without_codes, tokenizer
    )
    if spans is None:
        return None
    return [*spans[:1], *([(0, 0), *part_spans] for part_spans in spans[1:])]


def _piece_spans(
    text: str, parts: Sequence[Sequence[int]], tokenizer: Side
) -> list[list[Span]] | None:
    """Return the span in the text of each piece of each part, or None if a part is not found."""
    spans, start = [], 0
    for ids in parts:
        part = tokenizer.decode(ids)
        start = text.find(part, start)
        if start < 0:
            return None
        spans.append([(start + begin, start + end) for begin, end in tokenizer.offsets(ids)])
        start += len(part)
    return spans


def _spans_between_spaces(
    text: str, parts: Sequence[Sequence[int]], tokenizer: Side
) -> list[list[Span]] | None:
    """Like `_piece_spans`, for parts whose whitespace differs from that of the text."""
    indices = [position for position, character in enumerate(text) if not character.isspace()]
    compact = "".join(text[position] for position in indices)
    indices.append(len(text))
    spans, start = [], 0
    for ids in parts:
        part = tokenizer.decode(ids)
        counts = [0, *accumulate(not character.isspace() for character in part)]
        start = compact.find("".join(part.split()), start)
        if start < 0:
            return None
        edges = [
            (start + counts[begin], start + counts[end]) for begin, end in tokenizer.offsets(ids)
        ]
        spans.append(
            [(indices[begin], indices[max(begin, end - 1)] + (end > begin)) for begin, end in edges]
        )
        start += counts[-1]
    return spans


class TranslationScores:
    """Accumulates the quality of translations, and the likelihood of the references.

    Args:
        bleu_tokenize: sacreBLEU tokenizer; see `heedful.metrics.generation`.
    """

    def __init__(self, bleu_tokenize: str) -> None:
        self._bleu_tokenize = bleu_tokenize
        self._log_likelihood = 0.0
        self._known = self._tokens_known = self._tokens_generated = 0
        self._texts: list[str] = []
        self._references: list[str] = []

    def update(self, answers: Sequence[Translation], records: Sequence[Record]) -> None:
        """Add answers to texts with reference translations."""
        for answer, record in zip(answers, records, strict=True):
            self._log_likelihood += answer.log_likelihood
            self._known += answer.tokens_known > 0
            self._tokens_known += answer.tokens_known
            self._tokens_generated += answer.tokens_generated
            self._texts.append(answer.text)
            self._references.append(record.text_pair or "")

    def compute(self) -> dict[str, Any]:
        """Return sacreBLEU scores with their signatures, and the likelihood of the references.

        ``log_likelihood`` is the mean per token. If some references could not be scored,
        ``likelihood_items`` is the number of those that were.

        Raises:
            UserError: nothing was added.
        """
        if not self._texts:
            raise UserError("no translations to score: the data is empty")
        scores: dict[str, Any] = {
            "items": len(self._texts),
            "tokens": self._tokens_generated,
            **text_scores(self._texts, self._references, cased=True, tokenize=self._bleu_tokenize),
        }
        if self._known:
            scores |= likelihood_scores(self._log_likelihood, self._tokens_known)
        if self._known < len(self._texts):
            scores["likelihood_items"] = self._known
        return scores

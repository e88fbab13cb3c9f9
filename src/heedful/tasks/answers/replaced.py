"""Answers of replaced-token detection: the words of a text that look replaced, and scores.

Shapes: B texts of a batch, T their length.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from heedful.batches import Example, Fitted
from heedful.batches.words import piece_words
from heedful.errors import UserError
from heedful.reading import Record
from heedful.tasks.answers.sequences import MaskedCounts
from heedful.tokens import Tokenizer

LOOKS_REPLACED = 0.5
"""Minimum probability of a word that counts as replaced."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Word:
    """A word of a text: ``text[start:end]`` of the user's text."""

    start: int
    end: int
    text: str
    score: float
    """The probability that it was replaced: the maximum over its tokens."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Detected:
    """The answer for one text."""

    words: tuple[Word, ...]
    """All words that the model read, in order."""
    tokens_total: int
    """Number of tokens of the text."""
    tokens_used: int
    """Number of tokens that the model read."""

    @property
    def replaced(self) -> tuple[Word, ...]:
        """The words that look replaced."""
        return tuple(word for word in self.words if word.score >= LOOKS_REPLACED)

    def to_dict(self, *, everything: bool = False) -> dict[str, Any]:
        """Return the words that look replaced, and on request all words."""
        row: dict[str, Any] = {"replaced": [_rounded(word) for word in self.replaced]}
        if everything:
            row["words"] = [_rounded(word) for word in self.words]
        return row | {"tokens_total": self.tokens_total, "tokens_used": self.tokens_used}

    def plain(self) -> str:
        """Return the words that look replaced."""
        return " ".join(word.text for word in self.replaced)


def _rounded(word: Word) -> dict[str, Any]:
    return asdict(word) | {"score": round(word.score, 6)}


def most_context(fitted: Fitted[Example], tokenizer: Tokenizer) -> dict[int, tuple[int, int]]:
    """Return, for each token, the window with the most context and the token's position there.

    Args:
        fitted: the windows of the text.
        tokenizer: the model's tokenizer.

    Returns:
        By the index of the token in the text.
    """
    best: dict[int, tuple[int, int, int]] = {}
    first = len(tokenizer.layout.begin)
    for window, (example, kept) in enumerate(zip(fitted.pieces, fitted.kept, strict=True)):
        for position, index in enumerate(kept[0], start=first):
            context = min(position, len(example.ids) - 1 - position)
            if context > best.get(index, (-1,))[0]:
                best[index] = context, window, position
    return {index: (window, position) for index, (_, window, position) in best.items()}


def tokens_of_words(
    text: str, numbers: Iterable[int], tokenizer: Tokenizer
) -> dict[tuple[int, int], list[int]]:
    """Return the tokens of each word, by start and end; omit tokens that are whitespace.

    Args:
        text: the text.
        numbers: indices of tokens in the text, in order.
        tokenizer: the model's tokenizer.
    """
    words: dict[tuple[int, int], list[int]] = {}
    (pieces,) = piece_words([text], tokenizer)
    offsets = tokenizer.pieces(text).offsets
    for index in numbers:
        if text[slice(*offsets[index])].strip():
            start, end = pieces.words[index].tolist()
            words.setdefault((start, end), []).append(index)
    return words


def decode(
    record: Record, fitted: Fitted[Example], outputs: Sequence[Tensor], tokenizer: Tokenizer
) -> Detected:
    """Compute the probability of each word that it was replaced.

    Args:
        record: the text.
        fitted: its windows.
        outputs: the logits of each window's tokens. Each of shape (T,).
        tokenizer: the model's tokenizer.

    Raises:
        UserError: a logit is NaN or infinite.
    """
    locations = most_context(fitted, tokenizer)
    probabilities = [output.float().sigmoid() for output in outputs]
    if not all(probability.isfinite().all() for probability in probabilities):
        raise UserError("a probability is not a number; the model is damaged")
    scored: list[Word] = []
    words = tokens_of_words(record.text, sorted(locations), tokenizer)
    for (start, end), tokens in words.items():
        token_locations = [locations[token] for token in tokens]
        score = max(float(probabilities[window][position]) for window, position in token_locations)
        scored.append(Word(start=start, end=end, text=record.text[start:end], score=score))
    return Detected(
        words=tuple(scored), tokens_total=fitted.tokens_total, tokens_used=fitted.tokens_used
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplacedCounts:
    """Counts of the predictions of which tokens of a sequence were replaced."""

    filled: MaskedCounts
    """The generator's predictions of the masked tokens."""
    tokens: int
    """Number of tokens of the sequence."""
    correct: int
    """Number of tokens classified correctly as replaced or original."""
    replaced: int
    """Number of replaced tokens."""
    flagged: int
    """Number of tokens classified as replaced."""
    caught: int
    """Number of replaced tokens classified as replaced."""

    @property
    def tokens_total(self) -> int:
        """Number of tokens of the sequence."""
        return self.filled.tokens_total

    @property
    def tokens_used(self) -> int:
        """Number of tokens that the model read."""
        return self.filled.tokens_used

    def to_dict(self, *, everything: bool = False) -> dict[str, Any]:
        """Return the counts."""
        names = ("tokens", "correct", "replaced", "flagged", "caught")
        return {name: getattr(self, name) for name in names} | {
            "generator": self.filled.to_dict(everything=everything)
        }

    def plain(self) -> str:
        """Return the share of correctly classified tokens."""
        return f"{self.correct / max(self.tokens, 1):.6f}"


class ReplacedScores:
    """Accumulates ``heedful.metrics.DetectionScores`` and ``LanguageScores``."""

    def __init__(self) -> None:
        from heedful.metrics import DetectionScores, LanguageScores  # slow to import

        self._detected, self._filled = DetectionScores(), LanguageScores()

    def update(self, answers: Sequence[Any], records: Sequence[Example | Record]) -> None:
        """Add sequences."""
        scored = [answer for answer in answers if isinstance(answer, ReplacedCounts)]
        filled = [answer.filled for answer in scored]
        self._filled.update(
            torch.tensor([prediction.loss for prediction in filled]),
            torch.tensor([prediction.correct for prediction in filled]),
            torch.tensor([prediction.masked for prediction in filled]),
        )
        self._detected.update(
            *(
                torch.tensor([getattr(answer, name) for answer in scored])
                for name in ("tokens", "correct", "replaced", "flagged", "caught")
            )
        )

    def compute(self) -> dict[str, Any]:
        """Return the scores."""
        return self._filled.compute() | self._detected.compute()

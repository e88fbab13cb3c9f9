"""What a run of replaced tokens answers: which words of a text look replaced, and its scores.

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
from heedful.tasks.answers.sequences import Scored
from heedful.tokens import Tokenizer

LOOKS_REPLACED = 0.5
"""The probability from which on a word is said to look replaced."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Word:
    """A word of a text: ``text[start:end]`` of what the user gave."""

    start: int
    end: int
    text: str
    score: float
    """The probability that it was replaced: the highest of its tokens."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Detected:
    """The answer for one text."""

    words: tuple[Word, ...]
    """All its words that the model was given, in order."""
    tokens_total: int
    """Tokens of the text."""
    tokens_used: int
    """Tokens the model was given."""

    @property
    def replaced(self) -> tuple[Word, ...]:
        """Those that look replaced."""
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
    """Return where each token of a text has most context: its window, and its position there.

    Args:
        fitted: the windows of the text.
        tokenizer: the model's tokenizer.

    Returns:
        By the number of the token in the text.
    """
    best: dict[int, tuple[int, int, int]] = {}
    first = len(tokenizer.layout.begin)
    for window, (example, kept) in enumerate(zip(fitted.pieces, fitted.kept, strict=True)):
        for position, number in enumerate(kept[0], start=first):
            around = min(position, len(example.ids) - 1 - position)
            if around > best.get(number, (-1,))[0]:
                best[number] = around, window, position
    return {number: (window, position) for number, (_, window, position) in best.items()}


def tokens_of_words(
    text: str, numbers: Iterable[int], tokenizer: Tokenizer
) -> dict[tuple[int, int], list[int]]:
    """Return the tokens of each word, by its start and end; a token that is a space is of none.

    Args:
        text: the text.
        numbers: of the tokens, in order, as they are in the text.
        tokenizer: the model's tokenizer.
    """
    words: dict[tuple[int, int], list[int]] = {}
    spans, offsets = piece_words(text, tokenizer)[1], tokenizer.pieces(text).offsets
    for number in numbers:
        if text[slice(*offsets[number])].strip():
            start, end = spans[number].tolist()
            words.setdefault((start, end), []).append(number)
    return words


def decode(
    record: Record, fitted: Fitted[Example], outputs: Sequence[Tensor], tokenizer: Tokenizer
) -> Detected:
    """Give each word of a text the probability that it was replaced.

    Args:
        record: the text.
        fitted: its windows.
        outputs: the logits of each window's tokens. Each of shape (T,).
        tokenizer: the model's tokenizer.

    Raises:
        UserError: a logit is not a number.
    """
    known = most_context(fitted, tokenizer)
    chances = [output.float().sigmoid() for output in outputs]
    if not all(chance.isfinite().all() for chance in chances):
        raise UserError("a probability is not a number; the model is damaged")
    scored: list[Word] = []
    words = tokens_of_words(record.text, sorted(known), tokenizer)
    for (start, end), numbers in words.items():
        at = [known[number] for number in numbers]
        score = max(float(chances[window][position]) for window, position in at)
        scored.append(Word(start=start, end=end, text=record.text[start:end], score=score))
    return Detected(
        words=tuple(scored), tokens_total=fitted.tokens_total, tokens_used=fitted.tokens_used
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoredReplaced:
    """How well replaced tokens of a sequence were told from original ones."""

    filled: Scored
    """How well the generator told the hidden tokens."""
    tokens: int
    """Tokens of the sequence."""
    right: int
    """Those that were told right: replaced or original."""
    replaced: int
    """Those that were replaced."""
    flagged: int
    """Those that looked replaced."""
    caught: int
    """Those that were and looked replaced."""

    @property
    def tokens_total(self) -> int:
        """Tokens of the sequence."""
        return self.filled.tokens_total

    @property
    def tokens_used(self) -> int:
        """Tokens that the model was given."""
        return self.filled.tokens_used

    def to_dict(self, *, everything: bool = False) -> dict[str, Any]:
        """Return the counts."""
        names = ("tokens", "right", "replaced", "flagged", "caught")
        return {name: getattr(self, name) for name in names} | {
            "generator": self.filled.to_dict(everything=everything)
        }

    def plain(self) -> str:
        """Return the share of the tokens that were told right."""
        return f"{self.right / max(self.tokens, 1):.6f}"


class ReplacedScores:
    """Scores of sequences; see ``heedful.metrics.DetectionScores`` and ``LanguageScores``."""

    def __init__(self) -> None:
        from heedful.metrics import DetectionScores, LanguageScores  # slow to import

        self._detected, self._filled = DetectionScores(), LanguageScores()

    def update(self, answers: Sequence[Any], records: Sequence[Example | Record]) -> None:
        """Count sequences."""
        scored = [answer for answer in answers if isinstance(answer, ScoredReplaced)]
        filled = [answer.filled for answer in scored]
        self._filled.update(
            torch.tensor([one.loss for one in filled]),
            torch.tensor([one.right for one in filled]),
            torch.tensor([one.hidden for one in filled]),
        )
        self._detected.update(
            *(
                torch.tensor([getattr(answer, name) for answer in scored])
                for name in ("tokens", "right", "replaced", "flagged", "caught")
            )
        )

    def compute(self) -> dict[str, Any]:
        """Return the scores."""
        return self._filled.compute() | self._detected.compute()

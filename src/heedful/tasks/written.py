"""Texts that a model writes: how they are looked for, as answers, and their scores."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import torch
from torch import Tensor

from heedful.decoding.search import Search
from heedful.errors import UserError
from heedful.metrics.writing import text_scores
from heedful.reading import Record
from heedful.settings import PredictSettings
from heedful.tokens import Tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """One text that was written."""

    text: str
    score: float
    """Log-probability of its tokens, after the length penalty."""
    ended: bool
    """Whether it came to an end of its own, rather than to --max-new-tokens."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Generation:
    """The answer for one text."""

    n_best: tuple[Written, ...]
    """Best first; samples in the order in which they were drawn."""
    log_likelihood: float
    """Of the right text, given it: the sum over its tokens; 0 where none was given."""
    tokens_written: int
    """Tokens of the right text; 0 where none was given."""
    tokens_total: int
    """Tokens of the text to read."""
    tokens_used: int
    """Tokens of it that the model was given."""

    @property
    def text(self) -> str:
        """The first of the texts, or nothing where only the right text was scored."""
        return self.n_best[0].text if self.n_best else ""


def search_options(
    settings: PredictSettings, *, eos_token_id: int, max_new_tokens: int, never: int
) -> Search:
    """Return how a text is looked for.

    Args:
        settings: what the user asks for.
        eos_token_id: the token that ends a text.
        max_new_tokens: the most tokens.
        never: a token that is not written.
    """
    return Search(
        eos_token_id=eos_token_id,
        max_new_tokens=max_new_tokens,
        min_new_tokens=settings.min_new_tokens,
        num_beams=1 if settings.sample else settings.beam,
        num_return_sequences=settings.top if settings.sample else min(settings.top, settings.beam),
        length_penalty=settings.length_penalty,
        coverage_penalty=settings.coverage_penalty,
        repetition_penalty=settings.repetition_penalty,
        no_repeat_ngram=settings.no_repeat_ngram,
        do_sample=settings.sample,
        temperature=settings.temperature,
        top_k=settings.top_k,
        top_p=settings.top_p,
        seed=settings.seed,
        never=(never,),
    )


def draw_number(ids: list[int]) -> int:
    """Return the number that decides what is drawn for a text: wherever it stands, the same."""
    return crc32(repr(ids).encode())


def joined(parts: Sequence[Sequence[Written]]) -> Sequence[Written]:
    """Return what was written for a text in parts: of several the best of each, between spaces."""
    if len(parts) == 1:
        return parts[0]
    best = [part[0] for part in parts]
    return [
        Written(
            text=" ".join(one.text for one in best),
            score=sum((one.score for one in best), 0.0),
            ended=all(one.ended for one in best),
        )
    ]


def log_likelihoods(logits: Tensor, positions: Tensor, labels: Tensor) -> Tensor:
    """Return the sum over each known text's tokens, and their number.

    Args:
        logits: of the N tokens that are scored. Shape (N, V).
        positions: where they stand in the batch laid out as one row. Shape (N,).
        labels: what is known. Shape (B, S).

    Returns:
        Shape (B, 2).
    """
    targets = labels.flatten()[positions]  # (N,)
    scores = logits.float().log_softmax(-1).gather(1, targets[:, None])  # (N, 1)
    told = torch.cat([scores, torch.ones_like(scores)], dim=1)
    owner = positions // labels.shape[1]
    return told.new_zeros(len(labels), 2).index_add_(0, owner, told)


def read_line(line: Tensor, tokenizer: Tokenizer) -> Written | None:
    """Read one line of what was computed; None where the search found fewer texts."""
    score, ended, *tokens = line.tolist()
    if ended < 0:
        return None
    ids = [int(token) for token in tokens if token >= 0]
    return Written(text=tokenizer.text_of(ids), score=score, ended=bool(ended))


def row(answer: Generation, everything: bool) -> dict[str, Any]:
    """Return the text with its score, and on request the others of the beam."""
    if not answer.n_best:
        return {"text": ""}
    texts = [
        {"text": one.text, "score": round(one.score, 6), "ended": one.ended}
        for one in answer.n_best
    ]
    return {**texts[0], "n_best": texts} if everything else texts[0]


def plain(answer: Generation) -> str:
    """Return the text on one line."""
    return " ".join(answer.text.split())


class Scores:
    """Scores of texts: how likely the right ones were, and of pairs how near the written ones are.

    BLEU and chrF are sacreBLEU's with their signatures, in lower case, since most BERTs write so.
    """

    def __init__(self, *, pairs: bool) -> None:
        self._pairs = pairs
        self._sums = [0.0, 0.0]
        self._written: list[str] = []
        self._right: list[str] = []

    def update(self, answers: Sequence[Generation], records: Sequence[Record]) -> None:
        """Count answers to records whose texts to write are known."""
        for answer, record in zip(answers, records, strict=True):
            self._sums[0] += answer.log_likelihood
            self._sums[1] += answer.tokens_written
            if self._pairs:
                self._written.append(answer.text)
                self._right.append((record.labels or ("",))[0])

    def compute(self) -> dict[str, Any]:
        """Return ``log_likelihood`` (a token's mean), ``perplexity``, and ``bleu`` and ``chrf``.

        Raises:
            UserError: nothing was counted.
        """
        total, tokens = self._sums
        if not tokens:
            raise UserError("no texts to score: the data is empty")
        mean = total / tokens
        scores: dict[str, Any] = {
            "items": len(self._written) if self._pairs else int(tokens),
            "log_likelihood": mean,
            "perplexity": math.exp(min(-mean, 700)),
        }
        return scores | (text_scores(self._written, self._right) if self._pairs else {})

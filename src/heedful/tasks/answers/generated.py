"""Generated texts as answers, and their scores."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from heedful.errors import UserError
from heedful.metrics.generation import text_scores
from heedful.reading import Record
from heedful.scripts import join
from heedful.tasks.generation import GenerationOutput


@dataclass(frozen=True, kw_only=True, slots=True)
class GeneratedText:
    """One generated text."""

    text: str
    score: float
    """Log-probability of its tokens, with the length penalty."""
    ended: bool
    """Whether it has an end token, and was not stopped by --max-new-tokens."""

    def to_dict(self) -> dict[str, Any]:
        """Return the text as JSON-serializable values."""
        return {"text": self.text, "score": round(self.score, 6), "ended": self.ended}


@dataclass(frozen=True, kw_only=True, slots=True)
class Generation:
    """The answer for one text."""

    n_best: tuple[GeneratedText, ...]
    """Best first; samples in the order in which they were drawn."""
    log_likelihood: float
    """Sum of the log-probabilities of the reference text's tokens; 0 if there is none."""
    tokens_known: int
    """Number of tokens of the reference text; 0 if there is none."""
    tokens_total: int
    """Number of tokens of the source text."""
    tokens_used: int
    """Number of source tokens that the model read."""

    @property
    def text(self) -> str:
        """The first text; empty if only the reference text was scored."""
        return self.n_best[0].text if self.n_best else ""

    def to_dict(self, *, everything: bool = False) -> dict[str, Any]:
        """Return the text with its score, and on request the other hypotheses."""
        row: dict[str, Any] = self.n_best[0].to_dict() if self.n_best else {"text": ""}
        if everything and self.n_best:
            row["n_best"] = [text.to_dict() for text in self.n_best]
        return row | {"tokens_total": self.tokens_total, "tokens_used": self.tokens_used}

    def plain(self) -> str:
        """Return the text on one line."""
        return " ".join(self.text.split())


def best_texts(
    outputs: Sequence[GenerationOutput], decode: Callable[[Sequence[int]], str]
) -> tuple[GeneratedText, ...]:
    """Return the generated texts; for several parts, join the best text of each.

    Args:
        outputs: the output for each part of the source text.
        decode: turns tokens into text.
    """
    parts = [
        [
            GeneratedText(
                text=decode(hypothesis.tokens), score=hypothesis.score, ended=hypothesis.ended
            )
            for hypothesis in output.hypotheses
        ]
        for output in outputs
    ]
    if parts and (len(parts) == 1 or not parts[0]):
        return tuple(parts[0])
    best = [texts[0] for texts in parts]
    joined = GeneratedText(
        text=join(text.text for text in best),
        score=sum((text.score for text in best), 0.0),
        ended=all(text.ended for text in best),
    )
    return (joined,)


class GenerationScores:
    """Accumulates the likelihood of reference texts, and for pairs the quality of generated texts.

    BLEU and chrF are computed by sacreBLEU, with signatures, on lower-cased texts, since most BERTs
    generate lower case.
    """

    def __init__(self, *, pairs: bool, bleu_tokenize: str) -> None:
        self._pairs = pairs
        self._bleu_tokenize = bleu_tokenize
        self._log_likelihood = 0.0
        self._tokens = 0
        self._texts: list[str] = []
        self._references: list[str] = []

    def update(self, answers: Sequence[Generation], records: Sequence[Record]) -> None:
        """Add answers to records with reference texts."""
        for answer, record in zip(answers, records, strict=True):
            self._log_likelihood += answer.log_likelihood
            self._tokens += answer.tokens_known
            if self._pairs:
                self._texts.append(answer.text)
                self._references.append((record.labels or ("",))[0])

    def compute(self) -> dict[str, Any]:
        """Return ``log_likelihood`` (mean per token), ``perplexity``, and ``bleu`` and ``chrf``.

        Raises:
            UserError: nothing was added.
        """
        if not self._tokens:
            raise UserError("no texts to score: the data is empty")
        scores = {
            "items": len(self._texts) if self._pairs else self._tokens,
            **likelihood_scores(self._log_likelihood, self._tokens),
        }
        if self._pairs:
            scores |= text_scores(
                self._texts, self._references, cased=False, tokenize=self._bleu_tokenize
            )
        return scores


def likelihood_scores(log_likelihood: float, tokens: int) -> dict[str, float]:
    """Return the mean log-likelihood per token and the perplexity, from the sum over tokens."""
    mean = log_likelihood / tokens
    return {"log_likelihood": mean, "perplexity": math.exp(min(-mean, 700.0))}

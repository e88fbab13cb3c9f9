"""The answers of a classifier."""

from dataclasses import dataclass
from typing import Any

from heedful.reading.delimited import join_values


@dataclass(frozen=True, kw_only=True, slots=True)
class Prediction:
    """The answer for one text or image."""

    label: str | list[str]
    """The most probable label; if multi-label, all labels with a probability of at least 0.5."""
    score: float | None
    """Its probability, or its logit if ``raw``; None if multi-label."""
    scores: dict[str, float]
    """Probability or logit of each label, in the order of the run's labels."""
    tokens_total: int
    """Number of tokens of the text."""
    tokens_used: int
    """Number of tokens that the model read; lower only if ``long_text`` cuts the text."""
    windows: int
    """Number of windows of the text; their probabilities are averaged."""
    picture: str | None = None
    """File name of the image; None for a text, and for an image in memory."""

    def to_dict(self, *, everything: bool = False) -> dict[str, Any]:
        """Return the label with its score, and on request the scores of all labels."""
        row: dict[str, Any] = {} if self.picture is None else {"picture": self.picture}
        row["label"] = self.label
        if self.score is not None:
            row["score"] = round(self.score, 6)
        if everything or self.score is None:
            row["scores"] = {name: round(value, 6) for name, value in self.scores.items()}
        return row | {"tokens_total": self.tokens_total, "tokens_used": self.tokens_used}

    def plain(self) -> str:
        """Return the label on one line, or the labels, separated and quoted as in CSV."""
        if isinstance(self.label, str):
            return " ".join(self.label.splitlines())
        return join_values(" ".join(label.splitlines()) for label in self.label)

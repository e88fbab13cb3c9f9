"""What a classifier answers."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Prediction:
    """The answer for one text, or for one picture."""

    label: str | list[str]
    """The likeliest label; for a multi-label run every label whose probability is at least 0.5."""
    score: float | None
    """Its probability, or its logit where raw numbers are asked for; none for a multi-label run."""
    scores: dict[str, float]
    """The same of every label, in the order of the run's labels."""
    tokens_total: int
    """Tokens of the text."""
    tokens_used: int
    """Tokens the model was given: fewer only where ``long_text`` leaves some out."""
    windows: int
    """Windows the text was read in; their probabilities are averaged."""
    picture: str | None = None
    """The picture's file; None for a text, and for a picture that was in no file."""

    def to_dict(self, *, everything: bool = False) -> dict[str, Any]:
        """Return the label with its probability, and on request those of all labels."""
        row: dict[str, Any] = {} if self.picture is None else {"picture": self.picture}
        row["label"] = self.label
        if self.score is not None:
            row["score"] = round(self.score, 6)
        if everything or self.score is None:
            row["scores"] = {name: round(value, 6) for name, value in self.scores.items()}
        return row | {"tokens_total": self.tokens_total, "tokens_used": self.tokens_used}

    def plain(self) -> str:
        """Return the label, or labels with commas, on one line."""
        labels = [self.label] if isinstance(self.label, str) else self.label
        return ",".join(" ".join(label.splitlines()) for label in labels)

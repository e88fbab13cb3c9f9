"""The learning rate of a head, compared with that of the encoder."""

from typing import Any

import pytest

import heedful


def times_the_encoders(monkeypatch: pytest.MonkeyPatch, task: str, **options: Any) -> float:
    """Start a training as far as its optimizer, and return the ratio of the two rates."""
    ratios: list[float] = []

    def stop(*args: Any, learning_rate: float, head_learning_rate: float, **rest: Any) -> None:
        ratios.append(head_learning_rate / learning_rate)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("heedful.training.run.adamw", stop)
        with pytest.raises(KeyboardInterrupt):
            heedful.train(task, **options)
    (ratio,) = ratios
    return ratio

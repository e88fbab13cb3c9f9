"""The margin of a search: noise whose sum is below the margin changes nothing."""

import itertools
import math
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from heedful.decoding.search import Hypothesis, Search, search

END, VOCAB, LONGEST, STARTS = 0, 5, 6, 40


class Rows(tuple[tuple[int, ...], ...]):
    """The tokens of each hypothesis so far."""

    __slots__ = ()

    def select(self, rows: Tensor) -> "Rows":
        return Rows(self[row] for row in rows.tolist())


def step(tokens: Tensor, state: Rows, *, noise: float, seed: int) -> tuple[Tensor, Rows]:
    rows = Rows((*row, new) for row, new in zip(state, tokens.tolist(), strict=True))
    scores = [
        np.random.default_rng(row).normal(size=VOCAB)
        + noise * np.random.default_rng((*row, seed)).uniform(-1, 1, VOCAB)
        for row in rows
    ]
    return torch.from_numpy(np.stack(scores)), rows


def run(noise: float, seed: int, options: dict[str, Any]) -> list[list[Hypothesis]]:
    settings = Search(eos_token_id=END, max_new_tokens=LONGEST, **options)
    starts = torch.arange(5, 5 + STARTS)
    return search(partial(step, noise=noise, seed=seed), Rows(((),) * STARTS), starts, settings)


def _tokens(texts: list[Hypothesis]) -> list[tuple[tuple[int, ...], bool]]:
    return [(text.tokens, text.ended) for text in texts]


@pytest.mark.parametrize("penalty", [0.0, 1.0, -0.5])
@pytest.mark.parametrize(("width", "wanted"), [(1, 1), (3, 1), (3, 3)])
def test_noise_below_the_margin_changes_nothing(penalty: float, width: int, wanted: int) -> None:
    options = {"num_beams": width, "num_return_sequences": wanted, "length_penalty": penalty}
    clean = run(0.0, 0, options)
    held = changed = 0
    for noise, seed in itertools.product([0.0003, 0.001, 0.003, 0.1, 0.5], [1, 2, 3]):
        for before, after in zip(clean, run(noise, seed, options), strict=True):
            # A log-probability moves by twice the noise at most, a total by as much a token, and
            # two totals may move apart.
            if before[0].margin > 2 * LONGEST * 2 * noise:
                assert _tokens(before) == _tokens(after)
                held += 1
            changed += _tokens(before) != _tokens(after)
    assert held > 20
    assert changed > 20


@pytest.mark.parametrize(
    "options", [{}, {"top_k": 3}, {"top_p": 0.8}, {"top_k": 4, "top_p": 0.9, "temperature": 3.0}]
)
def test_noise_below_the_margin_draws_the_same(options: dict[str, Any]) -> None:
    options = {"do_sample": True, "num_return_sequences": 5, **options}
    clean = list(itertools.chain(*run(0.0, 0, options)))
    held, changed = 0, []
    for noise, seed in itertools.product([0.0003, 0.003, 0.03, 0.3], [1, 2]):
        found = itertools.chain(*run(noise, seed, options))
        for before, after in zip(clean, found, strict=True):
            if _tokens([before]) != _tokens([after]):
                changed.append(before.margin / noise)
            held += before.margin > 2 * noise
    # Two log-probabilities move apart by no more than twice the noise, and often by about as much.
    assert 1.0 < max(changed) <= 2.0
    assert held > 800
    assert len(changed) > 50


def test_the_margin_is_not_far_too_small() -> None:
    options = {"num_beams": 2}
    clean = run(0.0, 0, options)
    margins = [texts[0].margin for texts in clean]
    assert all(0 < margin < math.inf for margin in margins)
    flipped = [
        before[0].margin / noise
        for noise, seed in itertools.product([0.01, 0.1], range(8))
        for before, after in zip(clean, run(noise, seed, options), strict=True)
        if _tokens(before) != _tokens(after)
    ]
    # Noise changes no text whose margin is 24 times as large, and often one with less.
    assert 1.0 < max(flipped) < 24.0

"""Beam search under every combination of penalties, against an enumeration of all texts."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from tests.alike import assert_same_texts
from torch import Tensor

from heedful.decoding.search import Hypothesis, Search, search
from heedful.errors import UserError

END, VOCAB, LONGEST, SOURCE = 0, 4, 4, 3

Text = tuple[int, ...]


@cache
def scores_after(before: Text) -> Tensor:
    """Return random logits, always the same after the same text."""
    return torch.from_numpy(2 * np.random.default_rng(before).normal(size=VOCAB))


@cache
def attention_after(before: Text) -> Tensor:
    """Return the attention with which the next token is chosen."""
    values = torch.from_numpy(3 * np.random.default_rng((*before, 99)).normal(size=SOURCE))
    return values.softmax(0)


@dataclass(frozen=True)
class Texts:
    """The tokens of each hypothesis, and its summed attention to each source token."""

    rows: tuple[Text, ...]
    coverage: Tensor

    def select(self, rows: Tensor) -> "Texts":
        return Texts(tuple(self.rows[row] for row in rows.tolist()), self.coverage[rows])


def step(tokens: Tensor, state: Texts) -> tuple[Tensor, Texts]:
    rows = tuple((*row, new) for row, new in zip(state.rows, tokens.tolist(), strict=True))
    coverage = state.coverage + torch.stack([attention_after(row) for row in rows])
    return torch.stack([scores_after(row) for row in rows]), Texts(rows, coverage)


def run(
    starts: list[int], prefixes: list[list[int]] | None = None, **options: Any
) -> list[list[Hypothesis]]:
    settings = Search(**{"eos_token_id": END, "max_new_tokens": LONGEST, **options})
    state = Texts(((),) * len(starts), torch.zeros(len(starts), SOURCE, dtype=torch.float64))
    return search(step, state, torch.tensor(starts), settings, prefixes=prefixes)


def _repeats(tokens: Text, size: int) -> bool:
    runs = [tokens[place : place + size] for place in range(len(tokens) - size + 1)]
    return size > 0 and len(runs) > len(set(runs))


def every_text(start: int, prefix: Text, options: dict[str, Any]) -> Iterator[Hypothesis]:
    """Enumerate the texts that the rules allow, with their scores by the formulas."""
    for length in range(LONGEST + 1):
        for tokens in itertools.product(range(1, VOCAB), repeat=length):
            ended = length < LONGEST
            if tokens[: len(prefix)] != prefix or (ended and length < options["min_new_tokens"]):
                continue
            if _repeats(tokens, options["no_repeat_ngram"]):
                continue
            whole = (*tokens, END) if ended else tokens
            plain = total = 0.0
            coverage = torch.zeros(SOURCE, dtype=torch.float64)
            for place, word in enumerate(whole):
                before = (start, *whole[:place])
                value = float(scores_after(before).log_softmax(0)[word])
                again = place >= len(prefix) and word in whole[:place]
                plain += value
                total += value * (options["repetition_penalty"] if again else 1)
                coverage += attention_after(before)
            score = total / len(whole) ** options["length_penalty"]
            score += options["coverage_penalty"] * float(coverage.clamp(max=1).log().sum())
            yield Hypothesis(tokens=tokens, ended=ended, log_probability=plain, score=score)


GRID: list[dict[str, Any]] = [
    dict(
        zip(
            (
                "length_penalty",
                "coverage_penalty",
                "repetition_penalty",
                "no_repeat_ngram",
                "min_new_tokens",
            ),
            values,
            strict=True,
        )
    )
    for values in itertools.product(
        (0.0, 1.0, -1.0), (0.0, 0.7), (1.0, 1.5, 0.5), (0, 1, 2), (0, 2)
    )
]


@pytest.mark.parametrize("prefix", [(), (2,), (1, 3)])
def test_a_beam_that_holds_all_finds_the_best(prefix: Text) -> None:
    for options in GRID:
        (found,) = run(
            [7], prefixes=[list(prefix)], num_beams=3**LONGEST, num_return_sequences=5, **options
        )
        right = sorted(every_text(7, prefix, options), key=lambda text: -text.score)[:5]
        assert [(text.tokens, text.ended) for text in found] == [
            (text.tokens, text.ended) for text in right
        ], options
        for one, other in zip(found, right, strict=True):
            assert one.score == pytest.approx(other.score), options
            assert one.log_probability == pytest.approx(other.log_probability), options


def test_stopping_early_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[tuple[dict[str, Any], Any]] = []
    for options, (width, wanted) in itertools.product(GRID, [(1, 1), (3, 1), (3, 2)]):
        given = {**options, "num_beams": width, "num_return_sequences": wanted, "max_new_tokens": 6}
        searches.append((given, run(list(range(5, 11)), **given)))
    monkeypatch.setattr("heedful.decoding.beam._lead_of_finished", lambda *given: -math.inf)
    for given, found in searches:
        assert_same_texts(run(list(range(5, 11)), **given), found)


def test_neighbours_with_prefixes_change_nothing() -> None:
    starts = list(range(5, 13))
    prefixes = [[2], [], [1, 2, 3], [], [3, 3], [1], [], [2, 1]]
    for options in (
        {"num_beams": 3, "num_return_sequences": 2, "coverage_penalty": 0.3, "max_new_tokens": 7},
        {"do_sample": True, "num_return_sequences": 3, "no_repeat_ngram": 3},
    ):
        settings = Search(**{"eos_token_id": END, "max_new_tokens": LONGEST, **options})
        together = run(starts, prefixes, **options)
        for number, (start, prefix) in enumerate(zip(starts, prefixes, strict=True)):
            state = Texts(((),), torch.zeros(1, SOURCE, dtype=torch.float64))
            alone = search(step, state, torch.tensor([start]), settings, [number], [prefix])
            assert_same_texts(alone, [together[number]])
            assert all(list(text.tokens[: len(prefix)]) == prefix for text in together[number])


@pytest.mark.parametrize("sampled", [False, True])
def test_a_prefix_may_be_what_the_rules_forbid(sampled: bool) -> None:
    options: dict[str, Any] = {"never": (2,), "no_repeat_ngram": 1, "repetition_penalty": 3.0}
    ((found,),) = run([5], [[2, 2, 1]], do_sample=sampled, **options)
    assert found.tokens[:3] == (2, 2, 1)
    plain = [scores_after((5, *(2, 2, 1)[:place])).log_softmax(0) for place in range(4)]
    last = END if found.ended else found.tokens[3]
    assert last in (END, 3)
    right = sum(float(plain[place][word]) for place, word in enumerate((2, 2, 1, last)))
    assert found.log_probability == pytest.approx(right)


@pytest.mark.parametrize("sampled", [False, True])
def test_where_all_is_ruled_out_a_text_stays_as_it_is(sampled: bool) -> None:
    options: dict[str, Any] = {"min_new_tokens": 5, "max_new_tokens": 6, "no_repeat_ngram": 1}
    ((found,),) = run([5], do_sample=sampled, **options)
    assert sorted(found.tokens) == [1, 2, 3]
    assert not found.ended
    assert math.isfinite(found.score)


def test_samples_do_not_repeat() -> None:
    found = run(list(range(5, 15)), do_sample=True, num_return_sequences=5, no_repeat_ngram=2)
    assert not any(_repeats(text.tokens, 2) for texts in found for text in texts)
    free = run(list(range(5, 15)), do_sample=True, num_return_sequences=5)
    assert any(_repeats(text.tokens, 2) for texts in free for text in texts)


def test_samples_repeat_less_often_when_it_is_penalised() -> None:
    def again(penalty: float) -> int:
        options: dict[str, Any] = {"repetition_penalty": penalty, "min_new_tokens": 3}
        (found,) = run([5], do_sample=True, num_return_sequences=2000, **options)
        return sum(_repeats(text.tokens, 1) for text in found)

    assert again(1.0) > again(5.0) + 60  # 125 on average


@pytest.mark.parametrize(
    ("prefixes", "message"),
    [
        ([[1]], "there are 1 prefixes for 2 items"),
        ([[1], [1, 2, 3, 1]], "prefix 1 has 4 tokens; max_new_tokens, 4, must be larger"),
        ([[1], [1, END]], r"prefix 1 is \[1, 0\]; it must have neither the end token"),
        ([[-1], []], r"prefix 0 is \[-1\]"),
        ([[], [9]], "a prefix has token 9; the vocabulary has 4 tokens"),
    ],
)
@pytest.mark.parametrize("sampled", [False, True])
def test_prefixes_that_do_not_fit_are_named(
    prefixes: list[list[int]], message: str, sampled: bool
) -> None:
    with pytest.raises(UserError, match=message):
        run([5, 6], prefixes, do_sample=sampled)


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("token", [99, -1])
def test_forbidden_tokens_are_of_the_vocabulary(token: int, sampled: bool) -> None:
    message = rf"tokens \[{token}\] must not be generated; the vocabulary has 4 tokens"
    with pytest.raises(UserError, match=message):
        run([5, 6], never=(token,), do_sample=sampled)


def test_coverage_needs_attention() -> None:
    @dataclass(frozen=True)
    class Nothing:
        def select(self, rows: Tensor) -> "Nothing":
            return self

    def flat(tokens: Tensor, state: Nothing) -> tuple[Tensor, Nothing]:
        return torch.zeros(len(tokens), VOCAB), state

    options = Search(eos_token_id=END, coverage_penalty=0.2)
    with pytest.raises(UserError, match="coverage_penalty needs a model that attends"):
        search(flat, Nothing(), torch.tensor([5]), options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"coverage_penalty": -0.1}, "coverage_penalty is -0.1; it must be a number of 0 or above"),
        ({"coverage_penalty": math.nan}, "coverage_penalty is nan"),
        ({"repetition_penalty": 0.0}, "repetition_penalty is 0.0; it must be a number above 0"),
        ({"no_repeat_ngram": -1}, "no_repeat_ngram is -1; it must be at least 0"),
        ({"penalise_logits": True, "num_beams": 2}, "num_beams is 2; with penalise_logits it must"),
        (
            {"do_sample": True, "coverage_penalty": 0.1},
            "coverage_penalty does not apply to samples",
        ),
    ],
)
def test_penalties_out_of_range_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        run([5], **options)

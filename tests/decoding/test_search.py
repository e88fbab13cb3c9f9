import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from tests.alike import assert_same_texts, tokens_of
from torch import Tensor

from heedful import GPT2Config, GPT2LMHeadModel
from heedful.cancellation import cancellable
from heedful.decoding.search import Hypothesis, Search, search
from heedful.errors import UserError

END, VOCAB, LONGEST = 0, 4, 4


@dataclass(frozen=True)
class Prefixes:
    """The tokens of each hypothesis so far."""

    rows: tuple[tuple[int, ...], ...]

    def select(self, rows: Tensor) -> "Prefixes":
        return Prefixes(tuple(self.rows[row] for row in rows.tolist()))


def scores_after(prefix: tuple[int, ...]) -> Tensor:
    """Return random log-probabilities, always the same after the same prefix."""
    values = torch.from_numpy(np.random.default_rng(prefix).normal(size=VOCAB))
    return (1.5 * values).log_softmax(0)


class Language:
    """Steps of the language, counting the hypotheses that are computed."""

    def __init__(self) -> None:
        self.computed: list[int] = []

    def __call__(self, tokens: Tensor, state: Prefixes) -> tuple[Tensor, Prefixes]:
        self.computed.append(len(tokens))
        rows = tuple((*row, new) for row, new in zip(state.rows, tokens.tolist(), strict=True))
        return torch.stack([scores_after(row) for row in rows]), Prefixes(rows)


def run(
    starts: list[int], step: Any = None, item_seeds: list[int] | None = None, **options: Any
) -> list[list[Hypothesis]]:
    settings = Search(**{"eos_token_id": END, "max_new_tokens": LONGEST, **options})
    state = Prefixes(((),) * len(starts))
    return search(step or Language(), state, torch.tensor(starts), settings, item_seeds)


def every_hypothesis(start: int, penalty: float, shortest: int = 0) -> Iterator[Hypothesis]:
    words = [word for word in range(VOCAB) if word != END]
    for length in range(LONGEST + 1):
        for tokens in itertools.product(words, repeat=length):
            ended = length < LONGEST
            if ended and length < shortest:
                continue
            whole = (start, *tokens, END)
            last = len(whole) if ended else len(whole) - 1
            total = sum(float(scores_after(whole[:n])[whole[n]]) for n in range(1, last))
            yield Hypothesis(
                tokens=tokens,
                ended=ended,
                log_probability=total,
                score=total / (length + ended) ** penalty,
            )


def assert_same(found: list[Hypothesis], right: list[Hypothesis]) -> None:
    assert [(h.tokens, h.ended) for h in found] == [(h.tokens, h.ended) for h in right]
    assert [h.score for h in found] == pytest.approx([h.score for h in right])
    assert [h.log_probability for h in found] == pytest.approx([h.log_probability for h in right])


@pytest.mark.parametrize("start", [5, 6, 7])
@pytest.mark.parametrize("penalty", [0.0, 1.0, 2.0, -1.0])
@pytest.mark.parametrize("shortest", [0, 2])
def test_a_beam_that_holds_all_finds_the_best(start: int, penalty: float, shortest: int) -> None:
    (found,) = run(
        [start],
        num_beams=3**LONGEST,
        num_return_sequences=6,
        length_penalty=penalty,
        min_new_tokens=shortest,
    )
    right = sorted(every_hypothesis(start, penalty, shortest), key=lambda h: -h.score)[:6]
    assert_same(found, right)


@pytest.mark.parametrize("start", range(5, 25))
def test_a_beam_of_one_is_greedy(start: int) -> None:
    prefix: tuple[int, ...] = (start,)
    total = 0.0
    while len(prefix) <= LONGEST and (prefix[-1] != END or len(prefix) == 1):
        scores = scores_after(prefix)
        total += float(scores.max())
        prefix = (*prefix, int(scores.argmax()))
    ((found,),) = run([start])
    assert found.tokens == tuple(word for word in prefix[1:] if word != END)
    assert found.ended == (prefix[-1] == END)
    assert found.log_probability == pytest.approx(total)
    assert found.score == pytest.approx(total / (len(prefix) - 1))


def plain_beam(
    start: int, width: int, wanted: int, penalty: float, longest: int, stops_early: bool
) -> list[Any]:
    """Search by definition: every continuation of every hypothesis, ranked at each length."""
    going: list[tuple[float, tuple[int, ...]]] = [(0.0, (start,))]
    ended: list[tuple[float, tuple[int, ...]]] = []
    for length in range(1, longest + 1):
        ranked = sorted(
            (
                (total + float(scores_after(prefix)[word]), (*prefix, word))
                for total, prefix in going
                for word in range(VOCAB)
            ),
            reverse=True,
        )
        ended += [
            (total / length**penalty, whole)
            for total, whole in ranked[:width]
            if whole[-1] == END or length == longest
        ]
        going = [(total, whole) for total, whole in ranked if whole[-1] != END][:width]
        ended = sorted(ended, reverse=True)[:width]
        is_full = len(ended) == width
        if is_full and (stops_early or going[0][0] / length**penalty <= ended[-1][0]):
            break
    return ended[:wanted]


@pytest.mark.parametrize("stops_early", [True, False])
@pytest.mark.parametrize("penalty", [0.0, 1.0, 3.0, -1.0])
@pytest.mark.parametrize(("width", "wanted"), [(1, 1), (2, 1), (2, 2), (3, 1), (3, 3)])
def test_a_beam_keeps_the_best_of_each_length(
    width: int, wanted: int, penalty: float, stops_early: bool
) -> None:
    starts = list(range(5, 45))
    found = run(
        starts,
        num_beams=width,
        num_return_sequences=wanted,
        length_penalty=penalty,
        max_new_tokens=7,
        early_stopping=stops_early,
    )
    for start, texts in zip(starts, found, strict=True):
        right = plain_beam(start, width, wanted, penalty, longest=7, stops_early=stops_early)
        assert [text.score for text in texts] == pytest.approx([score for score, _ in right])
        for text, (_, whole) in zip(texts, right, strict=True):
            assert (*text.tokens, *([END] if text.ended else [])) == whole[1:]


@pytest.mark.parametrize("penalty", [0.0, 1.0, -1.0])
def test_stopping_early_changes_nothing(penalty: float, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"num_beams": 4, "num_return_sequences": 2, "length_penalty": penalty}
    quick = Language()
    found = run(list(range(5, 25)), quick, **options)
    monkeypatch.setattr("heedful.decoding.beam._lead_of_finished", lambda *given: -math.inf)
    slow = Language()
    assert_same_texts(run(list(range(5, 25)), slow, **options), found)
    assert sum(quick.computed) < sum(slow.computed)


OPTIONS: list[dict[str, Any]] = [
    {},
    {"num_beams": 3, "num_return_sequences": 2},
    {"do_sample": True, "num_return_sequences": 3, "top_k": 3, "top_p": 0.9},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_neighbours_change_nothing(options: dict[str, Any]) -> None:
    starts = list(range(5, 15))
    alone = [run([start], item_seeds=[start], **options)[0] for start in starts]
    assert_same_texts(run(starts, item_seeds=starts, **options), alone)
    turned = starts[::-1]
    assert_same_texts(run(turned, item_seeds=turned, **options), alone[::-1])
    assert len({str(texts) for texts in tokens_of(alone)}) > 5


@pytest.mark.parametrize("options", OPTIONS)
def test_what_has_ended_is_not_computed(options: dict[str, Any]) -> None:
    step = Language()
    found = run(list(range(5, 25)), step, **options)
    assert all(len(texts) == options.get("num_return_sequences", 1) for texts in found)
    widest = 20 * max(options.get("num_beams", 1), options.get("num_return_sequences", 1))
    assert max(step.computed) <= widest
    assert step.computed[-1] < max(step.computed)


class Cancelled(Exception):  # noqa: N818 - nothing is wrong
    """Raised by a caller that needs the rest no more."""


@pytest.mark.parametrize("options", [{"num_beams": 3}, {"do_sample": True}])
def test_a_search_ends_when_its_caller_cancels_it(options: dict[str, Any]) -> None:
    step = Language()

    def check() -> None:
        if len(step.computed) == 3:
            raise Cancelled

    with cancellable(check), pytest.raises(Cancelled):
        run([5], step, max_new_tokens=1000, min_new_tokens=999, **options)
    assert len(step.computed) == 3
    (again,) = run([5], step, **options)
    assert len(again) == 1


def test_samples_follow_the_probabilities() -> None:
    (found,) = run([5], do_sample=True, num_return_sequences=4000, max_new_tokens=1, seed=3)
    counts = np.bincount([h.tokens[0] if h.tokens else END for h in found], minlength=VOCAB)
    right = scores_after((5,)).exp().numpy()
    spread = np.sqrt(right * (1 - right) / 4000)
    assert (np.abs(counts / 4000 - right) < 4 * spread).all()
    for hypothesis in found[:50]:
        word = hypothesis.tokens[0] if hypothesis.tokens else END
        assert hypothesis.log_probability == pytest.approx(float(scores_after((5,))[word]))


def _first_tokens(**options: Any) -> dict[int, int]:
    (found,) = run([9], do_sample=True, num_return_sequences=500, max_new_tokens=1, **options)
    words = [h.tokens[0] if h.tokens else END for h in found]
    return {word: words.count(word) for word in sorted(set(words))}


def test_the_filters_keep_the_likeliest() -> None:
    ranked = scores_after((9,)).argsort(descending=True).tolist()
    shares = scores_after((9,)).exp()[ranked].tolist()
    assert set(_first_tokens()) == set(ranked)
    assert set(_first_tokens(top_k=2)) == set(ranked[:2])
    assert set(_first_tokens(top_k=9)) == set(ranked)
    assert set(_first_tokens(top_p=shares[0] - 0.01)) == {ranked[0]}
    assert set(_first_tokens(top_p=shares[0] + 0.01)) == set(ranked[:2])
    assert set(_first_tokens(temperature=0.01)) == {ranked[0]}
    flat = _first_tokens(temperature=100.0)
    assert max(flat.values()) < 1.5 * min(flat.values())


def test_the_seed_and_the_number_decide_the_draws() -> None:
    options: dict[str, Any] = {"do_sample": True, "num_return_sequences": 5}
    once = run([5, 5], **options)
    assert_same_texts(run([5, 5], **options), once)
    first, second = tokens_of(once)
    assert first != second
    assert_same_texts(run([5], item_seeds=[1], **options), once[1:])
    assert tokens_of(run([5, 5], seed=1, **options)) != [first, second]


@pytest.mark.parametrize("options", OPTIONS)
def test_forbidden_tokens_do_not_come(options: dict[str, Any]) -> None:
    found = run(list(range(5, 25)), never=(2,), min_new_tokens=2, **options)
    texts = [hypothesis for texts in found for hypothesis in texts]
    assert all(2 not in text.tokens for text in texts)
    assert min(len(text.tokens) for text in texts) == 2
    assert max(len(text.tokens) for text in texts) == LONGEST


def test_a_vocabulary_smaller_than_the_beam() -> None:
    (found,) = run([5], num_beams=3, num_return_sequences=3, never=(1, 2, 3))
    assert [text.tokens for text in found] == [()]
    assert found[0].ended
    assert math.isfinite(found[0].score)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens is 0; it must be at least 1"),
        ({"max_new_tokens": "3"}, "max_new_tokens is '3'; it must be a whole number"),
        ({"num_beams": 2.5}, "num_beams is 2.5; it must be a whole number"),
        ({"top_k": True}, "top_k is True; it must be a whole number"),
        ({"length_penalty": "1"}, "length_penalty is '1'; it must be a number"),
        ({"top_p": True}, "top_p is True; it must be a number"),
        ({"num_beams": 0}, "num_beams is 0"),
        ({"top_k": -1}, "top_k is -1"),
        ({"min_new_tokens": LONGEST}, "min_new_tokens is 4; it can be at most 3"),
        ({"temperature": 0.0}, "temperature is 0.0; it must be a number above 0"),
        ({"temperature": math.nan}, "temperature is nan"),
        ({"top_p": 0.0}, "top_p is 0.0; it must be above 0 and at most 1"),
        ({"length_penalty": math.inf}, "length_penalty is inf"),
        ({"do_sample": True, "num_beams": 2}, "num_beams is 2; with do_sample it must be 1"),
        ({"num_return_sequences": 2}, "num_return_sequences is 2; without do_sample .* num_beams"),
        ({"never": (END,)}, "token 0 ends a text"),
    ],
)
def test_options_that_do_not_fit_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        run([5], **options)


@pytest.mark.parametrize(
    ("seeds", "message"),
    [
        ([1], "there are 1 item_seeds for 2 items"),
        ([1, 2, 3], "there are 3 item_seeds for 2 items"),
        ([1, 1.5], "a seed in item_seeds is 1.5; it must be a whole number"),
        ([1, -1], "a seed in item_seeds is -1; it must be 0 or above"),
    ],
)
def test_seeds_that_do_not_fit_the_items(seeds: list[Any], message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        run([5, 6], item_seeds=seeds, do_sample=True)
    model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=1, n_embd=4, vocab_size=9)).eval()
    options = Search(eos_token_id=8, do_sample=True, max_new_tokens=2)
    with pytest.raises(UserError, match=re.escape(message)):
        model.generate(torch.tensor([[1], [2]]), search=options, item_seeds=seeds)

"""The search on the device finds what the search with bookkeeping on the host finds."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.alike import assert_same_texts
from tests.decoding.test_penalties import SOURCE, Text, Texts, attention_after
from tests.exact import assert_same_bits
from torch import Tensor

from heedful.cancellation import cancellable
from heedful.decoding import on_device
from heedful.decoding.candidates import forced_tokens
from heedful.decoding.on_device import beam_search_on_device
from heedful.decoding.options import StepInput
from heedful.decoding.rules import chunked_topk
from heedful.decoding.search import Hypothesis, Search, search
from heedful.errors import UserError

END, VOCAB = 0, 6


@cache
def scores_after(before: Text) -> Tensor:
    """Return random logits, always the same after the same text; long texts end soon."""
    logits = 2 * np.random.default_rng(before).normal(size=VOCAB)
    logits[END] += len(before) / 4
    return torch.from_numpy(logits)


def step(tokens: Tensor, state: Texts) -> tuple[Tensor, Texts]:
    rows = tuple((*row, new) for row, new in zip(state.rows, tokens.tolist(), strict=True))
    coverage = state.coverage + torch.stack([attention_after(row) for row in rows])
    return torch.stack([scores_after(row) for row in rows]), Texts(rows, coverage)


class Language:
    """The same language from the nodes that each hypothesis is made of.

    Args:
        prompts: what each item's text begins with; padded at the end by -1.
    """

    vocabulary = VOCAB

    def __init__(self, prompts: Tensor) -> None:
        self.nodes = prompts.clone()
        self.prompt_mask = prompts >= 0
        self.coverage: Tensor | None = torch.zeros(len(prompts), SOURCE, dtype=torch.float64)
        self.computed: list[int] = []
        self.kept: list[int] = []

    def step(self, newest: StepInput) -> tuple[Tensor, Tensor | None]:
        self.computed.append(len(newest.tokens))
        self.nodes[:, newest.nodes] = newest.tokens
        texts = [
            [tuple(self.nodes[item][seen].tolist()) for seen in rows]
            for item, rows in enumerate(newest.node_mask)
        ]
        logits = torch.stack([torch.stack([scores_after(row) for row in rows]) for rows in texts])
        attended = torch.stack(
            [torch.stack([attention_after(row) for row in rows]) for rows in texts]
        )
        return logits, attended

    def grow(self, nodes: int) -> None:
        more = self.nodes.new_full((len(self.nodes), nodes - self.nodes.shape[1]), -1)
        self.nodes = torch.cat([self.nodes, more], 1)

    def keep_nodes(self, nodes: Tensor) -> None:
        self.nodes = self.nodes.gather(1, nodes)
        self.kept.append(nodes.shape[1])

    def keep(self, items: Tensor) -> None:
        self.nodes = self.nodes[items]


def both(
    starts: list[int],
    prompts: list[Text] | None = None,
    prefixes: list[list[int]] | None = None,
    **options: Any,
) -> tuple[list[list[Hypothesis]], list[list[Hypothesis]], Language]:
    """Return the results of the device and of the host, and the device's search."""
    wanted = Search(**{"eos_token_id": END, "max_new_tokens": 4, **options})
    prompts = prompts or [()] * len(starts)
    first = torch.tensor(starts)
    state = Texts(tuple(prompts), torch.zeros(len(starts), SOURCE, dtype=torch.float64))
    right = search(step, state, first, wanted, prefixes=prefixes)
    longest = max(map(len, prompts))
    padded = [[*prompt, *[-1] * (longest - len(prompt))] for prompt in prompts]
    language = Language(torch.tensor(padded, dtype=torch.int64).view(len(starts), longest))
    forced = forced_tokens(prefixes, len(starts), wanted)
    return beam_search_on_device(language, first, wanted, forced), right, language


def assert_all_the_same(
    texts: list[list[Hypothesis]], right: list[list[Hypothesis]], *, margins: bool = True
) -> None:
    assert_same_texts(texts, right)
    if margins:
        found = [[text.margin for text in item] for item in texts]
        for item, others in zip(found, right, strict=True):
            assert item == pytest.approx([text.margin for text in others], rel=1e-9, abs=1e-9)


@st.composite
def searches(draw: st.DrawFn) -> dict[str, Any]:
    most, beams = draw(st.integers(1, 40)), draw(st.integers(1, 4))
    return {
        "max_new_tokens": most,
        "min_new_tokens": draw(st.integers(0, most - 1)) if draw(st.booleans()) else 0,
        "num_beams": beams,
        "num_return_sequences": draw(st.integers(1, beams)),
        "length_penalty": draw(st.sampled_from([0.0, 1.0, 0.6, 2.0, -1.0])),
        "coverage_penalty": draw(st.sampled_from([0.0, 0.4])),
        "repetition_penalty": draw(st.sampled_from([1.0, 1.3, 0.7])),
        "no_repeat_ngram": draw(st.integers(0, 3)),
        "never": draw(st.sampled_from([(), (3,), (2, 5), (1, 2, 3, 4, 5)])),
    }


@given(
    options=searches(),
    starts=st.lists(st.integers(10, 10**6), min_size=1, max_size=5),
    data=st.data(),
)
@settings(max_examples=150, deadline=None)
def test_it_finds_the_same(options: dict[str, Any], starts: list[int], data: st.DataObject) -> None:
    each = {"min_size": len(starts), "max_size": len(starts)}
    prompt = st.lists(st.integers(0, 99), max_size=3).map(tuple)
    prompts = data.draw(st.lists(prompt, **each))
    prefix = st.lists(st.integers(1, VOCAB - 1), max_size=min(3, options["max_new_tokens"] - 1))
    prefixes = data.draw(st.none() | st.lists(prefix, **each))
    texts, right, _ = both(starts, prompts, prefixes, **options)
    assert_all_the_same(texts, right)


@pytest.mark.parametrize("look", [1, 3])
def test_those_that_are_done_leave_when_they_are_half(
    look: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_device, "_CHECK_EVERY", look)
    texts, right, language = both([*range(10, 34)], max_new_tokens=60)
    assert_all_the_same(texts, right)
    computed = language.computed
    assert computed[0] == 24
    assert all(after == before or 2 * after <= before for before, after in pairwise(computed))
    assert len(set(computed)) > 2
    assert len(computed) % look == 0
    longest = max(len(item.tokens) for (item,) in right)
    assert longest < len(computed) <= longest + look


def test_a_search_ends_when_its_caller_cancels_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_device, "_CHECK_EVERY", 2)
    language = Language(torch.empty(1, 0, dtype=torch.int64))
    wanted = Search(eos_token_id=END, max_new_tokens=300, min_new_tokens=290)

    def check() -> None:
        if len(language.computed) > 4:
            raise KeyboardInterrupt

    with cancellable(check), pytest.raises(KeyboardInterrupt):
        beam_search_on_device(language, torch.tensor([5]), wanted, forced_tokens(None, 1, wanted))
    assert len(language.computed) == 6


@pytest.mark.parametrize("beams", [1, 3])
def test_what_no_hypothesis_is_made_of_is_forgotten(
    beams: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_device, "_CHECK_EVERY", 2)
    prompts: list[Text] = [(1, 2, 3), (), (1,)]
    options = {"max_new_tokens": 300, "min_new_tokens": 290, "num_beams": beams}
    texts, right, language = both([5, 6, 7], prompts, **options)
    assert_all_the_same(texts, right)
    made = [3 + 16 * 2**number * beams for number in range(len(language.kept))]
    assert len(made) > 4
    if beams == 1:
        assert language.kept == made
    else:  # hypotheses share what they begin with
        assert all(
            2 * kept < nodes for kept, nodes in zip(language.kept[2:], made[2:], strict=True)
        )


@pytest.mark.parametrize("vocabulary", [1024, 1025, 5000])
def test_the_best_of_parts_are_the_best_of_all(vocabulary: int) -> None:
    torch.manual_seed(0)
    scores = torch.randn(3, 5, vocabulary)
    places, best = chunked_topk(scores, 6)
    plain = scores.topk(6)
    assert_same_bits(places, plain.indices, "whole numbers")
    assert_same_bits(best, plain.values, "moved")


def test_where_nearly_all_is_forbidden_a_place_is_still_one() -> None:
    scores = torch.full((1, 1, 1030), -torch.inf)
    scores[0, 0, 1029] = -2.0
    places, best = chunked_topk(scores, 4)
    assert (int(places[0, 0, 0]), float(best[0, 0, 0])) == (1029, -2.0)
    assert int(places.max()) < 1030
    assert best[0, 0, 1:].eq(-torch.inf).all()


def test_a_vocabulary_smaller_than_the_beam() -> None:
    texts, right, _ = both([5, 6], num_beams=9, num_return_sequences=9)
    assert_all_the_same(texts, right)


@contextmanager
def damaged_after(steps: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make one score of one item NaN."""
    scored = Language.step

    def step(self: Language, newest: StepInput) -> tuple[Tensor, Tensor | None]:
        logits, attended = scored(self, newest)
        if len(self.computed) == steps:
            logits[0, 0, 2] = torch.nan
        return logits, attended

    with monkeypatch.context() as patch:
        patch.setattr(Language, "step", step)
        yield


def test_a_damaged_model_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    message = "the score of a next token is not a number; the model is damaged"
    with damaged_after(3, monkeypatch), pytest.raises(UserError, match=message):
        both([5, 6], max_new_tokens=30, num_beams=2)


def test_coverage_needs_a_source(monkeypatch: pytest.MonkeyPatch) -> None:
    began = Language.__init__

    def without(self: Language, prompts: Tensor) -> None:
        began(self, prompts)
        self.coverage = None

    monkeypatch.setattr(Language, "__init__", without)
    with pytest.raises(UserError, match="coverage_penalty needs a model that attends to a source"):
        on_its_own([5], coverage_penalty=0.4)


def test_what_a_vocabulary_does_not_have_is_named() -> None:
    with pytest.raises(UserError, match="a prefix has token 7; the vocabulary has 6 tokens"):
        on_its_own([5], [[1, 7]])
    with pytest.raises(UserError, match=r"tokens \[9\] must not be generated; the vocabulary has"):
        on_its_own([5], never=(9,))


def on_its_own(
    starts: list[int], prefixes: list[list[int]] | None = None, **options: Any
) -> list[list[Hypothesis]]:
    wanted = Search(**{"eos_token_id": END, "max_new_tokens": 4, **options})
    language = Language(torch.empty(len(starts), 0, dtype=torch.int64))
    forced = forced_tokens(prefixes, len(starts), wanted)
    return beam_search_on_device(language, torch.tensor(starts), wanted, forced)

"""A task accepts the items that it declares."""

from pathlib import Path

import pytest

import heedful
from heedful.errors import UserError
from heedful.predictor import Predictor
from heedful.task import Input

RUNS = Path(__file__).parents[1] / "golden" / "0.1.0"
NAMES = {
    "classify": ["text"],
    "pair": ["first text", "second text"],
    "regress": ["text"],
    "tag": ["text"],
    "answer": ["question", "context"],
    "choose": ["question", "choices"],
    "embed": ["text", "other text"],
    "pretrain": ["text", "following text"],
    "masked": ["text"],
    "writer": ["text"],
    "translate": ["text", "beginning of the translation"],
}


def texts_for(inputs: tuple[Input, ...]) -> tuple[str, ...]:
    return tuple(
        text
        for one in inputs
        for text in (["a [MASK] cat", "a dog"] if one.variadic else ["a [MASK] cat"])
    )


def tokens(predictor: Predictor, texts: tuple[str, ...]) -> int:
    """Return how many tokens an item of texts has."""
    records = predictor.task.from_texts([texts if len(texts) > 1 else texts[0]])
    (fitted,) = predictor.encode(records, predictor.settings)
    return fitted.tokens_total


@pytest.mark.parametrize("run", NAMES)
def test_an_item_of_all_inputs_or_of_those_that_are_needed_is_taken(run: str) -> None:
    predictor = heedful.load(RUNS / run)
    inputs = predictor.task.inputs
    assert [one.name for one in inputs] == NAMES[run]
    needed = tuple(one for one in inputs if not one.optional)
    assert tokens(predictor, texts_for(inputs)) >= tokens(predictor, texts_for(needed)) > 0
    if len(needed) > 1:
        with pytest.raises(UserError):
            tokens(predictor, texts_for(needed)[:1])

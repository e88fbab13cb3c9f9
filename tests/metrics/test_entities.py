"""Entity scores against counts by hand, and against the library on the same tags."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics import classification_report

from heedful.errors import UserError
from heedful.metrics.entities import EntityScores, LabelledSpan
from heedful.reading.tagging import Entity, entities_of, parse_tag, tags_of


def scored(texts: list[tuple[list[LabelledSpan], list[LabelledSpan]]]) -> dict[str, Any]:
    scores = EntityScores()
    for true, predicted in texts:
        scores.update(true, predicted)
    return scores.compute()


def test_a_few_texts_by_hand() -> None:
    found = scored(
        [
            ([(0, 5, "PER"), (9, 14, "LOC")], [(0, 5, "PER"), (9, 14, "ORG")]),
            ([(0, 6, "PER")], [(0, 5, "PER"), (5, 6, "PER")]),
            ([(3, 4, "LOC")], [(3, 4, "LOC")]),
            ([], []),
        ]
    )
    assert found == {
        "items": 4,
        "precision": pytest.approx(2 / 5),
        "recall": pytest.approx(2 / 4),
        "f1": pytest.approx(4 / 9),
        "per_class": [
            {
                "label": "LOC",
                "precision": 1.0,
                "recall": 0.5,
                "f1": pytest.approx(2 / 3),
                "support": 2,
            },
            {"label": "ORG", "precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 0},
            {
                "label": "PER",
                "precision": pytest.approx(1 / 3),
                "recall": 0.5,
                "f1": pytest.approx(0.4),
                "support": 2,
            },
        ],
    }


def test_neighbours_of_one_type_are_not_one_entity() -> None:
    apart: list[LabelledSpan] = [(0, 3, "X"), (3, 6, "X")]
    assert scored([(apart, apart)])["f1"] == 1.0
    assert scored([(apart, [(0, 6, "X")])])["f1"] == 0.0


def test_an_entity_inside_a_word_is_not_the_word() -> None:
    assert scored([([(0, 6, "X")], [(0, 7, "X")])])["f1"] == 0.0
    assert scored([([(1, 6, "X")], [(0, 6, "X")])])["f1"] == 0.0


def test_labels_may_hold_what_tags_are_made_of() -> None:
    odd: list[LabelledSpan] = [(0, 1, "B-X"), (2, 3, "-"), (4, 5, "O"), (6, 7, "a b"), (8, 9, "_")]
    found = scored([(odd, odd)])
    assert found["f1"] == 1.0
    assert [row["label"] for row in found["per_class"]] == ["-", "B-X", "O", "_", "a b"]


def test_no_entities_anywhere_score_nothing() -> None:
    assert scored([([], [])]) == {
        "items": 1,
        "precision": 0.0,
        "recall": 0.0,
        "f1": 0.0,
        "per_class": [],
    }


def test_nothing_to_score() -> None:
    with pytest.raises(UserError, match=r"^no items to score: the data is empty$"):
        EntityScores().compute()


@st.composite
def tags(draw: st.DrawFn, count: int = 8) -> list[str]:
    """Draw valid BIO tags of some words."""
    entities, place = [], 0
    while place < count:
        end = draw(st.integers(place + 1, count))
        if label := draw(st.sampled_from(["", "PER", "LOC"])):
            entities.append(Entity(place, end, label))
        place = end
    return tags_of(entities, count, "BIO")


def places(written: list[str]) -> list[LabelledSpan]:
    return [tuple(entity) for entity in entities_of([parse_tag(tag) for tag in written])]


@given(st.lists(st.tuples(tags(), tags()), min_size=1, max_size=6))
def test_scores_are_those_of_the_words(texts: list[tuple[list[str], list[str]]]) -> None:
    """Segments have as many correct entities as words, which the library counts."""
    pairs = [(places(true), places(predicted)) for true, predicted in texts]
    found = scored(pairs)
    right = sum(len({*true} & {*predicted}) for true, predicted in pairs)
    true, predicted = (sum(len(pair[side]) for pair in pairs) for side in (0, 1))
    for name, total in (("recall", true), ("precision", predicted)):
        assert found[name] == pytest.approx(float(Fraction(right, total)) if total else 0.0)
    if not true + predicted:
        return
    expected = classification_report(
        [true for true, _ in texts],
        [predicted for _, predicted in texts],
        output_dict=True,
        zero_division=0,
    )
    assert found["f1"] == pytest.approx(expected["micro avg"]["f1-score"])
    for row in found["per_class"]:
        assert row["f1"] == pytest.approx(expected[row["label"]]["f1-score"])
        assert row["support"] == expected[row["label"]]["support"]

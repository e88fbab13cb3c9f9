from itertools import product
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful.errors import UserError
from heedful.reading.tagging import (
    OUTSIDE,
    Entity,
    Scheme,
    Tag,
    TaggedText,
    as_labels,
    entities_of,
    first_invalid,
    labels_of,
    parse_tag,
    scheme_of,
    tags_of,
    transitions,
    viterbi,
)

MODEL_SCHEMES: tuple[Literal["BIO"], Literal["IOBES"]] = ("BIO", "IOBES")


def parsed(written: str) -> list[Tag]:
    return [parse_tag(tag) for tag in written.split()]


@st.composite
def entity_lists(draw: st.DrawFn) -> tuple[list[Entity], int]:
    """Draw entities of two types in some words; some neighbours have the same type."""
    count = draw(st.integers(0, 9))
    entities, place = [], 0
    while place < count:
        end = draw(st.integers(place + 1, count))
        if label := draw(st.sampled_from(["", "PER", "A-B"])):
            entities.append(Entity(place, end, label))
        place = end
    return entities, count


def iob1_tags(entities: list[Entity], count: int) -> list[str]:
    """Write entities in IOB1, which heedful reads but never writes."""
    tags = ["O"] * count
    for start, end, label in entities:
        follows = start > 0 and tags[start - 1].endswith(f"-{label}")
        tags[start:end] = [f"I-{label}"] * (end - start)
        if follows:
            tags[start] = f"B-{label}"
    return tags


@given(entity_lists())
def test_entities_survive_every_scheme(drawn: tuple[list[Entity], int]) -> None:
    entities, count = drawn
    written: dict[Scheme, list[str]] = {
        "BIO": tags_of(entities, count, "BIO"),
        "IOBES": tags_of(entities, count, "IOBES"),
        "IOB1": iob1_tags(entities, count),
    }
    for scheme, tags in written.items():
        assert len(tags) == count
        taken = [parse_tag(tag) for tag in tags]
        assert first_invalid(taken, scheme) is None
        assert entities_of(taken) == entities
        assert scheme_of(taken) == (scheme if entities else None)


def test_schemes_as_people_write_them() -> None:
    entities = [Entity(0, 2, "LOC"), Entity(2, 3, "LOC"), Entity(4, 7, "PER")]
    assert " ".join(tags_of(entities, 7, "BIO")) == "B-LOC I-LOC B-LOC O B-PER I-PER I-PER"
    assert " ".join(tags_of(entities, 7, "IOBES")) == "B-LOC E-LOC S-LOC O B-PER I-PER E-PER"
    for written in (
        "I-LOC I-LOC B-LOC O I-PER I-PER I-PER",
        "B-LOC L-LOC U-LOC O B-PER I-PER L-PER",
        "B-LOC E-LOC S-LOC O B-PER M-PER E-PER",
    ):
        assert entities_of(parsed(written)) == entities


@pytest.mark.parametrize(
    ("labels", "tags", "written"),
    [
        ("O B-X I-X", "B-X I-X O", "B-X I-X O"),
        ("B-X I-X L-X U-X O", "B-X I-X E-X O S-X", "B-X I-X L-X O U-X"),
        ("O B-X M-X E-X S-X", "B-X I-X E-X O S-X", "B-X M-X E-X O S-X"),
        ("O I-X I-Y", "B-X I-X B-Y", "I-X I-X I-Y"),
        ("O B-X B-Y", "B-X I-X B-Y", "B-X B-X B-Y"),
    ],
)
def test_tags_as_a_model_calls_them(labels: str, tags: str, written: str) -> None:
    assert as_labels(tags.split(), tuple(labels.split())) == written.split()


@pytest.mark.parametrize(
    ("scheme", "written", "place"),
    [
        ("BIO", "O I-PER", 1),
        ("BIO", "I-PER", 0),
        ("BIO", "B-PER I-LOC", 1),
        ("BIO", "B-PER I-PER O I-PER", 3),
        ("BIO", "B-PER O S-LOC", 2),
        ("IOB1", "O B-PER", 1),
        ("IOB1", "B-PER", 0),
        ("IOB1", "I-PER B-LOC", 1),
        ("IOB1", "I-PER E-PER", 1),
        ("IOBES", "O I-PER", 1),
        ("IOBES", "E-PER", 0),
        ("IOBES", "B-PER O", 1),
        ("IOBES", "B-PER B-PER", 1),
        ("IOBES", "B-PER E-LOC", 1),
        ("IOBES", "S-PER E-PER", 1),
        ("IOBES", "B-PER S-PER", 1),
        ("IOBES", "O B-PER", 2),
        ("IOBES", "B-PER I-PER", 2),
    ],
)
def test_what_cannot_be(scheme: Scheme, written: str, place: int) -> None:
    assert first_invalid(parsed(written), scheme) == place


@pytest.mark.parametrize(
    ("written", "scheme"),
    [
        ("O O", None),
        ("O B-PER", "BIO"),
        ("B-PER I-PER", "BIO"),
        ("O I-PER", "IOB1"),
        ("I-PER B-PER", "IOB1"),
        ("O S-PER", "IOBES"),
        ("B-PER I-PER E-PER", "IOBES"),
        ("O U-PER", "IOBES"),
    ],
)
def test_the_scheme_is_seen(written: str, scheme: Scheme | None) -> None:
    assert scheme_of(parsed(written)) == scheme


@pytest.mark.parametrize("tag", ["", "PER", "B", "B-", "-PER", "b-PER", "B_PER", "X-PER", "O-PER"])
def test_what_is_no_tag(tag: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_tag(tag)
    assert str(caught.value) == (
        f"tag {tag!r}: must be O, or a prefix and a type such as B-PER; prefixes: "
        "B, I, E, S, L, U, M"
    )


def test_the_line_of_an_entity() -> None:
    entity = Entity(4, 7, "PER")
    record = TaggedText(text="one two", words=((0, 3), (4, 7)), entities=(), source="f", line=10)
    assert record.where_of(entity) == "f, line 11"
    whole = TaggedText(text="one two", words=None, entities=(entity,), source="f", line=10)
    assert whole.where_of(entity) == "f, line 10"
    row = TaggedText(text="a", words=None, entities=(), source="f.json", line=2, unit="row")
    assert row.where_of(Entity(0, 1, "PER")) == "f.json, row 2"


def test_labels_and_what_may_follow_what() -> None:
    assert labels_of(["LOC", "PER"], "BIO") == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    assert labels_of(["X"], "IOBES") == ["O", "B-X", "I-X", "E-X", "S-X"]
    # After O, B, I and the start of a sentence: O, B, I and its end.
    assert transitions(("O", "B-X", "I-X"), "BIO").astype(int).tolist() == [
        [1, 1, 0, 1],
        [1, 1, 1, 1],
        [1, 1, 1, 1],
        [1, 1, 0, 1],
    ]


@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(0, 4),
    scheme=st.sampled_from(MODEL_SCHEMES),
    sharpness=st.floats(0.1, 4),
)
def test_the_likeliest_tags_are_the_best_of_all_that_may_be(
    seed: int, count: int, scheme: Literal["BIO", "IOBES"], sharpness: float
) -> None:
    labels = tuple(labels_of(["X", "Y"] if scheme == "BIO" else ["X"], scheme))
    odds = np.exp(np.random.default_rng(seed).normal(size=(count, len(labels))) * sharpness)
    probabilities = odds / odds.sum(axis=1, keepdims=True)
    found = viterbi(probabilities, transitions(labels, scheme))
    valid = [
        path
        for path in product(range(len(labels)), repeat=count)
        if first_invalid([parse_tag(labels[number]) for number in path], scheme) is None
    ]
    best = max(np.prod([row[n] for row, n in zip(probabilities, p, strict=True)]) for p in valid)
    assert tuple(found) in valid
    assert np.prod(probabilities[np.arange(count), found]) == pytest.approx(best)


def test_a_probability_of_zero_forbids_nothing() -> None:
    allowed = transitions(("O", "B-X", "I-X"), "BIO")
    certain = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0]], dtype=np.float32)
    tags = [("O", "B-X", "I-X")[number] for number in viterbi(certain, allowed)]
    assert tags == ["B-X", "I-X"]


def test_the_end_of_a_sentence_counts() -> None:
    labels = ("O", "B-X", "I-X", "E-X", "S-X")
    open_ended = np.array([[0.1, 0.6, 0.1, 0.1, 0.1]])
    open_ended[0, 4] = 0.2
    [number] = viterbi(open_ended, transitions(labels, "IOBES"))
    assert labels[number] == "S-X"


def test_outside_stands_for_the_edge() -> None:
    assert parse_tag("O") == OUTSIDE
    assert entities_of([]) == []
    assert first_invalid([], "IOBES") is None
    assert viterbi(np.empty((0, 3)), transitions(("O", "B-X", "I-X"), "BIO")).size == 0

import pytest

from heedful.reading.tagging import Entity, TaggedText
from heedful.tasks.answers.entities import FoundEntity, Tagging
from heedful.tasks.item_scorers.entities import Span, entities, mistakes


@pytest.mark.parametrize(
    ("true", "predicted", "kinds"),
    [
        ([(0, 3, "A")], [(0, 3, "A")], []),
        ([(0, 3, "A")], [(0, 3, "B")], ["type"]),
        ([(0, 3, "A")], [(0, 4, "A")], ["boundary"]),
        ([(0, 3, "A")], [(1, 4, "B")], ["boundary and type"]),
        ([(0, 3, "A")], [(3, 4, "A")], ["missed", "invented"]),
        ([(0, 3, "A")], [], ["missed"]),
        ([], [(0, 3, "A")], ["invented"]),
        # One entity for two: the likest is moved, and nothing is predicted for the other.
        ([(0, 3, "A"), (4, 9, "A")], [(0, 9, "A")], ["boundary", "missed"]),
        # The same type goes before a longer common part.
        ([(0, 9, "A")], [(0, 6, "B"), (7, 9, "A")], ["boundary", "invented"]),
    ],
)
def test_kinds_of_mistakes(true: list[Span], predicted: list[Span], kinds: list[str]) -> None:
    assert [kind for kind, _, _ in mistakes(true, predicted)] == kinds


def test_each_entity_is_part_of_one_mistake() -> None:
    true = [(0, 3, "A"), (4, 9, "A"), (10, 12, "B")]
    predicted = [(0, 9, "A"), (10, 12, "B"), (11, 15, "B")]
    told = mistakes(true, predicted)
    assert told == [
        ("boundary", (4, 9, "A"), (0, 9, "A")),
        ("missed", (0, 3, "A"), None),
        ("invented", None, (11, 15, "B")),
    ]


def tagging(*spans: tuple[Span, float], text: str) -> Tagging:
    return Tagging(
        entities=tuple(
            FoundEntity(label=label, start=start, end=end, text=text[start:end], score=score)
            for (start, end, label), score in spans
        ),
        make_words=tuple,
        tokens_total=5,
        tokens_used=5,
        windows=1,
    )


def test_what_an_explanation_is_about() -> None:
    text = "Ann Lee saw New Lima"
    record = TaggedText(text=text, words=None, entities=(Entity(0, 7, "PER"),), source="a", line=1)
    scorer = entities(("LOC", "PER"))

    def doubtful(*spans: tuple[Span, float]) -> str | None:
        (result,) = scorer.results([(tagging(*spans, text=text), record)])
        return result.explain_target

    right, wrong = (0, 7, "PER"), (12, 20, "LOC")
    assert doubtful((right, 0.9), (wrong, 0.95)) == "New"  # it is wrong
    assert doubtful((right, 0.9)) == "Ann"
    assert doubtful() is None


def test_an_entity_is_told_from_the_same_words_before_it() -> None:
    text = "Ann Lee saw Ann May near Ann"
    record = TaggedText(text=text, words=None, entities=(Entity(0, 7, "PER"),), source="a", line=1)
    scorer = entities(("LOC", "PER"))

    def doubtful(*spans: tuple[Span, float]) -> str | None:
        (result,) = scorer.results([(tagging(*spans, text=text), record)])
        return result.explain_target

    second, third = (12, 15, "LOC"), (25, 28, "LOC")
    assert doubtful((second, 0.9)) == "Ann May"
    assert doubtful((second, 0.8), (third, 0.9)) == "Ann May"  # nothing tells the third
    assert doubtful((third, 0.9)) is None

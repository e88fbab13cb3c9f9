import pytest

from heedful.tasks.judges.entities import Span, mistakes


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

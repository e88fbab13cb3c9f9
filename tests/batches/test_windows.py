from itertools import chain, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from heedful.batches.windows import fit_pair, fit_text, split_evenly, windows
from heedful.errors import UserError
from heedful.settings import LongText

counts = st.integers(0, 60)
limits = st.integers(1, 20)
rules: st.SearchStrategy[LongText] = st.sampled_from(["window", "head", "head-tail"])


def ids_of(count: int, start: int = 0) -> list[int]:
    return list(range(start, start + count))


@given(counts, limits, st.data())
def test_windows_cover_every_token(count: int, limit: int, data: st.DataObject) -> None:
    stride = data.draw(st.integers(0, limit - 1))
    ids = ids_of(count)
    found = [list(window) for window in windows(ids, limit, stride)]
    assert sorted(set(chain.from_iterable(found))) == ids
    assert all(window == ids[window[0] : window[-1] + 1] for window in found if window)
    if count <= limit:
        assert found == [ids]
        return
    assert all(len(window) == limit for window in found)
    assert found[-1][-1] == ids[-1]
    shared = [len({*one} & {*two}) for one, two in pairwise(found)]
    assert shared[:-1] == [stride] * (len(shared) - 1)
    assert stride <= shared[-1] < limit


@pytest.mark.parametrize(
    ("count", "limit", "stride", "expected"),
    [
        (0, 3, 1, [[]]),
        (3, 3, 1, [[0, 1, 2]]),
        (4, 3, 1, [[0, 1, 2], [1, 2, 3]]),
        (5, 3, 1, [[0, 1, 2], [2, 3, 4]]),
        (6, 3, 0, [[0, 1, 2], [3, 4, 5]]),
        (7, 3, 0, [[0, 1, 2], [3, 4, 5], [4, 5, 6]]),
        (3, 1, 0, [[0], [1], [2]]),
    ],
)
def test_windows(count: int, limit: int, stride: int, expected: list[list[int]]) -> None:
    assert windows(ids_of(count), limit, stride) == expected


@given(st.integers(0, 100), st.integers(1, 30))
def test_pieces_apart_share_nothing(count: int, limit: int) -> None:
    fitted = split_evenly(range(count), limit)
    assert list(chain(*fitted.pieces)) == list(range(count))
    lengths = [len(piece) for piece in fitted.pieces]
    assert max(lengths) <= limit
    assert max(lengths) - min(lengths) <= 1
    assert fitted.tokens_used == fitted.tokens_total == count


def test_head_and_tail_are_those_of_the_paper() -> None:
    ids = ids_of(1000)
    fitted = fit_text(ids, limit=510, rule="head-tail")
    assert fitted.pieces == [[*ids[:128], *ids[-382:]]]
    assert (fitted.tokens_total, fitted.tokens_used) == (1000, 510)
    assert fit_text(ids, limit=126, rule="head-tail").pieces == [[*ids[:32], *ids[-94:]]]
    long = fit_text(ids_of(10_000), limit=5100, rule="head-tail").pieces[0]
    assert (long[1279], long[1280]) == (1279, 6180)
    assert fit_text(ids, limit=1, rule="head-tail").pieces == [[999]]
    assert fit_text(ids, limit=510, rule="head").pieces == [ids[:510]]


@given(counts, limits, rules)
def test_a_text_is_counted_exactly(count: int, limit: int, rule: LongText) -> None:
    ids = ids_of(count)
    fitted = fit_text(ids, limit=limit, rule=rule, stride=limit // 3)
    assert fitted.tokens_total == count
    assert fitted.tokens_used == len(set(chain.from_iterable(fitted.pieces)))
    assert fitted.tokens_used == (count if rule == "window" else min(count, limit))
    assert all(len(piece) <= limit for piece in fitted.pieces)
    if rule != "window":
        assert len(fitted.pieces) == 1


@given(counts, counts, limits, rules, st.data())
def test_a_pair_is_counted_exactly(
    one: int, two: int, limit: int, rule: LongText, data: st.DataObject
) -> None:
    stride = data.draw(st.integers(0, limit - 1))
    first, second = ids_of(one), ids_of(two, start=1000)
    if rule == "window" and limit - min(one, two) < limit / 16:
        rule = "head"  # such windows would be too narrow
    fitted = fit_pair(first, second, limit=limit, rule=rule, stride=stride)
    used = set(chain.from_iterable([*a, *b] for a, b in fitted.pieces))
    assert fitted.tokens_total == one + two
    assert fitted.tokens_used == len(used)
    assert all(len(a) + len(b) <= limit for a, b in fitted.pieces)
    assert all([*a] == sorted(a) and [*b] == sorted(b) for a, b in fitted.pieces)
    if one + two <= limit:
        assert fitted.pieces == [(first, second)]
    elif rule == "window":
        assert fitted.tokens_used == one + two
        kept_text = 1 if one > two else 0
        assert all(list(pair[kept_text]) == [first, second][kept_text] for pair in fitted.pieces)
    else:
        assert len(fitted.pieces) == 1
        assert fitted.tokens_used == limit


def test_windows_beside_a_text_that_leaves_little_room() -> None:
    fitted = fit_pair(ids_of(9), ids_of(16, start=100), limit=13, rule="window", stride=12)
    assert [list(second) for _, second in fitted.pieces] == [
        ids_of(4, start) for start in range(100, 113, 2)
    ]


@pytest.mark.parametrize(("beside", "windows"), [(32, 5000 // 16), (31, 1), (1, 1), (0, 1)])
def test_windows_are_not_too_narrow(beside: int, windows: int) -> None:
    """One nearly full text would otherwise need thousands of windows."""
    first, second = ids_of(512 - beside), ids_of(5000, start=1000)
    for pair in ((first, second), (second, first)):
        fitted = fit_pair(*pair, limit=512, rule="window", stride=128)
        assert len(fitted.pieces) == pytest.approx(windows, abs=2)
        assert fitted.tokens_used == (512 if windows == 1 else fitted.tokens_total)


words = Tokenizer(WordLevel({str(number): number for number in range(200)} | {"?": 200}, "?"))
words.pre_tokenizer = WhitespaceSplit()


@given(counts, counts, limits)
def test_the_head_of_a_pair_is_that_of_the_reference(one: int, two: int, limit: int) -> None:
    first, second = ids_of(one), ids_of(two, start=100)
    words.enable_truncation(limit, strategy="longest_first")
    expected = words.encode(" ".join(map(str, first)), " ".join(map(str, second)))
    [(head, other)] = fit_pair(first, second, limit=limit, rule="head").pieces
    assert [*head, *other] == expected.ids


@pytest.mark.parametrize(
    ("limit", "stride", "message"),
    [
        (0, 0, "maximum length leaves room for 0 tokens of text, not at least 1"),
        (-2, 0, "maximum length leaves room for -2 tokens of text, not at least 1"),
        (5, 5, "stride 5: neighbouring windows of 5 tokens can share 0 to 4"),
        (5, -1, "stride -1: neighbouring windows of 5 tokens can share 0 to 4"),
    ],
)
def test_limits_that_cannot_be(limit: int, stride: int, message: str) -> None:
    for call in (
        lambda: windows([1], limit, stride),
        lambda: fit_text([1], limit=limit, rule="head", stride=stride),
        lambda: fit_pair([1], [2], limit=limit, rule="head", stride=stride),
    ):
        with pytest.raises(UserError) as caught:
            call()
        assert str(caught.value) == message


@given(counts, counts, limits)
def test_of_a_pair_without_room_for_windows_the_head_is_read(
    one: int, two: int, limit: int
) -> None:
    first, second = ids_of(one + limit), ids_of(two + limit, start=100)
    found, head = (fit_pair(first, second, limit=limit, rule=rule) for rule in ("window", "head"))
    assert found == head
    assert found.tokens_used == limit < found.tokens_total

import csv
import io
import re
from collections.abc import Callable, Iterator
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful.errors import UserError
from heedful.reading import delimited
from heedful.reading.delimited import Row, csv_rows, delimiter_of, tsv_rows


def lines_of(text: str) -> Iterator[str]:
    return iter(re.findall(r"[^\n]*\n|[^\n]+", text))


def rows_of(text: str) -> list[tuple[int, list[str]]]:
    return list(csv_rows(lines_of(text), "a.csv"))


def error_of(text: str) -> str:
    with pytest.raises(UserError) as caught:
        rows_of(text)
    return str(caught.value)


cells = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
quotable = st.text(st.sampled_from('",\r\n a\u2028'), max_size=8)


@given(
    st.integers(1, 4).flatmap(
        lambda width: st.lists(
            st.lists(cells | quotable, min_size=width, max_size=width), min_size=1, max_size=8
        )
    ),
    st.booleans(),
)
def test_what_the_standard_library_writes_is_read_back(
    table: list[list[str]], everywhere: bool
) -> None:
    # With CRLF line ends the writer quotes cells that hold CR or LF, as RFC 4180 asks.
    file = io.StringIO(newline="")
    quoting: Literal[0, 1] = csv.QUOTE_ALL if everywhere else csv.QUOTE_MINIMAL
    csv.writer(file, quoting=quoting, lineterminator="\r\n").writerows(table)
    assert [row for _, row in rows_of(file.getvalue())] == table


plain = st.text(st.sampled_from("ab ;'\t"), min_size=1, max_size=6)


@given(
    st.integers(2, 4).flatmap(
        lambda width: st.lists(
            st.lists(st.tuples(plain, st.booleans()), min_size=width, max_size=width),
            min_size=1,
            max_size=12,
        )
    )
)
def test_quotes_that_never_close_swallow_nothing(table: list[list[tuple[str, bool]]]) -> None:
    rows = [['"' + cell if quoted else cell for cell, quoted in row] for row in table]
    text = "".join(",".join(row) + "\n" for row in rows)
    assert rows_of(text) == list(enumerate(rows, start=1))


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        pytest.param('a,b\n"c\nd",e\nf,g\n', [(2, ["c\nd", "e"]), (4, ["f", "g"])], id="two lines"),
        pytest.param('a,b\n"c\r\n\r\nd",e\r\n', [(2, ["c\r\n\r\nd", "e"])], id="CRLF inside"),
        pytest.param('a,b\n"say ""x""",""\n', [(2, ['say "x"', ""])], id="doubled"),
        pytest.param('a,b\n5" disk,x"y"z\n', [(2, ['5" disk', 'x"y"z'])], id="in the middle"),
        pytest.param("a,b\n\n\r\nc,d\n\n", [(4, ["c", "d"])], id="empty lines"),
        pytest.param("a,b\nc,d", [(2, ["c", "d"])], id="no last line end"),
        pytest.param('a,b\n"c,d\ne,f\n', [(2, ['"c', "d"]), (3, ["e", "f"])], id="open at start"),
        pytest.param('a,b\nc,"d\ne,f\n', [(2, ["c", '"d']), (3, ["e", "f"])], id="open in second"),
        pytest.param('a,b\n"c" d,e\n', [(2, ['"c" d', "e"])], id="closed too early"),
        pytest.param('a,b\nc,"d', [(2, ["c", '"d'])], id="open at the end"),
        pytest.param('"a,b\nc,d\n', [(2, ["c", "d"])], id="open in the first row"),
        pytest.param(
            'a,b\nc,"open\n"d\nd",e\nf,"g\n',
            [(2, ["c", '"open']), (3, ["d\nd", "e"]), (5, ["f", '"g'])],
            id="open before and after a record of two lines",
        ),
        pytest.param(
            'a,b\nc,"open\ne,f\ng","h"\n',
            [(2, ["c", '"open']), (3, ["e", "f"]), (4, ['g"', "h"])],
            id="closed by accident two lines later, with a field too many",
        ),
        pytest.param('a,b\n "c" d, "e\n', [(2, [' "c" d', ' "e'])], id="in the middle, spaces"),
        pytest.param(
            'a,b\n" ""c"""," ""c"" "\n', [(2, [' "c"', ' "c" '])], id="doubled beside spaces"
        ),
        pytest.param(
            'a,b\nc,"open\n"\rd",e\n', [(2, ["c", '"open']), (3, ["\rd", "e"])], id="CR after"
        ),
    ],
)
def test_quotes(text: str, rows: list[tuple[int, list[str]]]) -> None:
    assert rows_of(text)[1:] == rows


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('a,b\n"c,d"\n', "line 2: 1 field, expected 2 as in line 1"),
        ("a,b\nc\n", "line 2: 1 field, expected 2 as in line 1"),
        ("\na,b\n\nc,d,e\n", "line 4: 3 fields, expected 2 as in line 2"),
        ('a,b\nc,d\n"e\nf"\ng,h\n', "line 3: 1 field, expected 2 as in line 1"),
        (
            'a,b\n"c" d, e,f\ng,h\n',
            "line 2: quotes do not balance, or are not at both ends of a field; with "
            "quotes as plain characters the line has 3 "
            "fields, expected 2 as in line 1",
        ),
        ("a,b\nc\rd,e\n", "line 2: a carriage return outside quotes; lines end in LF or CRLF"),
        ("a,b\rc,d\r", "line 1: a carriage return outside quotes; lines end in LF or CRLF"),
    ],
)
def test_rows_that_cannot_be_read(text: str, message: str) -> None:
    assert error_of(text) == f"a.csv, {message}"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('"a", "b"\nc,d\n', 1),
        ('a,b\nc, "d"\n', 2),
        ('a,b\nc,d\n"c" ,d\n', 3),
        ('a,b\nc,  "d, ""e"""\n', 2),
        ('a,b\nc, "d, e"\n', 2),
        ('a,b\n "c\nd",e\n', 2),
    ],
)
def test_a_space_beside_quotes_is_told(text: str, line: int) -> None:
    assert error_of(text) == (
        f"a.csv, line {line}: there is a space next to the quotes of a field, so they do not quote "
        "it; delete the space"
    )


def test_a_field_may_be_longer_than_the_parser_s_own_limit() -> None:
    long = "x" * 2000
    csv.field_size_limit(1000)
    assert delimiter_of(lines_of(f"{long};lab\n" * 3), header=False) == ";"
    csv.field_size_limit(1000)
    assert rows_of(f'a,b\n"{long}",{long}\n')[1] == (2, [long, long])


def test_an_open_quote_is_followed_only_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "MAX_RECORD_CHARS", 1000)
    taken = 0

    def count() -> Iterator[str]:
        nonlocal taken
        for line in ["a,b\n", '"open,c\n', *["d,e\n"] * 10_000]:
            taken += 1
            yield line

    rows = csv_rows(count(), "a.csv")
    assert [next(rows), next(rows)] == [(1, ["a", "b"]), (2, ['"open', "c"])]
    assert taken < 300
    assert sum(1 for _ in rows) == 10_000


def test_hostile_quotes_cost_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "MAX_RECORD_CHARS", 10_000)
    # Each line closes the field that the line before opened, and opens one itself.
    assert error_of("a,b\n" + 'b","c\n' * 100_000) == (
        "a.csv, line 4: too many quotes do not balance up to this line; if quotes are plain "
        "characters, the format is TSV"
    )


def test_many_open_quotes_are_read_when_each_costs_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "MAX_RECORD_CHARS", 1000)
    assert len(rows_of("a,b\n" + '"open,c\nd,e\n' * 5000)) == 10_001


def test_quotes_in_tsv_are_plain_characters() -> None:
    assert list(tsv_rows(lines_of("a\tb\r\r\nc\td\r\r\n"), "a.tsv"))[1] == (2, ["c", "d"])
    text = 'a\tb\r\n"c\td"\r\n\r\n""\t \n'
    assert list(tsv_rows(lines_of(text), "a.tsv")) == [
        (1, ["a", "b"]),
        (2, ['"c', 'd"']),
        (4, ['""', " "]),
    ]


def test_tsv_rows_of_another_width() -> None:
    with pytest.raises(UserError, match=r"^a\.tsv, line 3: 1 field, expected 2 as in line 1$"):
        list(tsv_rows(lines_of("a\tb\nc\td\ne\n"), "a.tsv"))


@pytest.mark.parametrize("split", [csv_rows, tsv_rows])
def test_empty_lines_are_rows_of_one_field_where_asked(split: Callable[..., Iterator[Row]]) -> None:
    text = "\ntext\na\n\n\r\nb\n\n\n"
    rows = list(split(lines_of(text), "a", keep_empty=True))
    assert rows == [(2, ["text"]), (3, ["a"]), (4, [""]), (5, [""]), (6, ["b"])]
    assert list(split(lines_of(text), "a")) == [row for row in rows if row[1] != [""]]


def test_empty_lines_are_no_rows_of_several_fields() -> None:
    assert list(csv_rows(lines_of("a,b\n\nc,d\n"), "a", keep_empty=True)) == [
        (1, ["a", "b"]),
        (3, ["c", "d"]),
    ]
    assert list(csv_rows(lines_of('"a\n\nb"\n\nc\n'), "a", keep_empty=True)) == [
        (1, ["a\n\nb"]),
        (4, [""]),
        (5, ["c"]),
    ]

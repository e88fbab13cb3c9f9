import gzip
import json
from pathlib import Path

import pytest

from heedful.errors import UserError
from heedful.reading.parallel import (
    PairFilter,
    letter_shares,
    read_pairs,
    read_sources,
    sides_look_swapped,
)
from heedful.reading.records import ColumnSettings, Record

GERMAN = ["Zwei junge Männer spielen draußen.", "Ein Hund läuft über die große Wiese."]
ENGLISH = ["Two young men are playing outside.", "A dog runs over the large meadow."]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    source, target = tmp_path / "train.de", tmp_path / "train.en"
    source.write_text("".join(f"{line}\n" for line in GERMAN))
    target.write_text("\r\n".join(ENGLISH))  # no end after the last line
    return source, target


def texts(records: object) -> list[tuple[str, str | None]]:
    return [(record.text, record.text_pair) for record in records]  # type: ignore[attr-defined]


def test_two_files_line_by_line(files: tuple[Path, Path], tmp_path: Path) -> None:
    pairs = list(zip(GERMAN, ENGLISH, strict=True))
    found = list(read_pairs(files, ColumnSettings()))
    assert texts(found) == pairs
    assert [(record.source, record.line) for record in found] == [
        (f"{files[0]} and {files[1]}", 1),
        (f"{files[0]} and {files[1]}", 2),
    ]
    packed = tmp_path / "more.de.gz"
    packed.write_bytes(gzip.compress(files[0].read_bytes()))
    assert texts(read_pairs([packed, files[1], *files], ColumnSettings())) == pairs * 2


@pytest.mark.parametrize("ending", ["tsv", "jsonl"])
def test_a_table_of_both(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"pairs.{ending}"
    rows = list(zip(GERMAN, ENGLISH, strict=True))
    if ending == "tsv":
        path.write_text("de\ten\n" + "".join(f"{one}\t{other}\n" for one, other in rows))
    else:
        objects = [json.dumps({"de": one, "en": other}) for one, other in rows]
        path.write_text("\n".join(objects) + "\n")
    columns = ColumnSettings(text="de", label="en")
    assert texts(read_pairs([path], columns)) == rows
    assert texts(read_sources([path], columns)) == [(one, None) for one in GERMAN]


def test_texts_alone(files: tuple[Path, Path]) -> None:
    files[0].write_text("\nEin Mann.\r\n\nEnde")
    found = texts(read_sources([files[0]], ColumnSettings()))
    assert found == [("", None), ("Ein Mann.", None), ("", None), ("Ende", None)]


@pytest.mark.parametrize("more", [1, 2])
@pytest.mark.parametrize("longer", [0, 1])
def test_files_of_different_length(files: tuple[Path, Path], more: int, longer: int) -> None:
    with files[longer].open("a") as stream:
        stream.write("\n" * longer + "x\n" * more)  # the second file has no end yet
    counts = [2, 2]
    counts[longer] += more
    with pytest.raises(UserError) as caught:
        list(read_pairs(files, ColumnSettings()))
    message = str(caught.value)
    assert message.startswith(f"{files[0]} has {counts[0]} lines and {files[1]} {counts[1]}: ")


def test_pairs_of_files_that_are_wrong(files: tuple[Path, Path], tmp_path: Path) -> None:
    source, target = files
    link = tmp_path / "link.en"
    link.symlink_to(source)
    table = tmp_path / "pairs.tsv"
    table.write_text("text\tlabel\na\tb\n")
    for paths, columns, message in [
        ([source, source], ColumnSettings(), "given as the texts and as their translations"),
        ([source, link], ColumnSettings(), "given as the texts and as their translations"),
        ([source], ColumnSettings(), "train.de: plain files come in pairs"),
        ([tmp_path], ColumnSettings(), "a folder; give a file"),
        ([source, target, table], ColumnSettings(), "either tables or plain files"),
        ([source, target], ColumnSettings(label="en"), "plain files have no columns"),
        ([table], ColumnSettings(text_pair="x"), "leave out --text-pair and --label-separator"),
        (
            [source, tmp_path / "train.enn"],
            ColumnSettings(),
            r"no such file \(did you mean 'train.en'",
        ),
    ]:
        with pytest.raises(UserError, match=message):
            list(read_pairs(paths, columns))


def test_what_is_wrong_in_a_file_is_named(files: tuple[Path, Path]) -> None:
    files[1].write_bytes(b"A man.\nA caf\xe9.\n")
    with pytest.raises(UserError, match=r"train\.en, line 2: not UTF-8 \(byte 6 is 0xe9; if"):
        list(read_pairs(files, ColumnSettings()))
    for path in files:
        path.write_text("")
    with pytest.raises(UserError, match=r"train\.de: holds no records"):
        list(read_pairs(files, ColumnSettings()))


def record(line: int = 1, text: str = "Ja", translation: str = "Yes") -> Record:
    return Record(text=text, text_pair=translation, labels=None, source="a.de", line=line)


def test_cleaning_says_what_it_drops_and_why() -> None:
    cleaning = PairFilter(max_tokens=11, max_ratio=3)
    assert cleaning.report() == ""
    sizes = [(1, 3), (10, 10), (0, 4), (4, 0), (11, 10), (2, 7), (3, 1), (9, 2), (1200, 1)]
    kept = [cleaning.keeps(record(line), *size) for line, size in enumerate(sizes, start=1)]
    assert kept == [True, True, False, False, False, False, True, False, False]
    assert cleaning.report() == (
        "dropped 6 of 9 pairs: 2 empty on a side (the first: a.de, line 3), "
        "2 longer than 11 tokens (the first: a.de, line 5), "
        "2 with more than 3 times the tokens on a side (the first: a.de, line 6)"
    )


def test_a_side_of_spaces_is_empty() -> None:
    cleaning = PairFilter(max_tokens=10, max_ratio=3)
    sides = [("Ja", "Yes"), (" ", "Yes"), ("Ja", "\t\u3000")]
    assert [cleaning.keeps(record(1, *each), 2, 2) for each in sides] == [True, False, False]
    assert cleaning.report() == "dropped 2 of 3 pairs: 2 empty on a side (the first: a.de, line 1)"


def pairs_of(sources: list[str], targets: list[str]) -> list[Record]:
    return [
        Record(text=one, text_pair=other, labels=None, source="a", line=1)
        for one, other in zip(sources, targets, strict=True)
    ]


def test_swapped_sides_are_noticed() -> None:
    """Even for languages with the same alphabet, by their letter frequencies."""
    german, english = letter_shares(GERMAN * 20), letter_shares(ENGLISH * 20)
    assert german["ß"] > 0
    assert sum(english.values()) == pytest.approx(1, abs=1e-4)
    straight, swapped = pairs_of(GERMAN * 20, ENGLISH * 20), pairs_of(ENGLISH * 20, GERMAN * 20)
    assert not sides_look_swapped(straight, german, english)
    assert sides_look_swapped(swapped, german, english)
    assert not sides_look_swapped(swapped, english, german)
    # Of a few words nothing is said, nor of two sides in one language.
    assert not sides_look_swapped(swapped[:2], german, english)
    assert not sides_look_swapped(pairs_of(GERMAN * 20, GERMAN * 20), german, english)


def test_real_languages_are_told_apart(data_folder: Path) -> None:
    folder = data_folder / "multi30k"

    def side(name: str, start: int) -> list[str]:
        with gzip.open(folder / name, "rt", encoding="utf-8") as stream:
            return stream.read().split("\n")[start : start + 200]

    german, english = (letter_shares(side(f"train.{lang}.gz", 0)) for lang in ("de", "en"))
    first, second = side("val.de.gz", 0), side("val.en.gz", 0)
    assert sides_look_swapped(pairs_of(second, first), german, english)
    assert not sides_look_swapped(pairs_of(first, second), german, english)

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from heedful.errors import UserError
from heedful.reading import conll
from heedful.reading.conll import join_words, read_conll
from heedful.reading.tagging import Entity, TaggedText, entities_of, parse_tag

SMALL = """\
-DOCSTART- -X- O O

EU NNP B-NP B-ORG
rejects VBZ B-VP O

Peter NNP B-NP B-PER
Blackburn NNP I-NP I-PER
-DOCSTART- O
"""


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., list[TaggedText]]:
    """Provide a function that writes a file and reads all its records."""

    def call(
        content: str,
        *,
        word: str | None = None,
        tag: str | None = None,
        labelled: bool = True,
        name: str = "f",
    ) -> list[TaggedText]:
        path = tmp_path / name
        raw = content.encode()
        path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
        return list(read_conll(path, word=word, tag=tag, labelled=labelled))

    return call


@pytest.mark.parametrize("name", ["f.txt", "f.bio.txt.gz"])
def test_sentences(read: Callable[..., list[TaggedText]], tmp_path: Path, name: str) -> None:
    one, two = read(SMALL, name=name)
    assert one == TaggedText(
        text="EU rejects",
        words=((0, 2), (3, 10)),
        entities=(Entity(0, 2, "ORG"),),
        source=str(tmp_path / name),
        line=3,
    )
    assert (two.text, two.line) == ("Peter Blackburn", 6)
    assert two.entities == (Entity(0, 15, "PER"),)
    assert two.where_of(Entity(6, 15, "PER")).endswith(", line 7")


def test_a_word_that_looks_like_the_start_of_a_document(
    read: Callable[..., list[TaggedText]],
) -> None:
    (whole,) = read("Ann B-PER\n-DOCSTART- O\nRome B-LOC\n")
    assert whole.text == "Ann -DOCSTART- Rome"
    assert [entity.label for entity in whole.entities or ()] == ["PER", "LOC"]
    assert [one.text for one in read("a -X- O\n-DOCSTART- -X- O\n\nb -X- O\n")] == ["a", "b"]


def test_columns_by_number(read: Callable[..., list[TaggedText]]) -> None:
    one, _ = read(SMALL, word="2", tag="3")
    assert one.text == "NNP VBZ"
    assert one.entities == (Entity(0, 3, "NP"), Entity(4, 7, "VP"))


def test_tabs_spaces_line_ends_and_blank_lines(read: Callable[..., list[TaggedText]]) -> None:
    content = "\n\t\r\nNew York\tB-LOC\r\n\u00a0a\u2028b\tO\r\n"
    content = content.replace("B-LOC", "B-LOC ")
    content += "   \r\n\n\nParis   O  \n\u00a0is\u2003so O\n"
    one, two = read(content)
    assert (one.text, one.entities) == ("New York \u00a0a\u2028b", (Entity(0, 8, "LOC"),))
    assert (two.text, two.entities, two.line) == ("Paris \u00a0is\u2003so", (), 8)


UNER = """\
# sent_id = 1
# text = # 1 is Rome
1\t#\tO\t-
2\t1\tO\t-
3\tis\tO\t-

# sent_id = 2
1\tRome\tB-LOC\t-
"""


def test_comments_of_conll_u_are_no_words(read: Callable[..., list[TaggedText]]) -> None:
    one, two = read(UNER, word="2", tag="3")
    assert (one.text, one.line, two.text, two.line) == ("# 1 is", 3, "Rome", 8)
    assert two.entities == (Entity(0, 4, "LOC"),)
    one, two = read("# id 7\tdomain=en\n# _ _ O\nRome _ _ B-LOC\n\n# id 8\tdomain=en\nis _ _ O\n")
    assert (one.text, one.line, two.text) == ("# Rome", 2, "is")
    (one,) = read("# O\nRome B-LOC\n")
    assert one.text == "# Rome"
    with pytest.raises(UserError, match=r"line 2: 3 columns, expected 2 as in line 1"):
        read("a O\n# b O\n")


@pytest.mark.parametrize(
    ("line", "word", "message"),
    [
        ("", None, "column 1 numbers the words of a sentence, as in CoNLL-U; give the columns"),
        (
            "1-2\tdu\t_\t_\n",
            "2",
            r"line 3: 1-2 is not the number of a single word \(CoNLL-U\); delete lines",
        ),
        ("0.1\tdu\t_\t_\n", "2", r"line 3: 0\.1 is not the number of a single word"),
    ],
)
def test_words_with_numbers(
    read: Callable[..., list[TaggedText]], line: str, word: str | None, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        read(UNER.replace("1\t#", f"{line}1\t#"), word=word, tag="3")


def test_cells_that_are_filled_up_with_spaces(read: Callable[..., list[TaggedText]]) -> None:
    (padded,) = read("Ann   \tB-PER\n went \tO\n \tO\n")
    assert padded.text == "Ann went  "
    assert padded.entities == (Entity(0, 3, "PER"),)


def test_words_alone(read: Callable[..., list[TaggedText]]) -> None:
    one, two = read("the\nsky\n\nis\n", labelled=False)
    assert (one.text, one.entities) == ("the sky", None)
    assert (two.words, two.line) == (((0, 2),), 4)
    assert [record.text for record in read(SMALL, labelled=False)] == [
        "EU rejects",
        "Peter Blackburn",
    ]


def test_each_file_shows_its_own_scheme(read: Callable[..., list[TaggedText]]) -> None:
    expected = [(), (Entity(0, 3, "X"), Entity(4, 5, "X"))]
    for written in ("B-X I-X B-X", "I-X I-X B-X", "B-X E-X S-X"):
        first, second, third = written.split()
        records = read(f"o O\n\na {first}\nb {second}\nc {third}\n")
        assert [record.entities for record in records] == expected


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("", {}, ": holds no sentences"),
        ("\n\n-DOCSTART- -X- O\n\n", {}, ": holds no sentences"),
        ("EU\n", {}, ", line 1: 1 column, expected a word and its tag"),
        ("EU B-ORG\nrejects\n", {}, ", line 2: 1 column, expected 2 as in line 1"),
        (
            "-DOCSTART-\n\nEU B-ORG\n\na b c\n",
            {},
            ", line 5: 3 columns, expected 2 as in line 3",
        ),
        ("EU\tB-ORG\n\tO\n", {}, ", line 2: empty word"),
        (
            "EU\t\n",
            {},
            ", line 1: tag '': must be O, or a prefix and a type such as B-PER; prefixes: "
            "B, I, E, S, L, U, M",
        ),
        ("EU B-ORG\n", {"tag": "3"}, ": no column 3; columns are numbered 1 to 2"),
        ("EU B-ORG\n", {"word": "0"}, ": no column 0; columns are numbered 1 to 2"),
        (
            "EU B-ORG\n",
            {"word": "token"},
            ": no column 'token'; read without a header, columns are numbered 1 to 2",
        ),
        (
            "a O\n\nb O\nc ORG\n",
            {},
            ", line 4: tag 'ORG': must be O, or a prefix and a type such as B-PER; prefixes: "
            "B, I, E, S, L, U, M",
        ),
        (
            "a B-X\n\nb O\nc I-X\n",
            {},
            ", line 4: tag 'I-X' cannot follow 'O' in BIO, the scheme of line 1",
        ),
        (
            "a O\nb B-X\n\nc I-X\n",
            {},
            ", line 4: tag 'I-X' cannot begin a sentence in BIO, the scheme of line 2",
        ),
        (
            "a B-X\nb I-Y\n",
            {},
            ", line 2: tag 'I-Y' cannot follow 'B-X' in BIO, the scheme of line 1",
        ),
        (
            "a I-X\nb O\nc B-X\n",
            {},
            ", line 3: tag 'B-X' cannot follow 'O' in IOB1, the scheme of line 1",
        ),
        (
            "a S-X\n\nb O\nc B-X\n\nd O\n",
            {},
            ", line 4: tag 'B-X' cannot end a sentence in IOBES, the scheme of line 1",
        ),
    ],
)
def test_what_cannot_be_read(
    read: Callable[..., list[TaggedText]],
    tmp_path: Path,
    content: str,
    options: dict[str, str],
    message: str,
) -> None:
    with pytest.raises(UserError) as caught:
        read(content, **options)
    assert str(caught.value) == f"{tmp_path / 'f'}{message}"


def test_a_file_without_blank_lines_is_not_held(
    read: Callable[..., list[TaggedText]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conll, "MAX_WORDS", 3)
    assert len(read("a O\n" * 3 + "\n" + "a O\n" * 3)) == 2
    with pytest.raises(UserError) as caught:
        read("a O\n" * 4)
    assert str(caught.value) == (
        f"{tmp_path / 'f'}, line 4: more than 3 words without a blank line, "
        "which must separate sentences"
    )


def test_a_missing_file_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        read_conll(tmp_path / "f")


def test_joined_words_are_slices() -> None:
    text, spans = join_words(["a", "bc", "d e", "f"])
    assert text == "a bc d e f"
    assert [text[start:end] for start, end in spans] == ["a", "bc", "d e", "f"]


@pytest.mark.parametrize(
    ("name", "sentences", "entities"),
    [("train", 14_041, 23_499), ("valid", 3_250, 5_942), ("test", 3_453, 5_648)],
)
def test_conll_2003(data_folder: Path, name: str, sentences: int, entities: int) -> None:
    """The counts are those of Tjong Kim Sang and De Meulder 2003, tables 1 and 2.

    Table 1 counts a document's mark as a sentence.
    """
    path = data_folder / "conll2003" / f"{name}.bio.txt.gz"
    records = list(read_conll(path))
    assert len(records) == sentences
    assert sum(len(record.entities or ()) for record in records) == entities
    lines = gzip.decompress(path.read_bytes()).decode().split("\n")
    for record in records[:300]:
        assert record.words is not None
        rows = [line.split() for line in lines[record.line - 1 :][: len(record.words)]]
        assert [record.text[start:end] for start, end in record.words] == [row[0] for row in rows]
        spans = entities_of([parse_tag(row[-1]) for row in rows])
        assert [(e.start, e.end) for e in record.entities or ()] == [
            (record.words[a][0], record.words[b - 1][1]) for a, b, _ in spans
        ]


CHARACTERS = "\u738b B-PER\n\u4e09 E-PER\n\u5728 O\nI B-ORG\nB M-ORG\nM E-ORG\n\u3002 O\n\n"


@pytest.mark.parametrize("others", [("I", "E"), ("M", "E"), ("M", "L")])
def test_a_column_of_characters_is_a_text_without_spaces(
    read: Callable[..., list[TaggedText]], others: tuple[str, str]
) -> None:
    content = CHARACTERS.replace("M-", f"{others[0]}-").replace("E-", f"{others[1]}-")
    one, two, *_ = read(f"{content}\u674e S-PER\nOS O\n2 O\nup O\n" + "\n\u4f60 O\n\u597d O\n" * 9)
    assert one.text == "\u738b\u4e09\u5728IBM\u3002"
    assert one.entities == (Entity(0, 2, "PER"), Entity(3, 6, "ORG"))
    assert one.words == tuple((at, at + 1) for at in range(7))
    assert two.text == "\u674eOS 2 up"
    assert two.entities == (Entity(0, 1, "PER"),)
    assert two.words == ((0, 1), (1, 3), (4, 5), (6, 8))


def test_a_column_of_korean_characters_has_the_spaces_that_have_a_line(
    read: Callable[..., list[TaggedText]],
) -> None:
    text = "\uadf8\ub294 \uc11c\uc6b8\uc5d0 \uac14\ub2e4."
    tags = {3: "B-LC", 4: "I-LC"}
    (one,) = read(
        "".join(f"{character}\t{tags.get(at, 'O')}\n" for at, character in enumerate(text))
    )
    assert one.text == text
    assert one.entities == (Entity(3, 5, "LC"),)
    assert one.words == tuple((at, at + 1) for at in range(len(text)))


def test_words_of_several_characters_keep_their_spaces(
    read: Callable[..., list[TaggedText]],
) -> None:
    (one,) = read("\u4e2d\u56fd B-LOC\n\u653f\u5e9c O\n")
    assert one.text == "\u4e2d\u56fd \u653f\u5e9c"
    (one,) = read("a O\nb O\n")
    assert one.text == "a b"


def test_a_blank_line_may_cut_an_entity_in_two(read: Callable[..., list[TaggedText]]) -> None:
    one, two = read(
        "\u5728 S-X\n\u4fc4 B-ORG\n\u7f57 M-ORG\n\n\u65af M-ORG\n\u9662 E-ORG\n\u58eb O\n"
    )
    assert one.entities == (Entity(0, 1, "X"), Entity(1, 3, "ORG"))
    assert two.entities == (Entity(0, 2, "ORG"),)
    for wrong in ("B M-PER\nB E-PER\n", "B O\n", "B S-ORG\n", ""):
        with pytest.raises(UserError, match="line 3: tag 'M-ORG' cannot end a sentence in IOBES"):
            read(f"A S-X\nA B-ORG\nA M-ORG\n\n{wrong}")
    with pytest.raises(UserError, match="line 5: tag 'M-ORG' cannot follow 'E-ORG'"):
        read("A S-X\nA B-ORG\n\nA E-ORG\nA M-ORG\n")


@pytest.mark.parametrize(("part", "sentences"), [("train", 3821), ("dev", 463), ("test", 477)])
def test_resumes(data_folder: Path, part: str, sentences: int) -> None:
    path = data_folder / f"zh/resumener/{part}.char.bmes.gz"
    records = list(read_conll(path))
    assert len(records) == sentences
    lines = gzip.decompress(path.read_bytes()).decode().split("\n")
    characters = [line[0] for line in lines if line.strip()]
    assert "".join(record.text for record in records) == "".join(characters)
    entities = [entity for record in records for entity in record.entities or ()]
    cut = 2 if part == "train" else 0  # by a blank line
    assert len(entities) == sum(" B-" in line or " S-" in line for line in lines) + cut

import gzip
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful.batches.sentences import SentenceRule, split_sentences
from heedful.errors import UserError
from heedful.reading import documents as documents_module
from heedful.reading.documents import read_documents

BOOK = "\n\nONE\n\n  It was\nlate. \n\n\nTWO \n \t\nIt was early.\n"


def stripped(text: str, rule: SentenceRule = "punctuation") -> list[str]:
    """Return the sentences of a text without the spaces between them."""
    return [sentence.strip() for sentence in split_sentences(text, rule)]


def texts(path: Path, layout: str) -> list[tuple[int, str]]:
    return [
        (document.line, document.text)
        for document in read_documents([path], layout)  # type: ignore[arg-type]
    ]


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        ("blank-line", [(3, "ONE"), (5, "It was\nlate."), (9, "TWO"), (11, "It was early.")]),
        ("gap", [(3, "ONE\n\nIt was\nlate."), (9, "TWO\n\nIt was early.")]),
        ("file", [(3, "ONE\n\nIt was\nlate.\n\nTWO\n\nIt was early.")]),
        ("line", [(3, "ONE"), (5, "It was"), (6, "late."), (9, "TWO"), (11, "It was early.")]),
    ],
)
def test_the_layout_says_where_documents_end(
    tmp_path: Path, layout: str, expected: list[tuple[int, str]]
) -> None:
    path = tmp_path / "book.txt"
    path.write_text(BOOK)
    assert texts(path, layout) == expected


def test_several_files_are_several_documents_and_gzip_is_inflated(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.txt", tmp_path / "b.txt.gz"
    plain.write_text("one\n\ntwo")
    packed.write_bytes(gzip.compress("\ufeffthrée\r\n".encode()))
    found = list(read_documents([plain, packed], "blank-line"))
    assert [item.text for item in found] == ["one", "two", "thrée"]
    assert [item.source for item in found] == [str(plain), str(plain), str(packed)]


def test_documents_are_streamed(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\n\ntwo\n\n\xff\n")
    stream = read_documents([path])
    assert next(stream).text == "one"
    with pytest.raises(UserError, match=r"a\.txt, line 5: not UTF-8"):
        next(stream)


@pytest.mark.parametrize("content", ["", "\n", " \n\t\n\n"])
def test_a_file_without_text_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.txt"
    path.write_text(content)
    with pytest.raises(UserError, match=r"a\.txt: holds no text$"):
        list(read_documents([path]))


def test_a_missing_file_is_named_at_once(tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text("a")
    with pytest.raises(UserError, match=r"corpsu\.txt: no such file \(did you mean 'corpus"):
        read_documents([tmp_path / "corpsu.txt"])
    with pytest.raises(UserError, match="no data file given"):
        read_documents([])


def test_an_endless_document_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents_module, "MAX_CHARACTERS", 8)
    path = tmp_path / "a.txt"
    path.write_text("12345678\n\n1234\n12345\n")
    message = r"a\.txt, line 4: the document that begins on line 3 has more than 8 characters"
    with pytest.raises(UserError, match=message):
        list(read_documents([path]))


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("First. Two! Three? Four", ["First.", "Two!", "Three?", "Four"]),
        ("It was\nlate. He\nleft", ["It was late.", "He left"]),
        ("CHAPTER I\n\nIt was late", ["CHAPTER I", "It was late"]),
        ("CHAPTER I\n \nIt was late", ["CHAPTER I", "It was late"]),
        ("Mr. Knightley and J. Fairfax. He left", ["Mr. Knightley and J. Fairfax.", "He left"]),
        ("the year ran out. So did I", ["the year ran out.", "So did I"]),
        ('"No!" she said. "Why?" He left.', ['"No!" she said.', '"Why?"', "He left."]),
        ("It cost 3.50 then. 4 now", ["It cost 3.50 then.", "4 now"]),
        ("Well... perhaps. No", ["Well... perhaps.", "No"]),
        ("他来了。她走了！真的？", ["他来了。", "她走了！", "真的？"]),
        ("वह आया। वह गया।", ["वह आया।", "वह गया।"]),
        ("他说：“走。”她不走；我走……你呢？！", ["他说：“走。”", "她不走；", "我走……", "你呢？！"]),
        ('又云："一事无成！"故曰"贾雨村"。', ['又云："一事无成！"', '故曰"贾雨村"。']),
        ('他想。"好！"', ["他想。", '"好！"']),
        ("真的?我不信!!太贵...算了", ["真的?", "我不信!!", "太贵...", "算了"]),
        ("他说……，然后走了。iPhone好", ["他说……，然后走了。", "iPhone好"]),
        ("什么……！你（真的。）好", ["什么……！", "你（真的。）", "好"]),
        ("价３．１４元．贵", ["价３．１４元．", "贵"]),
        ("「行った。」と言う。はい", ["「行った。」", "と言う。", "はい"]),
        ("wait…what", ["wait…what"]),
        ("滚滚长江，惯\n看秋月。\n一壶\nold wine", ["滚滚长江，惯看秋月。", "一壶 old wine"]),
        ("so Al. Next", ["so Al. Next"]),
        ("a b. ", ["a b."]),
        ("", []),
        (" \n\n ", []),
    ],
)
def test_sentences_end_by_punctuation(text: str, sentences: list[str]) -> None:
    assert stripped(text) == sentences


@given(st.text(alphabet='aB. !?\n"。」Mr'))
def test_no_text_is_lost_between_sentences(text: str) -> None:
    for rule in ("punctuation", "line"):
        sentences = stripped(text, rule)  # type: ignore[arg-type]
        assert "".join("".join(sentences).split()) == "".join(text.split())
        assert all(sentence == sentence.strip() != "" for sentence in sentences)


@given(st.text(alphabet='aB. !?\n"。」…？好Mr'))
def test_no_chinese_text_is_lost_between_sentences(text: str) -> None:
    running = split_sentences(text)
    assert "".join("".join(running).split()) == "".join(text.split())


@given(st.text(alphabet='aB. !?\n"Mr'))
def test_sentences_keep_the_spaces_between_them(text: str) -> None:
    assert "".join(split_sentences(text)) == " ".join(text.split())
    lines = [line for line in map(str.strip, text.split("\n")) if line]
    assert "".join(split_sentences(text, "line")) == " ".join(lines)


def test_a_long_run_of_marks_is_read_once() -> None:
    # Were each of them tried as the start of an end, this would take minutes.
    for text in ("." * 200_000, "x" + "!" * 200_000 + "x", ".'" * 100_000, "好" + "…" * 200_000):
        assert stripped(text) == [text]
    assert stripped("…" * 100_000 + "。" * 100_000 + "x")[1:] == ["x"]


def test_each_line_can_be_a_sentence() -> None:
    assert stripped("One. Two\n\n three \n", "line") == ["One. Two", "three"]


@pytest.mark.parametrize("name", ["a.csv", "a.TSV.gz", "a.jsonl", "a.json", "a.parquet"])
def test_tables_are_not_running_text(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("text,label\n")
    with pytest.raises(UserError, match="a table, by its name"):
        read_documents([tmp_path / name])


@pytest.mark.parametrize("name", ["honglou", "sanguo", "shuihu", "xiyou"])
def test_sentences_of_chinese_novels(data_folder: Path, name: str) -> None:
    documents = list(islice(read_documents([data_folder / f"zh/novels/{name}.txt.gz"]), 400))
    sentences = [sentence for one in documents for sentence in split_sentences(one.text)]
    for document in documents:
        split = "".join(split_sentences(document.text))
        assert "".join(split.split()) == "".join(document.text.split())
    assert sum(map(len, sentences)) / len(sentences) < 60
    strays = [sentence for sentence in sentences if sentence[0] in "”」』）》。！？；"]
    assert len(strays) < len(sentences) / 1000

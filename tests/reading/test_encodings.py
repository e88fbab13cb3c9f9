"""Texts that are not UTF-8: detected, read in the encoding of the user, or damaged earlier."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heedful.cli import run
from heedful.errors import UserError
from heedful.reading.choices import read_choices
from heedful.reading.conll import read_conll
from heedful.reading.documents import read_documents
from heedful.reading.encodings import count_damaged
from heedful.reading.lines import read_lines
from heedful.reading.parallel import read_pairs
from heedful.reading.phrases import read_phrases
from heedful.reading.records import read_records
from heedful.reading.spans import read_spans
from heedful.reading.squad import read_questions
from heedful.settings import ColumnSettings
from heedful.tasks.tag import Tag

SIMPLIFIED = "我们今天去了北京，那里的天气很好。\n"
TRADITIONAL = "我們今天去了台北，那裡的天氣很好。\n"


@pytest.mark.parametrize(
    ("text", "encoding", "hint"),
    [
        (SIMPLIFIED, "gb18030", "it looks like GB18030: give --encoding gb18030"),
        (SIMPLIFIED, "gbk", "it looks like GB18030: give --encoding gb18030"),
        (TRADITIONAL, "big5", "it looks like BIG5: give --encoding big5"),
        (f"plain\n{SIMPLIFIED}", "gb18030", "it looks like GB18030: give --encoding gb18030"),
        ("naïve café\n", "latin-1", None),
        ("Привет, как дела? Хорошо.\n", "cp1251", None),
    ],
)
def test_what_a_file_looks_like(tmp_path: Path, text: str, encoding: str, hint: str | None) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(text.encode(encoding))
    with pytest.raises(UserError, match=r"a\.txt, line \d: not UTF-8 \(byte \d+ is 0x..") as caught:
        list(read_lines(path))
    assert str(caught.value).endswith(f"; {hint})" if hint else "')"[1:])
    assert ("looks like" in str(caught.value)) == (hint is not None)
    assert list(read_lines(path, encoding=encoding)) == text.splitlines(keepends=True)


@pytest.mark.parametrize(
    ("text", "narrow", "wide"),
    [("城裏\n", "big5", "cp950"), ("朱镕基\n", "GB2312", "gb18030"), ("㐀\n", "gbk", "gb18030")],
)
def test_an_encoding_that_has_more_characters_is_named(
    tmp_path: Path, text: str, narrow: str, wide: str
) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(text.encode(wide))
    with pytest.raises(UserError, match=rf"; give --encoding {wide}, which has more characters\)$"):
        list(read_lines(path, encoding=narrow))
    assert list(read_lines(path, encoding=wide)) == [text]
    path.write_bytes(b"\xff\xff\n")
    with pytest.raises(UserError, match=r"byte 1 is 0xff\)$"):
        list(read_lines(path, encoding=narrow))


def test_what_a_file_looks_like_by_any_name_of_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(SIMPLIFIED.encode("gb18030"))
    with pytest.raises(UserError, match="it looks like GB18030: give --encoding gb18030"):
        list(read_lines(path, encoding="UTF8"))


@pytest.mark.parametrize(("name", "encoding"), [("cmrc2018/dev", "gb18030"), ("drcd/dev", "big5")])
def test_real_texts_are_recognised(
    data_folder: Path, tmp_path: Path, name: str, encoding: str
) -> None:
    raw = gzip.decompress((data_folder / f"zh/{name}.json.gz").read_bytes())
    paragraphs = [p for article in json.loads(raw)["data"] for p in article["paragraphs"]]
    path = tmp_path / "a.txt"
    for paragraph in paragraphs[::25]:
        path.write_bytes(paragraph["context"].encode(encoding, "ignore"))
        with pytest.raises(UserError, match=f"give --encoding {encoding}"):
            list(read_lines(path))


def test_what_is_not_in_the_encoding_is_placed(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("好\n".encode("gb18030") + b"ok \xff\n")
    with pytest.raises(UserError, match=r"a\.txt, line 2: not GB18030 \(byte 4 is 0xff\)"):
        list(read_lines(path, encoding="gb18030"))


def test_a_nul_that_is_no_byte_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"ok\na +AAA- b\n")
    with pytest.raises(UserError, match=r"a\.txt, line 2: a character is NUL; this is not a text"):
        list(read_lines(path, encoding="utf-7"))


CONTEXT = "北京是首都"
QUESTION = {"question": "哪里？", "context": CONTEXT, "answers": [{"text": "北京", "start": 0}]}


def _records(path: Path, encoding: str) -> Any:
    return read_records([path], ColumnSettings(label=None, encoding=encoding))


READERS: list[tuple[str, str, Callable[[Path, str], Any], Callable[[Any], str]]] = [
    *(
        (name, content, _records, lambda record: record.text)
        for name, content in (
            ("a.txt", CONTEXT),
            ("a.csv", f"text\n{CONTEXT}\n"),
            ("a.jsonl", json.dumps({"text": CONTEXT}, ensure_ascii=False)),
        )
    ),
    (
        "a.bmes",
        "北 B-A\n京 E-A\n",
        lambda p, e: read_conll(p, encoding=e),
        lambda r: f"{r.text}是首都",
    ),
    (
        "a.json",
        json.dumps({"text": CONTEXT, "label": {"A": {"北京": [[0, 1]]}}}, ensure_ascii=False),
        lambda p, e: read_spans(p, encoding=e),
        lambda r: r.text,
    ),
    (
        "a.jsonl",
        json.dumps(QUESTION, ensure_ascii=False),
        lambda p, e: read_questions([p], encoding=e),
        lambda r: r.context,
    ),
    (
        "a.jsonl",
        json.dumps({"question": CONTEXT, "choices": ["是", "不"], "answer": 0}, ensure_ascii=False),
        lambda p, e: read_choices([p], encoding=e),
        lambda r: r.question,
    ),
    (
        "a.tsv",
        f"text\tlabel\n{CONTEXT}\tBeijing\n",
        lambda p, e: read_pairs([p], ColumnSettings(encoding=e)),
        lambda r: r.text,
    ),
    ("a.txt", CONTEXT, lambda p, e: read_documents([p], encoding=e), lambda r: r.text),
    ("a.txt", CONTEXT, read_phrases, lambda r: r),
]


@pytest.mark.parametrize("encoding", ["gb18030", "big5", "utf-8"])
@pytest.mark.parametrize("case", range(len(READERS)))
def test_every_reader_takes_an_encoding(tmp_path: Path, case: int, encoding: str) -> None:
    name, content, read, text = READERS[case]
    path = tmp_path / name
    path.write_bytes(content.encode(encoding))
    (record,) = read(path, encoding)
    assert text(record) == CONTEXT


def test_plain_translations_and_tags_take_an_encoding(tmp_path: Path) -> None:
    paths = [tmp_path / "a.zh", tmp_path / "a.en"]
    for path, text in zip(paths, (SIMPLIFIED, "Today\n"), strict=True):
        path.write_bytes(text.encode("gb18030"))
    (pair,) = read_pairs(paths, ColumnSettings(encoding="gb18030"))
    assert pair.text == SIMPLIFIED.strip()
    paths[0].write_bytes("北 B-A\n京 E-A\n".encode("gb18030"))
    (tagged,) = Tag.read(paths[:1], ColumnSettings(encoding="gb18030"), labelled=True)
    assert tagged.text == "北京"


@pytest.mark.parametrize("name", ["utf-16", "utf-32", "gb18031", "base64", ""])
def test_encodings_that_cannot_be(name: str) -> None:
    with pytest.raises(UserError, match=f"^--encoding {name}: no encoding whose lines can be read"):
        ColumnSettings(encoding=name)


def test_what_was_lost_before_is_counted(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.txt", tmp_path / "b.txt.gz"
    plain.write_text("a\nb\ufffdc\ufffd\n", encoding="utf-8")
    packed.write_bytes(gzip.compress("\ufffd".encode()))
    assert count_damaged([plain]) == (
        "the training data has 2 U+FFFD, each in place of a character that was lost earlier; "
        f"the first: {plain}, line 2"
    )
    assert "has 3 U+FFFD" in (count_damaged([packed, plain]) or "")
    assert "has 2 U+FFFD" in (count_damaged([plain], "utf-8-sig") or "")
    plain.write_bytes("好\ufffd".encode("gb18030"))
    assert "has 1 U+FFFD" in (count_damaged([plain], "gb18030") or "")
    assert count_damaged([plain]) is None
    assert count_damaged([plain], "big5") is None


def test_the_titles_of_thucnews_hold_some(data_folder: Path) -> None:
    paths = [data_folder / f"zh/thucnews/{part}.txt.gz" for part in ("dev", "test")]
    assert "has 63 U+FFFD" in (count_damaged(paths) or "")


def test_commands(
    tiny_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{text}\ufffd,{text}\n" for text in "好坏" * 3)
    Path("a.csv").write_bytes(f"text,label\n{rows}".encode("gb18030"))
    Path("a.txt").write_bytes("好\n坏\n".encode("gb18030"))
    training = [
        "train",
        "classify",
        "--model",
        str(tiny_model),
        "--train",
        "a.csv",
        "--dev",
        "a.csv",
    ]
    training += ["--steps", "1", "--out", "run", "--precision", "fp32"]
    assert run(training) == 2
    assert "a.csv, line 2: not UTF-8 (byte 1 is 0xba" in capsys.readouterr().err
    encoding = ["--encoding", "gb18030"]
    assert run([*training, *encoding]) == 0
    assert capsys.readouterr().err.count("the training data has 6 U+FFFD") == 1
    assert run(["evaluate", "run", "--data", "a.csv", *encoding]) == 0
    assert run(["predict", "run", "--input", "a.txt", *encoding]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    vocabulary = ["vocabulary", "a.txt", "--size", "9", "--out", "words", *encoding]
    assert run(vocabulary) == 0, capsys.readouterr().err
    assert "坏" in Path("words/vocab.txt").read_text(encoding="utf-8").split()
    text = "今天很好。明天也好。\n\n我们去北京。他不去。\n"
    Path("book.txt").write_bytes(text.encode("gb18030"))
    training = ["train", "pretrain", "--model", str(tiny_model), "--train", "book.txt"]
    training += [
        "--out",
        "book",
        "--steps",
        "1",
        "--precision",
        "fp32",
        "--max-length",
        "16",
        "--objective",
        "mlm",
    ]
    assert run(training) == 2
    assert "it looks like GB18030" in capsys.readouterr().err

"""Lists of phrases, and phrases marked in running text."""

from pathlib import Path

import pytest

from heedful.errors import UserError
from heedful.reading.documents import Document
from heedful.reading.phrases import marked_phrases, read_phrases, unmark


def _document(text: str) -> Document:
    return Document(text=text, source="a.txt", line=7)


def test_a_list(tmp_path: Path) -> None:
    path = tmp_path / "phrases.txt"
    path.write_text("New York\n\n  United Nations \n北京大学\n", encoding="utf-8")
    assert read_phrases(path) == ["New York", "United Nations", "北京大学"]
    path.write_text("\n \n")
    with pytest.raises(UserError, match="holds no phrases"):
        read_phrases(path)


def test_marks() -> None:
    documents = [_document("In [[New\nYork]], not [york], by [[Ann]]."), _document("[[Ann]] a[1]")]
    assert marked_phrases(documents) == ["New York", "Ann"]
    texts = [document.text for document in unmark(documents)]
    assert texts == ["In New\nYork, not [york], by Ann.", "Ann a[1]"]


@pytest.mark.parametrize("text", ["in [[New York", "New]] York", "[[ ]]", "[[a [b] c]]"])
def test_half_of_a_mark(text: str) -> None:
    with pytest.raises(UserError, match=r"a.txt: after line 7 there is '[\[\]]+', half of a mark"):
        list(unmark([_document(text)]))


def test_a_long_text_after_an_unclosed_mark() -> None:
    document = _document("[[Ann]] [[New York " + "word " * 200_000)
    assert marked_phrases([document]) == ["Ann"]
    with pytest.raises(UserError, match=r"'\[\[', half of a mark"):
        list(unmark([document]))
